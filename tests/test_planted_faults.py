"""Checks of the checks: each planted fault is caught, right solvers are not, and no check is superfluous.

The tables in ``docs/faults.md`` are written by a run of these tests with ``GTVMIN_WRITE_DOCS=1``; a plain run checks
that they hold every fault and every check.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import plain_admm
from faults import BY_NAME, FAULTS, Fault
from gtvmin.verify import CHECKS, check_solver, suite

TABLE = Path(__file__).parents[1] / "docs" / "faults.md"
found: dict[str, set[str]] = {}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Baselines are made anew, and none of a wrong problem is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTVMIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.solver.__name__)
def test_every_fault_is_caught(fault: Fault) -> None:
    report = check_solver(fault.solver, fault.instances, name=fault.name)
    assert not report.ok
    found[fault.name] = {row.check for row in report.failures}
    assert set(fault.checks) <= found[fault.name], str(report)
    if fault.alone:
        assert set(fault.checks) == found[fault.name], str(report)


def test_the_solver_of_the_package_raises_no_alarm() -> None:
    report = check_solver("auto", "smoke")
    assert report.ok, str(report)
    assert {row.check for row in report.results if row.outcome == "passed"} == set(CHECKS)


def test_a_plain_solver_raises_no_alarm() -> None:
    slow = ("clustering_large_units", "clustering_blobs")  # other sizes and units of what is here
    instances = [instance for instance in suite("smoke") if instance.name not in slow]
    report = check_solver(plain_admm.solve, [*instances, BY_NAME["lasso_linf"]])
    assert report.ok, str(report)
    assert report.counts()["passed"] > 200


def test_a_gap_below_that_of_the_baseline_can_be_asked_for() -> None:
    """Then the solver's own flows prove it: the baseline is made to 1e-9 only."""
    report = check_solver(
        "adaptive_primal_dual", [BY_NAME["lasso_star"]], relative_gap=1e-12, checks=["check_certified_gap"]
    )
    assert report.ok, str(report)


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_catches_what_no_other_does(check: str) -> None:
    assert any(fault.alone and fault.checks == (check,) for fault in FAULTS)


HEAD = """# Planted faults

Do the checks of `gtvmin verify` find anything? Each row is a solver with one small fault (`tests/faults.py`), run on
the instance named; a dot stands where a check failed, as it should. Right solvers, the package's own and a plain ADMM
in NumPy (`tests/plain_admm.py`), fail none. Written by a run of `tests/test_planted_faults.py`.

"""

MIDDLE = """
## Why each check is there

For every check a fault that only this one catches, on that instance.

"""


def short(check: str) -> str:
    return check.removeprefix("check_").replace("_", " ")


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def tables() -> str:
    """Fault by check, then check by fault."""
    lines = [row("fault", "instance", *map(short, CHECKS)), "|---|---" + "|:-:" * len(CHECKS) + "|"]
    for fault in FAULTS:
        dots = ("•" if check in found[fault.name] else "" for check in CHECKS)
        lines.append(row(f"{fault.name}: {lowered(fault.description)}", fault.instances[0].name, *dots))
    reasons = [row("check", "fault that only it catches", "what is wrong"), "|---|---|---|"]
    for check in CHECKS:
        fault = next(fault for fault in FAULTS if fault.alone and fault.checks == (check,))
        reasons.append(row(short(check), fault.name, fault.description))
    return HEAD + "\n".join(lines) + "\n" + MIDDLE + "\n".join(reasons) + "\n"


def lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:].rstrip(".")


def test_the_tables_in_the_docs_are_complete() -> None:
    """Written with GTVMIN_WRITE_DOCS=1; checked for their rows and columns otherwise."""
    if os.environ.get("GTVMIN_WRITE_DOCS"):
        TABLE.write_text(tables(), encoding="utf-8")
    lines = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    assert cells[0] == ["fault", "instance", *map(short, CHECKS)]
    body, reasons = cells[1 : len(FAULTS) + 1], cells[len(FAULTS) + 2 :]
    assert [line[0].partition(":")[0] for line in body] == [fault.name for fault in FAULTS]
    assert [line[0] for line in reasons] == [short(check) for check in CHECKS]
    for fault, (_, _, *dots) in zip(FAULTS, body, strict=True):
        assert {check for check, dot in zip(CHECKS, dots, strict=True) if dot} >= set(fault.checks)
