"""Maximum flow from nodes with excess to nodes with deficit, by push-relabel.

A. V. Goldberg, R. E. Tarjan, "A new approach to the maximum-flow problem", Journal of the ACM 35 (1988),
doi:10.1145/48014.61051: first-in first-out, with the exact distance labels of a search from the deficits recomputed now
and then (B. V. Cherkassky, A. V. Goldberg, Algorithmica 19 (1997), doi:10.1007/PL00009180).  Importing this module
imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array
from .triangular_solves import Index

__all__ = ["Arcs", "push_excess"]

IntArray = NDArray[np.int64]

# Work between two searches for exact distances, per node.
WORK = 2


@dataclass(frozen=True, eq=False)
class Arcs:
    """Edges at each node: ``starts`` (n + 1,), and for each arc its other end, its edge, and +1 at the edge's head."""

    starts: IntArray
    other: Index
    edge: Index
    sign: Array

    @classmethod
    def of(cls, tail: IntArray, head: IntArray, n_nodes: int) -> Arcs:
        """Arcs of a graph, at each node in the order of the edges."""
        node, other = np.concatenate([tail, head]), np.concatenate([head, tail])
        edge = np.tile(np.arange(len(tail)), 2)
        sign = np.repeat([-1.0, 1.0], len(tail))
        order = np.lexsort((edge, node))
        starts = np.concatenate([[0], np.cumsum(np.bincount(node, minlength=n_nodes))])
        return cls(starts, other[order].astype(np.uint32), edge[order].astype(np.uint32), sign[order])


def push_excess(
    arcs: Arcs, capacity: Array, open_edges: NDArray[np.bool_], flow: Array, excess: Array
) -> NDArray[np.bool_]:
    """Push as much excess as possible to deficits, along open edges; flow and excess change in place.

    The flow of an edge counts from tail to head and stays within its capacity in both directions.  A unit of flow takes
    one unit of excess from the head to the tail.

    Returns
    -------
    bool array (n,)
        Nodes from which no deficit can be reached any more: the excess that is left is there.  If it is not zero, the
        edges that leave them are a minimum cut.
    """
    out: NDArray[np.bool_] = _push(arcs.starts, arcs.other, arcs.edge, arcs.sign, capacity, open_edges, flow, excess)
    return out


@njit(cache=True, error_model="numpy")
def _label(starts, other, edge, sign, capacity, open_edges, flow, excess, height, queue):  # type: ignore[no-untyped-def]
    """Exact distances to the nearest deficit in the residual graph; n where there is none."""
    n = len(excess)
    last = 0
    for i in range(n):
        height[i] = n
        if excess[i] < 0.0:
            height[i] = 0
            queue[last] = i
            last += 1
    first = 0
    while first < last:
        i = queue[first]
        first += 1
        for a in range(starts[i], starts[i + 1]):
            j, e = other[a], edge[a]
            # from j to i the sign of the arc is the opposite
            if height[j] == n and open_edges[e] and capacity[e] + sign[a] * flow[e] > 0.0:
                height[j] = height[i] + 1
                queue[last] = j
                last += 1


@njit(cache=True, error_model="numpy")
def _push(starts, other, edge, sign, capacity, open_edges, flow, excess):  # type: ignore[no-untyped-def]
    n = len(excess)
    height, queue = np.empty(n, np.int64), np.empty(n, np.int64)
    current = starts[:-1].copy()
    waiting = np.zeros(n, np.bool_)
    active = np.empty(n, np.int64)  # a ring: each node waits at most once
    work = WORK * n
    first = count = 0
    while True:
        if work >= WORK * n:
            work = 0
            _label(starts, other, edge, sign, capacity, open_edges, flow, excess, height, queue)
            first = count = 0
            for i in range(n):
                current[i] = starts[i]
                waiting[i] = excess[i] > 0.0 and height[i] < n
                if waiting[i]:
                    active[count] = i
                    count += 1
        if count == 0:
            break
        i = active[first]
        first = first + 1 if first + 1 < n else 0
        count -= 1
        waiting[i] = False
        while excess[i] > 0.0:
            if current[i] == starts[i + 1]:  # relabel
                lowest = n
                for a in range(starts[i], starts[i + 1]):
                    e = edge[a]
                    if open_edges[e] and capacity[e] - sign[a] * flow[e] > 0.0 and height[other[a]] < lowest:
                        lowest = height[other[a]]
                work += starts[i + 1] - starts[i] + 4
                height[i] = min(lowest + 1, n)
                current[i] = starts[i]
                if height[i] == n:
                    break
                continue
            a = current[i]
            j, e = other[a], edge[a]
            if open_edges[e] and height[i] == height[j] + 1:
                room = capacity[e] - sign[a] * flow[e]
                if room > 0.0:
                    if excess[i] < room:
                        moved = excess[i]
                        flow[e] += sign[a] * moved
                        # at most the capacity, whatever the rounding
                        flow[e] = min(max(flow[e], -capacity[e]), capacity[e])
                    else:
                        moved = room
                        flow[e] = sign[a] * capacity[e]
                    excess[i] -= moved
                    excess[j] += moved
                    if excess[j] > 0.0 and not waiting[j]:
                        waiting[j] = True
                        active[(first + count) % n] = j
                        count += 1
                    if excess[i] <= 0.0:
                        break
            current[i] += 1
        if excess[i] > 0.0 and height[i] < n and not waiting[i]:
            waiting[i] = True
            active[(first + count) % n] = i
            count += 1
    # nodes that hold no excess may have labels from before
    _label(starts, other, edge, sign, capacity, open_edges, flow, excess, height, queue)
    return height == n
