"""Minimise ``||u||^2 / 2 - g^T u + sum_r phi_r(a_r^T u + c_r)`` for many devices, each with rows of its own.

The method of multipliers with semismooth Newton steps (X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton
augmented Lagrangian method for solving Lasso problems", SIAM J. Optim. 28 (2018), doi:10.1137/16M1097572, algorithms
SSNAL and SSN).  Functions with kinks are replaced by their Moreau envelopes around the present duals p,

    ``e(t) = max_q { q t - phi^*(q) - (q - p)^2 / (2 sigma) }``,

the smooth sum is minimised by Newton's method with an exact line search, and ``e'(t)`` is the next p.  For piecewise
linear-quadratic functions both loops are finite (R. T. Rockafellar, "Augmented Lagrangians and applications of the
proximal point algorithm in convex programming", Math. Oper. Res. 1 (1976), doi:10.1287/moor.1.2.97).  After every stage
:func:`~gtvmin.solvers.active_rows.polish` tries whether the rows at a kink are the right ones.

Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .active_rows import kink_memory, polish
from .linear_maps import Array, IntArray
from .row_functions import (
    BALL,
    BASE,
    CHANGE,
    DUAL,
    FIRST,
    GAIN,
    INTERVAL,
    KEPT_DUAL,
    KIND,
    LOG_SUM_EXP,
    SECOND,
    SHIFT,
    SIZE,
    SLOPE,
    SPREAD,
    START,
    THIRD,
    TRIAL,
    VALUE,
    WIDTH,
    differentiate,
    has_kinks,
)
from .row_optimality import GRADIENT, KEPT, MOVE, ROUNDING, U, predict, violation, weigh
from .small_factors import backward, factorise, forward

__all__ = ["minimise_rows"]

EPS = float(np.finfo(float).eps)
STAGES = 40
NEWTON_STEPS = 200
SEARCH_STEPS = 100
SEARCH_TOLERANCE = 0.1
FIRST_PENALTY = 30.0
GROWTH = 20.0
LAST_PENALTY = 1e8


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _derivatives_along(data: Array, state: Array) -> tuple[float, float]:
    """First and second derivative of the rows' functions in the direction of their change."""
    first, second = 0.0, 0.0
    for r in range(len(data)):
        change = state[r, CHANGE]
        first += state[r, DUAL] * change
        if data[r, KIND] != LOG_SUM_EXP:
            second += state[r, SLOPE] * change**2
        if data[r, WIDTH] > 1.0:
            last, mean = r + int(data[r, WIDTH]), 0.0
            if data[r, KIND] == BALL:
                second += (state[r:last, SPREAD] * state[r:last, CHANGE]).sum() ** 2
                continue
            for k in range(r, last):
                mean += state[k, SLOPE] / data[r, FIRST] * state[k, CHANGE]
            for k in range(r, last):
                second += state[k, SLOPE] * (state[k, CHANGE] - mean) ** 2
    return first, second


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _line_search(A: Array, data: Array, state: Array, vectors: Array, g: Array) -> float:
    """Minimiser along ``u - alpha move``: the root of the derivative, which increases.

    Newton's method within a bracket, and every third step a bisection.
    """
    m, d = A.shape
    decrease, square, start = 0.0, 0.0, 0.0
    for k in range(d):
        decrease += vectors[GRADIENT, k] * vectors[MOVE, k]
        square += vectors[MOVE, k] ** 2
        start -= (vectors[U, k] - g[k]) * vectors[MOVE, k]
    for r in range(m):
        total = 0.0
        for k in range(d):
            total -= A[r, k] * vectors[MOVE, k]
        state[r, CHANGE] = total
    alpha, low, high = 1.0, 0.0, np.inf
    for step in range(SEARCH_STEPS):
        for r in range(m):
            state[r, TRIAL] = state[r, VALUE] + alpha * state[r, CHANGE]
        differentiate(data, state, TRIAL)
        of_rows, bend = _derivatives_along(data, state)
        derivative = start + alpha * square + of_rows
        if abs(derivative) <= SEARCH_TOLERANCE * decrease:
            break
        if derivative < 0:
            low = alpha
        else:
            high = alpha
        if high - low <= 4 * EPS * high:
            break
        alpha -= derivative / (square + bend)
        if high == np.inf:
            alpha = max(alpha, 2.0 * low)
        elif not low < alpha < high or step % 3 == 2:
            alpha = 0.5 * (low + high)
    return alpha


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _newton(A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array) -> None:
    """Minimise the sum of the envelopes: u, t, and the rows' derivatives there."""
    d = A.shape[1]
    for _ in range(NEWTON_STEPS):
        predict(A, data, state, vectors)
        differentiate(data, state, VALUE)
        if weigh(A, data, state, vectors, M, g):
            break
        move = vectors[MOVE]
        move[:] = vectors[GRADIENT]
        factorise(M, d)
        forward(M, move, d)
        backward(M, move, d)
        alpha = _line_search(A, data, state, vectors, g)
        for k in range(d):
            vectors[U, k] -= alpha * move[k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _first_penalty(data: Array, state: Array, g: Array) -> float:
    """Penalty that takes predictions of the size of the shifts to duals of the size of their intervals, or of g."""
    count, duals, shifts = 0, 0.0, 0.0
    for r in range(len(data)):
        if has_kinks(data[r, KIND]) and state[r, SIZE] > 0.0:
            count += 1
            shifts += abs(data[r, SHIFT]) / state[r, SIZE]
            length = data[r, SECOND] - data[r, FIRST]
            if data[r, KIND] == INTERVAL and length < np.inf:
                duals += length * state[r, SIZE]
    duals += count * np.sqrt((g**2).sum())
    return min(max(FIRST_PENALTY * duals / shifts, 1.0), LAST_PENALTY) if shifts > 0.0 else 1.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _take_envelopes(data: Array, state: Array, penalty: float) -> None:
    """Envelopes around the present duals with ``sigma = penalty / ||a||^2``, the same for all rows of a block.

    A row without a vector goes to the end of its interval.
    """
    r, m = 0, len(data)
    while r < m:
        last, size = r + 1, state[r, SIZE]
        if data[r, WIDTH] > 1.0:
            last = r + int(data[r, WIDTH])
            size = state[r:last, SIZE].max()
        sigma = penalty / size**2 if size > 0.0 else 1e100
        for k in range(r, last):
            shrink = 1.0 / (1.0 + sigma * data[k, THIRD])
            state[k, BASE], state[k, GAIN] = shrink * state[k, DUAL], shrink * sigma
        r = last


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _polished(
    A: Array, data: Array, state: Array, vectors: Array, M: Array, g: Array, kinks: Array, B: Array, L: Array
) -> bool:
    """Polish; where that does not lead to the solution, u and the duals are left as they were."""
    state[:, KEPT_DUAL] = state[:, DUAL]
    vectors[KEPT] = vectors[U]
    if polish(A, data, state, vectors, M, g, kinks, B, L):
        return True
    state[:, DUAL] = state[:, KEPT_DUAL]
    vectors[U] = vectors[KEPT]
    return False


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _minimise(
    A: Array,
    data: Array,
    state: Array,
    vectors: Array,
    M: Array,
    g: Array,
    kinks: Array,
    B: Array,
    L: Array,
    warm: bool,
) -> float:
    """Solution for one device, in u and the duals; returns the relative violation that is left."""
    m, d = A.shape
    for r in range(m):
        total = 0.0
        for k in range(d):
            total += A[r, k] ** 2
        state[r, SIZE] = np.sqrt(total)
        state[r, DUAL], state[r, SPREAD] = data[r, START], 0.0
    vectors[U] = 0.0
    first = _first_penalty(data, state, g)
    penalty, left = first, np.inf
    for stage in range(STAGES):
        _take_envelopes(data, state, penalty)
        if stage == 0 and warm:
            predict(A, data, state, vectors)
            differentiate(data, state, VALUE)
            if _polished(A, data, state, vectors, M, g, kinks, B, L):
                return 0.0
        _newton(A, data, state, vectors, M, g)
        left = violation(data, state)
        if _polished(A, data, state, vectors, M, g, kinks, B, L) or left <= ROUNDING:
            return 0.0
        penalty = min(GROWTH * penalty, LAST_PENALTY * first)
    return left


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def minimise_rows(A: Array, data: Array, start: IntArray, g: Array, warm: bool) -> tuple[Array, Array, Array]:
    """Solve all devices.

    Parameters
    ----------
    A : array (R, d)
        Vectors of the rows of all devices, those of device 0 first.
    data : array (R, 8)
        The numbers about them, see :mod:`~gtvmin.solvers.row_functions`.
    start : int array (n + 1,)
        Where the rows of each device start.
    g : array (n, d)
        Linear terms.
    warm : bool
        Whether u = 0 and the duals to start from are nearly the solution: then the kinks there are tried first.

    Returns
    -------
    u, p, violation : arrays (n, d), (R,), (n,)
        Solutions, duals, and what violation of the rows is left, relative: zero if it is rounding.
    """
    n, d = g.shape
    most = 1
    for i in range(n):
        most = max(most, start[i + 1] - start[i])
    solution, duals, left = g.copy(), data[:, START].copy(), np.zeros(n)
    memory, vectors, M = np.zeros((most, 11)), np.zeros((5, d)), np.zeros((d, d))
    kinks, B, L = kink_memory(d, most)
    for i in range(n):
        s, e = start[i], start[i + 1]
        if s < e:
            state = memory[: e - s]
            left[i] = _minimise(A[s:e], data[s:e], state, vectors, M, g[i], kinks, B, L, warm)
            solution[i] = vectors[U]
            duals[s:e] = state[:, DUAL]
    return solution, duals, left
