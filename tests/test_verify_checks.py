"""Checks of solvers: the package's own, wrong ones, known failures, and the tests that decorators make."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import pytest

import gtvmin as gtv
from gtvmin.verify import (
    CHECKS,
    CheckFailedError,
    CheckResult,
    CheckSkipped,
    Instance,
    check_solver,
    parametrize_with_problems,
    parametrize_with_solvers,
    suite,
)


def pair(lam: float = 1.0) -> gtv.GTVMin:
    """Two numbers, 0 and 3, and one unit of flow between them: the optimum is (1, 2)."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=lam)


def instance_of(problem: gtv.GTVMin) -> Instance:
    return Instance("mine", "A problem of this test.", lambda rng: problem)


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
    duplicates = [instance for instance in suite("smoke") if instance.name == "lasso_duplicate_rows"]
    report = check_solver("primal_dual", duplicates, checks=["check_scaling"])
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
    return 0.5 * problem.solve(gap=1e-13).weights


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
