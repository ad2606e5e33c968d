"""Exponentials and logarithms of rational numbers, between rational numbers.

Everything is integer arithmetic in which each operation is rounded down for a lower bound and up for an upper one, so
that no analysis of rounding is needed: exponentials by Taylor's series after a reduction of the range, logarithms by
one step from the double next to them (R. P. Brent, P. Zimmermann, "Modern Computer Arithmetic" (2010), Sections
4.2-4.4).
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["exp_enclosure", "log_enclosure"]

# Relative accuracy of an exponential, and absolute one of a logarithm, in binary digits.
DIGITS = 128
# Numbers have that many digits behind the point; the reductions of the range multiply errors by less than 2^24.
SCALE = DIGITS + 24
HALVINGS = 8
# Beyond, exp(t) is no double by far, whatever it is multiplied with.
LARGEST = 1 << 16
LEAST = -(1 << 12)
# A quotient this close to one has its logarithm from the first terms of a series.
NEAR_ONE = 40


def _log_two() -> tuple[int, int]:
    """``2 atanh(1/3)``; what the series leaves out is less than its last term."""
    low, terms, power = 0, 0, (2 << SCALE) // 3
    while power:
        low += power // (2 * terms + 1)
        power //= 9
        terms += 1
    return low, low + 2 * terms + 2


LOG_TWO = _log_two()


def exp_enclosure(t: Fraction) -> tuple[Fraction, Fraction | None]:
    """``(low, high)`` with ``low <= exp(t) <= high``; no upper bound is given for t beyond ``LARGEST``."""
    if t == 0:
        return Fraction(1), Fraction(1)
    if t < LEAST:
        return Fraction(0), exp_enclosure(Fraction(LEAST))[1]
    if t > LARGEST:
        return exp_enclosure(Fraction(LARGEST))[0], None
    low, high, shift = _exp((t.numerator << SCALE) // t.denominator)
    return (
        (Fraction(low, 1 << shift), Fraction(high, 1 << shift))
        if shift >= 0
        else (Fraction(low << -shift), Fraction(high << -shift))
    )


def log_enclosure(x: Fraction) -> tuple[Fraction, Fraction]:
    """``(low, high)`` with ``low <= log(x) <= high`` for positive x; near one of that relative accuracy too."""
    top, bottom = x.numerator, x.denominator
    if abs(top - bottom) << NEAR_ONE <= bottom:
        low, high, shift = _log_near_one(top, bottom)
        return Fraction(low, 1 << shift), Fraction(high, 1 << shift)
    k = top.bit_length() - bottom.bit_length()
    top, bottom = top << max(0, -k), bottom << max(0, k)  # x = 2^k top / bottom with a quotient from 1/2 to 2
    start = math.floor(math.ldexp(math.log(top / bottom), SCALE))
    # exp(-start) lies between below and above, so that its product with the quotient is next to one
    below, above, shift = _exp(-start, exact=True)
    quotient = (top << SCALE) // bottom
    low, _, low_shift = _log_near_one(quotient * below, 1 << (shift + SCALE))
    _, high, high_shift = _log_near_one((quotient + 1) * above, 1 << (shift + SCALE))
    doublings = (k * LOG_TWO[0], k * LOG_TWO[1])
    return (
        Fraction(start + min(doublings) + (low >> low_shift - SCALE), 1 << SCALE),
        Fraction(start + max(doublings) - (-high >> high_shift - SCALE), 1 << SCALE),
    )


def _exp(t: int, *, exact: bool = False) -> tuple[int, int, int]:
    """``(low, high, shift)`` with ``low <= 2^shift exp(t / 2^SCALE) <= high``, or t up to one more if not exact."""
    k = math.floor(t / (1 << SCALE) / math.log(2.0))
    low, high = _reduced(t, k, exact)
    if low < 0:
        k -= 1
        low, high = _reduced(t, k, exact)
    return _exp_series(low, up=False), _exp_series(high, up=True), SCALE + HALVINGS - k


def _reduced(t: int, k: int, exact: bool) -> tuple[int, int]:
    """Enclosure of ``t - k log 2``."""
    products = (k * LOG_TWO[0], k * LOG_TWO[1])
    return t - max(products), t + (not exact) - min(products)


def _exp_series(r: int, *, up: bool) -> int:
    """``exp(r / 2^SCALE)`` in units of ``2^-(SCALE + HALVINGS)`` for r from 0 to about one, rounded up or down."""
    scale = SCALE + HALVINGS  # with more digits behind the point, r is the argument halved so often
    carry = (1 << scale) - 1 if up else 0
    term = total = 1 << scale
    n = 1
    while term > 1:
        term = (term * r + carry) >> scale
        term = (term + (n - 1 if up else 0)) // n
        total += term
        n += 1
    if up:
        total += term  # all further terms together are less than the last one
    for _ in range(HALVINGS):
        total = (total * total + carry) >> scale
    return total


def _log_near_one(top: int, bottom: int) -> tuple[int, int, int]:
    """``(low, high, shift)`` with ``low <= 2^shift log(top / bottom) <= high`` for a quotient next to one.

    It is ``2 atanh(z) = 2 (z + z^3 / 3 + ...)`` with ``z = (top - bottom) / (top + bottom)``; what follows the cube is
    between zero and ``z^5 / 4``.
    """
    difference, total = top - bottom, top + bottom
    shift = SCALE + total.bit_length() - abs(difference).bit_length()
    low = (difference << shift) // total
    high = -((-difference << shift) // total)
    lower = low + low**3 // (3 << 2 * shift) + (low**5 // (4 << 4 * shift) if low < 0 else 0)
    upper = high - (-(high**3) // (3 << 2 * shift)) - (-(high**5) // (4 << 4 * shift) if high > 0 else 0)
    return 2 * lower, 2 * upper, shift
