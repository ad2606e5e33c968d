"""Compiled products with matrices ``blockdiag(Q_i) + L kron I``.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array

__all__ = ["multiply_level", "multiply_rows"]

IntArray = NDArray[np.int64]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _multiply_laplacian(
    first: int, last: int, start: IntArray, neighbour: IntArray, weight: Array, degrees: Array, V: Array, out: Array
) -> None:
    dim = V.shape[1]
    sums = np.empty(dim)
    for i in range(first, last):
        for j in range(dim):
            sums[j] = degrees[i] * V[i, j]
        for e in range(start[i], start[i + 1]):
            factor, other = weight[e], neighbour[e]
            for j in range(dim):
                sums[j] -= factor * V[other, j]
        for j in range(dim):
            out[i, j] = sums[j]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def multiply_level(
    first: int, last: int, start: IntArray, neighbour: IntArray, weight: Array, degrees: Array, Q: Array,
    V: Array, out: Array,
) -> None:  # fmt: skip
    """Rows of the matrix of one level times V."""
    dim = V.shape[1]
    _multiply_laplacian(first, last, start, neighbour, weight, degrees, V, out)
    for i in range(first, last):  # apart, since Q would drive V out of the cache
        for j in range(dim):
            total = 0.0
            for k in range(dim):
                total += Q[i, j, k] * V[i, k]
            out[i, j] += total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def multiply_rows(
    start: IntArray, neighbour: IntArray, weight: Array, degrees: Array, rows: Array, V: Array, out: Array
) -> None:
    """The same for the devices, with ``R_i^T (R_i v_i)`` in place of ``Q_i v_i``."""
    n, m, dim = rows.shape
    _multiply_laplacian(0, n, start, neighbour, weight, degrees, V, out)
    for i in range(n):
        for r in range(m):
            total = 0.0
            for k in range(dim):
                total += rows[i, r, k] * V[i, k]
            for k in range(dim):
                out[i, k] += total * rows[i, r, k]
