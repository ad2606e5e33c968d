"""Readers of networkx graphs, adjacency matrices and lists of edges."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gtvmin.edges import (
    EdgeList,
    IntArray,
    is_data_frame,
    is_hashable,
    is_missing,
    locate_ends,
    node_labels,
    orient,
    pair,
    positive_weights,
    raise_self_loop,
    real_numbers,
)

__all__ = ["read_edges", "read_graph", "read_matrix"]

_ABSENT = object()


def read_graph(graph: nx.Graph, weight: str | None, nodes: Iterable[Any] | None) -> EdgeList:
    """Nodes and edges of an undirected simple networkx graph, in its order."""
    if graph.is_directed():
        raise ValueError("the graph is directed, a network is not: pass graph.to_undirected()")
    if graph.is_multigraph():
        raise ValueError(
            "the graph is a multigraph: sum the weights of parallel edges into a simple graph first, by simple = "
            "networkx.Graph(); simple.add_nodes_from(graph); for u, v, w in graph.edges(data='weight', default=1): "
            "simple.add_edge(u, v, weight=w + (simple[u][v]['weight'] if simple.has_edge(u, v) else 0))"
        )
    if weight is not None and not isinstance(weight, str):
        raise TypeError(f"weight must be the name of an edge attribute or None, got {weight!r}")
    labels = node_labels(graph if nodes is None else nodes)
    strange = next((label for label in labels if label not in graph), None)
    if strange is not None:
        raise ValueError(f"nodes: {strange!r} is not in the graph: add it there or leave it out")
    if len(labels) < len(graph):
        absent = next(label for label in graph if label not in set(labels))
        raise ValueError(f"nodes lacks {absent!r}: list all nodes of the graph, or pass graph.subgraph(nodes)")
    first, second = locate_ends([end for edge in graph.edges for end in edge], labels)
    return orient(labels, first, second, _edge_attributes(graph, weight))


def _edge_attributes(graph: nx.Graph, weight: str | None) -> Any:
    if weight is None:
        return np.ones(graph.number_of_edges())
    values = [value for _, _, value in graph.edges(data=weight, default=_ABSENT)]
    without = [k for k, value in enumerate(values) if value is _ABSENT]
    if not without:
        return values
    if len(without) < len(values):
        u, v = list(graph.edges)[without[0]]
        raise ValueError(
            f"edge ({u!r}, {v!r}) has no attribute {weight!r}, but other edges have it: set it on every edge, or "
            "pass weight=None for weights 1"
        )
    if weight != "weight":
        raise ValueError(f"no edge has the attribute weight={weight!r}: name one that edges have, or pass None")
    return np.ones(len(values))


def read_matrix(matrix: Any, nodes: Iterable[Any] | None) -> EdgeList:
    """Edges of a symmetric adjacency matrix, dense or sparse, in row-major order of its upper triangle."""
    if is_data_frame(matrix):
        if list(matrix.index) != list(matrix.columns):
            raise ValueError("index and columns of an adjacency DataFrame must be the same labels in the same order")
        nodes = matrix.index if nodes is None else nodes
        matrix = matrix.to_numpy()
    if not sparse.issparse(matrix):
        matrix = _dense(matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(
            f"an adjacency matrix must be square, got shape {matrix.shape}; edges go to FLNetwork.from_edges"
        )
    n = matrix.shape[0]
    labels = node_labels(range(n) if nodes is None else nodes)
    if len(labels) != n:
        raise ValueError(f"nodes has {len(labels)} labels for the {n} rows of the adjacency matrix")

    if matrix.dtype == object:
        matrix = real_numbers(matrix.ravel(), lambda k: f"entry {pair(labels, k // n, k % n)}").reshape(n, n)
    if matrix.dtype.kind not in "iuf":
        raise TypeError(
            f"an adjacency matrix must hold real weights, got dtype {matrix.dtype}: "
            "pass matrix.astype(float) if True or 1+0j means weight 1"
        )
    adjacency = sparse.csr_array(matrix, dtype=np.float64, copy=True)
    adjacency.sum_duplicates()
    adjacency.eliminate_zeros()
    entries = adjacency.tocoo()
    rows, columns = (index.astype(np.int64) for index in (entries.row, entries.col))
    diagonal = np.flatnonzero(rows == columns)
    if diagonal.size:
        raise_self_loop(labels[rows[diagonal[0]]])
    weights = positive_weights(entries.data, lambda k: f"edge {pair(labels, rows[k], columns[k])}")
    _check_symmetric(adjacency, labels)
    upper = rows < columns
    return EdgeList(labels, rows[upper], columns[upper], weights[upper])


def _dense(matrix: Any) -> NDArray[Any]:
    if isinstance(matrix, np.ma.MaskedArray):
        raise TypeError("a masked adjacency matrix is ambiguous: pass matrix.filled(0)")
    try:
        array = np.asarray(matrix)
    except ValueError:
        raise ValueError("the rows of the adjacency matrix differ in length, it must be square") from None
    if array.ndim == 0:
        raise TypeError(f"expected a networkx graph or an adjacency matrix, got {type(matrix).__name__}")
    return array


def _check_symmetric(adjacency: Any, labels: Sequence[Hashable]) -> None:
    difference = (adjacency - adjacency.T).tocoo()
    wrong = np.flatnonzero(difference.data)
    if wrong.size:
        i, j = int(difference.row[wrong[0]]), int(difference.col[wrong[0]])
        raise ValueError(
            f"the adjacency matrix is not symmetric: entry {pair(labels, i, j)} is {adjacency[i, j]:.17g}, entry "
            f"{pair(labels, j, i)} is {adjacency[j, i]:.17g}: pass (A + A.T) / 2 if their mean is meant"
        )


def read_edges(edges: Any, weights: Any, nodes: Iterable[Any] | None) -> EdgeList:
    """Edges of a list of pairs or triples, an (m, 2) or (m, 3) array or a DataFrame, in its order."""
    ends: Any
    if is_data_frame(edges):
        ends, listed = _columns_of_frame(edges)
    elif _is_integer_pairs(edges):
        ends, listed = edges.ravel(), None
    elif isinstance(edges, np.ndarray):
        ends, listed = _columns_of_array(edges)
    else:
        ends, listed = _columns_of_rows(edges)
    if weights is not None:
        if listed is not None:
            raise ValueError("weights are given twice, beside the edges and by weights=: give them once")
        if isinstance(weights, Mapping) or not hasattr(weights, "__len__"):
            raise TypeError(f"weights must be a list or an array, one entry an edge, got {type(weights).__name__}")
        if len(weights) != len(ends) // 2:
            raise ValueError(f"weights has {len(weights)} entries for {len(ends) // 2} edges")
        listed = weights

    labels, first, second = (_locate_integers if isinstance(ends, np.ndarray) else _locate_labels)(ends, nodes)
    result = orient(labels, first, second, np.ones(len(first)) if listed is None else listed)
    _check_distinct(result)
    return result


def _is_integer_pairs(edges: Any) -> bool:
    shaped = type(edges) is np.ndarray and edges.ndim == 2 and edges.shape[1] == 2  # a masked array lacks entries
    return shaped and edges.dtype.kind in "iu" and len(edges) > 0


def _locate_integers(
    ends: NDArray[Any], nodes: Iterable[Any] | None
) -> tuple[tuple[Hashable, ...], IntArray, IntArray]:
    """As :func:`_locate_labels`, without a look-up an edge: millions of edges take seconds."""
    distinct, appearance, place = np.unique(ends, return_index=True, return_inverse=True)
    labels = node_labels(distinct[np.argsort(appearance)].tolist() if nodes is None else nodes)
    index = {label: position for position, label in enumerate(labels)}
    known = np.array([index.get(label, -1) for label in distinct.tolist()], dtype=np.int64)
    if (known < 0).any():
        return (labels, *locate_ends(ends.tolist(), labels))  # names the edge
    positions = known[place]
    return labels, positions[0::2], positions[1::2]


def _locate_labels(ends: list[Any], nodes: Iterable[Any] | None) -> tuple[tuple[Hashable, ...], IntArray, IntArray]:
    """Labels of all nodes, in order of appearance unless they are given, and positions of both ends of every edge."""
    try:
        distinct = dict.fromkeys(ends)
    except TypeError:
        label = next(end for end in ends if not is_hashable(end))
        raise TypeError(f"edges: node label {label!r} is not hashable: use a text, a number or a tuple") from None
    if any(is_missing(label) for label in distinct):
        row = next(k for k, end in enumerate(ends) if is_missing(end)) // 2
        raise ValueError(f"edges: row {row} lacks a node label, it has {tuple(ends[2 * row : 2 * row + 2])}")
    labels = node_labels(distinct if nodes is None else nodes)
    return (labels, *locate_ends(ends, labels))


def _columns_of_frame(frame: Any) -> tuple[list[Any], Any]:
    names = list(frame.columns)
    weight = next((k for k, name in enumerate(names) if isinstance(name, str) and name == "weight"), 2)
    others = [k for k in range(len(names)) if k != weight]
    if len(others) < 2:
        raise ValueError(f"edges needs two columns of node labels besides the weight, it has {names}")
    if len(others) > 2:
        raise ValueError(
            f"edges has more columns than two ends and a weight, {[names[k] for k in others[2:]]}: drop them"
        )
    ends = _interleave(*(frame.iloc[:, k].to_numpy() for k in others))
    return ends, frame.iloc[:, weight].to_numpy() if len(names) == 3 else None


def _columns_of_array(array: NDArray[Any]) -> tuple[list[Any], Any]:
    if array.ndim == 1 and array.size == 0:  # numpy's array of an empty list
        return [], None
    if array.ndim != 2 or array.shape[1] not in (2, 3):
        raise ValueError(f"edges must have shape (m, 2), or (m, 3) with the weight last, got {array.shape}")
    return _interleave(array[:, 0], array[:, 1]), array[:, 2] if array.shape[1] == 3 else None


def _interleave(first: NDArray[Any], second: NDArray[Any]) -> list[Any]:
    return [end for both in zip(_labels(first), _labels(second), strict=True) for end in both]


def _labels(column: NDArray[Any]) -> list[Any]:
    """Labels of one column; integers that a weight column beside them turned into floats become integers again."""
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column == np.rint(column)).all():
        return [int(label) for label in column.tolist()]
    return list(column) if column.dtype.kind in "mM" else column.tolist()


def _columns_of_rows(edges: Any) -> tuple[list[Any], Any]:
    if isinstance(edges, (nx.Graph, Mapping)):
        raise TypeError(
            f"edges must be a list of pairs or triples, got {type(edges).__name__}: pass a graph to FLNetwork(graph), "
            "a dict of weights as [(u, v, w) for (u, v), w in edges.items()]"
        )
    rows = list(edges)
    for k, row in enumerate(rows):
        if not isinstance(row, (tuple, list, np.ndarray)) or len(row) not in (2, 3):
            raise ValueError(f"edges: row {k} is {row!r}, expected (node, node) or (node, node, weight)")
        if len(row) != len(rows[0]):
            raise ValueError(f"edges: row {k} is {row!r}, row 0 is {rows[0]!r}: give every row a weight, or none")
    ends = [end for row in rows for end in row[:2]]
    return ends, [row[2] for row in rows] if rows and len(rows[0]) == 3 else None


def _check_distinct(edges: EdgeList) -> None:
    keys = edges.tail * len(edges.nodes) + edges.head
    order = np.argsort(keys, kind="stable")
    repeated = np.flatnonzero(np.diff(keys[order]) == 0)
    if repeated.size:
        i, j = sorted(order[repeated[0] : repeated[0] + 2].tolist())
        raise ValueError(
            f"edge {pair(edges.nodes, edges.tail[i], edges.head[i])} is listed twice, in rows {i} and {j}: list it "
            "once, with the sum of the weights"
        )
