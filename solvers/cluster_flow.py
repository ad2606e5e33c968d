"""Flows that prove a network Lasso solution optimal, once it is known which neighbours agree.

Between groups the flow is the gradient of the penalty, ``cap_e n_e`` with n_e the direction of the difference.
Inside a group any flow within the capacities will do that brings every device what its loss asks for,
``(D^T U)_i = -grad_i``.
It is found from the solver's own by Laplacian systems, in which edges with little room left conduct little, and by
pulling back what exceeds its capacity, in turn.  Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array
from .polish import Groups, NormNetwork, combine, inner
from .standard_form import StandardForm

__all__ = ["ClusterFlow", "Conditions", "cluster_flow"]

IntArray = NDArray[np.int64]

ROUNDS = 12
# Share of its capacity that a full edge still conducts along its flow as if it had.
LEAST_ROOM = 1e-4
# Each round leaves this share of the demands that it finds unmet, and the last one this share of all.
ROUND_SHARE, LEFT = 1e-3, 1e-9
# Conditions are met in so many rounds at most, of so many passes.
REFINEMENTS, PASSES = 8, 200
# A device that passes nothing on must get nothing: next to no flow is made none.
NOTHING = 16 * float(np.finfo(float).eps)
# A flow fits if what exceeds the capacities is rounding; there is no hope if it does not shrink fast.
ROUNDING, HOPELESS, SHRINKING = 1e-11, 1.0, 0.3
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class ClusterFlow:
    """A flow, whether it fits into the capacities, and how many passes over the edges it took to find."""

    U: Array
    fits: bool
    passes: int


@dataclass(frozen=True, eq=False)
class Conditions:
    """Devices whose net flow must meet linear conditions exactly, and the projections on these (k, dim, dim).

    All others take what they get, at a price in the dual objective.
    """

    devices: IntArray
    projections: Array

    @classmethod
    def of(cls, form: StandardForm) -> Conditions:
        """The complements of the spans of the domains of the conjugate losses."""
        bound = np.flatnonzero(~form.quadratic.full_span)
        units = np.broadcast_to(np.eye(form.dim)[:, None, :], (form.dim, form.n_nodes, form.dim))
        columns = np.stack([form.quadratic.complement(np.array(unit))[bound] for unit in units], axis=2)
        return cls(bound, np.ascontiguousarray(columns))


def cluster_flow(
    network: NormNetwork,
    groups: Groups,
    conditions: Conditions,
    W: Array,
    U: Array,
    demand: Array,
    limit: int,
) -> ClusterFlow:
    """Look for a flow that brings every device its demand.

    Parameters
    ----------
    network, groups, conditions : NormNetwork, Groups, Conditions
        The problem, the partition, and what a flow must meet exactly.
    W : array (n, dim)
        Parameters, equal within groups and different across edges between them.
    U : array (m, dim)
        Flows to start from.
    demand : array (n, dim)
        What ``D^T U`` should be.
    limit : int
        Most passes over the edges.
    """
    between = groups.between
    inside = np.ones(len(U), dtype=bool)
    inside[between] = False
    edges = np.flatnonzero(inside)
    tail, head, capacity = network.tail[edges], network.head[edges], network.capacity[edges]
    out = np.array(U)
    difference = W[network.head[between]] - W[network.tail[between]]
    length = np.sqrt(np.einsum("ij,ij->i", difference, difference))
    out[between] = (INSIDE * network.capacity[between] / length)[:, None] * difference
    target = demand - _divergence(out[between], network.tail[between], network.head[between], len(W))
    target = target - groups.means(target)[groups.labels]
    flow = np.ascontiguousarray(out[edges])
    _clip(flow, capacity)
    size = float(np.sqrt(inner(demand, demand)))
    every = Conditions(np.empty(0, dtype=np.int64), np.empty((0, *network.H.shape[1:])))
    passes, fits, last = 0, False, HOPELESS / SHRINKING
    for _ in range(ROUNDS):
        used, _, left = _correct(
            flow, tail, head, capacity, target, every.devices, every.projections, LEFT * size, limit - passes
        )
        passes += int(used)
        excess = _largest_share(flow, capacity) - 1.0
        fits = bool(excess <= ROUNDING)
        if (fits and left <= LEFT * size) or passes >= limit or excess > max(SHRINKING * last, ROUNDING):
            break
        last = excess
        _clip(flow, capacity)
    out[edges] = flow
    if fits and len(conditions.devices):
        passes += _meet(network, conditions, out, demand)
        out *= INSIDE / max(1.0, _largest_share(out, network.capacity))
    else:
        _clip(out, network.capacity)
    return ClusterFlow(out, fits, passes)


def _meet(network: NormNetwork, conditions: Conditions, U: Array, demand: Array) -> int:
    """Meet the conditions to rounding by small moves of all edges, full ones sideways; returns the number of passes."""
    tail, head, capacity = network.tail, network.head, network.capacity
    devices, projections = conditions.devices, conditions.projections
    passes, last = 0, np.inf
    for _ in range(REFINEMENTS):
        used, before, _ = _correct(U, tail, head, capacity, demand, devices, projections, 0.0, PASSES)
        passes += int(used)
        if before >= 0.5 * last:
            break
        last = before
    U[np.sqrt(np.einsum("ij,ij->i", U, U)) <= NOTHING * capacity] = 0.0
    return passes


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _divergence(U: Array, tail: IntArray, head: IntArray, n: int) -> Array:
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
def _largest_share(U: Array, capacity: Array) -> float:
    most = 0.0
    for e in range(len(U)):
        most = max(most, _share(U, capacity, e))
    return most


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _clip(U: Array, capacity: Array) -> None:
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
def _correct(
    U: Array, tail: IntArray, head: IntArray, capacity: Array, target: Array, devices: IntArray, projections: Array,
    goal: float, limit: int,
) -> tuple[int, float, float]:  # fmt: skip
    """``U += C D x`` with ``N D^T C D N x = N (target - D^T U)``, by preconditioned conjugate gradients.

    The conductances ``C_e = cap_e^2 (I - n_e n_e^T)``, n_e along the flow and damped by what of the capacity is free,
    let full edges move sideways only.  Returns the number of passes, and the residuals before and after.
    """
    n, dim = target.shape
    damped, degree, part = np.zeros((len(U), dim)), np.zeros(n), np.zeros(dim)
    R = target - _divergence(U, tail, head, n)
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
