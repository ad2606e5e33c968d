"""Linear systems ``(Q + sum_k K_k^T diag(c_k) K_k) W = b + R`` of a form: one factor for all parameters, or blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from .linear_maps import EdgeDifference
from .standard_form import Array, Duals, StandardForm, dot

if TYPE_CHECKING:
    from .laplacian_factor import LaplacianFactor, LaplacianPattern

__all__ = ["RowSystem", "isotropic_curvature"]

# A sparse factor of a system this small is cheap even where it fills in.
DIRECT_LIMIT = 3000
# A pull towards the last solution, relative to the diagonal: where nothing pins the parameters down they stay.
SHIFT = 1e-9
CG_TOLERANCE = 1e-3
CG_FLOOR = 1e-15
CG_LIMIT = 200


def isotropic_curvature(form: StandardForm) -> Array | None:
    """Numbers ``q_i >= 0`` with ``Q_i = q_i I``, shape (n_nodes,); None for other losses."""
    Q = form.quadratic.quadratic()[0]
    curvature = Q[:, 0, 0].copy()
    return curvature if np.array_equal(Q, curvature[:, None, None] * np.eye(form.dim)) else None


class RowSystem(ABC):
    """``(Q + sum_k K_k^T diag(c_k) K_k) W = b + R``, with penalties c_k > 0, one for each row of a term."""

    penalties: Duals
    curved = False
    """Whether all losses are known to be strongly convex."""

    def __init__(self, form: StandardForm) -> None:
        self.linear = form.quadratic.quadratic()[1]

    @staticmethod
    def of(form: StandardForm) -> RowSystem:
        """The cheapest that fits the form."""
        from .laplacian_factor import LaplacianPattern, factor_is_cheap, thin_pattern

        curvature = isotropic_curvature(form)
        maps = [term.map for term in form.terms]
        edges = [map for map in maps if isinstance(map, EdgeDifference)]
        if curvature is not None and len(edges) == len(maps):
            if len(edges) == 1:
                pattern = thin_pattern(edges[0])
            else:
                tail, head = (np.concatenate([np.empty(0, np.int64), *(map.ends[k] for map in edges)]) for k in (0, 1))
                thin = factor_is_cheap(tail, head, form.n_nodes)
                pattern = LaplacianPattern(tail, head, form.n_nodes) if thin else None
            if pattern is not None:
                return _ScalarSystem(form, curvature, pattern)
        return _DirectSystem(form) if form.n_nodes * form.dim <= DIRECT_LIMIT else _IterativeSystem(form)

    def set_penalties(self, penalties: Duals) -> None:
        """Prepare for other penalties."""
        self.penalties = penalties
        self._prepare()

    @abstractmethod
    def _prepare(self) -> None:
        """Factor the matrix for the penalties."""

    @abstractmethod
    def solve(self, right: Array, last: Array) -> Array:
        """Solution for ``R = right``, near ``last`` where the system leaves it open."""


class _ScalarSystem(RowSystem):
    """``Q_i = q_i I`` and differences across edges: a Laplacian system, the same for each parameter."""

    factor: LaplacianFactor

    def __init__(self, form: StandardForm, curvature: Array, pattern: LaplacianPattern) -> None:
        super().__init__(form)
        self.curvature, self.pattern, self.curved = curvature, pattern, bool((curvature > 0).all())
        self.shift = np.zeros(form.n_nodes)

    def _prepare(self) -> None:
        conductance = np.concatenate([np.empty(0), *self.penalties])
        pattern, n, loose = self.pattern, len(self.curvature), self.curvature <= 0
        if loose.any():
            degree = np.bincount(pattern.tail, conductance, n) + np.bincount(pattern.head, conductance, n)
            self.shift = np.where(loose, SHIFT * np.where(degree > 0, degree, 1.0), 0.0)
        self.factor = pattern.factor(self.curvature + self.shift, conductance)

    def solve(self, right: Array, last: Array) -> Array:
        full = self.linear + right
        if self.shift.any():
            full += self.shift[:, None] * last
        return self.factor.solve(full)


class _BlockSystem(RowSystem):
    """Any blocks Q_i and any maps."""

    def __init__(self, form: StandardForm) -> None:
        super().__init__(form)
        self.form = form
        self.Q = form.quadratic.quadratic()[0]
        self.shift = np.zeros((form.n_nodes, form.dim))

    def _diagonal(self) -> Array:
        total: Array = np.einsum("ijj->ij", self.Q).copy()
        for term, penalty in zip(self.form.terms, self.penalties, strict=True):
            squares = term.map.matrix().power(2)
            total += (squares.T @ np.repeat(penalty, term.map.width)).reshape(total.shape)
        return total

    def _set_shift(self) -> None:
        diagonal = self._diagonal()
        self.shift = SHIFT * np.where(diagonal > 0, diagonal, 1.0)


class _DirectSystem(_BlockSystem):
    """A sparse factor of the whole matrix."""

    _factor: Callable[[Array], Array]

    def _prepare(self) -> None:
        self._set_shift()
        n, dim = self.shift.shape
        M = sparse.bsr_array((self.Q, np.arange(n), np.arange(n + 1)), shape=(n * dim, n * dim)).tocsr()
        for term, penalty in zip(self.form.terms, self.penalties, strict=True):
            K = term.map.matrix()
            M = M + K.T @ sparse.diags_array(np.repeat(penalty, term.map.width)) @ K
        self._factor = splu((M + sparse.diags_array(self.shift.ravel())).tocsc(), permc_spec="MMD_AT_PLUS_A").solve

    def solve(self, right: Array, last: Array) -> Array:
        full = self.linear + right + self.shift * last
        return np.asarray(self._factor(full.ravel()).reshape(full.shape))


class _IterativeSystem(_BlockSystem):
    """Conjugate gradients from the last solution, with the inverses of the devices' diagonal blocks."""

    _inverses: Array

    def _prepare(self) -> None:
        self._set_shift()
        diagonal = np.einsum("ijj->ij", self.Q)
        blocks = self.Q + (self._diagonal() - diagonal + self.shift)[:, :, None] * np.eye(self.form.dim)
        self._inverses = np.asarray(np.linalg.inv(blocks))

    def _multiply(self, V: Array) -> Array:
        rows = tuple(p[:, None] * term.map.apply(V) for term, p in zip(self.form.terms, self.penalties, strict=True))
        return np.asarray(np.matmul(self.Q, V[:, :, None])[:, :, 0] + self.form.adjoint(rows) + self.shift * V)

    def solve(self, right: Array, last: Array) -> Array:
        W, full = last.copy(), self.linear + right + self.shift * last
        R = full - self._multiply(W)
        direction = scaled = np.matmul(self._inverses, R[:, :, None])[:, :, 0]
        product = dot(R, scaled)
        target = max(CG_TOLERANCE**2 * product, CG_FLOOR**2 * dot(full, full))
        for _ in range(CG_LIMIT):
            if product <= target:
                break
            image = self._multiply(direction)
            curvature = dot(direction, image)
            if curvature <= 0:
                break
            W = W + product / curvature * direction
            R = R - product / curvature * image
            scaled = np.matmul(self._inverses, R[:, :, None])[:, :, 0]
            previous, product = product, dot(R, scaled)
            direction = scaled + product / previous * direction
        return W
