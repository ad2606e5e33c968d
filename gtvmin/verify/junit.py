"""Reports as JUnit XML, which CI services show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from gtvmin.storage import write_atomically
from gtvmin.verify.results import CheckResult, SolverReport

__all__ = ["write_junit"]

# XML 1.0 has no place for control characters and lone surrogates.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(reports: Sequence[SolverReport], path: str | Path) -> Path:
    """Write reports to a JUnit XML file: a test suite for each solver, a test case for each row.

    Expected failures are skipped test cases; a report in which all was skipped gets a failing test case of its own.
    """
    root = ElementTree.Element("testsuites", name="gtvmin verify")
    for report in reports:
        failures = [_failure_of(row) for row in report.results]
        nothing = report.all_skipped
        group = ElementTree.SubElement(
            root,
            "testsuite",
            name=_text(f"{report.solver} on {report.suite}"),
            tests=str(len(report.results) + nothing),
            failures=str(sum(failure is not None for failure in failures) + nothing),
            errors="0",
            skipped=str(sum(row.outcome in ("skipped", "xfailed") for row in report.results)),
            time=f"{sum(row.seconds for row in report.results):.3f}",
        )
        for row, failure in zip(report.results, failures, strict=True):
            case = _case(group, row.solver, row.check, row.instance, row.seconds)
            if failure is not None:
                entry = ElementTree.SubElement(case, "failure", message=_text(failure.partition("\n")[0]))
                entry.text = _text(failure)
            elif row.outcome != "passed":
                ElementTree.SubElement(case, "skipped", type=row.outcome, message=_text(row.reason))
        if nothing:
            case = _case(group, report.solver, "some_check_applies", report.suite, 0.0)
            ElementTree.SubElement(case, "failure", message="all checks were skipped: nothing was checked")
    target = Path(path)
    write_atomically(target, ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
    return target


def _case(group: ElementTree.Element, solver: str, check: str, instance: str, seconds: float) -> ElementTree.Element:
    return ElementTree.SubElement(
        group, "testcase", classname=_text(f"{solver}.{instance}"), name=_text(check), time=f"{seconds:.3f}"
    )


def _failure_of(row: CheckResult) -> str | None:
    return None if row.ok else row.reason


def _text(text: str) -> str:
    return FORBIDDEN.sub("\ufffd", text)
