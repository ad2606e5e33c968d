"""What becomes a network and what is refused: matrices, graphs, edge lists, weights, labels."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gtvmin.network import FLNetwork
from network_graphs import CITIES, weighted_graph


# Cases from public trackers
def test_c10_unsigned_indices_of_a_dense_random_graph() -> None:
    """C10, 1a7r0ch3/parallel-cut-pursuit issue #1."""
    upper = np.triu(np.random.default_rng(0).random((100, 100)) >= 0.5, 1)
    first, second = (index.astype(np.uint32) for index in upper.nonzero())
    graph = nx.Graph()
    graph.add_nodes_from(range(100))
    graph.add_edges_from(zip(first, second, strict=True))
    network = FLNetwork(graph)
    assert network.n_edges == upper.sum()
    assert network == FLNetwork.from_edges(np.column_stack([first, second]), nodes=range(100))
    assert network == FLNetwork((upper | upper.T).astype(np.uint8))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_c15_weight_that_is_not_finite(bad: float) -> None:
    """C15, cvxpy issue #1770: networkx calls such a graph connected."""
    graph = nx.Graph()
    graph.add_edge(0, 1, weight=1.0)
    graph.add_edge("a", "b", weight=bad)
    message = rf"edge \('a', 'b'\) has weight {bad}"
    with pytest.raises(ValueError, match=message):
        FLNetwork(graph)
    with pytest.raises(ValueError, match=message):
        FLNetwork.from_edges([(0, 1), ("a", "b")], [1.0, bad])
    matrix = np.zeros((3, 3))
    matrix[1, 2] = matrix[2, 1] = bad
    for form in (matrix, sparse.csr_array(matrix)):
        with pytest.raises(ValueError, match=rf"edge \('y', 'z'\) has weight {bad}"):
            FLNetwork(form, nodes=["x", "y", "z"])


def test_c24_parallel_edges_are_no_silent_loss() -> None:
    """C24, networkx issue #598: nx.Graph(multigraph) keeps the last weight only."""
    multigraph = nx.MultiGraph()
    multigraph.add_edge(0, 1, weight=1.0)
    multigraph.add_edge(0, 1, weight=3.0)
    multigraph.add_edge(1, 2)
    with pytest.raises(ValueError, match="sum the weights of parallel edges") as raised:
        FLNetwork(multigraph)
    recipe = re.search(r"simple = .*", str(raised.value))
    assert recipe is not None
    variables: dict[str, Any] = {"networkx": nx, "graph": multigraph}
    for statement in recipe.group().replace("; for", "\nfor").split("\n"):
        exec(statement, variables)
    network = FLNetwork(variables["simple"])
    assert network.edges == ((0, 1), (1, 2))
    assert network.weights.tolist() == [4.0, 1.0]

    for second in [(0, 1), (1, 0)]:
        with pytest.raises(ValueError, match=r"edge \(0, 1\) is listed twice, in rows 0 and 2: .* sum of the weights"):
            FLNetwork.from_edges([(0, 1), (1, 2), second], [1.0, 1.0, 3.0])


def test_c26_zero_entries_are_no_edges_by_either_route() -> None:
    """C26, networkx issues #4876 and #5904: dense zeros vanish, stored sparse zeros become edges."""
    dense = np.array([[0, 0.0, 2], [0, 0, -0.0], [2, 0.0, 0]])
    rows, columns = np.nonzero(~np.eye(3, dtype=bool))
    stored = sparse.coo_array((dense[rows, columns], (rows, columns)), shape=(3, 3))
    assert stored.nnz == 6
    for form in (dense, stored, stored.tocsr(), sparse.csr_matrix(stored)):
        network = FLNetwork(form)
        assert network.edges == ((0, 2),)
        assert network.components() == [(0, 2), (1,)]


def test_c26_an_edge_of_weight_zero_is_an_error() -> None:
    graph = weighted_graph()
    graph.add_edge("Inari", "Oulu", weight=0)
    with pytest.raises(ValueError, match=r"edge \('Oulu', 'Inari'\) has weight 0.*leave the edge out"):
        FLNetwork(graph)
    with pytest.raises(ValueError, match=r"edge \('a', 'b'\) has weight 0.*leave the edge out"):
        FLNetwork.from_edges([("a", "b", 0.0)])


def test_c27_weights_are_one_if_no_edge_has_the_default_attribute() -> None:
    assert FLNetwork(nx.path_graph(3)).weights.tolist() == [1.0, 1.0]


