"""The suite of federated algorithms: claims, limits, ways in and messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gtvmin as gtv
from gtvmin.cli import main
from gtvmin.federated import federated_form
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_dc import FedDC
from gtvmin.solvers.federated.p_fed_me import PFedMe
from gtvmin.solvers.federated.participation import Bernoulli
from gtvmin.solvers.federated.prox_skip import ProxSkip
from gtvmin.solvers.federated.scaffold import Scaffold
from gtvmin.solvers.standard_form import Point
from gtvmin.verify import (
    FEDERATED_CHECKS,
    algorithm_under_test,
    check_solver,
    parametrize_with_solvers,
    suite,
    write_report,
)
from gtvmin.verify.federated.claims import read_claim
from gtvmin.verify.federated.limits import limit_of
from gtvmin.verify.runner import named_instances

pytest_plugins = ["pytester"]

BY_NAME = {instance.name: instance for instance in suite("federated")}
PAIR = BY_NAME["federated_pair"]
MINE = """
import numpy as np

def mean_of_minimisers(problem, weights="uniform", rounds=1):
    return np.mean([np.linalg.lstsq(atom.X, atom.y)[0] for loss in problem.losses for _, atom in loss.terms()], axis=0)

mean_of_minimisers.solves = "consensus"

class FedX:
    solves = "alone"
    requires = frozenset()
    variables = ("W",)
    expected_failures = {"check_models": "nothing is there yet"}

    def init(self, form, start): raise RuntimeError("to be written")
    step = point = init
"""


def server(problem: gtv.GTVMin, weights: Any = "uniform", rounds: int = 200) -> np.ndarray:
    """Gradient descent on the mean loss; the server's model."""
    form = federated_form(problem)
    p = algorithm_under_test("fedavg").shares(problem, weights)
    w = np.zeros(problem.dim)
    for _ in range(rounds):
        w = w - 0.5 / form.local.smoothness.max() * p @ form.local.gradient(np.tile(w, (form.n_nodes, 1)))
    return w


def test_claims_are_words() -> None:
    star = read_claim("personal star mu=0.25")
    assert (star.kind, star.mu, star.personal, str(star)) == ("star", 0.25, True, "personal star mu=0.25")
    assert [str(read_claim(word)) for word in ("consensus", "gtvmin", "alone", "none")] == [
        "consensus", "gtvmin", "alone", "none",
    ]  # fmt: skip
    for wrong in ("Consensus", "star", "star mu=0", "star mu=x", "star mu=-1", ""):
        with pytest.raises(ValueError, match="solves"):
            read_claim(wrong)


@pytest.mark.parametrize("stated", ["uniform", "samples", [3.0, 1.0], None])
def test_a_function_gets_weights_as_numbers(stated: Any) -> None:
    """Whatever was stated, as the checks that ask for other ones do: an array that adds up to one."""
    seen = []

    def mine(problem: gtv.GTVMin, weights: np.ndarray) -> np.ndarray:
        seen.append(weights)
        return server(problem, weights)

    tested = algorithm_under_test(mine, solves="consensus", weights=stated)
    tested.models(PAIR.problem(), 1)
    expected = {"uniform": [0.5, 0.5], "samples": [1 / 3, 2 / 3], None: [0.5, 0.5]}
    assert seen[0].tolist() == pytest.approx([0.75, 0.25] if isinstance(stated, list) else expected[stated])
    report = check_solver(tested, [PAIR], checks=["check_weights", "check_zero_weight", "check_device_order"])
    assert report.counts() == {"passed": 3}
    assert all(isinstance(p, np.ndarray) and p.sum() == pytest.approx(1.0) for p in seen)


@pytest.mark.parametrize(("weights", "model"), [("uniform", 1.5), ("samples", 2.0), ([3.0, 1.0], 0.75)])
def test_limits_of_two_numbers_are_those_by_hand(weights: Any, model: float) -> None:
    """0 with weight p, 3 with weight 1 - p."""
    problem = PAIR.problem()
    for algorithm in (Scaffold("uniform", 3), FedAvg("uniform"), server):
        tested = algorithm_under_test(algorithm, solves="consensus")
        assert np.allclose(tested.limit(problem, weights=weights).W, model, atol=1e-12)
        assert np.allclose(tested.program(problem, weights).problem.solve(gap=1e-12).weights, model, atol=1e-6)


