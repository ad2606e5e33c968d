"""Parameters that are shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.rows import RowLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import positive_number

__all__ = ["Simplex"]


@dataclass(frozen=True)
class Simplex(RowLoss):
    """Indicator of ``w >= 0, sum_j w_j = total``: zero inside, infinite outside.

    Parameters
    ----------
    total : float
        What the parameters sum to; positive.

    Raises
    ------
    ValueError
        If total is not positive.

    Notes
    -----
    Few sums of floating-point numbers are equal to a total: a sum counts as equal if it differs by no more than its
    own rounding, ``(dim + 2) eps sum_j |w_j|``, and what the difference may cost is part of a certificate's rounding.

    Examples
    --------
    >>> from gtvmin.losses import Simplex
    >>> Simplex().value([0.25, 0.75]), Simplex().value([0.5, 0.75])
    (0.0, inf)
    """

    total: float = 1.0

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", positive_number(self.total, "total"))

    @property
    def dim(self) -> None:
        """Any number of parameters."""
        return None

    def row_matrix(self, dim: int) -> Array:
        """One row a coordinate, then their sum."""
        return np.vstack([np.eye(dim), np.ones(dim)])

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Walls at zero, and on both sides of the total."""
        high, target = np.append(np.zeros(dim), np.inf), np.append(np.zeros(dim), self.total)
        return interval_arrays(dim + 1, low=-np.inf, high=high, target=target, coefficient=coefficient)
