"""The pages of the documentation, one a federated algorithm."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from gtvmin.federated.catalogue import entries

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = DOCS / "algorithms"
LARGEST = 40_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_algorithm_pages", DOCS / "update_algorithm_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def text_only(page: str) -> str:
    """Without measured numbers, whose last digits are another machine's."""
    return re.sub(r"(\d\.?\d*e[+-]\d+|none|not measured)( after \d+ rounds)? \|", "|", page)


def test_every_algorithm_has_a_page() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} - {"README"} == set(entries())


@pytest.mark.parametrize("name", sorted(entries()))
def test_pages_are_up_to_date(script: ModuleType, name: str) -> None:
    """Run ``python docs/update_algorithm_pages.py`` if this fails."""
    assert text_only((PAGES / f"{name}.md").read_text(encoding="utf-8")) == text_only(script.page(name))


@pytest.mark.parametrize("name", sorted(entries()))
def test_pages_are_complete(name: str) -> None:
    """All sections have text, and the picture is there and small."""
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    parts = dict(re.findall(r"^## (.+)\n\n(.+)", page, re.MULTILINE))
    assert list(parts) == [
        "Which problem it solves",
        "Update",
        "Assumptions and limit",
        "Parameters",
        "What a round costs",
        "When to use it",
        "Convergence",
        "Example",
    ]
    assert f"](../images/federated/{name}.png)" in parts["Convergence"]
    assert 0 < (DOCS / "images" / "federated" / f"{name}.png").stat().st_size < LARGEST


def test_docstrings_become_markdown(script: ModuleType) -> None:
    assert script.markdown("``a`` as :class:`~gtvmin.x.FedAvg`") == "`a` as `FedAvg`"
    assert list(script.parameters("a : int\n    One\n    line.\nb, c\n    As ``a``.")) == [
        "- **a** (int): One line.",
        "- **b, c**: As `a`.",
    ]
