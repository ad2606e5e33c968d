"""The optimality conditions of one device: ``u - g + A^T p = 0`` with p a subgradient of the rows' functions at t.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array
from .row_functions import (
    BALL,
    DUAL,
    FIRST,
    GAIN,
    INTERVAL,
    KIND,
    LOG_SUM_EXP,
    NOISE,
    PARTS,
    SECOND,
    SHIFT,
    SLOPE,
    SPREAD,
    THIRD,
    VALUE,
    WIDTH,
)

__all__ = ["GRADIENT", "KEPT", "MOVE", "NUMBERS", "ROUNDING", "U", "predict", "violation", "weigh"]

ROUNDING = 8.0 * float(np.finfo(float).eps)
"""Residuals below this share of their summands are rounding."""

U, KEPT, GRADIENT, NUMBERS, MOVE = range(5)
"""Scratch vectors over u: its value, a copy of it, the gradient, the size of the numbers whose sum that is, and a
direction to go."""


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def predict(A: Array, data: Array, state: Array, vectors: Array) -> None:
    """``t = A u + c`` and the size of its parts, the same for all rows of a block."""
    m, d = A.shape
    for r in range(m):
        total, parts = data[r, SHIFT], data[r, NOISE]
        for k in range(d):
            part = A[r, k] * vectors[U, k]
            total += part
            parts += abs(part)
        state[r, VALUE], state[r, PARTS] = total, parts
    for r in range(m):
        if data[r, WIDTH] > 1.0:
            last = r + int(data[r, WIDTH])
            state[r:last, PARTS] = state[r:last, PARTS].max()


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def weigh(A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array) -> bool:
    """Gradient and Hessian M from those of the rows; returns whether all of the gradient is rounding."""
    m, d = A.shape
    for k in range(d):
        vectors[GRADIENT, k] = vectors[U, k] - g[k]
        vectors[NUMBERS, k] = abs(vectors[U, k]) + abs(g[k])
        for j in range(k):
            M[k, j] = 0.0
        M[k, k] = 1.0
    for r in range(m):
        p, slope = state[r, DUAL], state[r, SLOPE]
        steepest = state[r, GAIN] if state[r, SPREAD] != 0.0 else slope
        numbers = abs(p) + steepest * state[r, PARTS]
        if numbers > 0.0:
            for k in range(d):
                vectors[GRADIENT, k] += p * A[r, k]
                vectors[NUMBERS, k] += numbers * abs(A[r, k])
        if slope > 0.0 and data[r, KIND] != LOG_SUM_EXP:
            _add_square(M, slope, A[r])
        if data[r, WIDTH] > 1.0:
            last = r + int(data[r, WIDTH])
            _add_block(A[r:last], data[r], state[r:last], vectors[MOVE], M)
    settled = True
    for k in range(d):
        settled = settled and abs(vectors[GRADIENT, k]) <= ROUNDING * vectors[NUMBERS, k]
    return settled


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_square(M: Array, factor: float, a: Array) -> None:
    """Add ``factor a a^T`` to the lower triangle."""
    for k in range(len(a)):
        scaled = factor * a[k]
        for j in range(k + 1):
            M[k, j] += scaled * a[j]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_block(A: Array, data: Array, state: Array, vector: Array, M: Array) -> None:
    """Add what a block has beyond its slopes: one square (BALL), or a covariance (LOG_SUM_EXP)."""
    width, d = A.shape
    vector[:] = 0.0
    if data[KIND] == BALL:
        for r in range(width):
            for k in range(d):
                vector[k] += state[r, SPREAD] * A[r, k]
        _add_square(M, 1.0, vector)
        return
    omega = data[FIRST]
    for r in range(width):
        for k in range(d):
            vector[k] += state[r, SLOPE] / omega * A[r, k]
    for r in range(width):
        for k in range(d):
            scaled = state[r, SLOPE] * (A[r, k] - vector[k])
            for j in range(k + 1):
                M[k, j] += scaled * (A[r, j] - vector[j])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def violation(data: Array, state: Array) -> float:
    """Largest distance of a t from where its dual is a subgradient, over the size of t's parts."""
    worst = 0.0
    for r in range(len(data)):
        excess = 0.0
        if data[r, KIND] == INTERVAL:
            p = state[r, DUAL]
            excess = state[r, VALUE] - data[r, THIRD] * p
            if p >= data[r, SECOND]:
                excess = min(excess, 0.0)
            if p <= data[r, FIRST]:
                excess = max(excess, 0.0)
        elif data[r, KIND] == BALL and data[r, WIDTH] > 0.0:
            excess = _off_sphere(data[r], state[r : r + int(data[r, WIDTH])])
        if excess != 0.0:
            worst = max(worst, abs(excess) / state[r, PARTS])
    return worst


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _off_sphere(data: Array, state: Array) -> float:
    """Distance of a ball's t from the ball, or from where the dual is normal to its sphere."""
    size, length, off = 0.0, 0.0, 0.0
    for k in range(len(state)):
        size += state[k, DUAL] ** 2
        length += state[k, VALUE] ** 2
    if size == 0.0:
        return float(max(np.sqrt(length) - data[FIRST], 0.0))
    for k in range(len(state)):
        off += (state[k, VALUE] - data[FIRST] * state[k, DUAL] / np.sqrt(size)) ** 2
    return float(np.sqrt(off))
