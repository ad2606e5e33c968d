"""Algorithms whose limit is GTV minimisation as declared."""

from __future__ import annotations

from typing import Any

from gtvmin.federated.program import Entry, Program, Row, itself
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.fed_sgd import FedSGD
from gtvmin.solvers.federated.participation import UniformSample

__all__ = ["ENTRIES", "ROWS"]


def gtv_minimisation(algorithm: Any, problem: GTVMin) -> Program:
    """The problem itself, whatever the step sizes."""
    return itself(problem)


def fed_sgd(algorithm: FedSGD, problem: GTVMin) -> Program:
    """The problem itself: in the mean, for quadratic losses and a constant rate, or with a decaying one."""
    if algorithm.half_life is not None:
        return itself(problem, exact=False, note="a decaying rate: the limit is exact, and reached as 1/t")
    return itself(problem, exact=False, note="a constant rate: the parameters hover about the solution")


ENTRIES = {
    "fedgd": Entry(FedGD, gtv_minimisation),
    "fedrelax": Entry(FedRelax, gtv_minimisation),
    "fedsgd": Entry(FedSGD, fed_sgd, example={"batch": 2}),
}
ROWS = (
    Row("FedGD", FedGD(), "GTVMin", "itself"),
    Row(
        "FedSGD, constant rate",
        FedSGD(2, eta=0.01),
        "for quadratic losses the mean is GTVMin's solution, with a Lyapunov covariance; else off by O(eta)",
        "itself, in the mean",
    ),
    Row("FedRelax, Jacobi", FedRelax(), "GTVMin", "itself", rounds=300),
    Row("FedRelax, Gauss-Seidel", FedRelax("gauss-seidel"), "GTVMin", "itself", rounds=200),
    Row("FedRelax, random blocks", FedRelax(UniformSample(3)), "GTVMin", "itself"),
)
