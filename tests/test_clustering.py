"""Convex clustering against CVXPY and hand values, its weights, and what counts as a cluster."""

from __future__ import annotations

import time
import warnings

import cvxpy as cp
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import make_moons
from sklearn.neighbors import kneighbors_graph

import gtvmin as gtv
from gtvmin.errors import DisconnectedWarning
from gtvmin.fusion import fused_edges
from gtvmin.solving import choose_method

NORMS = [1, 2, np.inf]


def optimum(points, edges, lam, p):
    """Optimal value and centroids, written point by point and edge by edge."""
    W = cp.Variable(np.shape(points))
    value = sum(cp.sum_squares(w - x) for w, x in zip(W, points, strict=True)) / 2
    value += sum(lam * weight * cp.norm(W[i] - W[j], p) for i, j, weight in edges)
    model = cp.Problem(cp.Minimize(value))
    model.solve(solver="CLARABEL")
    assert model.status == "optimal"
    return model.value, W.value


def edge_list(problem):
    net = problem.network
    return list(zip(net.tail.tolist(), net.head.tolist(), net.weights.tolist(), strict=True))


def n_clusters(solution):
    return len(set(solution.clusters().values()))


# --- the problem ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def connectedness(shared_data):
    points = pd.read_csv(shared_data / "ccmm_connectedness_points.csv")[["x1", "x2"]]
    return points, pd.read_csv(shared_data / "ccmm_connectedness_knn3_weights.csv")


@pytest.mark.parametrize(
    ("lam", "value", "clusters"), [(0.1, 2.393551839, 58), (1.0, 6.172059644, 7), (10.0, 7.447761992, 4)]
)
def test_weights_of_four_components(connectedness, lam, value, clusters):
    """C34, djwtouw/CCMM-paper, arXiv 2211.01877: a 3-NN graph that falls apart."""
    points, weights = connectedness
    with pytest.warns(DisconnectedWarning, match=r"4 components.*at least 4 clusters.*12 \(of 5\), 9 \(of 15\)"):
        problem = gtv.ConvexClustering(points, weights, lam=lam)
    solution = problem.solve(gap=1e-9)
    assert solution.objective == pytest.approx(value, abs=1e-7)
    assert n_clusters(solution) == clusters


def test_all_of_a_component_ends_at_its_mean(connectedness):
    points, weights = connectedness
    with pytest.warns(DisconnectedWarning):
        solution = gtv.ConvexClustering(points, weights, lam=1e3).solve(gap=1e-9)
    assert solution.objective == pytest.approx(7.447761992, abs=1e-7)
    ends = np.unique(solution.weights.round(4), axis=0)
    published = [(1.875995, 0.013503), (0.837407, 0.874718), (-0.157417, 0.149076), (0.430156, -0.21949)]
    np.testing.assert_allclose(ends[ends[:, 0].argsort()], sorted(published), atol=1e-4)
    sizes = np.bincount(list(solution.clusters().values()))
    assert sorted(sizes.tolist()) == [5, 15, 26, 29]


def test_an_outlier_out_of_reach():
    """C31, DataSlingers/clustRviz issue #57: exp(-100^2) is 0."""
    points = np.array([[0.0, 0.0], [0.1, 0.0], [100.0, 0.0]])
    with pytest.warns(DisconnectedWarning, match=r"2 components; 2 edges are too weak.*2 \(of 1\), 0 \(of 2\)"):
        problem = gtv.ConvexClustering(points, k=2, phi=1.0, lam=1e6)
    solution = problem.solve()
    np.testing.assert_allclose(solution.weights, [[0.05, 0.0], [0.05, 0.0], [100.0, 0.0]], atol=1e-5)
    assert solution.clusters() == {0: 0, 1: 0, 2: 1}


