"""The rows' part of a step of ADMM: new multipliers and copies, and what they ask of the next linear system.

Multipliers U and copies Z of a term are two parts of one array V: ``U = prox V`` for the conjugate's proximal map with
steps ``penalty``, and ``penalty Z = V - U`` (J. J. Moreau, 1965).  Differences across edges under the Euclidean norm
are one compiled loop; any other term goes through its map and that proximal map.  Importing this module imports numba.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numba import njit

from .linear_maps import Array, EdgeDifference, IntArray
from .operators import compiled
from .standard_form import Term

__all__ = ["RowStep", "movement"]

# A hair less than one: rounding may leave a projection outside of its ball.
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)
# Rows of up to so many numbers have a loop of their own.
NARROW = 4


class RowStep(ABC):
    """Over-relaxed steps of one term with given penalties (n_rows,)."""

    penalty: Array
    relaxation: float

    @staticmethod
    def of(term: Term, penalty: Array, relaxation: float) -> RowStep:
        """The fastest that fits the term."""
        norm = term.function.norm
        if norm is not None and isinstance(term.map, EdgeDifference) and (norm[1] == 2.0 or term.map.width == 1):
            return _EdgeNorms(term.map, norm[0], penalty, relaxation)
        return _AnyRows(term, penalty, relaxation)

    @abstractmethod
    def advance(self, V: Array, W: Array, right: Array, out: Array) -> None:
        """``out <- U + penalty (relaxation K W + (1 - relaxation) Z)``; its demand is added to ``right``."""

    @abstractmethod
    def demand(self, V: Array, right: Array) -> None:
        """Add ``K^T (penalty Z - U)``, what V asks of the linear system, to ``right``."""

    @abstractmethod
    def split(self, V: Array) -> tuple[Array, Array]:
        """U and Z."""


class _EdgeNorms(RowStep):
    """Weighted Euclidean norms of differences across edges, whose multipliers are projections on balls."""

    def __init__(self, map: EdgeDifference, radius: Array, penalty: Array, relaxation: float) -> None:
        self.map, self.radius, self.penalty, self.relaxation = map, radius, penalty, relaxation
        self._loop = _edge_loop(map.width if map.width <= NARROW else 0)

    def advance(self, V: Array, W: Array, right: Array, out: Array) -> None:
        self._loop(V, W, right, self.map.tail, self.map.head, self.penalty, self.radius, self.relaxation, out)

    def demand(self, V: Array, right: Array) -> None:
        _edge_demand(V, right, self.map.tail, self.map.head, self.radius)

    def split(self, V: Array) -> tuple[Array, Array]:
        U, Z = _edge_parts(V, self.penalty, self.radius)
        return U, Z


class _AnyRows(RowStep):
    """Any map and any function with a proximal map."""

    def __init__(self, term: Term, penalty: Array, relaxation: float) -> None:
        self.penalty, self.relaxation = penalty, relaxation
        self._prox = term.function.conjugate_prox_operator(penalty)
        self._ascend, self._descend = compiled(term.map)

    def advance(self, V: Array, W: Array, right: Array, out: Array) -> None:
        kept = self.relaxation * self._prox(V) + (1.0 - self.relaxation) * V
        out[:] = self._ascend(kept, W, self.relaxation * self.penalty)
        self.demand(out, right)

    def demand(self, V: Array, right: Array) -> None:
        right += self._descend(V - 2.0 * self._prox(V))

    def split(self, V: Array) -> tuple[Array, Array]:
        U = self._prox(V)
        return U, (V - U) / self.penalty[:, None]


@functools.cache
def _edge_loop(width: int) -> Callable[..., None]:
    """The loop for rows of a width that the compiler knows, or of any for 0."""

    @njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def advance(
        V: Array,
        W: Array,
        right: Array,
        tail: IntArray,
        head: IntArray,
        penalty: Array,
        radius: Array,
        relaxation: float,
        out: Array,
    ) -> None:
        dim = width if width > 0 else V.shape[1]
        for e in range(len(tail)):
            i, j = tail[e], head[e]
            limit, step = radius[e] * radius[e], relaxation * penalty[e]
            square, new_square = 0.0, 0.0
            for k in range(dim):
                square += V[e, k] * V[e, k]
            share = INSIDE * radius[e] / np.sqrt(square) if square > limit else 1.0
            kept = relaxation * share + 1.0 - relaxation
            for k in range(dim):
                moved = kept * V[e, k] + step * (W[j, k] - W[i, k])
                out[e, k] = moved
                new_square += moved * moved
            share = INSIDE * radius[e] / np.sqrt(new_square) if new_square > limit else 1.0
            for k in range(dim):
                force = (1.0 - 2.0 * share) * out[e, k]
                right[j, k] += force
                right[i, k] -= force

    loop: Callable[..., None] = advance
    return loop


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _share(V: Array, radius: Array, e: int) -> float:
    """What of a row is its multiplier."""
    square = 0.0
    for k in range(V.shape[1]):
        square += V[e, k] * V[e, k]
    return float(INSIDE * radius[e] / np.sqrt(square)) if square > radius[e] * radius[e] else 1.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _edge_demand(V: Array, right: Array, tail: IntArray, head: IntArray, radius: Array) -> None:
    for e in range(len(V)):
        factor = 1.0 - 2.0 * _share(V, radius, e)
        for k in range(V.shape[1]):
            right[head[e], k] += factor * V[e, k]
            right[tail[e], k] -= factor * V[e, k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _edge_parts(V: Array, penalty: Array, radius: Array) -> tuple[Array, Array]:
    U, Z = np.empty_like(V), np.empty_like(V)
    for e in range(len(V)):
        share = _share(V, radius, e)
        rest = (1.0 - share) / penalty[e]
        for k in range(V.shape[1]):
            U[e, k], Z[e, k] = share * V[e, k], rest * V[e, k]
    return U, Z


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def movement(weight: Array, Z: Array, U: Array, Z0: Array, U0: Array) -> tuple[float, float]:
    """``sum_r weight_r ||z_r - z0_r||^2`` and ``sum_r ||u_r - u0_r||^2 / weight_r``."""
    primal, dual = 0.0, 0.0
    for r in range(len(weight)):
        copies, multipliers = 0.0, 0.0
        for k in range(Z.shape[1]):
            copies += (Z[r, k] - Z0[r, k]) ** 2
            multipliers += (U[r, k] - U0[r, k]) ** 2
        primal += weight[r] * copies
        dual += multipliers / weight[r]
    return primal, dual
