"""Coupling of devices whose parameters mean different things: matrices bring them to a common ground."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.penalties.base import DifferencePenalty, Penalty
from gtvmin.penalties.consensus import Consensus
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeTerm, IntArray
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["Mapped"]

Pair = tuple[Array, Array]


@dataclass(frozen=True, eq=False, init=False)
class Mapped(Penalty):
    """``phi(B_e w_head - C_e w_tail)`` with matrices that may differ from edge to edge.

    The devices at the two ends may have different numbers of parameters: the matrices say how these compare.

    Parameters
    ----------
    penalty : Penalty
        ``phi``, on the common ground.
    maps : pair of array_like, or mapping from (label, label) to such pairs
        ``(B, C)`` of all edges, or of each: the entry of (a, b) is ``(B, C)`` with ``z = B w_b - C w_a``.

    Raises
    ------
    TypeError, ValueError
        For anything but pairs of real matrices with equally many rows, and for penalties that are not of the plain
        kind or a consensus.  When a problem is declared: for other numbers of columns than the ends of an edge have
        parameters, pairs that are missing or no edges, and pairs given head first under a penalty that is not
        symmetric.

    Notes
    -----
    The flow of an edge is the dual variable of ``z``: ``C^T u`` leaves the tail and ``B^T u`` arrives at the head, as a
    sheaf Laplacian has it (J. Hansen, R. Ghrist, "Toward a spectral theory of cellular sheaves" (2019), DOI
    10.1007/s41468-019-00038-7).

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"C": 0.5 * gtv.SquaredError([[1.0]], [20.0]), "F": 0.5 * gtv.SquaredError([[0.2]], [16.0])}
    >>> same_unit = gtv.Mapped(gtv.SquaredNorm(), {("C", "F"): ([[1.0]], [[1.8]])})
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([("C", "F")]), losses, penalty=same_unit, alpha=1e-3)
    >>> problem.solve().is_certified
    True
    """

    penalty: Penalty
    maps: Any

    def __init__(self, penalty: Penalty, maps: Any) -> None:
        if not isinstance(penalty, DifferencePenalty):
            raise TypeError(f"penalty must be one of plain differences, such as Norm(2), got {penalty!r}")
        if isinstance(penalty, Consensus):
            raise ValueError("Mapped(Consensus(), ...) is not supported: take SquaredNorm() and a large alpha")
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "maps", _checked(maps))

    @property
    def is_uniform(self) -> bool:
        """Whether all edges have the same pair of matrices and the same penalty."""
        return self.penalty.is_uniform and isinstance(self.maps, tuple) and isinstance(self.maps[0], np.ndarray)

    def _pair(self, number: int) -> Pair:
        pair: Pair = self.maps if isinstance(self.maps[0], np.ndarray) else self.maps[number]
        return pair

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Put mappings in the order of the edges, tail first, and check the shapes."""
        maps = self.maps
        if isinstance(maps, dict):
            found, flipped = edges.in_order(maps, "maps of Mapped")
            if flipped.any() and self.penalty.reversed() != self.penalty:
                tail, head = edges.pair(int(flipped.argmax()))
                raise ValueError(
                    f"maps of Mapped names the edge ({tail!r}, {head!r}) from {head!r} to {tail!r}, but "
                    f"{self.penalty!r} is not symmetric: turn the pair round and exchange the matrices"
                )
            maps = tuple((C, B) if turned else (B, C) for (B, C), turned in zip(found, flipped, strict=True))
        elif not isinstance(maps[0], np.ndarray) and len(maps) != len(edges.numbers):
            raise ValueError(f"maps of Mapped has {len(maps)} entries for {len(edges.numbers)} edges")
        bound = object.__new__(Mapped)
        object.__setattr__(bound, "penalty", self.penalty.bind(edges.with_dim(edges.dim)))
        object.__setattr__(bound, "maps", maps)
        bound._check_columns(edges)
        return bound

    def _check_columns(self, edges: CoupledEdges) -> None:
        pairs = [self.maps] if isinstance(self.maps[0], np.ndarray) else self.maps
        for place, dims in ((0, edges.head_dim), (1, edges.tail_dim)):
            columns = np.broadcast_to(np.array([pair[place].shape[1] for pair in pairs], dtype=int), dims.shape)
            bad = np.flatnonzero(columns != dims)
            if len(bad):
                tail, head = edges.pair(int(bad[0]))
                raise ValueError(
                    f"maps of the edge ({tail!r}, {head!r}) has a matrix of {columns[bad[0]]} columns for node "
                    f"{(head, tail)[place]!r}, which has {dims[bad[0]]} parameters"
                )

    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """One term for every number of rows of the matrices."""
        pairs = [self._pair(number) for number in edges.numbers]
        widths = np.array([len(B) for B, _ in pairs])
        terms = []
        for width in np.unique(widths):
            chosen = np.flatnonzero(widths == width)
            B, C = np.zeros((2, len(chosen), width, edges.dim))
            for row, k in enumerate(chosen):
                B[row, :, : pairs[k][0].shape[1]], C[row, :, : pairs[k][1].shape[1]] = pairs[k]
            inner = self.penalty.edge_terms(edges.take(chosen).with_dim(int(width)), strengths[chosen])
            terms += [EdgeTerm(term.numbers, term.function, B=B, C=C) for term in inner]
        return tuple(terms)

    def flow_dims(self, edges: CoupledEdges) -> IntArray:
        """Number of rows of the matrices."""
        return np.array([len(self._pair(number)[0]) for number in edges.numbers], dtype=np.int64)

    def reversed(self) -> Penalty:
        """Matrices exchanged, inner penalty reversed."""
        return Mapped(self.penalty.reversed(), (self.maps[1], self.maps[0]))

    def value(self, z: ArrayLike) -> float:
        """``phi(z)`` for ``z = B w_head - C w_tail``."""
        return self.penalty.value(z)

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """That of the inner penalty."""
        return self.penalty.prox(v, step)

    def conjugate(self, u: ArrayLike) -> float:
        """That of the inner penalty."""
        return self.penalty.conjugate(u)

    def __repr__(self) -> str:
        uniform = isinstance(self.maps, tuple) and isinstance(self.maps[0], np.ndarray)
        shown = " and ".join(f"{M.shape}" for M in self.maps) if uniform else f"{len(self.maps)} edges"
        return f"Mapped({self.penalty!r}, <{shown}>)"


def _checked(maps: Any) -> Any:
    """A pair of matrices, or a dictionary or tuple of such pairs."""
    if isinstance(maps, Mapping):
        return {pair: _matrices(value, f"maps of the edge {pair!r}") for pair, value in maps.items()}
    if isinstance(maps, tuple) and maps and all(isinstance(part, tuple) for part in maps):
        return tuple(_matrices(value, f"maps at position {k}") for k, value in enumerate(maps))
    return _matrices(maps, "maps")


def _matrices(value: Any, name: str) -> Pair:
    try:
        B, C = value
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (B, C) of matrices, or a mapping from edges to such pairs") from None
    first, second = finite_array(B, f"B in {name}"), finite_array(C, f"C in {name}")
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second) or 0 in (*first.shape, *second.shape):
        raise ValueError(f"{name} must be two matrices with equally many rows, got {first.shape} and {second.shape}")
    return frozen(first), frozen(second)
