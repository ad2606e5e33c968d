"""Labels of two classes."""

from __future__ import annotations

import numpy as np

from gtvmin.solvers.standard_form import Array
from gtvmin.validation import frozen

__all__ = ["signed_labels"]


def signed_labels(y: Array) -> Array:
    """Labels {-1, +1}, or {0, 1} mapped to them; ones alone stay +1.

    Raises
    ------
    ValueError
        For any other labels.
    """
    values = set(np.unique(y).tolist())
    if values <= {-1.0, 1.0}:
        return y
    if values <= {0.0, 1.0}:
        return frozen(2.0 * y - 1.0)
    raise ValueError(
        f"y must hold two classes, {{-1, 1}} or {{0, 1}}, got the values {sorted(values)[:5]}: "
        f"y == {max(values):g} makes two of them, Softmax takes more"
    )
