"""Cases from public trackers and papers' data: network lasso, graph total variation, strengths of the coupling.

Values were worked out by hand or by CVXPY with Clarabel, apart from the package.
"""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning
from models import FITTING, PENALTIES, half_squares, methods, point_problem, scalar_problem


@pytest.mark.parametrize(("lam", "optimum"), [(0.1, 112.904724), (1.0, 303.662513)])
def test_c06_house_sales(shared_data: Path, lam: float, optimum: float) -> None:
    """C06, the housing example of davidhallac/NetworkLasso: 985 sales, one row and one ridge regression a house.

    Missing floor areas are coded as 0, coordinates repeat, and the neighbour graph has five components.
    """
    table = pd.read_csv(shared_data / "sacramento_housing_2008.csv")
    raw = table[["beds", "baths", "sq__ft", "price"]].to_numpy(dtype=float)
    scores = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    places = table[["latitude", "longitude"]].to_numpy()
    network = gtv.FLNetwork.knn(places, 5, metric="haversine", weights=lambda miles: 1 / (miles + 0.1), radius=3961)
    losses = [
        gtv.Ridge([[*row[:3], 1.0]], [row[3]], lam=0.1, penalise=[1, 1, 1, 0], scale="sum")  # the intercept is free
        for row in scores
    ]
    solution = gtv.NetworkLasso(network, losses, lam=lam).solve(gap=1e-6)
    assert solution.is_certified
    assert solution.objective == pytest.approx(optimum, rel=2e-6)
    W = solution.weights
    errors = ((scores[:, :3] * W[:, :3]).sum(axis=1) + W[:, 3] - scores[:, 3]) ** 2
    jumps = np.linalg.norm(W[network.head] - W[network.tail], axis=1)
    by_hand = errors.sum() + 0.1 * (W[:, :3] ** 2).sum() + lam * (network.weights * jumps).sum()
    assert solution.objective == pytest.approx(by_hand, rel=1e-12)


@pytest.mark.parametrize("method", [*methods("l1"), "cvxpy"])
def test_c07_weighted_edges(method: str) -> None:
    """C07, tansey/gfl issue #6: weights scale the penalty of each edge (levels 0.5 + 0.25 and 4.5 - 0.25)."""
    targets = dict(enumerate([0.0, 1.0, 4.0, 5.0]))
    unit = scalar_problem(nx.cycle_graph(4), targets, "l1", 0.5).solve(method, gap=1e-8)
    assert unit.objective == pytest.approx(4.0, rel=1e-8)
    graph = nx.Graph()
    graph.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 0.5), (2, 3, 2.0), (3, 0, 0.5)])
    weighted = scalar_problem(graph, targets, "l1", 0.5).solve(method, gap=1e-10)
    assert weighted.objective == pytest.approx(2.375, rel=1e-8)
    assert weighted.weights.ravel() == pytest.approx([0.75, 0.75, 4.25, 4.25], abs=1e-4)


def test_c10_dense_random_graph() -> None:
    """C10, 1a7r0ch3/parallel-cut-pursuit issue #1: half of all pairs of 100 nodes joined, unsigned 32-bit indices."""
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((100, 100)) >= 0.5, 1)
    y = rng.random(100)
    edges = np.column_stack([index.astype(np.uint32) for index in upper.nonzero()])
    network = gtv.FLNetwork.from_edges(edges, nodes=range(100))
    targets = dict(enumerate(y))
    # a node has fewer than 100 edges and is pulled by at most 1 from each, so that alpha = 1 fuses all
    fused = scalar_problem(network, targets, "l1", 1.0).solve(gap=1e-10)
    assert fused.weights == pytest.approx(y.mean(), abs=1e-6)
    assert fused.objective == pytest.approx(0.5 * ((y - y.mean()) ** 2).sum(), rel=1e-9)
    partly = scalar_problem(network, targets, "l1", 1e-3).solve(gap=1e-6)
    assert partly.is_certified
    assert np.ptp(partly.weights) > 0.5


