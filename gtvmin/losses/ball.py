"""Parameters held to a Euclidean ball."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.rows import SelectionLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen, nonnegative_number

__all__ = ["Ball", "BallBlocks"]

EPS = float(np.finfo(float).eps)
# A point that rounding put outside by this many units in the last place of centre and radius is inside.
UNITS = 4.0


class BallBlocks(BlockFunction):
    """Indicators of ``||w - c_i||_2 <= radius_i``.

    Parameters
    ----------
    radius : array (n_rows,)
        At least zero.
    centre : array (n_rows, dim)
        The points c_i.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})
    restricted = True

    def __init__(self, radius: Array, centre: Array) -> None:
        self.n_rows, self.dim = centre.shape
        self.radius, self.centre = radius, centre

    @property
    def _tolerance(self) -> Array:
        """How far outside a point may be by rounding."""
        return np.asarray(UNITS * EPS * (self.radius + np.linalg.norm(self.centre, axis=1)))

    def value(self, W: Array) -> Array:
        """Zero inside, up to rounding; ``inf`` outside."""
        outside = np.linalg.norm(W - self.centre, axis=1) - self.radius
        return np.where(outside <= self._tolerance, 0.0, np.inf)

    def project_primal(self, W: Array) -> Array:
        """Nearest points of the balls; points inside, up to rounding, stay as they are."""
        away = W - self.centre
        distance = np.linalg.norm(away, axis=1)
        outside = distance - self.radius > self._tolerance
        shrink = np.where(outside, self.radius / np.where(outside, distance, 1.0), 1.0)[:, None]
        return np.where(outside[:, None], self.centre + shrink * away, W)

    def subgradient(self, W: Array) -> Array:
        """Zero, the subgradient that every point of a ball has."""
        return np.zeros_like(W)

    def conjugate(self, S: Array) -> Array:
        """``radius ||p|| + <c, p>``."""
        return np.asarray(self.radius * np.linalg.norm(S, axis=1) + np.einsum("ij,ij->i", self.centre, S))

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``||p|| (radius - ||z||) + ||p|| ||z|| (1 - cos)`` for ``z = w - c``, with cos from the chord."""
        away = W - self.centre
        distance, size = np.linalg.norm(away, axis=1), np.linalg.norm(S, axis=1)
        chord = _directions(away, distance) - _directions(S, size)
        turn = 0.5 * size * distance * np.einsum("ij,ij->i", chord, chord)
        apart = (distance > 0) & (size > 0)
        room = np.maximum(self.radius - distance, 0.0)
        return np.asarray(size * room + np.where(apart, turn, 0.0) + self.value(W))

    def rounding(self, W: Array, S: Array) -> Array:
        """What the tolerance on the radius and the rounding of norms and directions may hide."""
        size = np.linalg.norm(S, axis=1)
        distance = np.linalg.norm(W - self.centre, axis=1)
        reach = self.radius + np.linalg.norm(self.centre, axis=1) + np.linalg.norm(W, axis=1)
        chord = np.linalg.norm(_directions(W - self.centre, distance) - _directions(S, size), axis=1)
        return np.asarray((self.dim + 8.0) * EPS * size * (self._tolerance / EPS + reach * (1.0 + chord)))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Projection, whatever the steps."""
        return self.project_primal

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``z = v - step c`` shortened by ``step radius``, or zero."""
        shift, shorten = step[:, None] * self.centre, step * self.radius

        def prox(V: Array) -> Array:
            Z = V - shift
            size = np.linalg.norm(Z, axis=1)
            kept = np.maximum(size - shorten, 0.0) / np.where(size > 0, size, 1.0)
            return np.asarray(kept[:, None] * Z)

        return prox

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Indicator of the balls' second-order cones."""
        import cvxpy as cp

        return cp.transforms.indicator([cp.norm(W - self.centre / unit, 2, axis=1) <= self.radius / unit])

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``sum radius ||p|| + <c, p>``."""
        import cvxpy as cp

        return self.radius @ cp.norm(S, 2, axis=1) + cp.sum(cp.multiply(self.centre, S)), []


def _directions(Z: Array, size: Array) -> Array:
    return np.asarray(Z / np.where(size > 0, size, 1.0)[:, None])


@dataclass(frozen=True, eq=False, init=False)
class Ball(SelectionLoss):
    """Indicator of the Euclidean ball ``||w - centre||_2 <= radius``: zero inside, infinite outside.

    Parameters
    ----------
    radius : float
        At least 0.
    centre : float or array_like (dim,)
        The middle; a number stands for a vector of equal entries and fits any number of parameters.

    Raises
    ------
    ValueError
        If the radius is negative, the centre is no vector, or a value is NaN or infinite.
    TypeError
        If an argument is no real number, or no array of such.

    Notes
    -----
    A multiple of an indicator is the indicator.  Its conjugate ``radius ||s|| + <centre, s>`` is the support function
    of the ball: R. T. Rockafellar, "Convex Analysis" (1970), Section 13.

    Examples
    --------
    >>> from gtvmin.losses import Ball
    >>> ball = Ball(1.0, centre=[0.0, 2.0])
    >>> ball.value([0.0, 1.0]), ball.value([0.0, 0.9])
    (0.0, inf)
    """

    radius: float
    centre: float | Array

    function: ClassVar[type[BlockFunction]] = BallBlocks

    def __init__(self, radius: float, centre: float | ArrayLike = 0.0) -> None:
        point = finite_array(centre, "centre")
        if point.ndim > 1 or not point.size:
            raise ValueError(f"centre must be a number or a vector of parameters, got shape {point.shape}")
        object.__setattr__(self, "radius", nonnegative_number(radius, "radius"))
        object.__setattr__(self, "centre", frozen(point) if point.ndim else float(point))

    @property
    def dim(self) -> int | None:
        """Number of parameters; None if the centre is a number."""
        return None if isinstance(self.centre, float) else int(self.centre.size)

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Radius and centre."""
        return {"radius": np.array([self.radius]), "centre": np.array(np.broadcast_to(self.centre, (1, dim)))}
