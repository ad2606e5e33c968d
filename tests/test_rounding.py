"""Integers, fractions and roots in outward-rounded arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gtvmin.exact.integers import (
    enclose,
    finest_grid,
    on_grid,
    root_enclosure,
    round_outward,
    solve_exactly,
    sum_outward,
)

floats = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(floats, max_size=6))
def test_doubles_are_integers_on_a_grid(values: list[float]) -> None:
    array = np.array(values)
    grid = finest_grid(array)
    assert [Fraction(n, 2**grid) for n in on_grid(array, grid).tolist()] == [Fraction(v) for v in values]
    if grid:
        coarser = on_grid(array, grid - 1).tolist()
        assert [Fraction(n, 2 ** (grid - 1)) for n in coarser] != [Fraction(v) for v in values]


@given(st.integers(-(10**400), 10**400), st.integers(1, 10**400))
def test_a_fraction_is_enclosed_by_neighbouring_doubles(top: int, bottom: int) -> None:
    low, high = enclose(top, bottom)
    exact = Fraction(top, bottom)
    assert low == -np.inf or Fraction(low) <= exact
    assert high == np.inf or Fraction(high) >= exact
    assert high == low or high == math.nextafter(low, math.inf)
    assert (low == high) == (np.isfinite(low) and Fraction(low) == exact)


@given(st.lists(floats, max_size=8))
def test_sums_are_enclosed(values: list[float]) -> None:
    low, high = sum_outward(np.array(values))
    exact = sum(map(Fraction, values), Fraction(0))
    assert low == -np.inf or Fraction(low) <= exact
    assert high == np.inf or Fraction(high) >= exact


@given(st.integers(-(10**400), 10**400), st.integers(1, 10**400), st.integers(1, 200))
def test_fractions_are_shortened_outward(top: int, bottom: int, digits: int) -> None:
    exact = Fraction(top, bottom)
    low, high = (round_outward(exact, up=up, digits=digits) for up in (False, True))
    assert low <= exact <= high
    assert high - low <= abs(exact) / 2 ** (digits - 1)
    if low != exact:
        assert low.denominator.bit_count() == 1
        assert low.numerator.bit_length() <= digits + 2


@given(st.integers(0, 10**80))
def test_roots_are_enclosed(square: int) -> None:
    low, high, shift = root_enclosure(square)
    assert low**2 <= square << 2 * shift <= high**2
    assert high - low <= 1
    assert square == 0 or low.bit_length() >= 119


@given(st.integers(0, 1000), st.integers(1, 4), st.integers(1, 6))
def test_rational_systems_are_solved_or_refused(seed: int, d: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    columns = np.array(rng.integers(-2, 3, size=(d, k)).tolist(), dtype=object).reshape(d, k)
    solvable = columns @ np.array(rng.integers(-5, 6, size=k).tolist(), dtype=object)
    x = solve_exactly(columns, solvable)
    assert x is not None
    assert [sum(c * v for c, v in zip(row, x, strict=True)) for row in columns.tolist()] == solvable.tolist()
    other = np.array(rng.integers(-5, 6, size=d).tolist(), dtype=object)
    rank = np.linalg.matrix_rank(columns.astype(float))
    grown = np.linalg.matrix_rank(np.column_stack([columns, other]).astype(float))
    assert (solve_exactly(columns, other) is None) == (grown > rank)
