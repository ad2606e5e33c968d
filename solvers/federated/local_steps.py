"""Gradients of all devices, and several local steps of each, by the fastest way that their losses allow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array, StandardForm
from .class_points import ClassPoints
from .data_points import DataPoints
from .form import FederatedForm
from .minibatch import Minibatch
from .streams import Keys

__all__ = ["LocalSteps", "descend", "gradient", "gradient_at", "local_steps"]

IntArray = NDArray[np.int64]
LocalSteps = int | Sequence[int]
"""Number of local steps: the same for all devices, or one a device."""


def local_steps(form: StandardForm, steps: LocalSteps, *, name: str = "local_steps", least: int = 0) -> IntArray:
    """Number of local steps of every device, (n_nodes,).

    Raises
    ------
    ValueError
        If they are not numbers of at least ``least``, one a device, and not all zero.
    """
    counts = np.broadcast_to(np.asarray(steps), (form.n_nodes,)) if np.ndim(steps) == 0 else np.asarray(steps)
    if counts.shape != (form.n_nodes,) or (counts != counts.astype(np.int64)).any() or (counts < least).any():
        raise ValueError(f"{name} must be a number >= {least} or {form.n_nodes} of them, one a device, got {steps!r}")
    if not counts.any():
        raise ValueError(f"{name} are zero at every device: no model would ever change")
    return counts.astype(np.int64)


def data_points(form: StandardForm) -> DataPoints | ClassPoints | None:
    """Data points of a form that has them."""
    return form.data if isinstance(form, FederatedForm) else None


def gradient(form: StandardForm, W: Array) -> Array:
    """Gradient of every device's loss at its own row of W (n_nodes, dim)."""
    data = data_points(form)
    return form.local.gradient(W) if data is None else data.gradient(W)


def gradient_at(form: StandardForm, model: Array) -> Array:
    """Gradient of every device's loss at one model (dim,): shape (n_nodes, dim)."""
    return gradient(form, np.broadcast_to(model, (form.n_nodes, form.dim)))


def descend(
    form: StandardForm,
    W: Array,
    steps: IntArray,
    rate: Array,
    *,
    linear: Array | None = None,
    mu: float = 0.0,
    anchor: Array | None = None,
    batch: Minibatch | None = None,
    keys: Keys | None = None,
    round: int = 0,
) -> Array:
    """Local steps ``w_i -= rate_i (g_i(w_i) + linear_i + mu (w_i - anchor_i))``, ``steps_i`` of them at every device.

    Parameters
    ----------
    form : StandardForm
        With a smooth ``local``.
    W : array (n_nodes, dim)
        Where each device starts; it may be a broadcast row.
    steps : int array (n_nodes,)
        Zero for a device that rests.
    rate : array (n_nodes,)
        Step sizes.
    linear : array (n_nodes, dim), optional
        A correction that is added to every gradient, such as a control variate.
    mu, anchor : float and array (n_nodes, dim), optional
        A proximal term.
    batch : Minibatch, optional
        Draw data points for ``g_i``; needs the devices' keys and the number of the round.

    Returns
    -------
    array (n_nodes, dim)
        W is not changed.
    """
    data = data_points(form)
    pivot = W if anchor is None else anchor
    if batch is None and data is not None:
        return data.descend(W, steps, rate, linear, mu, pivot)
    most = int(steps.max(initial=0))
    for k in range(most):
        if batch is None:
            g = form.local.gradient(W)
        elif data is None or keys is None:
            raise ValueError("minibatches need a form with data points and the devices' keys")
        else:
            drawn = batch.rows(data, keys, round, k, most)
            g = data.batch_gradient(W, np.where((k < steps)[:, None], drawn, -1))  # nothing for those that rest
        g = g + mu * (W - pivot) + (0.0 if linear is None else linear)
        move = rate[:, None] * g
        W = W - np.where((k < steps)[:, None], move, 0.0)
    return np.array(W)
