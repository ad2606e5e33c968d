"""Algorithms whose limit is GTV minimisation as declared."""

from __future__ import annotations

from typing import Any

from gtvmin.federated.program import Entry, Program, Row, itself
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.fed_gd import FedGD

__all__ = ["ENTRIES", "ROWS"]


def gtv_minimisation(algorithm: Any, problem: GTVMin) -> Program:
    """The problem itself, whatever the step sizes."""
    return itself(problem)


ENTRIES = {"fedgd": Entry(FedGD, gtv_minimisation)}
ROWS = (Row("FedGD", FedGD(), "GTVMin", "itself"),)
