"""The table that follows from the measurements: time to a gap, and ratios."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.records import Record, write_csv

__all__ = ["Cell", "cells", "write_cells"]

TABLE = "benchmarks.csv"


@dataclass(frozen=True)
class Cell:
    """A cell of the table: what it takes one solver to reach one gap on one instance, medians over the runs.

    Attributes
    ----------
    seconds : float
        To a certified relative gap; ``inf`` if it was not reached.
    seconds_by_best_bound : float
        To parameters that are as good by the best bound which anyone certified.
    setup, first_use : float
        Seconds before the run, and of the first use in a fresh process.
    best_gap : float
        The least certified one of all runs.
    over_plain, over_peer : float
        Time of the plain baseline and of the fastest other solver that is not of this package, over this one's;
        0 if only they got there, ``inf`` if only this one did, NaN if neither or if there is none.
    peer : str
        Who that was.
    """

    instance: str
    solver: str
    kind: str
    level: float
    seconds: float
    seconds_by_best_bound: float
    setup: float
    first_use: float
    best_gap: float
    runs: int
    status: str
    over_plain: float = math.nan
    over_peer: float = math.nan
    peer: str = ""


def cells(records: Iterable[Record], gaps: Iterable[float], baselines: Iterable[str]) -> list[Cell]:
    """The table of one or several instances."""
    by_instance: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_instance[record.instance].append(record)
    table: list[Cell] = []
    for name, rows in by_instance.items():
        bound = max((r.bound for r in rows if r.row == "answer" and not math.isnan(r.bound)), default=-math.inf)
        solvers = dict.fromkeys(row.solver for row in rows)
        for level in gaps:
            column = [_cell(name, solver, [r for r in rows if r.solver == solver], level, bound) for solver in solvers]
            table += _with_ratios(column, tuple(baselines))
    return table


def _cell(instance: str, solver: str, rows: list[Record], level: float, bound: float) -> Cell:
    answers = [row for row in rows if row.row == "answer"]
    end = next((row for row in rows if row.row == "end"), None)
    runs: dict[int, list[Record]] = defaultdict(list)
    for row in answers:
        runs[row.repeat].append(row)

    def median(reached: Callable[[Record], bool]) -> float:
        times = [min((r.seconds for r in run if reached(r)), default=math.inf) for run in runs.values()]
        return statistics.median(times) if times else math.inf

    def close(row: Record) -> bool:
        size = max(abs(row.objective), abs(bound))
        return row.gap <= level or row.objective - bound <= level * size

    return Cell(
        instance=instance,
        solver=solver,
        kind=rows[0].kind,
        level=level,
        seconds=median(lambda row: row.gap <= level),
        seconds_by_best_bound=median(close),
        setup=statistics.median(row.setup for row in answers) if answers else math.nan,
        first_use=end.setup if end else math.nan,
        best_gap=min((row.gap for row in answers), default=math.inf),
        runs=len(runs),
        status=end.status if end else "unfinished",
    )


def _with_ratios(column: list[Cell], baselines: tuple[str, ...]) -> list[Cell]:
    fitting = [c for name in baselines for c in column if c.solver == name and c.runs]
    plain = fitting[0].seconds if fitting else math.nan
    rated = []
    for cell in column:
        others = [c for c in column if c.kind != "gtvmin" and c.solver != cell.solver and c.runs]
        peer = min(others, key=lambda c: c.seconds, default=None)
        over_peer = _ratio(peer.seconds, cell.seconds) if peer else math.nan
        rated.append(
            replace(
                cell,
                over_plain=_ratio(plain, cell.seconds),
                over_peer=over_peer,
                peer=peer.solver if peer and math.isfinite(peer.seconds) else "",
            )
        )
    return rated


def _ratio(theirs: float, own: float) -> float:
    if math.isinf(own):
        return math.nan if math.isinf(theirs) or math.isnan(theirs) else 0.0
    return theirs / own if own > 0 else math.nan


def write_cells(folder: Path, table: Iterable[Cell]) -> Path:
    return write_csv(folder / TABLE, Cell, table)
