"""Quadratic functions given by their matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["Quadratic"]

# Rounding of a computed matrix, relative to its entries: asymmetry and negative eigenvalues below it are none.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Quadratic(QuadraticLoss):
    """``1/2 w^T Q w + q^T w + c``.

    Parameters
    ----------
    Q : array_like (dim, dim)
        Symmetric and positive semidefinite.
    q : array_like (dim,), optional
        Linear coefficients; default zeros.
    c : float
        Constant.

    Raises
    ------
    TypeError
        If an argument holds anything but real numbers.
    ValueError
        If Q is not square, not symmetric, or has a negative eigenvalue (the message gives the least), if the length of
        q differs, or a value is NaN or infinite.

    Notes
    -----
    With the one half, so that Q is the Hessian.  A squared error is better declared by its rows,
    ``SquaredError(X, y)``: forming ``X^T X`` loses half of the digits of its small singular values.

    Examples
    --------
    >>> from gtvmin.losses import Quadratic
    >>> Quadratic([[2.0, 0.0], [0.0, 4.0]], [1.0, 0.0], c=3.0).value([1.0, 1.0])
    7.0
    """

    Q: Array
    q: Array
    c: float

    def __init__(self, Q: ArrayLike, q: ArrayLike | None = None, c: float = 0.0) -> None:
        matrix = finite_array(Q, "Q")
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"Q must be a square matrix, got shape {matrix.shape}")
        dim = len(matrix)
        linear = np.zeros(dim) if q is None else finite_array(q, "q")
        if linear.shape != (dim,):
            raise ValueError(f"q must have one entry per row of Q ({dim}), got shape {linear.shape}")
        constant = finite_array(c, "c")
        if constant.ndim:
            raise ValueError(f"c must be one number, got shape {constant.shape}")
        asymmetry = np.abs(matrix - matrix.T)
        if (asymmetry > ROUNDING * np.abs(matrix).max()).any():
            i, j = np.unravel_index(asymmetry.argmax(), asymmetry.shape)
            raise ValueError(
                f"Q must be symmetric, but Q[{i}, {j}] = {matrix[i, j]:g} and Q[{j}, {i}] = {matrix[j, i]:g}: "
                "(Q + Q.T) / 2 declares the same function"
            )
        _, values, _ = _scaled_spectrum(matrix)
        if values[0] < -ROUNDING * dim:
            raise ValueError(
                f"Q must be positive semidefinite, but its least eigenvalue is {np.linalg.eigvalsh(matrix)[0]:g}: "
                "the loss would not be convex"
            )
        object.__setattr__(self, "Q", frozen(matrix))
        object.__setattr__(self, "q", frozen(linear))
        object.__setattr__(self, "c", float(constant))

    @property
    def dim(self) -> int:
        """Number of rows of Q."""
        return len(self.Q)

    def rows(self, dim: int) -> Rows:
        """Rows of a factor: ``1/2 w^T Q w = sum_k (lambda_k / 2) (v_k^T w)^2``."""
        scale, values, vectors = _scaled_spectrum(self.Q)
        used = values > ROUNDING * dim * values[-1]
        return vectors.T[used] / scale, np.zeros(int(used.sum())), 0.5 * values[used]

    def affine(self, dim: int) -> tuple[Array, float]:
        """Q and c."""
        return self.q, self.c

    def __repr__(self) -> str:
        return f"Quadratic({self.dim} x {self.dim})"


def _scaled_spectrum(Q: Array) -> tuple[Array, Array, Array]:
    """Scales s, eigenvalues and eigenvectors of ``diag(s) Q diag(s)``, of unit diagonal: units do not matter then."""
    diagonal = np.diag(Q)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(0.5 * (Q + Q.T) * scale[:, None] * scale)
    return scale, values, vectors
