"""The arrows between modules, read from the source: who may import whom, and what `import gtvmin` may load.

A new file needs no entry here. FLOORS lists the modules whose height is fixed by design; the others may stand
anywhere as long as nothing that they import lifts a lower module above a higher one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from import_graph import Tree, loaded_by, read_tree

ROOT = Path(__file__).resolve().parents[1]

FLOORS = {
    "gtvmin.errors": 0,
    "gtvmin.validation": 0,
    "gtvmin.losses": 1,
    "gtvmin.network": 1,
    "gtvmin.penalties": 1,
    "gtvmin.solvers": 1,
    "gtvmin.certificates": 2,
    "gtvmin.domain": 2,
    "gtvmin.dual_repair": 2,
    "gtvmin.linear_conditions": 2,
    "gtvmin.lowering": 2,
    "gtvmin.problem": 2,
    "gtvmin.registry": 2,
    "gtvmin.reference": 3,
    "gtvmin.solution": 3,
    "gtvmin.federated": 4,
    "gtvmin.plotting": 4,
    "gtvmin.solving": 4,
    "gtvmin.verify": 5,
    "gtvmin.cli": 6,
}
STANDARD_FORM = "gtvmin.solvers.standard_form"
# What states a problem in arrays, and solves nothing.
ARRAYS = {STANDARD_FORM, "gtvmin.solvers.linear_maps"}
KERNELS = "gtvmin.solvers.operators"
ROW_KERNELS = {"gtvmin.solvers.row_prox", "gtvmin.solvers.semismooth_newton"}
SLOW_TO_IMPORT = {"cvxpy", "matplotlib", "numba", "pandas", "sklearn"}
TERMINAL = {"click", "rich"}

Rule = Callable[[Tree], Iterator[str]]


def inside(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def floor(module: str) -> int | None:
    return next((height for name, height in FLOORS.items() if inside(module, name)), None)


def solvers_know_arrays_only(tree: Tree) -> Iterator[str]:
    """Solvers import numpy, scipy, numba, the standard library and, relatively, one another."""
    allowed = {"numpy", "scipy", "numba", *sys.stdlib_module_names}
    for module, imports in tree.items():
        if inside(module, "gtvmin.solvers"):
            for line in imports:
                sibling = line.relative and inside(line.target, "gtvmin.solvers")
                if not sibling and line.distribution not in allowed:
                    yield f"{line.place}: a solver imports {line.target}"


def certificates_trust_no_solver(tree: Tree) -> Iterator[str]:
    """A certificate is computed from the declared data with numpy and scipy; no solver has a part in it."""
    allowed = {"gtvmin", "numpy", "scipy", *sys.stdlib_module_names}
    for module, imports in tree.items():
        if module.startswith("gtvmin.certificates") or module in ("gtvmin.dual_repair", "gtvmin.linear_conditions"):
            for line in imports:
                solver = inside(line.target, "gtvmin.solvers") and line.target not in ARRAYS
                if solver or line.distribution not in allowed or (floor(line.target) or 0) > 2:
                    yield f"{line.place}: a certificate imports {line.target}"
            for target, chain in loaded_by(tree, module).items():
                solver = inside(target, "gtvmin.solvers") and target not in {"gtvmin.solvers", *ARRAYS}
                if solver or target.partition(".")[0] in SLOW_TO_IMPORT:
                    yield f"a certificate loads {target}: {chain}"


def declarations_know_no_solution(tree: Tree) -> Iterator[str]:
    """Networks, losses and penalties import nothing that stands above them, not even inside a function.

    A prox may call a compiled kernel; since kernels load numba, it imports them where it calls them.
    """
    below = {"gtvmin.solvers", *ARRAYS, KERNELS, *ROW_KERNELS}
    for module, imports in tree.items():
        if inside(module, "gtvmin.network", "gtvmin.losses", "gtvmin.penalties"):
            for line in imports:
                solver = inside(line.target, "gtvmin.solvers") and line.target not in below
                if solver or line.target == "gtvmin" or (floor(line.target) or 0) > 1:
                    yield f"{line.place}: {module} imports {line.target}"
            for target, chain in loaded_by(tree, module).items():
                if target.partition(".")[0] in SLOW_TO_IMPORT:
                    yield f"{module} loads {target}: {chain}"


def modules_stand_above_what_they_load(tree: Tree) -> Iterator[str]:
    """Importing a module loads no module of a higher floor; a facade method imports inside the function."""
    for module in tree:
        height = floor(module)
        if height is not None:
            for target, chain in loaded_by(tree, module).items():
                if (floor(target) or 0) > height:
                    yield f"{module} (floor {height}) loads {target} (floor {floor(target)}): {chain}"


def imports_form_no_cycle(tree: Tree) -> Iterator[str]:
    """Module-level imports can be sorted, so that every module can be the first that is imported."""
    graph = {module: {line.target for line in tree[module] if line.at_import} - {module} for module in tree}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "cycle: " + " <- ".join(error.args[1])


def slow_imports_are_local(tree: Tree) -> Iterator[str]:
    """Slow distributions are imported where they are used; only solvers compile, only terminals paint."""
    for module, imports in tree.items():
        terminal = inside(module, "gtvmin.cli")
        kept = (SLOW_TO_IMPORT - {"numba"}) if inside(module, "gtvmin.solvers") else SLOW_TO_IMPORT
        for line in imports:
            if line.at_import and line.distribution in (kept if terminal else kept | TERMINAL):
                yield f"{line.place}: import {line.target} inside the function that uses it"


def importing_the_package_is_cheap(tree: Tree) -> Iterator[str]:
    """`import gtvmin` reaches no slow distribution, whichever of its modules it loads."""
    for target, chain in loaded_by(tree, "gtvmin").items():
        if target.partition(".")[0] in SLOW_TO_IMPORT | TERMINAL:
            yield f"import gtvmin loads {target}: {chain}"


RULES: list[Rule] = [
    solvers_know_arrays_only,
    certificates_trust_no_solver,
    declarations_know_no_solution,
    modules_stand_above_what_they_load,
    imports_form_no_cycle,
    slow_imports_are_local,
    importing_the_package_is_cheap,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps(rule: Rule) -> None:
    violations = list(rule(read_tree(ROOT)))
    assert not violations, "\n".join([f"{rule.__name__}: {rule.__doc__}", *violations])


def test_the_source_is_found() -> None:
    tree = read_tree(ROOT)
    assert {"gtvmin", "gtvmin.errors", "gtvmin.losses", "gtvmin.solvers", STANDARD_FORM} <= set(tree)
    assert any(line.target in ARRAYS for imports in tree.values() for line in imports)


LOCAL_IMPORT = "def solve():\n    from {} import run\n"

BROKEN: list[tuple[Rule, dict[str, str]]] = [
    (solvers_know_arrays_only, {"solvers/admm.py": "import cvxpy"}),
    (solvers_know_arrays_only, {"solvers/admm.py": "from gtvmin.solvers.operators import apply"}),
    (solvers_know_arrays_only, {"solvers/admm.py": "from ..errors import ConvergenceWarning"}),
    (solvers_know_arrays_only, {"solvers/federated/fedavg.py": LOCAL_IMPORT.format("gtvmin.problem")}),
    (certificates_trust_no_solver, {"gtvmin/certificates.py": LOCAL_IMPORT.format("gtvmin.solvers.driver")}),
    (certificates_trust_no_solver, {"gtvmin/certificates_rigorous.py": "from gtvmin.reference import solve"}),
    (certificates_trust_no_solver, {"gtvmin/dual_repair.py": "import numba"}),
    (
        certificates_trust_no_solver,
        {
            "gtvmin/certificates.py": "from . import blocks",
            "gtvmin/blocks.py": "from .solvers import operators",
        },
    ),
    (
        certificates_trust_no_solver,
        {
            "gtvmin/certificates.py": f"import {STANDARD_FORM}",
            "solvers/__init__.py": "from . import operators",
        },
    ),
    (declarations_know_no_solution, {"gtvmin/losses/new.py": LOCAL_IMPORT.format("gtvmin.lowering")}),
    (declarations_know_no_solution, {"gtvmin/network.py": "from gtvmin import GTVMin"}),
    (
        declarations_know_no_solution,
        {"gtvmin/penalties/new.py": LOCAL_IMPORT.format("gtvmin.solvers.driver")},
    ),
    (
        declarations_know_no_solution,
        {
            "gtvmin/penalties/new.py": "from ..solvers.operators import f",
            "solvers/operators.py": "import numba",
        },
    ),
    (modules_stand_above_what_they_load, {"gtvmin/problem.py": "from gtvmin.solving import solve"}),
    (
        modules_stand_above_what_they_load,
        {"gtvmin/problem.py": "from .extra import f", "gtvmin/extra.py": "import gtvmin.verify.suite"},
    ),
    (imports_form_no_cycle, {"gtvmin/a.py": "import gtvmin.b", "gtvmin/b.py": "from . import a"}),
    (slow_imports_are_local, {"gtvmin/reference.py": "import cvxpy as cp"}),
    (slow_imports_are_local, {"gtvmin/lowering.py": "try:\n    import numba\nexcept ImportError:\n    pass"}),
    (slow_imports_are_local, {"gtvmin/plotting.py": "class Figure:\n    import matplotlib.pyplot"}),
    (slow_imports_are_local, {"gtvmin/solving.py": "from rich.progress import Progress"}),
    (
        importing_the_package_is_cheap,
        {"gtvmin/__init__.py": "from .solvers import operators", "solvers/operators.py": "import numba"},
    ),
]

ALLOWED = {
    "gtvmin/problem.py": LOCAL_IMPORT.format("gtvmin.solving"),
    "gtvmin/cli/solve.py": "import click\nfrom gtvmin.solving import run",
    "gtvmin/solving.py": "import typing\nif typing.TYPE_CHECKING:\n    from rich.progress import Progress",
    "gtvmin/losses/new.py": f"from {STANDARD_FORM} import Array\ndef f():\n    import cvxpy, {KERNELS}",
    "gtvmin/certificates.py": f"from {STANDARD_FORM} import Array\nfrom gtvmin.problem import GTVMin",
    "solvers/federated/fedavg.py": "from ..operators import apply",
    "solvers/operators.py": "import numba\nfrom .standard_form import Array",
}


def write_tree(root: Path, sources: dict[str, str]) -> Tree:
    packages = ["gtvmin", "gtvmin/losses", "gtvmin/penalties", "solvers", "solvers/federated"]
    modules = ["gtvmin/solving.py", "gtvmin/problem.py", "solvers/operators.py", "solvers/standard_form.py"]
    empty = dict.fromkeys([f"{package}/__init__.py" for package in packages] + modules, "")
    for name, source in {**empty, **sources}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return read_tree(root)


@pytest.mark.parametrize(("rule", "sources"), BROKEN)
def test_a_broken_rule_is_seen(rule: Rule, sources: dict[str, str], tmp_path: Path) -> None:
    assert list(rule(write_tree(tmp_path, sources)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_what_is_allowed_passes(rule: Rule, tmp_path: Path) -> None:
    assert list(rule(write_tree(tmp_path, ALLOWED))) == []
