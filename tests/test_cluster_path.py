"""The path of convex clustering: its merge tree against known hierarchies, splits, bounds, tables and figures."""

from __future__ import annotations

import io
from itertools import pairwise

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.datasets import make_moons

import gtvmin as gtv
from gtvmin.clustering.grid import _placed
from gtvmin.clustering.merge_range import merge_range
from gtvmin.clustering.merge_tree import follow, longest_lasting
from gtvmin.clustering.problem import points_of
from gtvmin.errors import ConvergenceWarning, DisconnectedWarning, GtvminWarning, HierarchyError
from gtvmin.plotting import plot_dendrogram, plot_network, plot_paths
from test_clustering import NORMS, edge_list, optimum

LINE = [[0.0], [1.0], [5.0]]
"""With weights 1 the first two meet at lam = 1/2, and with the third at lam = 3/2."""


def line_path(lams=(0.1, 0.4, 0.6, 1.0, 2.0), points=LINE, **arguments):
    return gtv.clusterpath(points, lams, k=len(points) - 1, phi=0.0, **arguments)


def merges_on_a_line(points):
    """(lam, members of the new cluster) of the fused Lasso on a complete graph with weights 1, from its closed form.

    A cluster with L points to its left and R to its right stands at its mean plus lam (R - L), so that neighbours of
    sizes n and m meet where the difference of their means is lam (n + m).
    """
    groups = [[i] for i in np.argsort(points)]
    found = []
    while len(groups) > 1:
        meet = [
            (np.mean(points[right]) - np.mean(points[left])) / (len(left) + len(right))
            for left, right in pairwise(groups)
        ]
        k = int(np.argmin(meet))
        groups[k : k + 2] = [groups[k] + groups[k + 1]]
        found.append((meet[k], frozenset(int(i) for i in groups[k])))
    return found


def members(linkage):
    n = len(linkage) + 1
    below = [frozenset([i]) for i in range(n)]
    for left, right, _, size in linkage:
        below.append(below[int(left)] | below[int(right)])
        assert len(below[-1]) == size
    return below[n:]


@given(st.lists(st.floats(-3.0, 3.0), min_size=2, max_size=9, unique=True))
@settings(max_examples=20)
def test_the_tree_on_a_line_is_that_of_the_closed_form(values):
    points = np.array(values)
    expected = merges_on_a_line(points)
    lams = np.array([lam for lam, _ in expected])
    # merges far enough from one another to lie apart on a grid
    assume(lams[0] > 1e-2 and np.diff(lams).min(initial=np.inf) > 0.01 * lams[-1])
    grid = np.append((lams[1:] + lams[:-1]) / 2, 1.1 * lams[-1])
    path = line_path(grid, points[:, None], p=1, gap=1e-11)
    assert path.is_hierarchy
    assert members(path.linkage) == [cluster for _, cluster in expected]
    np.testing.assert_allclose(path.linkage[:, 2], grid)
    assert path.n_clusters.tolist() == list(range(len(points) - 1, 0, -1))


@pytest.mark.parametrize("p", NORMS)
def test_every_point_of_the_path_is_an_optimum(p):
    points = make_moons(25, noise=0.1, random_state=0)[0]
    path = gtv.clusterpath(points, np.geomspace(0.02, 3.0, 6), p=p, k=4)
    assert path.W.shape == (6, 25, 2)
    assert path.relative_gaps.max() <= 1e-6
    for lam, W in zip(path.lams, path.W, strict=True):
        value, _ = optimum(points, edge_list(path.problem), lam, p)
        assert path.problem.with_alpha(lam).objective(W) == pytest.approx(value, rel=2e-6)


