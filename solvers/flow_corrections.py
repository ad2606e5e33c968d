"""Least corrections of flows on edges with capacities, by conjugate gradients or by a factor.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .laplacian_factor import LaplacianPattern
from .linear_maps import Array
from .polish import combine, inner

__all__ = ["INSIDE", "clip", "correct", "correct_exactly", "divergence", "largest_share"]

IntArray = NDArray[np.int64]

# Share of its capacity that a full edge still conducts along its flow as if it had.
LEAST_ROOM = 1e-4
# A small conductance of every device to ground, relative to its own, makes Laplacians regular.
GROUND = 1e-12
# Conjugate gradients stop at this share of what was unmet.
ROUND_SHARE = 1e-3
# A pass costs as much as so many multiplications of a factor for each number on an edge.
PASS_WORK = 16.0
# A hair less than one: what is pulled back into its capacity stays there after rounding.
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def divergence(U: Array, tail: IntArray, head: IntArray, n: int) -> Array:
    """``D^T U`` for n devices."""
    out = np.zeros((n, U.shape[1]))
    for e in range(len(U)):
        for k in range(U.shape[1]):
            out[head[e], k] += U[e, k]
            out[tail[e], k] -= U[e, k]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _share(U: Array, capacity: Array, e: int) -> float:
    """Share of its capacity that an edge uses."""
    total = 0.0
    for k in range(U.shape[1]):
        total += U[e, k] ** 2
    return float(np.sqrt(total) / capacity[e])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def largest_share(U: Array, capacity: Array) -> float:
    """Largest share of its capacity that an edge uses."""
    most = 0.0
    for e in range(len(U)):
        most = max(most, _share(U, capacity, e))
    return most


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def clip(U: Array, capacity: Array) -> None:
    """Pull back in place what exceeds its capacity."""
    for e in range(len(U)):
        share = _share(U, capacity, e)
        if share > 1.0:
            for k in range(U.shape[1]):
                U[e, k] *= INSIDE / share


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _scale_rows(R: Array, degree: Array, Z: Array) -> None:
    for i in range(len(R)):
        for k in range(R.shape[1]):
            Z[i, k] = R[i, k] / degree[i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _project(devices: IntArray, projections: Array, R: Array) -> None:
    """Keep of every row what its device's conditions see: nothing for devices without; all rows if none has any."""
    if len(devices) == 0:
        return
    n, dim = R.shape
    position, row = 0, np.zeros(dim)
    for i in range(n):
        has = position < len(devices) and devices[position] == i
        for j in range(dim):
            row[j] = R[i, j]
        for j in range(dim):
            total = 0.0
            if has:
                for k in range(dim):
                    total += projections[position, j, k] * row[k]
            R[i, j] = total
        if has:
            position += 1


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _flow_of(P: Array, tail: IntArray, head: IntArray, capacity: Array, damped: Array, e: int, out: Array) -> None:
    """``C_e (p_head - p_tail)``."""
    t, h = tail[e], head[e]
    along = 0.0
    for k in range(len(out)):
        out[k] = P[h, k] - P[t, k]
        along += damped[e, k] * out[k]
    for k in range(len(out)):
        out[k] = capacity[e] ** 2 * (out[k] - along * damped[e, k])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def correct(
    U: Array, tail: IntArray, head: IntArray, capacity: Array, target: Array, devices: IntArray, projections: Array,
    goal: float, limit: int,
) -> tuple[int, float, float]:  # fmt: skip
    """``U += C D x`` with ``N D^T C D N x = N (target - D^T U)``, by preconditioned conjugate gradients.

    The conductances ``C_e = cap_e^2 (I - n_e n_e^T)``, n_e along the flow and damped by what of the capacity is free,
    let full edges move sideways only.  Returns the number of passes, and the residuals before and after.
    """
    n, dim = target.shape
    damped, degree, part = np.zeros((len(U), dim)), np.zeros(n), np.zeros(dim)
    R = target - divergence(U, tail, head, n)
    for e in range(len(U)):
        share = _share(U, capacity, e)
        taken = 1.0 - max(1.0 - share, LEAST_ROOM)
        if share > 0.0:
            for k in range(dim):
                damped[e, k] = np.sqrt(taken) * U[e, k] / (share * capacity[e])
        conductance = capacity[e] ** 2 * (1.0 - taken / dim)
        degree[head[e]] += conductance
        degree[tail[e]] += conductance
    for i in range(n):
        if degree[i] == 0.0:  # alone
            degree[i] = 1.0
            for k in range(dim):
                R[i, k] = 0.0
    _project(devices, projections, R)
    X, image, P, Z = np.zeros((n, dim)), np.zeros((n, dim)), np.zeros((n, dim)), np.zeros((n, dim))
    _scale_rows(R, degree, Z)
    combine(0.0, Z, 1.0, Z, P)
    rz, passes, before = inner(R, Z), 0, np.sqrt(inner(R, R))
    goal = max(goal, ROUND_SHARE * before)
    while passes < limit and inner(R, R) > goal**2:
        combine(0.0, image, 0.0, P, image)
        for e in range(len(U)):
            _flow_of(P, tail, head, capacity, damped, e, part)
            for k in range(dim):
                image[head[e], k] += part[k]
                image[tail[e], k] -= part[k]
        _project(devices, projections, image)
        passes += 1
        curvature = inner(P, image)
        if curvature <= 0.0:
            break
        combine(1.0, X, rz / curvature, P, X)
        combine(1.0, R, -rz / curvature, image, R)
        _scale_rows(R, degree, Z)
        new = inner(R, Z)
        combine(1.0, Z, new / rz, P, P)
        rz = new
    for e in range(len(U)):
        _flow_of(X, tail, head, capacity, damped, e, part)
        for k in range(dim):
            U[e, k] += part[k]
    return passes, before, np.sqrt(inner(R, R))


