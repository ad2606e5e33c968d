"""The k-nearest-neighbour network, compared with a full sorted distance matrix and with scikit-learn."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances
from sklearn.neighbors import kneighbors_graph

from gtvmin.neighbours import nearest_neighbours
from gtvmin.network import FLNetwork


def sorted_neighbours(distances: NDArray[Any], k: int) -> NDArray[Any]:
    """First k columns of each row of a distance matrix without its diagonal, by stable sort."""
    others = distances + np.diag(np.full(len(distances), np.inf))
    return np.argsort(others, axis=1, kind="stable")[:, :k]


def union(neighbours: NDArray[Any]) -> list[tuple[int, int]]:
    return sorted({(min(i, j), max(i, j)) for i, row in enumerate(neighbours.tolist()) for j in row})


# Integer points on a small grid: coincident points and ties everywhere, and every distance is exact before its root.
grids = st.integers(1, 3).flatmap(
    lambda dim: st.lists(st.lists(st.integers(0, 3), min_size=dim, max_size=dim), min_size=2, max_size=40)
)


@given(grids, st.data())
def test_ties_are_broken_by_the_lower_index(rows: list[list[int]], data: st.DataObject) -> None:
    points = np.array(rows)
    k = data.draw(st.integers(1, len(points) - 1))
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    expected = sorted_neighbours(squares, k)
    neighbours, distances = nearest_neighbours(points.astype(float), k)
    np.testing.assert_array_equal(neighbours, expected)
    np.testing.assert_array_equal(distances, np.sqrt(np.take_along_axis(squares, expected, axis=1)))
    assert list(FLNetwork.knn(points, k).edges) == union(expected)


@pytest.mark.parametrize("k", [1, 3, 8])
def test_ties_beyond_the_first_candidates(k: int) -> None:
    # The origin is as far from all 80 unit vectors, many more than are looked at first.
    vectors = np.vstack([np.eye(40), -np.eye(40)])
    points = np.vstack([np.random.default_rng(0).permutation(vectors), np.zeros(40)])
    neighbours, distances = nearest_neighbours(points, k)
    assert neighbours[-1].tolist() == list(range(k))
    assert distances[-1].tolist() == [1.0] * k
    squares = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(neighbours, sorted_neighbours(squares, k))


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.integers(1, 6))
def test_neighbours_of_random_points(seed: int, k: int, dim: int) -> None:
    points = np.random.default_rng(seed).normal(size=(60, dim))
    network = FLNetwork.knn(points, k, weights=lambda distances: distances)
    distances = cdist(points, points)
    assert list(network.edges) == union(sorted_neighbours(distances, k))
    np.testing.assert_allclose(network.weights, distances[network.tail, network.head], rtol=1e-12)
    np.testing.assert_array_equal(network.coordinates, points)


@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_great_circles_agree_with_scikit_learn(seed: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    z, longitude = generator.uniform(-1, 1, 60), generator.uniform(-180, 180, 60)
    points = np.column_stack([np.degrees(np.arcsin(z)), longitude])
    network = FLNetwork.knn(points, k, metric="haversine", weights=lambda distances: distances)
    distances = 6371.0088 * haversine_distances(np.radians(points))
    assert list(network.edges) == union(sorted_neighbours(distances, k))
    np.testing.assert_allclose(network.weights, distances[network.tail, network.head], rtol=1e-9)


def test_haversine_across_the_date_line_and_over_the_poles() -> None:
    # 2 degrees of the equator across 180 degrees east, and 4 degrees of a meridian over the north pole
    points = [[0, 179], [0, -179], [88, 20], [88, -160]]
    network = FLNetwork.knn(points, 1, metric="haversine", weights=lambda d: d, radius=180 / np.pi)
    assert network.edges == ((0, 1), (2, 3))
    np.testing.assert_allclose(network.weights, [2.0, 4.0], rtol=1e-12)


def test_haversine_uses_the_radius_in_kilometres() -> None:
    helsinki, turku = (60.1699, 24.9384), (60.4518, 22.2666)
    network = FLNetwork.knn([helsinki, turku], 1, metric="haversine", weights=lambda d: d)
    assert network.weights[0] == pytest.approx(150.0, abs=1.0)


def test_the_relation_is_made_symmetric_by_union() -> None:
    # 3 points to 2, whose nearest is 1: the edge stays although it is one-sided.
    network = FLNetwork.knn([[0.0], [1.0], [2.5], [9.0]], 1)
    assert network.edges == ((0, 1), (1, 2), (2, 3))
    assert network.weights.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_coincident_points_keep_their_edges_and_no_node_is_its_own_neighbour(metric: str) -> None:
    points = np.array([[1.5, 2.0]] * 30 + [[1.5, 2.1]] * 3)
    network = FLNetwork.knn(points, 2, metric=metric)
    expected = union(sorted_neighbours(cdist(points, points), 2))
    assert list(network.edges) == expected
    assert np.all(network.tail < network.head)
    assert network.neighbour_counts.min() >= 2


def test_many_copies_cost_neither_time_nor_memory() -> None:
    points = np.zeros((20_000, 2))
    points[-1] = 1.0
    tracemalloc.start()
    network = FLNetwork.knn(points, 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # a square matrix of float64 would take 3.2e9
    assert network.edges[:4] == ((0, 1), (0, 2), (0, 3), (0, 4))
    assert network.n_edges == 6 + 3 * (20_000 - 4)


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1e160, 1e200])
def test_distances_neither_overflow_nor_underflow(scale: float) -> None:
    points = np.random.default_rng(0).normal(size=(50, 3))
    network = FLNetwork.knn(points * scale, 3, weights=lambda d: d / scale)
    plain = FLNetwork.knn(points, 3, weights=lambda d: d)
    assert network.edges == plain.edges
    np.testing.assert_allclose(network.weights, plain.weights, rtol=1e-12)


# Weights


def test_gaussian_weights() -> None:
    points = np.array([[0.0], [0.0], [1.0], [3.0], [6.0]])
    network = FLNetwork.knn(points, 1, weights="gaussian")
    # edges at distances 0, 1, 2, 3: the median of the positive ones is 2
    assert network.edges == ((0, 1), (0, 2), (2, 3), (3, 4))
    np.testing.assert_allclose(network.weights, np.exp([0, -1 / 8, -4 / 8, -9 / 8]), rtol=1e-14)
    np.testing.assert_allclose(FLNetwork.knn(points * 1e5, 1, weights="gaussian").weights, network.weights)
    assert FLNetwork.knn(np.zeros((3, 2)), 1, weights="gaussian").weights.tolist() == [1.0, 1.0]


def test_c31_weights_that_underflow() -> None:
    """C31, DataSlingers/clustRviz issue #57: an outlier whose Gaussian weights are all exactly 0."""
    points = pd.DataFrame([[0.0, 0], [0.1, 0], [100.0, 0]], index=["a", "b", "far"])
    with pytest.raises(ValueError, match=r"edge \('b', 'far'\) at distance 99.9 has weight 0.*decays more slowly"):
        FLNetwork.knn(points, 1, weights=lambda d: np.exp(-(d**2)))
    assert FLNetwork.knn(points, 1, weights=lambda d: np.exp(-((d / 50) ** 2))).n_edges == 2


