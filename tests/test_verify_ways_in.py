"""Ways in to the checks: the pytest plugin, the command, JUnit files, and the example project by itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from gtvmin.cli import main
from gtvmin.verify import CHECKS, CheckResult, SolverReport, check_solver, suite, write_junit

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[1]
SOLVERS = """
import gtvmin as gtv

def good(problem, *, gap=1e-6):
    return problem.solve(gap=gap).weights

def half(problem):
    if problem.network.n_nodes > 2:
        raise NotImplementedError("two devices at most")
    return 0.5 * problem.solve(gap=1e-8).weights

def picky(problem):
    raise NotImplementedError("no problem is good enough")

def stopped(problem, calls=[]):
    calls.append(problem)
    if len(calls) == 3:
        raise KeyboardInterrupt
    return 0.5 * problem.solve(gap=1e-8).weights

class Known:
    expected_failures = {"check_certified_gap[lasso_two_nodes]": "it halves"}

    def __call__(self, problem):
        return half(problem)

class Surprising(Known):
    def __call__(self, problem):
        return good(problem)
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of solvers, which the tests run in."""
    pytester.makepyfile(some_solvers=SOLVERS)
    pytester.makeini("[pytest]\nfilterwarnings = error\n")
    monkeypatch.delitem(sys.modules, "some_solvers", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return pytester.path


def test_the_plugin_is_registered_and_costs_nothing(tmp_path: Path) -> None:
    # of all installed metadata: a checkout may hold that of an earlier build as well
    declared = {
        entry.value for found in distributions(name="gtvmin") for entry in found.entry_points.select(group="pytest11")
    }
    assert declared == {"gtvmin.verify.pytest_plugin"}
    script = "import sys, gtvmin.verify.pytest_plugin; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "scipy", "networkx", "click", "rich", "gtvmin.problem", "gtvmin.verify.checks"}


@pytest.mark.usefixtures("folder")
def test_checks_are_collected_beside_the_tests_that_are_there(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mine="def test_mine():\n    pass\n")
    run = pytester.runpytest("--gtvmin-solver", "some_solvers:good", "-k", "two_nodes or mine", "-v")
    run.assert_outcomes(passed=27, skipped=12, deselected=(len(suite("smoke")) - 2) * len(CHECKS))
    run.stdout.fnmatch_lines(["*gtvmin::some_solvers:good::check_certified_gap[[]lasso_two_nodes[]] PASSED*"])
    assert run.ret == 0


@pytest.mark.usefixtures("folder")
def test_failures_and_known_failures_are_told(pytester: pytest.Pytester) -> None:
    options = ("-k", "lasso_two_nodes and (check_certified_gap or check_answer)", "-rA")
    run = pytester.runpytest("--gtvmin-solver", "some_solvers:half", "--gtvmin-suite", "network_lasso", *options)
    assert run.ret == 1
    run.stdout.fnmatch_lines(
        ["*some_solvers:half: check_certified_gap*", "not certified: the relative gap*", "*bound*"]
    )
    run.stdout.no_fnmatch_line("*Traceback*")
    run = pytester.runpytest("--gtvmin-solver", "some_solvers:Known", *options)
    run.assert_outcomes(passed=1, xfailed=1, deselected=len(suite("smoke")) * len(CHECKS) - 2)
    run.stdout.fnmatch_lines(["XFAIL*it halves*"])
    run = pytester.runpytest("--gtvmin-solver", "some_solvers:Surprising", *options)
    run.assert_outcomes(passed=1, failed=1, deselected=len(suite("smoke")) * len(CHECKS) - 2)
    run.stdout.fnmatch_lines(["*XPASS(strict)*it halves*"])


@pytest.mark.usefixtures("folder")
def test_nothing_but_skips_is_a_failure(pytester: pytest.Pytester) -> None:
    run = pytester.runpytest("--gtvmin-solver", "some_solvers:picky", "-k", "two_nodes")
    assert run.ret == 1
    run.stdout.fnmatch_lines(["*all 38 checks of the solver were skipped: nothing was checked*"])


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gtvmin-solver", "some_solvers:bad"], "module 'some_solvers' has no object 'bad'"),
        (["--gtvmin-solver", "primal_dual", "--gtvmin-suite", "smok"], "suite 'smok' is unknown*"),
        (["--gtvmin-solver", "primal_dual", "--gtvmin-gap", "-1"], "*relative_gap*"),
    ],
)
def test_unusable_options_are_collection_errors(pytester: pytest.Pytester, options: list[str], message: str) -> None:
    run = pytester.runpytest(*options)
    assert run.ret == pytest.ExitCode.INTERRUPTED
    run.stdout.fnmatch_lines([message])


def test_the_fixture_asserts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import gtvmin as gtv
        import pytest

        def test_candidates(gtvmin_certify):
            losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
            problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1)]), losses, lam=1.0)
            gtvmin_certify(problem, {0: [1.0], 1: [2.0]}, relative_gap=1e-8)
            with pytest.raises(AssertionError, match="gap"):
                gtvmin_certify(problem, {0: [1.1], 1: [1.9]})
        """
    )
    pytester.runpytest("-W", "error").assert_outcomes(passed=1)


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["verify", *arguments])


def test_the_command_says_whether_a_solver_is_right(folder: Path) -> None:
    right = verify("linear_system", "--suite", "quadratic", "--junit", "checks.xml")
    assert right.exit_code == 0, right.output
    assert right.output.splitlines()[-2].startswith("linear_system on quadratic, relative gap 1e-06:")
    assert (folder / "checks.xml").exists()
    assert verify("linear_system", "--suite", "quadratic", "--quiet").output == ""
    wrong = verify("some_solvers:half", "--suite", "quadratic")
    assert wrong.exit_code == 1
    assert "failed: check_certified_gap[quadratic_two_nodes]: not certified" in wrong.output
    assert wrong.output.endswith("FAILED\n")
    nothing = verify("some_solvers:picky")
    assert nothing.exit_code == 1
    assert "nothing was checked" in nothing.output


