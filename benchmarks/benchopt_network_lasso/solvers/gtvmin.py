from __future__ import annotations

import warnings
from typing import Any

from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

import gtvmin as gtv


class Solver(BaseSolver):
    """The solvers of gtvmin, asked for smaller and smaller certified gaps."""

    name = "gtvmin"
    sampling_strategy = "tolerance"
    # a loose tolerance may be met by far, so that the next ones change nothing
    stopping_criterion = SufficientProgressCriterion(patience=8, strategy="tolerance")
    requirements = ["pip::gtvmin"]
    parameters = {"method": ["auto"]}

    def set_objective(self, problem: gtv.GTVMin, **arrays: Any) -> None:
        self.problem = problem

    def warm_up(self) -> None:
        self.run_once(0.1)

    def get_next(self, tolerance: float) -> float:
        return min(tolerance, 1.0) / 10  # the first one is huge

    def run(self, tolerance: float) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", gtv.errors.GtvminWarning)
            self.solution = self.problem.solve(self.method, gap=min(max(tolerance, 1e-10), 0.1), time_limit=600)

    def get_result(self) -> dict[str, Any]:
        return {"W": self.solution.weights, "U": self.solution.flows}
