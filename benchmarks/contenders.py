"""Everybody who takes part, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

import gtvmin as gtv
from benchmarks import conic, linear, plain
from benchmarks.answers import Answer, Array, DoesNotFit, Measure, Proof, now
from gtvmin.errors import CapabilityError
from gtvmin.registry import solver_names
from gtvmin.solution import Solution

__all__ = ["PLAIN_BASELINES", "Contender", "contenders"]

Kind = Literal["gtvmin", "plain", "peer"]

PLAIN_BASELINES = ("plain_pdhg", "plain_cg")
"""Whose times ratios to "plain" refer to: the first of them that fits the instance."""


@dataclass(frozen=True)
class Contender:
    """A solver that takes part.

    Attributes
    ----------
    name : str
        As in tables and on the command line.
    kind : {"gtvmin", "plain", "peer"}
        This package's, a baseline written out in the benchmark, or somebody else's.
    measure : Measure
        Runs it.
    module : str, optional
        What has to be installed for it.
    letters : str
        First letters of the instances at which it may be tried; the others it cannot express.
    """

    name: str
    kind: Kind
    measure: Measure
    module: str | None = None
    letters: str = "ABCDEp"

    @property
    def is_installed(self) -> bool:
        """Whether its module can be found; nothing is imported."""
        return self.module is None or find_spec(self.module) is not None


def registered(method: str) -> Measure:
    """A solver of this package, timed for all of ``solve()``, its checks and its certificate included.

    Every run declares the problem's losses anew, so that nothing is left over from the last one; bringing them into
    arrays is the setup.
    """

    def measure(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
        for gap in gaps:
            began = now()
            fresh = problem.with_losses(problem.losses)
            _ = fresh.lowered.solver_form
            setup, began = now() - began, now()
            try:
                solutions: tuple[Solution, ...]
                if lams is None:
                    solutions = (fresh.solve(method, gap=gap, time_limit=limit),)
                else:
                    solutions = fresh.path(lams, method, gap=gap, time_limit=limit).solutions
            except CapabilityError as error:
                raise DoesNotFit(str(error).partition(", which")[0]) from error
            seconds = now() - began
            proofs = tuple(Proof(s.problem, s.weights, s.certificate.duals) for s in solutions)
            trace: tuple[tuple[float, float], ...] = ()
            if lams is None:
                share = seconds / solutions[0].seconds  # the history knows the wall's clock only
                trace = tuple((share * record.seconds, record.relative_gap) for record in solutions[0].history)
            yield Answer(seconds, setup, proofs, trace)
            if seconds > limit:
                return

    return measure


def contenders() -> dict[str, Contender]:
    """All of them: the package's solvers, the plain methods, the peers."""
    ours = [Contender(name, "gtvmin", registered(name)) for name in ("auto", *solver_names())]
    baselines = [
        Contender("plain_pdhg", "plain", plain.trajectory(plain.PlainPrimalDual), letters="ABDp"),
        Contender("plain_admm", "plain", plain.trajectory(plain.PlainADMM), letters="ABDp"),
        Contender("plain_cg", "plain", linear.plain_cg, letters="C"),
    ]
    peers = [
        Contender("pyamg", "peer", linear.multigrid, "pyamg", "C"),
        *(Contender(name.lower(), "peer", conic.conic(name), name.lower(), "ABCDE") for name in conic.OPTIONS),
        Contender("pdlp", "peer", conic.pdlp, "ortools", "ABCDE"),
    ]
    return {contender.name: contender for contender in (*ours, *baselines, *peers)}
