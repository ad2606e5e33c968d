"""Components of a network whose losses all come as close to their infima as wanted, for parameters that agree.

Logistic losses of data that a hyperplane separates fall towards zero along a ray, as do Poisson losses of zero counts:
no parameters are best, and no flow but zero proves how good those on the ray are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .components import components
from .linear_maps import Array
from .smooth_duals import hessians
from .standard_form import StandardForm

__all__ = ["common_minima", "excess"]

# What is left above the infimum, relative to what zero parameters leave: less than any tolerance asks for.
NEGLIGIBLE = 1e-17
# On the way to an infimum at infinity, doubled parameters leave this share of the excess or less.
FALLING = 0.75
DOUBLINGS = 30
# Newton steps from zero on all data of a component tell after which direction its losses fall.
NEWTON_STEPS = 10
RIDGE = 1e-9


def common_minima(form: StandardForm) -> tuple[Array, NDArray[np.bool_]]:
    """Parameters that leave nothing to gain in some components, and which devices these are.

    Newton's method on the sum of a component's losses gives one vector for all of its devices.  If a multiple of it
    brings each of their functions, all at once, as close to its infimum as can be told, then zero duals prove it.

    Parameters
    ----------
    form : StandardForm
        Losses with second derivatives, and one plain coupling, whose function is zero where neighbours agree and
        nowhere below.

    Returns
    -------
    W, settled : arrays (n_nodes, dim), (n_nodes,)
        Zeros for devices that are not settled.
    """
    component = components(form.n_nodes, form.couplings)
    with np.errstate(all="ignore"):  # steps may lead anywhere; what is infinite or NaN then settles nothing
        at_zero = np.bincount(component, excess(form, np.zeros((form.n_nodes, form.dim))))
        means = _pooled(form, component)
        last, settled = np.full(len(at_zero), np.inf), np.zeros(len(at_zero), dtype=bool)
        found, falling = np.zeros_like(means), at_zero > 0
        for _ in range(DOUBLINGS):
            left = np.bincount(component, excess(form, means[component]))
            reached = falling & (left <= NEGLIGIBLE * at_zero)
            found[reached] = means[reached]
            settled |= reached
            falling &= ~reached & (left <= FALLING * last)
            if not falling.any():
                break
            means, last = 2.0 * means, left
    return found[component], settled[component]


def excess(form: StandardForm, W: Array) -> Array:
    """How far above their infima the parts of every device's loss are, in all, (n_nodes,); infinite if one has none."""
    total = form.quadratic.fenchel_young(W, np.zeros_like(W))
    for term in form.rows:
        rows = term.evaluate(W)[0]
        above = term.function.fenchel_young(rows, np.zeros_like(rows))
        total = total + np.bincount(term.map.ends[0], above, form.n_nodes)
    return np.asarray(total)


def _pooled(form: StandardForm, component: NDArray[np.int64]) -> Array:
    """Parameters of each component after a few Newton steps on the sum of its losses, (n_components, dim)."""
    count, d = int(component.max()) + 1, form.dim
    W = np.zeros((count, d))
    for _ in range(NEWTON_STEPS):
        H, g = np.zeros((count, d, d)), np.zeros((count, d))
        np.add.at(H, component, hessians(form, W[component]))
        np.add.at(g, component, form.local.gradient(W[component]))
        trace = np.einsum("ijj->i", H)
        usable = np.isfinite(H).all(axis=(1, 2)) & (trace > 0)
        H[~usable], g[~usable] = np.eye(d), 0.0
        H[:, range(d), range(d)] += RIDGE * np.where(usable, trace, 0.0)[:, None]
        W = W - np.linalg.solve(H, g[..., None])[..., 0]
    return W
