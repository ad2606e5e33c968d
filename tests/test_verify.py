"""Verification of solvers: instances against hand values and CVXPY, answers, checks, reports."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.flow import MinCostFlow
from gtvmin.verify import (
    CHECKS,
    CheckFailedError,
    CheckResult,
    CheckSkipped,
    Instance,
    assert_certified,
    baseline,
    check_solver,
    parametrize_with_problems,
    parametrize_with_solvers,
    suite,
    suites,
)
from gtvmin.verify.transforms import duplicated_rows, reordered, scaled, split_edge, two_copies
from models import cvxpy_optimum

EVERY = {instance.name: instance for name in suites() for instance in suite(name)}
HAND_VALUES = {
    "quadratic_two_nodes": 1.5,  # w = (1, 2): 1/2 + 1/2 + 1/2
    "lasso_two_nodes": 2.0,  # w = (1, 2): 1/2 + 1/2 + 1
    "lasso_near_merge": 2.25,  # 2.25 (1 - t^2) at the strength 1.5 t, up to 1e-12
    "clustering_two_points": 6.0,  # 4 of the points and 2 * 1 of the edge
    "flow_two_routes": -9.0,
}


def pair(lam: float = 1.0) -> gtv.GTVMin:
    """Two numbers, 0 and 3, with the optimum (1, 2) for one unit of flow: TVGL issue #9."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=lam)


def instance_of(problem: gtv.GTVMin) -> Instance:
    return Instance("mine", "A problem of this test.", lambda rng: problem)


def test_suites_hold_described_instances_under_unique_names() -> None:
    assert set(suites()) == {
        "smoke",
        "quadratic",
        "network_lasso",
        "convex_clustering",
        "classification",
        "flow",
        "hard",
    }
    for name in suites():
        members = suite(name)
        assert len({instance.name for instance in members}) == len(members) >= 6
        assert all(instance.description.endswith(".") for instance in members)
    with pytest.raises(ValueError, match=r"'smok' is unknown.*smoke"):
        suite("smok")


@pytest.mark.parametrize("name", EVERY)
def test_an_instance_is_the_same_each_time(name: str) -> None:
    instance = EVERY[name]
    first, second = instance.problem(), instance.problem()
    assert first is not second
    assert first.hash == second.hash
    if "smoke" in instance.tags:
        assert first.network.n_nodes <= 40


def test_another_seed_is_another_problem() -> None:
    instance = EVERY["lasso_weighted_grid"]
    assert instance.with_seed(1).problem().hash != instance.problem().hash


@pytest.mark.parametrize("name", EVERY)
def test_baselines_are_certified(name: str) -> None:
    problem = EVERY[name].problem()
    found = baseline(problem)
    size = max(abs(found.primal), 1e-10 * abs(problem.objective(np.zeros_like(found.W))))
    assert found.gap <= 1e-9 * size
    assert found.problem_hash == problem.hash


@pytest.mark.parametrize(("name", "value"), HAND_VALUES.items())
def test_baselines_agree_with_hand_values(name: str, value: float) -> None:
    assert baseline(EVERY[name].problem()).primal == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("quadratic_weighted_grid", "sq"),
        ("quadratic_complete", "sq"),
        ("lasso_weighted_grid", "l2"),
        ("lasso_rank_deficient", "l2"),
        ("lasso_l1", "l1"),
        ("lasso_linf", "linf"),
        ("lasso_sacramento", "l2"),
    ],
)
def test_baselines_agree_with_cvxpy(name: str, penalty: str) -> None:
    problem = EVERY[name].problem()
    assert baseline(problem).primal == pytest.approx(cvxpy_optimum(problem, penalty), rel=1e-6)


def test_flow_baseline_agrees_with_a_linear_program() -> None:
    problem = EVERY["flow_grid"].problem()
    assert -baseline(problem).primal == pytest.approx(MinCostFlow(problem).solve("highs").cost, rel=1e-8)


class Reported:
    """An answer with an objective of its own."""

    def __init__(self, W: Any, objective: float) -> None:
        self.W, self.objective = W, objective


