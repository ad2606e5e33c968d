"""What a penalty is: a convex function of how much the models at the two ends of an edge differ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.penalties.edge_terms import CoupledEdges, EdgeBlocks, EdgeTerm, IntArray
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen, positive_number

__all__ = ["DifferencePenalty", "Penalty", "check_equal_dims"]


class Penalty(ABC):
    """A convex function ``phi`` of the parameters at the two ends of an edge.

    The evaluations are for one edge of weight one and alpha one.
    """

    __slots__ = ()

    @abstractmethod
    def bind(self, edges: CoupledEdges) -> Penalty:
        """The penalty with all that is declared by pairs of labels in the order of the edges.

        Raises
        ------
        ValueError
            If it does not fit an edge, which the message names.
        """

    @abstractmethod
    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """``strengths_e * phi`` for edges it is bound to."""

    @abstractmethod
    def value(self, z: ArrayLike) -> float:
        """``phi(z)``."""

    @abstractmethod
    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """``argmin_z phi(z) + ||z - v||^2 / (2 step)``."""

    @abstractmethod
    def conjugate(self, u: ArrayLike) -> float:
        """``sup_z <u, z> - phi(z)``, ``inf`` outside its domain."""

    def flow_dims(self, edges: CoupledEdges) -> IntArray:
        """Number of entries of every edge's flow, the dual variable of z."""
        return np.minimum(edges.tail_dim, edges.head_dim)

    def reversed(self) -> Penalty:
        """The same coupling seen from head to tail: for most penalties nothing changes."""
        return self

    def at_infinity(self) -> Penalty:
        """What ``alpha * phi`` becomes as alpha grows without bound.

        Raises
        ------
        ValueError
            If that is no equality of the coupled parameters.
        """
        raise ValueError(f"alpha must be finite for {self!r}, which does not become a consensus as alpha grows")

    @property
    def is_uniform(self) -> bool:
        """Whether it is the same for all edges that it is given."""
        return True

    def arguments(self) -> dict[str, Any]:
        """Arguments that declare the same penalty again, for files and fingerprints."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _same(self.arguments(), other.arguments())

    def __hash__(self) -> int:
        return hash((type(self), *map(_key, self.arguments().values())))

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, _frozen(value))


class DifferencePenalty(Penalty):
    """A penalty ``phi(w_head - w_tail)`` on devices with equally many parameters; a subclass stacks it over edges."""

    __slots__ = ()

    @abstractmethod
    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """``strengths_e * phi`` for every edge e, as a block function with rows of length ``dim``."""

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Check that the ends of every edge have equally many parameters."""
        check_equal_dims(self, edges)
        return self

    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """One term for every number of parameters that occurs."""
        terms = []
        for dim in np.unique(edges.head_dim):
            chosen = edges.head_dim == dim
            numbers = edges.numbers[chosen]
            term = EdgeTerm(numbers, self.pick(numbers).stack(strengths[chosen], int(dim)))
            terms.append(term if dim == edges.dim else term.on_coordinates(np.arange(dim), edges.dim))
        return tuple(terms)

    def pick(self, numbers: Any) -> DifferencePenalty:
        """The penalty of some of the edges that it is bound to."""
        return self

    def _block(self, z: ArrayLike, name: str) -> tuple[BlockFunction, Array]:
        row = np.atleast_1d(finite_array(z, name))
        if row.ndim != 1:
            raise ValueError(f"{name} must be a vector, got shape {row.shape}")
        return self.stack(np.ones(1), row.size), row[None, :]

    def value(self, z: ArrayLike) -> float:
        """``phi(z)``."""
        block, row = self._block(z, "z")
        return float(block.value(row)[0])

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """``argmin_z phi(z) + ||z - v||^2 / (2 step)``."""
        block, row = self._block(v, "v")
        return np.asarray(block.prox(row, np.array([positive_number(step, "step")]))[0])

    def conjugate(self, u: ArrayLike) -> float:
        """``sup_z <u, z> - phi(z)``, ``inf`` outside its domain."""
        block, row = self._block(u, "u")
        return float(block.conjugate(row)[0])


def check_equal_dims(penalty: Penalty, edges: CoupledEdges) -> None:
    """Raise an error that names the first edge whose ends have different numbers of parameters."""
    bad = np.flatnonzero(edges.tail_dim != edges.head_dim)
    if len(bad):
        k = int(bad[0])
        tail, head = edges.pair(k)
        raise ValueError(
            f"node {head!r} has {edges.head_dim[k]} parameters and node {tail!r} has {edges.tail_dim[k]}: devices "
            f"that {penalty!r} couples need the same number (Partial and Mapped couple different ones)"
        )


def _same(a: Any, b: Any) -> bool:
    """Equality of arguments: numbers, arrays, penalties, and tuples and dictionaries of these."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(value, b[key]) for key, value in a.items())
    return bool(a == b)


def _key(value: Any) -> Any:
    """Something to hash an argument by."""
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    if isinstance(value, dict):
        return frozenset(value)
    return tuple(map(_key, value)) if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    """A copied or unpickled argument: its arrays arrive writable and become read-only again."""
    if isinstance(value, np.ndarray):
        return frozen(value)
    return tuple(map(_frozen, value)) if isinstance(value, tuple) else value
