"""Fixtures of the tests of the command line, which name this module as a plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_project import DATA, EDGES


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with data.csv and edges.csv, in which the command runs."""
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text(DATA)
    Path("edges.csv").write_text(EDGES)
    return tmp_path


@pytest.fixture
def no_figures(request, monkeypatch):
    """No figures but where a test asks for them."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr("gtvmin.cli.files.draw_figures", lambda *_: {})


@pytest.fixture
def figures():
    """Asks for figures, which take most of the time of a small problem."""
