"""The primal-dual method with over-relaxation, restarts from averages and a step balance that adapts to the units.

Relaxation: L. Condat, "A primal-dual splitting method for convex optimization involving Lipschitzian, proximable and
linear composite terms", JOTA 158 (2013), DOI 10.1007/s10957-012-0245-9, Algorithm 3.1.
Restarts and balance: D. Applegate et al., "Practical large-scale linear programming using primal-dual hybrid gradient"
(PDLP, 2021), arXiv 2106.04756, Sections 3.2 and 3.3 (the primal weight).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .driver import starting_arrays
from .feature_weights import feature_weights
from .primal_dual import PrimalDual, curvature, step_sizes
from .standard_form import Array, Duals, Point, StandardForm

if TYPE_CHECKING:
    from .sweeps import Sweep

__all__ = ["AdaptivePrimalDual"]

Iterate = tuple[Array, Duals]
"""Parameters and duals."""

# Iterations between decisions on a restart.
LOOK_EVERY = 40
# The average is over each fourth iterate: adding up all of them would cost a good part of the time.
SAMPLE_EVERY = 4
# Restart once the residual fell by the first share; or by the second, and rises again; or if this share of all
# iterations passed since the last restart.
SUFFICIENT, NECESSARY = 0.2, 0.8
LONGEST_SHARE = 0.36
# The balance is looked at each time so many times the iterations are done, counted in tens.  What moved before the
# first of them, on the way from the start, says nothing about the rest.
ADAPTATION_GROWTH, ADAPTATION_UNIT = 1.2, 10
FACTOR_RANGE = (1.0 / 3.0, 3.0)
SMALLEST_FACTOR = 1.3
# A parameter stands still whose squared movements are no more than this share of those of all.
STILL = 1e-6
START_SHARE, WARM_SHARE = 0.1, 0.1
FIT_RIDGE = 1e-3


@dataclass(slots=True)
class AdaptiveState:
    """The relaxed iterate, its pull ``sum_k K_k^T U_k``, the steps and their scale, and what restarts need.

    Iterates are arranged as the sweep has them.

    ``total`` and ``count`` belong to iterates since the restart at iteration ``restarted``, ``residual`` and
    ``last_look`` are residuals at that restart and at the last decision, ``balanced`` is the iterate when the scale was
    last looked at, if it was.
    """

    iterate: Iterate
    pull: Array
    scale: float
    sweep: Sweep
    total: Iterate
    balanced: Iterate | None = None
    count: int = 0
    iteration: int = 0
    restarted: int = 0
    next_adaptation: int = LOOK_EVERY
    residual: float = np.inf
    last_look: float = np.inf


@dataclass(frozen=True)
class AdaptivePrimalDual:
    """Over-relaxed primal-dual iteration that restarts from averages, with a balance that follows the iterates.

    Parameters
    ----------
    relaxation : float
        Over-relaxation in (0, 2); the iterates move that many times the plain step.
    scale : float, optional
        First balance ``tau_i = scale / degree_i``, ``sigma_e = 1 / (2 scale)``.  Default: estimated from a start that
        has duals, or else from the spread of the local fits and the size of the flows that would hold them together.

    Raises
    ------
    ValueError
        If relaxation or scale is out of range.

    Notes
    -----
    Where the objective is piecewise linear (absolute errors, hinges, few labels on a long path), iterates spiral around
    the solution, and their average is far closer to it.  Every 40 iterations the average and the iterate are compared
    by how far a plain step moves them; the better one is the next start once it moves clearly less than the last start.
    The balance changes ever more rarely (each time 1.2 times as many iterations are done), so that the method has the
    plain method's guarantee between changes.  Where features are in very different units, each parameter has a balance
    of its own (:mod:`gtvmin.solvers.feature_weights`).
    """

    relaxation: float = 1.8
    scale: float | None = None
    requires: ClassVar[frozenset[str]] = PrimalDual.requires

    def __post_init__(self) -> None:
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation must be between 0 and 2, got {self.relaxation!r}: beyond, iterates diverge")
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise ValueError(f"scale must be a finite number > 0, got {self.scale!r}")

    def init(self, form: StandardForm, start: Point | None) -> AdaptiveState:
        """Estimate the balance and start from the given point, or zero."""
        from .sweeps import Sweep

        first = starting_arrays(form, start)
        weights = feature_weights(form)
        scale = self.scale or _scale_of(form, first, weights) or estimate_scale(form, weights)
        sweep = Sweep.of(form, scale, weights)
        first = sweep.arranged(first)
        return AdaptiveState(first, sweep.pull(first[1]), scale, sweep, _zeros(first))

    def step(self, form: StandardForm, state: AdaptiveState) -> AdaptiveState:
        """One relaxed step; now and then, a restart."""
        state.sweep.advance(state.iterate, state.pull, self.relaxation)
        state.iteration += 1
        if state.iteration % SAMPLE_EVERY == 0:
            _add(state.total, state.iterate)
            state.count += 1
        if state.iteration % LOOK_EVERY == 0:
            self._look(state)
        if state.iteration >= state.next_adaptation:
            self._adapt(state)
        return state

    def _look(self, state: AdaptiveState) -> None:
        """Restart from the average or the iterate, if either moves clearly less than the last start."""
        sweep = state.sweep
        residual = sweep.length(sweep.plain_step(state.iterate, state.pull), state.iterate)
        if not state.count:
            return
        average = state.total[0] / state.count, tuple(dual / state.count for dual in state.total[1])
        trial = sweep.plain_step(average, sweep.pull(average[1]))
        of_average = sweep.length(trial, average)
        least = min(residual, of_average)
        rising = least <= NECESSARY * state.residual and least > state.last_look
        long = state.iteration - state.restarted >= LONGEST_SHARE * state.iteration
        if not (least <= SUFFICIENT * state.residual or rising or long):
            state.last_look = least
            return
        if of_average < residual:
            state.iterate, state.pull = trial, sweep.pull(trial[1])
        _restart(state, least)

    def _adapt(self, state: AdaptiveState) -> None:
        """Move the scale, or each parameter's, by the root of the ratio of primal to dual movement since last time."""
        last, state.balanced = state.balanced, _copy(state.iterate)
        state.next_adaptation = ADAPTATION_UNIT * int(np.ceil(ADAPTATION_GROWTH * state.iteration / ADAPTATION_UNIT))
        if last is None:
            return
        factors = _factors(*state.sweep.parts(state.iterate, last))
        if (factors == 1.0).all():
            return
        weights, mean = state.sweep.weights, float(factors[0])
        if len(factors) > 1:
            mean = float(np.exp(np.log(factors).mean()))
            weights = weights * factors / mean
        state.scale *= mean
        state.sweep = state.sweep.rescaled(state.scale, weights)
        _restart(state, np.inf)

    def point(self, form: StandardForm, state: AdaptiveState) -> Point:
        """Where a plain step leads from the iterate: unlike those of the iterate, its flows are inside their balls."""
        sweep = state.sweep
        found = _copy(state.iterate) if state.iteration == 0 else sweep.plain_step(state.iterate, state.pull)
        return Point(*sweep.restored(found))


