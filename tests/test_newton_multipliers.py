"""The Newton method of multipliers: its derivatives by difference quotients, its answers by CVXPY."""

from __future__ import annotations

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.solvers.driver import missing_capabilities
from gtvmin.solvers.newton_multipliers import NewtonMultipliers
from gtvmin.solvers.smooth_duals import hessians, row_duals
from gtvmin.verify import suite

PENALTIES = [gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf), gtv.HuberPenalty(0.3), gtv.SquaredNorm()]
CVXPY_PENALTY = {
    "Norm(p=1.0)": lambda z: cp.norm(z, 1),
    "Norm(p=2.0)": lambda z: cp.norm(z, 2),
    "Norm(p=inf)": lambda z: cp.norm(z, "inf"),
    "HuberPenalty(delta=0.3)": lambda z: cp.huber(cp.norm(z, 2), 0.3) / 0.6,
    "SquaredNorm()": cp.sum_squares,
}
DIM, ROWS = 3, 8


def mixed(penalty: gtv.Penalty, seed: int = 0, alpha: float = 0.05) -> tuple[gtv.GTVMin, float]:
    """Logistic, Huber, Poisson and squared losses and a device without data, and the optimum by CVXPY."""
    rng = np.random.default_rng(seed)
    graph = nx.circulant_graph(9, [1, 2])
    W, total, losses = cp.Variable((9, DIM)), 0.0, []
    for i in range(9):
        X, kind = rng.normal(size=(ROWS, DIM)), i % 4
        y = X @ np.array([1.0, -1.0, 0.5]) * (1 if i < 5 else -1) + 0.3 * rng.normal(size=ROWS)
        t = X @ W[i]
        if i == 8:
            losses.append(gtv.Zero(DIM))
        elif kind == 0:
            labels = np.where(y > 0, 1.0, -1.0)
            losses.append(gtv.Logistic(X, labels))
            total += cp.sum(cp.logistic(-cp.multiply(labels, t))) / ROWS
        elif kind == 1:
            y[0] += 30.0
            losses.append(gtv.Huber(X, y, delta=0.5))
            total += cp.sum(cp.huber(t - y, 0.5)) / ROWS
        elif kind == 2:
            counts = rng.poisson(np.exp(np.clip(y, -2, 2)))
            losses.append(gtv.Poisson(X, counts))
            total += cp.sum(cp.exp(t) - cp.multiply(counts, t)) / ROWS
        else:
            losses.append(gtv.SquaredError(X[:2], y[:2]))  # fewer rows than parameters
            total += cp.sum_squares(t[:2] - y[:2]) / 2
    phi = CVXPY_PENALTY[repr(penalty)]
    coupling = sum(phi(W[j] - W[i]) for i, j in graph.edges)
    model = cp.Problem(cp.Minimize(total + alpha * coupling))
    model.solve(solver="CLARABEL")
    return gtv.GTVMin(graph, losses, penalty=penalty, alpha=alpha), float(model.value)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_mixed_losses_agree_with_cvxpy(penalty: gtv.Penalty) -> None:
    problem, optimum = mixed(penalty)
    solution = problem.solve("newton_multipliers", gap=1e-9)
    assert solution.is_certified
    assert solution.objective == pytest.approx(optimum, rel=1e-6)
    assert solution.iterations < 500


@given(seed=st.integers(0, 10**6), step=st.floats(0.1, 10.0))
@settings(max_examples=20, deadline=None)
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_the_derivative_of_the_flows_is_that_of_difference_quotients(
    penalty: gtv.Penalty, seed: int, step: float
) -> None:
    rng = np.random.default_rng(seed)
    block = penalty.stack(np.ones(6), 4)
    V, move, steps = 2.0 * rng.normal(size=(6, 4)), rng.normal(size=(6, 4)), np.full(6, step)
    prox = block.conjugate_prox_operator(steps)
    h = 1e-6
    forward, backward = prox(V + h * move) - prox(V), prox(V) - prox(V - h * move)
    smooth = np.abs(forward - backward).max(axis=1) < 1e-3 * h  # no kink between
    a, n = block.conjugate_prox_derivative(V, steps)
    image = a * move - n * np.einsum("ij,ij->i", n, move)[:, None]
    np.testing.assert_allclose(image[smooth], forward[smooth] / h, atol=2e-3)


def test_hessians_are_the_difference_quotients_of_the_gradient() -> None:
    problem, _ = mixed(gtv.Norm(2))
    form, rng, h = problem.lowered.form, np.random.default_rng(1), 1e-6
    W, move = rng.normal(size=(9, DIM)), rng.normal(size=(9, DIM))
    quotient = (form.local.gradient(W + h * move) - form.local.gradient(W - h * move)) / (2 * h)
    np.testing.assert_allclose(np.einsum("ijk,ik->ij", hessians(form, W), move), quotient, atol=1e-6)


def test_duals_of_data_points_meet_the_linear_conditions() -> None:
    """Two devices, one edge: given a flow, the slopes solve ``X^T p = s`` and reach the conjugate."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(2, 12, 2)), rng.choice([-1.0, 1.0], size=(2, 12))
    losses = [gtv.Logistic(X[i], y[i]) for i in range(2)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(2), alpha=0.1)
    flow = np.array([[0.03, -0.02]])
    duals = row_duals(problem.lowered.form, np.zeros((2, 2)), (flow,))
    assert duals is not None
    for i, s in enumerate((flow[0], -flow[0])):
        p = duals[0][12 * i : 12 * i + 12, 0]
        np.testing.assert_allclose((y[i][:, None] * X[i]).T @ p, s, atol=1e-13)
        w = cp.Variable(2)
        conjugate = cp.Problem(cp.Maximize(s @ w - cp.sum(cp.logistic(-cp.multiply(y[i], X[i] @ w))) / 12))
        conjugate.solve(solver="CLARABEL")
        q = -12 * p
        assert float((q * np.log(q) + (1 - q) * np.log(1 - q)).sum() / 12) == pytest.approx(conjugate.value, rel=1e-6)


def test_long_stretches_without_data_are_crossed() -> None:
    """A path on which few devices have data: the others' only curvature is that of the edges, which vanishes."""
    problem = next(instance for instance in suite("hard") if instance.name == "hard_long_path").problem()
    solution = problem.solve("newton_multipliers", gap=1e-9, max_iter=500)
    assert solution.is_certified
    assert solution.objective == pytest.approx(problem.to_cvxpy().solve(solver="CLARABEL"), rel=1e-6)


def test_a_warm_start_is_used() -> None:
    problem, _ = mixed(gtv.Norm(2))
    cold = problem.solve("newton_multipliers", gap=1e-9)
    assert problem.solve("newton_multipliers", gap=1e-9, start=cold).iterations <= 1


def test_losses_without_second_derivatives_are_refused() -> None:
    X, y = np.ones((2, 1)), np.array([1.0, -1.0])
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), [gtv.Hinge(X, y)] * 2, penalty=gtv.Norm(2), alpha=0.1)
    assert missing_capabilities(NewtonMultipliers(), problem.lowered.form) == [
        "local.gradient",
        "rows.second_derivative",
    ]
    with pytest.raises(CapabilityError, match="second_derivative"):
        problem.solve("newton_multipliers")
    with pytest.raises(ValueError, match="penalty"):
        NewtonMultipliers(penalty=0.0)
