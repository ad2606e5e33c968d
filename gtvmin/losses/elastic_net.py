"""The elastic net regulariser."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from gtvmin.losses.base import Loss
from gtvmin.losses.factors import penalty_factors
from gtvmin.losses.l1 import L1
from gtvmin.losses.squared_distance import SquaredDistance
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import nonnegative_number

__all__ = ["ElasticNet"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ElasticNet(Loss):
    """``l1 sum_j c_j |w_j| + l2 sum_j c_j w_j^2``, without a factor one half.

    Parameters
    ----------
    l1, l2 : float
        Strengths, at least 0.
    penalise : array_like (dim,), optional
        The factors ``c_j >= 0``; a zero leaves a coordinate (an intercept, say) free.  Default: all ones, for any
        number of parameters.

    Raises
    ------
    ValueError
        If a strength or a factor is negative, NaN or infinite.

    Notes
    -----
    H. Zou, T. Hastie, "Regularization and Variable Selection via the Elastic Net" (2005), DOI
    10.1111/j.1467-9868.2005.00503.x.  scikit-learn's ``alpha`` and ``l1_ratio`` are
    ``l1 = alpha l1_ratio`` and ``l2 = alpha (1 - l1_ratio) / 2``, beside half of ``SquaredError``.

    Examples
    --------
    >>> from gtvmin.losses import ElasticNet
    >>> ElasticNet(l1=1.0, l2=0.5).value([3.0, -4.0])
    19.5
    """

    l1: float
    l2: float
    penalise: Array | None

    def __init__(self, l1: float, l2: float, *, penalise: ArrayLike | None = None) -> None:
        object.__setattr__(self, "l1", nonnegative_number(l1, "l1"))
        object.__setattr__(self, "l2", nonnegative_number(l2, "l2"))
        object.__setattr__(self, "penalise", penalty_factors(penalise))

    @property
    def dim(self) -> int | None:
        """Number of factors; None fits any."""
        return None if self.penalise is None else len(self.penalise)

    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """An l1 norm and a squared norm, where their strength is positive."""
        parts = ((self.l1, L1(self.penalise)), (self.l2, SquaredDistance(0.0, penalise=self.penalise)))
        return tuple((strength, part) for strength, part in parts if strength > 0)

    def __repr__(self) -> str:
        factors = "" if self.penalise is None else f", penalise={self.penalise.tolist()}"
        return f"ElasticNet(l1={self.l1:g}, l2={self.l2:g}{factors})"
