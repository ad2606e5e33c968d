"""The pytest plugin: checks of a solver without a line of test code, and a fixture.

``pytest --gtvmin-solver module:object --gtvmin-suite network_lasso`` collects every check on every instance besides the
tests that are there.  The package itself is imported only if an option or the fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

__all__ = ["CheckItem", "SolverChecks"]

NODE = "gtvmin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("gtvmin", "checks of solvers (gtvmin)")
    group.addoption(
        "--gtvmin-solver",
        action="append",
        default=[],
        metavar="MODULE:OBJECT",
        help="Solver to check, or the name of a method of gtvmin; may be given several times.",
    )
    group.addoption("--gtvmin-suite", default="smoke", metavar="NAME", help="Suite of instances (default: smoke).")
    group.addoption(
        "--gtvmin-gap",
        type=float,
        metavar="GAP",
        help="Relative gap to certify (default: 1e-6, on the suite federated 1e-10).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run if there is a solver to check."""
    if config.getoption("gtvmin_solver"):
        config.pluginmanager.register(NothingChecked(), "gtvmin-nothing-checked")


@pytest.fixture(scope="session")
def gtvmin_certify() -> Callable[..., Any]:
    """Assert that an answer is certified: ``gtvmin_certify(problem, answer, relative_gap=1e-6)``.

    The same as :func:`gtvmin.verify.assert_certified`.
    """
    from gtvmin.verify import assert_certified

    return assert_certified


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Add the checks to what the session has collected."""
    report = yield
    if isinstance(collector, pytest.Session) and report.passed:
        for reference in collector.config.getoption("gtvmin_solver"):
            node = SolverChecks.from_parent(collector, name=reference, nodeid=f"{NODE}::{reference}")
            report.result.append(node)
    return report


class SolverChecks(pytest.Collector):
    """All checks of one solver."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item for each check and instance."""
        from gtvmin.verify.parametrize import bound_checks
        from gtvmin.verify.runner import named_instances
        from gtvmin.verify.selection import under_test

        try:
            _, instances = named_instances(self.config.getoption("gtvmin_suite"))
            tested = under_test(self.name, instances, self.config.getoption("gtvmin_gap"), None)
            rows = bound_checks(tested, instances, None)
        except (ValueError, TypeError) as error:
            raise self.CollectError(str(error)) from error
        for instance, name, reason in rows:
            item = CheckItem.from_parent(self, name=f"{name}[{instance.name}]")
            item.tested, item.instance, item.check_name = tested, instance, name
            if reason is not None:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
            yield item


class CheckItem(pytest.Item):
    """One check of one solver on one instance."""

    tested: Any
    instance: Any
    check_name: str

    def runtest(self) -> None:
        """Run the check."""
        from gtvmin.verify.checks import CheckSkipped
        from gtvmin.verify.selection import ALL_CHECKS

        try:
            ALL_CHECKS[self.check_name](self.tested, self.instance)
        except CheckSkipped as skipped:
            pytest.skip(str(skipped))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The reason of a check's failure, the traceback of any other."""
        from gtvmin.verify.checks import CheckFailedError

        if isinstance(excinfo.value, CheckFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, None, str]:
        """What heads its section in the report."""
        return self.path, None, f"{self.tested.name}: {self.name}"


class NothingChecked:
    """Fails a run in which every check was skipped: nothing was checked."""

    def __init__(self) -> None:
        self.skipped, self.ran = 0, 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count the checks."""
        if not report.nodeid.startswith(f"{NODE}::"):
            return
        if report.skipped and not hasattr(report, "wasxfail"):
            self.skipped += 1
        elif report.when == "call":
            self.ran += 1

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Turn success into failure."""
        if self.skipped and not self.ran and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say why."""
        if self.skipped and not self.ran:
            terminalreporter.section("gtvmin", red=True, bold=True)
            terminalreporter.line(
                f"all {self.skipped} checks of the solver were skipped: nothing was checked", red=True
            )
