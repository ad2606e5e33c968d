from __future__ import annotations

from typing import Any

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import gtvmin as gtv
from gtvmin.reference import solve_reference


class Solver(BaseSolver):
    """Conic solvers by way of CVXPY, whose time to compile the model counts."""

    name = "CVXPY"
    sampling_strategy = "tolerance"
    # a loose tolerance may be met by far, so that the next ones change nothing
    stopping_criterion = SufficientProgressCriterion(patience=8, strategy="tolerance")
    requirements = ["pip::gtvmin", "pip::cvxpy"]
    parameters = {"solver": ["CLARABEL", "SCS"]}

    def set_objective(self, problem: gtv.GTVMin, **arrays: Any) -> None:
        self.problem = problem

    def get_next(self, tolerance: float) -> float:
        return min(tolerance, 1.0) / 10  # the first one is huge

    def run(self, tolerance: float) -> None:
        names = ("tol_gap_abs", "tol_gap_rel", "tol_feas") if self.solver == "CLARABEL" else ("eps_abs", "eps_rel")
        # neither goes on below this, and both call a tolerance of 1 or more an error
        asked = min(max(tolerance, 1e-12), 0.1)
        self.found = solve_reference(self.problem, self.solver, **dict.fromkeys(names, asked))

    def get_result(self) -> dict[str, Any]:
        return {"W": self.found.W, "U": self.found.U}