def test_affine_limits_are_those_of_long_runs() -> None:
    problem = BY_NAME["federated_squares"].problem()
    tested = algorithm_under_test(Scaffold("samples", 5, eta=0.05))
    limit = tested.limit(problem)
    assert "affine map" in limit.how
    assert np.abs(limit.W - tested.models(problem, 3000)).max() < 1e-12
    random = algorithm_under_test(Scaffold("samples", 5, eta=0.05, participation=Bernoulli(0.5))).limit(problem)
    assert "affine" not in random.how
    assert random.settled
    assert np.abs(limit.W - random.W).max() < 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_rounds_that_differ_seldom_are_not_taken_for_affine(seed: int) -> None:
    """ProxSkip communicates in one of twenty rounds: the map of the others leads each device to its own minimiser."""
    tested = algorithm_under_test(ProxSkip("uniform", probability=0.05, seed=seed))
    assert "affine" not in tested.limit(BY_NAME["federated_squares"].problem()).how
    assert check_solver(tested, [BY_NAME["federated_squares"]], checks=["check_limit"]).ok


class Bare:
    """Gradient descent with a dictionary for a state, without a list of variables."""

    solves = "consensus"

    def init(self, form: Any, start: Any) -> dict[str, Any]:
        return {"w": np.zeros(form.dim) if start is None else start.W.mean(axis=0)}

    def step(self, form: Any, state: dict[str, Any]) -> dict[str, Any]:
        W = np.tile(state["w"], (form.n_nodes, 1))
        return {"w": state["w"] - 0.5 / form.local.smoothness.max() * form.local.gradient(W).mean(axis=0)}

    def point(self, form: Any, state: dict[str, Any]) -> Any:
        return Point(np.tile(state["w"], (form.n_nodes, 1)))


def test_states_of_any_kind_are_run() -> None:
    report = check_solver(Bare, [PAIR, BY_NAME["federated_squares"]])
    assert report.ok, str(report)
    passed = {row.check for row in report.results if row.outcome == "passed"}
    assert passed >= {"check_limit", "check_start", "check_empty_device", "check_states", "check_repeatable"}


def test_what_runs_away_is_named() -> None:
    form = federated_form(BY_NAME["federated_squares"].problem())
    with pytest.warns(UserWarning, match="drift may grow"):
        limit = limit_of(FedDC("uniform", 1.0, 1, 0.05), form, None)
    assert "spectral radius" in limit.runaway
    assert limit.runaway.endswith(("'g'", "'h'"))
    drawn = FedAvg("uniform", eta=1.0, participation=Bernoulli(0.5))
    with pytest.warns(UserWarning, match="may diverge"):
        limit = limit_of(drawn, form, None)
    assert "'model' grows without bound within" in limit.runaway


@pytest.mark.parametrize(
    ("claim", "hint"),
    [
        ("star mu=1", "star mu=2 with weights='uniform'"),
        ("consensus", None),
        ("gtvmin", None),
        ("personal star mu=2", "star mu=2 with weights='uniform'"),
    ],
)
def test_messages_name_the_program_that_is_solved_instead(claim: str, hint: str | None) -> None:
    tested = algorithm_under_test(gtv.federated.make_algorithm("fedprox", weights="uniform", mu=2.0), solves=claim)
    report = check_solver(tested, [BY_NAME["federated_squares"]], checks=["check_limit"])
    text = report.failures[0].reason
    assert "does not solve the program that is claimed" in text
    assert (f"hint: it solves {hint}" in text) if hint else ("hint" not in text)
    assert report.failures[0].judgement is not None


