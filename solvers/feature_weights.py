"""Step sizes for each parameter, where the losses' features are in very different units."""

from __future__ import annotations

import numpy as np

from .linear_maps import Array, EdgeDifference
from .standard_form import StandardForm, Term

__all__ = ["compiled_norm", "feature_weights"]

# Parameters take the same steps if their mean curvatures differ by no more than this factor.
ALIKE = 10.0
# Weights this far from their mean are as good as any.
FURTHEST = 1e12


def compiled_norm(term: Term) -> tuple[Array, float] | None:
    """Radii, and 1 for boxes or 2 for balls, of differences across edges under a norm; None for other terms."""
    norm = term.function.norm
    if norm is None or not isinstance(term.map, EdgeDifference):
        return None
    radius, p = norm
    if p == 1.0:
        return radius, 1.0
    return (radius, 2.0) if p == 2.0 or term.map.width == 1 else None


def feature_weights(form: StandardForm) -> Array:
    """Weights ``omega_k`` with geometric mean one for steps ``tau_i omega_k`` and ``sigma_e / omega_k``.

    They are inverse to the mean curvature of the losses in parameter k, as if its feature had unit length: a start,
    from which weights that are not equal adapt one by one.  The product of the steps is that of equal weights, and so
    the method converges as it does with those.  The weights are equal where curvatures are alike, and where the losses
    have rows, which tie parameters together.

    Returns
    -------
    array (dim,)
    """
    equal = np.ones(form.dim)
    if len(form.terms) > 1 or compiled_norm(form.terms[0]) is None or "quadratic" not in form.quadratic.capabilities:
        return equal
    curvature = np.einsum("ijj->j", form.quadratic.quadratic()[0])
    known = (curvature > 0) & np.isfinite(curvature)
    if not known.any() or curvature[known].max() <= ALIKE * curvature[known].min():
        return equal
    logarithm = np.log(np.where(known, curvature, 1.0))
    deviation = np.where(known, logarithm[known].mean() - logarithm, 0.0)
    return np.asarray(np.exp(np.clip(deviation, -np.log(FURTHEST), np.log(FURTHEST))))
