"""Objectives in rational arithmetic, from the declared numbers and the formulas in the docstrings alone.

Every double is a rational number.  Roots, exponentials and logarithms are enclosed by rationals, so that the objective
is enclosed too; it shares no code with the package's evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

import gtvmin as gtv
from gtvmin.penalties import Consensus, FlowCost, HuberPenalty, Partial

Enclosure = tuple[Fraction, Fraction]
Vector = Sequence[Fraction]

ZERO, ONE = Fraction(0), Fraction(1)
ROOT_BITS = 240
DIGITS = Context(prec=80, Emax=10**9, Emin=-(10**9))
RELATIVE = Fraction(1, 10**70)
# exp is not evaluated beyond: the objective is then out of reach of doubles anyway
LARGEST_EXPONENT = 5000


def exact_objective(problem: gtv.GTVMin, W: Any) -> Enclosure | None:
    """Enclosure of ``P(W)``; None outside the domain, or where it is too large to write down."""
    rows = [[Fraction(v) for v in row] for row in np.asarray(W, dtype=float).tolist()]
    low = high = ZERO
    for w, loss in zip(rows, problem.losses, strict=True):
        for coefficient, atom in loss.terms():
            part = _loss(atom, w)
            if part is None:
                return None
            low, high = low + Fraction(coefficient) * part[0], high + Fraction(coefficient) * part[1]
    for coupling in problem.couplings:
        net = coupling.network
        for e, (i, j) in enumerate(zip(net.tail.tolist(), net.head.tolist(), strict=True)):
            z = [b - a for a, b in zip(rows[i], rows[j], strict=True)]
            part = _penalty(coupling.penalty, z, e)
            if part is None:
                return None
            a = Fraction(coupling.alpha) * Fraction(float(net.weights[e]))
            low, high = low + a * part[0], high + a * part[1]
    return low, high


def _loss(atom: Any, w: Vector) -> Enclosure | None:
    name = type(atom).__name__
    if name in ("Box", "NonNegative", "Ball", "Simplex", "Affine"):
        return (ZERO, ZERO) if _inside(atom, name, w) else None
    if name == "Zero":
        return ZERO, ZERO
    if name == "Linear":
        return _twice(_dot(atom.c, w))
    if name == "SquaredDistance":
        return _twice(
            sum((c * (x - a) ** 2 for c, x, a in zip(_factors(atom, w), w, _vector(atom.a, w), strict=True)), ZERO)
        )
    if name == "L1":
        return _twice(sum((c * abs(x) for c, x in zip(_factors(atom, w), w, strict=True)), ZERO))
    if name == "Quadratic":
        square = sum((x * _dot(row, w) for x, row in zip(w, atom.Q, strict=True)), ZERO)
        return _twice(square / 2 + _dot(atom.q, w) + Fraction(atom.c))
    if name == "Ridge":
        data = _loss(atom.data, w)
        square = sum((Fraction(c) * x * x for c, x in zip(atom.penalise.tolist(), w, strict=True)), ZERO)
        return None if data is None else _twice(data[0] + Fraction(atom.lam) * square)
    weights = [ONE] * len(atom.y) if atom.sample_weight is None else [Fraction(v) for v in atom.sample_weight.tolist()]
    if atom.scale == "mean":
        total = sum(weights, ZERO)
        weights = [v / total for v in weights]
    low = high = ZERO
    for x, y, weight in zip(atom.X, atom.y.tolist(), weights, strict=True):
        part = _row(atom, name, _dot(x, w), Fraction(y))
        if part is None:
            return None
        low, high = low + weight * part[0], high + weight * part[1]
    return low, high


def _row(atom: Any, name: str, t: Fraction, y: Fraction) -> Enclosure | None:
    """Loss of one data point with the prediction t."""
    if name == "SquaredError":
        return _twice((t - y) ** 2)
    if name == "LeastAbsolute":
        return _twice(abs(t - y))
    if name == "Quantile":
        tau = Fraction(atom.tau)
        return _twice(max(tau * (y - t), (tau - 1) * (y - t)))
    if name == "Huber":
        size, delta = abs(t - y), Fraction(atom.delta)
        return _twice(size * size if size <= delta else delta * (2 * size - delta))
    if name in ("Hinge", "SquaredHinge"):
        short = max(ZERO, 1 - y * t)
        return _twice(short if name == "Hinge" else short * short)
    if name == "Logistic":
        margin = y * t
        if abs(margin) > LARGEST_EXPONENT:
            return max(ZERO, -margin), max(ZERO, -margin) + RELATIVE
        return _log(1 + _exp(-abs(margin))[0], max(ZERO, -margin))
    if name == "Poisson":
        if abs(t) > LARGEST_EXPONENT:
            return None if t > 0 else (-y * t, -y * t + RELATIVE)
        low, high = _exp(t)
        return low - y * t, high - y * t
    raise TypeError(f"no exact value of {atom!r}")


def _inside(atom: Any, name: str, w: Vector) -> bool:
    if name == "NonNegative":
        return all(x >= 0 for x in w)
    if name == "Simplex":
        return all(x >= 0 for x in w) and sum(w, ZERO) == Fraction(atom.total)
    if name == "Affine":
        return all(_dot(a, w) == Fraction(b) for a, b in zip(atom.A, atom.b.tolist(), strict=True))
    if name == "Ball":
        away = [x - c for x, c in zip(w, _vector(atom.centre, w), strict=True)]
        return sum((d * d for d in away), ZERO) <= Fraction(atom.radius) ** 2
    lows, highs = (np.broadcast_to(bound, len(w)).tolist() for bound in (atom.low, atom.high))
    return all(low <= x <= high for low, x, high in zip(lows, w, highs, strict=True))


def _penalty(penalty: Any, z: Vector, e: int) -> Enclosure | None:
    """``phi(z)`` on the edge e."""
    if isinstance(penalty, Partial):
        return _penalty(penalty.penalty, [z[k] for k in penalty.coordinates], e)
    if isinstance(penalty, Consensus):
        return None if any(z) else (ZERO, ZERO)
    if isinstance(penalty, FlowCost):
        cost, capacity = Fraction(penalty.cost), Fraction(penalty.capacity)
        back = cost if penalty.back_cost is None else Fraction(penalty.back_cost)
        back_capacity = capacity if penalty.back_capacity is None else Fraction(penalty.back_capacity)
        return _twice(sum((capacity * max(x - cost, ZERO) + back_capacity * max(-x - back, ZERO) for x in z), ZERO))
    if isinstance(penalty, gtv.SquaredNorm):
        return _twice(sum((x * x for x in z), ZERO))
    if isinstance(penalty, gtv.Norm) and penalty.p != 2:
        size = [abs(x) for x in z]
        return _twice(sum(size, ZERO) if penalty.p == 1 else max(size))
    low, high = _root(sum((x * x for x in z), ZERO))
    if isinstance(penalty, HuberPenalty):
        delta = Fraction(penalty.delta)
        return tuple(t * t / (2 * delta) if t <= delta else t - delta / 2 for t in (low, high))  # type: ignore[return-value]
    return low, high


def _dot(a: Any, w: Vector) -> Fraction:
    return sum((Fraction(x) * y for x, y in zip(a.tolist(), w, strict=True) if x), ZERO)


def _vector(value: Any, w: Vector) -> list[Fraction]:
    return [Fraction(v) for v in np.broadcast_to(value, len(w)).tolist()]


def _factors(atom: Any, w: Vector) -> list[Fraction]:
    return _vector(1.0 if atom.penalise is None else atom.penalise, w)


def _twice(value: Fraction) -> Enclosure:
    return value, value


def _root(square: Fraction) -> Enclosure:
    if square == 0:
        return ZERO, ZERO
    top, bottom = square.numerator, square.denominator
    shift = max(0, 2 * ROOT_BITS - (top.bit_length() - bottom.bit_length()))
    shift += shift % 2
    root = isqrt((top << shift) // bottom)
    unit = 1 << (shift // 2)
    return Fraction(root, unit), Fraction(root + 1, unit)


def _decimal(value: Fraction) -> Decimal:
    return DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def _exp(t: Fraction) -> Enclosure:
    value = Fraction(DIGITS.exp(_decimal(t)))
    return value * (1 - RELATIVE), value * (1 + RELATIVE)


def _log(x: Fraction, shift: Fraction) -> Enclosure:
    """``log x + shift`` for x in [1, 2] that is known to 70 digits."""
    value = Fraction(DIGITS.ln(_decimal(x))) + shift
    return value - 2 * RELATIVE, value + 2 * RELATIVE
