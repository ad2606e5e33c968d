"""Verification of solvers: instances, certified baselines, checks and their report.

Names are loaded when first used, so that the pytest plugin costs nothing where it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "BaselineWarning": "gtvmin.verify.baselines",
    "CHECKS": "gtvmin.verify.checks",
    "CheckFailedError": "gtvmin.verify.checks",
    "CheckResult": "gtvmin.verify.results",
    "CheckSkipped": "gtvmin.verify.checks",
    "FEDERATED_CHECKS": "gtvmin.verify.selection",
    "Instance": "gtvmin.verify.instances",
    "SolverReport": "gtvmin.verify.results",
    "algorithm_under_test": "gtvmin.verify.federated.reading",
    "assert_certified": "gtvmin.verify.assertion",
    "baseline": "gtvmin.verify.baselines",
    "cache_folder": "gtvmin.verify.baselines",
    "check_solver": "gtvmin.verify.runner",
    "parametrize_with_problems": "gtvmin.verify.parametrize",
    "parametrize_with_solvers": "gtvmin.verify.parametrize",
    "suite": "gtvmin.verify.instances",
    "suites": "gtvmin.verify.instances",
    "write_junit": "gtvmin.verify.junit",
    "write_report": "gtvmin.verify.report",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from gtvmin.verify.assertion import assert_certified as assert_certified
    from gtvmin.verify.baselines import BaselineWarning as BaselineWarning
    from gtvmin.verify.baselines import baseline as baseline
    from gtvmin.verify.baselines import cache_folder as cache_folder
    from gtvmin.verify.checks import CHECKS as CHECKS
    from gtvmin.verify.checks import CheckFailedError as CheckFailedError
    from gtvmin.verify.checks import CheckSkipped as CheckSkipped
    from gtvmin.verify.federated.reading import algorithm_under_test as algorithm_under_test
    from gtvmin.verify.instances import Instance as Instance
    from gtvmin.verify.instances import suite as suite
    from gtvmin.verify.instances import suites as suites
    from gtvmin.verify.junit import write_junit as write_junit
    from gtvmin.verify.parametrize import parametrize_with_problems as parametrize_with_problems
    from gtvmin.verify.parametrize import parametrize_with_solvers as parametrize_with_solvers
    from gtvmin.verify.report import write_report as write_report
    from gtvmin.verify.results import CheckResult as CheckResult
    from gtvmin.verify.results import SolverReport as SolverReport
    from gtvmin.verify.runner import check_solver as check_solver
    from gtvmin.verify.selection import FEDERATED_CHECKS as FEDERATED_CHECKS


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gtvmin.verify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
