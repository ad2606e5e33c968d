"""Figures: what was learnt over the network, how the certified gap fell, and how clusters merge along a path.

They need matplotlib.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.clustering.plots import plot_dendrogram, plot_paths
from gtvmin.network_drawing import (
    FAINT,
    INK,
    draw_edges,
    draw_nodes,
    extend,
    name_axes,
    name_nodes,
    new_axes,
    node_positions,
    x_before_y,
)
from gtvmin.penalties import Norm
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gtvmin.network import FLNetwork
    from gtvmin.solution import Solution

__all__ = ["plot_convergence", "plot_dendrogram", "plot_network", "plot_paths"]

RED, BLUE = "#d1495b", "#2a7f9e"


def plot_network(
    solution: Solution,
    *,
    values: int | ArrayLike | Mapping[Any, float] | None = None,
    label: str | None = None,
    title: str | None = None,
    positions: ArrayLike | None = None,
    coordinate_names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the network with each device coloured by what it has learnt.

    Edges along which the parameters jump are drawn the stronger the larger ``||w_i - w_j||_2`` is; edges whose ends
    agree are faint.  A device whose loss uses no data is drawn as a ring.  Labels
    are written beside the devices where there are at most 30.

    Parameters
    ----------
    solution : Solution
        What to draw.
    values : int, array_like (n_nodes,) or mapping from label to number, optional
        The colours: one of the parameters by its position, or any number a device.  Default: the parameter with the
        largest standard deviation over the devices.
    label : str, optional
        Text at the colour bar: the quantity with its unit.
    title : str, optional
        Default: numbers of devices and clusters and the certified relative gap.
    positions : array_like (n_nodes, 2), optional
        Where to draw the devices.  Default: the network's coordinates, or a spring layout.
    coordinate_names : pair of str, optional
        Names of the coordinates.  Latitude and longitude are drawn as a map, longitude to the right.  Default: those
        of the network.
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
        If ``values`` or ``positions`` do not fit, or there are too many devices for a computed layout.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.plotting import plot_network
    >>> from matplotlib.figure import Figure
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 0.1, 3.0)]
    >>> solution = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, lam=0.2).solve()
    >>> ax = plot_network(solution, values=0, label="temperature (degC)", ax=Figure().add_subplot())
    >>> ax.get_title(loc="left")
    '3 devices in 2 clusters, certified relative gap ...'
    """
    network = solution.problem.network
    colours, default_label = _values(solution, values)
    names = network.coordinate_names if coordinate_names is None and positions is None else coordinate_names
    where = _positions(network, positions, names)
    axes = new_axes((8.0, 6.4)) if ax is None else ax
    draw_edges(axes, solution, where)
    bar = axes.figure.colorbar(
        draw_nodes(axes, solution, where, colours), ax=axes, extend=extend(colours), fraction=0.045, pad=0.025
    )
    bar.set_label(label or default_label, color=INK)
    bar.outline.set_visible(False)
    name_nodes(axes, solution, where)
    name_axes(axes, where, names, positions is None and network.coordinates is None)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper left", bbox_to_anchor=(0.0, -0.08), ncols=3, frameon=False, fontsize="small")
    axes.set_title(title or _network_title(solution), loc="left", color=INK)
    return axes


def _values(solution: Solution, values: Any) -> tuple[Array, str]:
    network, W = solution.problem.network, solution.weights
    if values is None:
        values = int(W.std(axis=0).argmax())
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        if not 0 <= values < W.shape[1]:
            raise ValueError(f"values: there is no parameter {values}, a device has {W.shape[1]}")
        return W[:, values], f"parameter {values}"
    if isinstance(values, Mapping):
        missing = next((node for node in network.nodes if node not in values), None)
        if missing is not None:
            raise ValueError(f"values has no number for node {missing!r}")
        values = [values[node] for node in network.nodes]
    numbers = np.asarray(values, dtype=float)
    if numbers.shape != (network.n_nodes,) or not np.isfinite(numbers).all():
        raise ValueError(f"values must be {network.n_nodes} finite numbers, one a device, got shape {numbers.shape}")
    return numbers, "value"


