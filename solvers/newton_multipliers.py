"""The method of multipliers with semismooth Newton steps, for losses with second derivatives.

X. Li, D. Sun, K.-C. Toh, "A highly efficient semismooth Newton augmented Lagrangian method for solving Lasso problems",
SIAM J. Optim. 28 (2018), DOI 10.1137/16M1097572, algorithms SSNAL and SSN; for pairwise couplings D. Sun, K.-C. Toh,
Y. Yuan, "Convex clustering: model, theoretical guarantee and efficient algorithm", JMLR 22 (2021).  The proximal term
is that of R. T. Rockafellar, "Augmented Lagrangians and applications of the proximal point algorithm in convex
programming", Math. Oper. Res. 1 (1976), DOI 10.1287/moor.1.2.97.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .driver import starting_arrays
from .smooth_duals import hessians, row_duals
from .standard_form import Array, Point, StandardForm, dot

__all__ = ["NewtonMultipliers"]

PENALTY_GROWTH = 3.0
# Beyond this multiple of the first penalty, rounding in the envelopes is all that is left.
LARGEST_PENALTY = 1e7
# From this share of the largest penalty on, duals that do not meet the linear conditions are handed out for repair.
REPAIR_SHARE = 1e-3
# The penalty to start with if the start has flows already.
WARM_PENALTY = 100.0
# Weight of the proximal term, relative to the mean curvature of the losses; it shrinks as the penalty's root grows.
# Devices without data whose flows are all at their bounds have no other curvature: if it shrank faster, Newton steps
# would leap from kink to kink.
PROXIMAL_SHARE = 1e-3
# A subproblem is solved once its gradient is below this share of the flows' change.
ACCURACY = 0.2
CG_TOLERANCE, CG_LIMIT = 0.02, 200
SUFFICIENT_DECREASE, HALVINGS = 1e-4, 30
# Changes of the value below this share of it are rounding.
ROUNDING = 1e-12
EPS = float(np.finfo(float).eps)


@dataclass(slots=True)
class MultiplierState:
    """Parameters W and multipliers U, flows F of the present subproblem, its centre, penalty and value.

    ``solved`` are the parameters and flows of the last subproblem that was solved, if any.  A ``cautious`` step takes
    curvatures that bound Huber functions from above: Newton steps overshoot where most data points are outliers.  It is
    ``late`` once rounding or a large penalty limits what further steps can do.
    """

    W: Array
    U: Array
    F: Array
    centre: Array
    penalty: float
    proximal: float
    value: float
    largest: float
    solved: Point | None
    cautious: bool = True
    late: bool = False


@dataclass(frozen=True)
class NewtonMultipliers:
    """Newton's method on the smooth losses plus the coupling's Moreau envelope around the present flows.

    For flows U and a penalty sigma, the subproblem

    ``min_W  sum_i L_i(w_i) + e_sigma(D W + U / sigma) + mu/2 ||W - W_k||^2``

    is smooth, and the gradient of the envelope e is the projection ``prox_{sigma g^*}(U + sigma D W)``, the next U.
    Each step is one Newton step on it with a line search; the system is solved by conjugate gradients.  Once the
    gradient is small against the change of the flows, these are the next U, and sigma grows.

    Parameters
    ----------
    penalty : float, optional
        First penalty sigma.  Default: the mean curvature of the losses over the mean degree.

    Raises
    ------
    ValueError
        If penalty is not positive.

    Notes
    -----
    Takes few, dear steps: best where a high accuracy is asked, and for logistic and other losses whose proximal map has
    no formula.  Data points get the duals at which the losses' conjugates are reached, so that the linear conditions
    hold without repair.
    """

    penalty: float | None = None
    requires: ClassVar[frozenset[str]] = frozenset(
        {"local.gradient", "rows.second_derivative", "coupling.prox", "coupling.prox_derivative"}
    )
    first_check: ClassVar[int] = 16

    def __post_init__(self) -> None:
        if self.penalty is not None and not 0 < self.penalty < np.inf:
            raise ValueError(f"penalty must be a finite number > 0, got {self.penalty!r}")

    def init(self, form: StandardForm, start: Point | None) -> MultiplierState:
        """Start from the given point, or zero."""
        W, duals = starting_arrays(form, start)
        warm = start is not None and start.U is not None
        H = hessians(form, W)
        curvature = float(np.einsum("ijj->", H)) / H[:, :, 0].size
        degree = 2.0 * form.n_edges / form.n_nodes
        penalty = self.penalty
        if penalty is None:
            penalty = (curvature if curvature > 0 else 1.0) / max(degree, 1.0) * (WARM_PENALTY if warm else 1.0)
        # without edges there are no multipliers to wait for: the losses alone are minimised
        proximal = PROXIMAL_SHARE * curvature if form.n_edges else 0.0
        state = MultiplierState(W, duals[0], duals[0], W, penalty, proximal, 0.0, LARGEST_PENALTY * penalty, None)
        if warm:
            state.solved = Point(W, duals)
        state.value, state.F = self._evaluate(form, state, W)
        return state

    def _evaluate(self, form: StandardForm, state: MultiplierState, W: Array) -> tuple[float, Array]:
        """Value of the subproblem at W, and the flows there."""
        sigma = np.full(form.n_edges, state.penalty)
        V = state.U + state.penalty * form.edges.apply(W)
        F = form.coupling.conjugate_prox_operator(sigma)(V)
        # the envelope by Moreau's identity: the value at the proximal point plus the squared distance to it
        envelope = float(form.coupling.value((V - F) / state.penalty).sum()) + 0.5 * dot(F, F) / state.penalty
        move = W - state.centre
        return float(form.local.value(W).sum()) + envelope + 0.5 * state.proximal * dot(move, move), F

    def step(self, form: StandardForm, state: MultiplierState) -> MultiplierState:
        """One Newton step; then the next subproblem, if this one is solved."""
        gradient = self._gradient(form, state, state.W, state.F)
        change = state.F - state.U
        if dot(gradient, gradient) <= ACCURACY**2 * dot(change, change):
            self._next(form, state, PENALTY_GROWTH)
        elif not self._newton(form, state, gradient):
            self._next(form, state, 1.0)
        return state

    def _gradient(self, form: StandardForm, state: MultiplierState, W: Array, F: Array) -> Array:
        """Gradient of the subproblem at W, where the flows are F."""
        proximal = state.proximal * (W - state.centre)
        return np.asarray(form.local.gradient(W) + proximal + form.edges.adjoint(F))

    def _newton(self, form: StandardForm, state: MultiplierState, gradient: Array) -> bool:
        """Take a step; False if there is none that leads further, since rounding hides it."""
        from .newton_systems import EdgeJacobian, solve_newton_system

        H = hessians(form, state.W, majorant=state.cautious)
        d = form.dim
        H[:, range(d), range(d)] += max(state.proximal, EPS * float(np.abs(H).max(initial=0.0)))
        sigma = np.full(form.n_edges, state.penalty)
        V = state.U + state.penalty * form.edges.apply(state.W)
        jacobian = EdgeJacobian(
            form.edges.tail, form.edges.head, sigma, *form.coupling.conjugate_prox_derivative(V, sigma)
        )
        move, _ = solve_newton_system(H, jacobian, gradient.copy(), CG_TOLERANCE, CG_LIMIT)
        decrease = dot(gradient, move)
        length = 1.0
        for _ in range(HALVINGS):
            W = state.W - length * move
            value, F = self._evaluate(form, state, W)
            if length * decrease > ROUNDING * abs(state.value):
                lower = value <= state.value - SUFFICIENT_DECREASE * length * decrease
            else:
                rest = self._gradient(form, state, W, F)
                lower = dot(rest, rest) < dot(gradient, gradient)
                if not lower:
                    return False
            if lower:
                state.W, state.value, state.F = W, value, F
                state.cautious = length < 1.0
                return True
            length *= 0.5
        return False

    def _next(self, form: StandardForm, state: MultiplierState, growth: float) -> None:
        """The flows become the multipliers of the next subproblem."""
        # projections leave some flows a rounding error outside
        gauge = np.maximum(form.coupling.dual_gauge(state.F), 1.0)
        inside = np.where(gauge > 1.0, (1.0 - 4.0 * EPS) / gauge, 1.0)[:, None] * state.F
        state.solved = Point(state.W, (inside,))
        state.U, state.centre = state.F, state.W
        state.penalty = min(growth * state.penalty, state.largest)
        state.proximal /= np.sqrt(growth)
        state.late |= growth == 1.0 or state.penalty >= REPAIR_SHARE * state.largest
        state.value, state.F = self._evaluate(form, state, state.W)

    def point(self, form: StandardForm, state: MultiplierState) -> Point:
        """Parameters, and the flows of the last subproblem with duals of the data points."""
        if state.solved is None or state.solved.U is None:
            return Point(state.W)
        if len(state.solved.U) < len(form.terms):
            duals = row_duals(form, state.solved.W, state.solved.U)
            if duals is None and not state.late:
                return Point(state.W)
            if duals is None:  # their repair, which is dear, moves the flows too
                at = state.solved.W
                duals = tuple(term.function.gradient(term.map.apply(at)) for term in form.rows)
            state.solved = Point(state.solved.W, (*state.solved.U, *duals))
        return Point(state.W, state.solved.U)
