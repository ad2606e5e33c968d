"""Algorithms of a server that weights updates by how much they lower the loss."""

from __future__ import annotations

from gtvmin.federated.forms import federated_form
from gtvmin.federated.local_maps import setup_of
from gtvmin.federated.program import Entry, Program, Row, consensus
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.contextual import Contextual
from gtvmin.solvers.federated.folb import FOLB
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.participation import UniformSample

__all__ = ["ENTRIES", "ROWS"]


def folb(algorithm: FOLB, problem: GTVMin) -> Program:
    """No fixed point: the gap is reported on consensus, near which the models stay."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    return consensus(problem, p, exact=False, note="no fixed point: the models stay in a neighbourhood")


def contextual(algorithm: Contextual, problem: GTVMin) -> Program:
    """Consensus, with the exact gradient and updates that span the space."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    if algorithm.further is not None:
        return consensus(problem, p, exact=False, note="an estimated gradient: the models do not converge")
    pulling = int((federated_form(problem).local.smoothness > 0).sum())  # devices without a loss span nothing
    if setup_of(algorithm, problem).steps.max() > 1 and pulling < problem.dim:
        return consensus(problem, p, exact=False, note="fewer devices than parameters: it can stall while descending")
    return consensus(problem, p)


ENTRIES = {
    "contextual": Entry(Contextual, contextual, example={"weights": "uniform"}),
    "folb": Entry(FOLB, folb, example={"weights": "uniform"}),
}
CONSENSUS = "`argmin sum p_i L_i`"
ROWS = (
    Row("Contextual, exact gradient", Contextual("uniform", local_steps=5), CONSENSUS, "consensus"),
    Row(
        "Contextual, exact gradient, random devices",
        Contextual("uniform", local_steps=5, participation=UniformSample(2)),
        CONSENSUS,
        "consensus",
    ),
    Row(
        "Contextual, expected bound, random devices",
        Contextual("uniform", bound="expected", local_steps=5, participation=UniformSample(2)),
        CONSENSUS,
        "consensus",
    ),
    Row(
        "Contextual, K2 = 0",
        Contextual("uniform", further=0, local_steps=5, participation=UniformSample(4)),
        "none: the models do not converge",
        "the gap on consensus is reported",
    ),
    Row(
        "FOLB",
        FOLB("uniform", eta=0.1),
        "none: no fixed point, a neighbourhood of `argmin sum p_i L_i`",
        "the gap on consensus is reported",
    ),
)
