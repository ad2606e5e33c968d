"""Federated algorithms on a network, and as plain functions of a problem, each right or with one fault."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np

import gtvmin as gtv
from gtvmin.federated import federated_form
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.gradient_tracking import GradientTracking
from gtvmin.solvers.standard_form import Point
from planted_federated import ETA, MU, Array


def metropolis(form: Any) -> Array:
    """``(I + M) / 2`` with Metropolis weights: positive semidefinite."""
    ends = form.couplings[0].map
    degree = np.bincount(np.concatenate([ends.tail, ends.head]), minlength=form.n_nodes)
    M = np.zeros((form.n_nodes, form.n_nodes))
    M[ends.tail, ends.head] = M[ends.head, ends.tail] = 0.5 / (1 + np.maximum(degree[ends.tail], degree[ends.head]))
    return M + np.diag(1.0 - M.sum(axis=1))


TrackingState = make_dataclass("TrackingState", ["W", "Y"], frozen=True)


@dataclass(frozen=True)
class Tracking:
    """Gradient tracking, whose weights are uniform."""

    wrong: str = ""
    solves = "consensus"
    variables = ("W", "Y")
    invariants = ("mean Y = mean gradient",)

    def equals(self, weights: Any) -> GradientTracking:
        return GradientTracking("lazy", ETA / 5)

    def init(self, form: Any, start: Any) -> Any:
        W = np.zeros((form.n_nodes, form.dim)) if start is None else np.array(start.W)
        return TrackingState(W, 0.0 * W if self.wrong == "zero" else form.local.gradient(W))

    def step(self, form: Any, state: Any) -> Any:
        M = metropolis(form)
        W = M @ state.W - ETA / 5 * state.Y
        Y = M @ state.Y + form.local.gradient(W) - form.local.gradient(state.W)
        return TrackingState(W, Y)

    def point(self, form: Any, state: Any) -> Point:
        return Point(state.W)


def descent(problem: gtv.GTVMin, rounds: int, start: Array | None, factor: float, alpha: float) -> Array:
    """FedGD with another factor of the coupling's gradient."""
    form = problem.lowered.form
    L = 2.0 * problem.alpha * problem.network.laplacian().toarray()
    W = np.zeros((problem.network.n_nodes, problem.dim)) if start is None else np.array(start)
    for _ in range(rounds):
        W = W - ETA * (form.local.gradient(W) + factor * (alpha or problem.alpha) / problem.alpha * L @ W)
    return W


def right_descent(problem: gtv.GTVMin, rounds: int = 3000, start: Array | None = None) -> Array:
    """FedGD as a function."""
    return descent(problem, rounds, start, 1.0, 0.0)


def lost_factor(problem: gtv.GTVMin, rounds: int = 3000, start: Array | None = None) -> Array:
    """FedGD without the factor 2 of the coupling's gradient."""
    return descent(problem, rounds, start, 0.5, 0.0)


def dropped_alpha(problem: gtv.GTVMin, rounds: int = 3000, start: Array | None = None) -> Array:
    """FedGD without alpha."""
    return descent(problem, rounds, start, 1.0, 1.0)


def names_for_numbers(problem: gtv.GTVMin, rounds: int = 3000, start: Array | None = None) -> Array:
    """FedGD that takes the devices' names for numbers."""
    assert all(int(node) >= 0 for node in problem.network.nodes)
    return right_descent(problem, rounds, start)


def positions_for_names(problem: gtv.GTVMin, rounds: int = 3000) -> dict[Any, Array]:
    """FedGD that returns its models under the names in sorted order."""
    W = right_descent(problem, rounds)
    return dict(zip(sorted(problem.network.nodes, key=lambda node: (type(node).__name__, node)), W, strict=True))


def without_the_square(problem: gtv.GTVMin, weights: Any = "samples", rounds: int = 60) -> Array:
    """FedProx with ``(mu/2) ||v - w||``: the norm is that of a proximal map whose strength is found by bisection."""
    form = federated_form(problem)
    p, model = aggregation_weights(form, weights), np.zeros(problem.dim)
    for _ in range(min(rounds, 60)):
        sent = np.tile(model, (form.n_nodes, 1))
        low, high = np.full(form.n_nodes, 1e-6), np.full(form.n_nodes, 1e6)
        for _ in range(50):
            strength = np.sqrt(low * high)
            v = form.local.prox_operator(1.0 / strength)(sent)
            force = strength * np.linalg.norm(v - sent, axis=1)  # rises with the strength
            low, high = np.where(force < MU / 2, strength, low), np.where(force < MU / 2, high, strength)
        model = p @ v
    return model


for function in (right_descent, lost_factor, dropped_alpha, names_for_numbers, positions_for_names):
    function.solves = "gtvmin"  # type: ignore[attr-defined]
    function.equals = FedGD(ETA) if function is right_descent else None  # type: ignore[attr-defined]
without_the_square.solves = "star mu=1"  # type: ignore[attr-defined]
without_the_square.weights = "samples"  # type: ignore[attr-defined]
