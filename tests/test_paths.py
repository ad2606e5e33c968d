"""Paths of alphas against separate solves, and alpha_max against hand values, cuts and CVXPY."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
import gtvmin.loss_stack
import gtvmin.reference
import gtvmin.storage
from gtvmin.errors import CapabilityError, ConvergenceWarning
from gtvmin.minmax_flow import minmax_flow
from gtvmin.pooled import pooled_model
from gtvmin.solvers.contracted_admm import ContractedADMM
from models import PENALTIES, PHI, half_squares, point_problem, scalar_problem

STEPS = dict(enumerate([0.0, 2.0, 1.0, 4.0, 3.0, 6.0]))
NORMS = {"l1": 1.0, "l2": 2.0, "linf": np.inf}
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def optimum(problem: gtv.GTVMin, penalty: str, alpha: float) -> tuple[float, Any]:
    """Optimal value and parameters, written down edge by edge."""
    W = cp.Variable((problem.network.n_nodes, problem.dim))
    value = sum(loss.to_cvxpy(w) for w, loss in zip(W, problem.losses, strict=True))
    net = problem.network
    for tail, head, weight in zip(net.tail, net.head, net.weights, strict=True):
        value += alpha * weight * PHI[penalty](W[head] - W[tail])
    model = cp.Problem(cp.Minimize(value))
    model.solve(**TIGHT)
    return float(model.value), W.value


def pooled_optimum(problem: gtv.GTVMin) -> float:
    """Least sum of the losses of one model."""
    w = cp.Variable(problem.dim)
    model = cp.Problem(cp.Minimize(sum(loss.to_cvxpy(w) for loss in problem.losses)))
    return float(model.solve(**TIGHT))


def test_c51_hand_values() -> None:
    """C51, TheoGuyard/El0ps issue #94: max |cumsum(y - mean)| is 5 on the path, 2.5 on the cycle; no edge, no need."""
    for penalty in NORMS:
        assert scalar_problem(nx.path_graph(6), STEPS, penalty, 1.0).alpha_max() == pytest.approx(5.0, abs=1e-12)
        assert scalar_problem(nx.cycle_graph(6), STEPS, penalty, 1.0).alpha_max() == pytest.approx(2.5, abs=1e-9)
        assert gtv.alpha_max(scalar_problem(nx.empty_graph(1), {0: 3.0}, penalty, 1.0)) == 0.0
        assert gtv.alpha_max(scalar_problem(nx.empty_graph(6), STEPS, penalty, 1.0)) == 0.0
        assert gtv.alpha_max(scalar_problem(nx.path_graph(6), {}, penalty, 1.0)) == 0.0
    assert gtv.alpha_max(scalar_problem(nx.path_graph(6), STEPS, "sq", 1.0)) == np.inf
    assert gtv.alpha_max(scalar_problem(nx.empty_graph(6), STEPS, "sq", 1.0)) == 0.0


def test_two_points_meet_at_half_their_distance() -> None:
    """``||x_1 - x_2||`` in the dual norm over two: (3, 4) has 5 / 2, max 4 / 2, sum 7 / 2."""
    for penalty, value in (("l2", 2.5), ("l1", 2.0), ("linf", 3.5)):
        problem = point_problem(nx.path_graph(2), [[0, 0], [3, 4]], penalty, 1.0)
        assert problem.alpha_max() == pytest.approx(value, rel=1e-14)


def test_c10_above_alpha_max_all_nodes_have_the_mean() -> None:
    """C10, 1a7r0ch3/parallel-cut-pursuit issue #1: half of all pairs of 100 nodes joined."""
    rng = np.random.default_rng(0)
    upper, y = np.triu(rng.random((100, 100)) >= 0.5, 1), rng.random(100)
    problem = scalar_problem(upper + upper.T.astype(float), dict(enumerate(y)), "l1", 1.0)
    threshold = problem.alpha_max()
    fused = problem.with_alpha(1.01 * threshold).solve(gap=1e-10)
    assert fused.weights == pytest.approx(y.mean(), abs=1e-6)
    assert np.ptp(problem.with_alpha(0.95 * threshold).solve(gap=1e-10).weights) > 1e-4