def test_c27_partly_missing_weights() -> None:
    """C27, networkit issue #1493, igraph issue #410, networkx issue #6248."""
    graph = nx.Graph()
    graph.add_edge(1, 2, weight=0.25)
    graph.add_edge(0, 1)
    with pytest.raises(ValueError, match=r"edge \(1, 0\) has no attribute 'weight'"):
        FLNetwork(graph)
    assert FLNetwork(graph, weight=None).weights.tolist() == [1.0, 1.0]


def test_c27_attribute_that_no_edge_has() -> None:
    with pytest.raises(ValueError, match="no edge has the attribute weight='wieght'"):
        FLNetwork(weighted_graph(), weight="wieght")
    with pytest.raises(TypeError, match="name of an edge attribute"):
        FLNetwork(weighted_graph(), weight=3)  # type: ignore[arg-type]


def test_c27_another_attribute() -> None:
    graph = nx.Graph()
    graph.add_edge(0, 1, km=5, weight=1)
    assert FLNetwork(graph, weight="km").weights.tolist() == [5.0]


@pytest.mark.parametrize("bad", ["1.0", None, True, np.True_, 1 + 0j, [1.0], np.array([1.0])])
def test_c27_weight_that_is_no_real_number(bad: Any) -> None:
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=1.0)
    graph.add_edge("b", "c", weight=bad)
    with pytest.raises(TypeError, match=r"edge \('b', 'c'\) has weight .* of type"):
        FLNetwork(graph)
    with pytest.raises(TypeError, match=r"edge \('b', 'c'\) has weight .* of type"):
        FLNetwork.from_edges([("a", "b", 1.0), ("b", "c", bad)])


@pytest.mark.parametrize("bad", [np.array([True]), np.array([1 + 0j]), np.array(["1"]), np.array([None])])
def test_c27_array_of_weights_that_are_no_real_numbers(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"edge \('a', 'b'\) has weight .* of type"):
        FLNetwork.from_edges([("a", "b")], bad)


def test_c29_negative_weights() -> None:
    """C29, scipy issue #22685: signed weights make the problem non-convex."""
    graph = nx.Graph()
    graph.add_edge("a", "b", weight=-0.6)
    with pytest.raises(ValueError, match=r"edge \('a', 'b'\) has weight -0.6.*negative"):
        FLNetwork(graph)
    for form in ([[0, -0.6], [-0.6, 0]], sparse.csr_array([[0, -0.6], [-0.6, 0]])):
        with pytest.raises(ValueError, match=r"edge \(0, 1\) has weight -0.6.*negative"):
            FLNetwork(form)


def test_c30_one_node_and_no_edges() -> None:
    """C30, networkx issues #6571 and #6626, xgi issue #61."""
    graph = nx.Graph()
    graph.add_node("only")
    for network in (FLNetwork(graph), FLNetwork([[0]], nodes=["only"]), FLNetwork.from_edges([], nodes=["only"])):
        assert (network.n_nodes, network.n_edges, network.edges) == (1, 0, ())
        assert network.incidence().shape == (0, 1)
        assert network.laplacian().toarray().tolist() == [[0.0]]
        assert network.degrees.tolist() == [0.0]
        assert network.neighbour_counts.tolist() == [0]
        assert network.components() == [("only",)]
        assert network.algebraic_connectivity == np.inf
        assert network.cut_weight(["only"]) == 0.0
        assert network.subgraph(["only"]) == network
    edgeless = FLNetwork(nx.empty_graph(4))
    assert edgeless.components() == [(0,), (1,), (2,), (3,)]
    assert edgeless.algebraic_connectivity == 0.0
    assert edgeless.incidence().shape == (0, 4)
    assert edgeless.laplacian().shape == (4, 4)


