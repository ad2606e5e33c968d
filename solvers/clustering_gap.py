"""The certified gap of a clustering problem, and the clusters that it tells, in one pass each over nodes and edges.

The terms are those of :mod:`gtvmin.gap`, estimates of rounding included, for losses ``m_i/2 ||w_i - a_i||^2`` and the
Euclidean norm; the rule of fusion is that of :mod:`gtvmin.fusion`.  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .clustering_network import ClusteringNetwork
from .linear_maps import Array, IntArray

__all__ = ["fused_labels", "proved_gap"]

EPS = float(np.finfo(float).eps)
# Rounding counts this many times, as sums are taken in another order than in certificates.
CAUTION = 2.0


def proved_gap(network: ClusteringNetwork, strength: float, W: Array, U: Array) -> tuple[float, float]:
    """Bound on the suboptimality of W that the flows U prove, and the objective at W.

    Flows outside their balls are scaled into them.  The bound covers an estimate of its own rounding; it is NaN or
    infinite where numbers are beyond the range of doubles.
    """
    bound, inside = strength * network.weights, np.empty_like(U)
    from_edges, objective = _edge_terms(W, U, bound, network.tail, network.head, inside)
    from_nodes, fit = _node_terms(network.mass, network.centres, W, inside, *network.incident)
    return float(from_edges + from_nodes), float(objective + fit)


def fused_labels(
    network: ClusteringNetwork, W: Array, U: Array, bound: Array, radius: Array, close: float, least: float, held: float
) -> IntArray:
    """Clusters (n_nodes,), numbered in order of their first nodes, that fused edges join.

    Parameters
    ----------
    network : ClusteringNetwork
        The network.
    W, U : arrays
        Parameters and flows.
    bound : array (n_edges,)
        Radii of the balls of the flows.
    radius : array (n_nodes,)
        How far each node may be from its optimum.
    close : float
        Ends that are no further apart are fused.
    least : float
        Ends that are no further apart are never taken for split; others are where their radii prove it.
    held : float
        Ends whose flow is at most this share of its bound are fused too.
    """
    labels: IntArray = _fused_labels(W, U, bound, radius, network.tail, network.head, close, least, held)
    return labels


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _edge_terms(W: Array, U: Array, bound: Array, tail: IntArray, head: IntArray, inside: Array) -> tuple[float, float]:
    dim = W.shape[1]
    gap, objective = 0.0, 0.0
    for e in range(len(tail)):
        square, product, size = 0.0, 0.0, 0.0
        for j in range(dim):
            size += U[e, j] * U[e, j]
        limit, share = (1.0 - 4.0 * EPS) * bound[e], 1.0
        if not size <= limit * limit:
            share = limit / np.sqrt(size)
        for j in range(dim):
            flow, difference = share * U[e, j], W[head[e], j] - W[tail[e], j]
            inside[e, j] = flow
            square += difference * difference
            product += difference * flow
        length = bound[e] * np.sqrt(square)
        # written so that NaN is kept
        term = length - product
        gap += (0.0 if term < 0.0 else term) + 2.0 * CAUTION * (dim + 4) * EPS * length
        objective += length
    return gap, objective


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _node_terms(
    mass: Array, centres: Array, W: Array, U: Array, start: IntArray, edges: IntArray, signs: Array
) -> tuple[float, float]:
    n, dim = W.shape
    units = 2.0 * CAUTION * (dim + 2) * EPS
    gap, objective = 0.0, 0.0
    for i in range(n):
        square, error, drift = 0.0, 0.0, 0.0
        of_sum = CAUTION * EPS * np.sqrt(4.0 + start[i + 1] - start[i])
        for j in range(dim):
            move, net, throughput = W[i, j] - centres[i, j], 0.0, 0.0
            for k in range(start[i], start[i + 1]):
                net += signs[k] * U[edges[k], j]
                throughput += abs(U[edges[k], j])
            force = mass[i] * move + net
            size = units * (mass[i] * (abs(W[i, j]) + abs(centres[i, j])) + abs(net))
            square += force * force
            error += size * size
            drift += (of_sum * throughput) ** 2
            objective += 0.5 * mass[i] * move * move
        square, error, drift = square / mass[i], error / mass[i], drift / mass[i]
        gap += (0.5 + (dim + 2) * units) * square
        gap += np.sqrt(square * error) + 0.5 * error + np.sqrt(square * drift) + 0.5 * drift
    return gap, objective


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fused_labels(
    W: Array,
    U: Array,
    bound: Array,
    radius: Array,
    tail: IntArray,
    head: IntArray,
    close: float,
    least: float,
    held: float,
) -> IntArray:
    n, dim = W.shape
    parent = np.arange(n)
    for e in range(len(tail)):
        jump, size = 0.0, 0.0
        for j in range(dim):
            jump += (W[head[e], j] - W[tail[e], j]) ** 2
            size += U[e, j] * U[e, j]
        jump, size = np.sqrt(jump), np.sqrt(size)
        if jump <= max(np.hypot(radius[tail[e]], radius[head[e]]), least) and (
            jump <= close or size <= held * bound[e]
        ):
            a, b = tail[e], head[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            # the root of a cluster is its first node
            parent[max(a, b)] = min(a, b)
    labels, count = np.empty(n, dtype=np.int64), 0
    for i in range(n):
        if parent[i] == i:
            labels[i] = count
            count += 1
        else:
            labels[i] = labels[parent[i]]
    return labels
