"""The data points of all devices in one table, for gradients of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array

__all__ = ["HUBER", "LOGISTIC", "SQUARED", "DataPoints"]

IntArray = NDArray[np.int64]

SQUARED, LOGISTIC, HUBER = 0, 1, 2
"""Kinds of rows: ``omega (t - y)^2``, ``omega log(1 + exp(-y t))`` and ``omega h_delta(t - y)`` at ``t = x^T w``."""


@dataclass(frozen=True, eq=False)
class DataPoints:
    """Losses ``f_i(w) = sum_r omega_r phi_r(x_r^T w) + (a smooth quadratic remainder)``, one row a data point.

    A minibatch draws data points and scales their sum by ``m_i / size``, which makes its gradient unbiased; the
    remainder (ridge terms and other losses without data) is in every gradient whole.

    Attributes
    ----------
    X : array (R, dim)
        Rows of all devices in their order: of each its data points, then rows of its remainder.
    y, weight, parameter : arrays (R,)
        Targets or labels, factors ``omega_r`` and Huber's delta.
    kind : int array (R,)
        :data:`SQUARED`, :data:`LOGISTIC` or :data:`HUBER`.
    starts : int array (n_nodes + 1,)
        First row of each device, and R.
    ends : int array (n_nodes,)
        End of the device's data points among its rows.
    diagonal, tilt : arrays (n_nodes, dim)
        The remainder's gradient beside its rows: ``diagonal_i w_i + tilt_i``.
    """

    X: Array
    y: Array
    weight: Array
    kind: IntArray
    parameter: Array
    starts: IntArray
    ends: IntArray
    diagonal: Array
    tilt: Array

    @property
    def n_nodes(self) -> int:
        """Number of devices."""
        return len(self.ends)

    @property
    def counts(self) -> IntArray:
        """Data points of each device, (n_nodes,)."""
        return self.ends - self.starts[:-1]

    def gradient(self, W: Array) -> Array:
        """Gradients of all devices at the rows of W, in one pass over the data."""
        one = np.ones(self.n_nodes)
        return self._passes(W, one.astype(np.int64), one, None, 0.0, W, True)

    def batch_gradient(self, W: Array, rows: IntArray) -> Array:
        """Unbiased gradients from the data points ``rows`` (n_nodes, size), positions in the table; -1 stands for none.

        Those of a device are scaled by its number of data points over the number drawn.
        """
        from .kernels import batch_gradients

        out: Array = batch_gradients(
            np.ascontiguousarray(W), *self._table, self.starts, self.ends, self.diagonal, self.tilt, rows
        )
        return out

    def descend(self, W: Array, steps: IntArray, rate: Array, linear: Array | None, mu: float, anchor: Array) -> Array:
        """Gradient steps ``w -= rate_i (grad f_i(w) + linear_i + mu (w - anchor_i))``, ``steps_i`` of them.

        A device makes all of its steps while its data are in the cache.
        """
        return self._passes(W, steps, rate, linear, mu, anchor, False)

    def _passes(
        self, W: Array, steps: IntArray, rate: Array, linear: Array | None, mu: float, anchor: Array, gradients: bool
    ) -> Array:
        from .kernels import passes, quadratic_passes

        start = np.ascontiguousarray(W)
        pivot = start if anchor is W else np.ascontiguousarray(anchor)
        shifted = linear is not None or mu != 0
        shift = np.zeros_like(start) if shifted and linear is None else start if linear is None else linear
        moves = (steps, rate, shifted, np.ascontiguousarray(shift), float(mu), pivot, gradients)
        out: Array
        if self._forms is None:
            out = passes(start, *self._table, self.starts, self._has_remainder, self.diagonal, self.tilt, *moves)
        else:
            out = quadratic_passes(start, *self._forms, *moves)
        return out

    @cached_property
    def _has_remainder(self) -> bool:
        return bool(self.diagonal.any() or self.tilt.any())

    @cached_property
    def _forms(self) -> tuple[Array, Array] | None:
        """``(Q, b)`` of squared errors, where they are less to read than the rows.

        They lose digits of directions whose curvature is a millionth of others', in which no local step gets anywhere.
        """
        from .kernels import quadratic_forms

        if (self.kind != SQUARED).any() or self.tilt.size > len(self.y):
            return None
        forms: tuple[Array, Array] = quadratic_forms(self.X, self.y, self.weight, self.starts, self.diagonal, self.tilt)
        return forms

    @property
    def _table(self) -> tuple[Array, Array, Array, IntArray, Array]:
        return self.X, self.y, self.weight, self.kind, self.parameter
