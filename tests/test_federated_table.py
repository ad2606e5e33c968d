"""The table of algorithms and programs: complete, certified, and the one in the documentation."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

from federated_problems import problem_q
from gtvmin.federated.catalogue import entries, name_of, program_of, rows
from gtvmin.federated.program import Row
from gtvmin.federated.table import measured_gap
from gtvmin.solvers import federated

PAGE = Path(__file__).resolve().parents[1] / "docs" / "federated.md"


def algorithm_classes() -> set[type]:
    """Classes of gtvmin.solvers.federated that make rounds."""
    modules = [import_module(f"{federated.__name__}.{module.name}") for module in iter_modules(federated.__path__)]
    found = {
        member
        for module in modules
        for member in vars(module).values()
        if inspect.isclass(member) and member.__module__ == module.__name__
    }
    return {member for member in found if {"init", "step", "point", "traffic"} <= set(dir(member))} - {
        import_module(f"{federated.__name__}.algorithm").Algorithm
    }


def test_every_algorithm_is_in_the_catalogue_and_in_the_table() -> None:
    assert algorithm_classes() == {entry.algorithm for entry in entries().values()}
    assert {name_of(row.algorithm) for row in rows()} == set(entries())


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.title)
def test_limits_are_certified(row: Row) -> None:
    """Rows that claim a program reach it; those that do not claim one exactly are far from certified on it."""
    gap = measured_gap(row, problem_q())
    program = program_of(row.algorithm, problem_q())
    if gap is None:
        assert program.note
    elif row.surrogate or program.exact:
        assert gap < 1e-10
    else:
        assert gap > 1e-8
        assert program.note


def test_the_documentation_shows_the_table() -> None:
    """All but the measured gaps, whose last digits are another machine's."""
    text = PAGE.read_text(encoding="utf-8")
    shown = text.partition("<!-- table -->")[2].partition("<!-- end of table -->")[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")][:4] for line in shown[2:]]
    assert cells == [[row.title, f"`{name_of(row.algorithm)}`", row.limit, row.declared] for row in rows()]
