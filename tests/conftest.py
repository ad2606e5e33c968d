"""Settings and fixtures that every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Figures are drawn in memory: no test may open a window.
os.environ.setdefault("MPLBACKEND", "Agg")

# The first call of a compiled kernel is slow, so no deadline; in CI the examples are the same in every run.
settings.register_profile("local", deadline=None)
settings.register_profile("fixed", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fixed" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session", autouse=True)
def baselines_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Certified baselines that tests make go to a folder of the run, not into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTVMIN_CACHE", str(tmp_path_factory.mktemp("baselines")))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public tables that lies beside the checkout and is no part of it."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the tables of {folder}, which is not there")
    return folder
