"""The duality gap as a sum of Fenchel-Young terms, and the stopping test that watches it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtvmin.domain import Domain
from gtvmin.dual_repair import best_dual, complete_duals, dual_value, span_residual, zero_dual
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array, Assessment, Duals, Point, StandardForm

__all__ = ["GapMonitor", "GapTerms", "gap_rounding", "gap_terms", "objective_floor", "relative_gap"]

# The gap is relative to the objective, but to no less than this share of the objective of the zero model: where a
# perfect fit has objective 0, no gap would be small against it.
ZERO_MODEL_SHARE = 1e-10
COUPLING_SHARE = 1e-9
# Runs stop a little below the tolerance: the certificate adds an estimate of its rounding to the gap.
AIM = 0.95
# Objective minus bound loses its digits below this share of the objective's parts; the terms do not.
CANCELLATION = 1e-9


@dataclass(frozen=True, slots=True)
class GapTerms:
    """Fenchel-Young terms of a primal and a dual point, each at least zero.

    Attributes
    ----------
    per_node : array (n_nodes,)
        Of the devices' quadratic parts.
    per_row : tuple of arrays
        Of the rows of each term of the form.
    infeasibility : float
        Largest violation of a device's linear conditions, relative to the throughput.
    """

    per_node: Array
    per_row: tuple[Array, ...]
    infeasibility: float

    @property
    def total(self) -> float:
        """Sum of all terms."""
        return float(self.per_node.sum() + sum(float(rows.sum()) for rows in self.per_row))


def gap_terms(form: StandardForm, W: Array, U: Duals) -> GapTerms:
    """Terms of the gap between the objective at W and the bound of feasible duals U."""
    inside, off, throughput = span_residual(form, U)
    per_node = form.quadratic.fenchel_young(W, inside)
    per_row = tuple(
        term.function.fenchel_young(term.evaluate(W)[0], dual) for term, dual in zip(form.terms, U, strict=True)
    )
    if not np.isfinite(dual_value(form, U)):
        per_node = np.where(off > 0, np.inf, per_node)
    share = float((off / np.where(throughput > 0, throughput, 1.0)).max(initial=0.0))
    return GapTerms(per_node, per_row, share)


def gap_rounding(form: StandardForm, W: Array, U: Duals) -> float:
    """Estimate of the floating-point error in the sum of the gap's terms."""
    inside, off, _ = span_residual(form, U)
    rounding = float(form.quadratic.rounding(W, inside).sum())
    # what is left of the linear conditions shifts the bound by <off_i, w_i* - w_i>
    rounding += float(off.sum() * np.linalg.norm(W, axis=1).max(initial=0.0))
    for term, dual in zip(form.terms, U, strict=True):
        rows, error = term.evaluate(W)
        # a row that was moved into its function's domain: the terms add up to P(W) - Dual(U) plus <dual, move>
        shift = np.linalg.norm(dual, axis=1) * error
        rounding += float((term.function.rounding(rows, dual) + shift).sum())
    return rounding


def objective_floor(form: StandardForm, W: Array | None = None) -> float:
    """Least size that a gap is compared with: a share of the zero model's objective.

    Given parameters, also a share of the penalties at ``|w_head| + |w_tail|``: where neighbours agree, the last bit of
    their parameters changes the objective by about that times the machine precision.
    """
    zero_model = abs(form.objective(Domain(form).project(np.zeros((form.n_nodes, form.dim)))))
    floor = ZERO_MODEL_SHARE * zero_model if np.isfinite(zero_model) else 0.0
    if W is None:
        return floor
    for term in form.couplings:
        if isinstance(term.map, EdgeDifference) and not term.function.restricted:
            tail, head = (np.abs(W[end]) for end in term.map.ends)
            floor = max(floor, COUPLING_SHARE * float(term.function.value(tail + head).sum()))
    return floor


def relative_gap(gap: float, primal: float, floor: float) -> float:
    """The gap over the largest of the objective, the bound and the floor; ``inf`` for an infinite gap."""
    if gap == np.inf:
        return np.inf
    size = max(abs(primal), abs(primal - gap), floor)
    if size == 0:
        return 0.0 if gap == 0 else np.inf
    return gap / size


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
