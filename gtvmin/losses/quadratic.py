"""Losses that are sums of weighted squares of affine functions: their spectra, prox and conjugates.

The prox goes through the rows; the conjugate goes through their singular values, with columns scaled to unit length
first so that columns in different units do no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.squared_rows import SquaredRows
from gtvmin.solvers.standard_form import Array

__all__ = ["QuadraticBlocks"]

EPS = float(np.finfo(float).eps)
# Singular values of the rows with columns of unit length are taken for zero below this.  What such directions take
# part in is charged as rounding; if they counted, the rounding of a gradient over their curvature would be larger.
RANK_TOLERANCE = 1e-12
SPAN_TOLERANCE = 1e-10
# Inverse triangles of no larger size are as good as singular values; and Q_i itself serves for proximal maps if the
# units of its columns differ by no more than this factor (its logarithm).
SAFE_SIZE, LOG_UNITS = 1e3, float(np.log(1e3))


class QuadraticBlocks(SquaredRows):
    """Stack of quadratic losses."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "prox", "conjugate", "quadratic"})

    @cached_property
    def _triangles(self) -> Array:
        """``dim`` rows (n_rows, dim, dim + 1) whose squares add up to those of the scaled rows, targets last."""
        root = np.sqrt(2.0 * self.weight)
        data = np.column_stack([root[:, None] * self.X, root * self.y])
        triangles = np.zeros((self.n_rows, self.dim, self.dim + 1))
        for devices, rows in self._equal_counts(data):
            triangle = np.asarray(np.linalg.qr(rows, mode="r"))[:, : self.dim]  # numpy's stubs say a tuple
            triangles[devices, : triangle.shape[1]] = triangle
        return triangles

    @cached_property
    def _rotated(self) -> tuple[Array, Array, Array]:
        """Singular values, right singular vectors (as rows) and targets that make ``f_i`` a sum of ``dim`` squares.

        ``f_i(w) = sum_k (sigma_ik v_ik^T w - z_ik)^2 / 2 + constant``. The numbers come from the rows, since forming
        Q_i would lose half of the digits of the small ones; those beyond the rank are zero.
        """
        triangles = self._triangles
        left, sigma, right = np.linalg.svd(triangles[:, :, : self.dim])
        targets = np.einsum("ijk,ij->ik", left, triangles[:, :, self.dim])
        inside = np.arange(self.dim) < self._positive.sum(axis=1)[:, None]
        return np.where(inside, sigma, 0.0), right, targets

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Scales s_i, eigenvalues and eigenvectors of ``diag(s_i) Q_i diag(s_i)``, whose diagonal is one.

        From the rows: Q_i itself has lost half of the digits of the small ones.
        """
        scale = self._scale
        _, sigma, right = np.linalg.svd(self._triangles[:, :, : self.dim] * scale[:, None, :])
        return scale, sigma[:, ::-1] ** 2, np.swapaxes(right[:, ::-1], 1, 2)

    @cached_property
    def _positive(self) -> NDArray[np.bool_]:
        """Which eigenvalues are not taken for zero, shape (n_rows, dim)."""
        return np.asarray(self._spectrum[1] > (RANK_TOLERANCE * self.dim) ** 2)

    @cached_property
    def _inverse(self) -> Array:
        """Inverses of these eigenvalues, zero for the others."""
        values = self._spectrum[1]
        return np.where(self._positive, 1.0 / np.where(self._positive, values, 1.0), 0.0)

    @cached_property
    def _root(self) -> Array:
        """Matrices ``G_i`` with ``G_i^T G_i = Q_i^+``, in the scales that give Q_i a unit diagonal."""
        if self._safe is not None:
            return self._safe
        _, _, vectors = self._spectrum
        return np.sqrt(self._inverse)[:, :, None] * np.swapaxes(vectors, 1, 2)

    @cached_property
    def _scale(self) -> Array:
        """``1 / sqrt(Q_ijj)``."""
        diagonal = np.einsum("ijj->ij", self.gram)
        return np.asarray(1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)))

    @cached_property
    def _safe(self) -> Array | None:
        """Inverses of the transposed triangles of the rows with columns of unit length, if none is near to singular.

        An inverse of moderate size proves full rank without singular values, which cost ten times as much.
        """
        scaled = self._triangles[:, :, : self.dim] * self._scale[:, None, :]
        if (np.abs(np.einsum("ijj->ij", scaled)) * SAFE_SIZE < 1.0).any():
            return None
        inverse = np.linalg.inv(scaled)
        if (np.einsum("ijk,ijk->i", inverse, inverse) > SAFE_SIZE**2).any():
            return None
        return np.ascontiguousarray(np.swapaxes(inverse, 1, 2))

    @cached_property
    def full_span(self) -> NDArray[np.bool_]:
        """Whether Q_i has full rank."""
        if self._safe is not None:
            return np.ones(self.n_rows, dtype=bool)
        return np.asarray(self._positive.all(axis=1))

    @cached_property
    def _eigenvalue_range(self) -> Array:
        return np.asarray(np.linalg.eigvalsh(self.gram)[:, [0, -1]], dtype=float)

    @property
    def strong_convexity(self) -> Array:
        """Least eigenvalue of Q_i, less what rounding may have added to it."""
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
        if self._safe is not None and float(np.ptp(np.log(self._scale), axis=1).max(initial=0.0)) < LOG_UNITS:
            matrix = np.linalg.inv(np.eye(self.dim) + step[:, None, None] * self.gram)
            offset = matrix @ (step[:, None] * self.linear)[:, :, None]
            return np.asarray(matrix, dtype=float), np.asarray(offset[:, :, 0], dtype=float)
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
        rotated = (self._root @ (self._scale * R)[:, :, None])[:, :, 0]
        return np.asarray(np.einsum("ij,ij->i", rotated, rotated))

    @cached_property
    def _deficient(self) -> NDArray[np.int64]:
        """Devices whose Q_i lacks full rank."""
        return np.flatnonzero(~self.full_span)

    def _onto_range(self, V: Array) -> Array:
        """Projection of rows of deficient devices onto the range of Q_i.

        Through a basis of the range: its rounding lies in the range too, however little of the row does.
        """
        coordinates = np.einsum("ijk,ij->ik", self._range_basis, V)
        return np.asarray(np.einsum("ijk,ik->ij", self._range_basis, coordinates))

    def complement(self, V: Array) -> Array:
        """Component of every row in the null space of Q_i."""
        out = np.zeros_like(V)
        deficient = self._deficient
        if len(deficient):
            out[deficient] = V[deficient] - self._onto_range(V[deficient])
        return out

    def project_dual(self, S: Array) -> Array:
        """Projection of every row onto ``c_i`` plus the range of Q_i."""
        out, deficient = np.array(S, dtype=float), self._deficient
        if len(deficient):
            tilt = self.tilt[deficient]
            out[deficient] = tilt + self._onto_range(out[deficient] - tilt)
        return out

    @cached_property
    def _range_basis(self) -> Array:
        """Orthonormal columns that span the range of Q_i, then zeros, for the devices where it is not everything."""
        deficient = self._deficient
        scale, _, vectors = (part[deficient] for part in self._spectrum)
        null = ~self._positive[deficient]
        # null(Q) = diag(s) null(diag(s) Q diag(s)); the left singular vectors beyond its rank span its complement
        left = np.linalg.svd(scale[:, :, None] * vectors * null[:, None, :])[0]
        beyond = np.arange(self.dim)[None, :] >= null.sum(axis=1)[:, None]
        return np.asarray(left * beyond[:, None, :])

    def _outside(self, S: Array) -> NDArray[np.bool_]:
        """Rows that leave the range of Q_i by more than the rounding of a projection onto it."""
        if not len(self._deficient):
            return np.zeros(len(S), dtype=bool)
        off = np.linalg.norm(S - self.project_dual(S), axis=1)
        size = np.linalg.norm(S, axis=1) + np.linalg.norm(self.tilt, axis=1)
        return np.asarray(off > SPAN_TOLERANCE * size)

    def conjugate(self, S: Array) -> Array:
        """``(s + b)^T Q^+ (s + b) / 2 - f(0)`` on the range of Q, ``inf`` elsewhere."""
        value = 0.5 * self._squared_dual_norm(S + self.linear) - self.constant
        return np.where(self._outside(S), np.inf, value)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``r^T Q^+ r / 2`` with r the gradient minus s: no cancellation.

        Where directions are taken for null, what the rows still see of the parameters there is added: it bounds the
        curvature that Q^+ leaves out.
        """
        value = 0.5 * self._squared_dual_norm(self.gradient(W) - S)
        if not self.full_span.all():
            seen = self._products(self.X, self.complement(W))
            value = (np.sqrt(value) + np.sqrt(self._sum_rows(self.weight * seen**2))) ** 2
        return np.where(self._outside(S), np.inf, value)

    def rounding(self, W: Array, S: Array) -> Array:
        """First-order effect of the rounding in ``gradient(W) - s`` and in Q_i on :meth:`fenchel_young`."""
        rows = self._products(np.abs(self.X), np.abs(W)) + np.abs(self.y)
        size = self._sum_rows((2.0 * self.weight * rows)[:, None] * np.abs(self.X)) + np.abs(S) + self.tilt_size
        units = (self.dim + self.counts + 4) * EPS
        error = self._squared_dual_norm(units[:, None] * size)
        force = self.gradient(W) - S
        gap = self._squared_dual_norm(force)
        # r^T Q^+ r changes by x^T dQ x with x = Q^+ r, in the scales of the unit diagonal
        scaled = self._scale * force
        length = np.linalg.norm(self._multiply_inverse(scaled), axis=1)
        of_matrix = units * length * (self._largest * length + np.linalg.norm(scaled, axis=1))
        return np.asarray(np.sqrt(gap * error) + 0.5 * error + of_matrix + units * gap)

    def linear_rounding(self, S: Array) -> Array:
        """Rounding of the linear terms as sums, and the slope in directions that are taken for null."""
        linear = np.asarray(EPS * np.linalg.norm(self.tilt_size, axis=1))
        if not len(self._deficient):
            return linear
        residual = self._residual(self.conjugate_gradient(S))
        lost = self._sum_rows((2.0 * self.weight * residual)[:, None] * self._null_rows)
        return np.asarray(linear + np.linalg.norm(lost, axis=1))

    @cached_property
    def _null_rows(self) -> Array:
        """Components of the rows of deficient devices in the null space of Q_i: nearly zero."""
        out = np.zeros_like(self.X)
        rows = np.flatnonzero(~self.full_span[self.owner])
        basis = self._range_basis[(np.cumsum(~self.full_span) - 1)[self.owner[rows]]]
        out[rows] = self.X[rows] - np.einsum("rjk,rk->rj", basis, np.einsum("rjk,rj->rk", basis, self.X[rows]))
        return out

    def sensitivity(self, W: Array, S: Array, error: Array) -> Array:
        """To second order."""
        moved = self._squared_dual_norm(error)
        return np.asarray(np.sqrt(self._squared_dual_norm(self.gradient(W) - S) * moved) + 0.5 * moved)

    def conjugate_gradient(self, S: Array) -> Array:
        """``Q^+ (s + b)``."""
        return self._scale * self._multiply_inverse(self._scale * (S + self.linear))

    def _multiply_inverse(self, scaled: Array) -> Array:
        """The pseudo-inverse of Q_i times vectors, both in the scales of the unit diagonal."""
        root = self._root
        return np.asarray((np.swapaxes(root, 1, 2) @ (root @ scaled[:, :, None]))[:, :, 0])

    @property
    def _largest(self) -> Array:
        """At least the largest eigenvalue of Q_i in the scales of the unit diagonal, if not much more."""
        if self._safe is not None:
            return np.full(self.n_rows, float(self.dim))
        return self._spectrum[1][:, -1]
