"""Asynchronous runs: the program of the algorithm that runs, whenever they converge."""

from __future__ import annotations

from dataclasses import replace

from gtvmin.federated.catalogue import program_of
from gtvmin.federated.program import Entry, Program, Row
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.asynchronous import Asynchronous
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.participation import Bernoulli
from gtvmin.solvers.federated.schedule import GeometricDelay, Schedule, UniformDelay

__all__ = ["ENTRIES", "ROWS"]

LEFT = "a device that has left keeps its parameters, and its neighbours what it sent last"


def asynchronous(algorithm: Asynchronous, problem: GTVMin) -> Program:
    """That of the algorithm, as long as nobody leaves."""
    program = program_of(algorithm.algorithm, problem)
    if algorithm.schedule.leaves is None:
        return program
    return replace(program, exact=False, note=LEFT)


ENTRIES = {"asynchronous": Entry(Asynchronous, asynchronous, example={"algorithm": FedRelax()})}
ROWS = (
    Row(
        "FedRelax, half of the devices at a time, delays up to 5",
        Asynchronous(FedRelax(), Schedule(Bernoulli(0.5), delay=UniformDelay(5))),
        "GTVMin",
        "itself",
    ),
    Row(
        "FedGD, unbounded delays, a tenth of the messages lost",
        Asynchronous(FedGD(), Schedule(Bernoulli(0.5), delay=GeometricDelay(2.0), loss=0.1)),
        "GTVMin",
        "itself",
        rounds=3000,
    ),
)
