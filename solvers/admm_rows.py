"""The rows' part of a step of ADMM: new multipliers and copies, and what they ask of the next linear system.

Differences across edges under the Euclidean norm are one compiled loop; any other term goes through its map and the
proximal map of its conjugate.  Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from .linear_maps import Array, EdgeDifference, IntArray
from .operators import compiled
from .standard_form import Term

__all__ = ["RowStep", "row_step"]

# A hair less than one: rounding may leave a projection outside of its ball.
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)

RowStep = Callable[[Array, Array, Array, Array], tuple[Array, Array]]
"""``(U, Z, W, right) -> new U and Z``; ``K^T (penalty Z - U)`` of the new ones is added to ``right`` in place."""


def row_step(term: Term, penalty: Array, relaxation: float) -> RowStep:
    """The step ``V = U + penalty (relaxation K W + (1 - relaxation) Z)``, ``U = prox V``, ``Z = (V - U) / penalty``."""
    norm = term.function.norm
    if norm is not None and isinstance(term.map, EdgeDifference) and (norm[1] == 2.0 or term.map.width == 1):
        ends, radius = (term.map.tail, term.map.head), norm[0]
        return lambda U, Z, W, right: _project(U, Z, W, right, *ends, penalty, radius, relaxation)
    ascend, descend = compiled(term.map)
    prox, scale = term.function.conjugate_prox_operator(penalty), penalty[:, None]

    def step(U: Array, Z: Array, W: Array, right: Array) -> tuple[Array, Array]:
        moved = ascend(U + (1.0 - relaxation) * scale * Z, W, relaxation * penalty)
        dual = prox(moved)
        right += descend(moved - 2.0 * dual)
        return dual, (moved - dual) / scale

    return step


@njit(cache=True)  # type: ignore[untyped-decorator]
def _project(
    U: Array,
    Z: Array,
    W: Array,
    right: Array,
    tail: IntArray,
    head: IntArray,
    penalty: Array,
    radius: Array,
    relaxation: float,
) -> tuple[Array, Array]:
    dual, copy = np.empty_like(U), np.empty_like(Z)
    dim = U.shape[1]
    for e in range(len(tail)):
        i, j = tail[e], head[e]
        square = 0.0
        for k in range(dim):
            ahead = relaxation * (W[j, k] - W[i, k]) + (1.0 - relaxation) * Z[e, k]
            moved = U[e, k] + penalty[e] * ahead
            copy[e, k] = moved
            square += moved * moved
        share, rest = 1.0, 0.0
        if square > radius[e] * radius[e]:
            share = INSIDE * radius[e] / np.sqrt(square)
            rest = (1.0 - share) / penalty[e]
        for k in range(dim):
            moved = copy[e, k]
            dual[e, k], copy[e, k] = share * moved, rest * moved
            force = (1.0 - 2.0 * share) * moved
            right[j, k] += force
            right[i, k] -= force
    return dual, copy
