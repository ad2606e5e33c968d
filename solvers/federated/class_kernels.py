"""Compiled passes over the data points of devices with classes.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..linear_maps import Array

__all__ = ["class_batch_gradients", "class_passes"]

IntArray = NDArray[np.int64]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_row(g: Array, x: Array, w: Array, label: int, weight: float, s: Array) -> None:
    """Add the gradient of ``weight (log sum_k exp(x^T w_k) - x^T w_label)``; s is room for the scores."""
    classes = len(s)
    s[:] = 0.0
    for j in range(len(x)):
        for k in range(classes):
            s[k] += x[j] * w[j * classes + k]
    s[:] = np.exp(s - s.max())
    s *= weight / s.sum()
    s[label] -= weight
    for j in range(len(x)):
        for k in range(classes):
            g[j * classes + k] += x[j] * s[k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def class_passes(
    W: Array,
    X: Array,
    label: IntArray,
    weight: Array,
    starts: IntArray,
    diagonal: Array,
    tilt: Array,
    steps: IntArray,
    rate: Array,
    linear: Array,
    mu: float,
    anchor: Array,
    gradients: bool,
) -> Array:
    """Local gradient steps of all devices; or, if ``gradients``, just what the first of them would go along."""
    n, dim = W.shape
    out, s = W.copy(), np.empty(dim // X.shape[1])
    for i in range(n):
        for _ in range(steps[i]):
            w = out[i]
            g = diagonal[i] * w + tilt[i] + linear[i] + mu * (w - anchor[i])
            for r in range(starts[i], starts[i + 1]):
                _add_row(g, X[r], w, label[r], weight[r], s)
            out[i] = g if gradients else w - rate[i] * g
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def class_batch_gradients(
    W: Array, X: Array, label: IntArray, weight: Array, starts: IntArray, diagonal: Array, tilt: Array, rows: IntArray
) -> Array:
    """Gradients from drawn data points, and from the whole remainder."""
    n, dim = W.shape
    out, s, g = np.empty((n, dim)), np.empty(dim // X.shape[1]), np.empty(dim)
    for i in range(n):
        drawn = 0
        g[:] = 0.0
        for r in rows[i]:
            if r >= 0:
                drawn += 1
                _add_row(g, X[r], W[i], label[r], weight[r], s)
        scale = (starts[i + 1] - starts[i]) / drawn if drawn else 0.0
        out[i] = diagonal[i] * W[i] + tilt[i] + scale * g
    return out
