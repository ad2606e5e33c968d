from __future__ import annotations

from typing import Any

from benchmark_utils import Method, PlainADMM, PlainPrimalDual
from benchopt import BaseSolver

import gtvmin as gtv


class Solver(BaseSolver):
    """Textbook methods in NumPy: Algorithm 1 of arXiv 2010.14159, and ADMM with a sparse factor."""

    name = "plain"
    sampling_strategy = "callback"
    requirements = ["pip::gtvmin"]
    parameters = {"method": ["PDHG", "ADMM"]}

    def set_objective(self, problem: gtv.GTVMin, **arrays: Any) -> None:
        self.problem = problem

    def run(self, callback: Any) -> None:
        iteration: Method = {"PDHG": PlainPrimalDual, "ADMM": PlainADMM}[self.method](self.problem)
        self.W, self.U = iteration.point()
        while callback():
            iteration.step()
            self.W, self.U = iteration.point()

    def get_result(self) -> dict[str, Any]:
        return {"W": self.W, "U": self.U}
