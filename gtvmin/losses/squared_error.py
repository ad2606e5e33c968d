"""Squared error of a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["Scale", "SquaredError", "regression_data", "row_weights"]

Scale = Literal["mean", "sum"]


def regression_data(X: ArrayLike, y: ArrayLike, scale: str) -> tuple[Array, Array]:
    """Check and convert the data points of a linear regression."""
    features = finite_array(X, "X")
    if features.ndim != 2:
        hint = "X[:, None] makes one feature, X[None, :] one data point of it"
        raise ValueError(f"X must have shape (rows, features), got {features.shape}: {hint}")
    labels = finite_array(y, "y")
    if labels.shape == (features.shape[0], 1):
        labels = labels.ravel()
    if labels.shape != (features.shape[0],):
        raise ValueError(f"y must have one entry per row of X: X has shape {features.shape}, y {labels.shape}")
    if features.shape[1] == 0:
        raise ValueError("X has no columns: a loss needs at least one feature")
    if scale not in ("mean", "sum"):
        raise ValueError(f"scale must be 'mean' or 'sum', got {scale!r}")
    return frozen(features), frozen(labels)


def row_weights(m: int, scale: str, sample_weight: Array | None) -> Array:
    """Weight of every data point: ``sample_weight`` or ones, divided by their sum for ``scale="mean"``."""
    if sample_weight is None:
        return np.full(m, 1.0 / m if scale == "mean" and m else 1.0)
    weight = sample_weight
    if weight.shape != (m,):
        raise ValueError(f"sample_weight must have one entry per row of X ({m}), got shape {weight.shape}")
    if (weight < 0).any():
        raise ValueError(f"sample_weight must be >= 0, got {weight.min():g} at position {int(weight.argmin())}")
    total = float(weight.sum())
    if scale == "mean" and m:
        if total == 0:
            raise ValueError("sample_weight is zero for every row: give at least one row a positive weight")
        return weight / total
    return weight


@dataclass(frozen=True, eq=False, repr=False, init=False)
class SquaredError(QuadraticLoss):
    """Squared error ``(1/m) ||y - X w||_2^2`` of a linear model over the m rows of one device.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.  A device without data points (m = 0) has the loss zero.
    y : array_like (m,)
        Labels.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m, ``"sum"`` does not.  There is no factor one half: write
        ``0.5 * SquaredError(X, y, scale="sum")`` for ``1/2 ||y - X w||^2``.

    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0; ``"mean"`` then divides by their sum.

    Raises
    ------
    TypeError
        If X or y hold anything but real numbers.
    ValueError
        If shapes disagree or a value is NaN or infinite.

    Notes
    -----
    Section 2.1 of A. Jung, "Federated Learning: From Theory to Practice" (2025).  Strongly convex exactly if X has
    full column rank.

    Examples
    --------
    >>> from gtvmin.losses import SquaredError
    >>> loss = SquaredError([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> loss.value([1.0, 0.0])
    2.0
    """

    X: Array
    y: Array
    scale: Scale
    sample_weight: Array | None

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, scale: Scale = "mean", sample_weight: ArrayLike | None = None
    ) -> None:
        features, labels = regression_data(X, y, scale)
        weight = None if sample_weight is None else frozen(finite_array(sample_weight, "sample_weight"))
        row_weights(len(labels), scale, weight)
        object.__setattr__(self, "X", features)
        object.__setattr__(self, "y", labels)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "sample_weight", weight)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return int(self.X.shape[0])

    def rows(self, dim: int) -> Rows:
        """Its data points, each with the weight that ``scale`` gives it."""
        return self.X, self.y, row_weights(self.n_samples, self.scale, self.sample_weight)

    @classmethod
    def rows_of_all(cls, losses: Sequence[Self], dim: int) -> tuple[Rows, NDArray[np.int64]]:
        """Data points of several losses; those without weights of their own take no loop."""
        counts = np.array([len(loss.y) for loss in losses])
        means = np.array([loss.scale == "mean" for loss in losses]) & (counts > 0)
        weight = np.repeat(1.0 / np.where(means, counts, 1), counts)
        ends = np.cumsum(counts)
        for k, loss in enumerate(losses):
            if loss.sample_weight is not None:
                weight[ends[k] - counts[k] : ends[k]] = row_weights(loss.n_samples, loss.scale, loss.sample_weight)
        X, y = np.concatenate([loss.X for loss in losses]), np.concatenate([loss.y for loss in losses])
        return (X, y, weight), counts

    def __repr__(self) -> str:
        return f"SquaredError({self.n_samples} rows x {self.dim}, scale={self.scale!r})"