@settings(max_examples=40)
@given(st.integers(3, 7), st.integers(0, 10_000))
def test_one_coordinate_against_all_cuts(n: int, seed: int) -> None:
    """Max-flow min-cut: the threshold is the largest |sum of gradients of C| over the weight of C's boundary."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(n, 0.5, seed=seed)
    graph.add_edges_from(nx.path_graph(n).edges)
    nx.set_edge_attributes(graph, {edge: rng.uniform(0.1, 3.0) for edge in graph.edges}, "weight")
    y = rng.normal(size=n)
    largest = 0.0
    for size in range(1, n):
        for cluster in combinations(range(n), size):
            pull = abs(sum(y[i] - y.mean() for i in cluster))
            largest = max(largest, pull / nx.cut_size(graph, cluster, weight="weight"))
    problem = scalar_problem(graph, dict(enumerate(y)), "l1", 1.0)
    assert problem.alpha_max() == pytest.approx(largest, rel=1e-9)


def regression(graph: nx.Graph, penalty: str, seed: int, rows: int = 4) -> gtv.GTVMin:
    """Two parameters a node; every third node has no data."""
    rng = np.random.default_rng(seed)
    losses = [
        half_squares(rng.normal(size=(rows, 2)), rng.normal(size=rows)) if i % 3 else gtv.Zero() for i in graph.nodes
    ]
    return gtv.GTVMin(graph, losses, penalty=PENALTIES[penalty], alpha=1.0)


@pytest.mark.parametrize("penalty", NORMS)
@pytest.mark.parametrize("graph", [nx.cycle_graph(5), nx.complete_graph(5), nx.star_graph(5), nx.path_graph(7)])
def test_the_threshold_is_where_the_optimum_becomes_that_of_one_model(graph: nx.Graph, penalty: str) -> None:
    """By CVXPY: at 1.001 alpha_max one model is optimal, at 0.98 alpha_max it is not."""
    problem = regression(graph, penalty, seed=len(graph))
    threshold, pooled = problem.alpha_max(), pooled_optimum(problem)
    above, W = optimum(problem, penalty, 1.001 * threshold)
    assert above == pytest.approx(pooled, rel=1e-8)
    np.testing.assert_allclose(W - W.mean(axis=0), 0.0, atol=1e-4)
    below, _ = optimum(problem, penalty, 0.98 * threshold)
    assert below < pooled * (1 - 1e-7)


@pytest.mark.parametrize("penalty", NORMS)
def test_a_tree_in_closed_form_agrees_with_the_program(penalty: str) -> None:
    tree = nx.random_labeled_tree(12, seed=3)
    rng = np.random.default_rng(1)
    nx.set_edge_attributes(tree, {edge: rng.uniform(0.5, 2.0) for edge in tree.edges}, "weight")
    net = gtv.FLNetwork(tree)
    S = rng.normal(size=(12, 3))
    S -= S.mean(axis=0)
    U, load = cp.Variable((11, 3)), cp.Variable()
    order = {1.0: "inf", 2.0: 2, np.inf: 1}[NORMS[penalty]]
    model = cp.Problem(
        cp.Minimize(load), [net.incidence().T @ U == -S, cp.norm(U, order, axis=1) <= load * net.weights]
    )
    assert minmax_flow(net, S, NORMS[penalty]) == pytest.approx(model.solve(**TIGHT), rel=1e-8)


@pytest.mark.parametrize("penalty", NORMS)
def test_logistic_losses(penalty: str) -> None:
    rng = np.random.default_rng(5)
    losses = [gtv.Logistic(rng.normal(size=(6, 2)), rng.permuted([0, 1, 0, 1, 0, 1])) for _ in range(4)]
    problem = gtv.GTVMin(nx.cycle_graph(4), losses, penalty=PENALTIES[penalty], alpha=1.0)
    threshold, pooled = problem.alpha_max(), pooled_optimum(problem)
    assert optimum(problem, penalty, 1.001 * threshold)[0] == pytest.approx(pooled, rel=1e-8)
    assert optimum(problem, penalty, 0.95 * threshold)[0] < pooled - 1e-6


def test_losses_with_kinks_have_an_upper_bound() -> None:
    """Absolute errors at 0, 1, 5: the median 1 holds its neighbours with flows of one."""
    losses = [gtv.LeastAbsolute([[1.0]], [y]) for y in (0.0, 1.0, 5.0)]
    problem = gtv.GTVMin(nx.path_graph(3), losses, penalty=gtv.Norm(1), alpha=1.0)
    assert problem.alpha_max() == pytest.approx(1.0, rel=1e-6)
    assert not pooled_model(losses, 1).smooth
    rng = np.random.default_rng(0)
    losses = [gtv.LeastAbsolute(rng.normal(size=(5, 2)), rng.normal(size=5)) for _ in range(5)]
    problem = gtv.GTVMin(nx.cycle_graph(5), losses, penalty=gtv.Norm(2), alpha=1.0)
    assert optimum(problem, "l2", problem.alpha_max() * 1.001)[0] == pytest.approx(pooled_optimum(problem), rel=1e-7)


@settings(max_examples=20)
@given(st.sampled_from(sorted(NORMS)), st.floats(0.1, 10.0), st.floats(0.1, 10.0), st.integers(0, 1000))
def test_units_and_weights(penalty: str, unit: float, weight: float, seed: int) -> None:
    """Points times c need c times the alpha, weights times c a c-th of it, and shifted points the same."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(5, 2))
    plain = point_problem(nx.cycle_graph(5), points, penalty, 1.0)
    graph = nx.cycle_graph(5)
    nx.set_edge_attributes(graph, weight, "weight")
    scaled = point_problem(graph, unit * points + 7.0, penalty, 1.0)
    assert scaled.alpha_max() == pytest.approx(plain.alpha_max() * unit / weight, rel=1e-7)


