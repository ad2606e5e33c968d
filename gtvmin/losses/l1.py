"""The l1 norm of the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.factors import penalty_factors
from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.rows import RowLoss
from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["L1"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class L1(RowLoss):
    """``sum_j c_j |w_j|``: a regulariser that sets parameters to zero.

    Its strength is a factor: ``SquaredError(X, y) + 0.1 * L1()``.

    Parameters
    ----------
    penalise : array_like (dim,), optional
        The factors ``c_j >= 0``; a zero leaves a coordinate (an intercept, say) free.  Default: all ones, for any
        number of parameters.

    Raises
    ------
    ValueError
        If a factor is negative, NaN or infinite.

    Notes
    -----
    R. Tibshirani, "Regression Shrinkage and Selection via the Lasso" (1996), DOI 10.1111/j.2517-6161.1996.tb02080.x.

    Examples
    --------
    >>> from gtvmin.losses import L1
    >>> (0.1 * L1()).value([3.0, -4.0])
    0.7000000000000001
    """

    penalise: Array | None

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    def __init__(self, penalise: ArrayLike | None = None) -> None:
        object.__setattr__(self, "penalise", penalty_factors(penalise))

    @property
    def dim(self) -> int | None:
        """Number of factors; None fits any."""
        return None if self.penalise is None else len(self.penalise)

    def _factors(self, dim: int) -> Array:
        return np.ones(dim) if self.penalise is None else self.penalise

    def row_matrix(self, dim: int) -> Array:
        """One row a penalised coordinate."""
        return np.eye(dim)[self._factors(dim) > 0]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Slopes of minus and plus the factor."""
        factors = self._factors(dim)
        factors = factors[factors > 0]
        return interval_arrays(len(factors), low=-factors, high=factors, coefficient=coefficient)

    def __repr__(self) -> str:
        return "L1()" if self.penalise is None else f"L1(penalise={self.penalise.tolist()})"
