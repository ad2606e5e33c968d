"""The linear systems of Newton steps: dense blocks of the devices, coupled across edges.

The matrix is ``blockdiag(H_i) + sum_e c_e (e_head - e_tail)(e_head - e_tail)^T (x) J_e`` with ``c_e > 0`` and ``J_e =
diag(a_e) - n_e n_e^T`` positive semidefinite.  Conjugate gradients with the Cholesky factors of its diagonal blocks as
preconditioner solve it.  Importing this module imports numba.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .linear_maps import Array, IntArray
from .small_factors import backward, factorise, forward

__all__ = [
    "EdgeJacobian",
    "add_weighted_squares",
    "affine_steps",
    "factor_blocks",
    "solve_blocks",
    "solve_newton_system",
]


class EdgeJacobian(NamedTuple):
    """Ends, ``c_e``, ``a_e`` and ``n_e`` of every edge."""

    tail: IntArray
    head: IntArray
    weight: Array
    diagonal: Array
    normal: Array


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_weighted_squares(H: Array, owner: IntArray, X: Array, weight: Array) -> None:
    """Add ``weight_r x_r x_r^T`` to the symmetric block of each row's owner."""
    d = X.shape[1]
    for r in range(len(weight)):
        if weight[r] != 0.0:
            i = owner[r]
            for j in range(d):
                share = weight[r] * X[r, j]
                for k in range(j + 1):
                    H[i, j, k] += share * X[r, k]
    for i in range(len(H)):
        for j in range(d):
            for k in range(j):
                H[i, k, j] = H[i, j, k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def factor_blocks(H: Array) -> None:
    """Put the Cholesky factors of positive definite blocks into their lower triangles."""
    for i in range(len(H)):
        factorise(H[i], H.shape[1])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _factors(H: Array, edges: EdgeJacobian) -> Array:
    """Cholesky factors of the diagonal blocks, in their lower triangles."""
    B = H.copy()
    d = B.shape[1]
    for e in range(len(edges.tail)):
        for i in (edges.tail[e], edges.head[e]):
            for j in range(d):
                B[i, j, j] += edges.weight[e] * edges.diagonal[e, j]
                share = edges.weight[e] * edges.normal[e, j]
                for k in range(d):
                    B[i, j, k] -= share * edges.normal[e, k]
    factor_blocks(B)
    return B


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _multiply(H: Array, edges: EdgeJacobian, V: Array, out: Array) -> None:
    n, d = V.shape
    for i in range(n):
        for j in range(d):
            total = 0.0
            for k in range(d):
                total += H[i, j, k] * V[i, k]
            out[i, j] = total
    for e in range(len(edges.tail)):
        i, j = edges.tail[e], edges.head[e]
        along = 0.0
        for k in range(d):
            along += edges.normal[e, k] * (V[j, k] - V[i, k])
        for k in range(d):
            flow = edges.diagonal[e, k] * (V[j, k] - V[i, k]) - along * edges.normal[e, k]
            out[j, k] += edges.weight[e] * flow
            out[i, k] -= edges.weight[e] * flow


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _inner(U: Array, V: Array) -> float:
    total = 0.0
    for i in range(U.shape[0]):
        for j in range(U.shape[1]):
            total += U[i, j] * V[i, j]
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _precondition(factors: Array, R: Array, out: Array) -> None:
    d = R.shape[1]
    for i in range(len(R)):
        out[i] = R[i]
        forward(factors[i], out[i], d)
        backward(factors[i], out[i], d)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def solve_newton_system(H: Array, edges: EdgeJacobian, R: Array, tolerance: float, limit: int) -> tuple[Array, int]:
    """Solution for the right side R, to that share of its norm, and the number of steps.

    R itself is changed into the residual.
    """
    factors = _factors(H, edges)
    X, Z, image = np.zeros_like(R), np.empty_like(R), np.empty_like(R)
    _precondition(factors, R, Z)
    direction, product = Z.copy(), _inner(R, Z)
    goal = tolerance**2 * _inner(R, R)
    steps = 0
    while steps < limit and product > 0.0 and _inner(R, R) > goal:
        _multiply(H, edges, direction, image)
        curvature = _inner(direction, image)
        if not curvature > 0.0:
            break
        length = product / curvature
        for i in range(R.shape[0]):
            for j in range(R.shape[1]):
                X[i, j] += length * direction[i, j]
                R[i, j] -= length * image[i, j]
        _precondition(factors, R, Z)
        previous, product = product, _inner(R, Z)
        for i in range(R.shape[0]):
            for j in range(R.shape[1]):
                direction[i, j] = Z[i, j] + (product / previous) * direction[i, j]
        steps += 1
    return X, steps


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def solve_blocks(factors: Array, R: Array) -> Array:
    """``H_i^{-1} r_i`` by the factors of the blocks."""
    out = np.empty_like(R)
    _precondition(factors, R, out)
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def affine_steps(H: Array, b: Array, step: Array) -> tuple[Array, Array]:
    """``M_i = (I + step_i H_i)^{-1}`` and ``step_i M_i b_i``: the proximal maps of quadratic functions."""
    n, d = b.shape
    M, offset, factor, inverse = np.empty_like(H), np.zeros_like(b), np.empty((d, d)), np.empty((d, d))
    for i in range(n):
        for j in range(d):
            for k in range(d):
                factor[j, k] = step[i] * H[i, j, k]
            factor[j, j] += 1.0
        factorise(factor, d)
        _invert_triangle(factor, inverse, d)
        for j in range(d):
            for k in range(j + 1):
                total = 0.0
                for r in range(j, d):
                    total += inverse[r, j] * inverse[r, k]
                M[i, j, k] = total
                M[i, k, j] = total
        for j in range(d):
            for k in range(d):
                offset[i, j] += step[i] * M[i, j, k] * b[i, k]
    return M, offset


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _invert_triangle(L: Array, out: Array, d: int) -> None:
    """Put ``L^{-1}`` into the lower triangle."""
    for j in range(d):
        out[j, j] = 1.0 / L[j, j]
        for r in range(j + 1, d):
            total = 0.0
            for k in range(j, r):
                total += L[r, k] * out[k, j]
            out[r, j] = -total / L[r, r]