def test_every_kind_of_answer_is_read() -> None:
    pd = pytest.importorskip("pandas")
    problem = pair()
    W = [[1.0], [2.0]]
    answers = [
        W,
        np.array(W),
        [1.0, 2.0],
        {"b": 2.0, "a": [1.0]},
        pd.DataFrame({"w0": [2.0, 1.0]}, index=["b", "a"]),
        (W, [[1.0]]),
        (W, {("b", "a"): [-1.0]}),
        problem.solve(),
        problem.solve().certificate,
        Reported(W, 2.0),
    ]
    for answer in answers:
        assert assert_certified(problem, answer).relative_gap <= 1e-6


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1.1], [1.9]], r"relative gap 0\.005 is larger(.|\n)*objective +2\.01(.|\n)*bound +2 "),
        ([[2.0], [1.0]], "permuted: 'a' has those of 'b'"),
        ([[-1.0], [-2.0]], "the parameters have the opposite sign"),
        ([[0.5], [2.5]], r"0\.5 times its alpha"),
        ([[1.5], [1.5]], r"2 times its alpha"),
        (([[1.0], [2.0]], [[-1.0]]), "the flows have the opposite sign"),
        (([[1.0], [2.0]], [[0.0]]), "the flows do not prove it"),
        (Reported([[1.0], [2.0]], 1.9), "evaluation mistake: it reports the objective 1.9"),
        ([[1.0], [math.nan]], "nan"),
        ([[1.0], [2.0], [3.0]], "not an answer to this problem"),
        ({"a": 1.0}, "no parameters for node 'b'"),
        (([[1.0], [2.0]], [[1.0]], 3), "tuple of 3"),
        (object(), "got object"),
    ],
)
def test_wrong_answers_are_explained(answer: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_certified(pair(), answer)


def test_ignored_weights_are_recognised() -> None:
    problem = EVERY["lasso_weighted_grid"].problem()
    net = problem.network
    unweighted = gtv.NetworkLasso(gtv.FLNetwork.from_edges(net.edges, nodes=net.nodes), problem.losses, lam=0.1)
    with pytest.raises(AssertionError, match="weights are not used"):
        assert_certified(problem, unweighted.solve(gap=1e-8).weights)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.GtvminWarning")
def test_a_gap_is_never_small_against_the_size_of_the_answer() -> None:
    """Parameters that are far away in a free direction lose their digits, and prove nothing."""
    problem = EVERY["flow_quadratic_cost"].problem()
    W = baseline(problem).W
    assert_certified(problem, W + 3.0)
    with pytest.raises(AssertionError, match="not certified"):
        assert_certified(problem, W + 1e14)


def test_a_problem_without_a_bound_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gtvmin.verify.baselines.TIME_LIMIT", 0.1)
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), [gtv.Linear([1.0])] * 2, penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(ValueError, match="unbounded below"):
        assert_certified(problem, [[0.0], [0.0]])


def test_transforms_keep_the_optimum_by_cvxpy() -> None:
    problem = EVERY["lasso_star"].problem()
    value = cvxpy_optimum(problem, "l2")
    for changed, factor in (
        (reordered(problem, range(9)[::-1]), 1.0),
        (scaled(problem, 0.1), 0.1),
        (split_edge(problem), 1.0),
        (two_copies(problem), 2.0),
    ):
        assert cvxpy_optimum(changed.problem, "l2") == pytest.approx(factor * value, rel=1e-6)
        best = changed.problem.solve(gap=1e-8).weights
        assert problem.objective(changed.back(best)) == pytest.approx(value, rel=1e-6)
    squared = gtv.GTVMin(problem.network, problem.losses, penalty=gtv.SquaredNorm(), alpha=0.3)
    assert cvxpy_optimum(split_edge(squared).problem, "sq") == pytest.approx(cvxpy_optimum(squared, "sq"), rel=1e-6)


