"""Reports as one HTML file: what passed, how good the answers are, and for each failure where and how to see it again.

The file needs no network, no script and no other file; whatever comes from solvers and instances is escaped.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

import numpy as np

import gtvmin
from gtvmin.storage import write_atomically
from gtvmin.verify.drawings import convergence
from gtvmin.verify.report_failures import anchor, description, failures, purpose
from gtvmin.verify.report_style import STYLE, gap_colours, gap_legend
from gtvmin.verify.results import SolverReport

__all__ = ["write_report"]

WORDS = {
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
    "xfailed": "failed as expected",
    "xpassed": "passed unexpectedly",
}


def write_report(results: SolverReport | Sequence[SolverReport], path: str | Path) -> Path:
    """Write the results of one or several solvers to a self-contained HTML file.

    Parameters
    ----------
    results : SolverReport or sequence of SolverReport
        What :func:`gtvmin.verify.check_solver` returned.
    path : str or Path
        The file; it is there whole or not at all.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ValueError
        If there are no results.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from gtvmin.verify import check_solver, suite, write_report
    >>> report = check_solver("adaptive_primal_dual", suite("smoke")[:2], checks=["check_certified_gap"])
    >>> with TemporaryDirectory() as folder:
    ...     write_report(report, Path(folder) / "report.html").name
    'report.html'
    """
    reports = [results] if isinstance(results, SolverReport) else list(results)
    if not reports:
        raise ValueError("results is empty: give at least one SolverReport")
    target = Path(path)
    write_atomically(target, _page(reports).encode("utf-8", errors="replace"))
    return target


def _page(reports: Sequence[SolverReport]) -> str:
    ok = all(report.ok for report in reports)
    title = f"gtvmin verify: {'all checks passed' if ok else 'checks failed'}"
    made = (
        f"gtvmin {gtvmin.__version__}, NumPy {np.__version__}, Python {platform.python_version()}; "
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    )
    sections = [_summary(reports), _gaps(reports), _convergence(reports), failures(reports), _by_check(reports)]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>"
        f"<h1>Verification of {escape(_listed(report.solver for report in reports))}</h1>"
        f'<p class="made">{escape(made)}</p>\n' + "\n".join(filter(None, sections)) + "\n</main></body></html>\n"
    )


def _summary(reports: Sequence[SolverReport]) -> str:
    """One line a solver: verdict and numbers of rows by outcome."""
    shown = [outcome for outcome in WORDS if any(report.counts().get(outcome) for report in reports)]
    head = "".join(f"<th>{WORDS[outcome]}</th>" for outcome in shown)
    lines = []
    for report in reports:
        verdict = "ok" if report.ok else "nothing was checked" if report.all_skipped else "failed"
        counts = "".join(f'<td class="n">{report.counts().get(outcome, 0) or ""}</td>' for outcome in shown)
        lines.append(
            f'<tr><th scope="row">{escape(report.solver)}</th>'
            f'<td><span class="verdict {"good" if report.ok else "bad"}">{verdict}</span></td>{counts}'
            f"<td>{escape(report.suite)}</td><td>{report.relative_gap:g}</td>"
            f'<td class="n">{sum(row.seconds for row in report.results):.1f} s</td></tr>'
        )
    return (
        f'<div class="wide"><table><thead><tr><th>solver</th><th>verdict</th>{head}<th>suite</th>'
        f"<th>relative gap asked for</th><th>time</th></tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _gaps(reports: Sequence[SolverReport]) -> str:
    """The certified gap of every answer, instance by solver."""
    instances = dict.fromkeys(row.instance for report in reports for row in report.results)
    if not instances:
        return ""
    head = "".join(f"<th>{escape(report.solver)}</th>" for report in reports)
    lines = []
    for name in instances:
        cells = "".join(_gap_cell(report, name, number) for number, report in enumerate(reports))
        about = escape(description(name))
        lines.append(f'<tr><th scope="row">{escape(name)}<span class="about">{about}</span></th>{cells}</tr>')
    return (
        "<h2>Certified gaps</h2><p>Decimal logarithm of the certified relative gap of each answer, judged by the bound "
        "of the instance's baseline; a cross counts the checks that failed there.</p>"
        f'{gap_legend()}<div class="wide"><table class="gaps"><thead><tr><th>instance</th>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _gap_cell(report: SolverReport, instance: str, number: int) -> str:
    rows = [row for row in report.results if row.instance == instance]
    failed = sum(not row.ok for row in rows)
    cross = f' <a href="#{anchor(number, instance)}" title="{failed} checks failed">✗{failed}</a>' if failed else ""
    row = next((row for row in rows if row.check == "check_certified_gap" and row.log10_gap is not None), None)
    row = row or next((row for row in rows if row.log10_gap is not None), None)
    if row is None or row.log10_gap is None:
        why = "not for this solver" if rows and all(row.outcome == "skipped" for row in rows) else "no answer"
        return f'<td class="none">{why if rows else ""}{cross}</td>'
    fill, ink = gap_colours(row.log10_gap, math.log10(report.relative_gap))
    rounded = f"{round(row.log10_gap, 1) + 0.0:.1f}".replace("-", "−").replace("inf", "∞")
    title = f"relative gap {row.relative_gap:.3g}"
    return f'<td class="gap" style="background:{fill};color:{ink}" title="{title}">{rounded}{cross}</td>'


def _convergence(reports: Sequence[SolverReport]) -> str:
    parts = []
    for report in reports:
        histories: dict[str, tuple[object, ...]] = {}
        for row in report.results:  # the first record of an instance is that of the plain run
            if row.history:
                histories.setdefault(row.instance, row.history)
        drawing = convergence(histories, report.relative_gap, frozenset(row.instance for row in report.failures))
        if drawing:
            parts.append(f"<h3>{escape(report.solver)}</h3>{drawing}")
    if not parts:
        return ""
    return (
        "<h2>Convergence</h2><p>A line an instance; those with a failed check are thick. The name shows when the "
        f"pointer rests on a line.</p>{''.join(parts)}"
    )


def _by_check(reports: Sequence[SolverReport]) -> str:
    """Outcomes by check, and why checks were skipped or failed as expected."""
    parts = []
    for report in reports:
        lines = []
        for check in dict.fromkeys(row.check for row in report.results):
            rows = [row for row in report.results if row.check == check]
            counted = ", ".join(
                f"{number} {WORDS[outcome]}" for outcome in WORDS if (number := sum(r.outcome == outcome for r in rows))
            )
            reasons: dict[str, list[str]] = {}
            for row in rows:
                if row.outcome in ("skipped", "xfailed"):
                    reasons.setdefault(row.reason.partition("\n")[0], []).append(row.instance)
            why = "".join(f"<li>{escape(_listed(names))}: {escape(reason)}</li>" for reason, names in reasons.items())
            lines.append(
                f'<tr><th scope="row">{escape(check)}<span class="about">{escape(purpose(check))}</span></th>'
                f"<td>{counted}{f'<ul>{why}</ul>' if why else ''}</td></tr>"
            )
        parts.append(
            f"<details><summary>{escape(report.solver)}: outcomes by check</summary><table><tbody>{''.join(lines)}"
            "</tbody></table></details>"
        )
    return f"<h2>Checks</h2>{''.join(parts)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
