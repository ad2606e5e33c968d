"""What a solver hands in, and the judgement of it, which is the same for everybody."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

import gtvmin as gtv

__all__ = ["Answer", "DoesNotFit", "Judgement", "Measure", "Proof", "Stopwatch", "judge", "now", "use_clock"]

Array = NDArray[np.float64]

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_clock = time.perf_counter


def use_clock(name: str) -> None:
    """What all times of this process are: ``"wall"`` or, for machines with other work to do, ``"cpu"``."""
    global _clock
    _clock = CLOCKS[name]


def now() -> float:
    """Seconds of the chosen clock."""
    return _clock()


class DoesNotFit(Exception):  # noqa: N818 - no error, a finding
    """A solver cannot express the problem."""


class Proof(NamedTuple):
    """Parameters for a problem, with duals of all its terms if there are any; None where a solver gives none."""

    problem: gtv.GTVMin
    W: Array
    duals: tuple[Array, ...] | None


@dataclass(frozen=True)
class Answer:
    """Parameters, and how long they took.

    Attributes
    ----------
    seconds : float
        Time in the solver.
    setup : float
        Time before that, to bring the problem into the solver's form.
    proofs : tuple of Proof
        One for a problem, one a strength for a path.
    trace : tuple of (seconds, relative gap)
        What the solver's own monitor saw on the way; for the picture, no table uses it.
    """

    seconds: float
    setup: float
    proofs: tuple[Proof, ...]
    trace: tuple[tuple[float, float], ...] = ()


class Measure(Protocol):
    """``measure(problem, lams, gaps, limit)``: answers of rising accuracy, for as long as the consumer wants more.

    ``lams`` is None but for paths; ``limit`` bounds the seconds of one run.
    """

    def __call__(
        self, problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float
    ) -> Iterator[Answer]: ...


class Judgement(NamedTuple):
    """Largest relative gap, and objective and bound of a single problem (NaN for paths)."""

    gap: float
    objective: float
    bound: float


def judge(answer: Answer) -> Judgement:
    """Certify an answer; without duals its gap is infinite, since it proves nothing."""
    worst, objective, bound = 0.0, np.nan, np.nan
    for problem, W, duals in answer.proofs:
        if duals is None:
            gap, objective, bound = np.inf, problem.objective(W), -np.inf
        else:
            certificate = gtv.certify(problem, W, duals=duals)
            gap, objective, bound = certificate.relative_gap, certificate.primal, certificate.dual
        worst = max(worst, gap)
    if len(answer.proofs) > 1:
        objective = bound = np.nan
    return Judgement(worst, objective, bound)


@dataclass
class Stopwatch:
    """Seconds of the chosen clock inside its ``with`` blocks."""

    seconds: float = 0.0
    began: float = field(default=0.0, repr=False)

    def __enter__(self) -> Stopwatch:
        self.began = now()
        return self

    def __exit__(self, *exception: object) -> None:
        self.seconds += now() - self.began
