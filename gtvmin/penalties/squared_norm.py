"""The squared Euclidean norm: classical GTV minimisation, graph ridge, Laplacian smoothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from gtvmin.penalties.base import DifferencePenalty
from gtvmin.penalties.consensus import Consensus
from gtvmin.penalties.edge_terms import EdgeBlocks
from gtvmin.solvers.standard_form import Array

__all__ = ["SquaredNorm"]


@dataclass(frozen=True)
class SquaredNorm(DifferencePenalty):
    """``phi(z) = ||z||_2^2``, without a factor one half.

    Notes
    -----
    Equation (3.20) and Section 3.3 of A. Jung, "Federated Learning: From Theory to Practice" (2025).  Models of
    neighbours are pulled together but never fused.

    Examples
    --------
    >>> from gtvmin.penalties import SquaredNorm
    >>> SquaredNorm().value([3.0, 4.0])
    25.0
    """

    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """``a_e ||z||^2`` per edge."""
        return SquaredNormBlocks(strengths, dim)

    def at_infinity(self) -> Consensus:
        """``z = 0``."""
        return Consensus()


class SquaredNormBlocks(EdgeBlocks):
    """``a_e ||z_e||^2`` with ``a_e > 0``."""

    PER_ROW = ("strengths",)
    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"gradient", "prox", "conjugate", "quadratic", "prox_derivative"}
    )

    def __init__(self, strengths: Array, dim: int) -> None:
        self.n_rows, self.dim = len(strengths), dim
        self.strengths = strengths

    @property
    def strong_convexity(self) -> Array:
        """``2 a_e``."""
        return 2.0 * self.strengths

    @property
    def smoothness(self) -> Array:
        """``2 a_e``."""
        return 2.0 * self.strengths

    def value(self, W: Array) -> Array:
        """``a ||z||^2``."""
        return np.asarray(self.strengths * np.einsum("ij,ij->i", W, W))

    def gradient(self, W: Array) -> Array:
        """``2 a z``."""
        return np.asarray(2.0 * self.strengths[:, None] * W)

    def quadratic(self) -> tuple[Array, Array]:
        """``2 a I`` as scalars (n_rows, 1, 1), and zero."""
        return 2.0 * self.strengths[:, None, None], np.zeros((self.n_rows, self.dim))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``v / (1 + 2 a step)``."""
        factor = (1.0 / (1.0 + 2.0 * self.strengths * step))[:, None]
        return lambda V: V * factor

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``v / (1 + step / (2 a))``."""
        factor = (1.0 / (1.0 + step / (2.0 * self.strengths)))[:, None]
        return lambda V: V * factor

    def conjugate_prox_derivative(self, V: Array, step: Array) -> tuple[Array, Array]:
        """The factor ``1 / (1 + step / (2 a))``."""
        factor = (1.0 / (1.0 + step / (2.0 * self.strengths)))[:, None]
        return np.broadcast_to(factor, V.shape).copy(), np.zeros_like(V)

    def conjugate(self, S: Array) -> Array:
        """``||u||^2 / (4 a)``."""
        return np.asarray(np.einsum("ij,ij->i", S, S) / (4.0 * self.strengths))

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``||2 a z - u||^2 / (4 a)``: no cancellation."""
        return self.conjugate(self.gradient(W) - S)

    def rounding(self, W: Array, S: Array) -> Array:
        """First-order effect of the rounding in ``2 a z - u``."""
        size = np.finfo(float).eps * (np.abs(self.gradient(W)) + np.abs(S))
        error = 4.0 * np.sqrt(self.conjugate(size))
        return np.asarray(error * (2.0 * np.sqrt(self.fenchel_young(W, S)) + error))

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum_e a_e ||z_e||^2``."""
        import cvxpy as cp

        return cp.sum_squares(sparse.diags_array(unit * np.sqrt(factor * self.strengths)) @ W)

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``sum_e ||u_e||^2 / (4 a_e)``."""
        import cvxpy as cp

        return cp.sum_squares(sparse.diags_array(0.5 / np.sqrt(self.strengths)) @ S), []
