"""Cases from public trackers: edge cases of graphs, convex clustering, and devices without data.

What concerns the graph alone is in test_network.py and test_neighbours.py; here problems on such graphs are solved.
"""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import gtvmin as gtv
from gtvmin.errors import MissingLossWarning, NotUniqueWarning
from models import FITTING, PENALTIES, half_squares, point_problem, scalar_problem


@pytest.mark.parametrize(
    ("penalty", "optimum", "parameters"),
    [("l1", 24.0, (4.0, 6.0)), ("sq", 400 / 17, (80 / 17, 90 / 17))],
)
def test_c24_parallel_edges_add_up(penalty: str, optimum: float, parameters: tuple[float, float]) -> None:
    """C24, networkx issue #598, Gurobi/gurobi-optimods issue #155: weights 1 and 3 are a weight of 4, not of 3."""
    multigraph = nx.MultiGraph([(0, 1, {"weight": 1.0}), (0, 1, {"weight": 3.0})])
    targets = {0: 0.0, 1: 10.0}
    with pytest.raises(ValueError, match="multigraph: sum the weights of parallel edges"):
        scalar_problem(multigraph, targets, penalty, 1.0)
    merged = gtv.FLNetwork(nx.to_numpy_array(multigraph))  # which sums them
    solution = scalar_problem(merged, targets, penalty, 1.0).solve(gap=1e-11)
    assert solution.objective == pytest.approx(optimum, rel=1e-9)
    assert solution.weights.ravel() == pytest.approx(parameters, abs=1e-4)


def test_c26_zero_entries_couple_nothing() -> None:
    """C26, networkx issues #4876 and #5904, romain-montagne/vrpy issue #100: dense or stored, 0 is no coupling."""
    dense = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    rows, columns = np.nonzero(~np.eye(3, dtype=bool))
    stored = sparse.csr_array((dense[rows, columns], (rows, columns)), shape=(3, 3))
    targets = {0: 0.0, 1: 5.0, 2: 1.0}
    for matrix in (dense, stored, nx.from_numpy_array(dense)):
        solution = scalar_problem(matrix, targets, "l2", 1.0).solve(gap=1e-10)
        # 0 and 2 are joined with capacity 2 and meet in the middle; 1 stays
        assert solution.objective == pytest.approx(0.25, rel=1e-9)
        assert solution.weights.ravel() == pytest.approx([0.5, 5.0, 0.5], abs=1e-4)
        with pytest.raises(ValueError, match=r"\(0, 1\) is not an edge"):
            solution.flow(0, 1)


def test_c29_negative_alpha() -> None:
    """C29, scipy issue #22685: like negative weights, it would reward disagreement."""
    with pytest.raises(ValueError, match=r"alpha must be a finite number >= 0, got -1\.0"):
        scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, "sq", -1.0)
    with pytest.raises(ValueError, match="lam must be a finite number >= 0"):
        gtv.NetworkLasso(nx.path_graph(2), [half_squares([[1.0]], [0.0])] * 2, lam=-0.5)
    problem = scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, "sq", 1.0)
    with pytest.raises(ValueError, match="alpha must be"):
        problem.with_alpha(-1e-9)


@pytest.mark.parametrize(("penalty", "method"), [*FITTING, *((penalty, "cvxpy") for penalty in PENALTIES)])
def test_c30_one_node_and_no_edges(penalty: str, method: str) -> None:
    """C30, networkx issues #6571 and #6626, xgi issue #61: each device on its own, whatever alpha."""
    graph = nx.empty_graph(["only"])
    solution = scalar_problem(graph, {"only": 7.0}, penalty, 3.0).solve(method)
    assert solution["only"] == pytest.approx([7.0], abs=1e-6)
    assert solution.flows.shape == (0, 1)
    assert solution.certificate.per_edge.shape == (0,)
    assert 0 <= solution.gap < 1e-12
    assert solution.clusters() == {"only": 0}

    points = np.arange(8.0).reshape(4, 2)
    apart = point_problem(nx.empty_graph(4), points, penalty, 3.0).solve(method)
    assert apart.weights == pytest.approx(points, abs=1e-5)
    assert apart.is_certified
    assert apart.clusters() == {0: 0, 1: 1, 2: 2, 3: 3}


