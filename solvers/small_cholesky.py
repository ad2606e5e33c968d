"""Cholesky factors of small dense matrices inside compiled loops.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array

__all__ = ["backward", "factorise", "factorise_independent", "forward"]

EPS = float(np.finfo(float).eps)
# Pivots below this share of their diagonal entry are zero but for rounding.
RANK_TOLERANCE = 1e-14


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def forward(L: Array, x: Array, d: int) -> None:
    """``x <- L^{-1} x``."""
    for i in range(d):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]


@njit(cache=True)  # type: ignore[untyped-decorator]
def backward(L: Array, x: Array, d: int) -> None:
    """``x <- L^{-T} x``."""
    for i in range(d - 1, -1, -1):
        for k in range(i + 1, d):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@njit(cache=True)  # type: ignore[untyped-decorator]
def factorise_independent(S: Array, d: int, first: Array, second: Array, whole: Array) -> int:
    """Factorise the part of S whose rows are independent, which comes first afterwards; returns its size.

    The pivot is the one that keeps most of its diagonal entry (kept in ``whole``).  The rows of two arrays follow the
    permutation of those of S, a symmetric matrix given in full.
    """
    for j in range(d):
        whole[j] = S[j, j]
    for j in range(d):
        best, share = j, 0.0
        for i in range(j, d):
            if S[i, i] > share * whole[i]:
                best, share = i, S[i, i] / whole[i]
        if share <= RANK_TOLERANCE:
            return j
        if best != j:
            whole[j], whole[best] = whole[best], whole[j]
            for array in (first, second, S):
                for k in range(array.shape[1]):
                    array[j, k], array[best, k] = array[best, k], array[j, k]
            for i in range(d):
                S[i, j], S[i, best] = S[i, best], S[i, j]
        S[j, j] = np.sqrt(S[j, j])
        for i in range(j + 1, d):
            S[i, j] /= S[j, j]
        for i in range(j + 1, d):
            for k in range(j + 1, d):
                S[i, k] -= S[i, j] * S[k, j]
    return d
