"""Where algorithms start: checked models of the devices, and their mean."""

from __future__ import annotations

import numpy as np

from ..driver import starting_arrays
from ..standard_form import Array, Point, StandardForm

__all__ = ["starting_model", "starting_models"]


def starting_models(form: StandardForm, start: Point | None) -> Array:
    """Copies of the start's models (n_nodes, dim), or zeros.

    Raises
    ------
    ValueError
        If they have another shape.
    """
    W, _ = starting_arrays(form, start)
    if W.shape != (form.n_nodes, form.dim):
        raise ValueError(f"start must hold one model a device, shape {(form.n_nodes, form.dim)}, got {W.shape}")
    return W


def starting_model(form: StandardForm, start: Point | None, p: Array) -> Array:
    """Mean of the start's models with weights p, or zero; without changing models that agree."""
    W = starting_models(form, start)
    return np.asarray(W[0] + np.einsum("i,ij->j", p, W - W[0]))