def test_wrong_weights_and_models_that_differ_are_told() -> None:
    def uniform(problem: gtv.GTVMin, rounds: int = 200) -> np.ndarray:
        return server(problem, "uniform", rounds)

    tested = algorithm_under_test(uniform, solves="consensus", weights="samples")
    reason = check_solver(tested, [PAIR], checks=["check_limit"]).failures[0].reason
    assert "it solves consensus with weights='uniform'" in reason
    apart = algorithm_under_test(lambda problem: {0: [1.4], 1: [1.6]}, solves="consensus")
    assert "models differ by up to 0.2" in check_solver(apart, [PAIR], checks=["check_limit"]).failures[0].reason


def test_classes_names_and_objects_are_read() -> None:
    assert algorithm_under_test(FedAvg).algorithm == FedAvg("uniform")
    assert algorithm_under_test("scaffold").takes == {"weights", "seed", "rounds", "start"}
    assert algorithm_under_test(server, solves="consensus").takes == {"weights", "rounds"}
    with pytest.raises(TypeError, match="PFedMe needs weights, lam"):
        algorithm_under_test(PFedMe)
    with pytest.raises(TypeError, match="does not say which program it solves"):
        algorithm_under_test(server)
    with pytest.raises(TypeError, match="init, step, point"):
        algorithm_under_test(object(), solves="none")
    with pytest.raises(ValueError, match=r"'fedavgg' is neither.*fedavg"):
        algorithm_under_test("fedavgg")
    with pytest.raises(ValueError, match="test them apart"):
        check_solver("fedavg", [*suite("federated")[:1], *suite("smoke")[:1]])
    with pytest.raises(ValueError, match="'check_answer' is unknown"):
        check_solver("fedavg", "federated", checks=["check_answer"])


def test_invariants_are_read_and_misspelt_ones_named() -> None:
    for text, problem in (("c = meen c_i", "'mean' or 'sum'"), ("c", "of the form"), ("c = mean x", "no 'x'")):
        tested = algorithm_under_test("scaffold", invariants=[text])
        assert problem in check_solver(tested, [PAIR], checks=["check_invariants"]).failures[0].reason
    kept = algorithm_under_test(Scaffold("samples"), invariants=["c = mean c_i", "mean c_i = c"])
    assert check_solver(kept, [PAIR], checks=["check_invariants"]).ok


def test_a_problem_that_settings_do_not_fit_is_skipped() -> None:
    """FedDyn has no default strength for losses that are not strongly convex."""
    report = check_solver("feddyn", [BY_NAME["federated_few_points"]])
    assert report.all_skipped
    assert "mu must be given" in report.results[0].reason


@parametrize_with_solvers("scaffold", algorithm_under_test(server, solves="consensus"), suite=[PAIR])
def test_decorated(solver: Any, instance: Any, check: Any) -> None:
    check(solver, instance)


def test_the_command_and_the_plugin(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(mine=MINE)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    result = CliRunner().invoke(main, ["verify", "fedavg", "--suite", "federated", "--quiet"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(main, ["verify", "mine:mean_of_minimisers", "--suite", "federated"])
    assert result.exit_code == 1
    assert "failed: check_limit[federated_squares]" in result.output
    result = CliRunner().invoke(main, ["verify", "mine:nothing", "--suite", "federated"])
    assert result.exit_code == 2
    run = pytester.runpytest("--gtvmin-solver", "mine:FedX", "--gtvmin-suite", "federated", "-k", "pair")
    others = (len(suite("federated")) - 1) * len(FEDERATED_CHECKS)
    run.assert_outcomes(xfailed=1, skipped=len(FEDERATED_CHECKS) - 1, deselected=others)


def test_reports_show_purpose_and_worst_devices(tmp_path: Path) -> None:
    tested = algorithm_under_test(FedAvg("uniform", 5, 0.05), solves="consensus", name="five steps")
    page = write_report(check_solver(tested, [BY_NAME["federated_squares"]]), tmp_path / "report.html").read_text()
    assert "The limit solves the program that is claimed" in page
    assert "Worst devices" in page


def test_the_documentation_lists_the_checks() -> None:
    page = (Path(__file__).resolve().parents[1] / "docs" / "verify.md").read_text(encoding="utf-8")
    assert all(f"`{check}`" in page for check in FEDERATED_CHECKS)
    assert named_instances("federated")[0] == "federated"
