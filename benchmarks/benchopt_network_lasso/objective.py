"""Network Lasso and convex clustering: quadratic losses on the nodes of a graph, norms of differences on its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchopt import BaseObjective

import gtvmin as gtv


class Objective(BaseObjective):
    name = "Network Lasso"
    url = "https://arxiv.org/abs/2010.14159"
    requirements = ["pip::gtvmin"]
    min_benchopt_version = "1.8"
    test_dataset_name = "block model"
    # strengths of the coupling, as multiples of the data set's own
    parameters = {"strength": [1.0]}

    def set_data(self, problem: gtv.GTVMin) -> None:
        self.problem = problem.with_alpha(self.strength * problem.alpha)

    def get_objective(self) -> dict[str, Any]:
        """Arrays of ``sum_i (1/2 w_i' Q_i w_i - b_i' w_i) + sum_e radius_e ||w_head - w_tail||_p``, and the problem.

        The constant that is missing from the sum is in ``evaluate_result``.
        """
        network = self.problem.network
        Q, b = self.problem.lowered.form.quadratic.quadratic()
        return {
            "problem": self.problem,
            "Q": Q,
            "b": b,
            "tail": network.tail,
            "head": network.head,
            "radius": self.problem.alpha * network.weights,
            "p": self.problem.penalty.p,
        }

    def evaluate_result(self, W: Any, U: Any = None) -> dict[str, float]:
        """Objective, and with flows U from tail to head the relative gap that they certify."""
        if U is None:
            return {"value": self.problem.objective(W), "certified_gap": float("inf")}
        certificate = gtv.certify(self.problem, W, U)
        return {"value": certificate.primal, "certified_gap": certificate.relative_gap}

    def get_one_result(self) -> dict[str, Any]:
        return {"W": np.zeros((self.problem.network.n_nodes, self.problem.dim)), "U": np.zeros(self.problem.flow_shape)}
