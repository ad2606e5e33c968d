"""Compiled updates of conjugate gradients: one pass over memory each.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from .conjugate_gradients import Operator, Updates
from .linear_maps import Array

__all__ = ["block_jacobi", "compiled_updates", "point_jacobi"]


def compiled_updates() -> Updates:
    """For large matrices."""
    return Updates(_inner, _advance, _turn)


def point_jacobi(diagonal: Array) -> Operator:
    """Division by the diagonal."""
    scale = 1.0 / np.where(diagonal > 0, diagonal, 1.0)

    def precondition(R: Array, out: Array) -> None:
        np.multiply(scale, R, out=out)

    return precondition


def block_jacobi(inverses: Array) -> Operator:
    """Multiplication by the inverses of the blocks."""
    return lambda R, out: _multiply_rows(inverses, R, out)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _multiply_rows(M: Array, V: Array, out: Array) -> None:
    n, dim = V.shape
    for i in range(n):
        for j in range(dim):
            total = 0.0
            for k in range(dim):
                total += M[i, j, k] * V[i, k]
            out[i, j] = total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _inner(U: Array, V: Array) -> float:
    total = 0.0
    for i in range(U.shape[0]):
        row = 0.0
        for j in range(U.shape[1]):
            row += U[i, j] * V[i, j]
        total += row
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _advance(X: Array, R: Array, P: Array, AP: Array, length: float) -> float:
    total = 0.0
    for i in range(R.shape[0]):
        row = 0.0
        for j in range(R.shape[1]):
            X[i, j] += length * P[i, j]
            R[i, j] -= length * AP[i, j]
            row += R[i, j] ** 2
        total += row
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _turn(P: Array, Z: Array, R: Array, AP: Array, length: float, product: float) -> float:
    change, new = 0.0, 0.0
    for i in range(R.shape[0]):
        row_change, row_new = 0.0, 0.0
        for j in range(R.shape[1]):
            row_change += Z[i, j] * AP[i, j]
            row_new += Z[i, j] * R[i, j]
        change += row_change
        new += row_new
    beta = -length * change / product
    for i in range(R.shape[0]):
        for j in range(R.shape[1]):
            P[i, j] = Z[i, j] + beta * P[i, j]
    return new
