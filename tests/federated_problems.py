"""Two problems of eight devices on which the limits of federated algorithms are known, and helpers for their tests."""

from __future__ import annotations

from functools import cache
from typing import Any

import networkx as nx
import numpy as np

import gtvmin as gtv
from gtvmin.federated import federated_form
from gtvmin.federated.assessment import ProgramMonitor
from gtvmin.federated.program import Program
from gtvmin.solvers.federated.form import FederatedForm
from gtvmin.solvers.standard_form import Point

N, DIM = 8, 3
NAMES = tuple("abcdefgh")


@cache
def network() -> gtv.FLNetwork:
    """A ring with two chords and different weights."""
    graph = nx.cycle_graph(N)
    graph.add_edges_from([(0, 4), (2, 6)])
    weights = np.random.default_rng(5).uniform(0.5, 1.5, graph.number_of_edges())
    return gtv.FLNetwork.from_edges(
        [(NAMES[a], NAMES[b], w) for (a, b), w in zip(graph.edges, weights, strict=True)], nodes=NAMES
    )


@cache
def data() -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
    """Rows, targets and labels of every device, 5 to 50 data points each."""
    rng = np.random.default_rng(0)
    points = []
    for m in (5, 50, 8, 12, 20, 30, 6, 40):
        X = rng.normal(size=(m, DIM)) * rng.uniform(0.7, 1.3)
        w = np.array([1.0, -2.0, 0.5]) + rng.normal(size=DIM)
        noise = rng.normal(size=m)
        points.append((X, X @ w + noise, np.where(X @ w + 2.0 * noise > 0, 1.0, -1.0)))
    return tuple(points)


@cache
def problem_q(alpha: float = 0.5) -> gtv.GTVMin:
    """Q: mean squared errors."""
    losses = {name: gtv.SquaredError(X, y) for name, (X, y, _) in zip(NAMES, data(), strict=True)}
    return gtv.GTVMin(network(), losses, penalty=gtv.SquaredNorm(), alpha=alpha)


@cache
def problem_l(alpha: float = 0.5) -> gtv.GTVMin:
    """L: logistic losses with ``0.05 ||w||^2``."""
    ridge = gtv.Quadratic(0.1 * np.eye(DIM))
    losses = {name: gtv.Logistic(X, label) + ridge for name, (X, _, label) in zip(NAMES, data(), strict=True)}
    return gtv.GTVMin(network(), losses, penalty=gtv.SquaredNorm(), alpha=alpha)


def form_of(problem: gtv.GTVMin) -> FederatedForm:
    """Its arrays."""
    return federated_form(problem)


def run_rounds(algorithm: Any, form: FederatedForm, rounds: int, start: Any = None) -> Any:
    """State after some rounds."""
    state = algorithm.init(form, start)
    for _ in range(rounds):
        state = algorithm.step(form, state)
    return state


def device_quadratics(problem: gtv.GTVMin) -> tuple[np.ndarray, np.ndarray]:
    """``(Q, b)`` of every device's squared error, from its data: gradient ``Q_i w - b_i``."""
    Q = np.array([2.0 * loss.X.T @ loss.X / loss.n_samples for loss in problem.losses])
    b = np.array([2.0 * loss.X.T @ loss.y / loss.n_samples for loss in problem.losses])
    return Q, b


def gradients(problem: gtv.GTVMin, W: np.ndarray) -> np.ndarray:
    """Gradient of every device at its row of W, one device after the other, from the data."""
    out = []
    for loss, w in zip(problem.losses, np.broadcast_to(W, (N, DIM)), strict=True):
        g = np.zeros(DIM)
        for _, atom in loss.declared_terms():
            if isinstance(atom, gtv.SquaredError):
                g += 2.0 * atom.X.T @ (atom.X @ w - atom.y) / atom.n_samples
            elif isinstance(atom, gtv.Logistic):
                g -= atom.X.T @ (atom.y / (1.0 + np.exp(atom.y * (atom.X @ w)))) / atom.n_samples
            else:
                g += atom.Q @ w + atom.q
        out.append(g)
    return np.array(out)


def weights_of(word: str) -> np.ndarray:
    """Weights of the devices of both problems."""
    return np.full(N, 1 / N) if word == "uniform" else form_of(problem_q()).samples / form_of(problem_q()).samples.sum()


def certified_distance(program: Program, W: np.ndarray) -> float:
    """Largest distance of a device's place from the program's minimiser that the certificate leaves open."""
    certificate = ProgramMonitor(program, 0.0).certificate(Point(W))
    assert np.isfinite(certificate.radius[:N]).all()
    return float(certificate.radius[:N].max())


def minimiser(problem: gtv.GTVMin, p: np.ndarray) -> np.ndarray:
    """``argmin_w sum_i p_i L_i(w)`` by Newton's method with numerical Hessians of the hand-written gradients."""
    w = np.zeros(DIM)
    for _ in range(60):
        g = p @ gradients(problem, w)
        h = 1e-6
        H = np.array(
            [(p @ (gradients(problem, w + h * e) - gradients(problem, w - h * e))) / (2 * h) for e in np.eye(DIM)]
        )
        move = np.linalg.solve(H, g)
        w = w - move
        if np.abs(move).max() < 1e-15:
            break
    return w
