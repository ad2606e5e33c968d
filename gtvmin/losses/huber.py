"""Huber's robust regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from gtvmin.losses.linear_model import LinearModelLoss
from gtvmin.losses.squared_error import Scale
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import positive_number

__all__ = ["Huber"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Huber(LinearModelLoss):
    """Huber loss ``(1/m) sum_r h(y_r - x_r^T w)`` over the m rows of one device.

    ``h(t) = t^2`` for ``|t| <= delta`` and ``delta (2 |t| - delta)`` beyond: the squared error of
    :class:`~gtvmin.losses.SquaredError`, without a factor one half, made linear for outliers.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels.
    delta : float
        Size of the residual, in the unit of y, from which on the loss is linear; positive.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    TypeError
        If an argument holds anything but real numbers.
    ValueError
        If delta is not positive, shapes disagree, or a value is NaN or infinite.

    Notes
    -----
    P. J. Huber, "Robust Estimation of a Location Parameter" (1964), DOI 10.1214/aoms/1177703732, whose rho is half of
    h.  The same as ``cvxpy.huber(t, delta)``.

    Examples
    --------
    >>> from gtvmin.losses import Huber
    >>> Huber([[1.0], [1.0]], [0.5, 10.0], delta=1.0, scale="sum").value([0.0])
    19.25
    """

    delta: float

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        delta: float = 1.0,
        scale: Scale = "mean",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        super().__init__(X, y, scale=scale, sample_weight=sample_weight)
        object.__setattr__(self, "delta", positive_number(delta, "delta"))

    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Curvature 2 around y up to slopes of ``2 delta``."""
        return {"low": -2.0 * self.delta, "high": 2.0 * self.delta, "target": y, "curvature": 0.5}

    def __repr__(self) -> str:
        return f"Huber({self.n_samples} rows x {self.dim}, delta={self.delta:g}, scale={self.scale!r})"
