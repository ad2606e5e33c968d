"""The squared hinge loss of support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtvmin.losses.linear_model import ClassifierLoss
from gtvmin.solvers.standard_form import Array

__all__ = ["SquaredHinge"]


class SquaredHinge(ClassifierLoss):
    """Squared hinge loss ``(1/m) sum_r max(0, 1 - y_r x_r^T w)^2`` over the m rows of one device.

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
    The L2-loss of R.-E. Fan et al., "LIBLINEAR: A Library for Large Linear Classification", JMLR 9 (2008).
    Smooth, unlike :class:`~gtvmin.losses.Hinge`, and not strongly convex.

    Examples
    --------
    >>> from gtvmin.losses import SquaredHinge
    >>> SquaredHinge([[1.0], [3.0]], [0, 1]).value([0.5])
    1.125
    """

    def shape_of_rows(self, y: Array) -> dict[str, Any]:
        """Curvature 2 below a margin of one."""
        return {"low": -np.inf, "high": 0.0, "target": 1.0, "curvature": 0.5}
