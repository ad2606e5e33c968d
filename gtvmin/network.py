"""The network of devices: an undirected weighted graph with oriented edges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.edges import EdgeList, FloatArray, IntArray
from gtvmin.graph_input import read_edges, read_graph, read_matrix
from gtvmin.neighbours import EARTH_RADIUS_KM, read_neighbours
from gtvmin.points import column_names, latitude_longitude, read_coordinates, read_names
from gtvmin.spectra import second_smallest_eigenvalue
from gtvmin.validation import frozen

__all__ = ["FLNetwork"]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class FLNetwork:
    r"""Undirected graph of devices with edge weights :math:`A_e > 0` and an orientation of every edge.

    Nodes keep the order of the input and have positions :math:`0, \dots, n-1` in it. Edge :math:`e` is stored once, as
    positions ``tail[e] < head[e]``, and :math:`(D w)_e = w_{\text{head}} - w_{\text{tail}}`. A network cannot be
    changed; its arrays are read-only copies.

    Parameters
    ----------
    graph : networkx.Graph, array_like, pandas.DataFrame or sparse matrix
        A simple undirected graph, or a symmetric adjacency matrix (n, n) whose entries are weights. An entry 0, stored
        or not, is no edge. Edges keep the order of the graph; those of a matrix follow its upper triangle row by row.
    weight : str or None, default "weight"
        Edge attribute of a networkx graph that holds the weights. If no edge has the default attribute, all weights
        are 1; with None they are 1 whatever the attributes.
    nodes : iterable of hashable, optional
        For a networkx graph, all of its nodes in the order to use. For a matrix, the labels of its rows; by default a
        DataFrame's index, else 0, ..., n-1.
    coordinates : array_like (n, k), DataFrame or mapping from label to point, optional
        Positions for drawing; rows in the order of the nodes, a mapping or DataFrame by label.
    coordinate_names : sequence of str, optional
        What the coordinates are, such as ``("latitude", "longitude")``, which are then drawn as a map. By default the
        columns of a DataFrame.

    Attributes
    ----------
    nodes : tuple of hashable
        Labels in the network's order; numpy scalars have become Python ones.
    tail, head : ndarray of int64, (m,)
        Positions of the two ends of each edge, ``tail < head``.
    weights : ndarray of float64, (m,)
        Weights :math:`A_e`.
    coordinates : ndarray of float64, (n, k), or None
        Positions for drawing.
    coordinate_names : tuple of str, or None
        Their names, where they are known.

    Raises
    ------
    ValueError
        For an empty or directed graph, a multigraph, self-loops, an asymmetric or non-square matrix, a weight that is
        NaN, infinite, zero or negative, an attribute that only some edges have, labels that repeat or do not fit.
    TypeError
        For weights that are no real numbers (booleans, text, complex) and labels that are not hashable.

    Notes
    -----
    Two networks are equal if nodes, edges, weights and coordinates are, each in the same order.
    :math:`D` is, up to the signs of rows, the transpose of ``networkx.incidence_matrix(graph, oriented=True)``.

    References
    ----------
    A. Jung, "Federated Learning: From Theory to Practice", chapter 3, https://arxiv.org/abs/2505.19183.

    Examples
    --------
    >>> import networkx as nx
    >>> from gtvmin.network import FLNetwork
    >>> graph = nx.Graph()
    >>> graph.add_weighted_edges_from([("Oulu", "Turku", 2.0), ("Turku", "Vaasa", 0.5)])
    >>> network = FLNetwork(graph)
    >>> network
    FLNetwork(n_nodes=3, n_edges=2)
    >>> network.edges
    (('Oulu', 'Turku'), ('Turku', 'Vaasa'))
    >>> network.laplacian().toarray()
    array([[ 2. , -2. ,  0. ],
           [-2. ,  2.5, -0.5],
           [ 0. , -0.5,  0.5]])
    >>> FLNetwork([[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]], nodes=["Oulu", "Turku", "Vaasa"]) == network
    True
    """

    nodes: tuple[Hashable, ...]
    tail: IntArray
    head: IntArray
    weights: FloatArray
    coordinates: FloatArray | None
    coordinate_names: tuple[str, ...] | None
    _index: dict[Hashable, int] = field(repr=False)

    def __init__(
        self,
        graph: Any,
        weight: str | None = "weight",
        nodes: Iterable[Hashable] | None = None,
        coordinates: Any = None,
        coordinate_names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(graph, nx.Graph):
            edges = read_graph(graph, weight, nodes)
        elif weight != "weight":
            raise TypeError(f"weight={weight!r} names an attribute of a networkx graph; a matrix holds its weights")
        else:
            edges = read_matrix(graph, nodes)
        self._fill(edges, coordinates, coordinate_names)

    def _fill(self, edges: EdgeList, coordinates: Any, names: Sequence[str] | None) -> None:
        places = None if coordinates is None else read_coordinates(coordinates, edges.nodes)
        values = (
            edges.nodes,
            frozen(edges.tail),
            frozen(edges.head),
            frozen(edges.weights),
            None if places is None else frozen(places),
            None if places is None else read_names(names, coordinates, places.shape[1]),
            {label: position for position, label in enumerate(edges.nodes)},
        )
        for name, value in zip(FLNetwork.__slots__, values, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def _make(cls, edges: EdgeList, coordinates: Any = None, names: Sequence[str] | None = None) -> Self:
        network = cls.__new__(cls)
        network._fill(edges, coordinates, names)
        return network

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        weights: Any = None,
        nodes: Iterable[Hashable] | None = None,
        coordinates: Any = None,
        coordinate_names: Sequence[str] | None = None,
    ) -> Self:
        """Network from a list of edges.

        Parameters
        ----------
        edges : array_like (m, 2) or (m, 3), iterable of tuples, or pandas.DataFrame
            Pairs of labels, or triples with the weight last. A DataFrame has two columns of labels and at most one of
            weights: the one named ``weight``, or else the third. Whole numbers in float columns become int labels.
        weights : array_like (m,), optional
            Weights, if `edges` has none; 1 by default.
        nodes : iterable of hashable, optional
            Labels in the order to use; it may add nodes without edges. By default, the order of first appearance.
        coordinates : array_like (n, k), DataFrame or mapping from label to point, optional
            Positions of the nodes, for drawing.
        coordinate_names : sequence of str, optional
            As for the class.

        Returns
        -------
        FLNetwork
            Its edges are in the order of `edges`.

        Raises
        ------
        ValueError, TypeError
            As for the class, and for an edge that is listed twice in either direction (add up its weights), rows of
            other or unequal lengths, further columns, and an end that `nodes` lacks.

        Examples
        --------
        >>> from gtvmin.network import FLNetwork
        >>> FLNetwork.from_edges([("b", "a", 2), ("a", "c", 1)]).edges
        (('b', 'a'), ('a', 'c'))
        >>> FLNetwork.from_edges([("b", "a")], nodes="a b c".split()).components()
        [('a', 'b'), ('c',)]
        """
        return cls._make(read_edges(edges, weights, nodes), coordinates, coordinate_names)

    @classmethod
    def knn(
        cls,
        points: Any,
        k: int,
        metric: str = "euclidean",
        weights: str | Callable[[FloatArray], Any] | None = None,
        nodes: Iterable[Hashable] | None = None,
        radius: float = EARTH_RADIUS_KM,
    ) -> Self:
        r"""Union k-nearest-neighbour graph: two points are joined if either is among the k nearest of the other.

        Neighbours are in stable order: by distance, and of equally distant points the one with the lower row index
        comes first. A point is never its own neighbour; coincident points are neighbours at distance 0 and keep
        their edge.

        Parameters
        ----------
        points : array_like (n, d) or pandas.DataFrame
            One row a device; a DataFrame's index gives the labels. They become the network's `coordinates`.
        k : int
            Number of neighbours, ``1 <= k < n``.
        metric : {"euclidean", "haversine"}
            With "haversine" the points are (latitude, longitude) in degrees and distances run along great circles; the
            network knows them by these names.
        weights : None, "gaussian" or callable
            None for 1. "gaussian" for :math:`\exp(-d^2 / (2 s^2))`, where :math:`s` is the median of the positive
            distances along the graph's edges. A callable gets the distances (m,) of the edges and returns weights (m,).
        nodes : iterable of hashable, optional
            Labels of the rows.
        radius : float
            Radius of the sphere for "haversine", in the unit that distances shall have; by default the Earth's in km.

        Returns
        -------
        FLNetwork
            Its edges are sorted by (tail, head).

        Raises
        ------
        ValueError, TypeError
            For NaN or infinity in `points` (by row and column), `k` out of range, latitudes outside [-90, 90], and
            weights that are not finite and positive, among them those that underflow to 0.

        Notes
        -----
        k-d tree search: memory grows with n k, time with n log n in few dimensions.

        Examples
        --------
        >>> from gtvmin.network import FLNetwork
        >>> network = FLNetwork.knn([[0.0], [1.0], [1.0], [5.0]], k=1, weights=lambda d: 1 / (1 + d))
        >>> network.edges
        ((0, 1), (1, 2), (1, 3))
        >>> network.weights
        array([0.5, 1. , 0.2])
        """
        names = ("latitude", "longitude") if metric == "haversine" else column_names(points)
        return cls._make(*read_neighbours(points, k, metric, weights, nodes, radius), names)

    @property
    def n_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.nodes)

    @property
    def n_edges(self) -> int:
        """Number of edges m."""
        return len(self.tail)

    @property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Labels (tail, head) of each edge."""
        nodes = self.nodes
        return tuple((nodes[i], nodes[j]) for i, j in zip(self.tail.tolist(), self.head.tolist(), strict=True))

    def index(self, label: Hashable) -> int:
        """Position of a node in `nodes`; a label that the network lacks is a ValueError."""
        try:
            return self._index[label]
        except KeyError:
            some = ", ".join(map(repr, self.nodes[:5])) + (", ..." if self.n_nodes > 5 else "")
            raise ValueError(f"node {label!r} is not in the network, whose nodes are {some}") from None

    @property
    def degrees(self) -> FloatArray:
        """Sum of the weights of each node's edges, shape (n,)."""
        ends, weights = np.r_[self.tail, self.head], np.tile(self.weights, 2)
        return np.asarray(np.bincount(ends, weights, minlength=self.n_nodes), dtype=np.float64)

    @property
    def neighbour_counts(self) -> IntArray:
        """Number of neighbours of each node, shape (n,)."""
        return np.bincount(np.r_[self.tail, self.head], minlength=self.n_nodes)

    def incidence(self) -> sparse.csr_array:
        """Matrix D of shape (m, n): in row e, +1 at the edge's head and -1 at its tail."""
        m = self.n_edges
        columns = np.column_stack([self.tail, self.head]).ravel()
        signs = np.tile([-1.0, 1.0], m)
        return sparse.csr_array((signs, columns, np.arange(0, 2 * m + 1, 2)), shape=(m, self.n_nodes))

    def laplacian(self) -> sparse.csr_array:
        """Laplacian ``D.T @ diag(weights) @ D``, shape (n, n)."""
        rows, columns = np.r_[self.tail, self.head], np.r_[self.head, self.tail]
        adjacency = sparse.csr_array((np.tile(self.weights, 2), (rows, columns)), shape=(self.n_nodes,) * 2)
        laplacian: sparse.csr_array = (sparse.diags_array(self.degrees) - adjacency).tocsr()
        return laplacian

    @property
    def algebraic_connectivity(self) -> float:
        """Second smallest eigenvalue of the Laplacian.

        0 if and only if the network is disconnected, up to rounding in the last digits of the largest eigenvalue;
        infinite for a single node, as the minimum of ``w.T @ L @ w`` over an empty set. Large networks take a sparse
        factorisation of the Laplacian, which is cheap for neighbourhood graphs but not for large random ones.
        """
        if self.n_nodes == 1:
            return float("inf")
        if self.component_ids.max() > 0:
            return 0.0
        return second_smallest_eigenvalue(self.laplacian())

    @property
    def component_ids(self) -> IntArray:
        """Number of the connected component of each node, shape (n,), counted in order of their first nodes."""
        # The graph of ones has the same components, and no weight so small that it might count as no edge.
        ones = np.ones(self.n_edges, dtype=np.int8)
        graph = sparse.csr_array((ones, (self.tail, self.head)), shape=(self.n_nodes,) * 2)
        _, ids = connected_components(graph, directed=False)
        return np.asarray(ids, dtype=np.int64)

    def components(self) -> list[tuple[Hashable, ...]]:
        """Labels of each connected component, in node order; components in order of their first nodes."""
        members: dict[int, list[Hashable]] = {}
        for label, component in zip(self.nodes, self.component_ids.tolist(), strict=True):
            members.setdefault(component, []).append(label)
        return [tuple(labels) for labels in members.values()]

    def _mask(self, labels: Iterable[Hashable]) -> Any:
        inside = np.zeros(self.n_nodes, dtype=bool)
        inside[[self.index(label) for label in labels]] = True
        return inside

    def subgraph(self, labels: Iterable[Hashable]) -> FLNetwork:
        """Network of the given nodes and the edges among them, both in this network's order."""
        inside = self._mask(labels)
        if not inside.any():
            raise ValueError("labels is empty: a network needs at least one node")
        kept = inside[self.tail] & inside[self.head]
        position = np.cumsum(inside) - 1
        nodes = tuple(self.nodes[i] for i in np.flatnonzero(inside))
        edges = EdgeList(nodes, position[self.tail[kept]], position[self.head[kept]], self.weights[kept])
        places = None if self.coordinates is None else self.coordinates[inside]
        return self._make(edges, places, self.coordinate_names)

    def cut_weight(self, labels: Iterable[Hashable]) -> float:
        """Total weight of the edges with exactly one end among the given nodes."""
        inside = self._mask(labels)
        return float(self.weights[inside[self.tail] != inside[self.head]].sum())

    def to_networkx(self) -> nx.Graph:
        """Networkx graph with nodes in this order, edge attribute ``weight`` and, if known, node attribute ``pos``.

        Positions are those of networkx, x before y: longitude before latitude, if the coordinates have these names.
        """
        graph = nx.Graph()
        graph.add_nodes_from(self.nodes)
        graph.add_weighted_edges_from((u, v, w) for (u, v), w in zip(self.edges, self.weights.tolist(), strict=True))
        if self.coordinates is not None:
            order = latitude_longitude(self.coordinate_names or ())
            where = self.coordinates if order is None else self.coordinates[:, [order[1], order[0]]]
            places = map(tuple, where.tolist())
            nx.set_node_attributes(graph, dict(zip(self.nodes, places, strict=True)), "pos")
        return graph

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_nodes={self.n_nodes}, n_edges={self.n_edges})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FLNetwork):
            return NotImplemented
        mine, theirs = self.coordinates, other.coordinates
        return (
            self.nodes == other.nodes
            and np.array_equal(self.tail, other.tail)
            and np.array_equal(self.head, other.head)
            and np.array_equal(self.weights, other.weights)
            and (mine is theirs if mine is None or theirs is None else np.array_equal(mine, theirs))
        )

    def __hash__(self) -> int:
        return hash((self.nodes, self.tail.tobytes(), self.head.tobytes(), self.weights.tobytes()))

    def __reduce__(self) -> tuple[Any, ...]:
        # A pickled array comes back writable, so a copy is made as the original was.
        edges = EdgeList(self.nodes, self.tail, self.head, self.weights)
        return self._make, (edges, self.coordinates, self.coordinate_names)
