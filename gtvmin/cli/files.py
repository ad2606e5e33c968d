"""What ``gtvmin solve`` writes besides parameters and certificate: figures and the summary."""

from __future__ import annotations

import io
import platform
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin import __version__
from gtvmin.results import CONVERGENCE, INTERCEPT, NETWORK
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gtvmin.cli.problem import Study
    from gtvmin.solution import Solution

__all__ = ["colour_of", "draw_figures", "summarise"]


def colour_of(study: Study, W: Array, chosen: str | None) -> tuple[Array, str]:
    """Numbers to colour the devices by, and what they are.

    Default: the parameter whose variation over the devices moves the predictions most.
    """
    v = study.variables
    if chosen is None:
        effect = W.std(axis=0) * np.r_[study.spread, np.ones(W.shape[1] - len(study.spread))]
        chosen = v.parameters[int(effect.argmax())]
    k = v.parameters.index(chosen)
    if v.scaling is None:
        what = f"{v.target} where all features are 0" if v.features else v.target
        return W[:, k], what if chosen == INTERCEPT else f"change of {v.target} per unit of {chosen}"
    if chosen == INTERCEPT:
        return v.scaling.level(W), f"{v.target} at average {', '.join(v.features)}"
    return v.scaling.slopes(W)[:, k], f"change of {v.target} per unit of {chosen}"


def draw_figures(study: Study, solution: Solution, chosen: str | None, tolerance: float) -> dict[str, bytes]:
    """Figures of the network and of the convergence as PNG files, by name.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('pip install "gtvmin[plot]"') from error
    from gtvmin.network_drawing import LARGEST_LAYOUT
    from gtvmin.plotting import plot_convergence, plot_network

    figures = {}
    v = study.variables
    if len(v.coordinates) == 2 or solution.problem.network.n_nodes <= LARGEST_LAYOUT:
        figure = Figure(figsize=(8.4, 6.8), layout="constrained")
        values, label = colour_of(study, solution.weights, chosen)
        names = v.coordinates if len(v.coordinates) == 2 else None
        # a dollar sign in a column's name starts no formula
        label = label.replace("$", r"\$")
        plot_network(solution, values=values, label=label, coordinate_names=names, ax=figure.add_subplot())
        figures[NETWORK] = _png(figure)
    else:
        study.notes.append(f"no {NETWORK}: more than {LARGEST_LAYOUT} devices are drawn only at two --coordinates")
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    plot_convergence(solution, tolerance=tolerance, ax=figure.add_subplot())
    figures[CONVERGENCE] = _png(figure)
    return figures


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # a label in a script that the font lacks is drawn as boxes
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


def summarise(study: Study, solution: Solution, settings: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """Contents of ``summary.json``."""
    import scipy

    c, v, net = solution.certificate, study.variables, solution.problem.network
    return {
        "format": "gtvmin summary 1",
        "certified": solution.is_certified,
        "tolerance": tolerance,
        "relative_gap": _finite(c.relative_gap),
        "gap": _finite(c.gap),
        "objective": c.primal,
        "lower_bound": _finite(c.dual),
        "status": solution.status.value,
        "method": solution.method,
        "iterations": solution.iterations,
        "seconds": solution.seconds,
        "minimises": study.formula,
        "parameters": list(v.parameters),
        "scaling": None if v.scaling is None else v.scaling.as_json(v.features, v.target),
        "devices": net.n_nodes,
        "edges": net.n_edges,
        "components": len(net.components()),
        "rows": study.n_rows,
        "unlabelled": list(study.unlabelled),
        "not_unique": [str(node) for node in solution.undetermined],
        "clusters": len(set(solution.clusters().values())),
        "notes": study.notes,
        "settings": settings,
        "problem_sha256": solution.problem.hash,
        "versions": {
            "gtvmin": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None
