"""Quantile regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from gtvmin.losses.linear_model import LinearModelLoss
from gtvmin.losses.squared_error import Scale
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import positive_number

__all__ = ["Quantile"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Quantile(LinearModelLoss):
    """Pinball loss ``(1/m) sum_r max(tau r_r, (tau - 1) r_r)`` with ``r_r = y_r - x_r^T w``, for the quantile tau.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels.
    tau : float
        The quantile, in (0, 1): labels above the prediction cost tau each unit, labels below ``1 - tau``.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    TypeError
        If an argument holds anything but real numbers.
    ValueError
        If tau is not in (0, 1), shapes disagree, or a value is NaN or infinite.

    Notes
    -----
    R. Koenker, G. Bassett, "Regression Quantiles", Econometrica 46 (1978), DOI 10.2307/1913643.  The same as
    scikit-learn's ``mean_pinball_loss`` with ``alpha=tau``.

    Examples
    --------
    >>> from gtvmin.losses import Quantile
    >>> Quantile([[1.0]], [4.0], tau=0.75).value([0.0])
    3.0
    >>> Quantile([[1.0]], [-4.0], tau=0.75).value([0.0])
    1.0
    """

    tau: float

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        *,
        tau: float = 0.5,
        scale: Scale = "mean",
        sample_weight: ArrayLike | None = None,
    ) -> None:
        super().__init__(X, y, scale=scale, sample_weight=sample_weight)
        quantile = positive_number(tau, "tau")
        if quantile >= 1:
            raise ValueError(f"tau must be in (0, 1), got {tau}: the median is tau=0.5")
        object.__setattr__(self, "tau", quantile)

    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Slopes ``-tau`` and ``1 - tau`` around y."""
        return {"low": -self.tau, "high": 1.0 - self.tau, "target": y}

    def __repr__(self) -> str:
        return f"Quantile({self.n_samples} rows x {self.dim}, tau={self.tau:g}, scale={self.scale!r})"
