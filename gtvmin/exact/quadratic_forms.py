"""Positive semidefinite forms as sums of squares, without rounding."""

from __future__ import annotations

from fractions import Fraction

from gtvmin.exact.integers import IntegerArray

__all__ = ["sum_of_squares"]


def sum_of_squares(A: IntegerArray) -> list[tuple[list[int], Fraction]] | None:
    """Rows b_k and weights with ``w^T A w = sum_k weight_k (b_k^T w)^2``, None if A is not positive semidefinite.

    Parameters
    ----------
    A : integer array (d, d)
        Symmetric.

    Notes
    -----
    Symmetric fraction-free elimination: all numbers are minors of A (E. H. Bareiss, "Sylvester's Identity and Multistep
    Integer-Preserving Gaussian Elimination" (1968), DOI 10.1090/S0025-5718-1968-0226829-0), and the weight of a row is
    one over the product of two pivots.  A is positive semidefinite if and only if no pivot is negative and nothing is
    left when all that remain are zero.
    """
    rest = A.astype(object)
    rows: list[tuple[list[int], Fraction]] = []
    last = 1
    while True:
        diagonal = rest.diagonal()
        if (diagonal < 0).any():
            return None
        k = int(diagonal.argmax())
        pivot = diagonal[k]
        if pivot == 0:
            return None if rest.any() else rows
        row = rest[k]
        rows.append((row.tolist(), Fraction(1, last * pivot)))
        rest = (rest * pivot - row[:, None] * row) // last
        last = pivot
