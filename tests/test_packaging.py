"""What a user installs: the wheel's contents, what `import gtvmin` loads, and the public names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from zipfile import ZipFile

import pytest

import gtvmin

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"gtvmin": "gtvmin", "solvers": "gtvmin/solvers"}
LEFT_BY_TOOLS = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
SLOW_TO_IMPORT = {"click", "cvxpy", "matplotlib", "networkx", "numba", "pandas", "rich", "sklearn"}
SLOW_TO_IMPORT |= {"scipy.integrate", "scipy.optimize", "scipy.spatial", "scipy.stats"}


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZipFile]:
    """The wheel, built from the source distribution in a folder that no earlier build has touched."""
    source = tmp_path_factory.mktemp("source")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, source / folder, ignore=LEFT_BY_TOOLS)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run_python("-m", "build", "--no-isolation", "--outdir", "dist", cwd=source)
    (built,) = source.glob("dist/*.whl")
    with ZipFile(built) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata() -> str:
    """Folder of the wheel's metadata."""
    return f"gtvmin-{gtvmin.__version__}.dist-info"


def test_wheel_holds_every_source_and_data_file(wheel: ZipFile) -> None:
    expected = {
        f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__"} & set(path.parts) and not path.name.startswith(".")
    }
    assert {
        "gtvmin/py.typed",
        "gtvmin/datasets/sacramento.csv",
        "gtvmin/solvers/standard_form.py",
    } <= expected
    assert expected - set(wheel.namelist()) == set(), "list the package or the data in pyproject.toml"


def test_wheel_holds_nothing_else(wheel: ZipFile, metadata: str) -> None:
    # A top-level `solvers` would shadow, or be shadowed by, the solvers.py of a user's own scripts.
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"gtvmin", metadata}
    parts = {part for name in wheel.namelist() for part in name.split("/")}
    assert not [part for part in parts if part.startswith(("tests", "test_", "conftest"))]


def test_wheel_carries_the_licence(wheel: ZipFile, metadata: str) -> None:
    assert wheel.read(f"{metadata}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_wheel_declares_the_command(wheel: ZipFile, metadata: str) -> None:
    declared = wheel.read(f"{metadata}/entry_points.txt").decode().split("\n")
    assert "gtvmin = gtvmin.cli:main" in declared


def test_the_command_can_be_loaded() -> None:
    (command,) = entry_points(group="console_scripts", name="gtvmin")
    assert callable(command.load())


def test_import_is_cheap(tmp_path: Path) -> None:
    script = "import sys, gtvmin; print(*sys.modules)"
    done = run_python("-X", "importtime", "-c", script, cwd=tmp_path)
    loaded = set(done.stdout.split())
    assert "gtvmin" in loaded
    assert loaded & SLOW_TO_IMPORT == set(), "import these inside the functions that use them"
    microseconds = next(line for line in done.stderr.splitlines() if line.endswith("| gtvmin")).split("|")[1]
    print(f"import gtvmin: {int(microseconds) / 1e6:.3f} s")


def test_public_names_are_declared_once() -> None:
    assert gtvmin.__all__
    assert len(gtvmin.__all__) == len(set(gtvmin.__all__))


@pytest.mark.parametrize("name", getattr(gtvmin, "__all__", []))
def test_public_name_exists(name: str) -> None:
    assert getattr(gtvmin, name).__doc__
    assert name in dir(gtvmin)
