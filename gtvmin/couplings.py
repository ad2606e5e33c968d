"""A family of edges that couples devices: a network, a penalty and its strength."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.network import FLNetwork
from gtvmin.penalties.base import Penalty
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeTerm
from gtvmin.penalties.per_edge import penalty_of_edges
from gtvmin.validation import nonnegative_number

__all__ = ["Coupling", "Penalties", "coupling_strength", "on_nodes"]

IntArray = NDArray[np.int64]
Penalties = Penalty | Mapping[Any, Penalty] | Callable[[Any, Any], Penalty] | str
"""What a problem takes for a penalty."""


@dataclass(frozen=True, eq=False)
class Coupling:
    """``alpha * sum_e A_e phi_e`` over the edges of a network.

    Attributes
    ----------
    network : FLNetwork
        Edges and their weights.
    penalty : Penalty
        ``phi``, bound to the edges.
    alpha : float
        Strength; ``inf`` for what the penalty becomes in the limit.
    """

    network: FLNetwork
    penalty: Penalty
    alpha: float

    @classmethod
    def declare(cls, network: FLNetwork, penalty: Any, alpha: float, dims: IntArray) -> Coupling:
        """Check a declared family of edges and put it in the order of the network.

        Parameters
        ----------
        network : FLNetwork
            All nodes of the problem, with these edges.
        penalty : Penalty, mapping or callable
            See :func:`gtvmin.penalties.per_edge.penalty_of_edges`.
        alpha : float
            At least 0, possibly ``inf``.
        dims : int array (n_nodes,)
            Number of parameters of every device.
        """
        bound = penalty_of_edges(penalty, CoupledEdges.of(network, dims))
        return cls(network, bound, coupling_strength(alpha, "alpha")).checked()

    def checked(self) -> Coupling:
        """Itself, if its penalty allows for its alpha."""
        if self.alpha == np.inf:
            self.penalty.at_infinity()
        return self

    def flow_dims(self, dims: IntArray) -> IntArray:
        """Number of entries of every edge's flow."""
        return self.penalty.flow_dims(CoupledEdges.of(self.network, dims))

    def edge_terms(self, dims: IntArray) -> tuple[EdgeTerm, ...]:
        """Terms of the edges; none with alpha = 0, so that no solver meets a ball of radius zero."""
        if self.alpha == 0 or not self.network.n_edges:
            return ()
        edges = CoupledEdges.of(self.network, dims)
        if self.alpha == np.inf:
            return self.penalty.at_infinity().edge_terms(edges, self.network.weights)
        return self.penalty.edge_terms(edges, self.alpha * self.network.weights)


def coupling_strength(alpha: float, name: str) -> float:
    """``alpha`` as a float >= 0, infinity allowed."""
    if isinstance(alpha, (float, np.floating)) and alpha == np.inf:
        return float("inf")
    return nonnegative_number(alpha, name)


def on_nodes(network: FLNetwork, nodes: FLNetwork) -> FLNetwork:
    """The edges of one network on the nodes of another, in the order of these.

    Raises
    ------
    ValueError
        If it has a node that the other lacks.
    """
    known = set(nodes.nodes)
    unknown = next((node for node in network.nodes if node not in known), None)
    if unknown is not None:
        raise ValueError(f"the coupling's network has the node {unknown!r}, which is not a node of the problem")
    return FLNetwork.from_edges(
        network.edges, weights=network.weights, nodes=nodes.nodes, coordinates=nodes.coordinates
    )