@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_duplicated_rows_are_the_same_losses(scale: Any) -> None:
    draw = np.random.default_rng(0)
    X, y, w = draw.normal(size=(3, 2)), np.array([1.0, -1.0, 1.0]), draw.normal(size=2)
    losses = [
        gtv.SquaredError(X, y, scale=scale),
        gtv.SquaredError(X, y, scale=scale, sample_weight=[1, 2, 0]),
        gtv.Ridge(X, y, lam=0.5, scale=scale),
        0.3 * gtv.Logistic(X, y, scale=scale) + 0.1 * gtv.SquaredDistance(0.0),
        gtv.Zero(),
    ]
    problem = gtv.NetworkLasso(nx.path_graph(5), losses, lam=1.0)
    changed = duplicated_rows(problem).problem
    assert changed.losses[0].n_samples > 3
    for before, after in zip(losses, changed.losses, strict=True):
        assert after.value(w) == pytest.approx(before.value(w), rel=1e-12)


@pytest.mark.parametrize("method", ["adaptive_primal_dual", "linear_system", "cvxpy"])
def test_the_methods_pass_all_checks(method: str) -> None:
    instances = suite("smoke")[::3] if method == "cvxpy" else "smoke"
    report = check_solver(method, instances)
    assert report.ok, str(report)
    assert all(row.reason for row in report.results if row.outcome == "skipped")
    assert report.counts()["passed"] > 50


def test_the_paper_s_method_fails_as_declared() -> None:
    slow = ("check_scaling", "check_divergence")  # fixed steps take all 200,000 iterations there
    report = check_solver("primal_dual", suite("smoke")[::4], checks=[name for name in CHECKS if name not in slow])
    assert report.ok, str(report)
    report = check_solver("primal_dual", [EVERY["lasso_duplicate_rows"]], checks=["check_scaling"])
    assert report.counts() == {"xfailed": 1}
    assert "fixed" in report.results[0].reason


def test_rows_tell_what_was_measured() -> None:
    seen: list[CheckResult] = []
    report = check_solver("auto", suite("smoke")[:2], progress=seen.append)
    assert tuple(seen) == report.results
    assert [row.instance for row in report.results] == sorted([row.instance for row in report.results])
    gaps = {row.check: row for row in report.results}["check_certified_gap"]
    assert gaps.relative_gap is not None
    assert gaps.log10_gap is not None
    assert gaps.log10_gap <= -6
    assert gaps.seconds >= 0
    assert gaps.history
    frame = report.to_frame()
    assert list(frame["check"][: len(CHECKS)]) == list(CHECKS)
    assert str(report).endswith("ok")
    assert CheckResult("s", "i", "check", "passed", relative_gap=0.0).log10_gap == -math.inf
    assert CheckResult("s", "i", "check", "passed").log10_gap is None


def half(problem: gtv.GTVMin) -> Any:
    return 0.5 * problem.solve(gap=1e-8).weights


def refuse(problem: gtv.GTVMin) -> Any:
    raise NotImplementedError("nothing is for this solver")


def crash(problem: gtv.GTVMin) -> Any:
    raise ZeroDivisionError("no devices left")


def test_expected_failures_are_strict() -> None:
    mine, check = [instance_of(pair())], ["check_certified_gap"]
    failing = check_solver(half, mine, checks=check)
    assert not failing.ok
    assert failing.failures[0].key == "check_certified_gap[mine]"
    known = check_solver(half, mine, checks=check, expected_failures={"check_certified_gap[mine]": "it halves"})
    assert known.ok
    assert known.results[0].reason.startswith("it halves (not certified")
    surprise = check_solver("auto", mine, checks=check, expected_failures={"check_certified_gap": "it halves"})
    assert not surprise.ok
    assert surprise.counts() == {"xpassed": 1}


def test_a_solver_may_declare_its_own_known_failures() -> None:
    class Half:
        expected_failures = {"check_certified_gap": "it halves"}  # noqa: RUF012

        def __call__(self, problem: gtv.GTVMin) -> Any:
            return half(problem)

    report = check_solver(Half, [instance_of(pair())], checks=["check_certified_gap"])
    assert report.solver == "Half"
    assert report.counts() == {"xfailed": 1}


def test_a_crash_is_one_failure_and_all_skipped_is_one_too() -> None:
    report = check_solver(crash, [instance_of(pair())])
    assert [row.check for row in report.failures] == ["check_answer"]
    assert "ZeroDivisionError: no devices left" in report.failures[0].reason
    report = check_solver(refuse, [instance_of(pair())])
    assert report.all_skipped
    assert not report.ok
    assert not report.failures
    assert "nothing is for this solver" in report.results[0].reason


