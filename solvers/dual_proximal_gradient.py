"""The accelerated proximal gradient method on the dual, for strongly convex losses.

A. Beck, M. Teboulle, "A fast dual proximal gradient algorithm for convex minimization and applications", Oper. Res.
Lett. 42 (2014), DOI 10.1016/j.orl.2013.10.007, Algorithm FDPG; with the restarts of B. O'Donoghue, E. Candes, DOI
10.1007/s10208-013-9150-3, Section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .driver import starting_arrays
from .proximal_gradient import momentum
from .standard_form import Array, Duals, Point, StandardForm

__all__ = ["DualProximalGradient"]


@dataclass(slots=True)
class DualState:
    """Duals U, the extrapolated ones V, the momentum t, the rows' steps and the projections that belong to them."""

    U: Duals
    V: Duals
    t: float
    steps: Duals
    dual_prox: tuple[Callable[[Array], Array], ...]


@dataclass(frozen=True)
class DualProximalGradient:
    """Minimise ``sum_i q_i^*(-(K^T U)_i) + g^*(U)``: gradient steps on the losses, projections onto the edges' balls.

    The gradient of ``q_i^*`` at ``s_i`` is the device's best answer to the flows, ``argmin q_i(w) - <s_i, w>``: each
    step the devices answer, and every edge moves its flow along the difference of the answers::

        W   <- best answers to V
        U_e <- V_e + sigma_e (D W)_e, then back into its ball
        V   <- U_new + (t - 1) / t_new (U_new - U_old)

    and ``t <- 1`` whenever the momentum points uphill.  What of a loss is not quadratic has a dual per data point, as
    in :class:`~gtvmin.solvers.primal_dual.PrimalDual`.

    Notes
    -----
    ``1 / sigma_r`` is the sum over the ends i of row r of its size there times the sum of the sizes of all rows at i,
    over the strong convexity ``mu_i`` of the quadratic part: a bound on the curvature of the dual by the Cauchy-Schwarz
    inequality.  Every device needs ``mu_i > 0``; the number of steps grows with the root of the largest ``1 / mu_i``.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"terms.prox", "quadratic.strongly_convex"})

    def init(self, form: StandardForm, start: Point | None) -> DualState:
        """Start from the given duals, or zero."""
        _, U = starting_arrays(form, start)
        pull = np.zeros(form.n_nodes)
        for term in form.terms:
            for end, size in zip(term.map.ends, term.map.sizes(), strict=True):
                pull += np.bincount(end, size, form.n_nodes)
        compliance = pull / form.quadratic.strong_convexity
        steps = []
        for term in form.terms:
            bound = np.zeros(term.map.n_rows)
            for end, size in zip(term.map.ends, term.map.sizes(), strict=True):
                bound += size * compliance[end]
            steps.append(1.0 / np.where(bound > 0, bound, 1.0))
        dual_prox = tuple(
            term.function.conjugate_prox_operator(step) for term, step in zip(form.terms, steps, strict=True)
        )
        return DualState(U, U, 1.0, tuple(steps), dual_prox)

    def step(self, form: StandardForm, state: DualState) -> DualState:
        """One step from the extrapolated duals."""
        W = form.quadratic.conjugate_gradient(-form.adjoint(state.V))
        U, uphill = [], 0.0
        for k, term in enumerate(form.terms):
            step = state.steps[k][:, None]
            U.append(state.dual_prox[k](state.V[k] + step * term.map.apply(W)))
            uphill += float((((state.V[k] - U[k]) * (U[k] - state.U[k])) / step).sum())
        state.t, share = momentum(1.0 if uphill > 0 else state.t)
        state.V = tuple(new + share * (new - old) for new, old in zip(U, state.U, strict=True))
        state.U = tuple(U)
        return state

    def point(self, form: StandardForm, state: DualState) -> Point:
        """The devices' best answers to the duals, and the duals."""
        return Point(form.quadratic.conjugate_gradient(-form.adjoint(state.U)), state.U)
