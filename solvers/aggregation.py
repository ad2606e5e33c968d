"""Graphs of groups of devices: the coarse levels of a multigrid method.  Importing this module imports numba.

Devices are paired along their strongest edges, several times over.  If the members of a group share one vector of
parameters, the sum of their losses and the edges between groups make the same kind of problem with fewer devices: that
is the Galerkin matrix of piecewise constant prolongation.

Y. Notay, "An aggregation-based algebraic multigrid method", Electronic Transactions on Numerical Analysis 37 (2010),
123-146.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array

__all__ = ["Graph", "Hierarchy", "build_hierarchy"]

IntArray = NDArray[np.int64]

# Pairings from one level to the next: groups of about four devices.
PASSES = 2
# A pair has at least this share of the strongest edge of both of its devices.
STRONG = 0.25


@dataclass(frozen=True)
class Graph:
    """Neighbours of every node in one table: those of node i, and the weights, at ``start[i]`` to ``start[i+1]-1``."""

    start: IntArray
    neighbour: IntArray
    weight: Array

    @classmethod
    def of_edges(cls, tail: IntArray, head: IntArray, weight: Array, n_nodes: int) -> Graph:
        """From a list of edges; parallel ones stay apart."""
        ends = np.concatenate([tail, head])
        order = np.argsort(ends, kind="stable")
        start = np.zeros(n_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(ends, minlength=n_nodes), out=start[1:])
        return cls(start, np.concatenate([head, tail])[order], np.concatenate([weight, weight])[order])

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.start) - 1

    @property
    def degrees(self) -> Array:
        """Sums of the weights at every node."""
        owner = np.repeat(np.arange(self.n_nodes), np.diff(self.start))
        return np.asarray(np.bincount(owner, self.weight, self.n_nodes), dtype=np.float64)


@dataclass(frozen=True)
class Hierarchy:
    """The graphs of all levels in one table, the devices first: nodes ``at[l]`` to ``at[l+1]-1`` are those of level l.

    Attributes
    ----------
    at : int array (levels + 1,)
        First node of every level.
    start, neighbour, weight : arrays
        As in :class:`Graph`.
    degrees : array (n_total,)
        Sums of the weights at every node.
    parent : int array (n_total,)
        Node of the next level; -1 for a node without neighbours, which has none.
    """

    at: IntArray
    start: IntArray
    neighbour: IntArray
    weight: Array
    degrees: Array
    parent: IntArray


def build_hierarchy(graph: Graph, levels: int | None = None) -> Hierarchy:
    """Coarsen until every component is a single node, or to a number of levels."""
    at, graphs, parents = [0], [], []
    while graph.n_nodes:
        graphs.append(graph)
        at.append(at[-1] + graph.n_nodes)
        if len(graphs) == levels:
            parents.append(np.full(graph.n_nodes, -1))
            break
        graph, group = _coarsen(graph)
        parents.append(np.where(group < 0, -1, group + at[-1]))
    edges = np.cumsum([0, *(len(g.weight) for g in graphs)])
    starts = [g.start[:-1] + first for g, first in zip(graphs, edges[:-1], strict=True)]
    return Hierarchy(
        at=np.array(at, dtype=np.int64),
        start=np.concatenate([*starts, edges[-1:]]),
        neighbour=np.concatenate([g.neighbour + first for g, first in zip(graphs, at[:-1], strict=True)]).astype(
            np.int32
        ),
        weight=np.concatenate([g.weight for g in graphs]),
        degrees=np.concatenate([g.degrees for g in graphs]),
        parent=np.concatenate(parents),
    )


def _coarsen(graph: Graph) -> tuple[Graph, IntArray]:
    """The graph of groups, and the group of every node; -1 for those without neighbours."""
    strongest = _strongest(graph.start, graph.neighbour, graph.weight)
    strength = np.where(strongest < 0, 0.0, np.append(graph.weight, 0.0)[strongest])
    group, count = _pair(graph.start, graph.neighbour, graph.weight, strength)
    _join(graph.neighbour, strongest, group)
    graph = Graph(*_contract(graph.start, graph.neighbour, graph.weight, group, count))
    members = np.flatnonzero(group >= 0)
    for _ in range(PASSES - 1):
        # edges too weak for smoothing to see, beside those within a group, are left to the next level
        inner = np.zeros(count)
        np.maximum.at(inner, group[members], strength[members])
        pair, count = _pair(graph.start, graph.neighbour, graph.weight, inner)
        alone = np.flatnonzero(pair < 0)
        pair[alone], count = np.arange(count, count + len(alone)), count + len(alone)
        graph = Graph(*_contract(graph.start, graph.neighbour, graph.weight, pair, count))
        group[members] = pair[group[members]]
    return graph, group


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _strongest(start: IntArray, neighbour: IntArray, weight: Array) -> IntArray:
    """Position of the strongest edge of every node; -1 for a node without edges."""
    n = len(start) - 1
    strongest = np.full(n, -1)
    for i in range(n):
        for k in range(start[i], start[i + 1]):
            if strongest[i] < 0 or weight[k] > weight[strongest[i]]:
                strongest[i] = k
    return strongest


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _pair(start: IntArray, neighbour: IntArray, weight: Array, strength: Array) -> tuple[IntArray, int]:
    """Pair of every node, -1 for those without a partner, and the number of pairs."""
    n = len(start) - 1
    pair = np.full(n, -1)
    count = 0
    for i in range(n):
        if pair[i] >= 0:
            continue
        best, most = -1, 0.0
        for k in range(start[i], start[i + 1]):
            j = neighbour[k]
            if pair[j] < 0 and weight[k] > most and weight[k] >= STRONG * max(strength[i], strength[j]):
                best, most = j, weight[k]
        if best >= 0:
            pair[i] = pair[best] = count
            count += 1
    return pair, count


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _join(neighbour: IntArray, strongest: IntArray, group: IntArray) -> None:
    """Let nodes without a partner join their strongest neighbour's group: they follow it, whatever else it is tied to.

    Along such nodes the strongest edges get ever stronger, up to a pair.
    """
    for i in range(len(group)):
        j = i
        while group[j] < 0 and strongest[j] >= 0:
            j = neighbour[strongest[j]]
        k = i
        while k != j:
            group[k] = group[j]
            k = neighbour[strongest[k]]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _contract(
    start: IntArray, neighbour: IntArray, weight: Array, group: IntArray, count: int
) -> tuple[IntArray, IntArray, Array]:
    """Graph between groups: weights of parallel edges are added, and edges within a group vanish."""
    n = len(start) - 1
    first = np.zeros(count + 1, dtype=np.int64)
    for i in range(n):
        if group[i] >= 0:
            first[group[i] + 1] += 1
    first = np.cumsum(first)
    fill, members = first.copy(), np.empty(n, dtype=np.int64)
    for i in range(n):
        if group[i] >= 0:
            members[fill[group[i]]] = i
            fill[group[i]] += 1
    new_start = np.zeros(count + 1, dtype=np.int64)
    new_neighbour, new_weight = np.empty(len(neighbour), dtype=np.int64), np.empty(len(weight))
    place = np.full(count, -1)  # where the edge to a group was put
    end = 0
    for g in range(count):
        for m in range(first[g], first[g + 1]):
            i = members[m]
            for k in range(start[i], start[i + 1]):
                h = group[neighbour[k]]
                if h == g:
                    continue
                if place[h] < new_start[g]:
                    place[h] = end
                    new_neighbour[end], new_weight[end] = h, 0.0
                    end += 1
                new_weight[place[h]] += weight[k]
        new_start[g + 1] = end
    return new_start, new_neighbour[:end].copy(), new_weight[:end].copy()
