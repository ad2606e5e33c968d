"""The measured table as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.instances import INSTANCES
from benchmarks.records import Record
from benchmarks.table import Cell
from gtvmin.storage import write_atomically

__all__ = ["BEGIN", "END", "markdown", "write_markdown"]

FILE = "benchmarks.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def write_markdown(folder: Path, table: Sequence[Cell], records: Iterable[Record], pictures: dict[str, str]) -> Path:
    """Put the table between the two marks of ``benchmarks.md``, or into a new file; what is around it stays."""
    path = folder / FILE
    text = path.read_text(encoding="utf-8") if path.is_file() else f"# Measured times\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}, between which the table would stand")
    write_atomically(path, f"{before}{BEGIN}\n{markdown(table, records, pictures)}{END}{after}".encode())
    return path


def markdown(table: Sequence[Cell], records: Iterable[Record], pictures: dict[str, str]) -> str:
    """A summary of ``auto``, and a section for each instance."""
    levels = sorted({cell.level for cell in table}, reverse=True)
    known = {cell.instance for cell in table}
    names = [*(name for name in INSTANCES if name in known), *sorted(known - set(INSTANCES))]
    sections = [_summary(names, table, levels)]
    ends = [record for record in records if record.row == "end"]
    for name in names:
        cells = [cell for cell in table if cell.instance == name]
        made = sorted({f"{end.date}, {end.machine}" for end in ends if end.instance == name and end.date})
        sections.append(_section(name, cells, levels, made, pictures.get(name)))
    return "\n" + "\n".join(sections) + "\n"


def _summary(names: Sequence[str], table: Sequence[Cell], levels: Sequence[float]) -> str:
    found = {(cell.instance, cell.solver, cell.level): cell for cell in table}
    rows = [["instance", f"`auto`: s to {_levels(levels)}", "plain / auto", "best peer / auto", "which peer"]]
    for name in names:
        auto = [found[name, "auto", level] for level in levels if (name, "auto", level) in found]
        if auto:
            rows.append([name, _times(auto), *_ratios(auto), " / ".join(cell.peer or "–" for cell in auto)])
    return "### In short\n\n" + _grid(rows) if len(rows) > 1 else ""


def _section(
    name: str, cells: Sequence[Cell], levels: Sequence[float], made: Sequence[str], picture: str | None
) -> str:
    known = INSTANCES.get(name)
    lines = [f"### {name}", "", f"{known.description[0].upper()}{known.description[1:]}." if known else "", ""]
    header = ["solver", *(f"{level:.0e} s" for level in levels), "plain / this", "best peer / this"]
    rows = [[*header, "least gap", "setup s", "first use s", "runs"]]
    by_solver = {solver: [c for c in cells if c.solver == solver] for solver in dict.fromkeys(c.solver for c in cells)}
    ran = {solver: own for solver, own in by_solver.items() if own[0].runs}
    for solver, own in sorted(ran.items(), key=lambda item: _rank(item[1])):
        first = own[0]
        numbers = [f"{first.best_gap:.0e}", _number(first.setup), _number(first.first_use), str(first.runs)]
        mark = f"**{solver}**" if first.kind == "gtvmin" else solver
        rows.append([mark, *(_time(cell) for cell in own), *_ratios(own), *numbers])
    if len(rows) > 1:
        lines += [_grid(rows)]
    ill = [f"{solver} ({own[0].status})" for solver, own in ran.items() if own[0].status != "finished"]
    idle: dict[str, list[str]] = {}
    for solver, own in by_solver.items():
        if solver not in ran:
            reason = own[0].status
            idle.setdefault("cannot express it" if reason.startswith("does not fit") else reason, []).append(solver)
    lines += [f"Ended early: {'; '.join(ill)}.", ""] if ill else []
    lines += [f"{reason[0].upper()}{reason[1:]}: {', '.join(solvers)}.\n" for reason, solvers in sorted(idle.items())]
    lines += [f"![Certified gap against time, {name}]({picture})", ""] if picture else []
    lines += [f"Measured {made_at}.\n" for made_at in made]
    return "\n".join(lines)


def _rank(cells: Sequence[Cell]) -> tuple[float, ...]:
    """Fastest to the smallest gap first, then to the next, ..."""
    return tuple(cell.seconds for cell in reversed(cells))


def _time(cell: Cell) -> str:
    """Seconds; in parentheses those to parameters whose quality only another solver's bound proves."""
    if math.isfinite(cell.seconds):
        return _number(cell.seconds)
    return f"({_number(cell.seconds_by_best_bound)})" if math.isfinite(cell.seconds_by_best_bound) else "–"


def _times(cells: Sequence[Cell]) -> str:
    return " / ".join(_time(cell) for cell in cells)


def _ratios(cells: Sequence[Cell]) -> tuple[str, str]:
    return tuple(  # type: ignore[return-value]
        " / ".join(_number(getattr(cell, which)) for cell in cells) for which in ("over_plain", "over_peer")
    )


def _levels(levels: Sequence[float]) -> str:
    return " / ".join(f"{level:.0e}" for level in levels)


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "∞" if math.isinf(value) else f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _grid(rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return "\n".join(lines) + "\n"
