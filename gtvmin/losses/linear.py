"""Linear functions of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["Linear"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Linear(QuadraticLoss):
    """``c^T w``.

    Parameters
    ----------
    c : array_like (dim,)
        The coefficients, in units of the objective per unit of the parameters.

    Raises
    ------
    TypeError
        If c holds anything but real numbers.
    ValueError
        If c is not a vector, or a value is NaN or infinite.

    Notes
    -----
    Unbounded below by itself: add a loss or a constraint that holds it.  Its conjugate is the indicator of ``{c}``,
    so that the flows into the device must sum to ``-c``: a demand, in the language of network flows.

    Examples
    --------
    >>> from gtvmin.losses import Linear
    >>> Linear([1.0, -2.0]).value([3.0, 4.0])
    -5.0
    """

    c: Array

    def __init__(self, c: ArrayLike) -> None:
        coefficients = finite_array(c, "c")
        if coefficients.ndim != 1 or not coefficients.size:
            raise ValueError(f"c must be a vector with one entry per parameter, got shape {coefficients.shape}")
        object.__setattr__(self, "c", frozen(coefficients))

    @property
    def dim(self) -> int:
        """Number of coefficients."""
        return len(self.c)

    def rows(self, dim: int) -> Rows:
        """No squares."""
        return np.empty((0, dim)), np.empty(0), np.empty(0)

    def affine(self, dim: int) -> tuple[Array, float]:
        """The coefficients; no constant."""
        return self.c, 0.0

    def __repr__(self) -> str:
        return f"Linear(<{self.dim} numbers>)"
