"""Ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.base import Loss
from gtvmin.losses.squared_error import Scale, SquaredError
from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen, nonnegative_number

__all__ = ["Ridge"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Ridge(QuadraticLoss):
    """Ridge regression ``(1/m) ||y - X w||_2^2 + lam * sum_j c_j w_j^2`` over the m rows of one device.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels.
    lam : float
        Strength of the ridge term, at least 0.  ``scale`` does not touch it.
    penalise : array_like (dim,), optional
        The factors ``c_j >= 0``; a zero leaves a coordinate (an intercept, say) free.  Default: all ones.
    scale : {"mean", "sum"}
        Whether the squared errors are averaged or summed.
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    TypeError
        If an array holds anything but real numbers.
    ValueError
        If shapes disagree, a value is NaN or infinite, or ``lam`` or a factor is negative.

    Examples
    --------
    >>> from gtvmin.losses import Ridge
    >>> loss = Ridge([[1.0, 1.0]], [2.0], lam=0.5, penalise=[1, 0])
    >>> loss.value([1.0, 1.0])
    0.5
    """

    data: SquaredError
    lam: float
    penalise: Array

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        lam: float,
        penalise: ArrayLike | None = None,
        scale: Scale = "mean",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        data = SquaredError(X, y, scale=scale, sample_weight=sample_weight)
        factors = np.ones(data.dim) if penalise is None else finite_array(penalise, "penalise")
        if factors.shape != (data.dim,):
            raise ValueError(f"penalise must have one factor per column of X ({data.dim}), got {factors.shape}")
        if (factors < 0).any():
            raise ValueError(f"penalise must be >= 0, got {factors.min():g} at position {factors.argmin()}")
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "lam", nonnegative_number(lam, "lam"))
        object.__setattr__(self, "penalise", frozen(factors))

    @property
    def dim(self) -> int:
        """Number of features."""
        return self.data.dim

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return self.data.n_samples

    def arguments(self) -> dict[str, Any]:
        """Arguments that declare the same loss again."""
        return {**self.data.arguments(), "lam": self.lam, "penalise": self.penalise}

    def data_terms(self) -> tuple[tuple[float, Loss], ...]:
        """The squared error."""
        return self.data.data_terms()

    def rows(self, dim: int) -> Rows:
        """Its data points, then one row a penalised coordinate."""
        X, y, weight = self.data.rows(dim)
        kept = np.flatnonzero(self.lam * self.penalise)
        identity = np.eye(dim)[kept]
        ridge = self.lam * self.penalise[kept]
        return np.vstack([X, identity]), np.append(y, np.zeros(len(kept))), np.append(weight, ridge)

    def __repr__(self) -> str:
        return f"Ridge({self.n_samples} rows x {self.dim}, lam={self.lam:g}, scale={self.data.scale!r})"