@pytest.mark.parametrize(("penalty", "method"), FITTING)
def test_c44_a_norm_is_not_its_square(penalty: str, method: str) -> None:
    """C44, unc-optimization/FedDR issue #1: the prox of the norm was used for the squared norm."""
    difference, optimum = {
        "sq": ((1.0, 4 / 3), 25 / 6),
        "l2": ((2.4, 3.2), 2.25),
        "l1": ((2.0, 3.0), 3.0),
        "linf": ((3.0, 3.0), 1.75),
    }[penalty]
    solution = point_problem(nx.path_graph(2), [[0, 0], [3, 4]], penalty, 0.5).solve(method, gap=1e-10)
    assert solution.objective == pytest.approx(optimum, rel=1e-9)
    assert solution[1] - solution[0] == pytest.approx(difference, abs=1e-4)


def test_c44_prox_of_a_norm_and_of_its_square() -> None:
    """C44: from (3, 4) with step 1 to (1.5, 2), for half the squared norm, and to (2.4, 3.2)."""
    assert half_squares(np.eye(2), [0.0, 0.0]).prox([3.0, 4.0], step=1.0) == pytest.approx([1.5, 2.0])
    assert gtv.SquaredNorm().prox([3.0, 4.0], step=0.5) == pytest.approx([1.5, 2.0])
    assert gtv.Norm(2).prox([3.0, 4.0], step=1.0) == pytest.approx([2.4, 3.2])


STEPS = dict(enumerate([0.0, 2.0, 1.0, 4.0, 3.0, 6.0]))


@pytest.mark.parametrize("method", [*methods("l1"), "cvxpy"])
def test_c51_all_nodes_fuse_at_the_largest_useful_alpha(method: str) -> None:
    """C51, TheoGuyard/El0ps issue #94: max |cumsum(y - mean)| is 5 on the path; the cycle fuses at 2.5."""
    mean, spread = 16 / 6, 0.5 * sum((y - 16 / 6) ** 2 for y in STEPS.values())
    for graph, threshold in ((nx.path_graph(6), 5.0), (nx.cycle_graph(6), 2.5)):
        for alpha in (threshold, 1.2 * threshold, 20.0):
            solution = scalar_problem(graph, STEPS, "l1", alpha).solve(method, gap=1e-9)
            assert solution.objective == pytest.approx(spread, rel=1e-8)
            # a minimiser of a strongly convex function is as near as the root of the gap
            assert solution.weights == pytest.approx(mean, abs=1e-3)
    below = scalar_problem(nx.path_graph(6), STEPS, "l1", 4.99).solve(method, gap=1e-11)
    assert below.weights.ravel() == pytest.approx(3 * [mean - 0.01 / 3] + 3 * [mean + 0.01 / 3], abs=1e-4)
    assert below.objective == pytest.approx(spread - 0.01**2 / 3, rel=1e-10)  # two levels of three nodes


@pytest.mark.parametrize(("penalty", "method"), FITTING)
def test_c51_tiny_huge_and_zero_alpha(penalty: str, method: str) -> None:
    """C51, scikit-learn issues #27928 and #32845: wrong at alpha of about 1e-8, no valid gap at alpha = 0."""
    two = scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, penalty, 0.0)
    alone = two.solve(method)
    assert alone.gap < 1e-12
    assert (alone.flows == 0).all()
    assert alone.weights.ravel() == pytest.approx([0.0, 1.0], abs=1e-6)

    # difference 1 - 2 alpha and value alpha (1 - alpha) for norms; alpha / (1 + 4 alpha) for the squared norm
    tiny = two.with_alpha(1e-8).solve(method, gap=1e-12)
    assert tiny.objective == pytest.approx(1e-8, rel=1e-6)
    assert tiny.iterations < 1000
    huge = two.with_alpha(1e8).solve(method, gap=1e-12)
    assert huge.objective == pytest.approx(0.25 if penalty != "sq" else 1e8 / (1 + 4e8), rel=1e-11)
    assert huge.weights.ravel() == pytest.approx([0.5, 0.5], abs=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c51_at_alpha_zero_the_gap_is_what_each_device_misses(penalty: str) -> None:
    """C51: decoupled, the gap of any parameters is ``sum L_i(w_i) - min L_i``."""
    two = scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, penalty, 0.0)
    certificate = gtv.certify(two, [[0.3], [1.5]], [[7.0]])
    assert certificate.gap == pytest.approx(0.5 * 0.3**2 + 0.5 * 0.5**2, rel=1e-12)
    assert certificate.per_node == pytest.approx([0.5 * 0.3**2, 0.5 * 0.5**2], rel=1e-12)


