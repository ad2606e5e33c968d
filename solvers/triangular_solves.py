"""Solutions of ``L L^T X = B`` for sparse factors L, column by column.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array, IntArray

__all__ = ["Index", "solve", "substitute"]

Index = NDArray[np.uint32]
"""Rows and columns of sparse matrices: compiled loops need not look for negative ones, and half the memory."""

# So many right-hand sides are solved two by two, more all at once, which loads the factor once.
NARROW = 6


def solve(B: Array, order: IntArray, start: IntArray, rows: Index, values: Array) -> Array:
    """X (n, dim) for a factor of the matrix in another order of the nodes."""
    found: Array = (_solve_pairs if B.shape[1] <= NARROW else _solve_rows)(B, order, start, rows, values)
    return found


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _solve_pairs(B: Array, order: IntArray, start: IntArray, rows: Index, values: Array) -> Array:
    n, dim = B.shape
    out, pairs = np.empty_like(B), np.zeros((1, n, 2))
    for first in range(0, dim, 2):
        for i in range(n):
            for k in range(first, min(first + 2, dim)):
                pairs[0, i, k - first] = B[order[i], k]
        substitute(pairs, start, rows, values)
        for i in range(n):
            for k in range(first, min(first + 2, dim)):
                out[order[i], k] = pairs[0, i, k - first]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _solve_rows(B: Array, order: IntArray, start: IntArray, rows: Index, values: Array) -> Array:
    n, dim = B.shape
    out, X = np.empty_like(B), np.empty_like(B)
    for i in range(n):
        for k in range(dim):
            X[i, k] = B[order[i], k]
    for j in range(n):
        scale = 1.0 / values[start[j]]
        for k in range(dim):
            X[j, k] *= scale
        for p in range(start[j] + 1, start[j + 1]):
            i, entry = rows[p], values[p]
            for k in range(dim):
                X[i, k] -= entry * X[j, k]
    for j in range(n - 1, -1, -1):
        for p in range(start[j] + 1, start[j + 1]):
            i, entry = rows[p], values[p]
            for k in range(dim):
                X[j, k] -= entry * X[i, k]
        scale = 1.0 / values[start[j]]
        for k in range(dim):
            X[j, k] *= scale
            out[order[j], k] = X[j, k]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def substitute(pairs: Array, start: IntArray, rows: Index, values: Array) -> None:
    """Overwrite every pair of columns (n_nodes, 2) by its solution: two at once is what registers hold."""
    n = pairs.shape[1]
    for k in range(len(pairs)):
        X = pairs[k]
        for j in range(n):
            scale = 1.0 / values[start[j]]
            a, b = scale * X[j, 0], scale * X[j, 1]
            X[j, 0], X[j, 1] = a, b
            for p in range(start[j] + 1, start[j + 1]):
                i, entry = rows[p], values[p]
                X[i, 0] -= entry * a
                X[i, 1] -= entry * b
        for j in range(n - 1, -1, -1):
            a, b = X[j, 0], X[j, 1]
            for p in range(start[j] + 1, start[j + 1]):
                i, entry = rows[p], values[p]
                a -= entry * X[i, 0]
                b -= entry * X[i, 1]
            scale = 1.0 / values[start[j]]
            X[j, 0], X[j, 1] = scale * a, scale * b