def test_components_need_the_largest_of_their_thresholds() -> None:
    two = nx.disjoint_union(nx.path_graph(2), nx.path_graph(3))
    targets = dict(enumerate([0.0, 10.0, 0.0, 3.0, 0.0]))
    assert scalar_problem(two, targets, "l1", 1.0).alpha_max() == pytest.approx(5.0)


def test_what_has_no_threshold_says_so() -> None:
    losses = [half_squares([[1.0]], [y]) for y in (0.0, 1.0)]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.HuberPenalty(1.0), alpha=1.0)
    with pytest.raises(CapabilityError, match=r"alpha_max is for Norm and SquaredNorm.*HuberPenalty"):
        problem.alpha_max()
    norm = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.Norm(1), alpha=1.0)
    with pytest.raises(CapabilityError, match="one family"):
        norm.couple(nx.path_graph(2), gtv.Norm(1), 1.0).alpha_max()
    linear = gtv.GTVMin(nx.path_graph(2), [gtv.Linear([1.0]), gtv.Zero()], penalty=gtv.Norm(1), alpha=1.0)
    with pytest.raises(ValueError, match="unbounded below"):
        linear.alpha_max()


ALPHAS = [3.0, 0.3, 0.03]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("method", ["auto", "cvxpy"])
@pytest.mark.parametrize("order", [1, -1])
def test_a_path_is_as_good_as_separate_solves(penalty: str, method: str, order: int) -> None:
    problem = regression(nx.cycle_graph(6), penalty, seed=2)
    path = problem.path(ALPHAS[::order], method=method, gap=1e-8)
    assert path.is_certified
    assert path.alphas.tolist() == ALPHAS[::order]
    assert path.seconds > 0
    for alpha, solution in zip(ALPHAS[::order], path, strict=True):
        value, W = optimum(problem, penalty, alpha)
        assert solution.problem.alpha == alpha
        assert solution.certificate.problem_hash == problem.with_alpha(alpha).hash
        assert value - 1e-9 <= solution.objective <= value * (1 + 2e-8)
        unique = [1, 2, 4, 5]  # a node without data may be anywhere between its neighbours
        np.testing.assert_allclose(solution.weights[unique], W[unique], atol=1e-3)


