"""Exact exponentials, logarithms and sums of squares against ball arithmetic (FLINT) and rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtvmin.exact import elementary
from gtvmin.exact.elementary import exp_enclosure, log_enclosure
from gtvmin.exact.quadratic_forms import sum_of_squares

flint = pytest.importorskip("flint", reason="python-flint is the independent ball arithmetic")

PRECISION = 600
fractions = st.builds(Fraction, st.integers(-(10**30), 10**30), st.integers(1, 10**30))
near_one = st.builds(lambda n, k: 1 + Fraction(n, 1 << k), st.integers(-(10**9), 10**9), st.integers(31, 400))
exponents = st.one_of(st.floats(-5000, 70000), st.floats(-3, 3), st.integers(-800, 800)).map(Fraction) | fractions
exponents = exponents.filter(lambda t: t == 0 or abs(t) > Fraction(1, 10**100))
positive = st.one_of(fractions.map(abs), near_one, st.floats(5e-324, 1.7e308).map(Fraction)).filter(lambda x: x > 0)


def ball(x: Fraction) -> Any:
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


@pytest.fixture(autouse=True)
def precision() -> Any:
    before, flint.ctx.prec = flint.ctx.prec, PRECISION
    yield
    flint.ctx.prec = before


@settings(max_examples=400)
@given(exponents)
def test_exponentials_are_enclosed(t: Fraction) -> None:
    low, high = exp_enclosure(t)
    if t > elementary.LARGEST:
        assert high is None
        assert low > Fraction(np.finfo(float).max)
        return
    assert high is not None
    if t < elementary.LEAST:
        assert low == 0
        assert ball(high) >= ball(t).exp()
        assert high < Fraction(5e-324) ** 5
        return
    exact = ball(t).exp()
    assert ball(low) <= exact <= ball(high)
    assert high - low <= low / 2**elementary.DIGITS


@settings(max_examples=400)
@given(positive)
def test_logarithms_are_enclosed(x: Fraction) -> None:
    low, high = log_enclosure(x)
    exact = ball(x).log()
    if x == 1:
        assert low == high == 0
        return
    assert ball(low) <= exact <= ball(high)
    assert high - low <= max(Fraction(1), abs(low)) / 2**elementary.DIGITS
    assert high - low <= abs(low) / 2**100  # next to one too


def rounded_down(original: Callable[..., int]) -> Callable[..., int]:
    return lambda r, *, up: original(r, up=False)


def rounded_up(original: Callable[..., int]) -> Callable[..., int]:
    return lambda r, *, up: original(r, up=True)


def nearest_log(original: Callable[..., tuple[int, int, int]]) -> Callable[..., tuple[int, int, int]]:
    def closed(top: int, bottom: int) -> tuple[int, int, int]:
        low, high, shift = original(top, bottom)
        return (low + high) // 2, (low + high) // 2, shift

    return closed


FAULTS = {
    "upper bounds rounded down": ("_exp_series", rounded_down(elementary._exp_series)),
    "lower bounds rounded up": ("_exp_series", rounded_up(elementary._exp_series)),
    "logarithms rounded to nearest": ("_log_near_one", nearest_log(elementary._log_near_one)),
    "log 2 not quite": ("LOG_TWO", (elementary.LOG_TWO[0] + 10**6, elementary.LOG_TWO[1] + 10**6)),
}


def misses() -> int:
    found = 0
    for t in map(Fraction, np.random.default_rng(0).normal(size=200) * 10):
        low, high = exp_enclosure(t)
        assert high is not None
        found += not ball(low) <= ball(t).exp() <= ball(high)
        for x in (abs(t), 1 + t / 2**50):
            low, high = log_enclosure(x)
            found += not ball(low) <= ball(x).log() <= ball(high)
    return found


def test_no_value_is_missed() -> None:
    assert misses() == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_rounding_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementary, *FAULTS[fault])
    assert misses() > 0


# ------------------------------------------------------------------------------------------------------ sums of squares

matrices = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(st.integers(-4, 4), min_size=d, max_size=d), min_size=1, max_size=d + 1)
)


@given(matrices)
def test_a_gram_matrix_is_the_sum_of_its_squares(rows: list[list[int]]) -> None:
    B = np.array(rows, dtype=object)
    A = B.T @ B
    squares = sum_of_squares(A)
    assert squares is not None
    d = len(A)
    total = [[sum(w * b[i] * b[j] for b, w in squares) for j in range(d)] for i in range(d)]
    assert total == A.tolist()
    assert all(weight > 0 for _, weight in squares)
    assert len(squares) == np.linalg.matrix_rank(B.astype(float))


@given(matrices, st.integers(1, 10))
def test_indefinite_matrices_are_refused(rows: list[list[int]], scale: int) -> None:
    """A vector on which the form is negative exists for ``scale B^T B - v v^T`` unless v is small in the range."""
    B = np.array(rows, dtype=object)
    v = np.arange(1, B.shape[1] + 1).astype(object)
    A = scale * (B.T @ B) - v[:, None] * v
    least = np.linalg.eigvalsh(A.astype(float))[0]
    if abs(least) > 1e-9:
        assert (sum_of_squares(A) is None) == (least < 0)


def test_a_unit_in_the_last_place_makes_the_difference() -> None:
    """``[[1, 1], [1, 1 + e]]`` is semidefinite for e = 0, indefinite for the least negative e that doubles have."""
    grid = 1 << 60
    assert sum_of_squares(np.array([[grid, grid], [grid, grid]], dtype=object)) is not None
    assert sum_of_squares(np.array([[grid, grid], [grid, grid - 1]], dtype=object)) is None
    assert sum_of_squares(np.array([[0, 1], [1, 0]], dtype=object)) is None
    assert sum_of_squares(np.zeros((2, 2), dtype=object)) == []
    assert math.isclose(float(sum_of_squares(np.array([[2, 1], [1, 2]], dtype=object))[1][1]), 1 / 6)  # type: ignore[index]
