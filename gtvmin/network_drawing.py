"""Parts of a drawn network: where devices stand, edges, markers, names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.points import latitude_longitude
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gtvmin.network import FLNetwork
    from gtvmin.solution import Solution

__all__ = [
    "FAINT",
    "INK",
    "LARGEST_LAYOUT",
    "draw_edges",
    "draw_nodes",
    "extend",
    "name_axes",
    "name_nodes",
    "new_axes",
    "node_positions",
    "x_before_y",
]

LARGEST_LAYOUT = 1000
"""Nodes up to which positions are computed where the network has none."""
MOST_NAMES = 30
"""Nodes up to which their labels are written beside them."""
FUSED = 1e-3
"""Jumps below this share of the largest are drawn as fused."""
INK, FAINT = "#20262e", "#c3c9d1"


def node_positions(network: FLNetwork, names: Sequence[str] | None = None) -> Array:
    """Positions (n_nodes, 2) for drawing, x before y: the coordinates if there are two, else a spring layout.

    Latitude and longitude, known by the names of the coordinates (by default the network's), have longitude as x.

    Raises
    ------
    ValueError
        If the network has not two coordinates and more than 1000 nodes.
    """
    if network.coordinates is not None and network.coordinates.shape[1] == 2:
        return x_before_y(network.coordinates, names or network.coordinate_names)
    if network.n_nodes > LARGEST_LAYOUT:
        raise ValueError(
            f"the network has no two coordinates, and {network.n_nodes} nodes are too many for a computed layout: give "
            "positions="
        )
    import networkx as nx

    layout = nx.spring_layout(network.to_networkx(), weight=None, iterations=200, seed=0)
    return np.array([layout[node] for node in network.nodes])


def x_before_y(where: Array, names: Sequence[str] | None) -> Array:
    """Positions with longitude before latitude, if they are named so; else as they are."""
    order = latitude_longitude(names or ())
    return where if order is None else where[:, [order[1], order[0]]]


def new_axes(size: tuple[float, float]) -> Axes:
    """Axes of a new pyplot figure of that size in inches."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('figures need matplotlib: pip install "gtvmin[plot]"') from error
    axes: Axes = plt.figure(figsize=size, layout="constrained").add_subplot()
    return axes


def limits(values: Array) -> tuple[float, float]:
    """Range of the colours: without the outer hundredths, so that a few extremes do not flatten the rest."""
    low, high = np.percentile(values, [1, 99]) if len(values) >= 100 else (values.min(), values.max())
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(high) + 0.5)


def extend(values: Array) -> str:
    """Which ends of a colour bar have values beyond them, in matplotlib's words."""
    low, high = limits(values)
    below, above = bool(values.min() < low), bool(values.max() > high)
    return {(True, True): "both", (True, False): "min", (False, True): "max", (False, False): "neither"}[below, above]


def draw_edges(axes: Axes, solution: Solution, where: Array) -> None:
    """Lines between neighbours: faint where their parameters agree, else dark and wide by the size of the jump."""
    from matplotlib.collections import LineCollection

    network, W = solution.problem.network, solution.weights
    if not network.n_edges:
        return
    segments = np.stack([where[network.tail], where[network.head]], axis=1)
    jump = np.linalg.norm(W[network.head] - W[network.tail], axis=1)
    size = jump / jump.max() if jump.max() > 0 else jump
    jumps = size > FUSED
    crowd = _crowd(network.n_nodes)
    if not jumps.all():
        agree = LineCollection(
            segments[~jumps], colors=FAINT, linewidths=1.1 * crowd, zorder=1, label="neighbours agree"
        )
        axes.add_collection(agree)
    if jumps.any():
        order = np.flatnonzero(jumps)[np.argsort(size[jumps])]
        strength = size[order]
        style = {"colors": INK, "alpha": 0.15 + 0.85 * strength, "linewidths": crowd * (0.8 + 2.0 * strength)}
        axes.add_collection(LineCollection(list(segments[order]), zorder=2, **style))
        axes.plot([], [], color=INK, linewidth=2.0, label="parameters jump (the darker, the more)")


def _crowd(n_nodes: int) -> float:
    """Scale of lines and markers: smaller where there are many."""
    return float(np.clip((100 / n_nodes) ** 0.35, 0.35, 1.6))


def draw_nodes(axes: Axes, solution: Solution, where: Array, values: Array) -> Any:
    """Coloured markers, with a hole where the loss uses no data; returns what a colour bar needs."""
    low, high = limits(values)
    unlabelled = np.array([loss.n_samples == 0 for loss in solution.problem.losses])
    size = 70 * _crowd(len(values)) ** 2
    style: dict[str, Any] = {"cmap": "viridis", "vmin": low, "vmax": high, "zorder": 3}
    drawn = axes.scatter(where[:, 0], where[:, 1], c=values, s=size, edgecolors="white", linewidths=0.4, **style)
    if unlabelled.any() and not unlabelled.all():
        axes.scatter(where[unlabelled, 0], where[unlabelled, 1], s=size / 4, c="white", zorder=4, linewidths=0)
        axes.plot([], [], "o", color="white", markeredgecolor=INK, markeredgewidth=2.0, label="device without data")
    return drawn


def name_nodes(axes: Axes, solution: Solution, where: Array) -> None:
    """Labels above the markers of a small network."""
    from matplotlib.patheffects import withStroke

    nodes = solution.problem.network.nodes
    if len(nodes) > MOST_NAMES:
        return
    halo = [withStroke(linewidth=2.0, foreground="white")]
    style: dict[str, Any] = {"fontsize": "x-small", "color": INK, "ha": "center", "zorder": 5, "path_effects": halo}
    for node, place in zip(nodes, where, strict=True):
        axes.annotate(str(node), place, xytext=(0, 8), textcoords="offset points", parse_math=False, **style)


def name_axes(axes: Axes, where: Array, names: Sequence[str] | None, computed: bool) -> None:
    """Names and shape of the axes: a map for latitude and longitude, nothing for a computed layout."""
    order = latitude_longitude(names or ())
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if order is not None:
        axes.set_xlabel("longitude (degrees)")
        axes.set_ylabel("latitude (degrees)")
        # a degree of longitude is shorter than one of latitude, by the cosine of the latitude
        axes.set_aspect(1.0 / max(float(np.cos(np.radians(where[:, 1].mean()))), 0.05))
    else:
        axes.set_aspect("equal", adjustable="datalim")
        if names is not None and len(names) == 2:
            axes.set_xlabel(names[0], parse_math=False)
            axes.set_ylabel(names[1], parse_math=False)
    if computed:
        axes.set_axis_off()
