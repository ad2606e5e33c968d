"""Relative entropy without cancellation: the Fenchel-Young terms of likelihoods."""

from __future__ import annotations

import numpy as np

from gtvmin.solvers.standard_form import Array

__all__ = ["relative_entropy", "relative_entropy_rounding"]

EPS = float(np.finfo(float).eps)
# Below, exp(x) - 1 - x is summed as a series; from there on the subtraction costs few digits.
SERIES_RANGE = 0.1
SERIES_TERMS = 10


def relative_entropy(q: Array, log_m: Array) -> Array:
    """``q log(q / m) - q + m`` for ``q >= 0`` and ``m = exp(log_m)``, entry by entry.

    Each entry is at least zero, so that sums do not cancel; over two probability vectors they are the
    Kullback-Leibler divergence.  With ``x = log(m / q)`` the entry is ``q (exp(x) - 1 - x)``.
    """
    positive = q > 0
    x = np.where(positive, log_m - np.log(np.where(positive, q, 1.0)), 0.0)
    with np.errstate(over="ignore", under="ignore"):
        m = np.exp(log_m)
    series = np.zeros_like(x)
    for k in range(SERIES_TERMS + 2, 2, -1):
        series = (1.0 + series) * x / k
    near = np.clip(x, None, 1.0)
    close = np.where(np.abs(x) < SERIES_RANGE, 0.5 * x**2 * (1.0 + series), np.expm1(near) - near)
    return np.asarray(np.where(positive & (x < 1.0), q * close, np.maximum(m - q - q * x, 0.0)))


def relative_entropy_rounding(q: Array, log_m: Array, error: Array) -> Array:
    """Effect on :func:`relative_entropy` of the rounding of its logarithms and of an error of q, to second order."""
    least = np.maximum(q, error)
    log_q = np.log(np.where(least > 0, least, 1.0))
    logarithms = 4.0 * EPS * (1.0 + np.abs(log_m) + np.abs(log_q))
    with np.errstate(over="ignore", under="ignore"):
        m = np.exp(log_m)
        of_logarithms = (np.abs(m - q) + logarithms * np.maximum(m, q)) * logarithms
        of_q = error * (np.abs(log_m - log_q) + error / np.where(least > 0, least, 1.0))
        return np.asarray(of_logarithms + of_q)