@pytest.mark.parametrize("nothing", [nx.Graph(), np.zeros((0, 0)), sparse.csr_array((0, 0)), pd.DataFrame()])
def test_c30_empty_graph(nothing: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        FLNetwork(nothing)


@pytest.mark.parametrize("nothing", [[], np.empty((0, 2)), np.array([]), pd.DataFrame({"u": [], "v": []})])
def test_c30_empty_list_of_edges(nothing: Any) -> None:
    with pytest.raises(ValueError, match="empty"):
        FLNetwork.from_edges(nothing)
    assert FLNetwork.from_edges(nothing, nodes=["a", "b"]).n_edges == 0


def test_c34_disconnected_neighbour_graph(shared_data: Path) -> None:
    """C34, djwtouw/CCMM-paper, arXiv 2211.01877: four components, which no penalty can merge."""
    table = pd.read_csv(shared_data / "ccmm_connectedness_knn3_weights.csv")
    points = pd.read_csv(shared_data / "ccmm_connectedness_points.csv")[["x1", "x2"]].to_numpy()
    network = FLNetwork.from_edges(table, nodes=range(75), coordinates=points)
    assert (network.n_nodes, network.n_edges) == (75, 150)
    components = network.components()
    assert sorted(len(c) for c in components) == [5, 15, 26, 29]
    means = {len(c): points[list(c)].mean(axis=0) for c in components}
    np.testing.assert_allclose(means[26], [1.875995, 0.013503], atol=1e-6)
    np.testing.assert_allclose(means[29], [0.837407, 0.874718], atol=1e-6)
    np.testing.assert_allclose(means[15], [-0.157417, 0.149076], atol=1e-6)
    np.testing.assert_allclose(means[5], [0.430156, -0.21949], atol=1e-6)
    assert network.algebraic_connectivity == 0.0


# Errors of graphs and matrices
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_directed_graphs_are_rejected(kind: type[nx.DiGraph]) -> None:
    with pytest.raises(ValueError, match=re.escape("graph.to_undirected()")):
        FLNetwork(kind([(0, 1)]))


def test_self_loops_are_rejected() -> None:
    graph = weighted_graph()
    graph.add_edge("Vaasa", "Vaasa", weight=1.0)
    for build in (
        lambda: FLNetwork(graph),
        lambda: FLNetwork.from_edges([("Oulu", "Turku"), ("Vaasa", "Vaasa")]),
        lambda: FLNetwork([[0, 1], [1, 2]], nodes=["Oulu", "Vaasa"]),
        lambda: FLNetwork(sparse.csr_array([[0, 1], [1, 2]]), nodes=["Oulu", "Vaasa"]),
    ):
        with pytest.raises(ValueError, match="node 'Vaasa' has an edge to itself"):
            build()


@pytest.mark.parametrize("below", [0.0, 1.0, 2.0000000000000004])
def test_asymmetric_matrices_are_rejected(below: float) -> None:
    matrix = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, below, 0.0]])
    for form in (matrix, sparse.csr_array(matrix)):
        with pytest.raises(ValueError, match=rf"entry \('b', 'c'\) is 2, entry \('c', 'b'\) is {below:.17g}"):
            FLNetwork(form, nodes=list("abc"))
    assert FLNetwork((matrix + matrix.T) / 2).n_edges == 2


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.ones((2, 3)), ValueError, r"square, got shape \(2, 3\).*from_edges"),
        (np.zeros(4), ValueError, r"square, got shape \(4,\)"),
        (sparse.csr_array((3, 2)), ValueError, r"square, got shape \(3, 2\)"),
        ([[0, 1], [1]], ValueError, "differ in length"),
        (np.array([[False, True], [True, False]]), TypeError, "dtype bool"),
        (sparse.csr_array([[False, True], [True, False]]), TypeError, "dtype bool"),
        (np.array([[0, 1j], [1j, 0]]), TypeError, "dtype complex128"),
        ([["0", "1"], ["1", "0"]], TypeError, "dtype <U1"),
        ([[0, None], [None, 0]], TypeError, r"entry \(0, 1\) has weight None"),
        (np.ma.masked_equal([[0, 1], [1, 0]], 1), TypeError, "masked"),
        (None, TypeError, "expected a networkx graph or an adjacency matrix, got NoneType"),
        ("graph", TypeError, "got str"),
        (pd.DataFrame([[0, 1], [1, 0]], ["a", "b"], ["b", "a"]), ValueError, "same labels in the same order"),
    ],
)
def test_bad_matrices(matrix: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FLNetwork(matrix)


def test_a_matrix_has_no_attribute() -> None:
    with pytest.raises(TypeError, match="weight='km' names an attribute of a networkx graph"):
        FLNetwork([[0, 1], [1, 0]], weight="km")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.uint64, np.int64, np.float16, np.float32, object])
def test_numeric_dtypes(dtype: Any) -> None:
    matrix = np.array([[0, 2, 0], [2, 0, 7], [0, 7, 0]]).astype(dtype)
    expected = FLNetwork.from_edges([(0, 1, 2.0), (1, 2, 7.0)])
    assert FLNetwork(matrix) == expected
    assert FLNetwork.from_edges([(0, 1), (1, 2)], np.array([2, 7]).astype(dtype)) == expected
    assert FLNetwork.from_edges(np.array([[0, 1, 2], [1, 2, 7]]).astype(dtype)) == expected


def test_sums_of_repeated_sparse_entries_are_one_weight() -> None:
    expected = FLNetwork.from_edges([(0, 1, 3.0), (0, 2, 5.0)])
    values, rows, columns = [5.0, 1.0, 2.0, 3.0, 5.0], [0, 0, 0, 1, 2], [2, 1, 1, 0, 0]
    assert FLNetwork(sparse.coo_array((values, (rows, columns)), shape=(3, 3))) == expected
    assert FLNetwork(sparse.csr_array((values, columns, [0, 3, 4, 5]), shape=(3, 3))) == expected


