"""The optimality conditions of one device's rows: residuals, Hessian, and the solution once the kinks are known.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array, IntArray
from .row_functions import (
    BALL,
    CHANGE,
    DUAL,
    FIRST,
    GAIN,
    INTERVAL,
    KIND,
    NOISE,
    OLD,
    PARTS,
    SECOND,
    SHIFT,
    SIZE,
    SLOPE,
    SPREAD,
    THIRD,
    TRIAL,
    VALUE,
    WIDTH,
    differentiate,
)

__all__ = [
    "GRADIENT",
    "KEPT",
    "MOVE",
    "ROUNDING",
    "U",
    "backward",
    "factorise",
    "forward",
    "polish",
    "predict",
    "violation",
    "weigh",
]

EPS = float(np.finfo(float).eps)
ROUNDING = 8.0
"""Residuals of this many units in the last place of their summands are rounding."""
POLISHING_STEPS = 8
STEPS_TO_MEET = 2
# A row with more curvature is no equation: its dual follows from its prediction without loss of digits.
SOFT = 1e-4
# Pivots below this share of their diagonal entry are zero but for rounding.
RANK_TOLERANCE = 1e-14
# How far a dual may leave its interval on the way.
OVERSHOOT = 0.1

U, KEPT, GRADIENT, NUMBERS, MOVE = range(5)
"""Scratch vectors over u: its value, a copy of it, the gradient, the size of the numbers whose sum that is, and a
direction to go."""


@njit(cache=True)  # type: ignore[untyped-decorator]
def predict(A: Array, data: Array, state: Array, vectors: Array) -> None:
    """``t = A u + c`` and the size of its parts."""
    m, d = A.shape
    for r in range(m):
        total, parts = data[r, SHIFT], data[r, NOISE]
        for k in range(d):
            part = A[r, k] * vectors[U, k]
            total += part
            parts += abs(part)
        state[r, VALUE], state[r, PARTS] = total, parts


@njit(cache=True)  # type: ignore[untyped-decorator]
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
        steepest = state[r, GAIN] if data[r, KIND] == BALL and slope > 0.0 else slope
        numbers = abs(p) + steepest * state[r, PARTS]
        if numbers > 0.0:
            for k in range(d):
                vectors[GRADIENT, k] += p * A[r, k]
                vectors[NUMBERS, k] += numbers * abs(A[r, k])
        if slope > 0.0:
            for k in range(d):
                scaled = slope * A[r, k]
                for j in range(k + 1):
                    M[k, j] += scaled * A[r, j]
        if data[r, WIDTH] > 1.0:
            _add_spread(A[r : r + int(data[r, WIDTH])], data[r, KIND], state[r:], vectors[MOVE], M)
    settled = True
    for k in range(d):
        settled = settled and abs(vectors[GRADIENT, k]) <= ROUNDING * EPS * vectors[NUMBERS, k]
    return settled


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_spread(A: Array, kind: float, state: Array, vector: Array, M: Array) -> None:
    """The rank-one part of a block's Hessian."""
    width, d = A.shape
    sign = 1.0 if kind == BALL else -1.0
    vector[:] = 0.0
    for r in range(width):
        for k in range(d):
            vector[k] += state[r, SPREAD] * A[r, k]
    for k in range(d):
        for j in range(k + 1):
            M[k, j] += sign * vector[k] * vector[j]


