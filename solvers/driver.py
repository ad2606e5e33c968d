"""The one loop: run a solver, ask for a certified assessment now and then, stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from .standard_form import Array, Assessment, Duals, Point, StandardForm

__all__ = ["Monitor", "Record", "Result", "Solver", "Status", "run"]

State = TypeVar("State")

Monitor = Callable[[Point, int], Assessment]
"""``(point, iteration) -> Assessment``: the stopping test, which trusts nothing that the solver says."""

FIRST_CHECK = 40
CHECK_GROWTH = 1.25


class Status(Enum):
    """How a run ended; the value explains it."""

    CERTIFIED = "the certified gap is within the tolerance"
    ITERATION_LIMIT = "the iteration limit was reached before the gap was within the tolerance"
    TIME_LIMIT = "the time limit was reached before the gap was within the tolerance"
    FINISHED = "the solver ended by itself before the gap was within the tolerance"
    COMPLETED = "all rounds that were asked for are done; no gap was asked for"
    DIVERGED = "the iterates became infinite or NaN; the best point before that is returned"
    INTERRUPTED = "interrupted by the user; the best point so far is returned"
    STOPPED = "the progress function asked to stop; the best point so far is returned"


class Solver(Protocol[State]):
    """An iteration on a :class:`StandardForm`; a frozen dataclass of its settings.

    It neither stops nor certifies nor logs: the driver does.  A solver that has nothing left to do says so by an
    attribute ``finished`` of its state.
    """

    requires: ClassVar[frozenset[str]]
    """What it needs of the two functions, such as ``local.prox``.

    A solver whose steps are dear may also have attributes ``first_check``, after how many of them its point is first
    worth an assessment, and ``check_growth``, each time after how many times the steps it is again.
    """

    def init(self, form: StandardForm, start: Point | None) -> State:
        """State before the first step."""
        ...

    def step(self, form: StandardForm, state: State) -> State:
        """One iteration."""
        ...

    def point(self, form: StandardForm, state: State) -> Point:
        """Parameters and flows that the state stands for."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """One assessment during a run."""

    iteration: int
    seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float


@dataclass(frozen=True, slots=True)
class Result:
    """Best point of a run, why it ended, and the assessments on the way."""

    point: Point
    status: Status
    iterations: int
    seconds: float
    history: tuple[Record, ...]


def missing_capabilities(solver: Solver[State], form: StandardForm) -> list[str]:
    """What the solver requires and the form does not offer."""
    return sorted(solver.requires - form.capabilities)


def run(
    solver: Solver[State],
    form: StandardForm,
    *,
    stop: Monitor,
    start: Point | None = None,
    max_iter: int = 100_000,
    check_every: int | None = None,
    time_limit: float | None = None,
    progress: Callable[[Record], object] | None = None,
    observe: Callable[[State, int], Status | None] | None = None,
) -> Result:
    """Iterate until the monitor is content.

    Parameters
    ----------
    solver : Solver
        The iteration.
    form : StandardForm
        The problem.
    stop : callable
        Gives an :class:`Assessment` of a point; the run ends when it has converged.
    start : Point, optional
        Where to start.  It is not changed.
    max_iter : int
        Limit on the number of steps.
    check_every : int, optional
        Steps between assessments.  Default: at step 1, at step 40, then each time 1.25 times as many steps are done
        unless the solver says otherwise, so that assessments cost a bounded share of the run.
    time_limit : float, optional
        Seconds, looked at when the point is assessed.
    progress : callable, optional
        Called with each :class:`Record`.  If it returns a true value or raises StopIteration, the run ends.
    observe : callable, optional
        Called with the state and the number of steps done, before the first and after every step; a status that it
        returns ends the run, without another assessment.

    Returns
    -------
    Result
        The best point, never just the last one.
    """
    began = time.perf_counter()
    history: list[Record] = []
    status = Status.ITERATION_LIMIT
    iteration, next_check, first_check = 0, 1, getattr(solver, "first_check", FIRST_CHECK)
    growth = getattr(solver, "check_growth", CHECK_GROWTH)
    assessment: Assessment | None = None
    try:
        state = solver.init(form, start)
        assessment = stop(_finite(solver.point(form, state)), 0)
        while True:
            ended = None if observe is None else observe(state, iteration)
            if ended is not None:
                status = ended
                break
            finished = bool(getattr(state, "finished", False))
            if finished or iteration in (next_check, max_iter):
                point = solver.point(form, state)
                if not _is_finite(point):
                    status = Status.DIVERGED
                    break
                assessment = stop(point, iteration)
                if finished and not assessment.converged:  # there will be no better time for a costly assessment
                    assessment = stop(point, max_iter)
                seconds = time.perf_counter() - began
                history.append(_record(assessment, iteration, seconds))
                asked_to_stop = progress is not None and _asks_to_stop(progress, history[-1])
                if assessment.converged:
                    status = Status.CERTIFIED
                    break
                if asked_to_stop:
                    status = Status.STOPPED
                    break
                if time_limit is not None and seconds > time_limit:
                    status = Status.TIME_LIMIT
                    break
                if finished:
                    status = Status.FINISHED
                    break
                if iteration >= max_iter:
                    break
                next_check = iteration + check_every if check_every else _next_check(iteration, first_check, growth)
            state = solver.step(form, state)
            iteration += 1
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
        if assessment is None:  # before the first one: the start it is
            assessment = stop(_finite(start or Point(np.zeros((form.n_nodes, form.dim)))), 0)
    return Result(assessment.point, status, iteration, time.perf_counter() - began, tuple(history))


def _asks_to_stop(progress: Callable[[Record], object], record: Record) -> bool:
    try:
        return bool(progress(record))
    except StopIteration:
        return True


def _next_check(iteration: int, first: int, growth: float) -> int:
    return first if iteration < first else int(np.ceil(growth * iteration))


def _is_finite(point: Point) -> bool:
    return all(bool(np.isfinite(part).all()) for part in (point.W, *(point.U or ())))


def _finite(point: Point) -> Point:
    if not _is_finite(point):
        raise ValueError("the starting point holds NaN or infinite values")
    return point


def _record(a: Assessment, iteration: int, seconds: float) -> Record:
    return Record(iteration, seconds, a.primal, a.dual, a.gap, a.relative_gap)


def starting_arrays(form: StandardForm, start: Point | None) -> tuple[Array, Duals]:
    """Copies of the start's parameters and duals; zeros where there are none."""
    W = np.zeros((form.n_nodes, form.dim)) if start is None else np.array(start.W, dtype=float)
    if start is None or start.U is None:
        return W, form.zero_duals()
    given = tuple(np.array(dual, dtype=float) for dual in start.U)
    return W, given + form.zero_duals()[len(given) :]
