"""The benchmarks: their judgement against CVXPY, and what they write when a solver misbehaves."""

from __future__ import annotations

import csv
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import gtvmin as gtv

# behind the installed packages: the checkout's own gtvmin lacks gtvmin.solvers
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import __main__ as command
from benchmarks import answers, conic, linear, plain, runner
from benchmarks.answers import Answer, DoesNotFit, Proof, Stopwatch, judge
from benchmarks.contenders import Contender, contenders
from benchmarks.instances import INSTANCES, make_instance
from benchmarks.records import Job, Record
from benchmarks.worker import thinned, work

GAPS = (1e-4, 1e-6, 1e-8)


@pytest.mark.parametrize("name", ["A2", "B-moons-5k", "C-grid-1", "D"])
@pytest.mark.parametrize("solver", ["plain_pdhg", "plain_admm", "plain_cg"])
def test_plain_methods_reach_the_optimum_of_cvxpy(name: str, solver: str) -> None:
    """Certified to 1e-6, and so no farther than that from Clarabel's value."""
    problem = make_instance(name, small=True)
    found = contenders()[solver].measure(problem, None, GAPS, 30.0)
    fits = (solver == "plain_cg") == (name == "C-grid-1")
    if not fits:
        with pytest.raises(DoesNotFit):
            next(iter(found))
        return
    verdict = next(verdict for verdict in map(judge, found) if verdict.gap <= 1e-6)
    value = problem.to_cvxpy().solve(solver="CLARABEL")
    size = problem.objective(np.zeros((problem.network.n_nodes, problem.dim)))
    assert verdict.objective == pytest.approx(value, rel=2e-6, abs=1e-9 * size)
    assert verdict.bound <= verdict.objective


@pytest.mark.parametrize("solver", ["CLARABEL", "OSQP", "pdlp"])
def test_duals_of_peers_certify_their_answers(solver: str) -> None:
    if solver == "pdlp":
        pytest.importorskip("ortools.pdlp", reason="needs ortools")
    problem = make_instance("D", small=True)
    measure = conic.pdlp if solver == "pdlp" else conic.conic(solver)
    gaps = [judge(answer).gap for answer in measure(problem, None, GAPS, 5.0)]
    assert min(gaps) <= 1e-8
    assert gaps[0] > min(gaps)  # each rung of the ladder asks for more


def test_multigrid_solves_the_linear_system() -> None:
    pytest.importorskip("pyamg", reason="needs pyamg")
    problem = make_instance("C-knn-100", small=True)
    assert min(judge(answer).gap for answer in linear.multigrid(problem, None, GAPS, 5.0)) <= 1e-8


def test_wrong_duals_and_none_certify_nothing() -> None:
    problem = make_instance("A2", small=True)
    solution = problem.solve(gap=1e-9)
    W, duals = solution.weights, solution.certificate.duals
    good, bad, none = (
        judge(Answer(0.1, 0.0, (Proof(problem, W, given),))) for given in (duals, tuple(-d for d in duals), None)
    )
    assert good.gap <= 1e-8 < bad.gap
    assert none.gap == math.inf
    assert none.objective == good.objective


def test_a_path_is_judged_by_its_worst_solution() -> None:
    problem = make_instance("path-moons-5k", small=True)
    lams = INSTANCES["path-moons-5k"].lams(problem)[::30]
    (answer,) = plain.trajectory(plain.PlainADMM)(problem, lams, (1e-4,), 5.0)
    assert [proof.problem.alpha for proof in answer.proofs] == pytest.approx(list(lams))
    assert 0 < judge(answer).gap <= 1e-4
    spoilt = Answer(0.0, 0.0, (*answer.proofs[:-1], answer.proofs[-1]._replace(W=0.9 * answer.proofs[-1].W)))
    assert judge(spoilt).gap > 1e-4


def test_the_solvers_of_the_registry_take_part() -> None:
    names = contenders()
    assert {"auto", *gtv.registry.solver_names()} <= set(names)
    assert not Contender("x", "peer", linear.multigrid, "no_such_module").is_installed


def test_the_cpu_clock_stands_still_while_a_process_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_clock", answers._clock)
    seconds = {}
    for clock in ("wall", "cpu"):
        answers.use_clock(clock)
        with Stopwatch() as watch:
            time.sleep(0.1)
        seconds[clock] = watch.seconds
    assert seconds["wall"] >= 0.1 > 2 * seconds["cpu"]


def test_curves_are_thinned_to_halvings() -> None:
    assert thinned(((1.0, 1.0), (2.0, 0.9), (3.0, 0.4), (4.0, 0.3), (5.0, 0.1))) == [(1.0, 1.0), (3.0, 0.4), (5.0, 0.1)]


