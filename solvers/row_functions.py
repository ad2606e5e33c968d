"""Convex functions of the rows of devices, by kind, for compiled loops.  Importing this module imports numba.

A row is a vector a_r, a line of numbers about it, and a line of scratch memory.  Its function phi is one of
``t_r = a_r^T u + c_r``; a block of successive rows has one function of its vector t.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array

__all__ = ["BALL", "INTERVAL", "LOGISTIC", "LOG_SUM_EXP", "POISSON", "differentiate", "has_kinks"]

INTERVAL, LOGISTIC, POISSON, LOG_SUM_EXP, BALL = 0, 1, 2, 3, 4
"""Kinds of functions, and the three parameters of each row.

INTERVAL: ``sup { p t - curvature p^2 / 2 : low <= p <= high }``; (low, high, curvature).
LOGISTIC: ``omega log(1 + exp(-t))``; (omega, 0, 0).
POISSON: ``omega (exp(t) - y t)``; (omega, y, 0).
LOG_SUM_EXP, a block: ``omega (log sum exp(t) - <e, t>)``; (omega, e_r, 0).
BALL, a block: zero for ``||t|| <= radius``, else infinite; (radius, 0, 0).
"""

KIND, WIDTH, FIRST, SECOND, THIRD, SHIFT, NOISE, START = range(8)
"""Numbers about a row: its kind, how many rows its block has, the parameters, c_r, the size of the numbers of which c_r
is the difference (``eps * noise`` is its rounding error), and the dual to start from."""

SIZE, BASE, GAIN, KEPT_DUAL, DUAL, SLOPE, SPREAD, VALUE, PARTS, CHANGE, TRIAL = range(11)
"""Scratch memory of a row: ``||a_r||``; the dual of an envelope is ``base + gain t`` inside the interval; a copy of the
dual; the dual; its slope, and more of it in a block; t, the size of the numbers whose sum it is, its change in a
direction, and a t to try."""

# Beyond, the exponential's slope is continued as a straight line: no minimiser is there, and nothing overflows.
LARGEST_EXPONENT = 300.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def has_kinks(kind: float) -> bool:
    """Whether a function is replaced by its Moreau envelope; the others are smooth."""
    return kind in (INTERVAL, BALL)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def differentiate(data: Array, state: Array, position: int) -> None:
    """Gradient (the duals) and Hessian of every phi, or of its Moreau envelope, at the t in one column of the state.

    The Hessian of a row is its slope.  That of a block is ``diag(slope) + spread spread^T`` (BALL), or the covariance
    of the class under the probabilities ``slope / omega``, times omega (LOG_SUM_EXP).
    """
    r, m = 0, len(data)
    while r < m:
        kind, first, second, t = data[r, KIND], data[r, FIRST], data[r, SECOND], state[r, position]
        last = r + 1
        if kind == INTERVAL:
            p = state[r, BASE] + state[r, GAIN] * t
            state[r, DUAL] = min(max(p, first), second)
            state[r, SLOPE] = state[r, GAIN] if first < p < second else 0.0
        elif kind == LOGISTIC:
            e = np.exp(-abs(t))
            state[r, DUAL] = -first * (e if t > 0 else 1.0) / (1.0 + e)
            state[r, SLOPE] = first * e / (1.0 + e) ** 2
        elif kind == POISSON:
            slope = first * np.exp(min(t, LARGEST_EXPONENT))
            state[r, DUAL] = slope * (1.0 + max(t - LARGEST_EXPONENT, 0.0)) - first * second
            state[r, SLOPE] = slope
        else:
            last = r + int(data[r, WIDTH])
            if kind == LOG_SUM_EXP:
                _log_sum_exp(data[r:last], state[r:last], position)
            else:
                _ball(data[r:last], state[r:last], position)
        r = last


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _log_sum_exp(data: Array, state: Array, position: int) -> None:
    omega, highest, total = data[0, FIRST], state[:, position].max(), 0.0
    for k in range(len(data)):
        state[k, SLOPE] = np.exp(state[k, position] - highest)
        total += state[k, SLOPE]
    for k in range(len(data)):
        state[k, SLOPE] *= omega / total
        state[k, DUAL] = state[k, SLOPE] - omega * data[k, SECOND]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _ball(data: Array, state: Array, position: int) -> None:
    """Duals ``base + gain t`` shortened by ``gain radius``."""
    gain, size = state[0, GAIN], 0.0
    for k in range(len(data)):
        state[k, DUAL] = state[k, BASE] + gain * state[k, position]
        size += state[k, DUAL] ** 2
    size = np.sqrt(size)
    cut = gain * data[0, FIRST]
    kept = 1.0 - cut / size if size > cut else 0.0
    for k in range(len(data)):
        state[k, SPREAD] = np.sqrt(gain * (1.0 - kept)) * state[k, DUAL] / size if kept > 0.0 else 0.0
        state[k, SLOPE] = gain * kept
        state[k, DUAL] *= kept
