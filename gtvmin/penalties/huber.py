"""The Huber penalty: quadratic for small differences, the norm for large ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from gtvmin.penalties.base import DifferencePenalty
from gtvmin.penalties.consensus import Consensus
from gtvmin.penalties.edge_terms import EdgeBlocks
from gtvmin.penalties.norm import NormBlocks, cvxpy_row_norm, project_rows, row_norm
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import positive_number

__all__ = ["HuberBlocks", "HuberPenalty"]

EPS = float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class HuberPenalty(DifferencePenalty):
    """``phi(z) = ||z||_2^2 / (2 delta)`` where ``||z||_2 <= delta``, and ``||z||_2 - delta / 2`` beyond.

    A smooth network Lasso: neighbours are drawn together, outliers among the edges are not pulled harder than the norm
    would, but no models fuse.

    Parameters
    ----------
    delta : float
        Where the square ends, > 0.

    Raises
    ------
    TypeError, ValueError
        If delta is not a positive number.

    Notes
    -----
    The Moreau envelope of the norm (P. J. Huber, 1964, DOI 10.1214/aoms/1177703732, for numbers).  The conjugate is
    ``delta ||u||^2 / 2`` on the unit ball.

    Examples
    --------
    >>> from gtvmin.penalties import HuberPenalty
    >>> HuberPenalty(1.0).value([0.3, 0.4]), HuberPenalty(1.0).value([3.0, 4.0])
    (0.125, 4.5)
    """

    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", positive_number(self.delta, "delta"))

    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """``a_e phi`` per edge."""
        return HuberBlocks(strengths, np.full(len(strengths), self.delta), dim)

    def at_infinity(self) -> Consensus:
        """``z = 0``."""
        return Consensus()


class HuberBlocks(EdgeBlocks):
    """``a_e phi_e(z_e)``, with ``a_e`` the capacity and ``delta_e`` the knee of edge e."""

    PER_ROW = ("capacity", "knee")
    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "prox", "conjugate", "prox_derivative"})

    def __init__(self, capacity: Array, knee: Array, dim: int) -> None:
        self.n_rows, self.dim = len(capacity), dim
        self.capacity, self.knee = capacity, knee

    @property
    def smoothness(self) -> Array:
        """``a / delta``."""
        return np.asarray(self.capacity / self.knee)

    def value(self, W: Array) -> Array:
        """Square or norm."""
        size = row_norm(W, 2.0)
        inside = 0.5 * np.minimum(size, self.knee) ** 2 / self.knee
        return np.asarray(self.capacity * (inside + np.maximum(size - self.knee, 0.0)))

    def gradient(self, W: Array) -> Array:
        """``a z / max(delta, ||z||)``."""
        return np.asarray((self.capacity / np.maximum(self.knee, row_norm(W, 2.0)))[:, None] * W)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``v`` times the larger of ``delta / (delta + a step)`` and ``1 - a step / ||v||``."""
        radius = self.capacity * step
        near = self.knee / (self.knee + radius)

        def prox(V: Array) -> Array:
            size = row_norm(V, 2.0)
            far = 1.0 - radius / np.where(size > radius, size, radius)
            return np.asarray(np.maximum(near, far)[:, None] * V)

        return prox

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Shrink by ``a / (a + step delta)``, then project onto the ball."""
        shrink = (self.capacity / (self.capacity + step * self.knee))[:, None]
        return lambda V: project_rows(shrink * V, self.capacity, 2.0)

    def conjugate_prox_derivative(self, V: Array, step: Array) -> tuple[Array, Array]:
        """That of the projection, times the factor before it."""
        shrink = (self.capacity / (self.capacity + step * self.knee))[:, None]
        ball = NormBlocks(self.capacity, self.dim, 2.0)
        diagonal, normal = ball.conjugate_prox_derivative(shrink * V, step)
        return shrink * diagonal, np.sqrt(shrink) * normal

    def conjugate(self, S: Array) -> Array:
        """``delta ||u||^2 / (2 a)`` in the ball of radius a, ``inf`` outside."""
        size = row_norm(S, 2.0)
        return np.where(size <= self.capacity, 0.5 * self.knee * size**2 / self.capacity, np.inf)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``||g - u||^2 delta / (2 a) + (||z|| - delta)_+ (a - <u, n>)`` with g the gradient and n the direction."""
        size, gradient = row_norm(W, 2.0), self.gradient(W)
        beyond = np.maximum(size - self.knee, 0.0)
        along = np.einsum("ij,ij->i", S, W) / np.where(size > 0, size, 1.0)
        off = row_norm(gradient - S, 2.0)
        value = 0.5 * self.knee * off**2 / self.capacity + beyond * np.maximum(self.capacity - along, 0.0)
        return np.where(row_norm(S, 2.0) <= self.capacity, value, np.inf)

    def rounding(self, W: Array, S: Array) -> Array:
        """First-order effect of the rounding in ``g - u`` and in ``a - <u, n>``."""
        size = row_norm(W, 2.0)
        error = (self.dim + 4) * EPS * (row_norm(self.gradient(W), 2.0) + row_norm(S, 2.0))
        off = row_norm(self.gradient(W) - S, 2.0)
        near = self.knee / self.capacity * error * (off + error)
        return np.asarray(near + 2.0 * (self.dim + 4) * EPS * np.maximum(size - self.knee, 0.0) * self.capacity)

    def dual_gauge(self, S: Array) -> Array:
        """``||u|| / a``."""
        return np.asarray(row_norm(S, 2.0) / self.capacity)

    def project_domain(self, S: Array) -> Array:
        """Projection onto the ball."""
        return project_rows(S, self.capacity, 2.0)

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """That of the norm's ball."""
        return NormBlocks(self.capacity, self.dim, 2.0).dual_metric(S, floor)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum_e a_e phi_e(z_e)``, by the Huber function of the norms."""
        import cvxpy as cp

        size = cp.multiply(unit / self.knee, cvxpy_row_norm(W, 2.0))
        return (0.5 * factor * self.capacity * self.knee) @ cp.huber(size, 1.0)

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``sum_e delta ||u_e||^2 / (2 a_e)`` in the balls."""
        import cvxpy as cp

        square = cp.sum_squares(sparse.diags_array(np.sqrt(0.5 * self.knee / self.capacity)) @ S)
        return square, [cvxpy_row_norm(S, 2.0) <= self.capacity]
