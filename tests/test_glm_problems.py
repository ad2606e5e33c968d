"""Declaring logistic, Poisson, softmax and ball losses, and solving networks of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning
from models import PENALTIES, PHI

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(5)
X = RNG.standard_normal((6, 2))
SIGNS, COUNTS, CLASSES = np.array([1.0, -1, 1, 1, -1, -1]), np.array([0.0, 2, 1, 0, 5, 1]), np.array([0, 2, 1, 2, 0, 1])


def logistic(**options: Any) -> gtv.Loss:
    return gtv.Logistic(X, SIGNS, **options)


def poisson(**options: Any) -> gtv.Loss:
    return gtv.Poisson(X, COUNTS, **options)


def softmax(**options: Any) -> gtv.Loss:
    return gtv.Softmax(X, CLASSES, **options)


MAKERS: list[Callable[..., gtv.Loss]] = [logistic, poisson, softmax]
LABELS: dict[Any, Array] = {logistic: SIGNS, poisson: COUNTS, softmax: CLASSES}


def likelihood(make: Any, row: int, w: Array) -> float:
    """What one data point adds, from the formula."""
    if make is softmax:
        scores = X[row] @ w.reshape(2, 3)
        return float(np.log(np.exp(scores).sum()) - scores[CLASSES[row]])
    t = X[row] @ w
    return float(np.log1p(np.exp(-SIGNS[row] * t)) if make is logistic else np.exp(t) - COUNTS[row] * t)


@pytest.mark.parametrize("make", MAKERS)
def test_a_loss_is_the_mean_or_sum_over_its_data_points(make: Any) -> None:
    w = RNG.standard_normal(make().dim)
    points = [likelihood(make, r, w) for r in range(6)]
    assert make().value(w) == pytest.approx(np.mean(points), rel=1e-13)
    assert make(scale="sum").value(w) == pytest.approx(np.sum(points), rel=1e-13)
    assert (3.0 * make() + make(scale="sum")).value(w) == pytest.approx(3 * np.mean(points) + np.sum(points), rel=1e-13)
    assert make().n_samples == 6


@pytest.mark.parametrize("scale", ["mean", "sum"])
@pytest.mark.parametrize("make", MAKERS)
def test_sample_weights_are_repeated_rows(make: Any, scale: str) -> None:
    weights = np.array([2, 0, 1, 3, 1, 1])
    rows = np.repeat(np.arange(6), weights)
    kind = type(make())
    options = {"classes": 3} if make is softmax else {}
    repeated = kind(X[rows], LABELS[make][rows], scale=scale, **options)
    weighted = make(scale=scale, sample_weight=weights)
    w = RNG.standard_normal(weighted.dim)
    assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-13)
    np.testing.assert_allclose(weighted.gradient(w), repeated.gradient(w), atol=1e-13 * weights.sum())


STORED = [
    *(make(sample_weight=[1, 2, 3, 1, 1, 0]) for make in MAKERS),
    softmax(classes=5),
    gtv.Ball(2.0, [1.0, 0.0]),
    gtv.Ball(0.5, 1.0) + gtv.Zero(2),
]


@pytest.mark.parametrize("loss", STORED, ids=repr)
def test_files_hold_the_loss(loss: gtv.Loss, tmp_path: Path) -> None:
    net = gtv.FLNetwork(nx.path_graph(2))
    problem = gtv.GTVMin(net, [loss, gtv.Zero()], penalty=gtv.Norm(1), alpha=0.5)
    again = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert again.hash == problem.hash
    W = RNG.standard_normal((2, problem.dim))
    assert again.objective(W) == problem.objective(W)


def test_softmax_parameters_are_features_by_classes() -> None:
    """Column k of ``w.reshape(features, classes)`` weighs class k; two classes are a logistic model."""
    W = RNG.standard_normal((2, 3))
    loss = gtv.Softmax(X, np.full(6, 2), classes=3)
    W_up = W.copy()
    W_up[:, 2] += 0.1 * X.sum(axis=0)
    assert loss.value(W_up.ravel()) < loss.value(W.ravel())
    two = gtv.Softmax(X, (SIGNS + 1) / 2)
    w = RNG.standard_normal(2)
    assert two.value(np.column_stack([np.zeros(2), w]).ravel()) == pytest.approx(logistic().value(w), rel=1e-14)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: gtv.Poisson([[1.0], [2.0]], [1.0, -2.0]), r"counts >= 0, got -2 at position 1"),
        (lambda: gtv.Poisson([[1.0]], [np.nan]), "y has a nan value"),
        (lambda: gtv.Softmax([[1.0], [2.0]], [0, 3], classes=3), r"label 3 at position 1: with classes=3 labels are"),
        (lambda: gtv.Softmax([[1.0], [2.0]], [0.5, 1]), r"label 0.5 at position 0"),
        (lambda: gtv.Softmax([[1.0], [2.0]], [-1, 1]), r"label -1 at position 0"),
        (lambda: gtv.Softmax([[1.0]], [0]), r"at least 2, got 1: give the number of classes of all devices"),
        (lambda: gtv.Softmax(np.empty((0, 2)), []), "classes must be given"),
        (lambda: gtv.Softmax([[1.0]], [0], classes=2, scale="total"), "scale must be"),
        (lambda: gtv.Logistic([[1.0], [2.0]], [0, 2]), "y must hold two classes"),
        (lambda: gtv.Logistic([[1.0]], [1], sample_weight=[-1.0]), "sample_weight must be >= 0"),
        (lambda: gtv.Ball(-1.0), "radius must be a finite number >= 0"),
        (lambda: gtv.Ball(1.0, [[1.0]]), r"centre must be a number or a vector of parameters, got shape \(1, 1\)"),
        (lambda: gtv.Ball(1.0, [np.inf]), "centre has a inf value"),
    ],
)
def test_bad_data_are_refused(declare: Callable[[], gtv.Loss], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declare()


@pytest.mark.parametrize(
    "declare", [lambda: gtv.Softmax([[1.0]], ["cat"]), lambda: gtv.Softmax([[1.0]], [0], classes=2.5)]
)
def test_labels_and_classes_are_numbers(declare: Callable[[], gtv.Loss]) -> None:
    with pytest.raises(TypeError):
        declare()


# Networks, against a model that shares nothing with the package


def node_data(kind: str, rng: np.random.Generator) -> tuple[gtv.Loss, Callable[[Any], Any], Callable[[Any], list[Any]]]:
    """A device's loss, the same in CVXPY, and its constraints."""
    features = rng.standard_normal((8, 2))
    ridge = gtv.SquaredError(np.eye(2), np.zeros(2), scale="sum")
    if kind == "logistic":
        y = np.where(rng.random(8) < 1 / (1 + np.exp(features @ [1.0, -2.0])), -1.0, 1.0)
        return gtv.Logistic(features, y), lambda w: cp.sum(cp.logistic(-cp.multiply(y, features @ w))) / 8, lambda w: []
    if kind == "poisson":
        y = rng.poisson(np.exp(features @ [0.5, -0.5])).astype(float)
        loss = gtv.Poisson(features, y, scale="sum") + 0.1 * ridge
        return loss, lambda w: cp.sum(cp.exp(features @ w)) - y @ features @ w + 0.1 * cp.sum_squares(w), lambda w: []
    if kind == "softmax":
        labels = rng.integers(3, size=8)

        def classes(w: Any) -> Any:
            scores = features @ cp.reshape(w, (2, 3), order="C")
            return cp.sum(cp.log_sum_exp(scores, axis=1)) / 8 - cp.sum(cp.multiply(np.eye(3)[labels], scores)) / 8

        return gtv.Softmax(features, labels, classes=3), classes, lambda w: []
    y = features @ [1.0, -1.0] + rng.standard_normal(8)
    loss = gtv.SquaredError(features, y) + gtv.Ball(0.8, [0.2, 0.1])
    return loss, lambda w: cp.sum_squares(y - features @ w) / 8, lambda w: [cp.norm(w - np.array([0.2, 0.1])) <= 0.8]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", ["logistic", "poisson", "softmax", "ball"])
