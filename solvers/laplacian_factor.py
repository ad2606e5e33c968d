"""Sparse Cholesky factors of weighted Laplacians ``diag(s) + D^T diag(c) D`` of one graph, for changing s and c.

The up-looking method of T. A. Davis, "Direct Methods for Sparse Linear Systems" (SIAM, 2006), Sections 4.1 to 4.7,
DOI 10.1137/1.9780898718881, with its symbolic part done once per graph.  Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import spilu

from .linear_maps import Array, EdgeDifference, IntArray
from .triangular_solves import Index, solve, substitute

__all__ = ["LaplacianFactor", "LaplacianPattern", "factor_is_cheap", "substitute", "thin_pattern"]

# Multiplications that a factor with the bandwidth of a reverse Cuthill-McKee order would take, at most.
BANDED_WORK = 2e9


@dataclass(frozen=True, eq=False)
class LaplacianFactor:
    """``L L^T``, the Laplacian in the order of its pattern."""

    order: IntArray
    start: IntArray
    rows: Index
    values: Array

    def solve(self, B: Array) -> Array:
        """Solution X (n_nodes, dim) for right-hand sides B of that shape."""
        return np.asarray(solve(np.ascontiguousarray(B), self.order, self.start, self.rows, self.values))


class LaplacianPattern:
    """Where factors of Laplacians of one graph are not zero.

    Parameters
    ----------
    tail, head : int arrays (n_edges,)
        Ends of the edges; parallel edges add.
    n_nodes : int
        Number of nodes.
    """

    def __init__(self, tail: IntArray, head: IntArray, n_nodes: int) -> None:
        self.tail, self.head, self.n_nodes = tail, head, n_nodes
        position = _minimum_degree(tail, head, n_nodes)
        self.order = np.argsort(position)
        ends = position[tail], position[head]
        above, column = np.minimum(*ends), np.maximum(*ends)
        self._first, self._edges = _sort(column, n_nodes)
        self._above = above[self._edges].astype(np.uint32)
        parent = _elimination_tree(self._first, self._above)
        self._row_start, self._row_columns = _row_patterns(self._first, self._above, parent)
        counts = np.bincount(self._row_columns, minlength=n_nodes) + 1
        self.start = np.concatenate([[0], np.cumsum(counts)])

    @property
    def work(self) -> float:
        """Multiplications that a factor takes, about."""
        return 0.5 * float((np.diff(self.start) ** 2.0).sum())

    def factor(self, shift: Array, conductance: Array) -> LaplacianFactor:
        """Factor of ``diag(shift) + D^T diag(conductance) D``, with shift (n_nodes,) > 0 and conductance >= 0."""
        diagonal = shift + np.bincount(self.tail, conductance, self.n_nodes)
        diagonal += np.bincount(self.head, conductance, self.n_nodes)
        rows, values = _factorise(
            diagonal[self.order],
            conductance[self._edges],
            self._first,
            self._above,
            self._row_start,
            self._row_columns,
            self.start,
        )
        return LaplacianFactor(self.order, self.start, rows, values)


_PATTERNS: WeakKeyDictionary[EdgeDifference, LaplacianPattern | None] = WeakKeyDictionary()


def thin_pattern(map: EdgeDifference) -> LaplacianPattern | None:
    """The pattern of a graph that is thin enough, found once for every map."""
    if map not in _PATTERNS:
        thin = factor_is_cheap(map.tail, map.head, map.n_nodes)
        _PATTERNS[map] = LaplacianPattern(map.tail, map.head, map.n_nodes) if thin else None
    return _PATTERNS[map]


def _minimum_degree(tail: IntArray, head: IntArray, n_nodes: int) -> IntArray:
    """Position of every node in a minimum degree order, which SciPy offers as a part of SuperLU's factors only."""
    nodes = np.arange(n_nodes)
    degree = np.bincount(tail, minlength=n_nodes) + np.bincount(head, minlength=n_nodes)
    values = np.concatenate([np.full(2 * len(tail), -1.0), degree + 1.0])
    places = np.concatenate([tail, head, nodes]), np.concatenate([head, tail, nodes])
    matrix = sparse.coo_array((values, places), shape=(n_nodes, n_nodes)).tocsc()
    # a factor from which everything that can be left out is left out
    options = {"SymmetricMode": True}
    factor = spilu(
        matrix, drop_tol=1.0, fill_factor=1.0, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options
    )
    return np.asarray(factor.perm_c, dtype=np.int64)


