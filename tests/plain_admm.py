"""ADMM in plain NumPy, written from the declared data: a solver that shares no code with the package's own.

Squared errors and distances, coupled by norms, squared norms or Huber penalties.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gtvmin as gtv

Prox = Callable[[gtv.Penalty, np.ndarray, np.ndarray], np.ndarray]

TOLERANCE = 1e-10


def solve(problem: gtv.GTVMin, max_iter: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and flows."""
    return admm(problem, max_iter=max_iter)


def admm(
    problem: gtv.GTVMin, *, prox: Prox | None = None, D: np.ndarray | None = None, max_iter: int = 5000
) -> tuple[np.ndarray, np.ndarray]:
    """The method of multipliers on ``sum_i L_i(w_i) + sum_e a_e phi(z_e)`` with ``D W = Z``.

    Section 3.4.1 of S. Boyd et al. (2011), DOI 10.1561/2200000016, has the rule for rho.
    """
    prox = prox_of_penalty if prox is None else prox
    net, n, dim = problem.network, problem.network.n_nodes, problem.dim
    D = incidence(net) if D is None else D
    strength = problem.alpha * net.weights
    H, b = quadratics(problem)
    rho = float(np.trace(H)) / (n * dim) or 1.0
    W, Z, Y = np.zeros((n, dim)), np.zeros((len(D), dim)), np.zeros((len(D), dim))
    inverse = inverse_of(H, D, rho)
    for k in range(max_iter):
        W = (inverse @ (b + rho * D.T @ (Z - Y)).ravel()).reshape(n, dim)
        V = D @ W + Y
        before, Z = Z, prox(problem.penalty, V, strength / rho)
        Y = V - Z
        primal = float(np.linalg.norm(D @ W - Z)) / (float(np.linalg.norm(W)) or 1.0)
        dual = rho * float(np.linalg.norm(D.T @ (Z - before))) / (float(np.linalg.norm(b)) or 1.0)
        if max(primal, dual) <= TOLERANCE:
            break
        if k % 10 == 9 and k < 500 and not 0.1 * dual < primal < 10 * dual:
            factor = 2.0 if primal > dual else 0.5
            rho, Y = rho * factor, Y / factor
            inverse = inverse_of(H, D, rho)
    return W, rho * Y


def incidence(net: gtv.FLNetwork) -> np.ndarray:
    """D as a matrix (n_edges, n_nodes): 1 at the head, -1 at the tail."""
    D = np.zeros((net.n_edges, net.n_nodes))
    D[np.arange(net.n_edges), net.head] = 1.0
    D[np.arange(net.n_edges), net.tail] = -1.0
    return D


def quadratics(problem: gtv.GTVMin) -> tuple[np.ndarray, np.ndarray]:
    """All losses as ``w^T H w / 2 - b^T w``: H (n dim, n dim), b (n, dim)."""
    n, dim = problem.network.n_nodes, problem.dim
    H, b = np.zeros((n, dim, n, dim)), np.zeros((n, dim))
    for i, loss in enumerate(problem.losses):
        for coefficient, atom in loss.terms():
            X, y, weight = rows(atom, dim)
            H[i, :, i] += 2 * coefficient * (X.T * weight) @ X
            b[i] += 2 * coefficient * X.T @ (weight * y)
    return H.reshape(n * dim, n * dim), b


def rows(atom: gtv.Loss, dim: int) -> tuple[Any, Any, Any]:
    """A loss as ``sum_r weight_r (x_r^T w - y_r)^2``."""
    if isinstance(atom, gtv.Zero):
        return np.zeros((0, dim)), np.zeros(0), np.zeros(0)
    if isinstance(atom, gtv.SquaredDistance) and atom.penalise is None:
        return np.eye(dim), np.broadcast_to(atom.a, dim), np.ones(dim)
    if isinstance(atom, gtv.SquaredError):
        weight = np.ones(atom.n_samples) if atom.sample_weight is None else atom.sample_weight
        return atom.X, atom.y, weight / weight.sum() if atom.scale == "mean" else weight
    raise NotImplementedError(f"no rule for {atom!r}")


def inverse_of(H: np.ndarray, D: np.ndarray, rho: float) -> np.ndarray:
    """Of ``H + rho D^T D``, where components without labels make that singular."""
    dim = len(H) // D.shape[1]
    return np.linalg.pinv(H + rho * np.kron(D.T @ D, np.eye(dim)), rcond=1e-13, hermitian=True)


def prox_of_penalty(penalty: gtv.Penalty, V: np.ndarray, step: np.ndarray) -> np.ndarray:
    """``argmin_z step phi(z) + ||z - v||^2 / 2`` for each row."""
    step = step[:, None]
    size = np.linalg.norm(V, axis=1, keepdims=True)
    if isinstance(penalty, gtv.SquaredNorm):
        return np.asarray(V / (1 + 2 * step))
    if isinstance(penalty, gtv.HuberPenalty):
        return np.where(size <= penalty.delta + step, V / (1 + step / penalty.delta), shrunk(V, size, step))
    if not isinstance(penalty, gtv.Norm):
        raise NotImplementedError(f"no rule for {penalty!r}")
    if penalty.p == 1:
        return np.sign(V) * np.maximum(np.abs(V) - step, 0)
    if penalty.p == 2:
        return shrunk(V, size, step)
    return np.array([row - onto_l1_ball(row, radius) for row, radius in zip(V, step[:, 0], strict=True)]).reshape(
        V.shape
    )


def shrunk(V: np.ndarray, size: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Rows that are shorter by `step`."""
    return np.asarray(V * np.maximum(1 - step / np.where(size > 0, size, 1.0), 0))


def onto_l1_ball(v: np.ndarray, radius: float) -> np.ndarray:
    """Projection, by J. Duchi et al. (2008), Figure 1, DOI 10.1145/1390156.1390191."""
    if np.abs(v).sum() <= radius:
        return v
    ordered = np.sort(np.abs(v))[::-1]
    levels = (np.cumsum(ordered) - radius) / np.arange(1, len(v) + 1)
    level = levels[np.flatnonzero(ordered > levels)[-1]]
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - level, 0))
