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
from .small_cholesky import backward, factorise, factorise_independent, forward

__all__ = ["KINK_COLUMNS", "polish"]

STEPS = 8
# After so many the equations are met, unless they contradict each other.
STEPS_TO_MEET = 2
# A row with more curvature is no equation: its dual follows from its prediction without loss of digits.
SOFT = 1e-4
# How far a dual may leave its interval on the way.
OVERSHOOT = 0.1

ROW, LENGTH, EXCESS, DUAL_CHANGE = range(4)
"""What is kept of an equation: its (first) row, the length of its vector, how far it is off, the change of its dual."""
KINK_COLUMNS = 4


@njit(cache=True)  # type: ignore[untyped-decorator]
def _choose(data: Array, state: Array, kinks: Array) -> int:
    """List the rows whose duals an equation fixes; returns their number, or -1 if there are too many.

    They are the rows with duals inside their intervals, and the balls whose sphere is touched.  The duals of a ball are
    ``slope t``; those of rows at an end of their interval keep still.
    """
    count = 0
    for r in range(len(data)):
        state[r, SPREAD] = 0.0
        if not has_kinks(data[r, KIND]) or data[r, WIDTH] == 0.0 or state[r, SLOPE] == 0.0:
            continue
        has_vector = state[r, SIZE] > 0.0
        if data[r, KIND] == BALL:
            last = r + int(data[r, WIDTH])
            state[r:last, SLOPE] = np.sqrt((state[r:last, DUAL] ** 2).sum()) / data[r, FIRST]
            has_vector = True
        elif data[r, THIRD] * state[r, SIZE] ** 2 > SOFT:
            state[r, SLOPE] = 1.0 / data[r, THIRD]
            continue
        else:
            state[r, SLOPE] = 0.0
        if has_vector:
            if count == len(kinks):
                return -1
            kinks[count, ROW] = r
            count += 1
    return count


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _measure(A: Array, data: Array, state: Array, kinks: Array, B: Array) -> bool:
    """Vectors of the equations, scaled to length one, and their excess; whether all of it is rounding."""
    d, met = A.shape[1], True
    for f in range(len(kinks)):
        r = int(kinks[f, ROW])
        if data[r, KIND] == BALL:
            last = r + int(data[r, WIDTH])
            norm = np.sqrt((state[r:last, VALUE] ** 2).sum())
            B[f] = 0.0
            for k in range(r, last):
                for j in range(d):
                    B[f, j] += state[k, VALUE] / norm * A[k, j]
            kinks[f, LENGTH] = np.sqrt((B[f] ** 2).sum())
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _relate(data: Array, M: Array, kinks: Array, B: Array, S: Array) -> None:
    """``B <- L^{-1} B`` for the factor L in M, vectors as rows, and ``S = B B^T`` with the curvatures added."""
    count, d = B.shape
    for f in range(count):
        forward(M, B[f], d)
        for h in range(f + 1):
            total = 0.0
            for k in range(d):
                total += B[f, k] * B[h, k]
            S[f, h] = S[h, f] = total
        r = int(kinks[f, ROW])
        if data[r, KIND] == INTERVAL:
            S[f, f] += data[r, THIRD] / kinks[f, LENGTH] ** 2


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
def polish(
    A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array, table: Array, B: Array, S: Array
) -> bool:
    """Take the rows at a kink for equations; whether the point that meets them is the solution.

    With M the Hessian of all else and F the rows at a kink, ``(A_F M^{-1} A_F^T + curvature) dp = residual`` gives
    the change of their duals: unlike Newton's method on the envelopes this loses no digits to large penalties.  Rows
    that depend on others keep their duals.
    """
    d = A.shape[1]
    count = _choose(data, state, table)
    if count < 0:
        return False
    kinks, vectors_at, gradient = table[:count], B[:count], vectors[GRADIENT]
    for step in range(STEPS):
        predict(A, data, state, vectors)
        _differentiate(data, state)
        at_rest = weigh(A, data, state, vectors, M, g)
        met = _measure(A, data, state, kinks, vectors_at)
        if at_rest and met and step > 0:
            return bool(_right_side(data, state))
        factorise(M, d)
        forward(M, gradient, d)
        _relate(data, M, kinks, vectors_at, S)
        rank = factorise_independent(S, count, kinks, vectors_at, S[len(table)])
        for f in range(rank, count):
            if step >= STEPS_TO_MEET and abs(kinks[f, EXCESS]) > ROUNDING * state[int(kinks[f, ROW]), PARTS]:
                return False
        change = kinks[:, DUAL_CHANGE]
        for f in range(rank):
            change[f] = kinks[f, EXCESS] / kinks[f, LENGTH]
            for k in range(d):
                change[f] -= B[f, k] * gradient[k]
        forward(S, change, rank)
        backward(S, change, rank)
        for f in range(rank):
            for k in range(d):
                gradient[k] += B[f, k] * change[f]
            if not _change_dual(data, state, kinks[f]):
                return False
        backward(M, gradient, d)
        for k in range(d):
            vectors[U, k] -= gradient[k]
    return False
