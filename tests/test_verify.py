"""Verification of solvers: instances against hand values and CVXPY, changes of problems, answers."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.flow import MinCostFlow
from gtvmin.verify import (
    assert_certified,
    baseline,
    suite,
    suites,
)
from gtvmin.verify.transforms import duplicated_rows, reordered, scaled, split_edge, two_copies
from models import cvxpy_optimum

EVERY = {instance.name: instance for name in suites() for instance in suite(name)}
HAND_VALUES = {
    "quadratic_two_nodes": 1.5,  # w = (1, 2): 1/2 + 1/2 + 1/2
    "lasso_two_nodes": 2.0,  # w = (1, 2): 1/2 + 1/2 + 1
    "lasso_near_merge": 2.25,  # 2.25 (1 - (1 - t)^2) at the strength 1.5 t, t = 1 - 1e-6
    "clustering_two_points": 6.0,  # 4 of the points and 2 * 1 of the edge
    "flow_two_routes": -9.0,  # minus the cost: 2 units at 1 + 1, one at 5
}


def pair(lam: float = 1.0) -> gtv.GTVMin:
    """Two numbers, 0 and 3, with the optimum (1, 2) for one unit of flow: TVGL issue #9."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=lam)


def test_suites_hold_described_instances_under_unique_names() -> None:
    assert set(suites()) == {
        "smoke",
        "quadratic",
        "network_lasso",
        "convex_clustering",
        "classification",
        "flow",
        "federated",
        "federated_programs",
        "hard",
    }
    for name in suites():
        members = suite(name)
        assert len({instance.name for instance in members}) == len(members) >= 6
        assert all(instance.description.endswith(".") for instance in members)
    with pytest.raises(ValueError, match=r"'smok' is unknown.*smoke"):
        suite("smok")


@pytest.mark.parametrize("name", EVERY)
def test_an_instance_is_the_same_each_time(name: str) -> None:
    instance = EVERY[name]
    first, second = instance.problem(), instance.problem()
    assert first is not second
    assert first.hash == second.hash
    if "smoke" in instance.tags:
        assert first.network.n_nodes <= 40


def test_another_seed_is_another_problem() -> None:
    instance = EVERY["lasso_weighted_grid"]
    assert instance.with_seed(1).problem().hash != instance.problem().hash


@pytest.mark.parametrize("name", EVERY)
def test_baselines_are_certified(name: str) -> None:
    problem = EVERY[name].problem()
    found = baseline(problem)
    size = max(abs(found.primal), 1e-10 * abs(problem.objective(np.zeros_like(found.W))))
    assert found.gap <= 1e-9 * size
    assert found.problem_hash == problem.hash


@pytest.mark.parametrize(("name", "value"), HAND_VALUES.items())
def test_baselines_agree_with_hand_values(name: str, value: float) -> None:
    assert baseline(EVERY[name].problem()).primal == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("quadratic_weighted_grid", "sq"),
        ("quadratic_complete", "sq"),
        ("lasso_weighted_grid", "l2"),
        ("lasso_rank_deficient", "l2"),
        ("lasso_l1", "l1"),
        ("lasso_linf", "linf"),
        ("lasso_sacramento", "l2"),
    ],
)
def test_baselines_agree_with_cvxpy(name: str, penalty: str) -> None:
    problem = EVERY[name].problem()
    assert baseline(problem).primal == pytest.approx(cvxpy_optimum(problem, penalty), rel=1e-6)


def test_flow_baseline_agrees_with_a_linear_program() -> None:
    problem = EVERY["flow_grid"].problem()
    assert -baseline(problem).primal == pytest.approx(MinCostFlow(problem).solve("highs").cost, rel=1e-8)


class Reported:
    """An answer with an objective of its own."""

    def __init__(self, W: Any, objective: float) -> None:
        self.W, self.objective = W, objective


