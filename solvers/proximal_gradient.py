"""The accelerated proximal gradient method (FISTA) with restarts, for smooth couplings.

A. Beck, M. Teboulle, "A fast iterative shrinkage-thresholding algorithm for linear inverse problems", SIAM J. Imaging
Sci. 2 (2009), DOI 10.1137/080716542, Section 4 (FISTA with constant step).  Restarts: B. O'Donoghue, E. Candes,
"Adaptive restart for accelerated gradient schemes", Found. Comput. Math. 15 (2015), DOI 10.1007/s10208-013-9150-3,
Section 3.2 (the gradient scheme).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .driver import starting_arrays
from .smooth_duals import gradient_duals
from .standard_form import Array, Point, StandardForm

__all__ = ["ProximalGradient", "momentum"]

# Step of a device that is coupled to nothing, relative to the inverse of its curvature.
ALONE = 1e8


@dataclass(slots=True)
class ProximalGradientState:
    """Parameters W, the extrapolated ones Y, the momentum t, the devices' steps and the losses' proximal map."""

    W: Array
    Y: Array
    t: float
    steps: Array
    local_prox: Callable[[Array], Array]


@dataclass(frozen=True)
class ProximalGradient:
    """Gradient steps on the coupling, proximal steps on the losses, with momentum.

    Each step, with all devices at once::

        w_i <- prox of L_i with step tau_i at y_i - tau_i (D^T grad g(D Y))_i
        y_i <- w_new + (t - 1) / t_new (w_new - w_old)

    and ``t <- 1``, no momentum, whenever the momentum points uphill.  ``1 / tau_i = 2 sum_e l_e`` over the edges of
    device i with the smoothness ``l_e`` of their penalties, since ``||w_i - w_j||^2 <= 2 ||w_i||^2 + 2 ||w_j||^2``.

    Notes
    -----
    Fits any losses, smooth or not, and penalties with a gradient (SquaredNorm, HuberPenalty).  Of two smooth parts it
    is the coupling that is linearised: the proximal maps of the losses are at hand, device by device, and the step then
    does not suffer from badly scaled data.  A norm is not smooth, and the proximal map of its sum over edges is a
    network Lasso itself: it is refused.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "couplings.gradient"})

    def init(self, form: StandardForm, start: Point | None) -> ProximalGradientState:
        """Start from the given parameters, or zero."""
        W, _ = starting_arrays(form, start)
        bound = 2.0 * sum(term.map.at_nodes(term.function.smoothness) for term in form.couplings)
        steps = coupled_steps(form, np.asarray(bound))
        return ProximalGradientState(W, W, 1.0, steps, form.local.prox_operator(steps))

    def step(self, form: StandardForm, state: ProximalGradientState) -> ProximalGradientState:
        """One step from the extrapolated parameters."""
        pull = sum(term.map.adjoint(term.function.gradient(term.map.apply(state.Y))) for term in form.couplings)
        W = state.local_prox(state.Y - state.steps[:, None] * pull)
        uphill = float((((state.Y - W) * (W - state.W)) / state.steps[:, None]).sum()) > 0
        state.t, share = momentum(1.0 if uphill else state.t)
        state.Y = W + share * (W - state.W)
        state.W = W
        return state

    def point(self, form: StandardForm, state: ProximalGradientState) -> Point:
        """Parameters, and the gradients there as duals."""
        return Point(state.W, gradient_duals(form, state.W))


def momentum(t: float) -> tuple[float, float]:
    """The next ``t``, and the share of the last move to extrapolate by: (4.2) and (4.3) of Beck and Teboulle."""
    after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
    return float(after), float((t - 1.0) / after)


def coupled_steps(form: StandardForm, curvature: Array) -> Array:
    """Inverses of the devices' curvatures; where one is zero, a step that minimises the loss at once."""
    own = form.quadratic.smoothness
    alone = ALONE / np.where(own > 0, own, 1.0)
    return np.where(curvature > 0, 1.0 / np.where(curvature > 0, curvature, 1.0), alone)
