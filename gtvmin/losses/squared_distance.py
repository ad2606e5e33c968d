"""Squared distance from a given point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.losses.factors import penalty_factors
from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["SquaredDistance"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class SquaredDistance(QuadraticLoss):
    """``sum_j c_j (w_j - a_j)^2``, without a factor one half: the squared distance from a point, or a ridge.

    ``SquaredError(X, y) + 0.1 * SquaredDistance(0)`` is ridge regression.

    Parameters
    ----------
    a : array_like (dim,) or float
        The point; one number stands for a vector of any length that is constant.
    penalise : array_like (dim,), optional
        The factors ``c_j >= 0``; a zero leaves a coordinate (an intercept, say) free.  Default: all ones.

    Raises
    ------
    TypeError
        If an argument holds anything but real numbers.
    ValueError
        If the lengths differ, a factor is negative, or a value is NaN or infinite.

    Notes
    -----
    One point a device, with a norm as penalty, is convex clustering: T. D. Hocking et al., "Clusterpath" (2011), and
    with a squared norm the denoising of a graph signal.

    Examples
    --------
    >>> from gtvmin.losses import SquaredDistance
    >>> SquaredDistance([1.0, 2.0]).value([1.0, 5.0])
    9.0
    """

    a: Array | float
    penalise: Array | None

    def __init__(self, a: ArrayLike = 0.0, *, penalise: ArrayLike | None = None) -> None:
        point, factors = finite_array(a, "a"), penalty_factors(penalise)
        if point.ndim > 1 or not point.size:
            raise ValueError(f"a must be a vector or one number, got shape {point.shape}")
        if point.ndim and factors is not None and len(factors) != len(point):
            raise ValueError(f"penalise must have one factor per entry of a ({len(point)}), got {len(factors)}")
        object.__setattr__(self, "a", frozen(point) if point.ndim else float(point))
        object.__setattr__(self, "penalise", factors)

    @property
    def dim(self) -> int | None:
        """Number of entries of the point or of the factors; None fits any."""
        return next((len(part) for part in (self.a, self.penalise) if isinstance(part, np.ndarray)), None)

    def rows(self, dim: int) -> Rows:
        """One row a penalised coordinate."""
        if self.penalise is None:
            point = self.a if isinstance(self.a, np.ndarray) else np.full(dim, self.a)
            return np.eye(dim), point, np.ones(dim)
        factors = self.penalise
        used = factors > 0
        return np.eye(dim)[used], np.broadcast_to(self.a, dim)[used], factors[used]

    @classmethod
    def rows_of_all(cls, losses: Sequence[Self], dim: int) -> tuple[Rows, NDArray[np.int64]]:
        """Rows of the identity, without a loop if no coordinate is treated differently."""
        if any(loss.penalise is not None for loss in losses):
            return super().rows_of_all(losses, dim)
        n = len(losses)
        points = np.empty((n, dim))
        for k, loss in enumerate(losses):
            points[k] = loss.a
        return (np.tile(np.eye(dim), (n, 1)), points.ravel(), np.ones(n * dim)), np.full(n, dim)

    def __repr__(self) -> str:
        of_point = f"{self.a:g}" if isinstance(self.a, float) else f"<{len(self.a)} numbers>"
        return f"SquaredDistance({of_point}{'' if self.penalise is None else f', penalise={self.penalise.tolist()}'})"
