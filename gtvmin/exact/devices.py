"""The losses of one device as rows, with matrices split into squares."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.exact.functions import ExactFunction, Interval
from gtvmin.exact.integers import finest_grid, nearest_float, on_grid
from gtvmin.exact.quadratic_forms import sum_of_squares
from gtvmin.exact.rows import LossRows, loss_rows
from gtvmin.losses.base import Loss
from gtvmin.losses.quadratic_form import Quadratic

__all__ = ["device_rows"]


def device_rows(loss: Loss, dim: int, node: Hashable) -> list[LossRows]:
    """Rows of all terms of a device's loss.

    A computed matrix that should be semidefinite has eigenvalues of the size of rounding, of either sign.  Where one is
    negative, the squares of single parameters beside it (of a ridge, say) give part of their weight to the matrix.

    Raises
    ------
    CapabilityError
        If nothing exact is known about a term, or a matrix is not positive semidefinite even so.
    """
    parts: list[LossRows] = []
    matrices: list[tuple[Fraction, Quadratic]] = []
    for coefficient, atom in loss.terms():
        if isinstance(atom, Quadratic):
            matrices.append((Fraction(coefficient), atom))
            continue
        try:
            parts.append(loss_rows(atom, dim, Fraction(coefficient)))
        except CapabilityError as error:
            raise CapabilityError(f"the loss {atom!r} of node {node!r} {error}") from error
    for factor, matrix in matrices:
        found = _squares_of(matrix, factor, [Fraction(0)] * dim)
        if found is None:
            parts, lent = _lend(parts, factor, dim)
            found = _squares_of(matrix, factor, lent)
        if found is None:
            raise CapabilityError(
                f"the matrix of {matrix!r}, the loss of node {node!r}, is positive semidefinite only up to rounding: "
                "exactly, it has a negative eigenvalue and the loss no lower bound. Declare the rows of a factor, as "
                "SquaredError(X, y) does, or add a small multiple of SquaredDistance(0.0)"
            )
        parts.append(found)
    return parts


def _squares_of(loss: Quadratic, factor: Fraction, lent: list[Fraction]) -> LossRows | None:
    """``factor (1/2 w^T Q w + sum_j lent_j w_j^2 + q^T w + c)``, where Q stands for ``(Q + Q^T) / 2``, as squares."""
    grid = max(finest_grid(loss.Q), *(share.denominator.bit_length() - 1 for share in lent))
    numbers = on_grid(loss.Q, grid)
    diagonal = np.diag(np.array([int(share * (4 << grid)) for share in lent], dtype=object))
    squares = sum_of_squares(numbers + numbers.T + diagonal)
    if squares is None:
        return None
    lengths = [max(map(abs, row)).bit_length() for row, _ in squares]
    top = max(lengths, default=0)
    rows = [[value << (top - length) for value in row] for (row, _), length in zip(squares, lengths, strict=True)]
    functions: list[ExactFunction] = [
        Interval.square(factor * weight * Fraction(4**length, 4 << grid))
        for (_, weight), length in zip(squares, lengths, strict=True)
    ]
    return LossRows(
        X=np.array([[nearest_float(Fraction(v, 1 << top)) for v in row] for row in rows]).reshape(-1, loss.dim),
        functions=functions,
        exact=(np.array(rows, dtype=object).reshape(-1, loss.dim), top),
        linear=tuple(factor * Fraction(c) for c in loss.q),
        constant=factor * Fraction(loss.c),
    )


def _lend(parts: list[LossRows], factor: Fraction, dim: int) -> tuple[list[LossRows], list[Fraction]]:
    """Take weight from ``c (w_j - y)^2``, at most half; what is taken, ``factor lent_j w_j^2``, and what is left.

    ``c (w - y)^2 = (c - d) (w - y)^2 + d w^2 - 2 d y w + d y^2``.  The lent weights are powers of two, so that numbers
    stay on a dyadic grid.
    """
    left, lent, linear, constant = [], [Fraction(0)] * dim, [Fraction(0)] * dim, Fraction(0)
    for part in parts:
        functions = list(part.functions)
        for r, f in enumerate(functions if len(functions) == len(part.X) else []):
            (used,) = np.nonzero(part.X[r])
            if not (isinstance(f, Interval) and f.is_square and len(used) == 1 and part.X[r, used[0]] == 1.0):
                continue
            j, weight, y = int(used[0]), 1 / (2 * f.curvature), f.left
            half = weight / (2 * factor)
            share = Fraction(2) ** (half.numerator.bit_length() - half.denominator.bit_length() - 1)
            functions[r] = Interval.square(weight - factor * share, y)
            lent[j] += share
            linear[j] -= 2 * factor * share * y
            constant += factor * share * y * y
        left.append(replace(part, functions=functions))
    left.append(LossRows(np.empty((0, dim)), [], linear=tuple(linear), constant=constant))
    return left, lent
