"""Factors that say how strongly each coordinate is penalised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["penalty_factors"]


def penalty_factors(penalise: ArrayLike | None) -> Array | None:
    """Check the factors ``c_j >= 0`` of a regulariser; None stands for ones, of any number.

    Raises
    ------
    ValueError
        If they are not a vector, or one is negative, NaN or infinite.
    """
    if penalise is None:
        return None
    factors = finite_array(penalise, "penalise")
    if factors.ndim != 1 or not factors.size:
        raise ValueError(f"penalise must be a vector with one factor per parameter, got shape {np.shape(penalise)}")
    if (factors < 0).any():
        raise ValueError(f"penalise must be >= 0, got {factors.min():g} at position {factors.argmin()}")
    return frozen(factors)
