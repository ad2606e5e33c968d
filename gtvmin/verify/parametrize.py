"""Decorators that run a test on instances, or on everything that a solver is put through."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gtvmin.verify.instances import Instance
from gtvmin.verify.runner import expected_reason, named_instances, validated_expectations
from gtvmin.verify.selection import ALL_CHECKS, UnderTest, checks_of, under_test

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["bound_checks", "parametrize_with_problems", "parametrize_with_solvers"]

Test = TypeVar("Test", bound=Callable[..., Any])


def parametrize_with_problems(
    suite: str | Sequence[Instance],
    *,
    argument: str = "problem",
) -> Callable[[Test], Test]:
    """Run a pytest function on every problem of a suite.

    Parameters
    ----------
    suite : str or sequence of Instance
        Name of a suite (see :func:`gtvmin.verify.suites`), or instances.
    argument : str
        Name of the test's argument that gets the problem; it is made when the test runs.

    Raises
    ------
    TypeError
        If a class is decorated: decorate its methods.
    ValueError
        For an unknown suite.

    Examples
    --------
    >>> from gtvmin.verify import assert_certified, parametrize_with_problems
    >>> @parametrize_with_problems("network_lasso")
    ... def test_my_solver(problem):
    ...     assert_certified(problem, problem.solve(gap=1e-7).weights)
    """
    import pytest

    _, instances = named_instances(suite)

    def decorate(test: Test) -> Test:
        if isinstance(test, type):
            raise TypeError("parametrize_with_problems decorates functions: put it above each method of the class")

        @functools.wraps(test)
        def on_problem(*positional: Any, **named: Any) -> Any:
            instance: Instance = named.pop(argument)
            problem: GTVMin = instance.problem()
            return test(*positional, **{argument: problem}, **named)

        cases = [pytest.param(instance, id=instance.name) for instance in instances]
        marked: Test = pytest.mark.parametrize(argument, cases)(on_problem)
        return marked

    return decorate


def parametrize_with_solvers(
    *solvers: Any,
    suite: str | Sequence[Instance] = "smoke",
    relative_gap: float | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[[Test], Test]:
    """Run a pytest function with every solver, instance and check.

    Parameters
    ----------
    *solvers
        As :func:`gtvmin.verify.check_solver` takes them.
    suite, relative_gap, expected_failures
        As there.

    Notes
    -----
    The test gets the arguments ``solver``, ``instance`` and ``check``.  Expected failures are strict ``xfail`` marks.

    Examples
    --------
    >>> from gtvmin.verify import parametrize_with_solvers
    >>> @parametrize_with_solvers("primal_dual", "adaptive_primal_dual")
    ... def test_solvers(solver, instance, check):
    ...     check(solver, instance)
    """
    import pytest

    cases = []
    for solver in solvers:
        tested = under_test(solver, named_instances(suite)[1], relative_gap, None)
        for instance, name, reason in bound_checks(tested, suite, expected_failures):
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            label = f"{tested.name}-{instance.name}-{name}"
            cases.append(pytest.param(tested, instance, ALL_CHECKS[name], id=label, marks=marks))
    return pytest.mark.parametrize(("solver", "instance", "check"), cases)


def bound_checks(
    tested: UnderTest, suite: str | Sequence[Instance], expected_failures: Mapping[str, str] | None
) -> list[tuple[Instance, str, str | None]]:
    """Every instance with every check's name, and why that is expected to fail, if it is."""
    _, instances = named_instances(suite)
    expected = validated_expectations({**tested.expected_failures, **(expected_failures or {})})
    return [(i, name, expected_reason(expected, name, i.name)) for i in instances for name in checks_of(instances)]
