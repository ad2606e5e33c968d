"""Compiled passes over the data points of all devices.  Importing this module imports numba.

Sums run in a fixed order and without fast-math: a repeated run gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..linear_maps import Array

__all__ = ["batch_gradients", "descend", "gradients"]

IntArray = NDArray[np.int64]


# Inlined: a call that passes arrays costs more than a row.
@njit(inline="always")  # type: ignore[untyped-decorator]
def _slope(kind: int, t: float, y: float, weight: float, parameter: float) -> float:
    """Derivative of a row's function at t."""
    if kind == 1:
        return float(-weight * y / (1.0 + np.exp(y * t)))
    residual = t - y
    if kind == 2:
        residual = min(max(residual, -parameter), parameter)
    return 2.0 * weight * residual


@njit(inline="always")  # type: ignore[untyped-decorator]
def _add_rows(
    X: Array,
    y: Array,
    weight: Array,
    kind: IntArray,
    parameter: Array,
    first: int,
    last: int,
    W: Array,
    G: Array,
    i: int,
    k: int,
) -> None:
    """Add to ``G[k]`` the gradient of rows first to last at ``W[i]``, four at a time to keep the processor busy."""
    dim = W.shape[1]
    r = first
    while r + 4 <= last:
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for j in range(dim):
            a += X[r, j] * W[i, j]
            b += X[r + 1, j] * W[i, j]
            c += X[r + 2, j] * W[i, j]
            d += X[r + 3, j] * W[i, j]
        a = _slope(kind[r], a, y[r], weight[r], parameter[r])
        b = _slope(kind[r + 1], b, y[r + 1], weight[r + 1], parameter[r + 1])
        c = _slope(kind[r + 2], c, y[r + 2], weight[r + 2], parameter[r + 2])
        d = _slope(kind[r + 3], d, y[r + 3], weight[r + 3], parameter[r + 3])
        for j in range(dim):
            G[k, j] += (a * X[r, j] + b * X[r + 1, j]) + (c * X[r + 2, j] + d * X[r + 3, j])
        r += 4
    while r < last:
        t = 0.0
        for j in range(dim):
            t += X[r, j] * W[i, j]
        t = _slope(kind[r], t, y[r], weight[r], parameter[r])
        for j in range(dim):
            G[k, j] += t * X[r, j]
        r += 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def gradients(
    W: Array,
    X: Array,
    y: Array,
    weight: Array,
    kind: IntArray,
    parameter: Array,
    starts: IntArray,
    diagonal: Array,
    tilt: Array,
) -> Array:
    """Gradients of all devices."""
    n, dim = W.shape
    out = np.empty((n, dim))
    for i in range(n):
        for j in range(dim):
            out[i, j] = diagonal[i, j] * W[i, j] + tilt[i, j]
        _add_rows(X, y, weight, kind, parameter, starts[i], starts[i + 1], W, out, i, i)
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def batch_gradients(
    W: Array,
    X: Array,
    y: Array,
    weight: Array,
    kind: IntArray,
    parameter: Array,
    starts: IntArray,
    ends: IntArray,
    diagonal: Array,
    tilt: Array,
    rows: IntArray,
) -> Array:
    """Gradients from drawn data points, and from all of the remainder."""
    n, dim = W.shape
    out = np.empty((n, dim))
    for i in range(n):
        for j in range(dim):
            out[i, j] = diagonal[i, j] * W[i, j] + tilt[i, j]
        _add_rows(X, y, weight, kind, parameter, ends[i], starts[i + 1], W, out, i, i)
        drawn = 0
        for k in range(rows.shape[1]):
            if rows[i, k] >= 0:
                drawn += 1
        for k in range(rows.shape[1]):
            r = rows[i, k]
            if r >= 0:
                t = 0.0
                for j in range(dim):
                    t += X[r, j] * W[i, j]
                t = _slope(kind[r], t, y[r], weight[r], parameter[r]) * ((ends[i] - starts[i]) / drawn)
                for j in range(dim):
                    out[i, j] += t * X[r, j]
    return out


@njit(cache=True)  # type: ignore[untyped-decorator]
def descend(
    W: Array,
    X: Array,
    y: Array,
    weight: Array,
    kind: IntArray,
    parameter: Array,
    starts: IntArray,
    diagonal: Array,
    tilt: Array,
    steps: IntArray,
    rate: Array,
    linear: Array,
    mu: float,
    anchor: Array,
) -> Array:
    """Local gradient steps of all devices."""
    n, dim = W.shape
    out = W.copy()
    g = np.empty((1, dim))
    for i in range(n):
        for _ in range(steps[i]):
            for j in range(dim):
                g[0, j] = diagonal[i, j] * out[i, j] + tilt[i, j] + linear[i, j] + mu * (out[i, j] - anchor[i, j])
            _add_rows(X, y, weight, kind, parameter, starts[i], starts[i + 1], out, g, i, 0)
            for j in range(dim):
                out[i, j] -= rate[i] * g[0, j]
    return out
