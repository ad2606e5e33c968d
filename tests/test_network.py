"""The network of devices: what it holds and computes, compared with networkx."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from gtvmin.network import FLNetwork
from network_graphs import CITIES, weighted_graph


@st.composite
def graphs(draw: st.DrawFn, connected: bool = False) -> nx.Graph:
    """Random weighted graphs whose labels are shuffled, so that label, position and insertion order differ."""
    n = draw(st.integers(2 if connected else 1, 12))
    pairs = [(i, j) for i in range(n) for j in range(i)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    labels = draw(st.permutations([f"v{i}" for i in range(n)]))
    if connected:
        chosen = list(dict.fromkeys(chosen + [(i + 1, i) for i in range(n - 1)]))
    graph = nx.Graph()
    graph.add_nodes_from(labels)
    for i, j in chosen:
        graph.add_edge(labels[i], labels[j], weight=draw(st.floats(0.01, 100)))
    return graph


# What the network holds
def test_fields_of_a_small_graph() -> None:
    network = FLNetwork(weighted_graph())
    assert network.nodes == CITIES
    assert (network.n_nodes, network.n_edges) == (4, 2)
    assert network.edges == (("Oulu", "Turku"), ("Turku", "Vaasa"))
    np.testing.assert_array_equal(network.tail, [0, 1])
    np.testing.assert_array_equal(network.head, [1, 2])
    np.testing.assert_array_equal(network.weights, [2.0, 0.5])
    np.testing.assert_array_equal(network.degrees, [2.0, 2.5, 0.5, 0.0])
    np.testing.assert_array_equal(network.neighbour_counts, [1, 2, 1, 0])
    np.testing.assert_array_equal(network.incidence().toarray(), [[-1, 1, 0, 0], [0, -1, 1, 0]])
    assert (network.tail.dtype, network.head.dtype, network.weights.dtype) == ("int64", "int64", "float64")
    assert network.coordinates is None
    assert repr(network) == "FLNetwork(n_nodes=4, n_edges=2)"


def test_index_gives_the_position_or_names_the_missing_node() -> None:
    network = FLNetwork(weighted_graph())
    assert [network.index(city) for city in CITIES] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"'Espoo' is not in the network.*'Oulu', 'Turku'"):
        network.index("Espoo")


def test_edges_keep_the_order_of_the_graph_and_of_the_list() -> None:
    pairs = [("c", "a"), ("b", "a"), ("c", "b")]
    assert FLNetwork.from_edges(pairs).edges == (("c", "a"), ("a", "b"), ("c", "b"))
    graph = nx.Graph(pairs)
    assert [set(edge) for edge in FLNetwork(graph).edges] == [set(edge) for edge in graph.edges]


def test_edges_of_a_matrix_run_row_by_row() -> None:
    matrix = np.ones((4, 4)) - np.eye(4)
    for form in (matrix, sparse.csc_array(matrix), sparse.coo_matrix(matrix)):
        assert FLNetwork(form).edges == ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


@pytest.mark.parametrize("name", ["tail", "head", "weights", "coordinates"])
def test_network_cannot_be_changed(name: str) -> None:
    network = FLNetwork(weighted_graph(), coordinates=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="read-only"):
        getattr(network, name)[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(network, name, np.zeros(2))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_equal_and_as_unchangeable(duplicate: Any) -> None:
    network = FLNetwork(weighted_graph(), coordinates=np.arange(8.0).reshape(4, 2))
    other = duplicate(network)
    assert other == network
    assert hash(other) == hash(network)
    assert other.index("Vaasa") == 2
    assert not other.weights.flags.writeable
    assert not other.coordinates.flags.writeable


def test_equality_sees_every_field() -> None:
    network = FLNetwork.from_edges([(0, 1, 1.0), (1, 2, 2.0)])
    assert network == FLNetwork.from_edges([(0, 1, 1.0), (2, 1, 2.0)])
    assert network != FLNetwork.from_edges([(0, 1, 1.0), (1, 2, 3.0)])
    assert network != FLNetwork.from_edges([(0, 1, 1.0), (1, 3, 2.0)])
    assert network != FLNetwork.from_edges([(0, 1, 1.0), (0, 2, 2.0)])
    assert FLNetwork.from_edges([(0, 1)], nodes=range(3)) != FLNetwork.from_edges([(0, 2)], nodes=range(3))
    assert network != FLNetwork.from_edges([(0, 1, 1.0), (1, 2, 2.0)], coordinates=np.zeros((3, 2)))
    assert network != "network"


def test_inputs_are_never_changed() -> None:
    graph, before = weighted_graph(), weighted_graph()
    FLNetwork(graph)
    assert nx.utils.graphs_equal(graph, before)
    stored = sparse.csr_array(([2.0, 0.0, 2.0, 0.0], ([0, 0, 1, 2], [1, 2, 0, 0])), shape=(3, 3))
    network = FLNetwork(stored)
    assert stored.nnz == 4
    weights = np.array([1.0, 2.0])
    pairs = np.array([[0, 1], [1, 2]])
    from_arrays = FLNetwork.from_edges(pairs, weights)
    weights[0] = pairs[0, 0] = stored.data[0] = 9
    assert from_arrays == FLNetwork.from_edges([(0, 1), (1, 2)], [1.0, 2.0])
    assert network.weights.tolist() == [2.0]


# Against networkx
@given(graphs())
def test_matrices_agree_with_networkx(graph: nx.Graph) -> None:
    network = FLNetwork(graph)
    laplacian = network.laplacian()
    np.testing.assert_allclose(laplacian.toarray(), nx.laplacian_matrix(graph).toarray(), rtol=1e-13, atol=1e-13)
    incidence = network.incidence()
    assert incidence.format == laplacian.format == "csr"
    assert incidence.shape == (network.n_edges, network.n_nodes)
    # Given an edge list, networkx too puts -1 at the first and +1 at the second end.
    assert np.all(network.tail < network.head)
    theirs = nx.incidence_matrix(graph, edgelist=network.edges, oriented=True)
    np.testing.assert_array_equal(incidence.toarray(), theirs.toarray().T)
    product = incidence.T @ sparse.diags_array(network.weights) @ incidence
    np.testing.assert_allclose(product.toarray(), laplacian.toarray(), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(network.degrees, [d for _, d in graph.degree(weight="weight")], rtol=1e-13)
    np.testing.assert_array_equal(network.neighbour_counts, [d for _, d in graph.degree()])


@given(graphs(connected=True))
def test_algebraic_connectivity_agrees_with_networkx(graph: nx.Graph) -> None:
    expected = nx.algebraic_connectivity(graph, method="tracemin_lu", tol=1e-12)
    largest = nx.laplacian_spectrum(graph)[-1]
    assert FLNetwork(graph).algebraic_connectivity == pytest.approx(expected, rel=1e-6, abs=1e-12 * largest)


@given(graphs())
def test_components_agree_with_networkx(graph: nx.Graph) -> None:
    network = FLNetwork(graph)
    components = network.components()
    assert {frozenset(c) for c in components} == {frozenset(c) for c in nx.connected_components(graph)}
    assert all(list(c) == sorted(c, key=network.index) for c in components)
    firsts = [network.index(c[0]) for c in components]
    assert firsts == sorted(firsts)
    ids = network.component_ids
    assert [tuple(v for v, i in zip(network.nodes, ids, strict=True) if i == c) for c in range(len(components))] == (
        components
    )
    if len(components) > 1:
        assert network.algebraic_connectivity == 0.0


@given(graphs(), st.data())
def test_cuts_and_subgraphs_agree_with_networkx(graph: nx.Graph, data: st.DataObject) -> None:
    network = FLNetwork(graph)
    chosen = data.draw(st.sets(st.sampled_from(list(graph))))
    assert network.cut_weight(chosen) == pytest.approx(nx.cut_size(graph, chosen, weight="weight"), rel=1e-12)
    if chosen:
        part = network.subgraph(chosen)
        expected = graph.subgraph(chosen)
        assert part.nodes == tuple(v for v in graph if v in chosen)
        assert nx.utils.graphs_equal(part.to_networkx(), nx.Graph(expected))


@given(graphs())
def test_every_route_gives_the_same_network(graph: nx.Graph) -> None:
    network = FLNetwork(graph)
    assert nx.utils.graphs_equal(network.to_networkx(), graph)
    assert list(network.to_networkx()) == list(graph)
    edges = [(u, v, w) for (u, v), w in zip(network.edges, network.weights, strict=True)]
    assert FLNetwork.from_edges(edges, nodes=network.nodes) == network
    dense = nx.to_numpy_array(graph)
    from_matrix = FLNetwork(dense, nodes=list(graph))
    assert nx.utils.graphs_equal(from_matrix.to_networkx(), graph)
    for convert in (sparse.csr_array, sparse.coo_matrix, sparse.lil_array, sparse.dia_array):
        assert FLNetwork(convert(dense), nodes=list(graph)) == from_matrix
    assert FLNetwork(pd.DataFrame(dense, list(graph), list(graph))) == from_matrix
    assert FLNetwork(dense.tolist(), nodes=list(graph)) == from_matrix


# Spectra
@pytest.mark.parametrize("n", [2, 50, 399, 401, 5000])
def test_algebraic_connectivity_of_paths_and_cycles(n: int) -> None:
    path = FLNetwork(nx.path_graph(n)).algebraic_connectivity
    assert path == pytest.approx(2 - 2 * np.cos(np.pi / n), rel=1e-6)
    if n > 2:
        cycle = FLNetwork(nx.cycle_graph(n)).algebraic_connectivity
        assert cycle == pytest.approx(2 - 2 * np.cos(2 * np.pi / n), rel=1e-6)


def test_algebraic_connectivity_of_two_weakly_joined_cliques() -> None:
    # Two cliques of k nodes, joined by one edge of weight w -> 0: the limit of lambda_2 / w is 2 / k.
    for k in (20, 250):
        graph = nx.disjoint_union(nx.complete_graph(k), nx.complete_graph(k))
        nx.set_edge_attributes(graph, 1.0, "weight")
        graph.add_edge(0, k, weight=1e-7)
        assert FLNetwork(graph).algebraic_connectivity == pytest.approx(2e-7 / k, rel=1e-4)


@pytest.mark.parametrize("n", [30, 600])
def test_algebraic_connectivity_of_complete_graphs_and_stars(n: int) -> None:
    assert FLNetwork(nx.complete_graph(n)).algebraic_connectivity == pytest.approx(n, rel=1e-9)
    assert FLNetwork(nx.star_graph(n)).algebraic_connectivity == pytest.approx(1.0, rel=1e-9)


def test_large_and_small_route_agree() -> None:
    graph = nx.random_geometric_graph(700, 0.1, seed=3)
    generator = np.random.default_rng(0)
    for _, _, attributes in graph.edges(data=True):
        attributes["weight"] = generator.uniform(0.1, 10)
    network = FLNetwork(graph)
    assert len(network.components()) == 1
    expected = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray())[1]
    assert network.algebraic_connectivity == pytest.approx(expected, rel=1e-9)
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - the global generator must stay untouched
    assert network.algebraic_connectivity == network.algebraic_connectivity
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


# Parts, cuts and coordinates
def test_subgraph_keeps_order_weights_and_coordinates() -> None:
    places = np.arange(8.0).reshape(4, 2)
    part = FLNetwork(weighted_graph(), coordinates=places).subgraph({"Vaasa", "Turku"})
    assert part == FLNetwork.from_edges([("Turku", "Vaasa", 0.5)], coordinates=places[1:3])
    assert not part.coordinates.flags.writeable  # type: ignore[union-attr]
    assert part.index("Vaasa") == 1


def test_subgraph_and_cut_name_a_strange_node() -> None:
    network = FLNetwork(weighted_graph())
    with pytest.raises(ValueError, match="'Espoo' is not in the network"):
        network.subgraph(["Oulu", "Espoo"])
    with pytest.raises(ValueError, match="'Espoo' is not in the network"):
        network.cut_weight(["Espoo"])
    with pytest.raises(ValueError, match="labels is empty"):
        network.subgraph([])
    assert network.cut_weight([]) == 0.0
    assert network.cut_weight(["Turku", "Turku"]) == 2.5


def test_coordinates_travel_to_networkx_and_back() -> None:
    places = {"Vaasa": (63.1, 21.6), "Oulu": (65.0, 25.5), "Turku": (60.5, 22.3), "Inari": (68.9, 27.0)}
    network = FLNetwork(weighted_graph(), coordinates=places)
    np.testing.assert_array_equal(network.coordinates, [places[city] for city in CITIES])
    graph = network.to_networkx()
    assert nx.get_node_attributes(graph, "pos") == places
    assert FLNetwork(graph, coordinates=nx.get_node_attributes(graph, "pos")) == network
    frame = pd.DataFrame.from_dict(places, orient="index")
    assert FLNetwork(weighted_graph(), coordinates=frame) == network
    assert "pos" not in FLNetwork(weighted_graph()).to_networkx().nodes["Oulu"]


@pytest.mark.parametrize(
    ("coordinates", "message"),
    [
        (np.zeros((3, 2)), "nodes has 4 labels for 3 rows of coordinates"),
        (np.zeros(4), "coordinates must have shape"),
        ({"Oulu": (0, 0)}, "coordinates lacks node 'Turku'"),
        ([[0, 0], [0, np.nan], [0, 0], [0, 0]], "coordinates: row 'Turku' has nan"),
    ],
)
def test_bad_coordinates(coordinates: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FLNetwork(weighted_graph(), coordinates=coordinates)
