"""Bounds on step sizes from the constants of the losses."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, StandardForm
from .form import device_name

__all__ = [
    "StepSizeWarning",
    "averaged_step_sizes",
    "bound_by",
    "largest_smoothness",
    "smoothness_bound",
    "step_size",
    "step_sizes",
]

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


def step_sizes(name: str, given: ArrayLike | None, bound: ArrayLike, reason: str, form: StandardForm) -> Array:
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
    form : StandardForm
        The devices.

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
    n = form.n_nodes
    limit = np.broadcast_to(np.asarray(bound, dtype=float), (n,))
    if given is None:
        if not np.isfinite(limit).any():
            raise ValueError(f"{name} must be given: {reason} sets no limit here")
        if not (limit > 0).all():
            raise ValueError(
                f"{name} must be given: no safe one is known, since {reason} is zero for "
                f"{device_name(form, int(limit.argmin()))}, whose loss is not known to be smooth"
            )
        return np.asarray(SHARE * np.where(np.isfinite(limit), limit, limit.min()))
    steps = np.asarray(given, dtype=float)
    if steps.shape not in ((), (n,)) or not np.isfinite(steps).all() or not (steps > 0).all():
        raise ValueError(f"{name} must be a finite number > 0 or {n} of them, one a device, got {given!r}")
    steps = np.array(np.broadcast_to(steps, (n,)))
    outside = np.flatnonzero(steps >= limit)
    if len(outside):
        i = int(outside[0])
        _warn(f"{name} = {steps[i]:.6g} of {device_name(form, i)}", float(limit[i]), reason)
    return steps


def step_size(name: str, given: float | None, bound: float, reason: str) -> float:
    """The one step size of all devices together, with the errors and the warning of :func:`step_sizes`."""
    if given is None:
        if not 0 < bound < np.inf:
            known = "is zero, as a loss is not known to be smooth" if bound < np.inf else "sets no limit here"
            raise ValueError(f"{name} must be given: no safe one is known, since {reason} {known}")
        return SHARE * bound
    step = np.asarray(given, dtype=float)
    if step.ndim or not 0 < step < np.inf:
        raise ValueError(f"{name} must be a finite number > 0, the same for all devices, got {given!r}")
    if step >= bound:
        _warn(f"{name} = {step:.6g}", bound, reason)
    return float(step)


def _warn(what: str, bound: float, reason: str) -> None:
    warnings.warn(
        f"{what} is not below {bound:.6g} = {reason}: the iteration may diverge", StepSizeWarning, stacklevel=5
    )


def averaged_step_sizes(
    given: ArrayLike | None, bound: Array, reason: str, form: StandardForm, *, steps: ArrayLike, amplification: float
) -> Array:
    """Step sizes ``eta`` of local gradient steps whose sum a server adds up with weights that may exceed p.

    A gradient step on a function with a Lipschitz constant M is averaged with constant ``a = eta M / 2``, and K of them
    with ``K a / (1 + (K - 1) a)`` (P. L. Combettes, I. Yamada, J. Math. Anal. Appl. 425, 2015, Proposition 2.5,
    doi:10.1016/j.jmaa.2014.11.044).  The move d of a round then has ``||d||^2 <= r <d, u>`` with r twice that, and the
    condition ``c r < 2`` of :func:`~gtvmin.solvers.federated.participation.amplification` is
    ``eta < (2 / M) / (1 + K (c - 1))``.

    Parameters
    ----------
    given, bound, reason, form
        As for :func:`step_sizes`; the bound is that of one device alone, ``2 / M_i``.
    steps : int or int array (n,)
        Local steps K_i of a round.
    amplification : float
        The number c.

    Returns
    -------
    array (n,)
        The same for all devices if none is given.
    """
    excess = max(amplification - 1.0, 0.0)
    if excess:
        reason = f"{reason} / (1 + {excess:.4g} K_i), for the updates' weights in rounds of few devices"
    eta = step_sizes("eta", given, bound / (1.0 + np.asarray(steps) * excess), reason, form)
    return np.full(form.n_nodes, 0.5 * eta.min()) if given is None else eta