@pytest.mark.parametrize(("alpha", "optimum"), [(0.0, 18948.227354), (10.0, 19952.967285), (100.0, 21722.676488)])
def test_c57_weather_stations(shared_data: Path, alpha: float, optimum: float) -> None:
    """C57, alexjungaalto/FederatedLearning, fml2ilv/demos: a regression of the daily maximum at 188 stations."""
    table = pd.read_csv(shared_data / "fmi_january_daily.csv")
    network = gtv.FLNetwork.knn(table.drop_duplicates("station").set_index("station")[["lat", "lon"]], 4)
    losses = {
        station: half_squares(np.column_stack([days.tmin, np.ones(len(days))]), days.tmax)
        for station, days in table.groupby("station")
    }
    solution = gtv.NetworkLasso(network, losses, lam=alpha).solve(gap=1e-10)
    assert solution.is_certified
    assert solution.objective == pytest.approx(optimum, rel=2e-8)
    if alpha == 10.0:
        assert solution.weights.mean(axis=0) == pytest.approx([0.702483, 1.81984], abs=2e-4)


def test_c01_two_scalar_unknowns() -> None:
    """C01, snapvx issues #38, #40, #26: x1^2 with x1 <= 10, |x2 + 3|, and the squared difference; by hand 2.5."""
    losses = {
        1: gtv.SquaredError([[1.0]], [0.0]) + gtv.Box(-np.inf, 10.0),
        2: gtv.LeastAbsolute([[1.0]], [-3.0]),
    }
    solution = gtv.GTVMin(nx.Graph([(1, 2)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0).solve(gap=1e-9)
    assert solution[1].shape == (1,)
    assert solution.objective == pytest.approx(2.5, rel=1e-8)
    assert (solution[1][0], solution[2][0]) == pytest.approx((-0.5, -1.0), abs=1e-3)


@pytest.mark.parametrize("method", ["adaptive_primal_dual", "primal_dual", "cvxpy"])
def test_c04_two_back_ends_one_answer(method: str) -> None:
    """C04, snapvx issue #31: absolute deviations on a path; by hand 5, 8 and 10 for alpha 0.5, 1 and 10."""
    y = [0.0, 2.0, 1.0, 4.0, 3.0, 6.0]
    losses = [gtv.LeastAbsolute([[1.0]], [target]) for target in y]
    for alpha, optimum in ((0.5, 5.0), (1.0, 8.0), (10.0, 10.0)):
        solution = gtv.GTVMin(nx.path_graph(6), losses, penalty=gtv.Norm(1), alpha=alpha).solve(method)
        assert solution.is_certified
        assert solution.objective == pytest.approx(optimum, rel=2e-6)


def test_c04_a_random_walk_of_500_points() -> None:
    """C04: the optimum is 1111.645960; an answer that has not converged is flagged, not returned in silence."""
    y = np.cumsum(np.random.default_rng(31).normal(size=500))
    losses = [gtv.LeastAbsolute([[1.0]], [target]) for target in y]
    problem = gtv.GTVMin(nx.path_graph(500), losses, penalty=gtv.Norm(1), alpha=10.0)
    assert problem.solve(method="cvxpy").objective == pytest.approx(1111.645960, rel=1e-6)
    with pytest.warns(ConvergenceWarning, match="after 50 iterations"):
        assert not problem.solve(max_iter=50).is_certified
    solution = problem.solve(gap=1e-4)
    assert solution.is_certified
    assert solution.objective == pytest.approx(1111.645960, rel=1e-4)
