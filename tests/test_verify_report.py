"""The HTML report: whole, self-contained, safe, and with all that a failure needs."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from click.testing import CliRunner

import gtvmin as gtv
from faults import BY_NAME, unlabelled_devices_left_at_zero
from gtvmin.cli import main
from gtvmin.verify import CheckResult, Instance, SolverReport, check_solver, write_report
from gtvmin.verify.report_style import gap_colours, gap_legend

EMPTY_TAGS = {"meta", "br", "img", "hr", "link", "input"}
HOSTILE = "</pre><script>alert(1)</script><img src=https://example.org/x onerror=alert(2)>"


class Page(HTMLParser):
    """Reads a page and notes what is not closed, where it points to, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_instance() -> Instance:
    """Names of devices, of the instance and of its description are markup."""

    def make(rng: np.random.Generator) -> gtv.GTVMin:
        net = gtv.FLNetwork(nx.relabel_nodes(nx.path_graph(3), {0: HOSTILE, 1: "a&b", 2: '"quoted"'}))
        return gtv.GTVMin(net, [gtv.SquaredDistance([y]) for y in (0.0, 1.0, 5.0)], penalty=gtv.Norm(2), alpha=0.5)

    return Instance(f"instance {HOSTILE}", HOSTILE, make)


def zeros(problem: gtv.GTVMin) -> np.ndarray:
    return np.zeros((problem.network.n_nodes, problem.dim))


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Baselines of these tests stay among themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTVMIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def reports(own_cache: None) -> list[SolverReport]:
    chosen = ["check_answer", "check_certified_gap", "check_flows", "check_split_edge"]
    instances = [BY_NAME["lasso_star"], BY_NAME["lasso_l1"], hostile_instance()]
    return [
        check_solver("adaptive_primal_dual", instances, checks=chosen),
        check_solver(unlabelled_devices_left_at_zero, instances, checks=chosen, name="unlabelled:left"),
        check_solver(zeros, [hostile_instance()], checks=chosen, name=f"solver {HOSTILE}"),
    ]


def test_a_page_is_well_formed_and_needs_nothing_else(reports: list[SolverReport], tmp_path: Path) -> None:
    path = write_report(reports, tmp_path / "report.html")
    page = Page(path)
    assert page.open == []
    assert {"script", "link", "img", "iframe", "object", "form"}.isdisjoint(page.tags)
    markup = path.read_text(encoding="utf-8").replace("https://example.org/x", "")  # that is shown as text
    assert not re.search(r"(https?:|ftp:|data:|//\w|url\(|@import)", markup)
    for name, value in page.attributes:
        assert name not in ("src", "action", "srcset", "xlink:href")
        assert not name.startswith("on"), (name, value)
        assert name != "href" or str(value).startswith("#")
    places = {value for name, value in page.attributes if name == "id"}
    assert {str(value)[1:] for name, value in page.attributes if name == "href"} == places
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_names_are_shown_as_they_are(reports: list[SolverReport], tmp_path: Path) -> None:
    page = Page(write_report(reports, tmp_path / "report.html"))
    assert f"solver {HOSTILE}" in page.text
    assert f"instance {HOSTILE}" in page.text
    assert "'a&b'" in page.text


def test_a_failure_says_where_and_how_to_see_it_again(reports: list[SolverReport], tmp_path: Path) -> None:
    """The device without labels is the culprit on the star: its edges make up all of the gap."""
    page = Page(write_report(reports[1], tmp_path / "report.html"))
    (failed,) = (row for row in reports[1].failures if row.instance == "lasso_star")
    assert failed.check == "check_certified_gap"
    assert failed.judgement is not None
    assert failed.reason in page.text
    assert "A hub without labels and eight leaves of which half agree." in page.text
    worst = page.text.partition("distance from the baseline's parameters")[2]
    gap = failed.judgement.certificate.gap
    assert worst.startswith(f"0{gap / 2:.3g}")  # half of all edges' terms, as each edge ends there
    assert "check_solver('unlabelled:left', instances, relative_gap=1e-06, checks=['check_certified_gap'])" in page.text
    assert ("aria-label", "The network: devices are the redder, the larger their share of the gap") in page.attributes