def test_c31_far_points_stay_apart() -> None:
    """C31, DataSlingers/clustRviz issue #57: the Gaussian weight exp(-100^2) is 0, and the graph falls apart."""
    points = np.array([[0.0, 0.0], [0.1, 0.0], [100.0, 0.0]])
    with pytest.raises(ValueError, match=r"edge \(0, 2\) at distance 100 has weight 0.*underflows"):
        gtv.FLNetwork.knn(points, 2, weights=lambda distance: np.exp(-(distance**2)))
    network = gtv.FLNetwork.from_edges([(0, 1, np.exp(-0.01))], nodes=range(3))
    assert network.components() == [(0, 1), (2,)]
    solution = point_problem(network, points, "l2", 1e6).solve(gap=1e-9)
    assert solution[2] == pytest.approx([100.0, 0.0], abs=1e-4)
    assert solution[0] == pytest.approx([0.05, 0.0], abs=1e-4)
    assert solution[1] == pytest.approx(solution[0], abs=1e-9)
    assert solution.objective == pytest.approx(0.0025, rel=1e-6)
    assert solution.clusters() == {0: 0, 1: 0, 2: 1}


def test_c32_table_with_row_labels() -> None:
    """C32, DataSlingers/clustRviz issue #54: 2,600 labelled rows took ten minutes and then failed."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(2600, 11)), index=[f"t{i}" for i in range(2600)])
    network = gtv.FLNetwork.knn(table, 5)
    solution = point_problem(network, table.to_numpy(), "l2", 0.05).solve(gap=1e-6)
    assert solution.is_certified
    assert set(solution.as_dict()) == set(table.index)
    frame = solution.to_frame()
    assert list(frame.index) == list(table.index)
    jumps = np.linalg.norm(frame.to_numpy()[network.head] - frame.to_numpy()[network.tail], axis=1)
    by_hand = 0.5 * ((frame.to_numpy() - table.to_numpy()) ** 2).sum() + 0.05 * jumps.sum()
    assert solution.objective == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize(
    ("alpha", "optimum", "clusters"),
    [(0.1, 2.393551839, None), (1.0, 6.172059644, 7), (10.0, 7.447761992, 4), (1e3, 7.447761992, 4)],
)
def test_c34_clusters_of_a_disconnected_graph(
    shared_data: Path, alpha: float, optimum: float, clusters: int | None
) -> None:
    """C34, djwtouw/CCMM-paper, arXiv 2211.01877: the path ends at the means of the four components."""
    points = pd.read_csv(shared_data / "ccmm_connectedness_points.csv")[["x1", "x2"]].to_numpy()
    edges = pd.read_csv(shared_data / "ccmm_connectedness_knn3_weights.csv")
    network = gtv.FLNetwork.from_edges(edges, nodes=range(75))
    solution = point_problem(network, points, "l2", alpha).solve(gap=1e-9)
    assert solution.objective == pytest.approx(optimum, abs=1e-8)
    assert solution.gap < 1e-7
    if clusters is not None:
        assert len(set(solution.clusters().values())) == clusters
    if clusters == 4:
        ends = [(1.875995, 0.013503), (0.837407, 0.874718), (-0.157417, 0.149076), (0.430156, -0.21949)]
        for component, end in zip(network.components(), ends, strict=True):
            for node in component:
                assert solution[node] == pytest.approx(end, abs=1e-4)


@pytest.mark.parametrize("declared_as", ["zero", "no rows"])
def test_c37_device_without_samples(declared_as: str) -> None:
    """C37, flower issues #7645, #7693, #7708, FedML issue #175: NaN models and divisions by zero."""
    empty = gtv.Zero(1) if declared_as == "zero" else gtv.SquaredError(np.empty((0, 1)), [])
    losses = [half_squares([[1.0]], [1.0]), empty, half_squares([[1.0]], [4.0])]
    graph = nx.path_graph(3)
    solution = gtv.GTVMin(graph, losses, penalty=gtv.SquaredNorm(), alpha=0.5).solve(gap=1e-12)
    assert solution.weights.ravel() == pytest.approx([1.75, 2.5, 3.25], abs=1e-6)
    assert solution.objective == pytest.approx(1.125, rel=1e-10)
    for p in (1, 2, np.inf):
        fused = gtv.GTVMin(graph, losses, penalty=gtv.Norm(p), alpha=0.5).solve(gap=1e-10)
        assert fused.objective == pytest.approx(1.25, rel=1e-9)
        first, middle, last = fused.weights.ravel()
        assert (first, last) == pytest.approx((1.5, 3.5), abs=1e-4)
        assert 1.5 - 1e-4 <= middle <= 3.5 + 1e-4
        assert fused.undetermined == ()


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c37_isolated_device_without_samples(penalty: str) -> None:
    """C37: what nothing determines is flagged, and is no NaN."""
    graph = nx.path_graph(3)
    graph.add_node("island")
    with pytest.warns(MissingLossWarning, match="the first is 'island'"):
        problem = gtv.GTVMin(
            graph, {i: half_squares([[1.0]], [i]) for i in range(3)}, penalty=PENALTIES[penalty], alpha=1
        )
    with pytest.warns(NotUniqueWarning, match="1 devices, the first is 'island'"):
        solution = problem.solve()
    assert solution.undetermined == ("island",)
    assert np.isfinite(solution.weights).all()
    assert solution.is_certified
