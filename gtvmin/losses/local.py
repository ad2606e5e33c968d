"""Whole losses of all devices: quadratic part and rows in one block function."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.solvers.standard_form import Array, BlockFunction, Term

__all__ = ["LocalBlocks"]


class LocalBlocks(BlockFunction):
    """``f_i(w) = q_i(w) + sum_r phi_r((K w)_r)`` over the rows of device i.

    Parameters
    ----------
    quadratic : QuadraticBlocks
        The least-squares and linear part.
    rows : tuple of Term
        The rest.
    """

    def __init__(self, quadratic: QuadraticBlocks, rows: tuple[Term, ...]) -> None:
        self.quadratic_part, self.rows = quadratic, rows
        self.n_rows, self.dim = quadratic.n_rows, quadratic.dim
        if all("gradient" in term.function.capabilities for term in rows):
            self.capabilities = frozenset({"gradient"})  # type: ignore[misc]

    @property
    def strong_convexity(self) -> Array:
        """That of the quadratic part."""
        return self.quadratic_part.strong_convexity

    @property
    def smoothness(self) -> Array:
        """Largest eigenvalue of the quadratic part plus the rows' curvatures times their squared sizes."""
        return np.asarray(
            self.quadratic_part.smoothness + sum(term.map.at_nodes(term.function.smoothness) for term in self.rows)
        )

    def value(self, W: Array) -> Array:
        """Sum of the parts."""
        total = self.quadratic_part.value(W)
        for term in self.rows:
            total = total + np.bincount(term.map.ends[0], term.function.value(term.map.apply(W)), self.n_rows)
        return np.asarray(total)

    def gradient(self, W: Array) -> Array:
        """Sum of the parts, where all are smooth."""
        total = self.quadratic_part.gradient(W)
        for term in self.rows:
            total = total + term.map.adjoint(term.function.gradient(term.map.apply(W)))
        return np.asarray(total)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Sum of the parts."""
        import cvxpy as cp

        total = self.quadratic_part.to_cvxpy(W, unit, factor)
        for term in self.rows:
            shape = (term.map.n_rows, term.map.width)
            Z = cp.reshape(term.map.matrix() @ cp.vec(W, order="C"), shape, order="C")
            total += term.function.to_cvxpy(Z, unit, factor)
        return total
