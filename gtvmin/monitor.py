"""The stopping test: it watches the certified gap of what a solver has."""

from __future__ import annotations

import numpy as np

from gtvmin.domain import Domain
from gtvmin.dual_repair import best_dual, complete_duals, zero_dual
from gtvmin.gap import ZERO_MODEL_SHARE, gap_terms, objective_floor, relative_gap
from gtvmin.solvers.standard_form import Assessment, Point, StandardForm

__all__ = ["GapMonitor"]

# Runs stop a little below the tolerance: the certificate adds an estimate of its rounding to the gap.
AIM = 0.95
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
    """

    def __init__(self, form: StandardForm, tolerance: float) -> None:
        self.form, self.tolerance = form, tolerance
        self.domain = Domain(form)
        self.primal, self.W = np.inf, np.zeros((form.n_nodes, form.dim))
        self.dual, self.U = zero_dual(form)
        self.floor = objective_floor(form)
        self.size = max(self.floor / ZERO_MODEL_SHARE, 0.0)
        self.gap, self.close = np.inf, False
        self.best = Point(self.W, self.U)
        self.repair_cost = 0

    def __call__(self, point: Point, iteration: int) -> Assessment:
        """Assess a point."""
        point = Point(self.domain.project(point.W), point.U)
        primal = self.form.objective(point.W)
        if primal < self.primal or not np.isfinite(self.primal):
            self.primal, self.W = primal, point.W.copy()
        latest = self.U
        if point.U is not None and self.repair_cost <= iteration:
            (dual, latest), cost = best_dual(self.form, complete_duals(self.form, point.W, point.U))
            self.repair_cost += cost if cost > 1 else 0
            if dual > self.dual:
                self.dual, self.U = dual, latest
        gap = self.primal - self.dual
        if gap > CANCELLATION * max(self.size, abs(self.primal)):
            self.gap, self.best = gap, Point(self.W, self.U)
        else:
            self._compare_terms(Point(self.W, self.U), Point(point.W, latest))
        primal = self.form.objective(self.best.W) if self.close else self.primal
        floor = objective_floor(self.form, self.best.W) if self.close else self.floor
        relative = relative_gap(self.gap, primal, floor)
        bound = primal - self.gap if np.isfinite(self.gap) else self.dual
        return Assessment(self.best, primal, bound, self.gap, relative, relative <= AIM * self.tolerance)

    def _compare_terms(self, *pairs: Point) -> None:
        """Near the end pairs are compared by their terms: a difference of objectives has no digits left."""
        if not self.close:
            self.close, self.gap = True, np.inf
        for pair in pairs:
            gap = gap_terms(self.form, pair.W, pair.U or ()).total
            if gap < self.gap:
                self.gap, self.best = gap, Point(pair.W.copy(), pair.U)
