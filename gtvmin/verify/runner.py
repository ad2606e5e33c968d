"""Runs checks and collects what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gtvmin.verify.checks import Check, CheckFailedError, CheckSkipped, Finding
from gtvmin.verify.instances import Instance, suite
from gtvmin.verify.results import CheckResult, Outcome, SolverReport
from gtvmin.verify.selection import ALL_CHECKS, UnderTest, checks_of, under_test

__all__ = [
    "check_solver",
    "chosen_checks",
    "chosen_instances",
    "expected_reason",
    "named_instances",
    "validated_expectations",
]


def check_solver(
    solver: Any,
    suite: str | Sequence[Instance] = "smoke",
    *,
    relative_gap: float | None = None,
    expected_failures: Mapping[str, str] | None = None,
    instances: Iterable[str] | None = None,
    checks: Iterable[str] | None = None,
    name: str | None = None,
    progress: Callable[[CheckResult], None] | None = None,
) -> SolverReport:
    """Put a solver through the checks on a suite of instances.

    Parameters
    ----------
    solver : callable, Solver, class or str
        As :func:`~gtvmin.verify.under_test.solver_under_test` takes it: a function ``problem -> W`` or ``(W, U)``, a
        solver of the driver protocol, the name of a method, or ``"module:object"``.  On the suite ``federated`` a
        federated algorithm, as :func:`~gtvmin.verify.federated.reading.algorithm_under_test` takes it.
    suite : str or sequence of Instance
        Name of a suite (see :func:`gtvmin.verify.suites`), or instances.
    relative_gap : float, optional
        Certified relative gap that the solver is asked for, and judged by.  Default 1e-6; on the suite ``federated``
        1e-10, by which limits are judged.
    expected_failures : mapping, optional
        Known failures: ``"check_name"`` for all instances or ``"check_name[instance]"`` for one, and the reason.  They
        add to those of an attribute ``expected_failures`` of the solver.  Each must fail: one that passes is a failure.
    instances, checks : iterable of str, optional
        Names of the suite's instances, and of the checks, to run; default all.
    name : str, optional
        Of the solver, for the report.
    progress : callable, optional
        Called with each :class:`~gtvmin.verify.results.CheckResult`.

    Returns
    -------
    SolverReport
        Its ``ok`` is true if no check failed and not all were skipped.

    Raises
    ------
    ValueError
        For an unknown suite, instance, check or method, and an expected failure without a reason.
    TypeError
        For something that is no solver.

    Examples
    --------
    >>> from gtvmin.verify import check_solver
    >>> names = ["lasso_two_nodes", "quadratic_two_nodes"]
    >>> report = check_solver("adaptive_primal_dual", "smoke", instances=names, checks=["check_certified_gap"])
    >>> report.counts()
    {'passed': 2}
    """
    label, offered = named_instances(suite)
    kept = chosen_instances(instances, label, offered)
    tested = under_test(solver, kept, relative_gap, name)
    chosen = chosen_checks(checks, kept)
    expected = validated_expectations({**tested.expected_failures, **(expected_failures or {})})
    rows = []
    for instance in kept:
        for check_name, check in chosen.items():
            row = _row(tested, instance, check_name, check, expected_reason(expected, check_name, instance.name))
            rows.append(row)
            if progress is not None:
                progress(row)
    return SolverReport(tested.name, label, tested.relative_gap, tuple(rows))


def _row(tested: UnderTest, instance: Instance, name: str, check: Check, expected: str | None) -> CheckResult:
    began = time.perf_counter()
    outcome: Outcome
    try:
        finding, outcome, reason = check(tested, instance), "passed", ""
    except CheckSkipped as skipped:
        finding, outcome, reason = Finding(), "skipped", str(skipped)
    except CheckFailedError as failed:
        finding, outcome, reason = failed.finding, "failed", str(failed)
    except Exception as error:
        finding, outcome, reason = Finding(), "failed", f"{type(error).__name__}: {error}"
    if expected is not None and outcome == "failed":
        outcome, reason = "xfailed", f"{expected} ({reason})"
    elif expected is not None and outcome == "passed":
        outcome, reason = "xpassed", f"passed, although a failure was expected: {expected}"
    seconds = time.perf_counter() - began
    return CheckResult(
        solver=tested.name,
        instance=instance.name,
        check=name,
        outcome=outcome,
        reason=reason,
        relative_gap=finding.relative_gap,
        seconds=seconds,
        history=finding.history,
        judgement=finding.judgement if outcome == "failed" else None,
    )


def named_instances(chosen: str | Sequence[Instance]) -> tuple[str, tuple[Instance, ...]]:
    """Name of a suite and its instances."""
    if isinstance(chosen, str):
        return chosen, suite(chosen)
    instances = tuple(chosen)
    for instance in instances:
        if not isinstance(instance, Instance):
            raise TypeError(f"suite must be a name or a sequence of Instance objects, got {instance!r}")
    return "own instances", instances


def chosen_instances(names: Iterable[str] | None, suite: str, offered: Sequence[Instance]) -> tuple[Instance, ...]:
    """The instances of some names, in the suite's order; all without names."""
    if names is None:
        return tuple(offered)
    wanted, known = _names(names, "instances"), [instance.name for instance in offered]
    for name in wanted:
        if name not in known:
            raise ValueError(f"instance {name!r} is not in {suite}: choose from {', '.join(known)}")
    return tuple(instance for instance in offered if instance.name in wanted)


def chosen_checks(names: Iterable[str] | None, instances: Sequence[Instance]) -> Mapping[str, Check]:
    """The checks of some names that run on instances, in their order; all without names."""
    known = checks_of(instances)
    if names is None:
        return known
    wanted = _names(names, "checks")
    _must_exist(wanted, known)
    return {name: check for name, check in known.items() if name in wanted}


def _names(names: Iterable[str], argument: str) -> list[str]:
    """A list that is not empty."""
    if isinstance(names, str):
        raise TypeError(f"{argument} must be a list of names, got the single text {names!r}")
    wanted = list(names)
    if not wanted:
        raise ValueError(f"{argument} is empty: leave it out for all")
    return wanted


def validated_expectations(expected: Mapping[str, str]) -> dict[str, str]:
    """Expected failures whose checks exist and which all have a reason."""
    _must_exist((key.partition("[")[0] for key in expected), ALL_CHECKS)
    for key, reason in expected.items():
        if not reason:
            raise ValueError(f"expected_failures needs a reason for {key!r}")
    return dict(expected)


def expected_reason(expected: Mapping[str, str], check: str, instance: str) -> str | None:
    """Why a check is expected to fail on an instance; None if it is not."""
    return expected.get(f"{check}[{instance}]", expected.get(check))


def _must_exist(names: Iterable[str], known: Mapping[str, Check]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"check {name!r} is unknown: choose from {', '.join(known)}")
