"""Devices with fewer parameters than others: their vectors are padded with zeros, which stay zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.rows import RowLoss, stack_rows
from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.solvers.standard_form import Array, Term

__all__ = ["pad_quadratics", "pad_rows"]

IntArray = NDArray[np.int64]
QuadraticTerms = list[tuple[float, QuadraticLoss]]


@dataclass(frozen=True, eq=False)
class PaddedQuadratic(QuadraticLoss):
    """A quadratic loss of the first ``used`` parameters."""

    inner: QuadraticLoss
    used: int

    @property
    def dim(self) -> None:
        """Any number from ``used`` on."""
        return None

    def rows(self, dim: int) -> Rows:
        """The inner rows, with zeros for the further parameters."""
        X, y, weight = self.inner.rows(self.used)
        return np.pad(X, ((0, 0), (0, dim - self.used))), y, weight

    def affine(self, dim: int) -> tuple[Array, float] | None:
        """The inner coefficients, with zeros for the further parameters."""
        affine = self.inner.affine(self.used)
        return None if affine is None else (np.pad(affine[0], (0, dim - self.used)), affine[1])


@dataclass(frozen=True, eq=False)
class PaddingHeldAtZero(QuadraticLoss):
    """``weight * w_k^2`` for every parameter from ``used`` on."""

    used: int
    weight: float

    @property
    def dim(self) -> None:
        """Any number from ``used`` on."""
        return None

    def rows(self, dim: int) -> Rows:
        """Rows of the identity."""
        extra = dim - self.used
        return np.eye(extra, dim, self.used), np.zeros(extra), np.full(extra, self.weight)


def pad_quadratics(devices: Sequence[QuadraticTerms], dims: IntArray, dim: int) -> list[QuadraticTerms]:
    """Quadratic atoms of every device on vectors of length ``dim``, and what holds the padding at zero.

    Its curvature is the mean one of the device's own parameters, so that it changes neither the least nor the largest.
    """
    padded: list[QuadraticTerms] = []
    for terms, used in zip(devices, dims.tolist(), strict=True):
        if used == dim:
            padded.append(list(terms))
            continue
        rows = [(c, loss.rows(used)) for c, loss in terms]
        trace = sum(c * float((weight[:, None] * X**2).sum()) for c, (X, _, weight) in rows)
        held = PaddingHeldAtZero(used, trace / used if trace > 0 else 0.5)
        padded.append([*((c, PaddedQuadratic(loss, used)) for c, loss in terms), (1.0, held)])
    return padded


def pad_rows(atoms: Sequence[tuple[int, float, RowLoss]], dims: IntArray, dim: int) -> tuple[Term, ...]:
    """Terms of the other atoms: each device's with its own number of parameters, of which the padding is no part."""
    terms: list[Term] = []
    for used in np.unique(dims).tolist():
        own = [atom for atom in atoms if dims[atom[0]] == used]
        stacked = stack_rows(own, len(dims), used)
        terms += [Term(term.map.padded(dim), term.function) for term in stacked] if used < dim else stacked
    return tuple(terms)
