"""The hinge loss of support vector machines."""

from __future__ import annotations

from typing import Any

from gtvmin.losses.linear_model import ClassifierLoss
from gtvmin.solvers.standard_form import Array

__all__ = ["Hinge"]


class Hinge(ClassifierLoss):
    """Hinge loss ``(1/m) sum_r max(0, 1 - y_r x_r^T w)`` over the m rows of one device.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels of two classes: {-1, +1}, {0, 1} or booleans; mapped to {-1, +1} once.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    TypeError
        If an array holds anything but real numbers.
    ValueError
        If the labels are others, shapes disagree, or a value is NaN or infinite.

    Notes
    -----
    C. Cortes, V. Vapnik, "Support-Vector Networks" (1995), DOI 10.1007/BF00994018; a support vector machine adds
    ``lam ||w||^2``, here ``lam * SquaredDistance(0)``.

    Examples
    --------
    >>> from gtvmin.losses import Hinge
    >>> Hinge([[1.0], [3.0]], [0, 1]).value([0.5])
    0.75
    """

    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Slope -1 below a margin of one."""
        return {"low": -1.0, "high": 0.0, "target": 1.0}
