"""Ranks, bases and roots of the devices' rows: from triangles where these prove enough, else from singular values."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtvmin.losses import row_spaces as module
from gtvmin.losses.quadratic import QuadraticBlocks

DIM = 4


def device(rng: np.random.Generator, kind: str) -> np.ndarray:
    """Rows (m, DIM) of one device."""
    rows = rng.normal(size=(int(rng.integers(1, 7)), DIM))
    match kind:
        case "none":
            return rows[:0]
        case "zero":
            return 0.0 * rows
        case "repeated":
            return rows[[0] * len(rows)]
        case "nearly dependent":
            rows[-1] = rows[0] + 1e-7 * rows[-1]
        case "zero row":
            rows[0] = 0.0
        case "zero column":
            rows[:, 1] = 0.0
        case "units":
            rows *= 10.0 ** np.arange(-4, 12, 4)
    return rows


KINDS = ["plain", "none", "zero", "repeated", "nearly dependent", "zero row", "zero column", "units"]


def stack(devices: list[np.ndarray]) -> QuadraticBlocks:
    """Half the sums of squares of the rows."""
    X, n = np.concatenate([np.empty((0, DIM)), *devices]), len(devices)
    counts = np.array([len(rows) for rows in devices])
    return QuadraticBlocks(X, np.zeros(len(X)), np.full(len(X), 0.5), counts, np.zeros((n, DIM)), np.zeros(n))


def unit_columns(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows with columns of unit length, and what they were multiplied by."""
    length = np.linalg.norm(rows, axis=0)
    scale = 1 / np.where(length > 0, length, 1)
    return rows * scale, scale


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), st.integers(0, 2**32))
def test_ranks_ranges_and_pseudo_inverses(kinds: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = [device(rng, kind) for kind in kinds]
    blocks, V = stack(devices), rng.normal(size=(len(devices), DIM))
    ranks = [np.linalg.matrix_rank(unit_columns(rows)[0], tol=4e-12) if rows.any() else 0 for rows in devices]
    np.testing.assert_array_equal(blocks._spaces.rank, ranks)
    np.testing.assert_array_equal(blocks.full_span, np.array(ranks) == DIM)
    for i, rows in enumerate(devices):
        scaled, scale = unit_columns(rows)
        # what the rows do not see is left over, and nothing else
        np.testing.assert_allclose(
            scaled @ (blocks.complement(V)[i] / scale), 0, atol=1e-8 * np.abs(V[i] / scale).max()
        )
        x = scale * rng.normal(size=DIM)
        seen = np.zeros_like(V)
        seen[i] = rows.T @ (rows @ x)  # Q x, at which the conjugate is x^T Q x / 2
        assert blocks.conjugate(seen)[i] == pytest.approx(0.5 * float(np.sum((rows @ x) ** 2)), rel=1e-9, abs=1e-30)
        np.testing.assert_allclose(blocks.complement(seen)[i] / np.abs(seen[i]).max(initial=1e-300), 0, atol=1e-12)


@given(st.lists(st.sampled_from(KINDS[:-1]), min_size=1, max_size=6), st.integers(0, 2**32))
def test_triangles_say_what_singular_values_say(kinds: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = [device(rng, kind) for kind in kinds]
    fast, V = stack(devices), rng.normal(size=(len(devices), DIM))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAFE_SIZE", 0.0)
        slow = stack(devices)
        assert not slow._spaces.sure[[rows.size > 0 for rows in devices]].any()
    np.testing.assert_array_equal(fast._spaces.rank, slow._spaces.rank)
    np.testing.assert_allclose(fast.complement(V), slow.complement(V), atol=1e-9)
    seen = V - slow.complement(V)
    np.testing.assert_allclose(fast.conjugate(seen), slow.conjugate(seen), rtol=1e-6, atol=1e-12)
    # they may differ in directions that no row sees
    for rows, a, b in zip(devices, fast.conjugate_gradient(seen), slow.conjugate_gradient(seen), strict=True):
        np.testing.assert_allclose(rows @ a, rows @ b, atol=1e-6 * (np.abs(rows) @ np.abs(b)).max(initial=1e-300))


def test_what_is_proved_by_triangles() -> None:
    """Generic rows of moderate units need no singular values; rows that depend on each other do."""
    rng = np.random.default_rng(0)
    generic = [device(rng, "plain") for _ in range(40)]
    spaces = stack([*generic, generic[0][[0, 0]], generic[1] * 10.0 ** np.arange(-4, 12, 4)])._spaces
    assert spaces.sure[:40].mean() > 0.9
    assert not spaces.sure[40]
    assert spaces.rank[40] == 1


def test_singular_values_only_of_those_in_doubt(monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    seen, svd = [], np.linalg.svd

    def counted(matrix: np.ndarray, *rest: Any, **options: Any) -> Any:
        seen.append(len(matrix))
        return svd(matrix, *rest, **options)

    monkeypatch.setattr(np.linalg, "svd", counted)
    rows = rng.normal(size=(2, DIM))
    assert stack([rows, rows[[0, 0]], rng.normal(size=(9, DIM))]).full_span.tolist() == [False, False, True]
    assert set(seen) == {1}