def test_c13_a_path_of_4000_nodes() -> None:
    """C13, cvxpy issues #1521, #1332 and #886: models that took longer to build than to solve."""
    rng = np.random.default_rng(0)
    problem = point_problem(nx.path_graph(4000), rng.normal(size=(4000, 2)), "l2", 1.0)
    path = problem.path(np.geomspace(0.01, 1, 5))
    for solution in path:
        assert solution.gap <= 1e-6 * max(1.0, solution.objective)
    assert np.all(np.diff([solution.objective for solution in path]) > 0)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c13_the_cvxpy_path_builds_one_model(penalty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: fifty alphas, one model; only at 0 the devices are another problem."""
    built: list[float] = []
    build = gtvmin.reference._primal
    monkeypatch.setattr(gtvmin.reference, "_primal", lambda *args: (built.append(0), build(*args))[1])
    problem = point_problem(nx.path_graph(4), [[0, 1], [2, 0], [1, 1], [4, 2]], penalty, 1.0)
    path = problem.path([*np.geomspace(5.0, 0.01, 49), 0.0], method="cvxpy")
    assert len(built) == 2
    assert path.is_certified
    np.testing.assert_allclose(path.weights[-1], [[0, 1], [2, 0], [1, 1], [4, 2]], atol=1e-6)


def test_a_model_is_of_its_own_alpha_only() -> None:
    """Solving at another alpha in between changes nothing."""
    problem = regression(nx.cycle_graph(4), "l2", seed=4)
    model = gtvmin.reference.ReferenceModel(problem)
    results = [gtvmin.reference.solve_reference(problem.with_alpha(a), model=model) for a in (0.1, 2.0, 0.1)]
    assert results[0].value == pytest.approx(optimum(problem, "l2", 0.1)[0], rel=1e-8)
    assert results[1].value == pytest.approx(optimum(problem, "l2", 2.0)[0], rel=1e-8)
    np.testing.assert_allclose(results[2].U, results[0].U, atol=1e-8)


@pytest.mark.parametrize("method", ["auto", "cvxpy"])
def test_further_families_keep_their_strength(method: str) -> None:
    """On two nodes: ``w_1 - w_0 = 3 - 2 (alpha + 0.25)`` with a second family of norms at strength 0.25."""
    losses = [half_squares([[1.0]], [y]) for y in (0.0, 3.0)]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.Norm(1), alpha=1.0)
    path = problem.couple(nx.path_graph(2), gtv.Norm(1), 0.25).path([0.5, 1.0], method=method, gap=1e-10)
    assert [float(s.weights[1, 0] - s.weights[0, 0]) for s in path] == pytest.approx([1.5, 0.5], abs=1e-4)


def test_alphas_zero_and_infinite_within_a_path() -> None:
    problem = scalar_problem(nx.path_graph(6), STEPS, "l1", 1.0)
    path = problem.path([1.0, 0.0, 1.0, np.inf, 4.99], gap=1e-10)
    assert path.is_certified
    np.testing.assert_allclose(path.weights[1].ravel(), list(STEPS.values()), atol=1e-5)
    np.testing.assert_allclose(path.weights[2], path.weights[0], atol=1e-4)
    np.testing.assert_allclose(path.weights[3], 16 / 6, atol=1e-6)
    np.testing.assert_allclose(path.weights[4].ravel(), 3 * [2.66333] + 3 * [2.67], atol=1e-4)


def test_a_warm_start_saves_iterations() -> None:
    problem = scalar_problem(nx.path_graph(60), dict(enumerate(np.sin(np.arange(60.0)))), "l1", 1.0)
    alphas = np.geomspace(0.5, 0.4, 8)
    # not "auto", which solves problems of one parameter exactly from any start
    method = "adaptive_primal_dual"
    warm = sum(solution.iterations for solution in problem.path(alphas, method, gap=1e-8))
    cold = sum(problem.with_alpha(alpha).solve(method, gap=1e-8).iterations for alpha in alphas)
    assert warm < cold


@pytest.fixture(scope="module")
def strip() -> gtv.GTVMin:
    """A thousand points along a strip: large enough for the solver of clusters."""
    points = np.random.default_rng(0).normal(size=(1000, 2)) * [5.0, 0.3]
    return gtv.ConvexClustering(points, [(i, i + k, 1.0) for k in (1, 2) for i in range(1000 - k)])


STRENGTHS = [0.02, 0.3, 0.0, 5.0, np.inf, 1.0, 0.05]


def test_a_large_clustering_is_solved_on_its_clusters(strip: gtv.GTVMin) -> None:
    path = strip.path(STRENGTHS, gap=1e-7)
    assert path.is_certified
    for alpha, solution in zip(STRENGTHS, path, strict=True):
        assert (solution.method == "contracted_admm") == (0 < alpha < np.inf)
        assert solution.problem.alpha == alpha
        plain = strip.with_alpha(alpha).solve("admm", gap=1e-7)
        assert solution.objective == pytest.approx(plain.objective, rel=1.1e-7)
        assert solution.relative_gap <= 1e-7
    assert path[1].history[-1].relative_gap == path[1].relative_gap
    assert path[1].iterations > 0
    assert path[1].seconds > 0


def test_what_the_solver_of_clusters_misses_is_solved_otherwise(
    strip: gtv.GTVMin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ContractedADMM, "solve", lambda self, strength, tolerance, seconds: 0.0)
    path = strip.path([0.1, 0.2])
    assert path.is_certified
    assert [solution.method for solution in path] == ["admm", "admm"]


def test_options_of_solvers_reach_them_on_large_clusterings(strip: gtv.GTVMin) -> None:
    records: list[object] = []
    assert strip.path([0.1], progress=records.append)[0].method == "admm"
    assert records
    with pytest.warns(ConvergenceWarning):
        assert not strip.path([10.0], gap=1e-12, time_limit=0.0).is_certified
    with pytest.raises(ValueError, match="gap"):
        strip.path([0.1], gap=-1.0)


def test_a_path_is_a_sequence_and_a_table() -> None:
    problem = scalar_problem(nx.path_graph(6), STEPS, "l1", 1.0)
    path = problem.path([6.0, 1.0, 0.1], gap=1e-8)
    assert len(path) == 3
    assert path[-1] is list(path)[2]
    assert path.weights.shape == (3, 6, 1)
    assert path.n_clusters.tolist() == [1, 4, 6]  # of (0, 2, 1, 4, 3, 6): {2, 1} and {4, 3} are one cluster each at 1
    table = path.to_frame()
    assert table.index.tolist() == [6.0, 1.0, 0.1]
    assert table.loc[1.0, "objective"] == path[1].objective
    assert table["n_clusters"].tolist() == [1, 4, 6]
    assert "3 values of alpha from 6 to 0.1, 3 certified" in repr(path)


@pytest.mark.parametrize(
    ("alphas", "message"),
    [([], "at least one"), (1.0, "at least one"), ([[1.0]], "at least one"), ([1.0, -2.0], "-2 at position 1")],
)
def test_wrong_alphas(alphas: Any, message: str) -> None:
    problem = scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, "l1", 1.0)
    with pytest.raises(ValueError, match=message):
        problem.path(alphas)
    with pytest.raises(ValueError, match="nan at position 0"):
        problem.path([np.nan])
    with pytest.raises(TypeError, match="alphas must hold real numbers"):
        problem.path(["a"])


@pytest.mark.parametrize("method", ["auto", "cvxpy"])
def test_c13_a_path_stacks_the_losses_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: fifty alphas, one set of arrays, one fingerprint of the data; yet every problem has a hash of its own."""
    calls: list[str] = []
    stack, digest = gtvmin.loss_stack.split_losses, gtvmin.storage.losses_fingerprint
    monkeypatch.setattr(gtvmin.loss_stack, "split_losses", lambda *args: (calls.append("stack"), stack(*args))[1])
    monkeypatch.setattr(gtvmin.storage, "losses_fingerprint", lambda *args: (calls.append("digest"), digest(*args))[1])
    problem = point_problem(nx.path_graph(4), [[0, 1], [2, 0], [1, 1], [4, 2]], "l2", 1.0)
    path = problem.path(np.geomspace(5.0, 0.01, 50), method=method)
    assert len({solution.problem.hash for solution in path}) == 50
    assert sorted(calls) == ["digest", "stack"]
    declared_anew = point_problem(nx.path_graph(4), [[0, 1], [2, 0], [1, 1], [4, 2]], "l2", 0.01)
    assert path[-1].problem.hash == declared_anew.hash
    assert path[-1].problem.with_losses([gtv.Zero(2)] * 4).hash != declared_anew.hash
    assert path[-1].problem.with_losses(declared_anew.losses).hash == declared_anew.hash
