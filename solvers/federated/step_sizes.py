"""Bounds on step sizes from the constants of the losses."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, StandardForm

__all__ = ["StepSizeWarning", "bound_by", "largest_smoothness", "smoothness_bound", "step_sizes"]

SHARE = 0.95
"""Share of the bound that is taken where no step size is given."""


class StepSizeWarning(UserWarning):
    """A step size is outside the bound within which an algorithm is known to converge."""


def largest_smoothness(form: StandardForm) -> float:
    """Largest Lipschitz constant of the devices' gradients."""
    return float(form.local.smoothness.max(initial=0.0))


def smoothness_bound(form: StandardForm, extra: float = 0.0) -> Array:
    """``2 / (L_i + extra)``, below which gradient steps of a device descend; infinite for a device without a loss."""
    return bound_by(2.0, form.local.smoothness + extra)


def bound_by(share: float, curvature: ArrayLike) -> Array:
    """``share / curvature``, infinite where there is no curvature."""
    size = np.asarray(curvature, dtype=float)
    return np.where(size > 0, share / np.where(size > 0, size, 1.0), np.inf)


def step_sizes(name: str, given: ArrayLike | None, bound: ArrayLike, reason: str, n: int) -> Array:
    """Step size of each device: the given ones, or a share of the bound.

    Parameters
    ----------
    name : str
        Name of the setting.
    given : float or array_like (n,), optional
        What the user asked for.
    bound : float or array_like (n,)
        What the algorithm is known to converge below; infinite where any step will do, zero where none is known to.
    reason : str
        The bound as a formula.
    n : int
        Number of devices.

    Returns
    -------
    array (n,)

    Raises
    ------
    ValueError
        If a step is not a finite number above 0; if none is given and the bound is zero (nothing is known of a loss) or
        infinite for all devices.

    Warns
    -----
    StepSizeWarning
        If a step is outside the bound.
    """
    limit = np.broadcast_to(np.asarray(bound, dtype=float), (n,))
    if given is None:
        if not np.isfinite(limit).any():
            raise ValueError(f"{name} must be given: {reason} sets no limit here")
        if not (limit > 0).all():
            raise ValueError(
                f"{name} must be given: no safe one is known, since {reason} is zero for the device at position "
                f"{int(limit.argmin())}, whose loss is not known to be smooth"
            )
        return np.asarray(SHARE * np.where(np.isfinite(limit), limit, limit.min()))
    steps = np.asarray(given, dtype=float)
    if steps.shape not in ((), (n,)) or not np.isfinite(steps).all() or not (steps > 0).all():
        raise ValueError(f"{name} must be a finite number > 0 or {n} of them, one a device, got {given!r}")
    steps = np.array(np.broadcast_to(steps, (n,)))
    outside = np.flatnonzero(steps >= limit)
    if len(outside):
        i = int(outside[0])
        warnings.warn(
            f"{name} = {steps[i]:.6g} of the device at position {i} is not below {limit[i]:.6g} = {reason}: the "
            "iteration may diverge",
            StepSizeWarning,
            stacklevel=4,
        )
    return steps