def test_a_frame_of_2600_rows():
    """C32, DataSlingers/clustRviz issue #54: labels, and a missing value, in a table of that size."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(2600, 11)), index=[f"t{i}" for i in range(2600)])
    began = time.perf_counter()
    problem = gtv.ConvexClustering(frame, k=5)
    assert time.perf_counter() - began < 5
    assert problem.network.nodes == tuple(frame.index)
    assert problem.objective(frame) > 0
    frame.iloc[17, 3] = np.nan
    began = time.perf_counter()
    with pytest.raises(ValueError, match="row 't17' has nan in column 3"):
        gtv.ConvexClustering(frame, k=5)
    assert time.perf_counter() - began < 1


@given(
    distance=st.floats(0.1, 10.0),
    angle=st.floats(0.0, 6.3),
    weight=st.floats(0.1, 5.0),
    share=st.sampled_from([0.0, 0.3, 0.9, 1.2, 10.0]),
)
@settings(max_examples=25)
def test_two_points_meet_in_the_middle(distance, angle, weight, share):
    """The ends move by lam * weight towards each other, and meet at lam = distance / (2 weight)."""
    step = distance * np.array([np.cos(angle), np.sin(angle)])
    start = np.array([1.0, -2.0])
    points = np.array([start, start + step])
    solution = gtv.ConvexClustering(points, [(0, 1, weight)], lam=share * distance / (2 * weight)).solve(gap=1e-10)
    moved = min(share, 1.0) * step / 2
    np.testing.assert_allclose(solution.weights, [start + moved, start + step - moved], atol=1e-4 * distance)
    assert n_clusters(solution) == (1 if share > 1 else 2)


@pytest.mark.parametrize(
    ("lam", "along", "clusters"),
    [(0.25, [0.5, 1.0, 4.5], 3), (1.0, [1.5, 1.5, 3.0], 2), (1.4, [1.9, 1.9, 2.2], 2), (2.0, [2.0, 2.0, 2.0], 1)],
)
@pytest.mark.parametrize("p", NORMS)
def test_three_points_on_a_line(lam, along, clusters, p):
    """At 0, 1 and 5 with weights 1: the first two meet at lam = 1/2 in 1, and with the third at 3/2 in 2."""
    all_pairs = [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 1.0)]
    direction = {1: [1.0, 0.0], 2: [0.6, 0.8], np.inf: [1.0, 0.0]}[p]
    points = np.outer([0.0, 1.0, 5.0], direction)
    solution = gtv.ConvexClustering(points, all_pairs, lam, p).solve(gap=1e-9)
    np.testing.assert_allclose(solution.weights, np.outer(along, direction), atol=1e-4)
    assert n_clusters(solution) == clusters


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("lam", [0.03, 0.3, 3.0])
def test_the_optimum_is_that_of_cvxpy(p, lam):
    points = make_moons(30, noise=0.1, random_state=0)[0]
    problem = gtv.ConvexClustering(points, lam=lam, p=p, k=4)
    value, W = optimum(points, edge_list(problem), lam, p)
    solution = problem.solve(gap=1e-8)
    assert solution.objective == pytest.approx(value, rel=1e-7)
    # half of ||W - W*||^2 is at most the gap
    assert np.abs(solution.weights - W).max() < 1e-3
    assert problem.solve(method="cvxpy").objective == pytest.approx(value, rel=1e-7)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


@pytest.mark.parametrize(
    ("change", "scale"),
    [
        (lambda X: X + np.array([100.0, -3.0]), 1.0),
        (lambda X: X @ rotation(0.7), 1.0),
        (lambda X: 1e4 * X, 1e4),
        (lambda X: 1e-4 * X, 1e-4),
    ],
    ids=["translation", "rotation", "kilometres", "microns"],
)
def test_moved_points_have_moved_centroids(change, scale):
    points = make_moons(40, noise=0.1, random_state=1)[0]
    solution = gtv.ConvexClustering(points, lam=0.2, k=5).solve(gap=1e-9)
    moved = gtv.ConvexClustering(change(points), lam=0.2 * scale, k=5)
    np.testing.assert_allclose(moved.network.weights, solution.problem.network.weights, rtol=1e-9)
    answer = moved.solve(gap=1e-9)
    np.testing.assert_allclose(answer.weights, change(solution.weights), atol=1e-3 * scale)
    assert answer.clusters() == solution.clusters()


def test_the_order_of_the_rows_does_not_matter():
    frame = pd.DataFrame(
        make_moons(40, noise=0.1, random_state=2)[0], index=list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN")
    )
    shuffled = frame.sample(frac=1.0, random_state=0)
    first, second = (gtv.ConvexClustering(table, lam=0.2, k=5).solve(gap=1e-9) for table in (frame, shuffled))
    np.testing.assert_allclose(second.to_frame().loc[frame.index], first.to_frame(), atol=1e-3)


def test_every_duplicate_counts():
    """Two copies at 0 and one point at 9, all weights 1, are a mass of 2 and an edge of weight 2."""
    W = cp.Variable(2)
    cp.Problem(cp.Minimize(cp.square(W[0]) + cp.square(W[1] - 9) / 2 + 2 * cp.abs(W[1] - W[0]))).solve()
    points = np.array([[0.0], [0.0], [9.0]])
    problem = gtv.ConvexClustering(points, lam=1.0, phi=0.0)
    assert problem.network.weights.tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_allclose(problem.solve(gap=1e-10).weights[:, 0], W.value[[0, 0, 1]], atol=1e-4)


def test_copies_have_an_edge_of_weight_one():
    problem = gtv.ConvexClustering([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [3.0, 0.0]], k=3)
    assert (0, 1, 1.0) in edge_list(problem)
    with pytest.warns(DisconnectedWarning, match="2 components"):
        # more copies than neighbours: they see only each other
        gtv.ConvexClustering([[0.0]] * 4 + [[1.0], [1.1], [1.2], [1.3]], k=2)


def test_one_point_is_its_own_centroid():
    solution = gtv.ConvexClustering([[3.0, 4.0]], lam=7.0).solve()
    assert solution.weights.tolist() == [[3.0, 4.0]]
    assert solution.clusters() == {0: 0}


# --- weights ----------------------------------------------------------------------------------------------------------


def test_default_weights_are_gaussian_between_ten_nearest_neighbours():
    points = np.random.default_rng(3).normal(size=(60, 3))
    neighbours = kneighbors_graph(points, 10, mode="distance").toarray()
    distance = np.maximum(neighbours, neighbours.T)
    scale = np.median(distance[np.triu_indices(60)][distance[np.triu_indices(60)] > 0])
    expected = np.where(distance > 0, np.exp(-(distance**2) / (2 * scale**2)), 0.0)
    network = gtv.ConvexClustering(points).network
    np.testing.assert_allclose(nx.to_numpy_array(network.to_networkx()), expected, rtol=1e-9)
    np.testing.assert_array_equal(network.coordinates, points)


def test_phi_is_the_rate_of_decay_and_zero_means_equal_weights():
    points = [[0.0], [1.0], [3.0]]
    assert gtv.ConvexClustering(points, phi=0.0).network.weights.tolist() == [1.0, 1.0, 1.0]
    weights = gtv.ConvexClustering(points, phi=0.5).network.weights
    np.testing.assert_allclose(weights, np.exp([-0.5, -4.5, -2.0]))


def test_weights_come_in_many_forms():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0], [4.0, 4.0]])
    edges = [(0, 1, 0.5), (1, 2, 2.0), (2, 3, 1.0)]
    matrix = np.zeros((4, 4))
    graph = nx.Graph()
    graph.add_nodes_from(range(4))
    graph.add_weighted_edges_from(edges)
    for i, j, weight in edges:
        matrix[i, j] = matrix[j, i] = weight
    table = pd.DataFrame(edges, columns=["from", "to", "weight"])
    forms = [edges, np.array(edges), table, matrix, sparse.csr_matrix(matrix), sparse.csr_array(matrix), graph]
    forms += [gtv.FLNetwork.from_edges(edges), gtv.FLNetwork(graph)]
    expected = gtv.ConvexClustering(points, edges, lam=0.3).solve(gap=1e-10).weights
    for weights in forms:
        problem = gtv.ConvexClustering(points, weights, lam=0.3)
        assert edge_list(problem) == edges
        np.testing.assert_allclose(problem.solve(gap=1e-10).weights, expected, atol=1e-4)


def test_three_edges_among_three_points_are_no_matrix():
    edges = [(0, 1, 1.0), (0, 2, 1.0), (1, 2, 3.0)]
    assert edge_list(gtv.ConvexClustering([[0.0], [1.0], [5.0]], edges)) == edges


def test_rows_of_a_frame_find_their_nodes():
    frame = pd.DataFrame({"x": [0.0, 1.0, 9.0]}, index=["a", "b", "c"])
    network = gtv.FLNetwork.from_edges([("c", "b", 1.0), ("b", "a", 1.0)])
    problem = gtv.ConvexClustering(frame, network, lam=0.0)
    assert problem.network is network
    np.testing.assert_allclose(problem.solve()["c"], [9.0])
    isolated = pd.concat([frame, pd.DataFrame({"x": [4.0]}, index=["d"])])
    with pytest.warns(DisconnectedWarning, match=r"'d' \(of 1\)"):
        assert gtv.ConvexClustering(isolated, [("a", "b", 1.0), ("b", "c", 1.0)]).network.nodes == tuple("abcd")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"weights": gtv.FLNetwork.from_edges([(0, 1)])}, ValueError, "weights has 2 nodes for 3 points"),
        ({"weights": gtv.FLNetwork.from_edges([(2, 0), (0, 1)])}, ValueError, "in another order than the rows"),
        ({"weights": [(0, 1, 1.0), (1, 7, 1.0)]}, ValueError, "7 is missing from nodes"),
        ({"weights": [(0, 1, -1.0), (1, 2, 1.0)]}, ValueError, r"edge \(0, 1\) has weight -1"),
        ({"weights": [(0, 1), (1, 2)], "k": 3}, ValueError, "k and phi belong to the default weights"),
        ({"weights": [(0, 1), (1, 2)], "phi": 1.0}, ValueError, "k and phi belong to the default weights"),
        ({"k": 3}, ValueError, "k must be less than the number of points"),
        ({"k": 1.5}, TypeError, "k must be an integer"),
        ({"phi": -1.0}, ValueError, "phi must be a finite number >= 0"),
        ({"phi": 1e6}, ValueError, "all Gaussian weights underflow to 0, since the closest points are 1 apart"),
        ({"lam": -1.0}, ValueError, "lam must be a finite number >= 0"),
        ({"p": 3}, ValueError, "p must be 1, 2 or inf"),
    ],
)
def test_what_does_not_fit_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        gtv.ConvexClustering([[0.0], [1.0], [3.0]], **arguments)


def test_a_node_that_the_frame_lacks_is_named():
    frame = pd.DataFrame({"x": [0.0, 1.0]}, index=["a", "b"])
    with pytest.raises(ValueError, match="node 'z', which is no row label"):
        gtv.ConvexClustering(frame, gtv.FLNetwork.from_edges([("a", "z")]))


def test_points_are_not_changed():
    points = np.array([[0, 0], [3, 4], [6, 8]])
    before = points.copy()
    gtv.ConvexClustering(points).solve()
    np.testing.assert_array_equal(points, before)


# --- clusters ---------------------------------------------------------------------------------------------------------


def blocks(seed=0, labelled=1.0, rows=5):
    """Four regions of 100 devices with a level each, one edge between one and the next."""
    rng = np.random.default_rng(seed)
    corners = np.array([[0.0, 0.0], [1.3, 0.0], [0.0, 1.3], [1.3, 1.3]])
    places = np.concatenate([corner + rng.uniform(size=(100, 2)) for corner in corners])
    region = np.repeat(np.arange(4), 100)
    near = gtv.FLNetwork.knn(places, 6)
    inside = region[near.tail] == region[near.head]
    edges = [*np.column_stack([near.tail, near.head])[inside].tolist(), [0, 100], [100, 200], [200, 300]]
    levels = 2.0 * rng.normal(size=(4, 3))
    losses = []
    for k in region:
        X = rng.normal(size=(rows, 3))
        data = gtv.SquaredError(X, X @ levels[k] + 0.5 * rng.normal(size=rows))
        losses.append(data if rng.uniform() < labelled else gtv.Zero(3))
    return gtv.FLNetwork.from_edges(edges, nodes=range(400)), losses, region


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("labelled", [1.0, 0.3])
def test_planted_regions_are_found_at_every_gap(gap, p, labelled):
    network, losses, region = blocks(labelled=labelled)
    solution = gtv.NetworkLasso(network, losses, lam=2.0, p=p).solve(gap=gap)
    assert list(solution.clusters().values()) == region.tolist()


@pytest.mark.parametrize(("p", "rows"), [(1, 5), (2, 5), (np.inf, 5), (2, 2)])
def test_clusters_are_those_of_the_optimum(p, rows):
    """Many clusters close together: nearly all edges are judged as at an optimum that is known to 1e-12.

    With two rows for three parameters no loss is strongly convex.
    """
    network, losses, _ = blocks(rows=rows)
    problem = gtv.NetworkLasso(network, losses, lam=0.3, p=p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # interior points stall at some tolerance below what is needed here
        exact = problem.solve(method="cvxpy", gap=1e-9)
    jump = np.linalg.norm(exact.weights[network.head] - exact.weights[network.tail], axis=1)
    truth = jump < 1e-6
    assert 0.3 < truth.mean() < 0.99
    solution = problem.solve(gap=1e-6)
    assert np.isinf(solution.certificate.radius).all() == (rows < 3)
    labels = np.array(list(solution.clusters().values()))
    together = labels[network.tail] == labels[network.head]
    assert np.mean(together != truth) < 0.02


def test_what_has_fused_altogether_is_one_cluster():
    """Where all parameters agree to rounding, their spread is no scale."""
    points = make_moons(30, noise=0.1, random_state=0)[0] + 1e3
    for gap in (1e-4, 1e-8):
        assert n_clusters(gtv.ConvexClustering(points, lam=1e3, k=9).solve(gap=gap)) == 1


def test_no_edge_that_is_proved_split_is_joined():
    points = make_moons(60, noise=0.1, random_state=0)[0]
    solution = gtv.ConvexClustering(points, lam=0.1, k=5).solve(gap=1e-3)
    net, W, radius = solution.problem.network, solution.weights, solution.certificate.radius
    split = np.linalg.norm(W[net.tail] - W[net.head], axis=1) > np.hypot(radius[net.tail], radius[net.head])
    assert split.any()
    assert not (split & fused_edges(solution.problem, solution.certificate)).any()


def fused(points, W, flow, lam):
    """What is said of one edge of weight 1, given centroids and the flow along it."""
    problem = gtv.ConvexClustering(np.array(points)[:, None], [(0, 1, 1.0)], lam=lam)
    return fused_edges(problem, gtv.certify(problem, np.array(W)[:, None], [[flow]])).tolist() == [True]


def test_a_flow_inside_its_ball_holds_an_edge_together():
    # the same centroids, a tenth apart: the flow of 1/2 that would fuse them is well below 5, and all of 1/2
    assert fused([0.0, 1.0], [0.45, 0.55], 0.5, lam=5.0)
    assert not fused([0.0, 1.0], [0.45, 0.55], 0.5, lam=0.5)
    assert not fused([0.0, 1.0], [0.45, 0.55], 0.498, lam=0.5)


def test_a_flow_inside_its_ball_does_not_hold_what_is_proved_split():
    # optimal centroids and nearly the flow: the gap of 0.06 proves them apart by more than 2
    assert not fused([0.0, 5.0], [1.0, 4.0], 0.98, lam=1.0)


def test_a_smooth_penalty_holds_nothing_together():
    losses = [0.5 * gtv.SquaredDistance([x]) for x in (0.0, 1.0)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    certificate = gtv.certify(problem, [[0.45], [0.55]], [[0.4]])
    assert not fused_edges(problem, certificate).any()


def test_numbers_that_differ_by_rounding_are_equal():
    assert fused([0.1 + 0.2, 0.3], [0.1 + 0.2, 0.3], 0.0, lam=0.0)


def test_edges_of_every_family_join():
    losses = [0.5 * gtv.SquaredDistance([x]) for x in (0.0, 1.0, 9.0, 10.0)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)], nodes=range(4)), losses, penalty=gtv.Norm(1), alpha=5.0)
    both = problem.couple(gtv.FLNetwork.from_edges([(2, 3)], nodes=range(4)), penalty=gtv.Norm(2), alpha=5.0)
    assert both.solve().clusters() == {0: 0, 1: 0, 2: 1, 3: 1}


def test_without_coupling_only_equal_neighbours_are_together():
    solution = gtv.ConvexClustering([[1.0], [1.0], [2.0]], lam=0.0, phi=0.0).solve()
    assert solution.clusters() == {0: 0, 1: 0, 2: 1}


def test_a_tolerance_must_be_a_number_of_at_least_zero():
    solution = gtv.ConvexClustering([[1.0], [2.0]]).solve()
    with pytest.raises(ValueError, match="tolerance must be a finite number >= 0"):
        solution.clusters(tolerance=-1.0)


def test_large_clusterings_of_neighbours_go_to_admm() -> None:
    points = np.random.default_rng(0).normal(size=(1200, 2))
    problem = gtv.ConvexClustering(points, k=8, phi=0.0, lam=0.1)
    assert choose_method(problem.lowered.solver_form) == "admm"
    solution = problem.solve(gap=1e-7)
    assert (solution.method, solution.is_certified) == ("admm", True)
    other = problem.solve("adaptive_primal_dual", gap=1e-7)
    assert solution.objective == pytest.approx(other.objective, rel=2e-7)


@pytest.mark.parametrize("scale", [1e-300, 1e160, 1e308])
def test_points_at_the_ends_of_the_range_of_doubles_are_declared_in_silence(scale):
    points = scale * np.linspace(0.5, 1.0, 9)[:, None]
    assert gtv.ConvexClustering(points, [(i, i + 1, 1.0) for i in range(8)]).network.n_edges == 8
