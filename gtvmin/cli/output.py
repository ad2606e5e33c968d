"""What the command line shows: progress and tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from gtvmin.penalties import Norm
from gtvmin.solvers.driver import Record
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.cli.problem import Study
    from gtvmin.solution import Solution

__all__ = ["gap_bar", "print_lists", "print_solution"]

CLUSTERS_SHOWN = 5
JUMPS_SHOWN = 3
PIPE_WIDTH = 160


def console(*, stderr: bool = False) -> Console:
    """Console that prints node labels and paths as they are; wide enough for whole lines where it is no terminal."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


@contextmanager
def gap_bar(tolerance: float, shown: bool) -> Iterator[Callable[[Record], None] | None]:
    """A bar that fills as the logarithm of the certified gap falls from its first value to the tolerance."""
    screen = console(stderr=True)
    if not shown or not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    first: list[float] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[gap]}"), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("solving", total=1.0, gap="")

        def report(record: Record) -> None:
            gap = record.relative_gap
            if not 0 < gap < np.inf:
                return
            first.append(gap)
            way = np.log10(first[0] / tolerance)
            done = np.log10(first[0] / gap) / way if way > 0 else 1.0
            text = f"certified gap {gap:.1e}, iteration {record.iteration}"
            progress.update(task, completed=float(np.clip(done, 0.0, 1.0)), gap=text)

        yield report


def shown_parameters(study: Study, W: Array) -> dict[str, Array]:
    """What a person wants to read of each device, by a name with its unit: slopes and level in original units."""
    v = study.variables
    if v.scaling is None:
        return dict(zip(v.parameters, W.T, strict=True))
    names = [f"{v.target} per {name}" for name in v.features]
    return {**dict(zip(names, v.scaling.slopes(W).T, strict=True)), f"{v.target} at average": v.scaling.level(W)}


def print_solution(study: Study, solution: Solution, tolerance: float, files: Sequence[Path]) -> None:
    """The short answer: is it certified, how large is it, what stands out, where are the files."""
    screen = console()
    net, c = solution.problem.network, solution.certificate
    for note in study.notes:
        screen.print(f"note: {note}", soft_wrap=True)
    free = solution.undetermined
    if free:
        text = (
            f"note: parameters of {len(free)} devices, such as {free[0]!r}, are not unique: too little data around them"
        )
        screen.print(text, soft_wrap=True)
    screen.print(f"minimise {study.formula}", soft_wrap=True)
    verdict = "certified" if solution.is_certified else "NOT certified"
    lines = {
        "devices": f"{net.n_nodes} ({study.n_rows} data points, {len(study.unlabelled)} devices without data)",
        "edges": f"{net.n_edges} ({len(net.components())} connected components)",
        "parameters": f"{', '.join(study.variables.parameters)}{' (of z-scores)' if study.variables.scaling else ''}",
        "clusters": str(len(set(solution.clusters().values()))),
        "objective": f"{c.primal:.10g}",
        "lower bound": f"{c.dual:.10g}",
        "gap": f"{c.gap:.3g}",
        "relative gap": f"{c.relative_gap:.2e}{_relative_to(c)} (asked for {tolerance:g}): {verdict}",
        "time": f"{solution.seconds:.2f} s, {solution.iterations} iterations of {solution.method}",
    }
    grid = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        grid.add_row(name, value)
    screen.print(grid)
    if not solution.is_certified:
        scaling = "" if study.variables.scaling is not None else "--standardise, "
        fixes = f"{scaling}larger --max-iter and --time-limit, or --method cvxpy"
        screen.print(f"not certified: {solution.status.value}: try {fixes}", soft_wrap=True)
    _print_clusters(screen, study, solution)
    _print_jumps(screen, study, solution)
    screen.print(f"files in {files[0].parent}: {', '.join(file.name for file in files)}", soft_wrap=True)


def _relative_to(certificate: Certificate) -> str:
    """What the gap is relative to, where that is not the objective."""
    if not 0 < certificate.relative_gap < np.inf:
        return ""
    size = certificate.gap / certificate.relative_gap
    if size <= 1.001 * max(abs(certificate.primal), abs(certificate.dual)):
        return ""
    return f" of {size:.3g}, a share of the objective at zero parameters"


def _print_clusters(screen: Console, study: Study, solution: Solution) -> None:
    net, shown = solution.problem.network, shown_parameters(study, solution.weights)
    numbers = np.array(list(solution.clusters().values()))
    sizes = np.bincount(numbers)
    if sizes.max() == 1 or not isinstance(solution.problem.penalty, Norm):
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("cluster", justify="right")
    table.add_column("devices", justify="right")
    for name in shown:
        table.add_column(name, justify="right")
    centred = net.coordinates is not None and net.coordinates.shape[1] == 2 and study.descriptions is None
    if centred:
        table.add_column(f"centre ({', '.join(study.variables.coordinates)})")
    table.add_column("such as" if study.descriptions is None else "mostly", no_wrap=True)
    for number in np.argsort(-sizes, kind="stable")[:CLUSTERS_SHOWN]:
        members = np.flatnonzero(numbers == number)
        row = [str(number), str(len(members)), *(_number(column[members].mean()) for column in shown.values())]
        if centred and net.coordinates is not None:
            row.append(", ".join(f"{value:.6g}" for value in net.coordinates[members].mean(axis=0)))
        row.append(_described(study, [str(net.nodes[i]) for i in members]))
        table.add_row(*row)
    screen.print("largest clusters")
    screen.print(table)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _described(study: Study, labels: Sequence[str]) -> str:
    if study.descriptions is None:
        return ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
    known = Counter(study.descriptions[label] for label in labels if label in study.descriptions)
    return ", ".join(f"{text} ({n})" for text, n in known.most_common(2))


def _print_jumps(screen: Console, study: Study, solution: Solution) -> None:
    net, W = solution.problem.network, solution.weights
    jump = np.linalg.norm(W[net.head] - W[net.tail], axis=1)
    largest = [e for e in np.argsort(-jump, kind="stable")[:JUMPS_SHOWN] if jump[e] > 0]
    if not largest:
        return
    shown = shown_parameters(study, W)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("devices", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right")
    for e in largest:
        i, j = int(net.tail[e]), int(net.head[e])
        ends = " - ".join(_named(study, str(net.nodes[k])) for k in (i, j))
        table.add_row(ends, *(f"{_number(column[i])} to {_number(column[j])}" for column in shown.values()))
    screen.print("largest jumps between neighbours")
    screen.print(table)


def _named(study: Study, label: str) -> str:
    text = None if study.descriptions is None else study.descriptions.get(label)
    return label if text is None else f"{label} ({text})"


def print_lists(lists: dict[str, dict[str, str]]) -> None:
    """Names and what they are, under headings."""
    screen = console()
    for heading, entries in lists.items():
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        for name, text in entries.items():
            table.add_row(name, text)
        screen.print(heading)
        screen.print(table)
