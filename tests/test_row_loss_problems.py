"""Problems with losses on rows, solved to a certificate and by CVXPY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from models import PENALTIES, PHI
from row_loss_data import INF, TIGHT, Array

NODES, PARAMETERS = 4, 2
EDGES = [(0, 1, 1.0), (1, 2, 0.5), (2, 3, 2.0), (3, 0, 1.0), (0, 2, 0.7)]
Node = Callable[[int], tuple[gtv.Loss, Callable[[Any], Any], Callable[[Any], list[Any]]]]


def data(i: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(100 + i)
    features = rng.standard_normal((6, PARAMETERS))
    y = features @ [1.0, -1.0 + 0.5 * i] + 0.5 * rng.standard_normal(6)
    return features, y, np.where(y + rng.standard_normal(6) > 0, 1.0, -1.0)


def hinges(margins: Any) -> Any:
    return cp.pos(1 - margins)


def of_data(make: Callable[..., gtv.Loss], per_row: Callable[[Any, Array], Any], labels: int = 1) -> Node:
    def node(i: int) -> Any:
        parts = data(i)
        features, y = parts[0], parts[labels]
        return make(features, y), (lambda w: cp.sum(per_row(features @ w, y)) / 6), (lambda w: [])

    return node


def with_indicator(indicator: gtv.Loss, domain: Callable[[Any], list[Any]], linear: bool = False) -> Node:
    def node(i: int) -> Any:
        point = np.array([np.cos(2.0 * i), np.sin(2.0 * i) + 0.3])
        if linear:
            return gtv.Linear(point) + indicator, (lambda w: point @ w), domain
        return gtv.SquaredDistance(point) + indicator, (lambda w: cp.sum_squares(w - point)), domain

    return node


def quadratic_node(i: int) -> Any:
    row = np.random.default_rng(i).standard_normal((1, PARAMETERS))
    q = row[0] * (i - 1.5)
    loss = gtv.Quadratic(row.T @ row, q, 1.0)
    return loss, (lambda w: 0.5 * cp.sum_squares(row @ w) + q @ w + 1.0), (lambda w: [])


def some_labelled(i: int) -> Any:
    features, y, _ = data(i)
    if i:
        return gtv.Zero(), (lambda w: 0.0), (lambda w: [])
    return gtv.LeastAbsolute(features, y), (lambda w: cp.norm(y - features @ w, 1) / 6), (lambda w: [])


def lasso(i: int) -> Any:
    features, y, _ = data(i)
    loss = gtv.SquaredError(features, y) + 0.1 * gtv.L1() + gtv.NonNegative()
    return loss, (lambda w: cp.sum_squares(y - features @ w) / 6 + 0.1 * cp.norm(w, 1)), (lambda w: [w >= 0])


def net(i: int) -> Any:
    features, y, _ = data(i)
    loss = gtv.SquaredError(features, y) + gtv.ElasticNet(0.3, 0.1)
    return (
        loss,
        (lambda w: cp.sum_squares(y - features @ w) / 6 + 0.3 * cp.norm(w, 1) + 0.1 * cp.sum_squares(w)),
        (lambda w: []),
    )


def l1_and_equation(i: int) -> Any:
    row = np.array([[1.0, 0.3 * (i + 1)]])
    loss = gtv.L1() + gtv.Affine(row, [1.0 + i])
    return loss, (lambda w: cp.norm(w, 1)), (lambda w: [row @ w == 1.0 + i])


PROBLEMS: dict[str, Node] = {
    "quadratic": quadratic_node,
    "squared distance": with_indicator(gtv.Zero(), lambda w: []),
    "huber": of_data(lambda X, y: gtv.Huber(X, y, delta=0.4), lambda t, y: cp.huber(y - t, 0.4)),
    "least absolute": of_data(gtv.LeastAbsolute, lambda t, y: cp.abs(y - t)),
    "one device labelled": some_labelled,
    "quantile": of_data(
        lambda X, y: gtv.Quantile(X, y, tau=0.8), lambda t, y: cp.maximum(0.8 * (y - t), -0.2 * (y - t))
    ),
    "hinge": of_data(gtv.Hinge, lambda t, y: hinges(cp.multiply(y, t)), 2),
    "squared hinge": of_data(gtv.SquaredHinge, lambda t, y: cp.square(hinges(cp.multiply(y, t))), 2),
    "logistic": of_data(gtv.Logistic, lambda t, y: cp.logistic(-cp.multiply(y, t)), 2),
    "lasso, non-negative": lasso,
    "elastic net": net,
    "l1 and equation": l1_and_equation,
    "non-negative": with_indicator(gtv.NonNegative(), lambda w: [w >= 0]),
    "box": with_indicator(gtv.Box([-0.5, -INF], 0.4), lambda w: [w[0] >= -0.5, w <= 0.4]),
    "simplex": with_indicator(gtv.Simplex(), lambda w: [w >= 0, cp.sum(w) == 1]),
    "equation": with_indicator(gtv.Affine([[1.0, -2.0]], [0.3]), lambda w: [w[0] - 2 * w[1] == 0.3]),
    "linear in a box": with_indicator(gtv.Box(-1, [1, 2]), lambda w: [w >= -1, w <= np.array([1, 2])], linear=True),
    "linear on a simplex": with_indicator(gtv.Simplex(), lambda w: [w >= 0, cp.sum(w) == 1], linear=True),
}


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_are_solved_to_a_certificate(name: str, penalty: str) -> None:
    parts = [PROBLEMS[name](i) for i in range(NODES)]
    network = gtv.FLNetwork.from_edges([(i, j) for i, j, _ in EDGES], weights=[a for _, _, a in EDGES])
    alpha = 0.1
    problem = gtv.GTVMin(
        network, [loss for loss, _, _ in parts], penalty=PENALTIES[penalty], alpha=alpha, dim=PARAMETERS
    )
    W = cp.Variable((NODES, PARAMETERS))
    value = sum(expression(W[i]) for i, (_, expression, _) in enumerate(parts))
    value += alpha * sum(a * PHI[penalty](W[j] - W[i]) for i, j, a in EDGES)
    model = cp.Problem(cp.Minimize(value), [c for i, (_, _, domain) in enumerate(parts) for c in domain(W[i])])
    model.solve(**TIGHT)

    solution = problem.solve(method="adaptive_primal_dual", max_iter=10_000)
    assert solution.is_certified
    assert solution.relative_gap <= 1e-6
    size = max(abs(model.value), 1e-3)
    assert abs(solution.objective - model.value) <= 2e-6 * size
    assert solution.certificate.dual <= model.value + 1e-7 * size

    reference = problem.solve(method="cvxpy")
    assert reference.is_certified
    assert abs(reference.objective - model.value) <= 1e-7 * size
