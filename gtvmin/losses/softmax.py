"""Multinomial logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.log_sum_exp import LogSumExpBlocks
from gtvmin.losses.rows import ClassLoss
from gtvmin.losses.squared_error import Scale, regression_data, row_weights
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen, positive_integer

__all__ = ["Softmax"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Softmax(ClassLoss):
    """Multinomial logistic loss ``(1/m) sum_r log(sum_k exp(x_r^T w_k)) - x_r^T w_{y_r}`` over the m rows of a device.

    Parameters
    ----------
    X : array_like (m, features)
        Features, one row a data point.
    y : array_like (m,)
        Classes 0, ..., C - 1 of the data points.
    classes : int, optional
        The number C of classes.  All devices need the same: give it wherever a device may not have seen the last
        class.  Default: the largest label and one.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    ValueError
        If a label is no integer from 0 to C - 1, there are fewer than two classes, shapes disagree, or a value is NaN
        or infinite.
    TypeError
        If an array holds anything but real numbers: number other labels first, over all devices, with
        ``numpy.unique(labels, return_inverse=True)``.

    Notes
    -----
    A device has ``features * C`` parameters: ``w.reshape(features, C)`` has the weights of class k in column k.  Equal
    changes of all columns change nothing, so that the minimiser is not unique without a regulariser.

    G. Tutz, "Regression for Categorical Data" (2011), Section 8.1, with symmetric parameters.

    Examples
    --------
    >>> from gtvmin.losses import Softmax
    >>> loss = Softmax([[1.0], [1.0]], [0, 2], classes=3)
    >>> loss.dim, round(loss.value([0.0, 0.0, 0.0]), 6)
    (3, 1.098612)
    """

    X: Array
    y: Array
    n_classes: int
    scale: Scale
    sample_weight: Array | None

    function: ClassVar[type[BlockFunction]] = LogSumExpBlocks

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        classes: int | None = None,
        scale: Scale = "mean",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        features, labels = regression_data(X, y, scale)
        if classes is None and not len(labels):
            raise ValueError("classes must be given where there are no rows to count them by")
        count = int(labels.max()) + 1 if classes is None else positive_integer(classes, "classes")
        if count < 2:
            raise ValueError(f"classes must be at least 2, got {count}: give the number of classes of all devices")
        unknown = np.flatnonzero((labels != np.floor(labels)) | (labels < 0) | (labels >= count))
        if len(unknown):
            raise ValueError(
                f"y has the label {labels[unknown[0]]:g} at position {int(unknown[0])}: "
                f"with classes={count} labels are the integers 0 to {count - 1}"
            )
        weight = None if sample_weight is None else frozen(finite_array(sample_weight, "sample_weight"))
        row_weights(len(labels), scale, weight)
        values = {"X": features, "y": labels, "n_classes": count, "scale": scale, "sample_weight": weight}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.n_classes

    @property
    def dim(self) -> int:
        """Number of features times number of classes."""
        return int(self.X.shape[1]) * self.n_classes

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return int(self.X.shape[0])

    def arguments(self) -> dict[str, Any]:
        """Arguments that declare the same loss again."""
        arguments = super().arguments()
        arguments["classes"] = arguments.pop("n_classes")
        return arguments

    def _weights(self) -> Array:
        return row_weights(self.n_samples, self.scale, self.sample_weight)

    def row_matrix(self, dim: int) -> Array:
        """``x_r`` for the rows of positive weight."""
        return self.X[self._weights() > 0]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Weights and labels."""
        weight = self._weights()
        used = weight > 0
        return {"weight": coefficient * weight[used], "indicator": np.eye(self.n_classes)[self.y[used].astype(int)]}

    def __repr__(self) -> str:
        return f"Softmax({self.n_samples} rows x {self.dim}, {self.n_classes} classes, scale={self.scale!r})"
