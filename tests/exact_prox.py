"""Proximal points of quadratic functions and interval rows, in rational arithmetic.

A row is at the lower end of its slopes, between, on a kink, or at the upper end.  Every choice for all rows gives
linear equations; the choice whose solution has all duals in their intervals and all rows on their sides is optimal.
There is one with independent equations (a vertex of the set of duals), so that singular choices need no thought.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Vector = list[Fraction]


def exactly(array: Any) -> Any:
    """Floats as fractions, without rounding."""
    return [Fraction(float(x)) for x in array] if np.ndim(array) == 1 else [exactly(row) for row in array]


@dataclass(frozen=True)
class Piece:
    """A choice for one row: its dual is ``slope`` for t in an interval, or solves ``t - curvature dual = target``."""

    slope: Fraction | None = None
    between: tuple[float | Fraction, float | Fraction] = (-np.inf, np.inf)
    target: Fraction = Fraction(0)
    curvature: Fraction = Fraction(0)

    def holds(self, t: Fraction, dual: Fraction) -> bool:
        low, high = self.between
        return bool(low <= (dual if self.slope is None else t) <= high)


def pieces(low: float, high: float, left: float, right: float, curvature: float) -> Iterator[Piece]:
    """All choices for a row; infinite slopes are none."""
    kappa, a, b = Fraction(curvature), Fraction(left), Fraction(right)
    if np.isfinite(low):
        yield Piece(Fraction(low), (-np.inf, a + kappa * Fraction(low)))
    if np.isfinite(high):
        yield Piece(Fraction(high), (b + kappa * Fraction(high), np.inf))
    if left == right:
        yield Piece(between=(low, high), target=a, curvature=kappa)
    else:
        yield Piece(Fraction(0), (a, b))
        yield Piece(between=(low, 0.0), target=a, curvature=kappa)
        yield Piece(between=(0.0, high), target=b, curvature=kappa)


def solve(matrix: list[Vector], right: Vector) -> Vector | None:
    """Gauss's method; None if the matrix is singular."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    n = len(rows)
    for j in range(n):
        pivot = next((i for i in range(j, n) if rows[i][j] != 0), None)
        if pivot is None:
            return None
        rows[j], rows[pivot] = rows[pivot], rows[j]
        rows[j] = [a / rows[j][j] for a in rows[j]]
        for i in range(n):
            if i != j and rows[i][j] != 0:
                factor = rows[i][j]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[j], strict=True)]
    return [row[-1] for row in rows]


def exact_prox(
    squares: tuple[Array, Array, Array], tilt: Array, X: Array, rows: dict[str, Array], v: Array, step: float
) -> tuple[Array, float] | None:
    """``argmin sum omega (x^T w - y)^2 + tilt^T w + sum_r phi_r(x_r^T w) + ||w - v||^2 / (2 step)``.

    The point, and the size of what cancels in ``v - step * (slopes of all parts)``; None if there is no such point, or
    walls leave only dependent equations.
    """
    d = len(v)
    inverse = 1 / Fraction(step)
    Q = [[inverse if i == j else Fraction(0) for j in range(d)] for i in range(d)]
    b = [inverse * z - c for z, c in zip(exactly(v), exactly(tilt), strict=True)]
    for x, y, omega in zip(*(exactly(part) for part in squares), strict=True):
        for i in range(d):
            b[i] += 2 * omega * y * x[i]
            for j in range(d):
                Q[i][j] += 2 * omega * x[i] * x[j]
    vectors = exactly(X)
    parameters = zip(*(rows[name] for name in ("low", "high", "left", "right", "curvature")), strict=True)
    for choice in product(*(list(pieces(*map(float, row))) for row in parameters)):
        open_rows = [r for r, piece in enumerate(choice) if piece.slope is None]
        right = b.copy()
        for x, piece in zip(vectors, choice, strict=True):
            if piece.slope is not None:
                right = [total - piece.slope * xi for total, xi in zip(right, x, strict=True)]
        matrix = [[*Q[i], *(vectors[r][i] for r in open_rows)] for i in range(d)]
        matrix += [
            [*vectors[r], *(-choice[r].curvature if r == s else Fraction(0) for s in open_rows)] for r in open_rows
        ]
        solution = solve(matrix, [*right, *(choice[r].target for r in open_rows)])
        if solution is None:
            continue
        w, duals = solution[:d], dict(zip(open_rows, solution[d:], strict=True))
        t = [sum((xi * wi for xi, wi in zip(x, w, strict=True)), Fraction(0)) for x in vectors]
        if all(piece.holds(t[r], duals.get(r, Fraction(0))) for r, piece in enumerate(choice)):
            point = np.array([float(wi) for wi in w])
            slopes = [abs(float(duals.get(r, piece.slope))) for r, piece in enumerate(choice)]
            residual = 2 * squares[2] * np.abs(squares[0] @ point - squares[1])
            pulls = np.linalg.norm(squares[0], axis=1) @ residual + np.linalg.norm(tilt)
            return point, step * float(pulls + np.linalg.norm(X, axis=1) @ slopes)
    return None
