"""Weighted squares of affine functions, stacked over devices: what their rows alone tell.

Device i has ``f_i(w) = sum_r omega_r (x_r^T w - y_r)^2 + c_i^T w`` over its rows r, so ``Q_i = 2 sum_r omega_r x_r
x_r^T`` and ``b_i = 2 sum_r omega_r y_r x_r - c_i``.  Values and gradients go through the rows, where nothing cancels.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gtvmin.losses.base import Loss
from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["QuadraticLoss", "Rows", "SquaredRows"]

Rows = tuple[Array, Array, Array]
"""Rows x_r (m, dim), targets y_r (m,) and weights omega_r (m,)."""

EPS = float(np.finfo(float).eps)


class QuadraticLoss(Loss):
    """A loss ``sum_r omega_r (x_r^T w - y_r)^2``; a subclass gives its rows."""

    __slots__ = ()

    @abstractmethod
    def rows(self, dim: int) -> Rows:
        """Rows, targets and weights, for ``dim`` parameters."""

    @classmethod
    def rows_of_all(cls, losses: Sequence[Self], dim: int) -> tuple[Rows, NDArray[np.int64]]:
        """Rows of several such losses, one after the other, and their numbers; a subclass may have them in one go."""
        X, y, weight = zip(*(loss.rows(dim) for loss in losses), strict=True)
        counts = np.array([len(part) for part in y])
        return (np.concatenate(X), np.concatenate(y), np.concatenate(weight)), counts

    def affine(self, dim: int) -> tuple[Array, float] | None:
        """Coefficients c and constant of an affine part ``c^T w + constant``, if there is one."""
        return None


class SquaredRows(BlockFunction):
    """Stack of quadratic losses.

    Parameters
    ----------
    X : array (R, dim)
        Rows of all devices, those of device 0 first.
    y, weight : arrays (R,)
        Targets and weights ``omega_r >= 0``.
    counts : int array (n_rows,)
        Number of rows of each device.
    tilt : array (n_rows, dim)
        Linear terms ``c_i^T w``.
    offset : array (n_rows,)
        Constants.
    tilt_size : array (n_rows, dim), optional
        Absolute values of what the linear terms are sums of, if these may cancel.
    """

    def __init__(
        self,
        X: Array,
        y: Array,
        weight: Array,
        counts: NDArray[np.int64],
        tilt: Array,
        offset: Array,
        tilt_size: Array | None = None,
    ) -> None:
        self.n_rows, self.dim = len(counts), X.shape[1]
        self.tilt, self.offset = tilt, offset
        self.tilt_size = np.abs(tilt) if tilt_size is None else tilt_size
        self.X, self.y, self.weight, self.counts = X, y, weight, counts
        self.owner = np.repeat(np.arange(self.n_rows), counts)

    @classmethod
    def stack(cls, terms: Sequence[Sequence[tuple[float, QuadraticLoss]]], dim: int) -> Self:
        """Stack one list of ``coefficient * loss`` per device."""
        owner = np.repeat(np.arange(len(terms)), [len(device) for device in terms])
        factors = np.array([c for device in terms for c, _ in device])
        atoms = [loss for device in terms for _, loss in device]
        kinds: dict[type[QuadraticLoss], list[int]] = {}
        for place, loss in enumerate(atoms):
            kinds.setdefault(type(loss), []).append(place)
        parts, places, tilt, tilt_size = [], [], np.zeros((len(terms), dim)), np.zeros((len(terms), dim))
        offset = np.zeros(len(terms))
        for kind, members in kinds.items():
            (X, y, weight), numbers = kind.rows_of_all([atoms[place] for place in members], dim)
            parts.append((X, y, weight * np.repeat(factors[members], numbers)))
            places.append(np.repeat(members, numbers))
            if kind.affine is not QuadraticLoss.affine:
                for place in members:
                    affine, device, c = atoms[place].affine(dim), owner[place], factors[place]
                    if affine is not None:
                        tilt[device] += c * affine[0]
                        tilt_size[device] += np.abs(c * affine[0])
                        offset[device] += c * affine[1]
        parts = parts or [(np.empty((0, dim)), np.empty(0), np.empty(0))]
        X, y, weight = (part[0] if len(parts) == 1 else np.concatenate(part) for part in zip(*parts, strict=True))
        term = np.concatenate([np.empty(0, dtype=np.int64), *places])
        if len(parts) > 1:  # back into the order of the devices and their terms
            order = np.argsort(term, kind="stable")
            X, y, weight, term = X[order], y[order], weight[order], term[order]
        counts = np.bincount(owner[term], minlength=len(terms))
        return cls(X, y, weight, counts, tilt, offset, tilt_size)

    def _sum_rows(self, values: Array) -> Array:
        """Sum values (R,) or (R, k) over the rows of each device."""
        if self._count:
            return np.asarray(values.reshape(self.n_rows, self._count, *values.shape[1:]).sum(axis=1))
        starts = np.append(0, np.cumsum(self.counts))
        padded = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
        sums = np.add.reduceat(padded, starts[:-1], axis=0)
        sums[self.counts == 0] = 0.0
        return np.asarray(sums)

    @cached_property
    def _count(self) -> int:
        """Number of rows of every device, if all have the same number; else zero."""
        count = int(self.counts[0]) if self.n_rows else 0
        return count if bool((self.counts == count).all()) else 0

    def _products(self, X: Array, W: Array) -> Array:
        """``x_r^T w_owner(r)`` for the rows of all devices."""
        if self._count:
            return np.asarray((X.reshape(self.n_rows, self._count, self.dim) @ W[:, :, None]).ravel())
        return np.asarray(np.einsum("rj,rj->r", X, np.take(W, self.owner, axis=0)))

    def _combinations(self, coefficients: Array, X: Array) -> Array:
        """``sum_r c_r x_r`` over the rows of each device."""
        if self._count:
            weights = coefficients.reshape(self.n_rows, 1, self._count)
            return np.asarray((weights @ X.reshape(self.n_rows, self._count, self.dim))[:, 0])
        return self._sum_rows(coefficients[:, None] * X)

    def _residual(self, W: Array) -> Array:
        return self._products(self.X, W) - self.y

    def value(self, W: Array) -> Array:
        """Weighted sums of squares."""
        squares = self._sum_rows(self.weight * self._residual(W) ** 2)
        return np.asarray(squares + np.einsum("ij,ij->i", self.tilt, W) + self.offset)

    def gradient(self, W: Array) -> Array:
        """``2 sum_r omega_r (x_r^T w - y_r) x_r``."""
        return self._combinations(2.0 * self.weight * self._residual(W), self.X) + self.tilt

    def _equal_counts(self, rows: Array) -> Iterator[tuple[slice | NDArray[np.int64], Array]]:
        """Devices with the same number m >= 1 of rows, and these rows (k, m, ...) of an array, for each m."""
        starts = np.cumsum(self.counts) - self.counts
        sizes = np.unique(self.counts)
        for m in sizes[sizes > 0]:
            if len(sizes) == 1:  # no copy of the rows
                yield slice(None), rows.reshape(self.n_rows, m, *rows.shape[1:])
            else:
                devices = np.flatnonzero(self.counts == m)
                yield devices, rows[starts[devices][:, None] + np.arange(m)]

    @cached_property
    def gram(self) -> Array:
        """``Q_i``, shape (n_rows, dim, dim)."""
        Q = np.zeros((self.n_rows, self.dim, self.dim))
        weighted = (2.0 * self.weight)[:, None] * self.X
        for (devices, X), (_, scaled) in zip(self._equal_counts(self.X), self._equal_counts(weighted), strict=True):
            Q[devices] = np.swapaxes(scaled, 1, 2) @ X
        return Q

    @cached_property
    def linear(self) -> Array:
        """``b_i``, minus the gradient at zero, shape (n_rows, dim)."""
        return self._combinations(2.0 * self.weight * self.y, self.X) - self.tilt

    @cached_property
    def constant(self) -> Array:
        """``f_i(0)``, shape (n_rows,)."""
        return self._sum_rows(self.weight * self.y**2) + self.offset

    def quadratic(self) -> tuple[Array, Array]:
        """``(Q, b)``: the gradient is ``Q_i w_i - b_i``."""
        return self.gram, self.linear

    def few_rows(self) -> Array | None:
        """Rows times the roots of twice their weights, where every device has as many, at most ``dim / 2``."""
        if not 0 < 2 * self._count <= self.dim:
            return None
        rows = np.sqrt(2.0 * self.weight)[:, None] * self.X
        return rows.reshape(self.n_rows, self._count, self.dim)

    def value_rounding(self, W: Array) -> Array:
        """First-order effect of the rounding of the residuals, and that of the sums."""
        residual = np.abs(self._residual(W))
        rows = self._products(np.abs(self.X), np.abs(W)) + np.abs(self.y)
        squares = self._sum_rows(self.weight * residual * (2.0 * rows + residual))
        linear = np.einsum("ij,ij->i", self.tilt_size, np.abs(W)) + np.abs(self.offset)
        return np.asarray((self.dim + self.counts + 4) * EPS * (squares + linear))

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Weighted sum of squares of one sparse matrix times ``vec(W)``."""
        import cvxpy as cp

        root = np.sqrt(factor * self.weight)
        # even where it is zero, this keeps W among the variables of the problem
        affine = cp.sum(cp.multiply(unit * factor * self.tilt, W)) + factor * float(self.offset.sum())
        if not len(root):
            return affine
        return cp.sum_squares(self._block_rows(unit * root) @ cp.vec(W, order="C") - root * self.y) + affine

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``sum_r p_r^2 / (4 omega_r) + y_r p_r`` over row duals p with ``X_i^T p_i + c_i = s_i``."""
        import cvxpy as cp

        constant = float(self.offset.sum())
        if not len(self.weight):
            return cp.Constant(-constant), [self.tilt == S]
        root = np.sqrt(self.weight)
        p = cp.Variable(len(root), name="row_duals")  # in units of the square root of the weight
        balance = self._block_rows(root).T @ p == cp.vec(S - self.tilt, order="C")
        return 0.25 * cp.sum_squares(p) + (root * self.y) @ p - constant, [balance]

    def _block_rows(self, root: Array) -> sparse.csr_array:
        """Rows scaled by ``root`` as a sparse matrix over ``vec(W)``, shape (R, n_rows * dim)."""
        columns = self.owner[:, None] * self.dim + np.arange(self.dim)
        pointer = self.dim * np.arange(len(root) + 1)
        data = (root[:, None] * self.X).ravel()
        return sparse.csr_array((data, columns.ravel(), pointer), shape=(len(root), self.n_rows * self.dim))
