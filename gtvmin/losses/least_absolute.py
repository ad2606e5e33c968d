"""Least absolute deviations."""

from __future__ import annotations

from typing import Any

from gtvmin.losses.linear_model import LinearModelLoss
from gtvmin.solvers.standard_form import Array

__all__ = ["LeastAbsolute"]


class LeastAbsolute(LinearModelLoss):
    """Absolute error ``(1/m) sum_r |y_r - x_r^T w|`` over the m rows of one device.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    TypeError
        If an array holds anything but real numbers.
    ValueError
        If shapes disagree or a value is NaN or infinite.

    Notes
    -----
    The conditional median: :class:`~gtvmin.losses.Quantile` with tau = 1/2, times two.  Not smooth, and not strongly
    convex.

    Examples
    --------
    >>> from gtvmin.losses import LeastAbsolute
    >>> LeastAbsolute([[1.0], [1.0]], [0.0, 3.0]).value([1.0])
    1.5
    """

    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Slopes -1 and 1 around y."""
        return {"low": -1.0, "high": 1.0, "target": y}