def correct_exactly(
    pattern: LaplacianPattern, edges: IntArray, flow: Array, capacity: Array, target: Array
) -> tuple[float, float]:
    """``U += C D x`` on some edges of a graph, with ``D^T C D x = target - D^T U``, by a factor.

    The conductances ``c_e = cap_e (1 - ||u_e|| / cap_e)^2`` leave nearly full edges as they are.  Targets must add up
    to zero over connected devices.  Returns what that costs in passes over the graph's edges, and the residual.
    """
    tail, head, n = pattern.tail[edges], pattern.head[edges], pattern.n_nodes
    room, ground = _room(flow, tail, head, capacity, n)
    conductance = np.zeros(len(pattern.tail))
    conductance[edges] = room
    potential = pattern.factor(ground, conductance).solve(target - divergence(flow, tail, head, n))
    _move(flow, tail, head, room, potential)
    left = target - divergence(flow, tail, head, n)
    return pattern.work / (PASS_WORK * flow.shape[1] * len(conductance)) + 2.0, float(np.sqrt(inner(left, left)))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _room(U: Array, tail: IntArray, head: IntArray, capacity: Array, n: int) -> tuple[Array, Array]:
    """Conductances of edges, and those of devices to ground."""
    room, degree = np.empty(len(U)), np.zeros(n)
    for e in range(len(U)):
        room[e] = capacity[e] * max(1.0 - _share(U, capacity, e), LEAST_ROOM) ** 2
        degree[tail[e]] += room[e]
        degree[head[e]] += room[e]
    for i in range(n):
        degree[i] = GROUND * degree[i] if degree[i] > 0.0 else 1.0
    return room, degree


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _move(U: Array, tail: IntArray, head: IntArray, room: Array, potential: Array) -> None:
    for e in range(len(U)):
        for k in range(U.shape[1]):
            U[e, k] += room[e] * (potential[head[e], k] - potential[tail[e], k])