def factor_is_cheap(tail: IntArray, head: IntArray, n_nodes: int) -> bool:
    """Whether the graph is as thin as meshes and neighbours in the plane are, so that its factors stay sparse."""
    links = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(n_nodes, n_nodes))
    order = reverse_cuthill_mckee(sparse.csr_array(links + links.T), symmetric_mode=True)
    position = np.empty(n_nodes, dtype=np.int64)
    position[order] = np.arange(n_nodes)
    width = float(np.abs(position[tail] - position[head]).max(initial=0))
    return bool(n_nodes * width**2 <= BANDED_WORK)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _elimination_tree(first: IntArray, above: Index) -> IntArray:
    n = len(first) - 1
    parent, ancestor = np.full(n, -1), np.full(n, -1)
    for k in range(n):
        for p in range(first[k], first[k + 1]):
            i = above[p]
            while i != -1 and i < k:
                following = ancestor[i]
                ancestor[i] = k
                if following == -1:
                    parent[i] = k
                i = following
    return parent


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sort(keys: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Where every key from 0 to n - 1 starts, and its places in their order."""
    start, order = np.zeros(n + 1, dtype=np.int64), np.empty(len(keys), dtype=np.int64)
    for key in keys:
        start[key + 1] += 1
    for k in range(n):
        start[k + 1] += start[k]
    fill = start[:n].copy()
    for p in range(len(keys)):
        order[fill[keys[p]]] = p
        fill[keys[p]] += 1
    return start, order


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _row_patterns(first: IntArray, above: Index, parent: IntArray) -> tuple[IntArray, Index]:
    """Columns of each row of L left of the diagonal: every one after those that change it, its descendants."""
    n = len(first) - 1
    mark, start = np.full(n, -1), np.zeros(n + 1, dtype=np.int64)
    for k in range(n):
        mark[k] = k
        for p in range(first[k], first[k + 1]):
            i = int(above[p])
            while mark[i] != k:
                mark[i] = k
                start[k + 1] += 1
                i = parent[i]
        start[k + 1] += start[k]
    columns, path = np.empty(start[n], dtype=np.uint32), np.empty(n, dtype=np.int64)
    mark[:] = -1
    for k in range(n):
        mark[k], last = k, start[k + 1]
        for p in range(first[k], first[k + 1]):
            i, length = int(above[p]), 0
            while mark[i] != k:  # paths found later lie below those found before
                mark[i] = k
                path[length] = i
                length += 1
                i = parent[i]
            for q in range(length - 1, -1, -1):
                last -= 1
                columns[last] = path[q]
    return start, columns


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _factorise(
    diagonal: Array,
    conductance: Array,
    first: IntArray,
    above: Index,
    row_start: IntArray,
    row_columns: Index,
    start: IntArray,
) -> tuple[Index, Array]:
    n = len(diagonal)
    rows, values = np.empty(start[n], dtype=np.uint32), np.empty(start[n])
    fill, x = start[:n].copy(), np.zeros(n)
    for k in range(n):
        for p in range(first[k], first[k + 1]):
            x[above[p]] -= conductance[p]
        pivot = diagonal[k]
        for q in range(row_start[k], row_start[k + 1]):
            i = row_columns[q]
            entry = x[i] / values[start[i]]
            x[i] = 0.0
            last = fill[i]
            for p in range(start[i] + 1, last):
                x[rows[p]] -= values[p] * entry
            pivot -= entry * entry
            rows[last], values[last] = k, entry
            fill[i] = last + 1
        # rounding of a singular Laplacian's last pivot
        values[fill[k]] = np.sqrt(max(pivot, 1e-300))
        rows[fill[k]] = k
        fill[k] += 1
    return rows, values