def _positions(network: FLNetwork, positions: ArrayLike | None, names: Sequence[str] | None) -> Array:
    if positions is None:
        return node_positions(network, names)
    where = np.asarray(positions, dtype=float)
    if where.shape != (network.n_nodes, 2) or not np.isfinite(where).all():
        raise ValueError(f"positions must be finite, of shape {(network.n_nodes, 2)}, got {where.shape}")
    return x_before_y(where, names)


def _network_title(solution: Solution) -> str:
    devices = f"{solution.problem.network.n_nodes} devices"
    if isinstance(solution.problem.penalty, Norm):  # other penalties make no clusters
        devices += f" in {len(set(solution.clusters().values()))} clusters"
    return f"{devices}, certified relative gap {solution.relative_gap:.1e}"


def plot_convergence(
    solution: Solution, *, x: str = "iteration", tolerance: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the certified relative gap of a run against its iterations or its time, with what it is made of.

    Beside it are drawn the distances of the objective to the final lower bound, and of the lower bound to the final
    objective: the larger one is what the run waits for.  All are relative to the final objective.

    Parameters
    ----------
    solution : Solution
        With its history.
    x : {"iteration", "seconds"}
        The horizontal axis.
    tolerance : float, optional
        Draws a line at the gap that was asked for.
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
        If x is another word.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.plotting import plot_convergence
    >>> from matplotlib.figure import Figure
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 0.1, 3.0)]
    >>> solution = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, lam=0.2).solve()
    >>> plot_convergence(solution, ax=Figure().add_subplot()).get_yscale()
    'log'
    """
    if x not in ("iteration", "seconds"):
        raise ValueError(f"x must be 'iteration' or 'seconds', got {x!r}")
    axes = new_axes((7.0, 4.4)) if ax is None else ax
    history, certificate = solution.history, solution.certificate
    size = certificate.gap / certificate.relative_gap if 0 < certificate.relative_gap < np.inf else 1.0
    above = [(record.primal - certificate.dual) / size for record in history]
    below = [(certificate.primal - record.dual) / size for record in history]
    curves = {
        "certified relative gap": ([record.relative_gap for record in history], INK, "o-", 2.2),
        "objective above the final bound": (above, RED, "-", 1.4),
        "bound below the final objective": (below, BLUE, "-", 1.4),
    }
    steps = np.array([getattr(record, x) for record in history], dtype=float)
    for name, (heights, colour, style, width) in curves.items():
        y = np.array(heights, dtype=float)
        drawn = np.isfinite(y) & (y > 0) & (steps > 0)
        if drawn.sum() > 1:
            order = 3 if colour == INK else 2
            axes.plot(steps[drawn], y[drawn], style, color=colour, lw=width, ms=3.5, label=name, zorder=order)
            axes.set_xscale("log")
    if 0 < certificate.relative_gap < np.inf:
        last = solution.iterations if x == "iteration" else solution.seconds
        axes.plot([last], [certificate.relative_gap], "D", color=INK, ms=5.0, label="certificate", zorder=4)
    if tolerance is not None:
        axes.axhline(tolerance, color=INK, lw=1.0, ls=(0, (4, 3)), zorder=1, label=f"asked for: {tolerance:g}")
    axes.set_yscale("log")
    if axes.get_xscale() == "linear":
        # one point has no scale of its own
        axes.set_xticks([solution.iterations if x == "iteration" else solution.seconds])
    axes.set_xlabel("iterations" if x == "iteration" else "seconds")
    axes.set_ylabel("relative to the objective")
    axes.grid(True, which="major", color=FAINT, lw=0.6, alpha=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    cost = f"{solution.iterations} iteration{'s' * (solution.iterations != 1)}, {solution.seconds:.2g} s"
    axes.set_title(f"{solution.method}: gap {solution.relative_gap:.1e} after {cost}", loc="left", color=INK)
    return axes
