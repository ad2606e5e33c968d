"""Asynchronous runs: the program of the algorithm that runs, whenever they converge."""

from __future__ import annotations

import warnings
from dataclasses import replace

from gtvmin.federated.catalogue import program_of
from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Entry, Program, Row
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.asynchronous import Asynchronous, tolerant
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.participation import Bernoulli
from gtvmin.solvers.federated.schedule import GeometricDelay, Schedule, UniformDelay
from gtvmin.solvers.federated.step_sizes import StepSizeWarning

__all__ = ["ENTRIES", "ROWS"]

LEFT = "a device that has left keeps its parameters, and its neighbours what it sent last"


def asynchronous(algorithm: Asynchronous, problem: GTVMin) -> Program:
    """That of the algorithm, with the steps that it takes here, as long as nobody leaves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        running = tolerant(algorithm.algorithm, federated_form(problem))
    program = program_of(running, problem)
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
