"""How good the models of a round are for the declared program, certified."""

from __future__ import annotations

import warnings

import numpy as np

from gtvmin.certificates import Certificate, certify
from gtvmin.domain import Domain
from gtvmin.dual_repair import best_dual, complete_duals, zero_dual
from gtvmin.errors import GtvminWarning
from gtvmin.federated.program import Program
from gtvmin.gap import gap_terms, objective_floor, relative_gap
from gtvmin.problem import GTVMin
from gtvmin.solvers.standard_form import Array, Assessment, Duals, Point, StandardForm

__all__ = ["ProgramMonitor"]

# Below this share of the objective the difference of objective and bound has lost its digits; the gap's terms have not.
CANCELLATION = 1e-9
BASELINE_GAP = 1e-11


class ProgramMonitor:
    """Stopping test of a federated run: the gap of the current models on the declared program.

    Its bound comes from the gradients at the models: of the couplings, of the data points, and in consensus those of
    the devices less their mean.  The best bound so far is kept, the models are always the current ones.

    A program that is not smooth is solved first, for its bound.

    Parameters
    ----------
    program : Program
        With a problem.
    tolerance : float
        Relative gap to reach; 0 for none.
    """

    def __init__(self, program: Program, tolerance: float) -> None:
        if program.problem is None:
            raise ValueError(f"there is no program to assess models on: {program.note}")
        self.problem: GTVMin = program.problem
        self.program, self.tolerance = program, tolerance
        self.lowered = self.problem.lowered
        self.form = self.lowered.solver_form
        self.domain = Domain(self.form)
        self.dual, self.U = zero_dual(self.form)
        self.floor = objective_floor(self.form)
        terms = (*self.form.couplings, *self.form.rows)
        if not all("gradient" in term.function.capabilities for term in terms):
            self._start_from_a_solution()

    def _start_from_a_solution(self) -> None:
        """Subgradients at kinks prove little: the bound is that of a certified solution of the program."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GtvminWarning)
            certificate = self.problem.solve(gap=BASELINE_GAP).certificate
        duals = self.lowered.shrink(Point(certificate.W, certificate.duals)).U
        if duals is not None:
            (self.dual, self.U), _ = best_dual(self.form, duals, known=(self.dual, self.U))

    def __call__(self, point: Point, iteration: int) -> Assessment:
        """Assess the devices' models; the assessment's point is theirs."""
        placed, own = self._place(point)
        (dual, latest), _ = best_dual(self.form, complete_duals(self.form, placed.W, placed.U or ()))
        if dual > self.dual:
            self.dual, self.U = dual, latest
        primal = self.form.objective(placed.W)
        gap = primal - self.dual
        if not gap > CANCELLATION * max(self.floor, abs(primal)):
            gap = min(gap_terms(self.form, placed.W, duals).total for duals in (self.U, latest))
        relative = relative_gap(gap, primal, self.floor)
        reached = self.tolerance > 0 and relative <= 0.95 * self.tolerance
        return Assessment(own, primal, primal - gap, gap, relative, reached)

    def certificate(self, point: Point) -> Certificate:
        """Certificate of the devices' models on the program."""
        placed, _ = self._place(point)
        (_, latest), _ = best_dual(self.form, complete_duals(self.form, placed.W, placed.U or ()))
        choices = [self.lowered.expand(Point(placed.W, duals)) for duals in (latest, self.U)]
        found = [certify(self.problem, choice.W, duals=choice.U) for choice in choices]
        return min(found, key=lambda certificate: certificate.gap)

    def _place(self, point: Point) -> tuple[Point, Point]:
        """The models as a point of the program's solver form, with duals of its couplings, and as they were."""
        placed = self.lowered.shrink(Point(np.asarray(self.program.place(point), dtype=float)))
        W = self.domain.project(placed.W)
        return Point(W, _coupling_duals(self.form, W, point.U or ())), point


def _coupling_duals(form: StandardForm, W: Array, given: Duals) -> Duals:
    """The couplings' gradients where they are smooth, else the algorithm's duals where they fit, else subgradients."""
    duals = []
    for k, term in enumerate(form.couplings):
        if "gradient" in term.function.capabilities:
            duals.append(term.function.gradient(term.map.apply(W)))
        elif k < len(given) and given[k].shape == (term.map.n_rows, term.map.width):
            duals.append(given[k])
        else:
            duals.append(term.function.subgradient(term.map.apply(W)))
    return tuple(duals)
