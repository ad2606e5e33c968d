"""Algorithms of a server whose devices keep a state that takes out the drift of local steps: exact consensus."""

from __future__ import annotations

from typing import Any

from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Entry, Program, Row, consensus
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.scaffold import Scaffold

__all__ = ["ENTRIES", "ROWS"]

NOISE = "random data points: the models hover about the limit"


def controlled(algorithm: Any, problem: GTVMin) -> Program:
    """Consensus with the weights of the controls, whatever the number of local steps and whoever takes part."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    noisy = getattr(algorithm, "batch", None) is not None
    return consensus(problem, p, exact=not noisy, note=NOISE if noisy else "")


ENTRIES = {
    "scaffold": Entry(Scaffold, controlled, example={"weights": "uniform"}),
}
ROWS = (
    Row("SCAFFOLD, option I", Scaffold("uniform", local_steps=5, option="I"), "`argmin sum p_i L_i`", "consensus"),
    Row("SCAFFOLD, option II", Scaffold("uniform", local_steps=5), "`argmin sum p_i L_i`", "consensus"),
)
