"""From measurements of the benchmarks to tables and pictures, on made-up measurements."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

# behind the installed packages: the checkout's own gtvmin lacks gtvmin.solvers
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import summary as summaries
from benchmarks.figure import draw
from benchmarks.records import Record, merge, read_records, write_records
from benchmarks.report import BEGIN, END, write_markdown
from benchmarks.summary import summary
from benchmarks.table import cells, write_cells

ROOT = Path(__file__).resolve().parents[1]
GAPS = (1e-4, 1e-6, 1e-8)


def record(solver: str, seconds: float, gap: float, *, kind: str = "peer", repeat: int = 0, **more: float) -> Record:
    return Record("X", solver, kind, "answer", repeat, seconds, 0.0, gap, **more)


def test_cells_are_medians_over_runs_and_ratios_to_plain_and_best_peer() -> None:
    records = [
        *(record("mine", t, 1e-9, kind="gtvmin", repeat=k) for k, t in enumerate((0.1, 0.2, 9.0))),
        record("plain_pdhg", 1.0, 1e-3, kind="plain"),
        record("plain_pdhg", 4.0, 1e-5, kind="plain"),
        record("fast", 0.4, 1e-7),
        Record("X", "absent", "peer", "end", status="not installed"),
    ]
    found = {(c.solver, c.level): c for c in cells(records, (1e-4, 1e-6, 1e-8), ("plain_pdhg",))}
    mine = [found["mine", level] for level in (1e-4, 1e-6, 1e-8)]
    assert [c.seconds for c in mine] == [0.2, 0.2, 0.2]
    assert [c.over_plain for c in mine] == [20.0, math.inf, math.inf]
    assert [c.over_peer for c in mine] == [2.0, 2.0, math.inf]
    assert [c.peer for c in mine] == ["fast", "fast", ""]
    assert found["plain_pdhg", 1e-4].over_peer == 0.1
    assert found["absent", 1e-4].status == "not installed"
    assert found["absent", 1e-4].runs == 0


def test_uncertified_parameters_are_compared_with_the_best_bound_of_anybody() -> None:
    records = [
        record("proves", 5.0, 1e-9, objective=10.0, bound=9.99999999),
        record("claims", 1.0, math.inf, objective=10.000001, bound=-math.inf),
    ]
    found = {c.level: c for c in cells(records, (1e-6, 1e-8), ()) if c.solver == "claims"}
    assert found[1e-6].seconds == math.inf
    assert found[1e-6].seconds_by_best_bound == 1.0
    assert found[1e-8].seconds_by_best_bound == math.inf


def test_measurements_survive_the_file_and_are_replaced_by_new_ones(tmp_path: Path) -> None:
    old = [record("a", 1.0, 1e-5, objective=1 / 3, bound=math.pi), record("b", 2.0, math.inf)]
    write_records(tmp_path, old)
    stored = read_records(tmp_path)
    assert (stored[0].objective, stored[0].bound, stored[1].gap) == (1 / 3, math.pi, math.inf)
    merged = merge(stored, [record("a", 7.0, 1e-6)])
    assert [(r.solver, r.seconds) for r in merged] == [("a", 7.0), ("b", 2.0)]


def test_the_table_stands_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    records = [record("a", 1.0, 1e-5)]
    write_markdown(tmp_path, cells(records, GAPS, ()), records, {})
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "| a | 1 | – | – |" in text
    assert "old" not in text
    page.write_text("no marks\n")
    with pytest.raises(ValueError, match="no lines"):
        write_markdown(tmp_path, [], [], {})


def test_the_picture_shows_every_solver() -> None:
    trace = Record("X", "mine", "gtvmin", "trace", 0, 0.1, math.nan, 1e-2)
    png = draw("X", [trace, record("mine", 0.2, 1e-6, kind="gtvmin"), record("other", 1.0, 1e-5)], GAPS)
    alone = draw("X", [record("other", 1.0, 1e-5)], GAPS)
    assert png.startswith(b"\x89PNG")
    assert png != alone
    assert draw("X", [record("none", 1.0, math.inf)], GAPS).startswith(b"\x89PNG")


def test_the_readme_shows_the_measured_table() -> None:
    """``python -m benchmarks.summary`` renews it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = text.partition(summaries.BEGIN + "\n")[2].partition(summaries.END)[0]
    assert shown == summary(ROOT / "docs" / "benchmarks.csv")


def test_the_shortened_table_names_the_next_best(tmp_path: Path) -> None:
    measured = (("auto", 0.5, "gtvmin"), ("scs", 4.0, "peer"), ("ecos", 2.0, "peer"))
    rows = [replace(record(name, seconds, 1e-7, kind=kind), instance="A1") for name, seconds, kind in measured]
    path = write_cells(tmp_path, cells(rows, (1e-4, 1e-6), ()))
    assert "| 0.5 | ecos 2 | 4 | scs 4 |" in summary(path)


def test_a_readme_without_the_marks_stays(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("nothing")
    with pytest.raises(ValueError, match="benchmarks: begin"):
        summaries.main(path, ROOT / "docs" / "benchmarks.csv")
    assert path.read_text() == "nothing"
