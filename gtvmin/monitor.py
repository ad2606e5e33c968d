"""The stopping test: it watches the certified gap of what a solver has."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from gtvmin.domain import Domain
from gtvmin.dual_repair import best_dual, complete_duals, dual_value, zero_dual
from gtvmin.gap import ZERO_MODEL_SHARE, gap_terms, objective_floor, relative_gap
from gtvmin.solvers.standard_form import Array, Assessment, Duals, Point, StandardForm

__all__ = ["GapMonitor", "Improve"]

Improve = Callable[[Point, int], Iterable[Point]]
"""``(point, iteration) -> points`` that may be better; duals among them count if they are feasible as they are."""

# Runs stop a little below the tolerance: the certificate adds an estimate of its rounding to the gap.
AIM = 0.95
# Costly repairs are for duals near the end: between two assessments the objective changes by no more than this share,
# or the root of the tolerance.  Where something else proposes duals they are the last resort: the change must be within
# the tolerance, and so many times the iterations done since better duals came from there.
SETTLED = 1e-3
REPAIR_PATIENCE = 4
# Repairs that leave this share of the tolerance are good enough.
ENOUGH = 0.9
# Once cheap repairs come within so many times the tolerance, the solver's next steps will do the rest; the dear one is
# tried all the same from the iteration on at which it is paid for.
NEAR, DEAR = 3.0, 6000
# Objective minus bound loses its digits below this share of the objective's parts; the terms do not.
CANCELLATION = 1e-9


class GapMonitor:
    """Stopping test on the certified relative gap: keeps the best parameters and the best feasible duals seen.

    Parameters are moved into the domain of the losses first, since solvers meet constraints in the limit only.

    Repairing duals can cost as much as many iterations; it is done only while its share of the run stays bounded.

    Parameters
    ----------
    form : StandardForm
        The problem's arrays.
    tolerance : float
        Relative gap to reach.
    improve : callable, optional
        Proposes further points when one is assessed.  They are judged as the solver's are.
    """

    def __init__(self, form: StandardForm, tolerance: float, improve: Improve | None = None) -> None:
        self.form, self.tolerance, self.improve = form, tolerance, improve
        self.domain = Domain(form)
        self.primal, self.W = np.inf, np.zeros((form.n_nodes, form.dim))
        self.dual, self.U = zero_dual(form)
        self.floor = objective_floor(form)
        self.size = max(self.floor / ZERO_MODEL_SHARE, 0.0)
        self.gap, self.close = np.inf, False
        self.best = Point(self.W, self.U)
        # where losses put no conditions on them, duals are repaired row by row
        self.cheap = bool(form.quadratic.full_span.all())
        self.settled = tolerance if improve is not None else max(SETTLED, np.sqrt(max(tolerance, 0.0)))
        self.repair_cost, self.next_repair, self.last_primal = 0, 0, np.inf

    def __call__(self, point: Point, iteration: int) -> Assessment:
        """Assess a point."""
        W = self.domain.project(point.W)
        primal = self._keep_parameters(W)
        latest = Point(self.W if primal == self.primal else W, self.U)
        duals = None if point.U is None else complete_duals(self.form, W, point.U)
        feasible = duals is None
        if duals is not None:
            value = zero_dual(self.form)[0] if _is_zero(duals) else dual_value(self.form, duals)
            feasible = bool(np.isfinite(value))
            if feasible:
                latest = Point(latest.W, self.U if self._keep_duals(value, duals) else duals)
        for candidate in () if self.improve is None else self.improve(Point(W, point.U), iteration):
            self._keep_parameters(candidate.W)
            if candidate.U is not None and self._keep_duals(dual_value(self.form, candidate.U), candidate.U):
                self.next_repair = REPAIR_PATIENCE * iteration
        assessment = self._assess(latest)
        change, self.last_primal = abs(primal - self.last_primal), primal
        if (
            duals is None
            or feasible
            or assessment.converged
            or not self._may_repair(iteration, change / abs(primal or 1))
        ):
            return assessment
        size = max(abs(self.primal), self.floor)
        enough = self.primal - ENOUGH * self.tolerance * size if self.tolerance > 0 else np.inf
        near = self.primal - NEAR * self.tolerance * size if iteration < DEAR else np.inf
        (value, repaired), cost = best_dual(self.form, duals, enough=enough, near=near)
        self.repair_cost += cost if cost > 1 else 0
        self._keep_duals(value, repaired)
        return self._assess(Point(W, repaired))

    def _may_repair(self, iteration: int, change: float) -> bool:
        """Whether a costly repair is affordable by now, and may lead to something."""
        return max(self.repair_cost, self.next_repair) <= iteration and (self.cheap or change <= self.settled)

    def _keep_parameters(self, W: Array) -> float:
        primal = self.form.objective(W)
        if primal < self.primal or not np.isfinite(self.primal):
            self.primal, self.W = primal, W.copy()
        return primal

    def _keep_duals(self, dual: float, U: Duals) -> bool:
        better = dual > self.dual
        if better:
            self.dual, self.U = dual, tuple(part.copy() for part in U)
        return better

    def _assess(self, latest: Point) -> Assessment:
        """What the best parameters and the best duals prove, and near the end the latest ones."""
        gap = self.primal - self.dual
        if not self.close and gap > CANCELLATION * max(self.size, abs(self.primal)):
            self.gap, self.best = gap, Point(self.W, self.U)
            primal, floor = self.primal, self.floor
        else:
            self._compare_terms(Point(self.W, self.U), latest)
            primal = self.primal if self.best.W is self.W else self.form.objective(self.best.W)
            floor = objective_floor(self.form, self.best.W, abs(primal))
        relative = relative_gap(self.gap, primal, floor)
        bound = primal - self.gap if np.isfinite(self.gap) else self.dual
        return Assessment(self.best, primal, bound, self.gap, relative, relative <= AIM * self.tolerance)

    def _compare_terms(self, *pairs: Point) -> None:
        """Near the end pairs are compared by their terms: a difference of objectives has no digits left."""
        if not self.close:
            self.close, self.gap = True, np.inf
        first = pairs[0]
        for pair in pairs:
            if pair is not first and pair.W is first.W and pair.U is first.U:
                continue
            gap = gap_terms(self.form, pair.W, pair.U or ()).total
            if gap < self.gap:
                self.gap, self.best = gap, pair if pair is first else _copy(pair)


def _is_zero(U: Duals) -> bool:
    return not any(dual.any() for dual in U)


def _copy(point: Point) -> Point:
    return Point(point.W.copy(), None if point.U is None else tuple(part.copy() for part in point.U))
