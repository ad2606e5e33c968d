"""A penalty on some edges as arrays: whom it couples, through which matrices, by which function of the rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gtvmin.solvers.linear_maps import CoordinateDifference, EdgeDifference, EdgeMaps
from gtvmin.solvers.standard_form import Array, BlockFunction

if TYPE_CHECKING:
    from gtvmin.network import FLNetwork

__all__ = ["CoupledEdges", "EdgeBlocks", "EdgeTerm", "IntArray"]

IntArray = NDArray[np.int64]


class EdgeBlocks(BlockFunction):
    """A block function with parameters per row, whose rows can be picked and put together.

    Attributes
    ----------
    PER_ROW : tuple of str
        Names of the constructor's arrays with one entry (or row) per row.
    SHARED : tuple of str
        Names of its other arguments.
    """

    PER_ROW: ClassVar[tuple[str, ...]]
    SHARED: ClassVar[tuple[str, ...]] = ("dim",)

    def kind(self) -> tuple[Hashable, ...]:
        """Blocks of equal kind can be joined."""
        return (type(self), self.dim, *(getattr(self, name) for name in self.SHARED))

    def take(self, rows: Any) -> Self:
        """The blocks of some rows."""
        return self._with({name: getattr(self, name)[rows] for name in self.PER_ROW})

    def join(self, others: Sequence[Self]) -> Self:
        """These blocks, then others of the same kind."""
        blocks = [self, *others]
        return self._with({name: np.concatenate([getattr(b, name) for b in blocks]) for name in self.PER_ROW})

    def _with(self, arrays: dict[str, Array]) -> Self:
        return type(self)(**arrays, **{name: getattr(self, name) for name in self.SHARED})


@dataclass(frozen=True, eq=False)
class CoupledEdges:
    """Edges that a penalty couples.

    Attributes
    ----------
    network : FLNetwork
        What they are edges of.
    numbers : int array (m,)
        Their positions among its edges.
    tail_dim, head_dim : int arrays (m,)
        Numbers of parameters of the devices at both ends.
    dim : int
        Length that all parameter vectors are padded to.
    """

    network: FLNetwork
    numbers: IntArray
    tail_dim: IntArray
    head_dim: IntArray
    dim: int

    @classmethod
    def of(cls, network: FLNetwork, dims: IntArray) -> CoupledEdges:
        """All edges of a network whose devices have these numbers of parameters."""
        numbers = np.arange(network.n_edges)
        return cls(network, numbers, dims[network.tail], dims[network.head], int(dims.max()))

    def pair(self, k: int) -> tuple[Hashable, Hashable]:
        """Labels of tail and head of the edge at position k."""
        number, nodes = self.numbers[k], self.network.nodes
        return nodes[self.network.tail[number]], nodes[self.network.head[number]]

    def take(self, rows: Any) -> CoupledEdges:
        """Some of the edges, by a mask or by positions."""
        return CoupledEdges(self.network, self.numbers[rows], self.tail_dim[rows], self.head_dim[rows], self.dim)

    def with_dim(self, dim: int) -> CoupledEdges:
        """The same edges between devices of ``dim`` parameters each."""
        dims = np.full(len(self.numbers), dim)
        return CoupledEdges(self.network, self.numbers, dims, dims, dim)

    def in_order(self, values: Mapping[Any, Any], name: str) -> tuple[list[Any], NDArray[np.bool_]]:
        """Values of a mapping from pairs of labels in the edges' order, and which pairs were given head first.

        Raises
        ------
        ValueError
            If an edge has no value or two, or a pair is not an edge.
        """
        found, flipped = [], np.zeros(len(self.numbers), dtype=bool)
        known = set()
        for k in range(len(self.numbers)):
            tail, head = self.pair(k)
            forward, backward = (tail, head) in values, (head, tail) in values
            if forward and backward:
                raise ValueError(f"{name} has both ({tail!r}, {head!r}) and ({head!r}, {tail!r}): give one of them")
            if not forward and not backward:
                raise ValueError(f"{name} has nothing for the edge ({tail!r}, {head!r})")
            flipped[k] = backward
            pair = (head, tail) if backward else (tail, head)
            found.append(values[pair])
            known.add(pair)
        if len(values) > len(found):
            unknown = next(pair for pair in values if pair not in known)
            raise ValueError(f"{name} has an entry for {unknown!r}, which is not an edge of the network")
        return found, flipped


@dataclass(frozen=True, eq=False)
class EdgeTerm:
    """``sum_e g_e(z_e)`` over some edges, with z the difference of the ends' parameters or what matrices make of them.

    Attributes
    ----------
    numbers : int array (m,)
        The edges.
    function : EdgeBlocks
        ``g``, alpha and weights included.
    coordinates : int array, optional
        ``z = (w_head - w_tail)[coordinates]``; all if neither these nor matrices are given.
    B, C : arrays (m, width, dim), optional
        ``z = B_e w_head - C_e w_tail`` instead.
    lift : array (m, flow width, width), optional
        The edges' flows are ``lift_e u_e`` with u the duals of the function's rows; the identity if not given.
    """

    numbers: IntArray
    function: EdgeBlocks
    coordinates: IntArray | None = None
    B: Array | None = None
    C: Array | None = None
    lift: Array | None = None

    def on_coordinates(self, coordinates: IntArray, dim: int) -> EdgeTerm:
        """The same of vectors of length ``dim`` of which only these coordinates are seen, all of them until now."""
        if self.B is None or self.C is None:
            return EdgeTerm(self.numbers, self.function, coordinates)
        B, C = (np.zeros((*M.shape[:2], dim)) for M in (self.B, self.C))
        B[:, :, coordinates], C[:, :, coordinates] = self.B, self.C
        lift = self.lift
        if lift is not None:
            lift = np.zeros((len(B), dim, lift.shape[2]))
            lift[:, coordinates] = self.lift
        return EdgeTerm(self.numbers, self.function, None, B, C, lift)

    def shifted(self, first: int) -> EdgeTerm:
        """The same term where these edges come after ``first`` others."""
        return replace(self, numbers=self.numbers + first)

    def map(
        self, tail: IntArray, head: IntArray, n_nodes: int, dim: int
    ) -> EdgeDifference | CoordinateDifference | EdgeMaps:
        """The map from parameters to rows; tail and head are those of all edges."""
        tail, head = tail[self.numbers], head[self.numbers]
        if self.B is not None and self.C is not None:
            return EdgeMaps(tail, head, self.B, self.C, n_nodes)
        if self.coordinates is not None:
            return CoordinateDifference(tail, head, self.coordinates, n_nodes, dim)
        return EdgeDifference(tail, head, n_nodes, dim)

    def raise_flows(self, dual: Array, flows: Array) -> None:
        """Write the edges' flows into those of all edges, from the duals of the function's rows."""
        if self.coordinates is not None:
            flows[self.numbers[:, None], self.coordinates] = dual
        elif self.lift is None:
            flows[self.numbers, : dual.shape[1]] = dual
        else:
            flows[self.numbers, : self.lift.shape[1]] = np.einsum("efk,ek->ef", self.lift, dual)

    def lower_flows(self, flows: Array) -> Array:
        """Duals of the function's rows from the flows of all edges, nearest ones where no duals give these flows."""
        own = flows[self.numbers]
        if self.coordinates is not None:
            return own[:, self.coordinates]
        if self.lift is None:
            return own[:, : self.function.dim]
        return np.asarray(np.einsum("ekf,ef->ek", np.linalg.pinv(self.lift), own[:, : self.lift.shape[1]]))

    def kind(self) -> tuple[Hashable, ...]:
        """Terms of equal kind can be joined."""
        seen = None if self.coordinates is None else self.coordinates.tobytes()
        shapes = (None if M is None else M.shape[1:] for M in (self.B, self.C, self.lift))
        return (self.function.kind(), seen, *shapes)

    def join(self, others: Sequence[EdgeTerm]) -> EdgeTerm:
        """Terms of the same kind in one, this first."""
        terms = [self, *others]

        def stacked(name: str) -> Array | None:
            parts = [getattr(term, name) for term in terms]
            return None if parts[0] is None else np.concatenate(parts)

        return EdgeTerm(
            np.concatenate([term.numbers for term in terms]),
            self.function.join([term.function for term in others]),
            self.coordinates,
            stacked("B"),
            stacked("C"),
            stacked("lift"),
        )
