"""Algorithms of a server that averages local gradient steps."""

from __future__ import annotations

import warnings

import numpy as np

from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Entry, Program, Row, consensus
from gtvmin.losses import Quadratic
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Array

__all__ = ["ENTRIES", "ROWS"]


def fed_avg(algorithm: FedAvg, problem: GTVMin) -> Program:
    """Consensus: the limit of one local step, and what the gap of more is reported on."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    one = np.ndim(algorithm.local_steps) == 0 and algorithm.local_steps == 1
    note = "" if one else "several local steps are biased"
    return consensus(problem, p, exact=one, note=note)


def fed_avg_surrogate(algorithm: FedAvg, problem: GTVMin) -> Program:
    """``min_w sum_i p_i (w - w_i)^T S_i (w - w_i) / 2``, with ``S_i = (I - (I - eta_i Q_i)^(K_i)) / K``."""
    form = federated_form(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        setup = algorithm.init(form, None).setup
    Q, b = form.local.quadratic()
    losses = [
        share * Quadratic(*local_map(Q[i], b[i], float(setup.eta[i]), int(setup.steps[i])))
        for i, share in enumerate(setup.p)
    ]
    return consensus(problem, setup.p, losses=losses)


def local_map(Q: Array, b: Array, eta: float, steps: int) -> tuple[Array, Array]:
    """``(S, -r)`` so that ``steps`` gradient steps take w to ``w - (S w - r)``: S and r by the same recursion.

    ``S = I - (I - eta Q)^steps`` and ``r = sum_k (I - eta Q)^k eta b``, symmetric and, for ``eta < 2 / L``, convex.
    """
    one = np.eye(len(b)) - eta * Q
    power, r = np.eye(len(b)), np.zeros(len(b))
    for _ in range(steps):
        r = one @ r + eta * b
        power = one @ power
    S = np.eye(len(b)) - power
    return 0.5 * (S + S.T), -r


ENTRIES = {"fedavg": Entry(FedAvg, fed_avg, fed_avg_surrogate, {"weights": "uniform"})}
ROWS = (
    Row("FedAvg, one local step", FedAvg("uniform"), "`argmin sum p_i L_i`", "consensus"),
    Row(
        "FedAvg, K local steps",
        FedAvg("uniform", local_steps=5, eta=0.1),
        "biased; for quadratic losses a convex surrogate in closed form",
        "the surrogate; else none",
        surrogate=True,
    ),
)
