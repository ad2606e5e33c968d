"""Compiled proximal maps of functions of one number.  Importing this module imports numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from .linear_maps import Array

__all__ = ["logistic_prox"]

# Newton's error is at most half the square of its last move, so one move of this size leaves no error to see.
LAST_MOVE = 1e-8
NEWTON_STEPS = 60
# From this scale on the root is far from the start, and a bound from the logarithm shortens the way.
LARGE_SCALE = 8.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _logistic_prox(V: Array, scale: Array) -> tuple[Array, Array]:
    T, Q = np.empty_like(V), np.empty_like(V)
    for r in range(V.size):
        v, a = V[r], scale[r]
        # t -> -t turns the equation for v into the one for -v - a: only t >= 0 is left
        mirrored = v < -0.5 * a
        if mirrored:
            v = -v - a
        # residual(t) = t - v - a / (1 + e^t) increases and is concave for t >= 0: from a point left of the root
        # Newton's method never passes it
        t = max(0.0, v)
        if a > LARGE_SCALE:
            # t - v < a e^-t, so that t <= max(v + 1, log a); and t = log(a / (t - v) - 1)
            odds = a / (max(v + 1.0, np.log(a)) - v) - 1.0
            if odds > 1.0:
                t = max(t, np.log(odds))
        for _ in range(NEWTON_STEPS):
            e = np.exp(-t)
            q = e / (1.0 + e)
            move = (v + a * q - t) / (1.0 + a * q / (1.0 + e))
            t += move
            if abs(move) <= LAST_MOVE * (1.0 + t):
                break
        e = np.exp(-t)
        T[r] = -t if mirrored else t
        Q[r] = 1.0 / (1.0 + e) if mirrored else e / (1.0 + e)
    return T, Q


def logistic_prox(V: Array, scale: Array) -> tuple[Array, Array]:
    """Roots t of ``t = v + scale / (1 + exp(t))`` and ``q = 1 / (1 + exp(t))``, entry by entry.

    Parameters
    ----------
    V : array
        Points, any shape.
    scale : array
        Of the same shape, at least zero.

    Returns
    -------
    t : array
        ``argmin_t scale log(1 + exp(-t)) + (t - v)^2 / 2``.
    q : array
        Accurate also where it is close to zero.
    """
    T, Q = _logistic_prox(np.ascontiguousarray(V).ravel(), np.ascontiguousarray(scale).ravel())
    return T.reshape(V.shape), Q.reshape(V.shape)
