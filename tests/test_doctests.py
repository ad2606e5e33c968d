"""The examples in docstrings run.

Modules are found by import name: the folder solvers/ is imported as gtvmin.solvers.
"""

from __future__ import annotations

import doctest
import importlib
from functools import reduce
from operator import or_
from pkgutil import walk_packages

import pytest


def module_names() -> list[str]:
    # An editable install maps gtvmin.solvers to a folder that gtvmin.__path__ does not hold.
    roots = ["gtvmin", "gtvmin.solvers"]
    found = {
        module.name
        for root in roots
        for module in walk_packages(importlib.import_module(root).__path__, root + ".")
        if not module.name.endswith("__main__")
    }
    return sorted(found.union(roots))


@pytest.mark.parametrize("name", module_names())
def test_examples_of(name: str, pytestconfig: pytest.Config) -> None:
    flags = [doctest.OPTIONFLAGS_BY_NAME[flag] for flag in pytestconfig.getini("doctest_optionflags")]
    runner = doctest.DocTestRunner(verbose=False, optionflags=reduce(or_, flags, 0))
    report: list[str] = []
    docstrings = doctest.DocTestFinder().find(importlib.import_module(name))
    failed = sum(runner.run(docstring, out=report.append).failed for docstring in docstrings)
    assert failed == 0, "".join(report)


def test_solvers_are_among_the_modules() -> None:
    assert {"gtvmin.losses.base", "gtvmin.solvers.standard_form"} <= set(module_names())
