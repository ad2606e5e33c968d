"""The failures of a report: what is violated, on which devices, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from gtvmin.federated.catalogue import algorithm_names
from gtvmin.registry import solver_names
from gtvmin.solvers.standard_form import Array
from gtvmin.verify.drawings import network, shown_label
from gtvmin.verify.instances import SUITES, suite
from gtvmin.verify.judgement import Judgement
from gtvmin.verify.results import CheckResult, SolverReport
from gtvmin.verify.selection import ALL_CHECKS

__all__ = ["anchor", "description", "failures", "purpose"]

WORST = 5
"""Devices in the table of a failure."""
OPEN = 3
"""Failures of a solver that are unfolded at first."""


def failures(reports: Sequence[SolverReport]) -> str:
    """A card for every solver and instance with a failed check; the first ones are unfolded."""
    cards = []
    for number, report in enumerate(reports):
        for place, name in enumerate(dict.fromkeys(row.instance for row in report.failures)):
            cards.append(_card(report, name, number, opened=place < OPEN))
    return f"<h2>Failures</h2>{''.join(cards)}" if cards else ""


def _card(report: SolverReport, instance: str, number: int, opened: bool) -> str:
    """All that failed for a solver on an instance."""
    rows = [row for row in report.failures if row.instance == instance]
    checks = "".join(
        f"<h4>{escape(row.check)}{' (passed unexpectedly)' if row.outcome == 'xpassed' else ''}</h4>"
        f'<p class="about">{escape(purpose(row.check))}</p><pre>{escape(row.reason)}</pre>'
        for row in rows
    )
    judgement = next((row.judgement for row in rows if row.judgement is not None), None)
    names = escape(", ".join(row.check for row in rows))
    return (
        f'<details class="card" id="{anchor(number, instance)}"{" open" if opened else ""}>'
        f"<summary><strong>{escape(report.solver)} on {escape(instance)}</strong><span>{names}</span></summary>"
        f'<p class="about">{escape(description(instance))}</p>{checks}'
        f"{'' if judgement is None else _where(judgement)}"
        f"<h4>To see it again</h4><pre><code>{escape(_snippet(report, rows))}</code></pre></details>"
    )


def _where(judgement: Judgement) -> str:
    """The devices with the largest share of the gap, as a table and drawn."""
    certificate, problem = judgement.certificate, judgement.problem
    outside = bool(certificate.violation.any())
    terms = certificate.violation if outside else _device_terms(judgement)
    what = "distance from the domain of its loss" if outside else "its term of the gap and half of its edges'"
    if not (np.isfinite(terms).all() and terms.max(initial=0.0) > 0):
        return ""
    away = np.linalg.norm(certificate.W - judgement.reference.W, axis=1)
    lines = "".join(
        f'<tr><th scope="row">{escape(shown_label(problem.network.nodes[i]))}</th><td class="n">{terms[i]:.3g}</td>'
        f'<td class="n">{away[i]:.3g}</td></tr>'
        for i in np.argsort(-terms, kind="stable")[:WORST]
        if terms[i] > 0
    )
    drawing = network(problem.network, terms, None if outside else certificate.per_edge)
    caption = "Devices and edges are the larger and redder, the larger their term; the worst three are named."
    return (
        f"<h4>Worst devices</h4><table><thead><tr><th>device</th><th>{what}</th><th>distance from the baseline's "
        f"parameters</th></tr></thead><tbody>{lines}</tbody></table>"
        + (f'{drawing}<p class="about">{caption}</p>' if drawing else "")
    )


def _device_terms(judgement: Judgement) -> Array:
    """Terms of the gap by device, those of edges halved between their ends."""
    certificate = judgement.certificate
    terms, first = certificate.per_node.copy(), 0
    for coupling in judgement.problem.couplings:
        net = coupling.network
        half = 0.5 * certificate.per_edge[first : first + net.n_edges]
        np.add.at(terms, net.tail, half)
        np.add.at(terms, net.head, half)
        first += net.n_edges
    return terms


def _snippet(report: SolverReport, rows: Sequence[CheckResult]) -> str:
    """Code that runs the failed checks again."""
    known = ":" in report.solver or report.solver in ("auto", "cvxpy", *solver_names(), *algorithm_names())
    solver = repr(report.solver) if known else "solver"
    lines = ["from gtvmin.verify import check_solver, suite", ""]
    if not known:
        lines.append(f"solver = ...  # the one that was named {report.solver!r}")
    name = rows[0].instance
    if report.suite in SUITES:
        lines.append(f"instances = [instance for instance in suite({report.suite!r}) if instance.name == {name!r}]")
    else:
        lines.append(f"instances = [...]  # the one that was named {name!r}")
    checks = [row.check for row in rows]
    lines.append(f"print(check_solver({solver}, instances, relative_gap={report.relative_gap:g}, checks={checks!r}))")
    return "\n".join(lines)


def anchor(number: int, instance: str) -> str:
    """A name within the page that nothing from outside can break."""
    return f"failure-{number}-{instance.encode('utf-8', errors='replace').hex()}"


def purpose(check: str) -> str:
    """First sentence of what a check is about."""
    found = ALL_CHECKS.get(check)
    return "" if found is None else (found.__doc__ or "").strip().partition("\n")[0]


def description(name: str) -> str:
    """What an instance of the catalogue is; empty for others."""
    found = (instance for label in SUITES for instance in suite(label) if instance.name == name)
    return next((instance.description for instance in found), "")
