"""Linear equations that the parameters obey."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.rows import RowLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen

__all__ = ["Affine"]

# A residual of the least-squares solution below this share of |A| |w| + |b| is rounding.
CONSISTENT = 1e-12


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Affine(RowLoss):
    """Indicator of ``A w = b``: zero where the equations hold, infinite elsewhere.

    Parameters
    ----------
    A : array_like (k, dim)
        One row an equation.
    b : array_like (k,)
        Right-hand sides.

    Raises
    ------
    TypeError
        If an array holds anything but real numbers.
    ValueError
        If shapes disagree, a value is NaN or infinite, or no w solves all equations.

    Notes
    -----
    Few floating-point numbers solve an equation: a row counts as solved if its residual is no more than its own
    rounding, ``(k + 2) eps |a|^T |w|`` for k coefficients that are not zero, and what the residual may cost is part of
    a certificate's rounding.

    Examples
    --------
    >>> from gtvmin.losses import Affine
    >>> Affine([[1.0, -1.0]], [0.0]).value([2.0, 2.0])
    0.0
    """

    A: Array
    b: Array

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        rows, right = finite_array(A, "A"), finite_array(b, "b")
        if rows.ndim != 2 or not rows.shape[1]:
            raise ValueError(f"A must have shape (equations, parameters), got {rows.shape}")
        if right.shape != (len(rows),):
            raise ValueError(f"b must have one entry per row of A: A has shape {rows.shape}, b {right.shape}")
        solution = np.linalg.lstsq(rows, right)[0]
        residual = np.abs(rows @ solution - right)
        if (residual > CONSISTENT * (np.abs(rows) @ np.abs(solution) + np.abs(right))).any():
            k = int(residual.argmax())
            raise ValueError(f"the equations A w = b contradict each other: row {k} is off by {residual[k]:g} at best")
        object.__setattr__(self, "A", frozen(rows))
        object.__setattr__(self, "b", frozen(right))

    @property
    def dim(self) -> int:
        """Number of columns of A."""
        return int(self.A.shape[1])

    def row_matrix(self, dim: int) -> Array:
        """The equations."""
        return self.A

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Walls on both sides of b."""
        return interval_arrays(len(self.b), low=-np.inf, high=np.inf, target=self.b, coefficient=coefficient)

    def __repr__(self) -> str:
        return f"Affine({len(self.b)} equations x {self.dim})"
