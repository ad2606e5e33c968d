"""Compiled loops over edges and nodes.  Importing this module imports numba.

Sums run in a fixed order (edges by number, a node's edges by number) and without fast-math, so a repeated run gives
the same bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array, EdgeDifference, LinearMap

__all__ = ["compiled", "invert_blocks", "multiply_blocks", "project_l2_rows"]

EPS = float(np.finfo(float).eps)

Adjacency = tuple[NDArray[np.int64], NDArray[np.int64], Array]
"""For every node: where its edges start, their numbers, and +1 (head) or -1 (tail)."""


def compiled(map: LinearMap) -> tuple[Callable[[Array, Array, Array], Array], Callable[[Array], Array]]:
    """``(U, W, step) -> U + step * K W`` and ``U -> K^T U``, as compiled loops for differences across edges."""
    if not isinstance(map, EdgeDifference):
        return (lambda U, W, step: U + step[:, None] * map.apply(W)), map.adjoint
    table = _adjacency(map)
    return (lambda U, W, step: _dual_ascent(U, W, map.tail, map.head, step)), (lambda U: _node_divergence(U, *table))


def _adjacency(edge_map: EdgeDifference) -> Adjacency:
    """Edges of every node in one compressed table."""
    ends = np.concatenate(edge_map.ends)
    edges = np.tile(np.arange(edge_map.n_rows), 2)
    signs = np.repeat([-1.0, 1.0], edge_map.n_rows)
    order = np.lexsort((edges, ends))
    start = np.zeros(edge_map.n_nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=edge_map.n_nodes), out=start[1:])
    return start, edges[order], signs[order]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _node_divergence(U: Array, start: Array, edges: Array, signs: Array) -> Array:
    n, dim = len(start) - 1, U.shape[1]
    out = np.zeros((n, dim))
    for i in range(n):
        for k in range(start[i], start[i + 1]):
            e, sign = edges[k], signs[k]
            for j in range(dim):
                out[i, j] += sign * U[e, j]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _dual_ascent(U: Array, W: Array, tail: Array, head: Array, step: Array) -> Array:
    out = np.empty_like(U)
    for e in range(U.shape[0]):
        i, j = tail[e], head[e]
        for k in range(U.shape[1]):
            out[e, k] = U[e, k] + step[e] * (W[j, k] - W[i, k])
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _multiply_blocks(M: Array, V: Array, offset: Array) -> Array:
    n, dim = V.shape
    out = np.empty_like(V)
    for i in range(n):
        for j in range(dim):
            total = offset[i, j]
            for k in range(dim):
                total += M[i, j, k] * V[i, k]
            out[i, j] = total
    return out


def multiply_blocks(M: Array, V: Array, offset: Array) -> Array:
    """``M_i v_i + offset_i`` for every row."""
    out: Array = _multiply_blocks(M, np.ascontiguousarray(V), offset)
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _invert_blocks(M: Array) -> Array:
    n, dim, _ = M.shape
    out = np.zeros((n, dim, dim))
    L, pivot = np.empty((dim, dim)), np.empty(dim)
    for i in range(n):
        for r in range(dim):  # row r of L with M = L diag(pivot) L^T
            for j in range(r):
                L[r, j] = M[i, r, j]
                for k in range(j):
                    L[r, j] -= L[r, k] * L[j, k] * pivot[k]
                L[r, j] /= pivot[j]
            pivot[r] = M[i, r, r]
            for k in range(r):
                pivot[r] -= L[r, k] * L[r, k] * pivot[k]
            pivot[r] = max(pivot[r], EPS * M[i, r, r])
        for r in range(dim):  # row r of L^{-1} in its place
            for k in range(r):
                factor, L[r, k] = L[r, k], 0.0
                for j in range(k):
                    L[r, j] -= factor * L[k, j]
                L[r, k] -= factor
            L[r, r] = 1.0
            for j in range(r + 1):
                for k in range(r + 1):
                    out[i, j, k] += L[r, j] * L[r, k] / pivot[r]
    return out


def invert_blocks(M: Array) -> Array:
    """Inverses of positive definite matrices (n, dim, dim), as ``L^{-T} D^{-1} L^{-1}`` with their factors L and D.

    A pivot that rounding made too small is raised to its rounding error.
    """
    out: Array = _invert_blocks(np.ascontiguousarray(M))
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _project_l2_rows(V: Array, radius: Array) -> Array:
    out = np.empty_like(V)
    for e in range(V.shape[0]):
        total = 0.0
        for k in range(V.shape[1]):
            total += V[e, k] * V[e, k]
        factor = 1.0
        if total > radius[e] * radius[e]:
            factor = radius[e] / np.sqrt(total)
        for k in range(V.shape[1]):
            out[e, k] = factor * V[e, k]
    return out


def project_l2_rows(V: Array, radius: Array) -> Array:
    """Projection of every row onto the Euclidean ball of its radius."""
    out: Array = _project_l2_rows(V, radius)
    return out
