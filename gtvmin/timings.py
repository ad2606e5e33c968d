"""Times of the solvers to certified gaps, on one problem in one process."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gtvmin.errors import CapabilityError, GtvminWarning

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solution import Solution

__all__ = ["Timing", "time_solvers"]

FIRST_GAP = 0.5
"""Of the run that compiles."""


@dataclass(frozen=True)
class Timing:
    """What one solver took to reach one gap.

    Attributes
    ----------
    method : str
        The solver.
    gap : float
        Relative gap that was asked for.
    seconds : float or None
        Median over the runs; None if the gap was not certified in all of them.
    reached : float
        Largest certified relative gap of the runs.
    iterations : int
        Of the last run.
    first_use : float
        Seconds of the solver's first run in this process, to a loose gap: compilation and imports are in it.
    status : str
        How the last run ended.
    """

    method: str
    gap: float
    seconds: float | None
    reached: float
    iterations: int
    first_use: float
    status: str


def time_solvers(
    problem: GTVMin,
    methods: Sequence[str],
    gaps: Sequence[float],
    *,
    repeats: int = 3,
    time_limit: float = 60.0,
    tell: Callable[[str], None] | None = None,
) -> list[Timing]:
    """Time ``problem.solve(method, gap=gap)`` for every method and gap, its certificate included.

    Parameters
    ----------
    problem : GTVMin
        The problem; it is brought into arrays once, before the time is taken.
    methods : sequence of str
        Names of solvers; ``"auto"`` and ``"cvxpy"`` are two of them.  Those that do not fit are left out.
    gaps : sequence of float
        Relative gaps to certify, in any order; they are run from the largest to the smallest.
    repeats : int
        Runs of each; fewer where one of them takes longer than the limit.
    time_limit : float
        Seconds of one run.  CVXPY's solvers cannot be stopped.
    tell : callable, optional
        Called with a line of text before each run.

    Returns
    -------
    list of Timing
        Smaller gaps of a method are left out once it misses one.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.timings import time_solvers
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> [timing.gap for timing in time_solvers(problem, ["auto"], [1e-4, 1e-8], repeats=1)]
    [0.0001, 1e-08]
    """
    _ = problem.lowered
    report = tell or (lambda text: None)
    timings: list[Timing] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GtvminWarning)  # the timings say what was reached
        for method in methods:
            report(f"{method}, first use")
            try:
                _, first_use = _run(problem, method, FIRST_GAP, time_limit)
            except CapabilityError:
                continue
            for gap in sorted(gaps, reverse=True):
                runs = []
                for repeat in range(repeats):
                    report(f"{method} to {gap:g}, run {repeat + 1} of {repeats}")
                    runs.append(_run(problem, method, gap, time_limit))
                    solution, seconds = runs[-1]
                    if seconds > time_limit or not solution.is_certified:
                        break
                timings.append(_timing(method, gap, runs, first_use))
                if timings[-1].seconds is None:
                    break
    return timings


def _run(problem: GTVMin, method: str, gap: float, time_limit: float) -> tuple[Solution, float]:
    limits: dict[str, Any] = {} if method == "cvxpy" else {"time_limit": time_limit}
    began = time.perf_counter()
    solution = problem.solve(method, gap=gap, **limits)
    return solution, time.perf_counter() - began


def _timing(method: str, gap: float, runs: Sequence[tuple[Solution, float]], first_use: float) -> Timing:
    solutions, seconds = zip(*runs, strict=True)
    return Timing(
        method=method,
        gap=gap,
        seconds=statistics.median(seconds) if all(solution.is_certified for solution in solutions) else None,
        reached=max(solution.relative_gap for solution in solutions),
        iterations=solutions[-1].iterations,
        first_use=first_use,
        status=solutions[-1].status.value,
    )
