"""The imports of the package, read from its source without running it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

FOLDERS = {"gtvmin": "gtvmin", "gtvmin.solvers": "solvers"}


@dataclass(frozen=True)
class Import:
    """One imported module; `at_import` if the line runs as soon as the importing module is imported."""

    place: str
    target: str
    at_import: bool
    relative: bool

    @property
    def distribution(self) -> str:
        return self.target.partition(".")[0]


Tree = dict[str, list[Import]]


class ImportCollector(ast.NodeVisitor):
    """Collects the imports of one module, those inside functions and for type checkers too."""

    def __init__(self, module: str, is_package: bool, path: str, known: set[str]) -> None:
        self.package = module if is_package else module.rpartition(".")[0]
        self.path, self.known = path, known
        self.depth = 0
        self.found: list[Import] = []

    def add(self, line: int, target: str, relative: bool = False) -> None:
        self.found.append(Import(f"{self.path}:{line}", target, self.depth == 0, relative))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = node.module or ""
        if node.level:
            package = self.package.split(".")
            parent = package[: len(package) + 1 - node.level]
            source = ".".join([*parent, source] if source else parent)
        for alias in node.names:
            submodule = f"{source}.{alias.name}"
            self.add(node.lineno, submodule if submodule in self.known else source, node.level > 0)

    def visit_later(self, nodes: list[ast.stmt]) -> None:
        self.depth += 1
        for node in nodes:
            self.visit(node)
        self.depth -= 1

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.visit_later(node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_later(node.body)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            self.visit_later(node.body)
        else:
            for child in node.body:
                self.visit(child)
        for child in node.orelse:
            self.visit(child)


def read_tree(root: Path) -> Tree:
    """Imports of every module of the package, by import name."""
    files: dict[str, Path] = {}
    for prefix, folder in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            files[".".join([prefix, *(part for part in parts if part != "__init__")])] = path
    tree: Tree = {}
    for module, path in files.items():
        relative = path.relative_to(root).as_posix()
        collector = ImportCollector(module, path.name == "__init__.py", relative, set(files))
        collector.visit(ast.parse(path.read_text(encoding="utf-8")))
        tree[module] = collector.found
    return tree


def loaded_by(tree: Tree, module: str) -> dict[str, str]:
    """Every module that `import module` runs, and the chain of imports that leads there."""
    chains = {module: module}
    waiting = [module]
    while waiting:
        current = waiting.pop()
        parts = current.split(".")
        parents = [".".join(parts[:k]) for k in range(1, len(parts))]
        imported = [line.target for line in tree.get(current, []) if line.at_import]
        for target in parents + imported:
            if target not in chains:
                chains[target] = f"{chains[current]} -> {target}"
                waiting.append(target)
    return chains
