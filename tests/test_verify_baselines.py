"""Stored baselines: where they lie, that nothing in a file is believed, and that a lost one is made again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.verify import BaselineWarning, baseline, baselines, cache_folder


def pair(target: float = 3.0) -> gtv.GTVMin:
    """Two numbers, 0 and the target, and one unit of flow between them; for 3 the optimum is 2."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, target)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=1.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, which this process has not read from."""
    monkeypatch.setenv("GTVMIN_CACHE", str(tmp_path / "cache"))
    forget(monkeypatch)
    return tmp_path / "cache" / "baselines"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process."""
    monkeypatch.setattr(baselines, "_known", {})


def make_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(problem: gtv.GTVMin) -> None:
        raise AssertionError("made again, although a good one is stored")

    monkeypatch.setattr(baselines, "_make", refuse)


def stored(folder: Path, problem: gtv.GTVMin) -> Path:
    return folder / f"{problem.hash}.json"


def test_a_baseline_is_made_once_and_stored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = baseline(pair())
    assert made.primal == pytest.approx(2.0, rel=1e-9)
    assert baseline(pair()) is made
    (file,) = folder.iterdir()
    assert file == stored(folder, pair())
    record = json.loads(file.read_text())
    assert record["problem_hash"] == pair().hash
    forget(monkeypatch)
    make_nothing(monkeypatch)
    assert np.array_equal(baseline(pair()).W, made.W)


@pytest.mark.parametrize("content", [b"", b"not JSON", b"{}", b'{"format": "gtvmin certificate 1"}', b"\x80\x04K\x01."])
def test_damaged_files_are_replaced_with_a_warning(
    content: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = stored(folder, pair())
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    with pytest.warns(BaselineWarning, match=rf"{file.name} is ignored"):
        assert baseline(pair()).primal == pytest.approx(2.0, rel=1e-9)
    forget(monkeypatch)
    make_nothing(monkeypatch)
    assert baseline(pair()).gap < 1e-8


def test_the_baseline_of_another_problem_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline(pair(4.0))
    os.replace(stored(folder, pair(4.0)), stored(folder, pair()))
    with pytest.warns(BaselineWarning, match="certifies the problem"):
        assert baseline(pair()).primal == pytest.approx(2.0, rel=1e-9)


def test_what_a_file_claims_is_proved_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baseline(pair())
    file = stored(folder, pair())
    record = json.loads(file.read_text())
    record["W"] = [[0.0], [0.0]]  # with the old gap
    file.write_text(json.dumps(record))
    forget(monkeypatch)
    with pytest.warns(BaselineWarning, match="claims a gap"):
        assert baseline(pair()).primal == pytest.approx(2.0, rel=1e-9)


def test_a_poor_baseline_is_made_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gtv.certify(pair(), [[0.0], [0.0]], [[0.0]]).save(stored(folder, pair()))
    assert baseline(pair()).primal == pytest.approx(2.0, rel=1e-9)
    assert json.loads(stored(folder, pair()).read_text())["primal"] == pytest.approx(2.0, rel=1e-9)


def test_a_folder_that_cannot_be_written_is_said_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("GTVMIN_CACHE", str(tmp_path / "file"))
    forget(monkeypatch)
    with pytest.warns(BaselineWarning, match="GTVMIN_CACHE"):
        assert baseline(pair()).primal == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/gtvmin"),
        ("linux", {"XDG_CACHE_HOME": "/tmp/xdg"}, "/tmp/xdg/gtvmin"),
        ("darwin", {"XDG_CACHE_HOME": "/tmp/xdg"}, "~/Library/Caches/gtvmin"),
        ("win32", {}, "~/AppData/Local/gtvmin"),
        ("win32", {"LOCALAPPDATA": "/users/me/local"}, "/users/me/local/gtvmin"),
        ("linux", {"GTVMIN_CACHE": "~/mine"}, "~/mine"),
    ],
)
def test_the_folder_is_the_platform_s(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GTVMIN_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert cache_folder() == Path(expected).expanduser()
