"""Coupling of some of the parameters: the others stay personal to each device."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.penalties.base import DifferencePenalty, Penalty
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeTerm
from gtvmin.penalties.prediction_discrepancy import PredictionDiscrepancy
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array

__all__ = ["Partial"]


@dataclass(frozen=True, eq=False, init=False)
class Partial(Penalty):
    """``phi(z) = inner(z[coordinates])``: devices share some parameters and keep the others to themselves.

    Parameters
    ----------
    penalty : Penalty
        The inner penalty, on as many parameters as there are coordinates.
    coordinates : iterable of int
        Positions of the shared parameters.  Devices that have them may differ in their numbers of parameters.

    Raises
    ------
    TypeError
        If the penalty is not one of differences, or a coordinate is no integer.
    ValueError
        For no coordinates, negative ones and repeated ones.  When a problem is declared: for a device that an edge
        couples and that has no such parameter.

    Notes
    -----
    Personalised federated learning with shared and personal parts: K. Pillutla et al., "Federated Learning with
    Partial Model Personalization" (2022), arXiv 2204.03809.

    Examples
    --------
    >>> from gtvmin.penalties import Norm, Partial
    >>> Partial(Norm(2), [0, 2]).value([3.0, 100.0, 4.0])
    5.0
    """

    penalty: Penalty
    coordinates: tuple[int, ...]

    def __init__(self, penalty: Penalty, coordinates: Iterable[int]) -> None:
        if not isinstance(penalty, DifferencePenalty | PredictionDiscrepancy):
            raise TypeError(f"penalty must be one of differences, such as Norm(2), got {penalty!r}")
        found = []
        for k in coordinates:
            if isinstance(k, bool) or int(k) != k:
                raise TypeError(f"coordinates must be integers, got {k!r}")
            if k < 0:
                raise ValueError(f"coordinates must be >= 0, got {int(k)}: count from the first parameter")
            found.append(int(k))
        if not found:
            raise ValueError("coordinates is empty: a penalty needs at least one")
        if len(set(found)) < len(found):
            raise ValueError(f"coordinates repeat: {tuple(found)}")
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "coordinates", tuple(found))

    @property
    def is_uniform(self) -> bool:
        """Whether the inner penalty is."""
        return self.penalty.is_uniform

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Check that the devices have these parameters, and bind the inner penalty."""
        last = max(self.coordinates)
        for place, dims in enumerate((edges.tail_dim, edges.head_dim)):
            bad = np.flatnonzero(dims <= last)
            if len(bad):
                pair = edges.pair(int(bad[0]))
                raise ValueError(
                    f"the edge ({pair[0]!r}, {pair[1]!r}) couples the coordinate {last}, but node {pair[place]!r} has "
                    f"only {dims[bad[0]]} parameters, counted from 0"
                )
        return self._with(self.penalty.bind(edges.with_dim(len(self.coordinates))))

    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """The inner penalty's terms, which see these coordinates."""
        inner = self.penalty.edge_terms(edges.with_dim(len(self.coordinates)), strengths)
        return tuple(term.on_coordinates(np.array(self.coordinates), edges.dim) for term in inner)

    def reversed(self) -> Penalty:
        """The inner penalty reversed."""
        return self._with(self.penalty.reversed())

    def at_infinity(self) -> Penalty:
        """Consensus on these coordinates, for most inner penalties."""
        return self._with(self.penalty.at_infinity())

    def _with(self, penalty: Penalty) -> Penalty:
        changed = object.__new__(Partial)
        object.__setattr__(changed, "penalty", penalty)
        object.__setattr__(changed, "coordinates", self.coordinates)
        return changed

    def _shared(self, vector: ArrayLike, name: str) -> tuple[Array, Array]:
        row = np.atleast_1d(finite_array(vector, name))
        if row.ndim != 1 or row.size <= max(self.coordinates):
            raise ValueError(f"{name} must be a vector with the coordinates {self.coordinates}, got shape {row.shape}")
        return row, row[list(self.coordinates)]

    def value(self, z: ArrayLike) -> float:
        """The inner penalty of the shared coordinates."""
        return self.penalty.value(self._shared(z, "z")[1])

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """The inner prox on the shared coordinates; the others stay."""
        row, shared = self._shared(v, "v")
        row[list(self.coordinates)] = self.penalty.prox(shared, step)
        return row

    def conjugate(self, u: ArrayLike) -> float:
        """The inner conjugate, ``inf`` where another coordinate is not zero."""
        row, shared = self._shared(u, "u")
        row[list(self.coordinates)] = 0.0
        return float("inf") if row.any() else self.penalty.conjugate(shared)