def test_every_kind_of_answer_is_read() -> None:
    pd = pytest.importorskip("pandas")
    problem = pair()
    W = [[1.0], [2.0]]
    answers = [
        W,
        np.array(W),
        [1.0, 2.0],
        {"b": 2.0, "a": [1.0]},
        pd.DataFrame({"w0": [2.0, 1.0]}, index=["b", "a"]),
        (W, [[1.0]]),
        (W, {("b", "a"): [-1.0]}),
        problem.solve(),
        problem.solve().certificate,
        Reported(W, 2.0),
    ]
    for answer in answers:
        assert assert_certified(problem, answer).relative_gap <= 1e-6


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([[1.1], [1.9]], r"relative gap 0\.005 is larger(.|\n)*objective +2\.01(.|\n)*bound +2 "),
        ([[2.0], [1.0]], "permuted: 'a' has those of 'b'"),
        ([[-1.0], [-2.0]], "the parameters have the opposite sign"),
        ([[0.5], [2.5]], r"0\.5 times its alpha"),
        ([[1.5], [1.5]], r"2 times its alpha"),
        (([[1.0], [2.0]], [[-1.0]]), "the flows have the opposite sign"),
        (([[1.0], [2.0]], [[0.0]]), "the flows do not prove it"),
        (Reported([[1.0], [2.0]], 1.9), "evaluation mistake: it reports the objective 1.9"),
        ([[1.0], [math.nan]], "nan"),
        ([[1.0], [2.0], [3.0]], "not an answer to this problem"),
        ({"a": 1.0}, "no parameters for node 'b'"),
        (([[1.0], [2.0]], [[1.0]], 3), "tuple of 3"),
        (object(), "got object"),
    ],
)
def test_wrong_answers_are_explained(answer: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_certified(pair(), answer)


def test_ignored_weights_are_recognised() -> None:
    problem = EVERY["lasso_weighted_grid"].problem()
    net = problem.network
    unweighted = gtv.NetworkLasso(gtv.FLNetwork.from_edges(net.edges, nodes=net.nodes), problem.losses, lam=0.1)
    with pytest.raises(AssertionError, match="weights are not used"):
        assert_certified(problem, unweighted.solve(gap=1e-8).weights)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.GtvminWarning")
def test_a_gap_is_never_small_against_the_size_of_the_answer() -> None:
    """Parameters that are far away in a free direction lose their digits, and prove nothing."""
    problem = EVERY["flow_quadratic_cost"].problem()
    W = baseline(problem).W
    assert_certified(problem, W + 3.0)
    with pytest.raises(AssertionError, match="not certified"):
        assert_certified(problem, W + 1e14)


def test_a_problem_without_a_bound_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gtvmin.verify.baselines.TIME_LIMIT", 0.1)
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), [gtv.Linear([1.0])] * 2, penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(ValueError, match="unbounded below"):
        assert_certified(problem, [[0.0], [0.0]])


def test_transforms_keep_the_optimum_by_cvxpy() -> None:
    problem = EVERY["lasso_star"].problem()
    value = cvxpy_optimum(problem, "l2")
    for changed, factor in (
        (reordered(problem, range(9)[::-1]), 1.0),
        (scaled(problem, 0.1), 0.1),
        (split_edge(problem), 1.0),
        (two_copies(problem), 2.0),
    ):
        assert cvxpy_optimum(changed.problem, "l2") == pytest.approx(factor * value, rel=1e-6)
        best = changed.problem.solve(gap=1e-8).weights
        assert problem.objective(changed.back(best)) == pytest.approx(value, rel=1e-6)
    squared = gtv.GTVMin(problem.network, problem.losses, penalty=gtv.SquaredNorm(), alpha=0.3)
    assert cvxpy_optimum(split_edge(squared).problem, "sq") == pytest.approx(cvxpy_optimum(squared, "sq"), rel=1e-6)


@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_duplicated_rows_are_the_same_losses(scale: Any) -> None:
    draw = np.random.default_rng(0)
    X, y, w = draw.normal(size=(3, 2)), np.array([1.0, -1.0, 1.0]), draw.normal(size=2)
    losses = [
        gtv.SquaredError(X, y, scale=scale),
        gtv.SquaredError(X, y, scale=scale, sample_weight=[1, 2, 0]),
        gtv.Ridge(X, y, lam=0.5, scale=scale),
        0.3 * gtv.Logistic(X, y, scale=scale) + 0.1 * gtv.SquaredDistance(0.0),
        gtv.Zero(),
    ]
    problem = gtv.NetworkLasso(nx.path_graph(5), losses, lam=1.0)
    changed = duplicated_rows(problem).problem
    assert changed.losses[0].n_samples > 3
    for before, after in zip(losses, changed.losses, strict=True):
        assert after.value(w) == pytest.approx(before.value(w), rel=1e-12)