def test_options_are_those_of_the_signature() -> None:
    seen = []

    def solver(problem: gtv.GTVMin, *, gap: float, seed: int) -> Any:
        seen.append((gap, seed))
        return problem.solve(gap=gap).weights

    report = check_solver(solver, [instance_of(pair())], relative_gap=1e-4)
    assert report.ok
    assert set(seen) == {(1e-4, 0)}
    skipped = {row.check for row in report.results if row.outcome == "skipped"}
    assert {"check_warm_start", "check_iteration_budget", "check_claim", "check_flows"} <= skipped


def test_solvers_of_the_driver_protocol_and_references_are_taken() -> None:
    from gtvmin.solvers.adaptive_primal_dual import AdaptivePrimalDual

    reference = "gtvmin.solvers.adaptive_primal_dual:AdaptivePrimalDual"
    for solver in (AdaptivePrimalDual, AdaptivePrimalDual(relaxation=1.5), reference):
        report = check_solver(solver, [instance_of(pair())])
        assert report.ok, str(report)
        assert report.counts()["passed"] == len(CHECKS)


@pytest.mark.parametrize(
    ("solver", "options", "error", "message"),
    [
        ("simplex", {}, ValueError, "neither a method"),
        ("no_such_module:solve", {}, ValueError, "no module 'no_such_module'"),
        ("gtvmin:no_such_name", {}, ValueError, "no object 'no_such_name'"),
        (3, {}, TypeError, "a solver is a function"),
        ("auto", {"suite": "smok"}, ValueError, "unknown"),
        ("auto", {"suite": [3]}, TypeError, "Instance"),
        ("auto", {"checks": ["check_all"]}, ValueError, "check_all"),
        ("auto", {"expected_failures": {"check_all[x]": "why"}}, ValueError, "check_all"),
        ("auto", {"expected_failures": {"check_claim": ""}}, ValueError, "reason"),
        ("auto", {"relative_gap": -1.0}, ValueError, "relative_gap"),
    ],
)
def test_unusable_arguments_are_named(
    solver: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        check_solver(solver, **options)


def test_checks_can_be_called_by_themselves() -> None:
    mine = instance_of(pair())
    assert CHECKS["check_certified_gap"]("auto", mine).relative_gap <= 1e-6
    with pytest.raises(CheckFailedError, match="not certified"):
        CHECKS["check_certified_gap"](half, mine)
    with pytest.raises(CheckSkipped, match="'start'"):
        CHECKS["check_warm_start"](half, mine)
    assert all("Fault:" in (check.__doc__ or "") for check in CHECKS.values())


@parametrize_with_problems("convex_clustering")
def test_problems_come_to_tests(problem: gtv.GTVMin) -> None:
    assert isinstance(problem, gtv.GTVMin)
    assert len(problem.losses) == problem.network.n_nodes


@parametrize_with_problems(suite("smoke")[:1], argument="given")
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_problems_combine_with_other_arguments(factor: float, given: gtv.GTVMin) -> None:
    assert given.with_alpha(factor).alpha == factor


def test_classes_are_not_decorated() -> None:
    with pytest.raises(TypeError, match="each method"):
        parametrize_with_problems("smoke")(type("TestMine", (), {}))  # type: ignore[type-var]


@parametrize_with_solvers(
    half,
    "auto",
    suite=[instance_of(pair())],
    expected_failures={f"{name}[other]": "not here" for name in ("check_claim",)},
)
def test_solvers_come_to_tests(solver: Any, instance: Instance, check: Any) -> None:
    if solver.name == "half" and check.__name__ in ("check_certified_gap", "check_edgeless"):
        with pytest.raises(CheckFailedError):
            check(solver, instance)
    else:
        check(solver, instance)


def test_edgeless_flows_have_no_bound_and_are_skipped() -> None:
    problem = gtv.GTVMin(nx.path_graph(2), [gtv.Linear([1.0]), gtv.Linear([-1.0])], penalty=gtv.Norm(2), alpha=2.0)
    with pytest.raises(CheckSkipped, match="unbounded"):
        CHECKS["check_edgeless"]("auto", instance_of(problem))
