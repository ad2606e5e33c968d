"""``python -m benchmarks.summary``: the measured table of docs/, shortened, into the README."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.instances import INSTANCES
from gtvmin.storage import write_atomically

__all__ = ["main", "summary"]

ROOT = Path(__file__).resolve().parent.parent
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"
LEVEL = 1e-6
OURS = "auto"


def main(readme: Path = ROOT / "README.md", table: Path = ROOT / "docs" / "benchmarks.csv") -> None:
    """Replace what stands between the marks of the README."""
    before, begin, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{readme} has no lines {BEGIN} and {END}, between which the table would stand")
    write_atomically(readme, f"{before}{BEGIN}\n{summary(table)}{END}{after}".encode())


def summary(table: Path) -> str:
    """One line for each instance that this package and somebody else were tried on."""
    with table.open(encoding="utf-8", newline="") as stream:
        cells = [row for row in csv.DictReader(stream) if float(row["level"]) == LEVEL and row["runs"] != "0"]
    lines = [f"| instance | `auto`, s to {LEVEL:.0e} | next best | its time / ours | others |", "|---|---|---|---|---|"]
    for name, instance in INSTANCES.items():
        seconds = {row["solver"]: float(row["seconds"]) for row in cells if row["instance"] == name}
        kinds = {row["solver"]: row["kind"] for row in cells if row["instance"] == name}
        others = sorted((s for s in seconds if kinds[s] != "gtvmin"), key=lambda solver: seconds[solver])
        if OURS in seconds and others:
            lines.append(_line(name, instance.description, seconds, others))
    return "\n".join(lines) + "\n"


def _line(name: str, description: str, seconds: dict[str, float], others: Sequence[str]) -> str:
    first, *rest = (f"{solver} {_seconds(seconds[solver])}" for solver in others)
    ratio = seconds[others[0]] / seconds[OURS]
    text = f"{ratio:.2g}" if math.isfinite(ratio) else "only ours"
    return f"| {name}: {description} | {_seconds(seconds[OURS])} | {first} | {text} | {', '.join(rest) or '–'} |"


def _seconds(value: float) -> str:
    return f"{value:.2g}" if math.isfinite(value) else "not reached"


if __name__ == "__main__":
    main()
