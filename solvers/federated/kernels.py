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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _add_row(
    X: Array, y: Array, weight: Array, kind: IntArray, parameter: Array, r: int, scale: float, w: Array, g: Array
) -> None:
    """Add ``scale`` times the gradient of row r at w to g."""
    dim = len(w)
    # four sums at once: one would wait for each addition to end
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    whole = dim - dim % 4
    for j in range(0, whole, 4):
        a += X[r, j] * w[j]
        b += X[r, j + 1] * w[j + 1]
        c += X[r, j + 2] * w[j + 2]
        d += X[r, j + 3] * w[j + 3]
    for j in range(whole, dim):
        a += X[r, j] * w[j]
    t = (a + b) + (c + d)
    if kind[r] == 1:
        slope = -weight[r] * y[r] / (1.0 + np.exp(y[r] * t))
    else:
        residual = t - y[r]
        if kind[r] == 2:
            residual = min(max(residual, -parameter[r]), parameter[r])
        slope = 2.0 * weight[r] * residual
    slope *= scale
    for j in range(dim):
        g[j] += slope * X[r, j]


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
        w, g = W[i], out[i]
        for j in range(dim):
            g[j] = diagonal[i, j] * w[j] + tilt[i, j]
        for r in range(starts[i], starts[i + 1]):
            _add_row(X, y, weight, kind, parameter, r, 1.0, w, g)
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
        w, g = W[i], out[i]
        for j in range(dim):
            g[j] = diagonal[i, j] * w[j] + tilt[i, j]
        for r in range(ends[i], starts[i + 1]):
            _add_row(X, y, weight, kind, parameter, r, 1.0, w, g)
        drawn = 0
        for k in range(rows.shape[1]):
            if rows[i, k] >= 0:
                drawn += 1
        for k in range(rows.shape[1]):
            if rows[i, k] >= 0:
                _add_row(X, y, weight, kind, parameter, rows[i, k], (ends[i] - starts[i]) / drawn, w, g)
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
    g = np.empty(dim)
    for i in range(n):
        w = out[i]
        for _ in range(steps[i]):
            for j in range(dim):
                g[j] = diagonal[i, j] * w[j] + tilt[i, j] + linear[i, j] + mu * (w[j] - anchor[i, j])
            for r in range(starts[i], starts[i + 1]):
                _add_row(X, y, weight, kind, parameter, r, 1.0, w, g)
            for j in range(dim):
                w[j] -= rate[i] * g[j]
    return out
