"""Which devices' losses have no minimum: they fall for ever as the parameters grow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gtvmin.solvers.common_minima import DOUBLINGS, FALLING, NEGLIGIBLE, excess
from gtvmin.solvers.components import components
from gtvmin.solvers.standard_form import Array, Duals, StandardForm

__all__ = ["unattained_nodes"]


def unattained_nodes(form: StandardForm, W: Array, U: Duals) -> NDArray[np.bool_]:
    """Devices of components whose infimum is not attained, as parameters and their duals show, (n_nodes,).

    Zero duals say that all losses of a component can come as close to their infima as wanted, at once.  If what is left
    above them falls with each doubling of the parameters, until next to nothing is left but never nothing, then the
    way there is a ray: logistic losses on data that a hyperplane separates are the common case.  On the way to a
    minimum that is attained it would rise again behind it, or be zero.  A component of which the duals are not all zero
    is not judged.
    """
    resting = np.ones(form.n_nodes, dtype=bool)
    for term, dual in zip(form.terms, U, strict=True):
        for end in term.map.ends:
            resting[end[dual.any(axis=1)]] = False
    with_rows = np.zeros(form.n_nodes, dtype=bool)
    for term in form.rows:
        with_rows[term.map.ends[0]] = True
    if not (resting & with_rows).any():
        return np.zeros(form.n_nodes, dtype=bool)
    component = components(form.n_nodes, form.couplings)
    with np.errstate(all="ignore"):
        at_zero, left = (np.bincount(component, excess(form, factor * W)) for factor in (0.0, 1.0))
        falling, unattained = np.bincount(component, ~resting) == 0, np.zeros(len(left), dtype=bool)
        for doubling in range(1, DOUBLINGS + 1):
            before, left = left, np.bincount(component, excess(form, 2.0**doubling * W))
            falling &= (left > 0) & (left <= FALLING * before)
            unattained |= falling & (before <= NEGLIGIBLE * at_zero)
            falling &= ~unattained
            if not falling.any():
                break
    return np.asarray(unattained[component])
