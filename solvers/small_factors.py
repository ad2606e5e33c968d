"""Factors of small dense matrices inside compiled loops.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array

__all__ = ["backward", "factorise", "forward", "orthonormalise"]

EPS = float(np.finfo(float).eps)
# Of a row that depends on others no more than this share is left.
RANK_TOLERANCE = 1e-13


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def factorise(M: Array, d: int) -> None:
    """Put L of ``M = L L^T`` in place of the lower triangle of the leading d rows and columns of M.

    A pivot that rounding made too small is raised to its rounding error.
    """
    for j in range(d):
        diagonal = M[j, j]
        for k in range(j):
            M[j, j] -= M[j, k] * M[j, k]
        M[j, j] = np.sqrt(max(M[j, j], EPS * diagonal))
        for i in range(j + 1, d):
            for k in range(j):
                M[i, j] -= M[i, k] * M[j, k]
            M[i, j] /= M[j, j]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def forward(L: Array, x: Array, d: int) -> None:
    """``x <- L^{-1} x``."""
    for i in range(d):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def backward(L: Array, x: Array, d: int) -> None:
    """``x <- L^{-T} x``."""
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _norm(x: Array, d: int) -> float:
    total = 0.0
    for k in range(d):
        total += x[k] ** 2
    return float(np.sqrt(total))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _swap_rows(M: Array, i: int, j: int) -> None:
    for k in range(M.shape[1]):
        M[i, k], M[j, k] = M[j, k], M[i, k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def orthonormalise(B: Array, d: int, L: Array, table: Array, length: Array) -> int:
    """Put ``B = L Q`` with orthonormal rows Q in place of B's independent rows, which come first; returns their number.

    Rows have length d.  Gram and Schmidt's method, modified and repeated once for every row; the next row is the one of
    which most is left.  The rows of a table follow the permutation.
    """
    n = len(B)
    for j in range(n):
        length[j] = _norm(B[j], d)
    for j in range(n):
        best, share = j, -1.0
        for i in range(j, n):
            left = _norm(B[i], d)
            if left > share * length[i]:
                best, share = i, left / length[i]
        if best != j:
            length[j], length[best] = length[best], length[j]
            _swap_rows(B, j, best)
            _swap_rows(L, j, best)
            _swap_rows(table, j, best)
        for i in range(j):
            again = 0.0
            for k in range(d):
                again += B[i, k] * B[j, k]
            L[j, i] += again
            for k in range(d):
                B[j, k] -= again * B[i, k]
        L[j, j] = _norm(B[j], d)
        if L[j, j] <= RANK_TOLERANCE * length[j]:
            return int(j)
        for k in range(d):
            B[j, k] /= L[j, j]
        for i in range(j + 1, n):
            L[i, j] = 0.0
            for k in range(d):
                L[i, j] += B[j, k] * B[i, k]
            for k in range(d):
                B[i, k] -= L[i, j] * B[j, k]
    return int(n)