# Labels
@pytest.mark.parametrize("labels", [("a", "b", "c"), (5, 3, 9), ((0, 1), (1, 1), (2, 0)), ("a", 1, (2, 3))])
def test_labels_of_any_hashable_kind(labels: tuple[Any, ...]) -> None:
    network = FLNetwork.from_edges([(labels[0], labels[1]), (labels[2], labels[1])])
    assert network.nodes == labels
    assert network == FLNetwork(nx.Graph([(labels[0], labels[1]), (labels[1], labels[2])]))
    assert network.index(labels[2]) == 2


def test_numpy_scalars_become_python_ones() -> None:
    graph = nx.Graph([(np.int64(4), np.str_("x"))])
    for network in (FLNetwork(graph), FLNetwork.from_edges([(np.int64(4), np.str_("x"))])):
        assert network.nodes == (4, "x")
        assert [type(label) for label in network.nodes] == [int, str]
    assert [type(v) for v in FLNetwork.from_edges(np.array([[0, 1]])).nodes] == [int, int]
    assert FLNetwork.from_edges(np.array([[0, 1]])).index(np.int64(1)) == 1
    assert [type(v) for v in FLNetwork([[0, 1], [1, 0]], nodes=np.array(["a", "b"])).nodes] == [str, str]
    days = np.array(["2023-12-30", "2023-12-31"], dtype="datetime64[ns]")
    assert FLNetwork([[0, 1], [1, 0]], nodes=days).nodes == tuple(days)


def test_nodes_of_a_graph_give_the_order() -> None:
    network = FLNetwork(weighted_graph(), nodes=reversed(CITIES))
    assert network.nodes == CITIES[::-1]
    assert network.edges == (("Turku", "Oulu"), ("Vaasa", "Turku"))
    assert network.weights.tolist() == [2.0, 0.5]
    with pytest.raises(ValueError, match="'Espoo' is not in the graph"):
        FLNetwork(weighted_graph(), nodes=[*CITIES, "Espoo"])
    with pytest.raises(ValueError, match="nodes lacks 'Inari'"):
        FLNetwork(weighted_graph(), nodes=CITIES[:3])


def test_nodes_of_an_edge_list_add_isolated_nodes() -> None:
    network = FLNetwork.from_edges([("b", "a")], nodes=["a", "b", "c"])
    assert network.nodes == ("a", "b", "c")
    assert network.edges == (("a", "b"),)
    with pytest.raises(ValueError, match=r"edge \('b', 'z'\): 'z' is missing from nodes"):
        FLNetwork.from_edges([("a", "b"), ("b", "z")], nodes=["a", "b"])


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        (["a", "b", "a"], ValueError, "'a' stands at positions 0 and 2"),
        (["a", None], ValueError, "position 1 is missing"),
        (["a", float("nan")], ValueError, "position 1 is missing"),
        (["a", pd.NA], ValueError, "position 1 is missing"),
        (["a", ["b"]], TypeError, r"label \['b'\] is not hashable"),
        ("ab", TypeError, "single text 'ab'"),
        (["a"], ValueError, "nodes has 1 labels for the 2 rows"),
        (["a", "b", "c"], ValueError, "nodes has 3 labels for the 2 rows"),
    ],
)
def test_bad_labels(nodes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FLNetwork([[0, 1], [1, 0]], nodes=nodes)


# Lists of edges
EXPECTED = FLNetwork.from_edges([("a", "b", 2.0), ("c", "b", 1.0)])


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"from": ["a", "c"], "to": ["b", "b"], "weight": [2.0, 1.0]}),
        pd.DataFrame({"weight": [2, 1], "from": ["a", "c"], "to": ["b", "b"]}),
        pd.DataFrame({"from": ["a", "c"], "to": ["b", "b"], "strength": [2, 1]}, index=[7, 7]),
    ],
)
def test_data_frames_of_edges(frame: pd.DataFrame) -> None:
    assert FLNetwork.from_edges(frame) == EXPECTED


