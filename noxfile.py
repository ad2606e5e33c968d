"""Checks in environments of their own: `nox -l` lists them, `nox -s lint` runs one, `nox` the quick ones."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).parent
nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "mypy", "doctest", "tests-3.11"]


def install_wheel(session: nox.Session, extra: str, *options: str) -> None:
    # setuptools would put what an earlier build left there into this wheel as well
    shutil.rmtree(ROOT / "build", ignore_errors=True)
    session.install(*options, f".[{extra}]")


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """Run the test suite on the installed wheel."""
    install_wheel(session, "test")
    # `pytest`, not `python -m pytest`: the latter would put the checkout before the installed package.
    session.run("pytest", *session.posargs)


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """Run the test suite with the oldest releases that pyproject.toml allows."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    bounds = project["dependencies"] + project["optional-dependencies"]["test"]
    constraints = Path(session.create_tmp()) / "oldest.txt"
    constraints.write_text("\n".join(bounds).replace(">=", "=="), encoding="utf-8")
    install_wheel(session, "test", "-c", str(constraints))
    # old releases warn about the new ones that they meet
    session.run("pytest", "-W", "default", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the format and the style of all sources."""
    session.install(*nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["lint"])
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def mypy(session: nox.Session) -> None:
    """Check the types of the installed wheel, where gtvmin.solvers is a folder of gtvmin."""
    install_wheel(session, "lint")
    session.chdir(session.create_tmp())
    session.run("mypy", "--config-file", str(ROOT / "pyproject.toml"))


@nox.session
def doctest(session: nox.Session) -> None:
    """Run the examples in the docstrings of the installed wheel."""
    install_wheel(session, "test")
    session.chdir(session.create_tmp())
    # the settings of pyproject.toml, except the folder of the tests
    session.run("pytest", "-c", str(ROOT / "pyproject.toml"), "--pyargs", "gtvmin", "--doctest-modules")


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure which lines and branches the test suite runs; compiled kernels are left out."""
    session.install("-e", ".[test]")
    session.run("pytest", "--cov", "--cov-report=term", "--cov-report=html", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Attack the certificates of many random problems and record the result: `nox -s fuzz -- 100000`."""
    install_wheel(session, "test")
    processes = str(os.cpu_count() or 1)
    session.run(
        "python", "tests/fuzz_certify.py", "--report", "docs/fuzz.md", "--processes", processes, *session.posargs
    )


@nox.session
def fuzz_loaders(session: nox.Session) -> None:
    """Attack the loaders of files with inputs that seek new paths through them: `nox -s fuzz_loaders -- 1000000`."""
    install_wheel(session, "test")
    session.install("atheris>=2.3")
    session.run("python", "tests/fuzz_loaders.py", *session.posargs)


@nox.session
def build(session: nox.Session) -> None:
    """Build the source distribution and the wheel into dist/ and check their metadata."""
    session.install("build", "twine")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, sorted(ROOT.glob("dist/*"))))
