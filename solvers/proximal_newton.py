"""Proximal Newton steps: the coupling as it is, every loss by its second-order model, a network Lasso at a time.

J. D. Lee, Y. Sun, M. A. Saunders, "Proximal Newton-type methods for minimizing composite functions", SIAM J. Optim. 24
(2014), DOI 10.1137/130921428, algorithm 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from .adaptive_primal_dual import AdaptivePrimalDual
from .common_minima import common_minima
from .driver import starting_arrays
from .local_models import model_form
from .smooth_duals import Expansion, nearly_reachable_duals, reachable_duals
from .standard_form import Array, Duals, Point, StandardForm

if TYPE_CHECKING:
    from .cluster_candidates import ClusterCandidates

__all__ = ["ProximalNewton"]

# Primal-dual iterations for the first model, their growth from one model to the next, and how many are enough unless
# the models' gaps no longer fall to that share of the last one, and are more than that share of the last fall.
FIRST_INNER, INNER_GROWTH, INNER = 10, 1.5, 40
FALLING, FORCING = 0.5, 0.01
LARGEST_INNER = 400
HALVINGS = 10
# Added to the curvatures, relative to the device's own but to no less than that share of their mean, for devices whose
# losses are flat in some direction.
RIDGE, LEAST_CURVATURE = 1e-7, 1e-5
# Duals of the data points are dear: they are looked for once the gap of the model, and the last fall of the objective,
# are below this share of it.
PROMISING = 2e-4
# They may cost this share of that gap.
SLACK = 0.1
# Setting up a model costs about so many iterations, which count when it is decided how much candidates may cost.
SETUP = 40
# Falls below the first share of the objective say that only duals are missing; below the second they are rounding, and
# so many of them, while the models' gaps do not fall either, that no step will find anything.
LATE, ROUNDING, STALLED = 1e-14, 1e-15, 4
# A hair less than one: a projection that rounding leaves outside of a ball would have to be repaired.
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)


@dataclass(slots=True)
class ProximalNewtonState:
    """Centre of the model with its objective and flows, and the best pair of parameters and flows of the last model.

    ``gap`` is that of the pair in its model, ``fall`` by how much the objective fell, ``inner`` the iterations
    for the next model, ``cautious`` whether it takes curvatures from above, since the last one misled.  Devices that
    are ``settled``, once that was looked for, have nothing to gain and zero duals.  ``stalled`` counts steps without
    progress.
    """

    W: Array
    U: Array
    objective: float
    best: Point
    candidates: ClusterCandidates | None
    gap: float = np.inf
    fall: float = np.inf
    inner: int = FIRST_INNER
    iterations: int = 0
    cautious: bool = True
    settled: NDArray[np.bool_] | None = None
    stalled: int = 0

    @property
    def finished(self) -> bool:
        """Whether rounding is all that steps still change."""
        return self.stalled >= STALLED


@dataclass(frozen=True)
class ProximalNewton:
    """Network Lasso problems with quadratic losses, one after the other, each the model of the last one's solution.

    The model at W_k has every loss replaced by ``L_i(w_k) + <grad L_i(w_k), w - w_k> + (w - w_k)^T H_i (w - w_k) / 2``.
    A few adaptive primal-dual iterations solve it roughly; where the penalty is the Euclidean norm, groups of devices
    that agree are found and polished as for squared losses.  What lowers the objective is the next centre.

    Notes
    -----
    A step costs little more than the iterations on the model, which need no duals of data points.  Best for logistic,
    Huber and other smooth losses under a norm.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.solvers.proximal_newton import ProximalNewton
    >>> losses = [gtv.Logistic([[1.0], [1.0], [1.0]], labels) for labels in ([1, 1, -1], [1, -1, -1])]
    >>> network = gtv.FLNetwork.from_edges([(0, 1)])
    >>> problem = gtv.GTVMin(network, losses, penalty=gtv.Norm(2), alpha=1.0)
    >>> problem.solve(ProximalNewton()).is_certified
    True
    """

    requires: ClassVar[frozenset[str]] = frozenset(
        {"rows", "local.gradient", "rows.second_derivative", "coupling.norm"}
    )
    first_check: ClassVar[int] = 3
    check_growth: ClassVar[float] = 1.1

    def init(self, form: StandardForm, start: Point | None) -> ProximalNewtonState:
        """Start from the given point, or zero."""
        W, duals = starting_arrays(form, start)
        best = Point(W) if start is None or start.U is None else Point(W, duals)
        return ProximalNewtonState(W, duals[0], form.objective(W), best, None)

    def step(self, form: StandardForm, state: ProximalNewtonState) -> ProximalNewtonState:
        """Solve one model roughly and move its centre."""
        d = form.dim
        losses = Expansion.at(form, state.W, majorant=state.cautious)
        H = losses.hessians()
        curvature = np.einsum("ijj->i", H) / d
        mean = float(curvature.mean()) or 1.0
        at_least = np.where(curvature > 0, np.maximum(curvature, LEAST_CURVATURE * mean), mean)
        H[:, range(d), range(d)] += RIDGE * at_least[:, None]
        model = model_form(form, state.W, H, losses.gradient)
        inner = AdaptivePrimalDual()
        method = inner.init(model, Point(state.W, (state.U,)))
        for _ in range(state.inner):
            inner.step(model, method)
        state.iterations += SETUP + state.inner
        points = [inner.point(model, method)]
        points += self._candidates(model, state, points[0])
        self._judge(model, state, points, H)
        self._move(form, state, points)
        return state

    def _candidates(self, model: StandardForm, state: ProximalNewtonState, point: Point) -> list[Point]:
        """Polished parameters, and a flow that may prove them, where the model is a network Lasso."""
        from .cluster_candidates import ClusterCandidates
        from .norm_network import NormNetwork

        network = NormNetwork.of(model)
        if network is None:
            return []
        if state.candidates is None:
            state.candidates = ClusterCandidates(model, network)
        state.candidates.form, state.candidates.network = model, network
        return list(state.candidates(point, state.iterations))

    def _judge(self, model: StandardForm, state: ProximalNewtonState, points: list[Point], H: Array) -> None:
        """Keep the pair with the smallest gap in the model, and set the number of iterations for the next one."""
        from .newton_systems import factor_blocks, solve_blocks

        factors = H.copy()
        factor_blocks(factors)
        last, state.gap = state.gap, np.inf
        for point in points:
            if point.U is None:
                continue
            flow = _inside(model, point.U[0])
            if state.settled is not None:
                flow = np.where(state.settled[model.edges.tail][:, None], 0.0, flow)
            residual = model.local.gradient(point.W) + model.edges.adjoint(flow)
            gap = 0.5 * float(np.einsum("ij,ij->", residual, solve_blocks(factors, residual)))
            gap += float(model.coupling.fenchel_young(model.edges.apply(point.W), flow).sum())
            if gap < state.gap:
                state.gap, state.best, state.U = gap, Point(point.W, (flow,)), flow
        if state.candidates is not None and state.best.W is points[-1].W and len(points) > 1:
            state.candidates.next_flow = 0.0  # what fits one model is soon found for the next
        rounding = ROUNDING * abs(state.objective)
        steady = state.gap > FALLING * last
        state.stalled = state.stalled + 1 if steady and state.fall <= rounding else 0
        slow = state.inner >= INNER and steady and state.gap > max(FORCING * state.fall, rounding)
        state.inner = min(int(INNER_GROWTH * state.inner), LARGEST_INNER if slow else max(INNER, state.inner))

    def _move(self, form: StandardForm, state: ProximalNewtonState, points: list[Point]) -> None:
        """The next centre: the lowest of the points, or one on the way to it."""
        distinct = {id(point.W): point.W for point in points}.values()
        objective, W = min(((form.objective(W), W) for W in distinct), key=lambda pair: pair[0])
        state.cautious = False
        for _ in range(HALVINGS):
            if objective < state.objective:
                state.fall, state.W, state.objective = state.objective - objective, W, objective
                return
            state.cautious = True
            W = 0.5 * (W + state.W)
            objective = form.objective(W)
        state.fall = 0.0

    def point(self, form: StandardForm, state: ProximalNewtonState) -> Point:
        """The centre and the flows of the last model, with duals of the data points once it is promising."""
        best = state.best
        if best.U is None or len(best.U) == len(form.terms):
            return best
        promising = max(state.gap, state.fall) <= PROMISING * abs(state.objective)
        late = state.fall <= LATE * abs(state.objective)
        duals: Duals | None = None
        if promising:
            duals = reachable_duals(form, best.W, best.U, SLACK * state.gap, shrink=not late)
        if duals is None and (promising or state.cautious) and state.settled is None:
            _settle(form, state)
        elif duals is not None:
            state.best = Point(state.W, _at_rest(form, state, duals))
            return state.best
        elif promising and late:  # their repair, which is dear, moves the flows too
            return Point(state.W, _at_rest(form, state, nearly_reachable_duals(form, best.W, best.U)))
        return Point(state.W)


def _inside(model: StandardForm, U: Array) -> Array:
    """Flows with those scaled back that rounding left outside of their balls."""
    gauge = np.maximum(model.coupling.dual_gauge(U), 1.0)
    return U if gauge.max(initial=1.0) == 1.0 else np.where(gauge > 1.0, INSIDE / gauge, 1.0)[:, None] * U


def _settle(form: StandardForm, state: ProximalNewtonState) -> None:
    """Move components whose losses have their infima at infinity there, at once."""
    W, state.settled = common_minima(form)
    state.W = np.where(state.settled[:, None], W, state.W)
    state.U = np.where(state.settled[form.edges.tail][:, None], 0.0, state.U)
    state.objective = form.objective(state.W)


def _at_rest(form: StandardForm, state: ProximalNewtonState, duals: Duals) -> Duals:
    """Duals with those of settled devices' data points zero."""
    if state.settled is None or not state.settled.any():
        return duals
    rows = zip(form.rows, duals[1:], strict=True)
    return duals[0], *(np.where(state.settled[term.map.ends[0]][:, None], 0.0, dual) for term, dual in rows)
