"""Flows inside clusters that hold them together, by Laplacian systems and projections in turn.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .clustering_network import ClusteringNetwork, Groups
from .linear_maps import Array, IntArray

__all__ = ["continued_flows", "fit_flows"]

# Flows are given up once a round leaves more than this share of the gap.
SLOW = 0.5
FLOW_ROUNDS, LEAST_ROOM, GROUNDING = 4, 1e-4, 1e-10
TINY = float(np.finfo(float).tiny)


def fit_flows(
    network: ClusteringNetwork, groups: Groups, strength: float, W: Array, U: Array, tolerance: float
) -> tuple[Array, float]:
    """Correct flows inside groups; return the best and their relative gap.

    Each round brings what is missing at the nodes by the least flows, weighted so that edges with little room left take
    little of it; flows that leave their balls all the same are projected.
    """
    labels, bound = groups.labels, strength * network.weights
    ends = network.tail, network.head
    best = U, np.inf
    for trial in range(FLOW_ROUNDS + 1):
        gap, objective, missing = network.gap_and_residual(strength, W, U)
        relative = gap / max(objective, TINY)
        slow = trial > 1 and relative > SLOW * best[1]
        if relative < best[1]:
            best = U, relative
        if best[1] <= tolerance or slow or trial == FLOW_ROUNDS or groups.size == network.n_nodes:
            break
        _balance(missing, labels, groups.size)
        conductance = _conductance(U, bound, labels, *ends)
        grounding = np.full(network.n_nodes, GROUNDING * float(conductance.max()))
        potential = network.pattern.factor(grounding, conductance).solve(missing)
        U = _corrected(U, bound, conductance, potential, *ends)
    return best


def continued_flows(U: Array, before: Array, share: float, where: NDArray[np.bool_], bound: Array) -> Array:
    """Flows that go on, for a share of the last change of strength, as they have changed; in their balls."""
    out: Array = _continued(U, before, share, where, bound)
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _balance(missing: Array, labels: IntArray, size: int) -> None:
    """Take their group's mean from all rows: no flow inside a group changes its sum."""
    n, dim = missing.shape
    total, count = np.zeros((size, dim)), np.zeros(size)
    for i in range(n):
        count[labels[i]] += 1.0
        for j in range(dim):
            total[labels[i], j] += missing[i, j]
    for i in range(n):
        for j in range(dim):
            missing[i, j] -= total[labels[i], j] / count[labels[i]]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _conductance(U: Array, bound: Array, labels: IntArray, tail: IntArray, head: IntArray) -> Array:
    """Bound times the share of it that is left, zero between groups."""
    out = np.zeros(len(tail))
    for e in range(len(tail)):
        if labels[tail[e]] == labels[head[e]]:
            square = 0.0
            for j in range(U.shape[1]):
                square += U[e, j] * U[e, j]
            out[e] = bound[e] * max(1.0 - np.sqrt(square) / bound[e], LEAST_ROOM)
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _project(row: Array, bound: float) -> None:
    """Scale a row into the ball of its bound."""
    square = 0.0
    for j in range(len(row)):
        square += row[j] * row[j]
    if square > bound * bound:
        share = bound / np.sqrt(square)
        for j in range(len(row)):
            row[j] *= share


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _corrected(U: Array, bound: Array, conductance: Array, potential: Array, tail: IntArray, head: IntArray) -> Array:
    """Flows less conductance times differences of the potential, projected onto their balls."""
    out = np.empty_like(U)
    for e in range(len(tail)):
        for j in range(U.shape[1]):
            out[e, j] = U[e, j] - conductance[e] * (potential[head[e], j] - potential[tail[e], j])
        _project(out[e], bound[e])
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _continued(U: Array, before: Array, share: float, where: NDArray[np.bool_], bound: Array) -> Array:
    out = U.copy()
    for e in np.flatnonzero(where):
        for j in range(U.shape[1]):
            out[e, j] += share * (U[e, j] - before[e, j])
        _project(out[e], bound[e])
    return out
