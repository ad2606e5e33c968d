"""``gtvmin bench``: what it times, what it writes, and how it answers unusable input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner

import gtvmin as gtv
from gtvmin.cli import main
from gtvmin.timings import time_solvers


@pytest.fixture
def problem() -> gtv.GTVMin:
    """Levels 0 and 3, whose optimum has the closed form (1, 2)."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)


def bench(*arguments: object) -> object:
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


def test_a_stored_problem_is_timed_to_every_gap(problem: gtv.GTVMin, tmp_path: Path) -> None:
    file, table = problem.save(tmp_path / "problem.npz"), tmp_path / "times.csv"
    result = bench(file, "--repeats", 2, "--gaps", "1e-3,1e-7", "--csv", table)
    assert result.exit_code == 0, result.output
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert {"auto", "primal_dual", "adaptive_primal_dual"} <= {row["method"] for row in rows}
    # least squares with a norm are no linear system
    assert "linear_system" not in {row["method"] for row in rows}
    assert [float(row["gap"]) for row in rows if row["method"] == "auto"] == [1e-3, 1e-7]
    assert all(float(row["reached"]) <= float(row["gap"]) and float(row["seconds"]) > 0 for row in rows)
    assert "1e-07" in result.output


def test_the_options_of_solve_declare_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text("site,y\na,0\nb,3\n")
    Path("edges.csv").write_text("from,to\na,b\n")
    declared = ("--data", "data.csv", "--target", "y", "--node", "site", "--edges", "edges.csv", "--alpha", 1)
    result = bench(*declared, "--methods", "auto", "--repeats", 1)
    assert result.exit_code == 0, result.output
    assert "auto" in result.output
    assert bench(*declared[:-2]).exit_code == 2  # no alpha


def test_a_missed_gap_has_no_time_and_exit_code_one(problem: gtv.GTVMin, tmp_path: Path) -> None:
    """A limit of a nanosecond stops the run at its first assessment."""
    file, table = problem.save(tmp_path / "problem.npz"), tmp_path / "times.csv"
    result = bench(file, "--methods", "primal_dual", "--gaps", "1e-12", "--time-limit", 1e-9, "--csv", table)
    assert result.exit_code == 1
    assert "primal_dual reached" in result.output
    with table.open() as stream:
        (row,) = csv.DictReader(stream)
    assert row["seconds"] == ""
    assert float(row["reached"]) > 1e-12


def test_smaller_gaps_are_left_out_after_a_miss(problem: gtv.GTVMin) -> None:
    timings = time_solvers(problem, ["primal_dual", "linear_system"], [1e-12, 1e-10], repeats=2, time_limit=1e-9)
    assert [(one.method, one.gap, one.seconds) for one in timings] == [("primal_dual", 1e-10, None)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--methods", "newton"), "method 'newton' is unknown"),
        (("--methods", "auto,linear_system"), "linear_system does not fit this problem"),
        (("--gaps", "1e-3,-1"), "-1"),
        (("--alpha", "2"), "leave out --alpha or the file"),
        (("--csv", "no/such/folder/times.csv"), "does not exist"),
    ],
)
def test_unusable_input_is_named(problem: gtv.GTVMin, tmp_path: Path, arguments: tuple[str, str], message: str) -> None:
    result = bench(problem.save(tmp_path / "problem.npz"), *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


def test_a_file_that_holds_no_problem_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"no archive")
    assert bench(tmp_path / "x.npz").exit_code == 2
