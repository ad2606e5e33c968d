"""Losses that are sums of weighted squares of affine functions: their prox and conjugates.

Both go through factors of the rows: Q_i itself has lost half of the digits of the small numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.row_spaces import RowSpaces, row_spaces
from gtvmin.losses.squared_rows import SquaredRows
from gtvmin.solvers.standard_form import Array

__all__ = ["QuadraticBlocks"]

EPS = float(np.finfo(float).eps)
SPAN_TOLERANCE = 1e-10
# Q_i itself serves for proximal maps if the units of its columns differ by no more than this factor (its logarithm).
LOG_UNITS = float(np.log(1e3))


class QuadraticBlocks(SquaredRows):
    """Stack of quadratic losses."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "prox", "conjugate", "quadratic"})

    @cached_property
    def _factors(self) -> list[tuple[NDArray[np.int64], Array]]:
        """Devices with as many rows, and for each its rows, targets last, or a triangle with the same squares."""
        root = np.sqrt(2.0 * self.weight)
        data = np.column_stack([root[:, None] * self.X, root * self.y])
        factors = []
        for devices, rows in self._equal_counts(data):
            if rows.shape[1] >= self.dim:
                rows = np.asarray(np.linalg.qr(rows, mode="r"))[:, : self.dim]  # numpy's stubs say a tuple
            factors.append((np.arange(self.n_rows)[devices], rows))
        return factors

    @cached_property
    def _spaces(self) -> RowSpaces:
        return row_spaces(((devices, rows[:, :, : self.dim]) for devices, rows in self._factors), self._scale)

    @cached_property
    def _rotated(self) -> tuple[Array, Array, Array]:
        """Singular values, right singular vectors (as rows) and targets that make ``f_i`` a sum of ``dim`` squares.

        ``f_i(w) = sum_k (sigma_ik v_ik^T w - z_ik)^2 / 2 + constant``. The numbers come from the rows, since forming
        Q_i would lose half of the digits of the small ones; those beyond the rank are zero.
        """
        triangles = np.zeros((self.n_rows, self.dim, self.dim + 1))
        for devices, rows in self._factors:
            triangles[devices, : rows.shape[1]] = rows
        left, sigma, right = np.linalg.svd(triangles[:, :, : self.dim])
        targets = np.einsum("ijk,ij->ik", left, triangles[:, :, self.dim])
        inside = np.arange(self.dim) < self._spaces.rank[:, None]
        return np.where(inside, sigma, 0.0), right, targets

    @cached_property
    def _scale(self) -> Array:
        """``1 / sqrt(Q_ijj)``."""
        diagonal = np.einsum("ijj->ij", self.gram)
        return np.asarray(1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))

    @cached_property
    def full_span(self) -> NDArray[np.bool_]:
        """Whether Q_i has full rank."""
        return np.asarray(self._spaces.rank == self.dim)

    @cached_property
    def _eigenvalue_range(self) -> Array:
        return np.asarray(np.linalg.eigvalsh(self.gram)[:, [0, -1]], dtype=float)

    @property
    def strong_convexity(self) -> Array:
        """Least eigenvalue of Q_i, less what rounding may have added to it."""
        if not self.full_span.any():
            return np.zeros(self.n_rows)
        low, high = self._eigenvalue_range.T
        return np.where(self.full_span, np.maximum(low - 4 * self.dim * EPS * high, 0.0), 0.0)

    @property
    def smoothness(self) -> Array:
        """Largest eigenvalue of Q_i."""
        return self._eigenvalue_range[:, 1]

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``(Q_i + I/step_i)^{-1} (b_i + v_i/step_i)`` with the inverses computed once."""
        from gtvmin.solvers.operators import multiply_blocks

        matrix, offset = self.affine_prox(step)
        return lambda V: multiply_blocks(matrix, V, offset)

    def affine_prox(self, step: Array) -> tuple[Array, Array]:
        """``(I + step_i Q_i)^{-1}``, and that times ``step_i b_i``."""
        from gtvmin.solvers.operators import invert_blocks

        sure = bool((self._spaces.sure & self.full_span).all())
        if sure and float(np.ptp(np.log(self._scale), axis=1).max(initial=0.0)) < LOG_UNITS:
            matrix = invert_blocks(np.eye(self.dim) + step[:, None, None] * self.gram)
            return matrix, np.asarray((matrix @ (step[:, None] * self.linear)[:, :, None])[:, :, 0])
        sigma, right, targets = self._rotated
        shrink = 1.0 / (1.0 + step[:, None] * sigma**2)
        matrix = np.swapaxes(right * shrink[:, :, None], 1, 2) @ right
        offset = np.einsum("ikj,ik->ij", right, step[:, None] * sigma * shrink * targets)
        offset -= np.einsum("ijk,ik->ij", matrix, step[:, None] * self.tilt)
        return matrix, offset

    def metric_roots(self, step: Array) -> Array:
        """Matrices ``R_i`` with ``R_i^T R_i = (Q_i + I/step_i)^{-1}`` (n_rows, dim, dim); a step may be infinite."""
        sigma, right, _ = self._rotated
        return np.asarray(right / np.sqrt(1.0 / step[:, None] + sigma**2)[:, :, None])

    def root_gradient(self, devices: NDArray[np.int64], W: Array, roots: Array) -> Array:
        """``R_i`` times the gradient, for some devices: where Q_i is zero no rounding of large residuals is left."""
        sigma, right, targets = (part[devices] for part in self._rotated)
        along = sigma * (sigma * np.einsum("ikj,ij->ik", right, W) - targets)
        length = np.linalg.norm(roots, axis=2)  # they are rotated as the squares are
        return np.asarray(length * along + np.einsum("ikj,ij->ik", roots, self.tilt[devices]))

    def _squared_dual_norm(self, R: Array) -> Array:
        """``r_i^T Q_i^+ r_i`` for rows in the range of Q_i."""
        rotated = (self._spaces.root @ (self._scale * R)[:, :, None])[:, :, 0]
        return np.asarray(np.einsum("ij,ij->i", rotated, rotated))

    @cached_property
    def _partial(self) -> NDArray[np.int64] | slice:
        """Devices whose rows see some of the parameters' space, but not all of it."""
        partial = (self._spaces.rank > 0) & ~self.full_span
        return slice(None) if partial.all() else np.flatnonzero(partial)

    def _onto_range(self, V: Array) -> Array:
        """Projection of rows of these devices onto the range of Q_i.

        Through a basis of the range: its rounding lies in the range too, however little of the row does.
        """
        basis = self._spaces.basis
        return np.asarray(((V[:, None, :] @ basis) @ np.swapaxes(basis, 1, 2))[:, 0])

    def complement(self, V: Array) -> Array:
        """Component of every row in the null space of Q_i."""
        out = np.where(self.full_span[:, None], 0.0, V)
        out[self._partial] -= self._onto_range(V[self._partial])
        return out

    def project_dual(self, S: Array) -> Array:
        """Projection of every row onto ``c_i`` plus the range of Q_i."""
        out, partial = np.where(self.full_span[:, None], S, self.tilt), self._partial
        out[partial] += self._onto_range(S[partial] - self.tilt[partial])
        return out

    def _outside(self, S: Array) -> NDArray[np.bool_]:
        """Rows that leave the range of Q_i by more than the rounding of a projection onto it."""
        if self.full_span.all():
            return np.zeros(len(S), dtype=bool)
        off = np.linalg.norm(S - self.project_dual(S), axis=1)
        size = np.linalg.norm(S, axis=1) + np.linalg.norm(self.tilt, axis=1)
        return np.asarray(off > SPAN_TOLERANCE * size)

    def span_projections(self, rows: NDArray[np.int64]) -> Array:
        """Onto the ranges of Q_i."""
        rank = self._spaces.rank
        out = np.where((rank[rows] == self.dim)[:, None, None], np.eye(self.dim), 0.0)
        partial = (rank > 0) & (rank < self.dim)
        own = np.flatnonzero(partial[rows])
        basis = self._spaces.basis[(np.cumsum(partial) - 1)[rows[own]]]
        out[own] = basis @ np.swapaxes(basis, 1, 2)
        return out

    def conjugate(self, S: Array) -> Array:
        """``(s + b)^T Q^+ (s + b) / 2 - f(0)`` on the range of Q, ``inf`` elsewhere."""
        return np.where(self._outside(S), np.inf, self.span_conjugate(S))

    def span_conjugate(self, S: Array) -> Array:
        """``(s + b)^T Q^+ (s + b) / 2 - f(0)``."""
        return np.asarray(0.5 * self._squared_dual_norm(S + self.linear) - self.constant)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """That of rows in the span, ``inf`` elsewhere."""
        return np.where(self._outside(S), np.inf, self.span_fenchel_young(W, S))

    def span_fenchel_young(self, W: Array, S: Array) -> Array:
        """``r^T Q^+ r / 2`` with r the gradient minus s: no cancellation.

        Where directions are taken for null in doubt, what the rows still see of the parameters there is added: it
        bounds the curvature that Q^+ leaves out.
        """
        value = 0.5 * self._squared_dual_norm(self.gradient(W) - S)
        if not self._spaces.sure.all():
            seen = self._products(self.X, self.complement(W))
            value = (np.sqrt(value) + np.sqrt(self._sum_rows(self.weight * seen**2))) ** 2
        return value

    def rounding(self, W: Array, S: Array) -> Array:
        """First-order effect of the rounding in ``gradient(W) - s`` and in Q_i on :meth:`fenchel_young`."""
        X = np.abs(self.X)
        rows = self._products(X, np.abs(W)) + np.abs(self.y)
        size = self._combinations(2.0 * self.weight * rows, X) + np.abs(S) + self.tilt_size
        units = (self.dim + self.counts + 4) * EPS
        error = self._squared_dual_norm(units[:, None] * size)
        force = self.gradient(W) - S
        gap = self._squared_dual_norm(force)
        # r^T Q^+ r changes by x^T dQ x with x = Q^+ r, in the scales of the unit diagonal
        scaled = self._scale * force
        length = np.linalg.norm(self._multiply_inverse(scaled), axis=1)
        of_matrix = units * length * (self._spaces.largest * length + np.linalg.norm(scaled, axis=1))
        return np.asarray(np.sqrt(gap * error) + 0.5 * error + of_matrix + units * gap)

    def linear_rounding(self, S: Array) -> Array:
        """Rounding of the linear terms as sums, and the slope in directions that are taken for null."""
        linear = np.asarray(EPS * np.linalg.norm(self.tilt_size, axis=1))
        if self.full_span.all():
            return linear
        residual = self._residual(self.conjugate_gradient(S))
        lost = self.complement(self._combinations(2.0 * self.weight * residual, self.X))
        return np.asarray(linear + np.linalg.norm(lost, axis=1))

    def sensitivity(self, W: Array, S: Array, error: Array) -> Array:
        """To second order."""
        moved = self._squared_dual_norm(error)
        return np.asarray(np.sqrt(self._squared_dual_norm(self.gradient(W) - S) * moved) + 0.5 * moved)

    def conjugate_gradient(self, S: Array) -> Array:
        """``Q^+ (s + b)``."""
        return self._scale * self._multiply_inverse(self._scale * (S + self.linear))

    def _multiply_inverse(self, scaled: Array) -> Array:
        """The pseudo-inverse of Q_i times vectors, both in the scales of the unit diagonal."""
        root = self._spaces.root
        return np.asarray((np.swapaxes(root, 1, 2) @ (root @ scaled[:, :, None]))[:, :, 0])
