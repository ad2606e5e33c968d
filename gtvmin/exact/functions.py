"""The convex functions that losses have of their rows, in exact arithmetic.

A function of some consecutive rows takes their predictions t to ``phi(t)``, and their duals p to ``phi*(p)``.  Values
are enclosed by rationals.  Of conjugates a rational upper bound is enough: it makes a lower bound of the objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, Protocol

from gtvmin.exact.elementary import exp_enclosure, log_enclosure
from gtvmin.exact.integers import root_enclosure

__all__ = ["BallIndicator", "ExactFunction", "Exponential", "Interval", "LogSumExp"]

Enclosure = tuple[Fraction, Fraction | None]
"""A lower bound and an upper one; None where that is beyond all doubles."""

ZERO, ONE = Fraction(0), Fraction(1)


class ExactFunction(Protocol):
    """A convex function of ``width`` rows."""

    @property
    def width(self) -> int:
        """Number of rows."""

    @property
    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """What the domain of the conjugate leaves to each dual alone; None: no bound."""

    def value(self, t: Sequence[Fraction]) -> Enclosure | None:
        """``phi(t)``, None where it is infinite."""

    def conjugate(self, p: Sequence[Fraction]) -> Fraction:
        """At least ``phi*(p)``, for p in its domain."""

    def excess(self, p: Sequence[Fraction]) -> Fraction:
        """By which share p exceeds the domain of the conjugate: zero if and only if it lies inside."""


class Interval(NamedTuple):
    """``phi(t) = sup { p t - c(p) : low <= p <= high }`` with the c of :mod:`gtvmin.losses.interval`; None: no bound.

    A square ``c (t - y)^2`` has no bounds, both targets y, and the curvature ``1 / (2 c)``.
    """

    low: Fraction | None
    high: Fraction | None
    left: Fraction
    right: Fraction
    curvature: Fraction

    @classmethod
    def square(cls, weight: Fraction, target: Fraction = ZERO) -> Interval:
        """``weight (t - target)^2``."""
        return cls(None, None, target, target, 1 / (2 * weight))

    @property
    def width(self) -> int:
        """One row."""
        return 1

    @property
    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """``low`` and ``high``."""
        return self.low, self.high

    @property
    def is_square(self) -> bool:
        """Whether it is a weighted square."""
        return self.low is None and self.high is None and self.curvature > 0 and self.left == self.right

    def scaled(self, factor: Fraction) -> Interval:
        """``factor * phi``."""
        low, high = (None if bound is None else factor * bound for bound in (self.low, self.high))
        return Interval(low, high, self.left, self.right, self.curvature / factor)

    def value(self, t: Sequence[Fraction]) -> Enclosure | None:
        """``phi(t)`` itself."""
        (point,) = t
        if self.left <= point <= self.right:
            return ZERO, ZERO
        d = point - (self.right if point > self.right else self.left)
        bound = self.high if d > 0 else self.low
        if self.curvature == 0:
            return None if bound is None else (bound * d, bound * d)
        p = d / self.curvature
        if bound is not None and abs(p) > abs(bound):
            p = bound
        value = p * d - self.curvature * p * p / 2
        return value, value

    def conjugate(self, p: Sequence[Fraction]) -> Fraction:
        """``c(p)`` itself."""
        (dual,) = p
        return self.curvature * dual * dual / 2 + (self.right if dual > 0 else self.left) * dual

    def excess(self, p: Sequence[Fraction]) -> Fraction:
        """Beyond the bound, as a share of it; one if that is zero."""
        (dual,) = p
        bound = self.high if dual > 0 else self.low
        if bound is None or abs(dual) <= abs(bound):
            return ZERO
        return abs(dual / bound) - 1 if bound else ONE


@dataclass(frozen=True)
class LogSumExp:
    """``weight log(1 + sum_k exp(t_k))``: a logistic loss, or a multinomial one of differences from the label's score.

    The conjugate is ``weight`` times the negative entropy of the probabilities ``q_k = p_k / weight`` and of the one
    that is left, ``1 - sum_k q_k``.
    """

    weight: Fraction
    width: int = 1

    @property
    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """Probabilities from zero to one."""
        return ZERO, self.weight

    def value(self, t: Sequence[Fraction]) -> Enclosure | None:
        """Relative to the largest exponent."""
        top = max(ZERO, *t)
        low = high = ZERO
        for score in (ZERO, *t):
            below, above = exp_enclosure(score - top)
            assert above is not None  # no exponent is positive
            low, high = low + below, high + above
        return self.weight * (top + log_enclosure(low)[0]), self.weight * (top + log_enclosure(high)[1])

    def conjugate(self, p: Sequence[Fraction]) -> Fraction:
        """With upper bounds of the logarithms."""
        shares = (*p, self.weight - sum(p, ZERO))
        return sum((share * log_enclosure(share / self.weight)[1] for share in shares if share), ZERO)

    def excess(self, p: Sequence[Fraction]) -> Fraction:
        """One if a probability is negative, else that of their sum."""
        return ONE if min(p) < 0 else max(ZERO, sum(p, ZERO) / self.weight - 1)


@dataclass(frozen=True)
class Exponential:
    """``weight (exp(t) - target t)``, with the conjugate ``weight (r log r - r)`` of ``r = p / weight + target``."""

    weight: Fraction
    target: Fraction

    @property
    def width(self) -> int:
        """One row."""
        return 1

    @property
    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """At least ``-weight target``."""
        return -self.weight * self.target, None

    def value(self, t: Sequence[Fraction]) -> Enclosure | None:
        """Enclosed like the exponential."""
        low, high = exp_enclosure(t[0])
        linear = self.target * t[0]
        return self.weight * (low - linear), None if high is None else self.weight * (high - linear)

    def conjugate(self, p: Sequence[Fraction]) -> Fraction:
        """With an upper bound of the logarithm."""
        mean = p[0] + self.weight * self.target
        return mean * (log_enclosure(mean / self.weight)[1] - 1) if mean else ZERO

    def excess(self, p: Sequence[Fraction]) -> Fraction:
        """Beyond the bound, as a share of it; one if that is zero."""
        short = -p[0] - self.weight * self.target
        return ZERO if short <= 0 else (short / (self.weight * self.target) if self.target else ONE)


@dataclass(frozen=True)
class BallIndicator:
    """Zero for ``||t - centre||_2 <= radius``, infinite outside; the conjugate is ``radius ||p|| + centre^T p``."""

    radius: Fraction
    centre: tuple[Fraction, ...]

    @property
    def width(self) -> int:
        """Number of parameters."""
        return len(self.centre)

    @property
    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """None."""
        return None, None

    def value(self, t: Sequence[Fraction]) -> Enclosure | None:
        """Zero inside: no rounding is allowed for."""
        square = sum(((x - c) ** 2 for x, c in zip(t, self.centre, strict=True)), ZERO)
        return (ZERO, ZERO) if square <= self.radius**2 else None

    def conjugate(self, p: Sequence[Fraction]) -> Fraction:
        """With an upper bound of the root."""
        square = sum((x * x for x in p), ZERO)
        _, root, shift = root_enclosure(square.numerator * square.denominator)
        length = Fraction(root, square.denominator << shift)
        return self.radius * length + sum((x * c for x, c in zip(p, self.centre, strict=True)), ZERO)

    def excess(self, p: Sequence[Fraction]) -> Fraction:
        """Every dual is inside."""
        return ZERO
