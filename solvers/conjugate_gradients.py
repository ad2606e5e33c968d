"""Preconditioned conjugate gradients on matrices of parameters, with a preconditioner that may vary.

The flexible variant (Y. Notay, "Flexible conjugate gradients", SIAM Journal on Scientific Computing 22 (2000),
1444-1460, DOI 10.1137/S1064827599362314) makes up for multigrid cycles that are not quite linear.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .linear_maps import Array
from .standard_form import dot

__all__ = ["Operator", "Progress", "Updates", "conjugate_gradients", "numpy_updates"]

Operator = Callable[[Array, Array], None]
"""``(V, out)``: puts the image of V in ``out``."""

Progress = Callable[[list[float]], bool]
"""Called with the squared norms of all residuals so far; tells whether to go on."""


@dataclass(frozen=True)
class Updates:
    """The operations on whole matrices.

    Attributes
    ----------
    inner : callable
        ``(U, V) -> <U, V>``.
    advance : callable
        ``(X, R, P, AP, length) -> ||R||^2`` after ``X += length P`` and ``R -= length AP``.
    turn : callable
        ``(P, Z, R, AP, length, product) -> <Z, R>`` after ``P <- Z + beta P``.
    """

    inner: Callable[[Array, Array], float]
    advance: Callable[[Array, Array, Array, Array, float], float]
    turn: Callable[[Array, Array, Array, Array, float, float], float]


def numpy_updates() -> Updates:
    """In NumPy: for small matrices."""
    return Updates(dot, _advance, _turn)


def _advance(X: Array, R: Array, P: Array, AP: Array, length: float) -> float:
    X += length * P
    R -= length * AP
    return dot(R, R)


def _turn(P: Array, Z: Array, R: Array, AP: Array, length: float, product: float) -> float:
    # <z, r - r_previous> over the previous product, with r - r_previous = -length AP
    beta = -length * dot(Z, AP) / product
    P *= beta
    P += Z
    return dot(Z, R)


def conjugate_gradients(
    multiply: Operator, precondition: Operator, R: Array, target: float, go_on: Progress, updates: Updates
) -> Array:
    """Solve ``A X = R`` until ``||R - A X||^2 <= target``, starting from zero.

    Parameters
    ----------
    multiply, precondition : callable
        Positive semidefinite operators.
    R : array (n, dim)
        Right-hand side; the residual takes its place.
    target : float
        Square of the norm of the residual at which to stop.
    go_on : callable
        May stop the iteration earlier.
    updates : Updates
        How to work on the matrices.
    """
    X, Z, P, AP = (np.zeros_like(R) for _ in range(4))
    sizes = [updates.inner(R, R)]
    if sizes[0] <= target:
        return X
    precondition(R, P)
    product = updates.inner(P, R)
    while sizes[-1] > target and go_on(sizes):
        multiply(P, AP)
        curvature = updates.inner(P, AP)
        if not (curvature > 0 and product > 0):  # what is left lies in the null space, along which a step runs away
            break
        length = product / curvature
        sizes.append(updates.advance(X, R, P, AP, length))
        if sizes[-1] <= target:
            break
        precondition(R, Z)
        product = updates.turn(P, Z, R, AP, length, product)
    return X
