"""Scalar minimum-cost flow with linear costs, as a linear program, and what proves that there is no optimum.

HiGHS (through SciPy) takes real costs, capacities and demands, and always stops; on integer data its vertex is an
integer flow.  Infeasibility is proved by a set of nodes that demand more than the arcs into it can bring (Gale 1957),
unboundedness by a cycle of unlimited arcs with negative cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from gtvmin.errors import InfeasibleError, UnboundedError
from gtvmin.solvers.standard_form import Array

__all__ = ["Arcs", "check_bounded", "solve_arcs"]

FEASIBILITY = 1e-10
BALANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Arcs:
    """Directed arcs with costs and capacities, and the demand of every node (inflow minus outflow).

    Attributes
    ----------
    nodes : sequence of labels
        For messages.
    source, target : int arrays (n_arcs,)
        Ends of each arc.
    cost, capacity : arrays (n_arcs,)
        Cost per unit, and most flow (may be infinite).
    demand : array (n_nodes,)
        What must arrive and stay.
    """

    nodes: Sequence[Hashable]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    cost: Array
    capacity: Array
    demand: Array

    def labels(self, positions: NDArray[np.intp]) -> tuple[Hashable, ...]:
        """Labels of some nodes."""
        return tuple(self.nodes[i] for i in positions.tolist())

    @property
    def incidence(self) -> sparse.csr_array:
        """Inflow minus outflow of every node as a matrix over the arcs."""
        m = len(self.source)
        rows = np.concatenate([self.target, self.source])
        data = np.repeat([1.0, -1.0], m)
        columns = np.tile(np.arange(m), 2)
        return sparse.csr_array((data, (rows, columns)), shape=(len(self.demand), m))


def solve_arcs(arcs: Arcs) -> tuple[Array, Array]:
    """Optimal arc flows (n_arcs,) and node values w (n_nodes,): ``w_target - w_source > cost`` only on full arcs.

    Raises
    ------
    InfeasibleError, UnboundedError
        With what proves it.
    RuntimeError
        If HiGHS gives up.
    """
    _check_components(arcs)
    bounds = np.column_stack([np.zeros_like(arcs.capacity), arcs.capacity])
    options = {"primal_feasibility_tolerance": FEASIBILITY, "dual_feasibility_tolerance": FEASIBILITY}
    result = linprog(arcs.cost, A_eq=arcs.incidence, b_eq=arcs.demand, bounds=bounds, method="highs", options=options)
    if result.status == 0:
        return np.asarray(result.x), np.asarray(result.eqlin.marginals)
    _raise_infeasible(arcs)
    check_bounded(arcs)
    raise RuntimeError(f"HiGHS could not solve the flow problem: {result.message}")


def _check_components(arcs: Arcs) -> None:
    """Demands must cancel in every component."""
    n = len(arcs.demand)
    links = sparse.coo_array((np.ones(len(arcs.source)), (arcs.source, arcs.target)), shape=(n, n))
    count, component = sparse.csgraph.connected_components(links, directed=False)
    total = np.bincount(component, arcs.demand, count)
    size = np.bincount(component, np.abs(arcs.demand), count)
    for c in np.flatnonzero(np.abs(total) > BALANCE * size):
        members = np.flatnonzero(component == c)
        labels = arcs.labels(members)
        chosen = members if total[c] > 0 else np.flatnonzero(component != c)
        raise InfeasibleError(
            f"the demands of the component of {labels[0]!r} ({len(labels)} nodes) sum to {total[c]:g}, but no arc "
            "leads in or out of it: they must sum to zero in every component",
            arcs.labels(chosen),
            abs(float(total[c])),
            0.0,
        )


def _raise_infeasible(arcs: Arcs) -> None:
    """Find the most violated cut through the smallest total shortfall, and raise it if there is one."""
    n, m = len(arcs.demand), len(arcs.source)
    unbounded = float(np.abs(arcs.demand).sum())
    bounds = np.vstack(
        [np.column_stack([np.zeros(m), np.minimum(arcs.capacity, unbounded)]), np.tile([0.0, np.inf], (2 * n, 1))]
    )
    slack = sparse.hstack([arcs.incidence, sparse.eye_array(n), -sparse.eye_array(n)]).tocsr()
    cost = np.concatenate([np.zeros(m), np.ones(2 * n)])
    shortfall = linprog(cost, A_eq=slack, b_eq=arcs.demand, bounds=bounds, method="highs")
    if shortfall.status != 0 or shortfall.fun <= BALANCE * unbounded:
        return
    value = np.asarray(shortfall.eqlin.marginals)
    best: tuple[float, float, NDArray[np.bool_]] | None = None
    for level in np.unique(value):
        inside = value >= level
        entering = inside[arcs.target] & ~inside[arcs.source]
        demand, capacity = float(arcs.demand[inside].sum()), float(arcs.capacity[entering].sum())
        if demand > capacity and (best is None or demand - capacity > best[0] - best[1]):
            best = demand, capacity, inside
    if best is None:
        return
    demand, capacity, inside = best
    labels = arcs.labels(np.flatnonzero(inside))
    shown = ", ".join(repr(label) for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
    raise InfeasibleError(
        f"the nodes {shown} demand {demand:g} in all, but the arcs into them carry at most {capacity:g}",
        labels,
        demand,
        capacity,
    )


def check_bounded(arcs: Arcs) -> None:
    """Raise a negative cycle of unlimited arcs, if there is one (Bellman-Ford)."""
    free = np.flatnonzero(np.isinf(arcs.capacity))
    source, target, cost = arcs.source[free], arcs.target[free], arcs.cost[free]
    n = len(arcs.demand)
    distance, parent = np.zeros(n), np.full(n, -1)
    last = -1
    for _ in range(n):
        last = -1
        for u, v, c in zip(source, target, cost, strict=True):
            if distance[u] + c < distance[v] - 1e-12 * (abs(distance[v]) + abs(c)):
                distance[v], parent[v], last = distance[u] + c, u, int(v)
        if last < 0:
            return
    for _ in range(n):
        last = int(parent[last])
    cycle = [last]
    while parent[cycle[-1]] != last:
        cycle.append(int(parent[cycle[-1]]))
    cycle.reverse()
    price = {(int(u), int(v)): float(c) for u, v, c in zip(source, target, cost, strict=True)}
    total = sum(price[u, v] for u, v in zip(cycle, cycle[1:] + cycle[:1], strict=True))
    labels = tuple(arcs.nodes[i] for i in cycle)
    raise UnboundedError(
        f"the arcs around {', '.join(map(repr, labels))} have no capacity limit and cost {total:g} in all: every round "
        "lowers the cost",
        labels,
        total,
    )
