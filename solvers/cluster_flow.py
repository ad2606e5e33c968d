"""Flows that prove a network Lasso solution optimal, once it is known which neighbours agree.

Between groups the flow is the gradient of the penalty, ``cap_e n_e`` with n_e the direction of the difference.
Inside a group any flow within the capacities will do that brings every device what its loss asks for,
``(D^T U)_i = -grad_i``.
It is found from the solver's own by Laplacian systems, in which edges with little room left conduct little, and by
pulling back what exceeds its capacity, in turn.  Systems of thin graphs are factored.  Importing this module imports
numba.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .flow_corrections import INSIDE, clip, correct, correct_exactly, divergence, largest_share
from .laplacian_factor import LaplacianPattern
from .linear_maps import Array
from .norm_network import Groups, NormNetwork
from .polish import inner
from .standard_form import StandardForm

__all__ = ["ClusterFlow", "Conditions", "cluster_flow"]

IntArray = NDArray[np.int64]

ROUNDS = 12
# The last round leaves this share of all demands unmet.
LEFT = 1e-9
# Conditions are met in so many rounds at most, of so many passes.
REFINEMENTS, PASSES = 8, 200
EPS = float(np.finfo(float).eps)
# A device that passes nothing on must get nothing: next to no flow is made none.
NOTHING = 16 * EPS
# A flow fits if what exceeds the capacities is rounding; there is no hope if it does not shrink fast.
ROUNDING, HOPELESS, SHRINKING = 1e-11, 1.0, 0.3
# Exact corrections are what they are; there is no hope beyond this excess.
HOPELESS_IF_EXACT = 1e-2


@dataclass(frozen=True, eq=False)
class ClusterFlow:
    """A flow, whether it fits into the capacities, and how many passes over the edges it took to find."""

    U: Array
    fits: bool
    passes: float


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
    limit: float,
    pattern: LaplacianPattern | None = None,
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
    limit : float
        Most passes over the edges.
    pattern : LaplacianPattern, optional
        Of a thin network, whose systems are factored then.
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
    target = demand - divergence(out[between], network.tail[between], network.head[between], len(W))
    target = target - groups.means(target)[groups.labels]
    flow = np.ascontiguousarray(out[edges])
    clip(flow, capacity)
    size = float(np.sqrt(inner(demand, demand)))
    every = Conditions(np.empty(0, dtype=np.int64), np.empty((0, *network.H.shape[1:])))
    passes, fits = 0.0, False
    last = (HOPELESS if pattern is None else HOPELESS_IF_EXACT) / SHRINKING
    for _ in range(ROUNDS):
        if pattern is None:
            rest = max(int(limit - passes), 1)
            used, _, left = correct(
                flow, tail, head, capacity, target, every.devices, every.projections, LEFT * size, rest
            )
        else:
            used, left = correct_exactly(pattern, edges, flow, capacity, target)
        passes += used
        excess = largest_share(flow, capacity) - 1.0
        fits = bool(excess <= ROUNDING)
        if (fits and left <= LEFT * size) or passes >= limit or excess > max(SHRINKING * last, ROUNDING):
            break
        last = excess
        clip(flow, capacity)
    out[edges] = flow
    if fits and len(conditions.devices):
        passes += _meet(network, conditions, out, demand)
        out *= INSIDE / max(1.0, largest_share(out, network.capacity))
    else:
        clip(out, network.capacity)
    return ClusterFlow(out, fits, passes)


def _meet(network: NormNetwork, conditions: Conditions, U: Array, demand: Array) -> int:
    """Meet the conditions to rounding by small moves of all edges, full ones sideways; returns the number of passes."""
    tail, head, capacity = network.tail, network.head, network.capacity
    devices, projections = conditions.devices, conditions.projections
    size, n = np.sqrt(np.einsum("ij,ij->i", U, U)), len(demand)
    rounding = EPS * float(np.linalg.norm(np.bincount(tail, size, n) + np.bincount(head, size, n)))
    passes, last = 0, np.inf
    for _ in range(REFINEMENTS):
        used, before, left = correct(U, tail, head, capacity, demand, devices, projections, 0.0, PASSES)
        passes += int(used)
        if before >= 0.5 * last or left <= rounding:
            break
        last = before
    U[np.sqrt(np.einsum("ij,ij->i", U, U)) <= NOTHING * capacity] = 0.0
    return passes
