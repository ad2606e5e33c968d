"""Compiled passes over the data points of all devices.  Importing this module imports numba.

Sums run in a fixed order and without fast-math: a repeated run gives the same bits.  The loops over rows are written
out where they are needed: a helper that takes arrays costs more than a device's rows, even if it is inlined.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..linear_maps import Array

__all__ = ["batch_gradients", "passes", "quadratic_forms", "quadratic_passes"]

IntArray = NDArray[np.int64]


@njit(inline="always")  # type: ignore[untyped-decorator]
def _slope(kind: int, t: float, y: float, weight: float, parameter: float) -> float:
    """Derivative of a row's function at t."""
    if kind == 1:
        return float(-weight * y / (1.0 + np.exp(y * t)))
    residual = t - y
    if kind == 2:
        residual = min(max(residual, -parameter), parameter)
    return 2.0 * weight * residual


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def passes(
    W: Array,
    X: Array,
    y: Array,
    weight: Array,
    kind: IntArray,
    parameter: Array,
    starts: IntArray,
    remainder: bool,
    diagonal: Array,
    tilt: Array,
    steps: IntArray,
    rate: Array,
    shifted: bool,
    linear: Array,
    mu: float,
    anchor: Array,
    gradients: bool,
) -> Array:
    """Local gradient steps of all devices; or, if ``gradients``, just what the first of them would go along.

    A device makes all of its steps while its data are in the cache.
    """
    n, dim = W.shape
    out, g = W.copy(), np.empty(dim)
    for i in range(n):
        for _ in range(steps[i]):
            g[:] = 0.0
            if remainder:
                for j in range(dim):
                    g[j] = diagonal[i, j] * out[i, j] + tilt[i, j]
            if shifted:
                for j in range(dim):
                    g[j] += linear[i, j] + mu * (out[i, j] - anchor[i, j])
            for r in range(starts[i], starts[i + 1]):
                t = 0.0
                for j in range(dim):
                    t += X[r, j] * out[i, j]
                t = _slope(kind[r], t, y[r], weight[r], parameter[r])
                for j in range(dim):
                    g[j] += t * X[r, j]
            for j in range(dim):
                out[i, j] = g[j] if gradients else out[i, j] - rate[i] * g[j]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
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
    """Gradients from drawn data points, and from all rows of the remainder."""
    n, dim = W.shape
    out = np.empty((n, dim))
    for i in range(n):
        drawn = 0
        for k in range(rows.shape[1]):
            if rows[i, k] >= 0:
                drawn += 1
        for j in range(dim):
            out[i, j] = diagonal[i, j] * W[i, j] + tilt[i, j]
        rest = starts[i + 1] - ends[i]
        for k in range(rest + rows.shape[1]):
            r = ends[i] + k if k < rest else rows[i, k - rest]
            if r >= 0:
                t = 0.0
                for j in range(dim):
                    t += X[r, j] * W[i, j]
                t = _slope(kind[r], t, y[r], weight[r], parameter[r])
                t *= 1.0 if k < rest else (ends[i] - starts[i]) / drawn
                for j in range(dim):
                    out[i, j] += t * X[r, j]
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def quadratic_forms(
    X: Array, y: Array, weight: Array, starts: IntArray, diagonal: Array, tilt: Array
) -> tuple[Array, Array]:
    """``(Q, b)`` of squared rows and the remainder: the gradient of device i is ``Q_i w - b_i``."""
    n, dim = diagonal.shape
    Q, b = np.zeros((n, dim, dim)), -tilt
    for i in range(n):
        for r in range(starts[i], starts[i + 1]):
            for j in range(dim):
                t = 2.0 * weight[r] * X[r, j]
                b[i, j] += t * y[r]
                for k in range(dim):
                    Q[i, j, k] += t * X[r, k]
        for j in range(dim):
            Q[i, j, j] += diagonal[i, j]
    return Q, b


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def quadratic_passes(
    W: Array,
    Q: Array,
    b: Array,
    steps: IntArray,
    rate: Array,
    shifted: bool,
    linear: Array,
    mu: float,
    anchor: Array,
    gradients: bool,
) -> Array:
    """The same as :func:`passes` by the devices' quadratic forms."""
    n, dim = W.shape
    out, g = W.copy(), np.empty(dim)
    for i in range(n):
        for _ in range(steps[i]):
            for j in range(dim):
                g[j] = -b[i, j]
            if shifted:
                for j in range(dim):
                    g[j] += linear[i, j] + mu * (out[i, j] - anchor[i, j])
            for j in range(dim):
                w = out[i, j]
                for k in range(dim):
                    g[k] += w * Q[i, j, k]
            for j in range(dim):
                out[i, j] = g[j] if gradients else out[i, j] - rate[i] * g[j]
    return out
