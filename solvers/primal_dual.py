"""The preconditioned primal-dual method for GTV minimisation.

Algorithm 1 of A. Jung, "Networked Exponential Families for Big Data over Networks" / "Networked Federated Learning",
arXiv 2010.14159, which is the method of A. Chambolle and T. Pock with the diagonal preconditioners of T. Pock and
A. Chambolle, "Diagonal preconditioning for first order primal-dual algorithms in convex optimization" (ICCV 2011),
DOI 10.1109/ICCV.2011.6126441.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .driver import starting_arrays
from .standard_form import Array, Point, StandardForm

__all__ = ["PrimalDual", "PrimalDualState", "node_steps"]


@dataclass(slots=True)
class PrimalDualState:
    """Parameters W, flows U, and the two proximal maps for the current steps."""

    W: Array
    U: Array
    tau: Array
    sigma: Array
    local_prox: Callable[[Array], Array]
    flow_prox: Callable[[Array], Array]
    table: tuple[NDArray[np.int64], NDArray[np.int64], Array]


def node_steps(form: StandardForm, scale: float) -> Array:
    """``scale / degree``; a device without edges is coupled to nothing, so a huge step minimises its loss at once."""
    degree = form.neighbour_counts
    alone = 1e8 / np.where((form.local.smoothness > 0) & (form.local.smoothness < np.inf), form.local.smoothness, 1.0)
    return np.where(degree > 0, scale / np.maximum(degree, 1), alone)


@dataclass(frozen=True)
class PrimalDual:
    """Preconditioned primal-dual iteration with ``tau_i = scale / degree_i`` and ``sigma_e = 1 / (2 scale)``.

    Each step, with all devices and edges at once::

        w_i <- prox of L_i with step tau_i at w_i - tau_i (D^T U)_i                      (lines 3-7)
        U_e <- U_e + sigma_e (D (2 w_new - w_old))_e, then back into its ball          (lines 8-11)

    Parameters
    ----------
    scale : float
        Balance of the steps; 1 gives the paper's ``tau_i = 1/degree_i``, ``sigma_e = 1/2``.

    Notes
    -----
    Converges for any convex losses and any scale > 0, since ``||Sigma^(1/2) D T^(1/2)|| <= 1``.
    """

    scale: float = 1.0
    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "coupling.prox"})

    def init(self, form: StandardForm, start: Point | None) -> PrimalDualState:
        """Start from the given point, or zero."""
        from .operators import adjacency

        W, U = starting_arrays(form, start)
        tau, sigma = node_steps(form, self.scale), np.full(form.n_edges, 0.5 / self.scale)
        return PrimalDualState(
            W,
            U,
            tau,
            sigma,
            form.local.prox_operator(tau),
            form.coupling.conjugate_prox_operator(sigma),
            adjacency(form),
        )

    def step(self, form: StandardForm, state: PrimalDualState) -> PrimalDualState:
        """One primal and one dual update."""
        from .operators import dual_ascent, node_divergence

        W = state.local_prox(state.W - state.tau[:, None] * node_divergence(state.U, state.table))
        state.U = state.flow_prox(dual_ascent(state.U, 2.0 * W - state.W, form, state.sigma))
        state.W = W
        return state

    def point(self, form: StandardForm, state: PrimalDualState) -> Point:
        """The iterate itself."""
        return Point(state.W, state.U)