@pytest.mark.parametrize("p", NORMS)
def test_the_default_grid_goes_from_the_points_to_one_cluster(p):
    points = make_moons(30, noise=0.1, random_state=3)[0]
    path = gtv.clusterpath(points, p=p, k=5, n_lams=40)
    assert path.lams[0] == 0.0
    np.testing.assert_allclose(path.W[0], points, atol=1e-12)
    assert (np.diff(path.lams) > 0).all()
    assert 30 <= len(path.lams) <= 45
    assert (path.n_clusters[:2].tolist(), path.n_clusters[-2:].tolist()[1]) == ([30, 30], 1)
    assert path.n_clusters[-2] > 1
    # the mean is not moved, and the tree is one that SciPy accepts and cuts as the path has it
    np.testing.assert_allclose(path.W[-1], np.tile(points.mean(axis=0), (30, 1)), atol=1e-3)
    assert is_valid_linkage(path.linkage)
    for lam, labels in zip(path.lams[1:], path.labels[1:], strict=True):
        cut = fcluster(path.linkage, lam, "distance")
        assert len(set(zip(cut.tolist(), labels.tolist(), strict=True))) == len(set(cut)) == labels.max() + 1


def four_groups(seed=0):
    """Forty points in four far groups: weights between these are 1e-8 of those inside, and merges 6 decades later."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(10, 2)) + 6.0 * np.array(place) for place in np.ndindex(2, 2)])


def test_the_default_grid_shows_merges_at_all_scales():
    path = gtv.clusterpath(four_groups(), k=39, phi=0.5, n_lams=60)
    lams, counts = path.lams[1:], path.n_clusters[1:]
    assert lams[-1] / lams[0] > 1e7
    assert set(counts) >= {40, 4, 3, 1}
    # of the merges inside groups, at most a third at any one strength
    inside = counts[counts >= 4]
    assert len(set(inside)) >= 12
    assert -np.diff(inside).min() <= 12
    assert path.relative_gaps.max() <= 1e-6


def test_strengths_divide_logarithms_of_strength_and_clusters_alike():
    """From 1 to 10 only lam grows, and to 100 the number falls from 8 to 1: an eighth and seven of the progress."""
    lams = _placed(np.array([1.0, 10.0, 100.0]), np.array([8, 8, 1]), 9)
    assert lams == pytest.approx([1.0, *np.geomspace(10.0, 100.0, 8)])
    # where clusters part again, the path has merged them all the same
    assert _placed(np.array([1.0, 10.0, 100.0]), np.array([8, 2, 4]), 2) == pytest.approx([1.0, 100.0])
    assert _placed(np.array([3.0]), np.array([2]), 5) == [3.0]


def test_the_number_of_strengths_is_about_the_one_asked_for():
    points = four_groups()
    for n_lams in (1, 2, 3, 12, 150):
        path = gtv.clusterpath(points, k=39, phi=0.05, n_lams=n_lams, gap=1e-5)
        assert path.n_clusters[-1] == 1
        assert len(path.lams) <= n_lams + 25
        assert len(path.lams) >= 0.8 * n_lams


@pytest.mark.parametrize("p", NORMS)
def test_the_range_of_merges_holds_all_of_them(p):
    points = np.random.default_rng(0).normal(size=(9, 2))
    problem = gtv.ConvexClustering(points, lam=1.0, p=p, k=3)
    first, last = merge_range(problem)
    net = problem.network
    _, before = optimum(points, edge_list(problem), 0.9 * first, p)
    assert np.linalg.norm(before[net.head] - before[net.tail], axis=1).min() > 1e-4
    _, after = optimum(points, edge_list(problem), 1.01 * last, p)
    np.testing.assert_allclose(after, np.tile(points.mean(axis=0), (9, 1)), atol=1e-5)
    assert first < last


def test_the_range_of_two_points_is_where_they_meet():
    first, last = merge_range(gtv.ConvexClustering([[0.0, 0.0], [3.0, 4.0]], [(0, 1, 2.0)]))
    assert (first, last) == (pytest.approx(1.25), pytest.approx(1.25))


def test_the_range_of_three_points():
    """Degrees are 2, and the flows of least squares between the points at 0, 1 and 5 are a third of the distances."""
    first, last = merge_range(gtv.ConvexClustering(LINE, phi=0.0))
    assert (first, last) == (pytest.approx(1 / 4), pytest.approx(5 / 3))


def test_each_solution_is_the_start_of_the_next():
    records = []
    line_path([1.0, 1.0 + 1e-7], progress=records.append, gap=1e-9, method="admm")
    first, second = (k for k, record in enumerate(records) if record.iteration == records[0].iteration)
    assert records[first].relative_gap > 1e-3
    assert records[second].relative_gap < 1e-6


def test_components_are_a_forest(shared_data):
    """C34, djwtouw/CCMM-paper, arXiv 2211.01877."""
    points = pd.read_csv(shared_data / "ccmm_connectedness_points.csv")[["x1", "x2"]]
    weights = pd.read_csv(shared_data / "ccmm_connectedness_knn3_weights.csv")
    with pytest.warns(DisconnectedWarning):
        path = gtv.clusterpath(points, [0.1, 1.0, 10.0, 1000.0], weights=weights, gap=1e-8)
    assert (path.n_components, path.n_clusters.tolist()) == (4, [58, 7, 4, 4])
    assert np.isinf(path.linkage[:, 2]).tolist() == [False] * 71 + [True] * 3
    assert sorted(len(cluster) for cluster in path_sets(path.at(4))) == [5, 15, 26, 29]
    graph = nx.Graph(list(zip(weights["i"], weights["j"], strict=True)))
    assert path_sets(path.at(4)) == {frozenset(c) for c in nx.connected_components(graph)}
    with pytest.raises(ValueError, match="no lam up to 1000 gives 2 clusters, the least is 4: the weights have 4 comp"):
        path.at(2)
    with pytest.raises(ValueError, match="there are 7 at lam=1 and 4 at lam=10; give lams between"):
        path.at(5)
    axes = draw(plot_dendrogram(path, ax=Figure().add_subplot()))
    assert axes.get_title(loc="left") == "75 nodes, 4 components, which no lam joins (dashed)"


def path_sets(clusters):
    found = {}
    for node, number in clusters.items():
        found.setdefault(number, set()).add(node)
    return {frozenset(nodes) for nodes in found.values()}


def crossing_path(**arguments):
    """Two points that far ones pull past each other: they meet at lam = 0.01 / 6, and part again at 0.01 / 2.

    At 0.004 the flow between them is |0.005 - 2 lam| = 0.003 < lam, at 0.006 it would be 0.007 > lam.
    """
    points = pd.DataFrame({"x": [0.0, 0.01, 10.0, -10.0]}, index=["left", "right", "far right", "far left"])
    weights = [("left", "right", 1.0), ("left", "far right", 2.0), ("right", "far left", 2.0)]
    return gtv.clusterpath(points, [0.001, 0.004, 0.006, 0.02], weights=weights, gap=1e-11, **arguments)


def test_a_split_is_no_hierarchy():
    path = crossing_path()
    assert path.n_clusters.tolist() == [4, 3, 4, 4]
    assert not path.is_hierarchy
    assert path.splits == ((0.006, "left", "right"),)
    message = "nodes 'left' and 'right' are in one cluster before lam=0.006 and in two clusters there"
    with pytest.raises(HierarchyError, match=message):
        _ = path.linkage
    with pytest.raises(HierarchyError, match=message):
        plot_dendrogram(path)
    assert path.at(3) == {"left": 0, "right": 0, "far right": 1, "far left": 2}
    assert "1 splits" in repr(path)


def test_pieces_stay_together_until_they_are_proved_to_have_parted():
    """Means of two pieces of masses 2 and 1 are off by at most sqrt(2 gap (1/2 + 1)) = 0.3 at a gap of 0.03."""
    before, now = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 2])
    W, mass = np.array([[0.1], [-0.1], [0.0], [7.0]]), np.ones(4)
    for distance, expected, parted in ((0.29, [0, 0, 0, 1], []), (0.31, [0, 0, 1, 2], [[0, 2]])):
        W[2] = distance
        labels, pairs = follow(before, now, W, mass, 0.03)
        assert (labels.tolist(), pairs.tolist()) == (expected, parted)
    # where masses differ, means are weighted by them: at (3 * 0.1 + 0.5) / 4 = 0.2 and 0.5, off by up to sqrt(0.05)
    masses = np.array([3.0, 1.0, 1.0, 1.0])
    labels, pairs = follow(before, now, np.array([[0.1], [0.5], [0.5], [7.0]]), masses, 0.02)
    assert (labels.tolist(), pairs.tolist()) == ([0, 0, 1, 2], [[0, 2]])
    # nothing is known of devices whose losses are not strongly convex
    labels, pairs = follow(before, now, W + 1.0, np.array([1.0, 1.0, 0.0, 1.0]), 0.0)
    assert (labels.tolist(), pairs.tolist()) == ([0, 0, 0, 1], [])


def test_the_longest_run_on_the_scale_of_logarithms():
    lams = np.array([0.0, 1.0, 2.0, 3.0, 30.0, 50.0, 90.0, 1e3, 1e9])
    counts = np.array([9, 9, 6, 5, 3, 3, 2, 1, 1])
    assert longest_lasting(lams, counts, 9) == 2  # from 90 to 1,000
    assert longest_lasting(lams, np.array([9, 9, 6, 5, 3, 3, 3, 1, 1]), 9) == 3  # from 30 to 1,000
    assert longest_lasting(lams, counts, 6) == 2
    assert longest_lasting(lams[:6], counts[:6], 9) == 5  # from 3 to 30; that of 3 may go on
    assert longest_lasting(lams[:6], counts[:6], 4) is None
    assert longest_lasting(lams[2:], counts[2:], 9) == 2
    assert longest_lasting(lams[2:5], counts[2:5], 9) == 5
    assert longest_lasting(lams[:2], counts[:2], 9) is None


def test_the_most_persistent_number_of_clusters_cuts_the_path():
    path = gtv.clusterpath(four_groups(), k=39, phi=0.2)
    assert path.persistent_n_clusters == 4
    np.testing.assert_array_equal(path.cut(), np.repeat(np.arange(4), 10))
    np.testing.assert_array_equal(path.cut(2), list(path.at(2).values()))
    with pytest.raises(ValueError, match="n_clusters must be at most the number of nodes, 40, got 1000"):
        path.cut(1000)
    short = gtv.clusterpath(four_groups(), path.lams[1:4], k=39, phi=0.2)
    with pytest.raises(ValueError, match="show no number of clusters from 2 to 20 from begin to end"):
        short.cut()
    with pytest.warns(DisconnectedWarning):
        apart = gtv.clusterpath(four_groups(), k=4)
    assert apart.persistent_n_clusters == apart.n_components > 1


def test_pieces_may_join_other_clusters_when_they_part():
    labels, pairs = follow(np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([[0.0], [1.0], [1.0]]), np.ones(3), 0.0)
    assert (labels.tolist(), pairs.tolist()) == ([0, 1, 1], [[0, 1]])


def test_merges_at_one_lam_are_in_order_of_distance():
    points = np.array([[0.0], [10.0], [10.3], [2.0]])
    path = line_path([0.0, 100.0], points)
    assert members(path.linkage) == [frozenset({1, 2}), frozenset({0, 3}), frozenset(range(4))]
    assert path.linkage[:, 2].tolist() == [100.0] * 3


def test_what_the_grid_does_not_reach_is_joined_at_infinity():
    path = line_path([0.1, 0.6])
    assert path.linkage.tolist() == [[0, 1, 0.6, 2], [2, 3, np.inf, 3]]
    with pytest.raises(ValueError, match=r"no lam up to 0.6 gives 1 clusters, the least is 2: go on from there"):
        path.at(1)
    axes = draw(plot_dendrogram(path, ax=Figure().add_subplot()))
    assert axes.get_title(loc="left") == "3 nodes, 2 clusters left at 0.6 (dashed)"


def test_copies_are_one_cluster_from_the_start():
    path = gtv.clusterpath([[1.0], [1.0], [4.0]])
    assert path.linkage[0].tolist() == [0, 1, 0, 2]
    assert path.n_clusters[-1] == 1
    assert gtv.clusterpath([[1.0, 2.0]] * 3).lams.tolist() == [0.0]
    assert gtv.clusterpath([[1.0, 2.0]]).linkage.shape == (0, 4)


def test_a_frame_keeps_labels():
    points = pd.DataFrame(LINE, index=["a", "b", "c"])
    path = line_path(points=points)
    frame = path.to_frame()
    assert list(frame.columns) == ["cluster", "w0"]
    assert frame.index.names == ["lam", "node"]
    assert frame.loc[(0.6, "b"), "cluster"] == 0
    np.testing.assert_array_equal(frame["w0"].unstack()[["a", "b", "c"]], path.W[:, :, 0])
    assert path.at(2) == {"a": 0, "b": 0, "c": 1}
    assert path.position(2) == 2
    pairs = gtv.FLNetwork.from_edges([(("Turku", 1), ("Turku", 2))])
    frame = gtv.clusterpath([[0.0], [1.0]], [0.1], weights=pairs).to_frame()
    assert frame.index.tolist() == [(0.1, ("Turku", 1)), (0.1, ("Turku", 2))]


def test_other_losses_have_a_path_too():
    losses = [gtv.Logistic([[1.0]], [label]) + 0.1 * gtv.SquaredDistance([0.0]) for label in (1, 1, -1)]
    problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, lam=1.0)
    path = gtv.clusterpath(problem, [0.01, 0.1, 10.0])
    assert path.n_clusters.tolist() == [2, 2, 1]
    with pytest.raises(ValueError, match=r"a grid is chosen for ConvexClustering\(\.\.\.\) problems only"):
        gtv.clusterpath(problem)


def test_options_reach_the_solver():
    with pytest.warns(ConvergenceWarning):
        path = line_path([1.0], max_iter=1, gap=1e-12)
    assert path.relative_gaps[0] > 1e-12
    assert line_path([0.4], method="cvxpy").W[0, :, 0] == pytest.approx([0.8, 1.0, 4.2], abs=1e-5)


@pytest.mark.parametrize(
    ("lams", "message"),
    [
        ([0.2, 0.1], "lams must increase from at least 0, but position 1 has 0.1"),
        ([0.1, 0.1], "lams must increase"),
        ([-1.0, 2.0], "lams must increase from at least 0, but position 0 has -1"),
        ([], "lams must be a list of at least one number"),
        ([np.nan], "lams has a nan value at position 0"),
    ],
)
def test_strengths_that_do_not_increase(lams, message):
    with pytest.raises(ValueError, match=message):
        gtv.clusterpath(LINE, lams)


def test_a_problem_has_its_own_weights():
    with pytest.raises(ValueError, match="weights, p, k and phi belong to points"):
        gtv.clusterpath(gtv.ConvexClustering(LINE), p=1)


# --- figures ----------------------------------------------------------------------------------------------------------


def draw(axes):
    axes.figure.savefig(io.BytesIO(), format="png")
    return axes


def lines(axes):
    return [artist for artist in axes.collections if isinstance(artist, LineCollection)]


@pytest.fixture(scope="module")
def moons_path():
    return gtv.clusterpath(make_moons(70, noise=0.05, random_state=0)[0], k=6, n_lams=60)


def test_branches_meet_at_their_lam():
    axes = draw(plot_dendrogram(line_path(), ax=Figure().add_subplot()))
    solid, dashed = lines(axes)
    tops = sorted(segment[:, 1].max() for segment in solid.get_segments())
    assert tops == [0.6, 2.0]
    assert dashed.get_segments() == []
    assert sorted(label.get_text() for label in axes.get_xticklabels()) == ["0", "1", "2"]


def test_clusters_of_a_cut_have_colours(moons_path):
    counts = moons_path.n_clusters
    wanted = int(counts[(counts > 1) & (counts < 8)].max())
    axes = draw(plot_dendrogram(moons_path, n_clusters=wanted, max_leaves=100, ax=Figure().add_subplot()))
    assert axes.get_yscale() == "log"
    cut = axes.lines[0].get_ydata()[0]
    position = moons_path.position(wanted)
    assert moons_path.lams[position] < cut < moons_path.lams[position + 1]
    segments, colours = lines(axes)[0].get_segments(), [to_hex(c) for c in lines(axes)[0].get_colors()]
    above = {c for s, c in zip(segments, colours, strict=True) if s[:, 1].max() > cut}
    below = {c for s, c in zip(segments, colours, strict=True) if s[:, 1].max() < cut}
    assert above == {"#20262e"}
    assert not above & below
    assert len(below) == min(6, sum(size > 1 for size in np.bincount(list(moons_path.at(wanted).values()))))


def test_a_large_tree_is_cut_to_its_last_merges(moons_path):
    axes = draw(plot_dendrogram(moons_path, max_leaves=10, ax=Figure().add_subplot()))
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == 10
    assert sum(int(label.strip("()")) if label.startswith("(") else 1 for label in labels) == 70


def test_ways_lead_from_the_points_to_the_mean(moons_path):
    axes = draw(plot_paths(moons_path, ax=Figure().add_subplot()))
    ways = lines(axes)[0].get_segments()
    assert len(ways) == 70
    np.testing.assert_array_equal(np.array(ways)[:, 0], moons_path.W[0])
    starts, end = (artist for artist in axes.collections if isinstance(artist, PathCollection))
    np.testing.assert_array_equal(starts.get_offsets(), moons_path.W[0])
    assert len(end.get_offsets()) == 1
    swapped = plot_paths(moons_path, dims=(1, 0), ax=Figure().add_subplot())
    np.testing.assert_array_equal(np.array(lines(swapped)[0].get_segments())[:, 0], moons_path.W[0][:, ::-1])


def test_points_on_a_line_are_drawn_against_lam():
    path = line_path()
    axes = draw(plot_paths(path, ax=Figure().add_subplot()))
    np.testing.assert_array_equal(np.array(lines(axes)[0].get_segments())[0, :, 0], path.lams)
    assert axes.get_xlabel() == "lam"


def test_figures_without_axes_are_new_ones(moons_path):
    for plot in (plot_dendrogram, plot_paths):
        axes = plot(moons_path)
        assert axes.figure is plt.gcf()
        plt.close(axes.figure)


def test_points_are_not_drawn_as_devices_without_data():
    axes = draw(plot_network(gtv.ConvexClustering([[0.0, 0.0], [1.0, 2.0]]).solve(), ax=Figure().add_subplot()))
    assert axes.get_legend() is None or "device without data" not in [
        t.get_text() for t in axes.get_legend().get_texts()
    ]
    assert len([artist for artist in axes.collections if isinstance(artist, PathCollection)]) == 1


@pytest.mark.parametrize("dims", [(0, 2), (0,), (0, 0.5), (-1, 0)])
def test_dims_are_two_coordinates(moons_path, dims):
    with pytest.raises(ValueError, match="dims must be two of the coordinates 0 to 1"):
        plot_paths(moons_path, dims=dims)


def test_one_node_has_no_tree():
    with pytest.raises(ValueError, match="one node"):
        plot_dendrogram(gtv.clusterpath([[1.0]]))


# --- far from the origin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", NORMS)
def test_a_path_does_not_depend_on_the_origin(p):
    """Numbers at 2^27 are multiples of 2^-26: so are these points, which no shift rounds."""
    rng = np.random.default_rng(1)
    points = np.round(rng.normal(size=(24, 2)) * 2**20) / 2**20 + np.repeat([[0.0, 0.0], [6.0, 1.0]], 12, axis=0)
    lams = np.geomspace(0.01, 8.0, 9)
    near, far = (gtv.clusterpath(points + shift, lams, k=5, p=p) for shift in (0.0, 2.0**27))
    assert far.n_clusters.tolist() == near.n_clusters.tolist()
    assert (far.labels == near.labels).all()
    assert far.relative_gaps.max() <= 1e-6
    np.testing.assert_allclose(far.W - 2.0**27, near.W, atol=3e-3)
    # judged near the origin, parameters far from it are as good, but for the last digits that they have there
    for lam, W, expected in zip(lams, far.W, near.W, strict=True):
        problem = near.problem.with_alpha(lam)
        assert problem.objective(W - 2.0**27) <= problem.objective(expected) * (1 + 2e-6) + 1e-5
    np.testing.assert_array_equal(points_of(far.problem), points + 2.0**27)


def test_a_problem_far_from_the_origin_is_warned_of():
    points = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.warns(GtvminWarning, match=r"the points lie \de\+04 times as far from the origin.*Subtract their mean"):
        gtv.ConvexClustering(points + 1e5)
    gtv.ConvexClustering(points + 1e3)
    gtv.ConvexClustering(np.full((3, 2), 1e9))
