"""Algorithms of a server that averages local gradient steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtvmin.federated.forms import federated_form
from gtvmin.federated.local_maps import setup_of, step_surrogate
from gtvmin.federated.program import Entry, Program, Row, consensus, star
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.participation import All
from gtvmin.solvers.standard_form import Array

__all__ = ["ENTRIES", "ROWS"]

SEVERAL = "several local steps are biased; for quadratic losses see the surrogate"
SURROGATE = "minimise sum_i p_i G_i(w) over one model w, G_i the function whose gradient is what local steps move by"
RANDOM = "random devices or data points: the models hover about the limit"


def is_random(algorithm: Any) -> bool:
    """Whether devices or data points are drawn."""
    return algorithm.batch is not None or not isinstance(algorithm.participation, All)


def one_step(setup: Any) -> Array | None:
    """Weights by which a round of at most one gradient step a device descends; None for more steps."""
    if setup.steps is None or setup.steps.max(initial=0) > 1:
        return None
    weights = setup.p * setup.eta * setup.steps
    return np.asarray(weights / weights.sum())


def fed_avg(algorithm: FedAvg, problem: GTVMin) -> Program:
    """Consensus: the limit of one local step, and what the gap of more is reported on.

    Different step sizes of the devices, or some that make none, are part of the weights.
    """
    p = one_step(setup_of(algorithm, problem))
    if p is None:
        weights = aggregation_weights(federated_form(problem), algorithm.weights)
        return consensus(problem, weights, exact=False, note=SEVERAL)
    return consensus(problem, p, exact=not is_random(algorithm), note=RANDOM if is_random(algorithm) else "")


def fed_prox(algorithm: FedProx, problem: GTVMin) -> Program:
    """The star of exact minimisation, consensus for one gradient step; others are reported on the star."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    random = is_random(algorithm)
    if algorithm.exact:
        return star(problem, p, algorithm.mu, exact=not random, note=RANDOM if random else "")
    q = one_step(setup_of(algorithm, problem))
    if q is not None:
        return consensus(problem, q, exact=not random, note=RANDOM if random else "")
    if algorithm.mu == 0:
        return consensus(problem, p, exact=False, note=SEVERAL)
    return star(problem, p, algorithm.mu, exact=False, note="inexact minimisation is biased, towards consensus")


def surrogate(algorithm: FedAvg | FedProx, problem: GTVMin) -> Program:
    """``min_w sum_i p_i G_i(w)`` with the functions whose gradients are what K local steps do."""
    setup = setup_of(algorithm, problem)
    if setup.eta is None or setup.steps is None:
        raise ValueError("only a stated number of local steps has a surrogate")
    mu = algorithm.mu if isinstance(algorithm, FedProx) else 0.0
    Q, b = federated_form(problem).local.quadratic()
    losses = [
        share * step_surrogate(Q[i], b[i], float(setup.eta[i]), int(setup.steps[i]), mu)
        for i, share in enumerate(setup.p)
    ]
    return consensus(problem, setup.p, losses=losses, formula=SURROGATE)


ENTRIES = {
    "fedavg": Entry(FedAvg, fed_avg, surrogate, {"weights": "uniform"}),
    "fedprox": Entry(FedProx, fed_prox, surrogate, {"weights": "uniform", "mu": 1.0}),
}
ROWS = (
    Row("FedAvg, one local step", FedAvg("uniform"), "`argmin sum p_i L_i`", "consensus"),
    Row(
        "FedAvg, K local steps",
        FedAvg("uniform", local_steps=5, eta=0.1),
        "biased; for quadratic losses a convex surrogate in closed form, in general no convex program",
        "the surrogate",
        surrogate=True,
    ),
    Row(
        "FedProx, exact",
        FedProx("uniform", mu=1.0),
        "`argmin_w sum p_i min_v L_i(v) + mu/2 (v - w)^2`",
        "star with a Zero centre, `alpha A_i = p_i mu / 2`; complete graph, `mu p_i p_j / 2`",
    ),
    Row(
        "FedProx, one gradient step",
        FedProx("uniform", mu=1.0, local_steps=1),
        "`argmin sum p_i L_i`, whatever mu is",
        "consensus",
    ),
    Row(
        "FedProx, K gradient steps",
        FedProx("uniform", mu=1.0, local_steps=5, eta=0.1),
        "biased; for quadratic losses a convex surrogate in closed form",
        "the surrogate",
        surrogate=True,
    ),
    Row(
        "FedProx, gamma-inexact",
        FedProx("uniform", mu=1.0, gamma=0.5, eta=0.1),
        "neither star nor consensus",
        "the gap on the star is reported",
    ),
)