def test_the_snippet_reproduces_the_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    name = "faults:a_half_too_many"
    report = check_solver(name, "quadratic", checks=["check_certified_gap"])
    text = Page(write_report(report, tmp_path / "report.html")).text
    code = re.search(r"from gtvmin\.verify import check_solver, suite\n\n(.*\n)print\((check_solver\(.*\))\)", text)
    assert code is not None
    names: dict[str, Any] = {}
    exec(f"from gtvmin.verify import check_solver, suite\n{code[1]}again = {code[2]}", names)
    first = report.failures[0]
    assert [(row.check, row.instance, row.reason) for row in names["again"].failures] == [
        (first.check, first.instance, first.reason)
    ]


def row(**changes: Any) -> CheckResult:
    declared = {"solver": "s", "instance": "i", "check": "check_certified_gap", "outcome": "passed"}
    return CheckResult(**declared | changes)


def test_gaps_without_a_number(tmp_path: Path) -> None:
    """Zero, infinity, not for this solver, and no answer."""
    rows = (
        row(instance="zero", relative_gap=0.0),
        row(instance="infinite", relative_gap=np.inf, outcome="failed", reason="outside"),
        row(instance="skipped", outcome="skipped", reason="not taken"),
        row(instance="crashed", check="check_answer", outcome="failed", reason="ZeroDivisionError: \x00 \ud800"),
    )
    text = Page(write_report(SolverReport("s", "smoke", 1e-6, rows), tmp_path / "report.html")).text
    for shown in ("zero−∞", "infinite∞ ✗1", "skippednot for this solver", "crashedno answer ✗1", "skipped: not taken"):
        assert shown in text


def test_convergence_is_drawn_from_any_history(tmp_path: Path) -> None:
    """Records without the attributes, with NaN and with a gap of zero do no harm."""
    gaps = (1.0, np.nan, 1e-3, 0.0)
    history = (*(SimpleNamespace(iteration=10**k, relative_gap=gap) for k, gap in enumerate(gaps)), "a note")
    rows = (row(instance="drawn & marked", outcome="failed", history=history), row(instance="none", history=("note",)))
    page = Page(write_report(SolverReport("s", "smoke", 1e-6, rows), tmp_path / "report.html"))
    lines = [str(value).split() for name, value in page.attributes if name == "points"]
    assert [len(line) for line in lines] == [3]
    heights = [float(point.partition(",")[2]) for point in lines[0]]
    # three decades below one, then at the floor of 1e-16: equal decades have equal heights
    assert (heights[2] - heights[0]) / (heights[1] - heights[0]) == pytest.approx(16 / 3, rel=1e-2)


def test_colours_change_at_the_gap_that_was_asked_for() -> None:
    blues = {gap_colours(exponent, -6.0) for exponent in (-np.inf, -13.0, -11.0, -9.0, -6.5, -6.0)}
    oranges = {gap_colours(exponent, -6.0) for exponent in (np.inf, 1.0, -1.0, -3.0, -5.9)}
    assert blues.isdisjoint(oranges)
    assert len(blues) == len(oranges) == 4
    assert all(fill in gap_legend() for fill, _ in blues | oranges)


def contrast(first: str, second: str) -> float:
    """Ratio of relative luminances, by WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("exponent", [-13.0, -11.0, -9.0, -6.5, -5.5, -3.0, -1.0, 2.0])
def test_numbers_can_be_read_on_their_colour(exponent: float) -> None:
    assert contrast(*gap_colours(exponent, -6.0)) >= 4.5


def test_results_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="results is empty"):
        write_report([], tmp_path / "report.html")


def test_the_command_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)
    monkeypatch.setattr("gtvmin.verify.runner.suite", lambda name: (BY_NAME["quadratic_two_nodes"],))
    target = tmp_path / "out.html"
    ran = CliRunner().invoke(main, ["verify", "faults:a_half_too_many", "--report", str(target)])
    assert ran.exit_code == 1, ran.output
    assert "check_certified_gap" in Page(target).text


def test_a_browser_shows_it(reports: list[SolverReport], tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("needs chromium")
    path = write_report(reports, tmp_path / "report.html")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    ran = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=60, check=True
    )
    assert "<h2>Failures</h2>" in ran.stdout
    assert ran.stdout.count("<svg ") == path.read_text(encoding="utf-8").count("<svg ")
    assert "<script" not in ran.stdout