def test_a_callable_sees_distances_once_and_cannot_spoil_them() -> None:
    seen: list[NDArray[np.float64]] = []

    def rule(distances: NDArray[np.float64]) -> NDArray[np.float64]:
        seen.append(distances.copy())
        distances += 1
        return 1 / distances

    network = FLNetwork.knn([[0.0], [1.0], [3.0]], 1, weights=rule)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], [1.0, 2.0])
    np.testing.assert_array_equal(network.weights, [1 / 2, 1 / 3])
    with pytest.raises(ValueError, match="at distance 2 has weight 0"):
        FLNetwork.knn([[0.0], [1.0], [3.0]], 1, weights=lambda d: np.subtract(2, d, out=d))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (lambda d: -d, ValueError, r"edge \(0, 1\) at distance 1 has weight -1.*negative"),
        (lambda d: d * np.nan, ValueError, "has weight nan"),
        (lambda d: 1.0, ValueError, r"must have shape \(2,\)"),
        (lambda d: d > 0, TypeError, "of type bool"),
        ("gauss", TypeError, "weights must be None, 'gaussian' or a function.*'gauss'"),
        ([1.0, 2.0], TypeError, "weights must be None, 'gaussian' or a function"),
    ],
)
def test_bad_weights(weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FLNetwork.knn([[0.0], [1.0], [3.0]], 1, weights=weights)


# Input


def test_c32_data_frame_of_2600_rows() -> None:
    """C32, DataSlingers/clustRviz issue #54: a crash after ten minutes of all-pairs distances."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(2600, 11)), index=[f"t{i}" for i in range(2600)])
    started = time.process_time()
    network = FLNetwork.knn(frame, 5)
    assert time.process_time() - started < 5
    assert network.nodes == tuple(frame.index)
    expected = kneighbors_graph(frame.to_numpy(), 5)
    assert network.n_edges == (expected + expected.T).nnz // 2
    frame.iloc[17, 3] = np.nan
    with pytest.raises(ValueError, match="row 't17' has nan in column 3"):
        FLNetwork.knn(frame, 5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, bool, object])
def test_numeric_dtypes(dtype: Any) -> None:
    points = np.array([[0, 0], [0, 1], [1, 1], [1, 0], [0, 0]]).astype(dtype)
    assert FLNetwork.knn(points, 2) == FLNetwork.knn(points.astype(float), 2)


def test_labels_come_from_nodes_or_the_index() -> None:
    points = pd.DataFrame({"x": [0.0, 1.0], "y": [0, 0]}, index=["a", "b"])
    assert FLNetwork.knn(points, 1).nodes == ("a", "b")
    assert FLNetwork.knn(points, 1, nodes=["p", "q"]).nodes == ("p", "q")
    assert FLNetwork.knn(points.to_numpy(), 1).nodes == (0, 1)
    nullable = points.astype({"x": "Float64", "y": "Int64"})
    assert FLNetwork.knn(nullable, 1) == FLNetwork.knn(points, 1)


def test_points_are_not_changed() -> None:
    points = np.array([[3.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    before = points.copy()
    network = FLNetwork.knn(points, 1)
    np.testing.assert_array_equal(points, before)
    points[:] = 0
    np.testing.assert_array_equal(network.coordinates, before)


SQUARE = [[0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
MISSING = pd.DataFrame({"x": [0.0, 1.0], "y": [0, None]}, index=["a", "b"]).astype({"y": "Int64"})


@pytest.mark.parametrize(
    ("points", "options", "error", "message"),
    [
        (SQUARE, {"k": 0}, ValueError, "k must be >= 1"),
        (SQUARE, {"k": -1}, ValueError, "k must be >= 1"),
        (SQUARE, {"k": 4}, ValueError, "k=4 for 4 points"),
        (SQUARE[:1], {"k": 1}, ValueError, "k=1 for 1 points"),
        (SQUARE, {"k": 1.5}, TypeError, "k must be an integer"),
        (SQUARE, {"k": True}, TypeError, "k must be an integer"),
        (SQUARE, {"metric": "cosine"}, ValueError, "'euclidean' or 'haversine', got 'cosine'"),
        (SQUARE, {"nodes": ["a", "b"]}, ValueError, "nodes has 2 labels for 4 rows of points"),
        (SQUARE, {"nodes": ["a", "b", "a", "c"]}, ValueError, "'a' stands at positions 0 and 2"),
        ([0.0, 1.0], {}, ValueError, r"points must have shape \(n_points, n_features\), got \(2,\)"),
        (np.empty((0, 2)), {}, ValueError, "empty"),
        (np.empty((3, 0)), {}, ValueError, "points must have shape"),
        ([[0.0, np.inf], [0, 1]], {}, ValueError, "row 0 has inf in column 1"),
        (MISSING, {}, ValueError, "row 'b' has nan in column 'y'"),
        (pd.DataFrame({"x": [0, 1], "name": ["a", "b"]}), {}, TypeError, "column 'name' has dtype"),
        ([["a"], ["b"]], {}, TypeError, "points must hold real numbers"),
        ([[1j], [2]], {}, TypeError, "points must hold real numbers"),
        (np.ma.masked_equal(SQUARE, 1), {}, TypeError, "masked"),
        ([[0.0, 1, 2], [3, 4, 5]], {"metric": "haversine"}, ValueError, "two columns.*got 3"),
        ([[24.9, 60.2], [121.4, 38.6]], {"metric": "haversine"}, ValueError, "row 1 has latitude 121.4"),
        (SQUARE, {"metric": "haversine", "radius": 0}, ValueError, "radius must be > 0"),
        (SQUARE, {"metric": "haversine", "radius": np.nan}, ValueError, "radius"),
    ],
)
def test_bad_points(points: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FLNetwork.knn(points, **{"k": 1, **options})


# Public data


@pytest.fixture(scope="module")
def hourly_stations(shared_data: Path) -> pd.DataFrame:
    table = pd.read_csv(shared_data / "fmi_hourly_2023.csv")
    return table.drop_duplicates("name").set_index("name")[["Latitude", "Longitude"]]


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_weather_stations_agree_with_scikit_learn(hourly_stations: pd.DataFrame, k: int) -> None:
    network = FLNetwork.knn(hourly_stations, k)
    relation = kneighbors_graph(hourly_stations.to_numpy(), k)
    expected = nx.from_scipy_sparse_array(relation.maximum(relation.T))
    assert [(int(i), int(j)) for i, j in zip(network.tail, network.head, strict=True)] == sorted(expected.edges)
    assert network.nodes == tuple(hourly_stations.index)
    assert nx.is_connected(expected) == (len(network.components()) == 1) == (k >= 4)
    assert (network.algebraic_connectivity > 0) == (k >= 4)


def test_weather_windows(shared_data: Path) -> None:
    table = pd.read_csv(shared_data / "fmi_windows_2025.csv")
    stations = table.drop_duplicates("Name").set_index("Name")[["Latitude", "Longitude"]]
    network = FLNetwork.knn(stations, 4)
    assert (network.n_nodes, network.n_edges, len(network.components())) == (192, 486, 1)


def test_c57_daily_weather_stations(shared_data: Path) -> None:
    """C57, alexjungaalto/FederatedLearning, fml2ilv/demos: 188 stations with non-ASCII names."""
    table = pd.read_csv(shared_data / "fmi_january_daily.csv")
    stations = table.drop_duplicates("station").set_index("station")[["lat", "lon"]]
    network = FLNetwork.knn(stations, 4)
    assert (network.n_nodes, network.n_edges, len(network.components())) == (188, 469, 1)
    assert network.index("Alajärvi Möksy") == 0


def test_c06_house_sales(shared_data: Path) -> None:
    """C06, the house sales of the Network Lasso paper: 5 neighbours by great-circle miles."""
    table = pd.read_csv(shared_data / "sacramento_housing_2008.csv")
    points = table[["latitude", "longitude"]].to_numpy()
    network = FLNetwork.knn(points, 5, metric="haversine", weights=lambda miles: 1 / (miles + 0.1), radius=3961)
    assert (network.n_nodes, network.n_edges, len(network.components())) == (985, 3019, 5)
    assert network.weights.max() == 10.0
    assert np.sum(network.weights == 10.0) == 17
    distances = 3961 * haversine_distances(np.radians(points))
    assert list(network.edges) == union(sorted_neighbours(distances, 5))