@njit(cache=True)  # type: ignore[untyped-decorator]
def factorise(M: Array, d: int) -> None:
    """Put the Cholesky factor L of ``M = L L^T`` in place of the lower triangle of the leading d rows of M.

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
        elif data[r, KIND] == BALL:
            excess = (state[r, DUAL] - state[r, OLD]) / state[r, GAIN]
        if excess != 0.0:
            worst = max(worst, abs(excess) / state[r, PARTS])
    return worst


@njit(cache=True)  # type: ignore[untyped-decorator]
def _choose_kinks(data: Array, state: Array, at_kink: IntArray) -> int:
    """List the rows whose duals are inside their intervals and fixed by an equation; -1 if there are too many."""
    kinks = 0
    for r in range(len(data)):
        if data[r, KIND] == INTERVAL and state[r, SLOPE] > 0.0:
            if data[r, THIRD] * state[r, SIZE] ** 2 > SOFT:
                state[r, SLOPE] = 1.0 / data[r, THIRD]
                continue
            state[r, SLOPE] = 0.0
            if state[r, SIZE] > 0.0:
                if kinks == len(at_kink):
                    return -1
                at_kink[kinks] = r
                kinks += 1
    return kinks


@njit(cache=True)  # type: ignore[untyped-decorator]
def _differentiate_smooth(data: Array, state: Array) -> None:
    """Duals and slopes of all rows but those at a kink or at an end of their intervals, which keep theirs."""
    for r in range(len(data)):
        state[r, CHANGE], state[r, TRIAL] = state[r, DUAL], state[r, SLOPE]
    differentiate(data, state, VALUE)
    for r in range(len(data)):
        if data[r, KIND] == INTERVAL:
            slope = state[r, TRIAL]
            state[r, SLOPE] = slope
            state[r, DUAL] = slope * state[r, VALUE] if slope > 0.0 else state[r, CHANGE]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _right_side(data: Array, state: Array) -> bool:
    """Whether all duals are in their intervals and, but for rounding, subgradients."""
    inside = True
    for r in range(len(data)):
        if data[r, KIND] == INTERVAL:
            inside = inside and data[r, FIRST] <= state[r, DUAL] <= data[r, SECOND]
    return bool(inside and violation(data, state) <= ROUNDING * EPS)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _relate(A: Array, data: Array, state: Array, M: Array, at_kink: IntArray, kinks: int, B: Array, S: Array) -> None:
    """``B = L^{-1} A_F^T`` (as rows) with M = L L^T and the rows of A_F scaled to length one, and ``S = B^T B``."""
    d = A.shape[1]
    for f in range(kinks):
        r = at_kink[f]
        for k in range(d):
            B[f, k] = A[r, k] / state[r, SIZE]
        forward(M, B[f], d)
        for h in range(f + 1):
            total = 0.0
            for k in range(d):
                total += B[f, k] * B[h, k]
            S[f, h] = S[h, f] = total
        S[f, f] += data[r, THIRD] / state[r, SIZE] ** 2


@njit(cache=True)  # type: ignore[untyped-decorator]
def _independent(S: Array, at_kink: IntArray, B: Array, kinks: int) -> int:
    """Put independent rows first and factorise their part of S in place; returns how many they are.

    Cholesky's method with the pivot that keeps most of its diagonal entry; the rows of B follow.
    """
    whole = S[kinks]
    for f in range(kinks):
        whole[f] = S[f, f]
    for j in range(kinks):
        best, share = j, 0.0
        for f in range(j, kinks):
            if S[f, f] > share * whole[f]:
                best, share = f, S[f, f] / whole[f]
        if share <= RANK_TOLERANCE:
            return j
        if best != j:
            at_kink[j], at_kink[best] = at_kink[best], at_kink[j]
            whole[j], whole[best] = whole[best], whole[j]
            for k in range(B.shape[1]):
                B[j, k], B[best, k] = B[best, k], B[j, k]
            for f in range(kinks):
                S[j, f], S[best, f] = S[best, f], S[j, f]
            for f in range(kinks):
                S[f, j], S[f, best] = S[f, best], S[f, j]
        S[j, j] = np.sqrt(S[j, j])
        for f in range(j + 1, kinks):
            S[f, j] /= S[j, j]
        for f in range(j + 1, kinks):
            for h in range(j + 1, kinks):
                S[f, h] -= S[f, j] * S[h, j]
    return kinks


@njit(cache=True)  # type: ignore[untyped-decorator]
def polish(
    A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array, at_kink: IntArray, B: Array, S: Array
) -> bool:
    """Take the rows at a kink for equations; whether the point that meets them is the solution.

    With M the Hessian of all else and F the rows at a kink, ``(A_F M^{-1} A_F^T + curvature) dp = residual`` gives
    the change of their duals: unlike Newton's method on the envelopes this loses no digits to large penalties.  Rows
    that depend on others keep their duals.
    """
    d = A.shape[1]
    kinks = _choose_kinks(data, state, at_kink)
    if kinks < 0:
        return False
    gradient, change = vectors[GRADIENT], S[kinks + 1]
    for step in range(POLISHING_STEPS):
        predict(A, data, state, vectors)
        _differentiate_smooth(data, state)
        met = weigh(A, data, state, vectors, M, g)
        for f in range(kinks):
            r = at_kink[f]
            state[r, CHANGE] = state[r, VALUE] - data[r, THIRD] * state[r, DUAL]
            met = met and abs(state[r, CHANGE]) <= ROUNDING * EPS * state[r, PARTS]
        if met and step > 0:
            return bool(_right_side(data, state))
        factorise(M, d)
        forward(M, gradient, d)
        _relate(A, data, state, M, at_kink, kinks, B, S)
        rank = _independent(S, at_kink, B, kinks)
        for f in range(rank, kinks):
            # once the others are met, this row is too unless it contradicts them
            r = at_kink[f]
            if step >= STEPS_TO_MEET and abs(state[r, CHANGE]) > ROUNDING * EPS * state[r, PARTS]:
                return False
        for f in range(rank):
            r = at_kink[f]
            change[f] = state[r, CHANGE] / state[r, SIZE]
            for k in range(d):
                change[f] -= B[f, k] * gradient[k]
        forward(S, change, rank)
        backward(S, change, rank)
        for f in range(rank):
            r = at_kink[f]
            for k in range(d):
                gradient[k] += B[f, k] * change[f]
            state[r, DUAL] += change[f] / state[r, SIZE]
            slack = OVERSHOOT * abs(state[r, DUAL])
            if not data[r, FIRST] - slack <= state[r, DUAL] <= data[r, SECOND] + slack:
                return False
        backward(M, gradient, d)
        for k in range(d):
            vectors[U, k] -= gradient[k]
    return False
