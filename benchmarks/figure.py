"""Certified gap against time, all solvers in one picture."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.records import Record
from gtvmin.storage import write_atomically

__all__ = ["draw", "write_figure"]

LEAST_GAP = 1e-12
LINES = {"gtvmin": "-", "plain": "--", "peer": ":"}
MARKERS = {"gtvmin": "o", "plain": ".", "peer": "s"}


def draw(instance: str, records: Sequence[Record], gaps: Sequence[float]) -> bytes:
    """A PNG file: for each solver its first run, certified answers as marks.

    The line is what the solver's own monitor saw during the run to the smallest gap; it ends a little before the mark,
    whose time includes the last checks.  Without a monitor it joins the marks.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 5.2), layout="constrained")
    axes = figure.add_subplot()
    counts = dict.fromkeys(LINES, 0)
    for solver in dict.fromkeys(record.solver for record in records):
        own = [r for r in records if r.solver == solver and r.repeat == 0 and r.row != "end" and 0 <= r.gap < math.inf]
        curves = {
            row: _falling([(r.seconds, max(r.gap, LEAST_GAP)) for r in own if r.row == row])
            for row in ("trace", "answer")
        }
        if not curves["answer"]:
            continue
        kind = own[0].kind
        colour, counts[kind] = f"C{counts[kind] % 10}", counts[kind] + 1
        line = curves["trace"] or curves["answer"]
        axes.plot(*zip(*line, strict=True), LINES[kind], color=colour, linewidth=1.4, label=solver)
        axes.plot(*zip(*curves["answer"], strict=True), MARKERS[kind], color=colour, markersize=5)
    for gap in gaps:
        axes.axhline(gap, color="0.85", linewidth=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="certified relative gap", title=instance)
    if any(counts.values()):
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def _falling(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The least gap up to each time."""
    best, curve = float("inf"), []
    for seconds, gap in sorted(points):
        if gap < best:
            best = gap
            curve.append((seconds, gap))
    return curve


def write_figure(folder: Path, instance: str, records: Sequence[Record], gaps: Sequence[float]) -> str:
    """Write the picture into ``images/``; returns its path from the folder."""
    name = f"images/benchmark-{instance}.png"
    write_atomically(folder / name, draw(instance, records, gaps))
    return name
