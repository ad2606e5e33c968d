"""Proximal Newton steps: their answers by CVXPY, their parts by closed forms."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.dual_repair import dual_value
from gtvmin.errors import ConvergenceWarning
from gtvmin.solvers.local_models import LocalModels, model_form
from gtvmin.solvers.proximal_newton import ProximalNewton
from gtvmin.solvers.smooth_duals import hessians, reachable_duals, row_duals
from gtvmin.solvers.standard_form import Point
from test_newton_multipliers import mixed


@pytest.mark.parametrize("penalty", [gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf)], ids=repr)
def test_mixed_losses_agree_with_cvxpy(penalty: gtv.Penalty) -> None:
    problem, optimum = mixed(penalty)
    solution = problem.solve(ProximalNewton(), gap=1e-8, max_iter=200)
    assert solution.is_certified
    assert solution.objective == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_logistic_devices_agree_with_cvxpy(seed: int) -> None:
    """Few data points a device: alone, most devices can separate theirs, and their parameters would run away."""
    rng = np.random.default_rng(seed)
    n, dim, rows, alpha = 12, 3, 5, 0.03
    X, labels = rng.normal(size=(n, rows, dim)), rng.choice([-1.0, 1.0], size=(n, rows))
    edges = [(i, (i + k) % n) for i in range(n) for k in (1, 3)]
    losses = [gtv.Logistic(X[i], labels[i]) for i in range(n)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges(edges, nodes=range(n)), losses, penalty=gtv.Norm(2), alpha=alpha)
    W = cp.Variable((n, dim))
    loss = sum(cp.sum(cp.logistic(-cp.multiply(labels[i], X[i] @ W[i]))) / rows for i in range(n))
    model = cp.Problem(cp.Minimize(loss + alpha * sum(cp.norm(W[i] - W[j]) for i, j in edges)))
    model.solve(solver="CLARABEL")
    solution = problem.solve(ProximalNewton(), gap=1e-8, max_iter=200)
    assert solution.is_certified
    assert solution.objective == pytest.approx(model.value, rel=1e-6)


def test_models_touch_the_losses() -> None:
    """Same gradient at the centre, and the curvature asked for; the proximal map is at rest where it should be."""
    problem, _ = mixed(gtv.Norm(2))
    form, rng = problem.lowered.form, np.random.default_rng(0)
    W, V, step = rng.normal(size=(9, 3)), rng.normal(size=(9, 3)), rng.uniform(0.1, 10.0, 9)
    H = hessians(form, W) + 0.1 * np.eye(3)
    models = model_form(form, W, H, form.local.gradient(W)).local
    assert isinstance(models, LocalModels)
    np.testing.assert_allclose(models.gradient(W), form.local.gradient(W), atol=1e-12)
    h = 1e-3
    quotient = (models.value(V + h * W) - models.value(V - h * W)) / (2 * h)
    np.testing.assert_allclose(quotient, np.einsum("ij,ij->i", models.gradient(V), W), atol=1e-10)
    P = models.prox(V, step)
    np.testing.assert_allclose(models.gradient(P) + (P - V) / step[:, None], 0.0, atol=1e-11)


def test_flows_beyond_the_slopes_are_shrunk() -> None:
    """Slopes of a logistic loss of one point lie in (0, 1): a flow of 5 has no row duals, the other edge's has."""
    losses = [gtv.Logistic([[1.0]], [label]) for label in (1.0, -1.0, 1.0, -1.0)]
    network = gtv.FLNetwork.from_edges([(0, 1), (2, 3)])
    form = gtv.GTVMin(network, losses, penalty=gtv.Norm(2), alpha=10.0).lowered.form
    flows = (np.array([[-5.0], [-0.25]]),)
    assert row_duals(form, np.zeros((4, 1)), flows) is None
    duals = reachable_duals(form, np.zeros((4, 1)), flows)
    assert duals is not None
    assert np.isfinite(dual_value(form, duals))
    assert duals[0].ravel().tolist()[1] == -0.25
    assert abs(duals[0][0, 0]) < 1.0


@pytest.mark.parametrize("start", [2.0, 8.0])
def test_a_model_that_overshoots_does_not_raise_the_objective(start: float) -> None:
    """Three data points a device, most of them outliers at the start: there the models are nearly flat."""
    X = np.ones((3, 1))
    losses = [gtv.Huber(X, y, delta=0.3) for y in ([0.0, 0.1, 5.0], [1.0, -3.0, 0.2])]
    problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1)]), losses, lam=0.01)
    form = problem.lowered.solver_form
    solver = ProximalNewton()
    state = solver.init(form, Point(np.array([[start], [-start]])))
    objectives = [form.objective(state.W)]
    for _ in range(12):
        state = solver.step(form, state)
        objectives.append(form.objective(state.W))
    assert max(np.diff(objectives)) <= 0
    assert objectives[-1] == pytest.approx(problem.to_cvxpy().solve(solver="CLARABEL"), rel=1e-7)


@pytest.mark.parametrize(
    ("alpha", "seeds"),
    [
        (1e5, range(3)),  # all agree: Huber devices have less curvature than parameters, and flows must fit exactly
        (3e-7, range(3)),  # none agree: many devices could separate their data alone, and are hardly held back
    ],
)
def test_coupling_far_too_strong_or_weak_is_certified(alpha: float, seeds: range) -> None:
    """Few data points a device, squared, Huber and logistic in turn."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(30, 5, 3)), rng.normal(size=(30, 5))
        makers = (gtv.SquaredError, gtv.Huber, lambda X, y: gtv.Logistic(X, np.sign(y)))
        losses = [makers[i % 3](X[i], y[i] + X[i].sum(axis=1)) for i in range(30)]
        network = gtv.FLNetwork.from_edges([(i, (i + k) % 30) for i in range(30) for k in (1, 7)])
        solution = gtv.NetworkLasso(network, losses, lam=alpha).solve("proximal_newton", max_iter=200)
        assert solution.is_certified
        if alpha > 1:
            assert np.ptp(solution.weights, axis=0).max() < 1e-9


def test_steps_end_once_rounding_is_all_that_they_change() -> None:
    problem, _ = mixed(gtv.Norm(2))
    with pytest.warns(ConvergenceWarning, match="ended by itself"):
        solution = problem.solve("proximal_newton", gap=0.0)
    assert solution.iterations < 100
    assert solution.certificate.relative_gap < 1e-10