def test_data_frame_with_separate_weights() -> None:
    frame = pd.DataFrame({"from": ["a", "c"], "to": ["b", "b"]})
    assert FLNetwork.from_edges(frame, pd.Series([2.0, 1.0], index=[3, 0])) == EXPECTED
    assert FLNetwork.from_edges(frame).weights.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "edges",
    [
        [["a", "b", 2], ["c", "b", 1]],
        (edge for edge in [("a", "b", 2), ("c", "b", 1)]),
        np.array([["a", "b", 2], ["c", "b", 1]], dtype=object),
        nx.Graph([("a", "b", {"weight": 2}), ("c", "b", {"weight": 1})]).edges(data="weight"),
    ],
)
def test_forms_of_edges(edges: Any) -> None:
    network = FLNetwork.from_edges(edges, nodes=["a", "b", "c"])
    assert network.edges == (("a", "b"), ("b", "c"))
    assert network.weights.tolist() == [2.0, 1.0]


def test_whole_numbers_beside_float_weights_are_int_labels() -> None:
    expected = FLNetwork.from_edges([(3, 1, 0.5), (1, 2, 1.5)])
    network = FLNetwork.from_edges(np.array([[3, 1, 0.5], [1, 2, 1.5]]))
    assert network == expected
    assert [type(label) for label in network.nodes] == [int, int, int]


@pytest.mark.parametrize(
    ("edges", "weights", "error", "message"),
    [
        (pd.DataFrame({"u": [0], "v": [1], "weight": [1], "note": ["x"]}), None, ValueError, r"\['note'\]"),
        (pd.DataFrame({"u": [0], "v": [1], "w": [1], "note": ["x"], "by": [0]}), None, ValueError, "'note', 'by'"),
        (pd.DataFrame({"u": [0], "weight": [1]}), None, ValueError, "two columns of node labels"),
        (pd.DataFrame({"u": [0], "v": [None]}), None, ValueError, "row 0 lacks a node label"),
        (pd.DataFrame({"u": [0, 1], "v": [1, np.nan]}), None, ValueError, "row 1 lacks a node label"),
        (pd.DataFrame({"u": ["a"], "v": ["b"], "weight": ["1"]}), None, TypeError, r"edge \('a', 'b'\)"),
        ([(0, 1), (1, None)], None, ValueError, r"row 1 lacks a node label, it has \(1, None\)"),
        ([(0, 1, 2, 3)], None, ValueError, "row 0 is .*expected"),
        ([(0, 1), (1, 2, 3.0)], None, ValueError, "row 1 is .*every row a weight, or none"),
        (["ab", "bc"], None, ValueError, "row 0 is 'ab'"),
        ([(0, [1])], None, TypeError, r"label \[1\] is not hashable"),
        (np.zeros((3, 4)), None, ValueError, r"shape \(m, 2\).*got \(3, 4\)"),
        (np.zeros(3), None, ValueError, r"got \(3,\)"),
        ([(0, 1, 1.0)], [1.0], ValueError, "given twice"),
        ([(0, 1)], [1.0, 2.0], ValueError, "weights has 2 entries for 1 edges"),
        ([(0, 1)], 2.0, TypeError, "weights must be a list or an array.*float"),
        ([(0, 1)], {(0, 1): 2.0}, TypeError, "weights must be a list or an array.*dict"),
        ({(0, 1): 2.0}, None, TypeError, r"edges.items\(\)"),
        (nx.grid_2d_graph(2, 2), None, TypeError, r"FLNetwork\(graph\)"),
    ],
)
def test_bad_lists_of_edges(edges: Any, weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FLNetwork.from_edges(edges, weights)


def test_a_hundred_thousand_edges_take_well_under_a_second() -> None:
    graph = nx.gnm_random_graph(50_000, 100_000, seed=0)
    nx.set_edge_attributes(graph, 0.5, "weight")
    triples = list(graph.edges(data="weight"))
    for build in (lambda: FLNetwork(graph), lambda: FLNetwork.from_edges(triples, nodes=range(50_000))):
        started = time.process_time()
        network = build()
        assert time.process_time() - started < 1
        assert network.n_edges == 100_000
        assert network.degrees.sum() == 100_000


def test_integer_arrays_are_read_as_lists_of_pairs_are() -> None:
    pairs = [(7, 3), (3, -2), (9, 7), (-2, 9)]
    for dtype in (np.int64, np.int32):
        array = np.array(pairs, dtype=dtype)
        assert FLNetwork.from_edges(array) == FLNetwork.from_edges(pairs)
        assert FLNetwork.from_edges(array).nodes == (7, 3, -2, 9)
        assert FLNetwork.from_edges(array, nodes=[-2, 3, 5, 7, 9]) == FLNetwork.from_edges(
            pairs, nodes=[-2, 3, 5, 7, 9]
        )
    with pytest.raises(ValueError, match=r"edge \(9, 7\): 9 is missing from nodes"):
        FLNetwork.from_edges(np.array(pairs), nodes=[7, 3, -2])