def run_script(
    monkeypatch: pytest.MonkeyPatch, script: str, *, limit: float = 20.0, grace: float = 20.0
) -> list[Record]:
    """What is recorded of a worker that runs this script instead."""
    monkeypatch.setattr(runner, "worker_command", lambda job: [sys.executable, "-c", script])
    return runner.run_job(Job("A1", "auto", limit=limit), "peer", grace=grace)


ANSWERS = 'print(\'{"event": "answer", "repeat": 0, "seconds": 1.5, "setup": 0, "gap": 1e-5, "objective": 1,'
ANSWERS += ' "bound": 0, "trace": []}\', flush=True)\n'


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("import os; os.abort()", "crashed: signal 6"),
        ("raise SystemExit('no licence')", "crashed: exit code 1: no licence"),
        ("import time; time.sleep(60)", "stopped: nothing within 1 s"),
    ],
    ids=["abort", "exit", "hang"],
)
@pytest.mark.skipif(os.name == "nt", reason="signals have other codes there")
def test_a_worker_that_dies_costs_one_cell(monkeypatch: pytest.MonkeyPatch, script: str, status: str) -> None:
    """And what it had answered before stays."""
    answer, end = run_script(monkeypatch, ANSWERS + script, limit=0.5, grace=0.5 if "sleep" in script else 20.0)
    assert (answer.row, answer.seconds, answer.gap) == ("answer", 1.5, 1e-5)
    assert (end.row, end.status) == ("end", status)


def test_threads_are_pinned_before_the_libraries_load(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os; raise SystemExit(os.environ['OPENBLAS_NUM_THREADS'] + os.environ['NUMBA_NUM_THREADS'])"
    assert run_script(monkeypatch, script)[-1].status.endswith("code 1: 11")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (DoesNotFit("too round"), "does not fit: too round"),
        (MemoryError(), "out of memory"),
        (RuntimeError("singular\nmatrix"), "failed: RuntimeError: singular"),
    ],
)
def test_a_solver_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, error: Exception, status: str) -> None:
    def measure(*arguments: object) -> None:
        raise error

    monkeypatch.setattr("benchmarks.contenders.contenders", lambda: {"bad": Contender("bad", "peer", measure)})
    events: list[dict[str, object]] = []
    work(Job("D", "bad", small=True), lambda event, **values: events.append({"event": event, **values}))
    assert events == [{"event": "end", "status": status}]


def test_the_command_writes_all_files_and_merges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One real run of two solvers, then one of a solver that is not there."""
    options = ["--small", "--instances", "D", "--repeats", "2", "--time-limit", "5", "--out", str(tmp_path)]
    result = CliRunner().invoke(command.main, [*options, "--solvers", "auto,plain_pdhg"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    images = {path.name for path in (tmp_path / "images").iterdir()}
    assert {path.name for path in tmp_path.iterdir()} == {
        "benchmarks.csv",
        "benchmarks-runs.csv",
        "benchmarks.md",
        "images",
    }
    assert images == {"benchmark-D-small.png"}
    absent = Contender("pyamg", "peer", linear.multigrid, "no_such_module", "D")
    monkeypatch.setattr(command, "contenders", lambda: {"pyamg": absent})
    CliRunner().invoke(command.main, [*options, "--solvers", "pyamg"], catch_exceptions=False)
    with (tmp_path / "benchmarks.csv").open() as stream:
        table = {(row["solver"], row["level"]): row for row in csv.DictReader(stream)}
    assert {solver for solver, _ in table} == {"auto", "plain_pdhg", "pyamg"}
    assert table["pyamg", "1e-06"]["status"] == "not installed"
    for solver in ("auto", "plain_pdhg"):
        times = [float(table[solver, level]["seconds"]) for level in ("0.0001", "1e-06", "1e-08")]
        assert 0 < times[0] <= times[1] <= times[2] < 10
    assert "Not installed: pyamg." in (tmp_path / "benchmarks.md").read_text()


def test_unknown_names_are_refused() -> None:
    result = CliRunner().invoke(command.main, ["--instances", "A1,Z9"])
    assert result.exit_code == 2
    assert "Z9 is not among A1" in result.output


def test_nobody_is_sent_where_letters_say_it_cannot_go() -> None:
    """And wherever one is not sent, it could indeed not have gone."""
    tiny = {letter: next(name for name in INSTANCES if name[0] == letter) for letter in "ABCDE"}
    for contender in contenders().values():
        if contender.kind == "plain":
            for letter in set("ABCDE") - set(contender.letters):
                problem = make_instance(tiny[letter], small=True)
                with pytest.raises(DoesNotFit):
                    next(iter(contender.measure(problem, None, GAPS, 1.0)))
