"""The table "which program does an algorithm solve?", with gaps measured on a problem."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from gtvmin.errors import ConvergenceWarning
from gtvmin.federated.assessment import ProgramMonitor
from gtvmin.federated.catalogue import name_of, rows, surrogate_of
from gtvmin.federated.program import Row
from gtvmin.federated.running import federate
from gtvmin.problem import GTVMin
from gtvmin.solvers.standard_form import Point

__all__ = ["markdown_table", "measured_gap"]

HEADINGS = ("algorithm", "name", "limit", "program", "certified relative gap")


def measured_gap(row: Row, problem: GTVMin) -> float | None:
    """Certified relative gap, on the row's program, of its algorithm on a problem; None if there is no program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        run = federate(problem, row.algorithm, rounds=row.rounds, check_every=row.rounds)
    if row.surrogate:
        monitor = ProgramMonitor(surrogate_of(row.algorithm, problem), 0.0)
        return monitor.certificate(Point(run.weights)).relative_gap
    return None if run.certificate is None else run.relative_gap


def markdown_table(problem: GTVMin) -> str:
    """The table in Markdown, measured on a problem with quadratic losses."""
    return "\n".join(_lines(problem)) + "\n"


def _lines(problem: GTVMin) -> Iterator[str]:
    yield "| " + " | ".join(HEADINGS) + " |"
    yield "|" + "---|" * len(HEADINGS)
    for row in rows():
        gap = measured_gap(row, problem)
        shown = "none" if gap is None else f"{gap:.0e} after {row.rounds} rounds"
        yield f"| {row.title} | `{name_of(row.algorithm)}` | {row.limit} | {row.declared} | {shown} |"
