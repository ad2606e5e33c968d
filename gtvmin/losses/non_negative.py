"""Parameters that are not negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.rows import RowLoss
from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["NonNegative"]


@dataclass(frozen=True)
class NonNegative(RowLoss):
    """Indicator of ``w >= 0``, for any number of parameters: zero inside, infinite outside.

    Notes
    -----
    ``solve`` returns parameters strictly inside, to the last bit.  :class:`~gtvmin.losses.Box` has other bounds.

    Examples
    --------
    >>> from gtvmin.losses import NonNegative
    >>> NonNegative().value([0.0, 2.0]), NonNegative().value([1.0, -1e-300])
    (0.0, inf)
    """

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    @property
    def dim(self) -> None:
        """Any number of parameters."""
        return None

    def row_matrix(self, dim: int) -> Array:
        """One row a coordinate."""
        return np.eye(dim)

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """A wall at zero."""
        return interval_arrays(dim, low=-np.inf, high=0.0, coefficient=coefficient)
