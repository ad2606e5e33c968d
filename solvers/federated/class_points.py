"""The data points of devices with classes in one table, for gradients of some of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array

__all__ = ["ClassPoints"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ClassPoints:
    """Losses ``sum_r omega_r (log sum_k exp(x_r^T w_k) - x_r^T w_{y_r}) + w^T diag(d_i) w / 2 + t_i^T w``.

    The parameters are ``w.reshape(features, classes)`` with w_k in column k.  It offers what
    :class:`~gtvmin.solvers.federated.data_points.DataPoints` does.

    Attributes
    ----------
    X : array (R, features)
        Data points of all devices in their order.
    y : int array (R,)
        Classes.
    weight : array (R,)
        Factors ``omega_r``.
    starts : int array (n_nodes + 1,)
        First row of each device, and R.
    diagonal, tilt : arrays (n_nodes, features * classes)
        The d_i and t_i.
    """

    X: Array
    y: IntArray
    weight: Array
    starts: IntArray
    diagonal: Array
    tilt: Array

    @property
    def n_nodes(self) -> int:
        """Number of devices."""
        return len(self.tilt)

    @property
    def counts(self) -> IntArray:
        """Data points of each device, (n_nodes,)."""
        return np.diff(self.starts)

    def gradient(self, W: Array) -> Array:
        """Gradients of all devices at the rows of W, in one pass over the data."""
        one = np.ones(self.n_nodes)
        return self._passes(W, one.astype(np.int64), one, None, 0.0, W, True)

    def batch_gradient(self, W: Array, rows: IntArray) -> Array:
        """Unbiased gradients from the data points ``rows`` (n_nodes, size), positions in the table; -1 stands for none.

        Those of a device are scaled by its number of data points over the number drawn.
        """
        from .class_kernels import class_batch_gradients

        out: Array = class_batch_gradients(np.ascontiguousarray(W), *self._table, rows)
        return out

    def descend(self, W: Array, steps: IntArray, rate: Array, linear: Array | None, mu: float, anchor: Array) -> Array:
        """Gradient steps ``w -= rate_i (grad f_i(w) + linear_i + mu (w - anchor_i))``, ``steps_i`` of them."""
        return self._passes(W, steps, rate, linear, mu, anchor, False)

    def _passes(
        self, W: Array, steps: IntArray, rate: Array, linear: Array | None, mu: float, anchor: Array, gradients: bool
    ) -> Array:
        from .class_kernels import class_passes

        start = np.ascontiguousarray(W)
        shift = np.zeros_like(start) if linear is None else np.ascontiguousarray(linear)
        pivot = np.ascontiguousarray(anchor)
        out: Array = class_passes(start, *self._table, steps, rate, shift, float(mu), pivot, gradients)
        return out

    @property
    def _table(self) -> tuple[Array, IntArray, Array, IntArray, Array, Array]:
        return self.X, self.y, self.weight, self.starts, self.diagonal, self.tilt
