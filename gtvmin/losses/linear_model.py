"""Losses of a linear model's predictions that are piecewise linear-quadratic: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.labels import signed_labels
from gtvmin.losses.rows import RowLoss
from gtvmin.losses.squared_error import Scale, regression_data, row_weights
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen

__all__ = ["ClassifierLoss", "LinearModelLoss"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class LinearModelLoss(RowLoss):
    """``sum_r omega_r phi(x_r^T w, y_r)`` over the data points of one device, omega from ``scale`` and the weights."""

    X: Array
    y: Array
    scale: Scale
    sample_weight: Array | None

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, scale: Scale = "mean", sample_weight: ArrayLike | None = None
    ) -> None:
        features, labels = regression_data(X, y, scale)
        weight = None if sample_weight is None else frozen(finite_array(sample_weight, "sample_weight"))
        row_weights(len(labels), scale, weight)
        for name, value in (("X", features), ("y", labels), ("scale", scale), ("sample_weight", weight)):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return int(self.X.shape[0])

    @abstractmethod
    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Slopes, target and curvature of phi, of weight one, for these labels."""

    def _weights(self) -> Array:
        return row_weights(self.n_samples, self.scale, self.sample_weight)

    def row_matrix(self, dim: int) -> Array:
        """The data points of positive weight."""
        return self.X[self._weights() > 0]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Each row's phi times its weight."""
        weight = self._weights()
        used = weight > 0
        shape = self.shape_of_rows(self.y[used])
        return interval_arrays(int(used.sum()), coefficient=coefficient * weight[used], **shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_samples} rows x {self.dim}, scale={self.scale!r})"


class ClassifierLoss(LinearModelLoss):
    """``sum_r omega_r phi(y_r x_r^T w)`` for labels of two classes."""

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, scale: Scale = "mean", sample_weight: ArrayLike | None = None
    ) -> None:
        super().__init__(X, y, scale=scale, sample_weight=sample_weight)
        object.__setattr__(self, "y", signed_labels(self.y))

    def row_matrix(self, dim: int) -> Array:
        """``y_r x_r`` for the rows of positive weight."""
        return (self.y[:, None] * self.X)[self._weights() > 0]