@pytest.mark.usefixtures("folder")
def test_a_run_can_be_narrowed() -> None:
    """To some instances and some checks, by their names, in the order of the suite."""
    options = ["--instance", "lasso_path", "--instance", "lasso_two_nodes", "--check", "check_certified_gap"]
    found = verify("some_solvers:good", *options, "--check", "check_answer")
    assert found.exit_code == 0, found.output
    assert found.output.splitlines()[-1] == "some_solvers:good on smoke, relative gap 1e-06: 4 passed: ok"
    report = check_solver("auto", instances=["lasso_path", "lasso_two_nodes"], checks=["check_certified_gap"])
    assert [row.key for row in report.results] == [
        "check_certified_gap[lasso_two_nodes]",
        "check_certified_gap[lasso_path]",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"instances": ["lasso_pat"]}, r"instance 'lasso_pat' is not in smoke: choose from .*, lasso_two_nodes, "),
        ({"checks": ["check_gap"]}, r"check 'check_gap' is unknown: choose from check_answer, "),
        ({"instances": []}, "instances is empty"),
        ({"checks": []}, "checks is empty"),
    ],
)
def test_unknown_names_are_answered_with_the_list(options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_solver("auto", **options)
    with pytest.raises(TypeError, match="must be a list of names"):
        check_solver("auto", **dict.fromkeys(options, "lasso_path"))


@pytest.mark.usefixtures("folder")
def test_an_interrupted_run_says_what_it_found() -> None:
    result = verify("some_solvers:stopped", "--suite", "quadratic")
    assert result.exit_code == 1
    assert "failed: check_certified_gap[quadratic_two_nodes]: not certified" in result.output
    assert re.search(r"interrupted after \d+ checks, 1 of them failed", result.output)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument"),
        (["some_solvers:bad"], "no object 'bad'"),
        (["simplex"], "neither a method"),
        (["auto", "--suite", "smok"], "'--suite'"),
        (["auto", "--gap", "0"], "'--gap'"),
        (["auto", "--instance", "lasso_pat"], "'--instance': instance 'lasso_pat' is not in smoke: choose from"),
        (["auto", "--check", "check_gap"], "'--check': check 'check_gap' is unknown: choose from check_answer"),
        (["auto", "--expected-failure", "check_claim"], "not of the form"),
        (["auto", "--expected-failure", "check_all=why"], "check_all"),
        (["auto", "--junit", "no/such/folder/checks.xml"], "does not exist"),
    ],
)
def test_unusable_input_is_exit_code_2(arguments: list[str], message: str) -> None:
    result = verify(*arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.usefixtures("folder")
def test_known_failures_come_from_the_command_line() -> None:
    surprise = verify("linear_system", "--suite", "quadratic", "--expected-failure", "check_scaling=I thought so")
    assert surprise.exit_code == 1
    assert "xpassed: check_scaling[quadratic_path]" in surprise.output


def test_help_shows_its_examples_line_by_line() -> None:
    for command in ([], ["certify"], ["verify"]):
        text = CliRunner().invoke(main, [*command, "--help"]).output
        assert "\\b" not in text
        assert any(line.strip().startswith("gtvmin ") and line.count("gtvmin ") == 1 for line in text.splitlines())


def test_junit_counts_what_it_holds(tmp_path: Path) -> None:
    rows = (
        CheckResult("s", "a", "check_answer", "passed", seconds=0.5),
        CheckResult("s", "a", "check_claim", "skipped", "claims nothing"),
        CheckResult("s", "a", "check_flows", "failed", "first\x00line\nsecond <line>"),
        CheckResult("s", "b", "check_answer", "xfailed", "known"),
        CheckResult("s", "b", "check_claim", "xpassed", "surprise"),
    )
    skipped = (CheckResult("t", "a", "check_answer", "skipped", "no"),)
    path = write_junit([SolverReport("s", "x", 1e-6, rows), SolverReport("t", "x", 1e-6, skipped)], tmp_path / "j.xml")
    first, second = ElementTree.parse(path).getroot()
    assert {name: first.get(name) for name in ("tests", "failures", "skipped", "time")} == {
        "tests": "5",
        "failures": "2",
        "skipped": "2",
        "time": "0.500",
    }
    assert len(first.findall("testcase/failure")) == 2
    assert len(first.findall("testcase/skipped")) == 2
    failure = first.find("testcase/failure")
    assert failure is not None
    assert failure.text == "first\ufffdline\nsecond <line>"
    assert (second.get("tests"), second.get("failures")) == ("2", "1")
    assert SolverReport("s", "x", 1e-6, rows).counts()["passed"] == 1


def test_junit_of_a_run_is_read_back(tmp_path: Path) -> None:
    report = check_solver("auto", suite("smoke")[:1])
    (group,) = ElementTree.parse(write_junit([report], tmp_path / "j.xml")).getroot()
    assert [case.get("name") for case in group] == list(CHECKS)


def test_the_example_project_passes_its_own_tests(tmp_path: Path) -> None:
    project = shutil.copytree(
        ROOT / "examples" / "verify_your_solver",
        tmp_path / "project",
        ignore=shutil.ignore_patterns("__pycache__", ".*"),
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed, " in done.stdout
