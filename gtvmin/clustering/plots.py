"""Figures of a path of clusterings: the tree in which clusters merge, and the ways of the centroids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.network_drawing import FAINT, INK, new_axes
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gtvmin.clustering.path import ClusterPath

__all__ = ["plot_dendrogram", "plot_paths"]

# Okabe and Ito's colours, which the colour-blind can tell apart too, without black and yellow
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MOST_COLOURS = 24
"""Clusters beyond which colours say nothing."""
LOG_FROM = 30.0
"""Ratio of the largest to the smallest strength from which their axis is logarithmic."""


def plot_dendrogram(
    path: ClusterPath, *, n_clusters: int | None = None, max_leaves: int = 60, ax: Axes | None = None
) -> Axes:
    """Draw the merge tree of a path, each merge at the height of its `lam`.

    What no `lam` of the path joins is joined by dashed lines at the top.

    Parameters
    ----------
    path : ClusterPath
        What to draw.
    n_clusters : int, optional
        Draws a line where there are so many clusters, and their branches in colours.  Default: the clusters that are
        left in the end are coloured.
    max_leaves : int
        Trees with more leaves are cut to their last merges; a leaf in parentheses then stands for so many nodes.
    ax : matplotlib Axes, optional
        Where to draw.  Default: a new pyplot figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        Without matplotlib.
    HierarchyError
        If clusters of the path split.
    ValueError
        If no `lam` of the path gives that many clusters, or there is one node only.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.plotting import plot_dendrogram
    >>> from matplotlib.figure import Figure
    >>> path = gtv.clusterpath([[0.0], [1.0], [5.0]], [0.1, 0.4, 0.6, 1.0, 2.0], k=2, phi=0.0)
    >>> plot_dendrogram(path, ax=Figure().add_subplot()).get_ylabel()
    'lam'
    """
    from matplotlib.collections import LineCollection
    from scipy.cluster.hierarchy import dendrogram

    linkage = path.linkage
    if not len(linkage):
        raise ValueError("the path has one node: there is no tree to draw")
    position = len(path.lams) - 1 if n_clusters is None else path.position(n_clusters)
    heights = linkage[:, 2]
    joined = np.isfinite(heights)
    scale = _scale(heights[joined])
    top = _top(heights[joined], path.lams, scale)
    drawn = linkage.copy()
    drawn[~joined, 2] = top
    colours = _branch_colours(path, linkage, position)
    n = path.W.shape[1]
    names = [str(node) for node in path.problem.network.nodes]
    tree = dendrogram(
        drawn,
        no_plot=True,
        labels=names if n <= max_leaves else None,
        truncate_mode="lastp" if n > max_leaves else None,
        p=max_leaves,
        link_color_func=lambda node: colours[node - n],
    )
    axes = new_axes((8.0, 4.8)) if ax is None else ax
    levels = np.array(tree["dcoord"])
    floor = 0.0 if scale == "linear" else float(levels[levels > 0].min()) / 2.0
    links = [np.column_stack([x, np.maximum(y, floor)]) for x, y in zip(tree["icoord"], tree["dcoord"], strict=True)]
    above = levels.max(axis=1) >= top
    for chosen, style in ((~above, "solid"), (above, (0, (4, 3)))):
        picked = np.flatnonzero(chosen).tolist()
        kept = [tree["color_list"][k] for k in picked]
        axes.add_collection(LineCollection([links[k] for k in picked], colors=kept, linewidths=1.3, linestyles=style))
    axes.set_yscale(scale)
    axes.set_xlim(0.0, 10.0 * len(tree["ivl"]))
    axes.set_ylim(floor, top * (1.05 if scale == "linear" else 1.2))
    longest = max(map(len, tree["ivl"]))
    axes.set_xticks(10.0 * np.arange(len(tree["ivl"])) + 5.0, tree["ivl"], parse_math=False)
    crowded = longest * len(tree["ivl"]) > 80
    axes.tick_params(axis="x", length=0, labelrotation=90.0 if crowded else 0.0, labelsize="x-small")
    if n_clusters is not None and position + 1 < len(path.lams):
        cut = float(np.sqrt(path.lams[position] * path.lams[position + 1])) or float(path.lams[position + 1]) / 2.0
        axes.axhline(cut, color=INK, lw=1.0, ls=":", label=f"{n_clusters} clusters")
        axes.legend(frameon=False, loc="upper right")
    _name_tree(axes, path, bool(above.any()), n > max_leaves)
    return axes


def _scale(heights: Array) -> str:
    positive = heights[heights > 0]
    return "log" if positive.size and positive.max() > LOG_FROM * positive.min() else "linear"


def _top(heights: Array, lams: Array, scale: str) -> float:
    """Height of what no strength joins: above all merges."""
    last = float(heights.max(initial=0.0)) or float(lams[-1]) or 1.0
    return last * (1.15 if scale == "linear" else 2.0)


def _branch_colours(path: ClusterPath, linkage: Array, position: int) -> list[str]:
    """Colour of each merge: that of its cluster at a position of the path, or ink where it joins several of them."""
    n = len(linkage) + 1
    colours = _colours(path.labels[position])
    member = list(range(n))  # a leaf below each branch
    for row in linkage:
        member.append(member[int(row[0])])
    inside = linkage[:, 2] <= path.lams[position]
    return [colours[member[n + k]] if inside[k] else INK for k in range(n - 1)]


def _colours(labels: NDArray[np.int64]) -> list[str]:
    """Colour of each node: the larger clusters have one, single nodes and single clusters none."""
    count = np.bincount(labels)
    order = np.argsort(-count, kind="stable")
    coloured = [int(c) for c in order if count[c] > 1]
    if len(count) == 1 or len(coloured) > MOST_COLOURS:
        return [INK] * len(labels)
    palette = {c: COLOURS[k % len(COLOURS)] for k, c in enumerate(coloured)}
    return [palette.get(c, INK) for c in labels.tolist()]


def _name_tree(axes: Axes, path: ClusterPath, apart: bool, truncated: bool) -> None:
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    axes.set_ylabel("lam")
    axes.grid(True, axis="y", which="major", color=FAINT, lw=0.6, alpha=0.6)
    axes.set_axisbelow(True)
    n, left = path.W.shape[1], int(path.n_clusters[-1])
    title = f"{n} nodes"
    if apart:
        reason = (
            "components, which no lam joins" if left == path.n_components else f"clusters left at {path.lams[-1]:.3g}"
        )
        title += f", {left} {reason} (dashed)"
    if truncated:
        axes.set_xlabel("(number of nodes) where a leaf stands for several")
    axes.set_title(title, loc="left", color=INK)


def plot_paths(
    path: ClusterPath, *, dims: Sequence[int] = (0, 1), n_clusters: int | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the ways that the centroids take as `lam` grows, from the points to where they merge.

    Parameters
    ----------
    path : ClusterPath
        What to draw.
    dims : pair of int
        The two coordinates of the plane.  Points on a line are drawn against `lam` instead.
    n_clusters : int, optional
        Colours the points by their cluster where there are so many.  Default: those that are left in the end.
    ax : matplotlib Axes, optional
        Where to draw.  Default: a new pyplot figure.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ImportError
        Without matplotlib.
    ValueError
        If `dims` are no two coordinates of the points, or no `lam` of the path gives that many clusters.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.plotting import plot_paths
    >>> from matplotlib.figure import Figure
    >>> path = gtv.clusterpath([[0.0, 0.0], [1.0, 0.0], [5.0, 1.0]], k=2)
    >>> plot_paths(path, ax=Figure().add_subplot()).get_xlabel()
    'coordinate 0'
    """
    from matplotlib.collections import LineCollection

    n_nodes, dim = path.W.shape[1:]
    position = len(path.lams) - 1 if n_clusters is None else path.position(n_clusters)
    ways = _against_lam(path) if dim == 1 else path.W[:, :, _two_of(dims, dim)].transpose(1, 0, 2)
    colours = _colours(path.labels[position])
    axes = new_axes((7.2, 5.6)) if ax is None else ax
    crowd = float(np.clip((200 / n_nodes) ** 0.5, 0.15, 1.0))
    lines = LineCollection(list(ways), colors=colours, linewidths=0.4 + 0.6 * crowd, alpha=0.25 + 0.45 * crowd)
    axes.add_collection(lines)
    axes.scatter(
        ways[:, 0, 0], ways[:, 0, 1], s=4 + 14 * crowd, c=colours, linewidths=0, zorder=3, label=_start_name(path)
    )
    ends = path.labels[-1]
    last = ways[np.unique(ends, return_index=True)[1], -1]
    axes.scatter(
        last[:, 0],
        last[:, 1],
        s=60,
        marker="X",
        c=INK,
        edgecolors="white",
        linewidths=0.8,
        zorder=4,
        label="centroids at the end",
    )
    if dim == 1:
        axes.set_xlabel("lam")
        axes.set_ylabel("coordinate 0")
    else:
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xlabel(f"coordinate {dims[0]}")
        axes.set_ylabel(f"coordinate {dims[1]}")
    axes.autoscale_view()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, -0.1), ncols=2, fontsize="small")
    chosen = f", coloured: {n_clusters} clusters at lam={path.lams[position]:.3g}" if n_clusters is not None else ""
    axes.set_title(f"{n_nodes} nodes, lam up to {path.lams[-1]:.3g}{chosen}", loc="left", color=INK)
    return axes


def _against_lam(path: ClusterPath) -> Array:
    lams = np.broadcast_to(path.lams, path.W.shape[1::-1])
    return np.stack([lams, path.W[:, :, 0].T], axis=2)


def _two_of(dims: Any, dim: int) -> list[int]:
    pair = list(dims)
    if len(pair) != 2 or not all(isinstance(d, (int, np.integer)) and 0 <= d < dim for d in pair):
        raise ValueError(f"dims must be two of the coordinates 0 to {dim - 1}, got {dims!r}")
    return [int(d) for d in pair]


def _start_name(path: ClusterPath) -> str:
    return "points" if path.lams[0] == 0 else f"centroids at lam={path.lams[0]:.3g}"
