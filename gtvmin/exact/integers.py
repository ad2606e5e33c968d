"""Exact arithmetic with floating-point numbers: integers on a dyadic grid, and roundings with a direction."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from gtvmin.solvers.standard_form import Array

__all__ = [
    "IntegerArray",
    "enclose",
    "finest_grid",
    "nearest_float",
    "on_grid",
    "root_enclosure",
    "round_outward",
    "solve_exactly",
    "sum_outward",
]

IntegerArray = Any
"""An array of Python integers (dtype object), which stand for ``value / 2^grid``."""

MANTISSA = 53


def finest_grid(values: Array) -> int:
    """Least g >= 0 such that all values are multiples of ``2^-g``."""
    mantissa, exponent = np.frexp(values[values != 0])
    if not mantissa.size:
        return 0
    numbers = (mantissa * 2.0**MANTISSA).astype(np.int64)
    zeros = np.frexp((numbers & -numbers).astype(float))[1] - 1  # trailing zeros of the mantissas
    return max(0, int((MANTISSA - exponent - zeros).max()))


def on_grid(values: Array, grid: int) -> IntegerArray:
    """Integers ``values * 2^grid``, rounded down where the grid is too coarse."""
    mantissa, exponent = np.frexp(values)
    numbers = (mantissa * 2.0**MANTISSA).astype(np.int64).ravel().tolist()
    shifts = (exponent - MANTISSA + grid).ravel().tolist()
    out = np.empty(len(numbers), dtype=object)
    out[:] = [m << s if s >= 0 else m >> -s for m, s in zip(numbers, shifts, strict=True)]
    return out.reshape(values.shape)


def enclose(numerator: int, denominator: int = 1) -> tuple[float, float]:
    """Largest float below and smallest float above a fraction (the same if it is one)."""
    try:
        nearest = numerator / denominator  # correctly rounded for integers of any size
    except OverflowError:
        huge = float(np.finfo(float).max)
        return (huge, math.inf) if numerator > 0 else (-math.inf, -huge)
    top, bottom = nearest.as_integer_ratio()
    difference = numerator * bottom - top * denominator
    if difference == 0:
        return nearest, nearest
    other = math.nextafter(nearest, math.inf if difference > 0 else -math.inf)
    return min(nearest, other), max(nearest, other)


def nearest_float(value: Fraction) -> float:
    """The float next to a fraction, infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def round_outward(value: Fraction, *, up: bool, digits: int = 192) -> Fraction:
    """A dyadic fraction of that many binary digits above or below, or the fraction itself.

    Sums of them have short denominators, whereas those of many fractions have the product of all.
    """
    top, bottom = value.numerator, value.denominator
    shift = digits + bottom.bit_length() - top.bit_length()
    if bottom.bit_length() <= digits or shift < 0:
        return value
    return Fraction(-((-top << shift) // bottom) if up else (top << shift) // bottom, 1 << shift)


def sum_outward(values: Array) -> tuple[float, float]:
    """Enclosure of the exact sum of floats; infinite if one of them is."""
    if not np.isfinite(values).all():
        total = float(values.sum())
        return total, total
    grid = finest_grid(values)
    return enclose(sum(on_grid(values, grid).tolist()), 1 << grid)


def root_enclosure(square: int, digits: int = 120) -> tuple[int, int, int]:
    """``(low, high, shift)`` with ``low <= 2^shift sqrt(square) <= high`` and at least ``digits`` binary digits."""
    shift = max(0, digits - square.bit_length() // 2)
    low = math.isqrt(square << 2 * shift)
    return low, low + (low * low != square << 2 * shift), shift


def solve_exactly(columns: IntegerArray, right: IntegerArray) -> list[Fraction] | None:
    """A rational solution x of ``columns @ x = right`` for integer arrays (d, k) and (d,), None if there is none.

    Equations with one unknown are solved first: rows of triangular factors, with long entries, need no more.  Then
    fraction-free elimination (E. H. Bareiss, "Sylvester's Identity and Multistep Integer-Preserving Gaussian
    Elimination" (1968)); unknowns that nothing determines are zero.
    """
    d, k = columns.shape
    solution, rest = [Fraction(0)] * k, [Fraction(value) for value in right.tolist()]
    unknown = {r: set(np.flatnonzero(columns[r]).tolist()) for r in range(d)}
    while (alone := next((r for r in unknown if len(unknown[r]) == 1), None)) is not None:
        (c,) = unknown.pop(alone)
        solution[c] = rest[alone] / columns[alone, c]
        for r in unknown:
            if c in unknown[r]:
                rest[r] -= solution[c] * columns[r, c]
                unknown[r].remove(c)
    left = sorted(set().union(*unknown.values()))
    table = np.array(
        [[columns[r, c] * rest[r].denominator for c in left] + [rest[r].numerator] for r in unknown], dtype=object
    ).reshape(len(unknown), len(left) + 1)
    others = _eliminate(table)
    if others is None:
        return None
    for c, value in zip(left, others, strict=True):
        solution[c] = value
    return solution


def _eliminate(table: IntegerArray) -> list[Fraction] | None:
    """A solution of the equations in the rows of a table, right-hand sides last."""
    d, k = table.shape[0], table.shape[1] - 1
    pivots: list[int] = []
    last = 1
    for column in range(k):
        row = len(pivots)
        candidates = [r for r in range(row, d) if table[r, column] != 0]
        if not candidates:
            continue
        table[[row, candidates[0]]] = table[[candidates[0], row]]
        pivot = table[row, column]
        for r in range(row + 1, d):
            table[r] = (table[r] * pivot - table[row] * table[r, column]) // last
        last = pivot
        pivots.append(column)
    if any(table[r, k] != 0 for r in range(len(pivots), d)):
        return None
    solution = [Fraction(0)] * k
    for row in reversed(range(len(pivots))):
        known = sum((solution[c] * table[row, c] for c in pivots[row + 1 :]), Fraction(0))
        solution[pivots[row]] = (table[row, k] - known) / Fraction(table[row, pivots[row]])
    return solution
