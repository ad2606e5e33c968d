"""Ball arithmetic to a hundred digits, by python-flint."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

flint = pytest.importorskip("flint", reason="python-flint is the independent ball arithmetic")


def ball(x: Any) -> Any:
    exact = Fraction(x)
    return flint.arb(flint.fmpq(exact.numerator, exact.denominator))
