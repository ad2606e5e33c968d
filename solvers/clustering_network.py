"""Clustering problems as arrays: ``sum_i m_i/2 ||w_i - a_i||^2 + strength * sum_e A_e ||w_head - w_tail||_2``.

Importing this module imports numba.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from .laplacian_factor import LaplacianFactor, LaplacianPattern, substitute
from .linear_maps import Array, IntArray

__all__ = ["ClusteringNetwork", "Contracted", "Groups"]


class Groups(NamedTuple):
    """A partition: group of each node (n_nodes,) and the number of groups."""

    labels: IntArray
    size: int


class ClusteringNetwork:
    """A network whose nodes have masses and centres.

    Parameters
    ----------
    mass : array (n_nodes,)
        ``m_i > 0``.
    centres : array (n_nodes, dim)
        ``a_i``.
    tail, head : int arrays (n_edges,)
        Ends of the edges.
    weights : array (n_edges,)
        ``A_e > 0``.
    """

    def __init__(self, mass: Array, centres: Array, tail: IntArray, head: IntArray, weights: Array) -> None:
        self.mass, self.centres, self.tail, self.head, self.weights = mass, centres, tail, head, weights
        self.n_nodes, self.dim = centres.shape
        self.linear = mass[:, None] * centres
        ends = np.concatenate([tail, head])
        order = np.argsort(ends, kind="stable")
        start = np.searchsorted(ends[order], np.arange(self.n_nodes + 1))
        # for every node: where its edges start, their numbers, and +1 (head) or -1 (tail)
        self.incident = (start, order % max(len(tail), 1), np.where(order < len(tail), -1.0, 1.0))

    @cached_property
    def pattern(self) -> LaplacianPattern:
        """Pattern of the factors of its Laplacians."""
        return LaplacianPattern(self.tail, self.head, self.n_nodes)

    def differences(self, W: Array) -> Array:
        """``w_head - w_tail``."""
        return W[self.head] - W[self.tail]

    def residual(self, W: Array, U: Array) -> Array:
        """``m_i (w_i - a_i) + (D^T U)_i``: zero where the flows U balance the pull of the centres."""
        out: Array = _residual(self.mass, self.centres, W, U, *self.incident)
        return out

    def gap(self, strength: float, W: Array, U: Array) -> tuple[float, float]:
        """Gap of W and of flows with ``||u_e|| <= strength A_e``, and the objective at W."""
        return self.gap_and_residual(strength, W, U)[:2]

    def gap_and_residual(self, strength: float, W: Array, U: Array) -> tuple[float, float, Array]:
        """Both at once."""
        residual = self.residual(W, U)
        gap, objective = _gap(self.mass, self.centres, W, U, residual, strength * self.weights, self.tail, self.head)
        return float(gap), float(objective), residual

    def admm_steps(
        self,
        factor: LaplacianFactor,
        penalties: Array,
        strength: float,
        iterate: tuple[Array, Array, Array],
        count: int,
    ) -> None:
        """Change (W, U, Z) by a number of over-relaxed steps of ADMM, see :mod:`gtvmin.solvers.admm`."""
        bound, arrays = strength * self.weights, (factor.order, factor.start, factor.rows, factor.values)
        _admm_steps(self.linear, *iterate, bound, penalties, self.tail, self.head, *arrays, count)

    def components(self, kept: NDArray[np.bool_]) -> Groups:
        """Groups that the kept edges join."""
        links = (np.ones(int(kept.sum()), dtype=np.int8), (self.tail[kept], self.head[kept]))
        matrix = sparse.coo_array(links, shape=(self.n_nodes, self.n_nodes))
        count, labels = connected_components(matrix, directed=False)
        return Groups(labels.astype(np.int64), int(count))

    def means(self, groups: Groups, rows: Array) -> Array:
        """Means over groups, weighted by mass, of the rows divided by their masses."""
        total = np.bincount(groups.labels, self.mass, groups.size)
        return np.column_stack([np.bincount(groups.labels, column, groups.size) for column in rows.T]) / total[:, None]


class Contracted:
    """A network whose nodes are groups, and the way between its points and those of the full network.

    Attributes
    ----------
    network : ClusteringNetwork
        Groups with their masses and mean centres; parallel edges are one, whose weight is their sum.
    groups : Groups
        Group of each node.
    offset : float
        What the objective of the full network has on top: the spread of the centres inside groups.
    """

    def __init__(self, full: ClusteringNetwork, groups: Groups) -> None:
        self.full, self.groups = full, groups
        labels, count = groups
        tail, head = labels[full.tail], labels[full.head]
        self._across = np.flatnonzero(tail != head)
        tail, head = tail[self._across], head[self._across]
        key, self._joined = np.unique(np.minimum(tail, head) * count + np.maximum(tail, head), return_inverse=True)
        self._sign = np.where(tail > head, -1.0, 1.0)
        weights = np.asarray(np.bincount(self._joined, full.weights[self._across], len(key)), dtype=float)
        self._share = (self._sign * full.weights[self._across] / weights[self._joined])[:, None]
        centres = full.means(groups, full.linear)
        mass = np.asarray(np.bincount(labels, full.mass, count), dtype=float)
        self.network = ClusteringNetwork(mass, centres, key // count, key % count, weights)
        self.offset = 0.5 * float((full.mass[:, None] * (full.centres - centres[labels]) ** 2).sum())

    def shrink(self, W: Array, U: Array) -> tuple[Array, Array]:
        """Mean parameters of the groups, and the flows between them."""
        full, flows = self.full, self._sign[:, None] * U[self._across]
        summed = [np.bincount(self._joined, column, self.network.weights.size) for column in flows.T]
        return full.means(self.groups, full.mass[:, None] * W), np.column_stack(summed)

    def expand(self, flows: Array, U: Array) -> Array:
        """Flows between groups in place of those in U."""
        U = U.copy()
        U[self._across] = self._share * flows[self._joined]
        return U


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _residual(mass: Array, centres: Array, W: Array, U: Array, start: IntArray, edges: IntArray, signs: Array) -> Array:
    n, dim = W.shape
    out = np.empty((n, dim))
    for i in range(n):
        for j in range(dim):
            out[i, j] = mass[i] * (W[i, j] - centres[i, j])
        for k in range(start[i], start[i + 1]):
            for j in range(dim):
                out[i, j] += signs[k] * U[edges[k], j]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _gap(
    mass: Array, centres: Array, W: Array, U: Array, residual: Array, bound: Array, tail: IntArray, head: IntArray
) -> tuple[float, float]:
    n, dim = W.shape
    gap, objective = 0.0, 0.0
    for i in range(n):
        for j in range(dim):
            move = W[i, j] - centres[i, j]
            gap += 0.5 * residual[i, j] * residual[i, j] / mass[i]
            objective += 0.5 * mass[i] * move * move
    for e in range(len(tail)):
        square, product = 0.0, 0.0
        for j in range(dim):
            difference = W[head[e], j] - W[tail[e], j]
            square += difference * difference
            product += difference * U[e, j]
        length = bound[e] * np.sqrt(square)
        gap += max(length - product, 0.0)
        objective += length
    return gap, objective


RELAXATION = 1.6


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _admm_steps(
    linear: Array,
    W: Array,
    U: Array,
    Z: Array,
    bound: Array,
    penalties: Array,
    tail: IntArray,
    head: IntArray,
    order: IntArray,
    first: IntArray,
    rows: IntArray,
    values: Array,
    count: int,
) -> None:
    n, dim = W.shape
    right, pull = np.zeros(((dim + 1) // 2, n, 2)), linear.copy()
    for e in range(len(tail)):
        for j in range(dim):
            force = penalties[e] * Z[e, j] - U[e, j]
            pull[head[e], j] += force
            pull[tail[e], j] -= force
    for _ in range(count):
        for j in range(dim):
            for k in range(n):
                right[j // 2, k, j % 2] = pull[order[k], j]
        substitute(right, first, rows, values)
        for j in range(dim):
            for k in range(n):
                W[order[k], j] = right[j // 2, k, j % 2]
        pull[:] = linear
        for e in range(len(tail)):
            t, h, penalty = tail[e], head[e], penalties[e]
            square = 0.0
            for j in range(dim):
                ahead = RELAXATION * (W[h, j] - W[t, j]) + (1.0 - RELAXATION) * Z[e, j]
                moved = U[e, j] + penalty * ahead
                Z[e, j] = moved
                square += moved * moved
            share, rest = 1.0, 0.0
            if square > bound[e] * bound[e]:
                share = bound[e] / np.sqrt(square)
                rest = (1.0 - share) / penalty
            for j in range(dim):
                moved = Z[e, j]
                U[e, j] = share * moved
                Z[e, j] = rest * moved
                force = (1.0 - 2.0 * share) * moved  # penalty * copy - multiplier
                pull[h, j] += force
                pull[t, j] -= force