def test_networks_are_certified_at_the_optimum_of_cvxpy(kind: str, penalty: str) -> None:
    rng = np.random.default_rng(8)
    graph = nx.cycle_graph(6)
    graph.add_edge(0, 3)
    graph.add_node("unlabelled")
    graph.add_edge(5, "unlabelled")
    net = gtv.FLNetwork(graph)
    nodes = [node_data(kind, rng) for _ in range(6)]
    losses = {node: nodes[node][0] if node != "unlabelled" else gtv.Zero() for node in net.nodes}
    problem = gtv.GTVMin(net, losses, penalty=PENALTIES[penalty], alpha=0.05)
    W = cp.Variable((7, problem.dim))
    ends = zip(net.tail, net.head, strict=True)
    value: Any = sum(0.05 * PHI[penalty](W[head] - W[tail]) for tail, head in ends)
    value += sum(nodes[i][1](W[i]) for i in range(6))
    model = cp.Problem(cp.Minimize(value), [limit for i in range(6) for limit in nodes[i][2](W[i])])
    expected = model.solve(solver="CLARABEL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gtv.errors.NotUniqueWarning)
        solution = problem.solve(method="adaptive_primal_dual", max_iter=20_000)
    assert solution.is_certified
    assert solution.certificate.relative_gap <= 1e-6
    assert solution.objective - expected <= solution.certificate.gap + 1e-7 * abs(expected)
    assert solution.objective == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("kind", ["logistic", "poisson", "softmax", "ball"])
def test_both_models_of_a_network_agree(kind: str) -> None:
    """The primal and the dual in CVXPY, and the certificate of the reference solution."""
    rng = np.random.default_rng(9)
    net = gtv.FLNetwork(nx.path_graph(3))
    problem = gtv.GTVMin(net, [node_data(kind, rng)[0] for _ in range(3)], penalty=gtv.Norm(2), alpha=0.1)
    from gtvmin.reference import to_cvxpy, to_cvxpy_dual

    primal, dual = to_cvxpy(problem).solve(solver="CLARABEL"), to_cvxpy_dual(problem).solve(solver="CLARABEL")
    assert primal == pytest.approx(dual, rel=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gtv.errors.NotUniqueWarning)
        assert problem.solve(method="cvxpy").certificate.relative_gap <= 1e-6


# Separable data: the infimum is not attained

DOSES = np.array([2.0, 4, 5, 7, 10, 0, 0, 1])
SEPARABLE = gtv.Logistic(np.column_stack([np.ones(8), DOSES]), [1, 1, 1, 1, 1, 0, 0, 0], scale="sum")


def alone(loss: gtv.Loss) -> gtv.GTVMin:
    graph = nx.Graph()
    graph.add_node("a")
    return gtv.GTVMin(gtv.FLNetwork(graph), [loss], penalty=gtv.Norm(2), alpha=0.0)


def test_separable_data_have_no_minimiser() -> None:
    """Case C19 (cvxpy issue #1755, data after Silvapulle 1981): values on the ray to the infimum 0."""
    values = [SEPARABLE.value([-1.5 * t, t]) for t in (1.0, 10.0, 100.0)]
    assert values == pytest.approx([1.464, 0.01343, 3.857e-22], rel=1e-3)


@pytest.mark.parametrize("method", ["adaptive_primal_dual", "cvxpy"])
@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotAttainedWarning")
def test_separable_data_are_not_called_solved(method: str) -> None:
    options = {} if method == "cvxpy" else {"max_iter": 2000}
    with pytest.warns(ConvergenceWarning, match="not converged"):
        solution = alone(SEPARABLE).solve(method=method, **options)
    assert not solution.is_certified
    assert solution.certificate.relative_gap > 1e-3


def test_separable_data_are_certified_far_out_and_told() -> None:
    """The default goes along the ray until nothing is left to gain."""
    with pytest.warns(gtv.errors.NotAttainedWarning, match="the first is 'a'"):
        solution = alone(SEPARABLE).solve()
    assert solution.is_certified
    assert solution.objective < 1e-15


@pytest.mark.parametrize(
    ("lam", "weights", "value"), [(0.1, (-2.4683, 1.80917), 1.33283023), (0.001, (-10.973, 7.4746), 0.13655291)]
)
@pytest.mark.parametrize("method", ["adaptive_primal_dual", "cvxpy"])
def test_a_ridge_makes_separable_data_solvable(method: str, lam: float, weights: Any, value: float) -> None:
    ridge = 0.5 * lam * gtv.SquaredError(np.eye(2), np.zeros(2), scale="sum")
    solution = alone(SEPARABLE + ridge).solve(method=method, gap=1e-9)
    assert solution.is_certified
    assert solution.objective == pytest.approx(value, abs=2e-8)
    np.testing.assert_allclose(solution["a"], weights, rtol=1e-4)


def test_a_separable_device_is_held_by_its_neighbour() -> None:
    """Tied to data with a minimiser by a norm, the gap closes."""
    mixed = gtv.Logistic([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]], [1, 0, 1, 0])
    problem = gtv.GTVMin(gtv.FLNetwork(nx.path_graph(2)), [SEPARABLE, mixed], penalty=gtv.Norm(2), alpha=0.2)
    assert problem.solve().is_certified