def _factors(primal: Array, dual: Array) -> Array:
    """Factors of scales from squared movements; one where they are small or hardly anything moved."""
    moved = (primal > 0) & (dual > 0) & ((primal > STILL * primal.sum()) | (dual > STILL * dual.sum()))
    ratio = np.where(moved, primal, 1.0) / np.where(moved, dual, 1.0)
    factors = np.clip(ratio**0.25, *FACTOR_RANGE)
    return np.asarray(np.where(np.maximum(factors, 1.0 / factors) < SMALLEST_FACTOR, 1.0, factors))


def _restart(state: AdaptiveState, residual: float) -> None:
    """Begin a new average."""
    state.restarted, state.residual, state.last_look = state.iteration, residual, np.inf
    state.total, state.count = _zeros(state.total), 0


def _copy(point: Iterate) -> Iterate:
    return point[0].copy(), tuple(dual.copy() for dual in point[1])


def _zeros(point: Iterate) -> Iterate:
    return np.zeros_like(point[0]), tuple(np.zeros_like(dual) for dual in point[1])


def _add(total: Iterate, point: Iterate) -> None:
    """Add a point to a sum in place."""
    for into, part in zip((total[0], *total[1]), (point[0], *point[1]), strict=True):
        into += part


def _scale_of(form: StandardForm, start: Iterate, weights: Array) -> float:
    """Spread of a start's parameters over the size of its duals, of which a share is still to go; zero if unknown."""
    if not any(dual.any() for dual in start[1]):
        return 0.0
    tau, sigmas = step_sizes(form, 1.0)
    spread = float(((start[0] - start[0].mean(axis=0)) ** 2 / (tau[:, None] * weights)).sum())
    size = sum(_size(dual, sigma, weights) for dual, sigma in zip(start[1], sigmas, strict=True))
    return WARM_SHARE * float(np.sqrt(spread / size)) if 0 < spread < np.inf and 0 < size < np.inf else 0.0


def _size(dual: Array, sigma: Array, weights: Array) -> float:
    """Squared norm of a term's duals in the metric of the steps; weights other than one are for a single term."""
    own = weights if dual.shape[1] == len(weights) else 1.0
    return float((own * dual**2 / sigma[:, None]).sum())


def estimate_scale(form: StandardForm, weights: Array) -> float:
    """Spread of the devices' own fits over the size of the duals that belong to them."""
    size_of_losses = curvature(form)
    labelled = size_of_losses > 0
    if not form.terms or not labelled.any():
        return 1.0
    step = np.where(labelled, 1.0 / (FIT_RIDGE * np.where(labelled, size_of_losses, 1.0)), 1.0)
    fits = form.quadratic.prox(np.zeros((form.n_nodes, form.dim)), step)
    fits[~labelled] = fits[labelled].mean(axis=0)
    tau, sigmas = step_sizes(form, 1.0)
    spread = float(((fits - fits[labelled].mean(axis=0)) ** 2 / (tau[:, None] * weights)).sum())
    size = 0.0
    for term, sigma in zip(form.terms, sigmas, strict=True):
        # sigma -> infinity turns the dual update into a subgradient at the fits
        big = np.full(term.map.n_rows, 1e8)
        # outside the domain of a function there is none, and the duals would be as large as sigma
        rows = term.function.project_primal(term.map.apply(fits))
        duals = term.function.conjugate_prox_operator(big)(big[:, None] * rows)
        size += _size(0.5 * duals, sigma, weights)
    if not (0 < spread < np.inf and 0 < size < np.inf):
        return 1.0
    return START_SHARE * float(np.sqrt(spread / size))
