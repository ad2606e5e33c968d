"""The solution for one device once it is known which rows are at a kink.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array
from .row_functions import (
    BALL,
    CHANGE,
    DUAL,
    FIRST,
    INTERVAL,
    KIND,
    PARTS,
    SECOND,
    SIZE,
    SLOPE,
    SPREAD,
    THIRD,
    TRIAL,
    VALUE,
    WIDTH,
    differentiate,
    has_kinks,
)
from .row_optimality import GRADIENT, ROUNDING, U, predict, violation, weigh
from .small_factors import backward, factorise, forward, orthonormalise

__all__ = ["kink_memory", "polish"]

STEPS = 8
# After so many the equations are met, unless they contradict each other.
STEPS_TO_MEET = 2
# A row with more curvature is no equation: its dual follows from its prediction without loss of digits.
SOFT = 1e-4
# With more kinks than this times the parameters, all rows with curvature are soft.
FEW_KINKS = 2
# Kinks without curvature, of repeated data points say, may be this times the parameters and one.
MOST_KINKS = 10
# How far a dual may leave its interval on the way.
OVERSHOOT = 0.1

ROW, LENGTH, EXCESS, DUAL_CHANGE = range(4)
"""What is kept of an equation: its (first) row, the length of its vector, how far it is off, the change of its dual."""


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def kink_memory(d: int, most: int) -> tuple[Array, Array, Array]:
    """Room for the equations of one device: a table, their vectors, and a factor."""
    room = min(most, MOST_KINKS * d + MOST_KINKS)
    return np.zeros((room, 4)), np.zeros((room, (FEW_KINKS + 1) * d)), np.zeros((room + 1, room))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _is_soft(data: Array, state: Array, limit: float) -> bool:
    """Whether a row inside its interval has so much curvature that its dual follows from its t."""
    return bool(data[KIND] == INTERVAL and data[THIRD] > limit * state[SIZE] ** 2)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _choose(data: Array, state: Array, d: int, kinks: Array) -> int:
    """List the rows whose duals an equation fixes; returns their number, or -1 if there are too many.

    They are the rows with duals inside their intervals, and the balls whose sphere is touched.  The duals of soft rows
    and of balls are ``slope t``; those of rows at an end of their interval keep still.
    """
    inside = 0
    for r in range(len(data)):
        if has_kinks(data[r, KIND]) and data[r, WIDTH] > 0.0 and state[r, SLOPE] > 0.0:
            inside += 0 if _is_soft(data[r], state[r], SOFT) else 1
    limit = SOFT if inside <= FEW_KINKS * d else 0.0
    count = 0
    for r in range(len(data)):
        state[r, SPREAD] = 0.0
        if not has_kinks(data[r, KIND]) or data[r, WIDTH] == 0.0 or state[r, SLOPE] == 0.0:
            continue
        if _is_soft(data[r], state[r], limit):
            state[r, SLOPE] = 1.0 / data[r, THIRD]
            continue
        if data[r, KIND] == BALL:
            last = r + int(data[r, WIDTH])
            state[r:last, SLOPE] = np.sqrt((state[r:last, DUAL] ** 2).sum()) / data[r, FIRST]
        else:
            state[r, SLOPE] = 0.0
            if state[r, SIZE] == 0.0:
                continue
        if count == len(kinks):
            return -1
        kinks[count, ROW] = r
        count += 1
    return count


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _differentiate(data: Array, state: Array) -> None:
    """Duals and slopes of smooth rows, and duals of the others whose slope is kept."""
    for r in range(len(data)):
        state[r, CHANGE], state[r, TRIAL] = state[r, DUAL], state[r, SLOPE]
    differentiate(data, state, VALUE)
    for r in range(len(data)):
        if has_kinks(data[r, KIND]):
            slope = state[r, TRIAL]
            state[r, SLOPE], state[r, SPREAD] = slope, 0.0
            state[r, DUAL] = slope * state[r, VALUE] if slope > 0.0 else state[r, CHANGE]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _measure(A: Array, data: Array, state: Array, kinks: Array, B: Array) -> bool:
    """Vectors of the equations, scaled to length one, and their excess; whether all of it is rounding."""
    d, met = A.shape[1], True
    for f in range(len(kinks)):
        r = int(kinks[f, ROW])
        if data[r, KIND] == BALL:
            last = r + int(data[r, WIDTH])
            norm = np.sqrt((state[r:last, VALUE] ** 2).sum())
            B[f, :d] = 0.0
            for k in range(r, last):
                for j in range(d):
                    B[f, j] += state[k, VALUE] / norm * A[k, j]
            kinks[f, LENGTH] = np.sqrt((B[f, :d] ** 2).sum())
            kinks[f, EXCESS] = norm - data[r, FIRST]
        else:
            for j in range(d):
                B[f, j] = A[r, j]
            kinks[f, LENGTH] = state[r, SIZE]
            kinks[f, EXCESS] = state[r, VALUE] - data[r, THIRD] * state[r, DUAL]
        met = met and abs(kinks[f, EXCESS]) <= ROUNDING * state[r, PARTS]
        for j in range(d):
            B[f, j] /= kinks[f, LENGTH]
    return met


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _relate(data: Array, M: Array, gradient: Array, kinks: Array, B: Array) -> int:
    """``B <- L^{-1} B`` for the factor L in M, vectors as rows, and the right-hand sides of the equations.

    Further columns of B hold the roots of the curvatures; returns the number of columns.
    """
    d = len(gradient)
    width = d
    for f in range(len(kinks)):
        r = int(kinks[f, ROW])
        if data[r, KIND] == INTERVAL and data[r, THIRD] > 0.0:
            width += 1
    column = d
    for f in range(len(kinks)):
        r = int(kinks[f, ROW])
        forward(M, B[f], d)
        kinks[f, DUAL_CHANGE] = kinks[f, EXCESS] / kinks[f, LENGTH]
        for k in range(d):
            kinks[f, DUAL_CHANGE] -= B[f, k] * gradient[k]
        for k in range(d, width):
            B[f, k] = 0.0
        if data[r, KIND] == INTERVAL and data[r, THIRD] > 0.0:
            B[f, column] = np.sqrt(data[r, THIRD]) / kinks[f, LENGTH]
            column += 1
    return width


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _change_dual(data: Array, state: Array, kink: Array) -> bool:
    """Change the dual of an equation; whether it is still near its interval."""
    r, change = int(kink[ROW]), kink[DUAL_CHANGE] / kink[LENGTH]
    if data[r, KIND] == BALL:
        slope = state[r, SLOPE] + change / data[r, FIRST]
        state[r : r + int(data[r, WIDTH]), SLOPE] = slope
        return bool(slope > 0.0)
    state[r, DUAL] += change
    slack = OVERSHOOT * abs(state[r, DUAL])
    return bool(data[r, FIRST] - slack <= state[r, DUAL] <= data[r, SECOND] + slack)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _right_side(data: Array, state: Array) -> bool:
    """Whether all duals are, but for rounding, in their intervals, and subgradients."""
    largest, inside = 0.0, True
    for r in range(len(data)):
        largest = max(largest, state[r, SIZE] * abs(state[r, DUAL]))
    for r in range(len(data)):
        if data[r, KIND] == INTERVAL:
            clipped = min(max(state[r, DUAL], data[r, FIRST]), data[r, SECOND])
            inside = inside and state[r, SIZE] * abs(state[r, DUAL] - clipped) <= ROUNDING * largest
            state[r, DUAL] = clipped
    return bool(inside and violation(data, state) <= ROUNDING)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def polish(
    A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array, table: Array, B: Array, L: Array
) -> bool:
    """Take the rows at a kink for equations; whether the point that meets them is the solution.

    With M the Hessian of all else and F the rows at a kink, ``(A_F M^{-1} A_F^T + curvature) dp = residual`` gives
    the change of their duals: unlike Newton's method on the envelopes this loses no digits to large penalties.  Rows
    that depend on others keep their duals.
    """
    d = A.shape[1]
    count = _choose(data, state, d, table)
    if count < 0:
        return False
    kinks, at_kinks, gradient = table[:count], B[:count], vectors[GRADIENT]
    for step in range(STEPS):
        predict(A, data, state, vectors)
        _differentiate(data, state)
        at_rest = weigh(A, data, state, vectors, M, g)
        met = _measure(A, data, state, kinks, at_kinks)
        if at_rest and met and step > 0:
            return bool(_right_side(data, state))
        factorise(M, d)
        forward(M, gradient, d)
        width = _relate(data, M, gradient, kinks, at_kinks)
        rank = orthonormalise(at_kinks, width, L, kinks, L[len(table)])
        for f in range(rank, count):
            if step >= STEPS_TO_MEET and abs(kinks[f, EXCESS]) > ROUNDING * state[int(kinks[f, ROW]), PARTS]:
                return False
        change = kinks[:, DUAL_CHANGE]
        forward(L, change, rank)
        for f in range(rank):
            for k in range(d):
                gradient[k] += B[f, k] * change[f]
        backward(L, change, rank)
        for f in range(rank):
            if not _change_dual(data, state, kinks[f]):
                return False
        backward(M, gradient, d)
        for k in range(d):
            vectors[U, k] -= gradient[k]
    return False
