"""Checks of the federated checks: each planted fault is caught, right algorithms are not, no check is superfluous.

The tables in ``docs/federated_faults.md`` are written by a run of these tests with ``GTVMIN_WRITE_DOCS=1``; a plain run
checks that they hold every fault and every check.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gtvmin.federated.catalogue import entries, make_algorithm, program_of, rows
from gtvmin.federated.program import Row
from gtvmin.verify import FEDERATED_CHECKS, SolverReport, algorithm_under_test, check_solver, suite
from planted_federated_faults import FAULTS, RIGHT, Fault

TABLE = Path(__file__).parents[1] / "docs" / "federated_faults.md"
BY_NAME = {instance.name: instance for instance in suite("federated")}
found: dict[str, set[str]] = {}


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Baselines are made anew, and none of a wrong problem is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTVMIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def report_on(fault: Fault) -> SolverReport:
    tested = algorithm_under_test(fault.algorithm, solves=fault.solves)
    tested.equals = tested.equals if "equals" in fault.declares else None
    tested.invariants = tested.invariants if "invariants" in fault.declares else ()
    return check_solver(tested, [BY_NAME[fault.instance]])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_is_caught(fault: Fault) -> None:
    report = report_on(fault)
    found[fault.name] = {row.check for row in report.failures}
    assert found[fault.name] == set(fault.checks), str(report)


@pytest.mark.parametrize("algorithm", RIGHT, ids=lambda algorithm: getattr(algorithm, "__doc__", "").partition("\n")[0])
def test_right_algorithms_written_apart_raise_no_alarm(algorithm: Any) -> None:
    """And their rounds are those of the package's."""
    report = check_solver(algorithm, [BY_NAME["federated_squares"]])
    assert report.ok, str(report)
    assert {row.check for row in report.results if row.outcome == "passed"} >= {"check_models", "check_rounds"}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.title)
def test_the_algorithms_of_the_package_raise_no_alarm(row: Row) -> None:
    report = check_solver(row.algorithm, [BY_NAME["federated_squares"]], name=row.title)
    assert report.ok, str(report)
    claimed = program_of(row.algorithm, BY_NAME["federated_squares"].problem()).exact or row.surrogate
    assert claimed == ("check_limit" in {row.check for row in report.results if row.outcome == "passed"})


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "scaffold", "feddyn", "fedgd"])
def test_other_losses_raise_no_alarm(name: str) -> None:
    """Rounds that are not affine are run, and devices with fewer data points than parameters are no problem."""
    algorithm = make_algorithm(name, **entries()[name].example)
    report = check_solver(algorithm, [BY_NAME["federated_logistic"], BY_NAME["federated_few_points"]])
    assert report.ok, str(report)


@pytest.mark.parametrize("check", FEDERATED_CHECKS)
def test_every_check_catches_what_no_other_does(check: str) -> None:
    assert any(fault.checks == (check,) for fault in FAULTS)
    assert "Fault:" in (FEDERATED_CHECKS[check].__doc__ or "")


HEAD = """# Planted faults of federated algorithms

Do the checks of `gtvmin verify --suite federated` find anything? Each row is a small algorithm with one fault of the
field (`tests/planted_federated.py`, `tests/planted_network.py`), run on the instance named; a dot stands where a check
failed, as it should. The same algorithms without the fault, and all algorithms of the package, fail none. Written by a
run of `tests/test_planted_federated_faults.py`.

Where the limit moves, `check_limit` sees it, and checks that compare with the right limit are skipped. Where it does
not move, the formula of a round does: `check_rounds`, round by round against the algorithm that the tested one says it
equals, or `check_invariants`, against identities that it declares. Without such a declaration 1 / epochs for
1 / (eta K), the sign of FedDC's correction and weights of mixtures that never adapt are *not* caught: their limits are
right.

"""
MIDDLE = """
## Why each check is there

For every check a fault that only this one catches, on that instance.

"""


def short(check: str) -> str:
    return check.removeprefix("check_").replace("_", " ")


def line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def tables() -> str:
    """Fault by check, then check by fault."""
    lines = [
        line("fault", "instance", *map(short, FEDERATED_CHECKS)),
        "|---|---" + "|:-:" * len(FEDERATED_CHECKS) + "|",
    ]
    for fault in FAULTS:
        dots = ("•" if check in found[fault.name] else "" for check in FEDERATED_CHECKS)
        lines.append(line(fault.name, fault.instance.removeprefix("federated_"), *dots))
    reasons = [line("check", "fault that only it catches"), "|---|---|"]
    for check in FEDERATED_CHECKS:
        fault = next(fault for fault in FAULTS if fault.checks == (check,))
        reasons.append(line(short(check), fault.name))
    return HEAD + "\n".join(lines) + "\n" + MIDDLE + "\n".join(reasons) + "\n"


def test_the_tables_in_the_docs_are_complete() -> None:
    """Written with GTVMIN_WRITE_DOCS=1; checked for their rows, columns and dots otherwise."""
    if os.environ.get("GTVMIN_WRITE_DOCS"):
        TABLE.write_text(tables(), encoding="utf-8")
    lines = [text for text in TABLE.read_text(encoding="utf-8").splitlines() if text.startswith("| ")]
    cells = [[part.strip() for part in text.strip("|").split("|")] for text in lines]
    assert cells[0] == ["fault", "instance", *map(short, FEDERATED_CHECKS)]
    body, reasons = cells[1 : len(FAULTS) + 1], cells[len(FAULTS) + 2 :]
    assert [text[0] for text in body] == [fault.name for fault in FAULTS]
    assert [text[0] for text in reasons] == [short(check) for check in FEDERATED_CHECKS]
    for fault, (_, _, *dots) in zip(FAULTS, body, strict=True):
        assert {check for check, dot in zip(FEDERATED_CHECKS, dots, strict=True) if dot} == set(fault.checks)
