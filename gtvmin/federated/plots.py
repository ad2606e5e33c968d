"""Certified gap of federated runs against rounds, bytes or local gradients.  Needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gtvmin.federated.solution import FederatedSolution
from gtvmin.network_drawing import FAINT, INK, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_federated"]

MANY = 5
"""Runs beyond which the legend is in small print."""
COLOURS = (
    *("#22303c", "#d1495b", "#2a7f9e", "#e0a030", "#4f8a5b", "#8a5a9e"),
    *("#8c6d53", "#9aa5ae", "#9ad1e3", "#f2a7b0", "#b5cf6b", "#1f3fbf"),
)
LEAST = 1e-16
"""Where the vertical axis ends: below it nobody cares, though gaps can be had much smaller."""
NAMES = {
    "rounds": "communication rounds",
    "bytes": "bytes sent and received by all devices",
    "gradients": "local gradients",
}


def plot_federated(
    runs: Mapping[str, FederatedSolution] | Sequence[FederatedSolution],
    *,
    x: Literal["rounds", "bytes", "gradients"] = "rounds",
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the certified relative gap of several runs, each on the program that its algorithm declares.

    Parameters
    ----------
    runs : mapping from label to FederatedSolution, or sequence
        What to draw; without labels, by the algorithms' names.
    x : {"rounds", "bytes", "gradients"}
        The horizontal axis.
    title : str, optional
        Default: none.
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
        If x is another word, or a run has no program, and so no gap.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.federated.plots import plot_federated
    >>> from matplotlib.figure import Figure
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> runs = [gtv.federate(losses, "fedavg", rounds=30, weights="uniform", eta=eta) for eta in (0.2, 0.5)]
    >>> plot_federated(runs, x="bytes", ax=Figure().add_subplot()).get_yscale()
    'log'
    """
    if x not in NAMES:
        raise ValueError(f"x must be one of {', '.join(map(repr, NAMES))}, got {x!r}")
    labelled = dict(runs) if isinstance(runs, Mapping) else _labelled(runs)
    axes = new_axes((7.0, 4.4)) if ax is None else ax
    for k, (label, run) in enumerate(labelled.items()):
        if run.certificate is None:
            raise ValueError(f"{label!r} has no gap to draw: {run.program.note}")
        steps = np.array([_cost(record, x) for record in run.history])
        gaps = np.array([record.relative_gap for record in run.history])
        drawn = np.isfinite(gaps) & (gaps > 0) & (steps > 0)
        colour = COLOURS[k % len(COLOURS)]
        style = "-" if run.program.exact else (0, (4, 2))  # a bias ends on a floor
        shown = label if drawn.any() else f"{label}: none"  # such as gradients of an algorithm that minimises exactly
        axes.plot(steps[drawn], gaps[drawn], ls=style, color=colour, lw=1.6, label=shown)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(bottom=max(axes.get_ylim()[0], LEAST))
    axes.set_xlabel(NAMES[x])
    axes.set_ylabel("certified relative gap")
    axes.grid(True, which="major", color=FAINT, lw=0.6, alpha=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if labelled:
        axes.legend(edgecolor="none", framealpha=0.6, fontsize="small" if len(labelled) > MANY else None)
    if title:
        axes.set_title(title, loc="left", color=INK)
    return axes


def _labelled(runs: Sequence[FederatedSolution]) -> dict[str, FederatedSolution]:
    """Algorithms' names, counted where one comes again."""
    labelled: dict[str, FederatedSolution] = {}
    for run in runs:
        label, k = run.name, 1
        while label in labelled:
            k += 1
            label = f"{run.name} ({k})"
        labelled[label] = run
    return labelled


def _cost(record: Any, x: str) -> float:
    if x == "bytes":
        return float(record.bytes_up + record.bytes_down)
    return float(record.round if x == "rounds" else record.gradients)
