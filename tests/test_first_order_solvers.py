"""Accelerated proximal gradient, its dual, and block coordinate descent: steps by hand, answers by CVXPY."""

from __future__ import annotations

from itertools import pairwise

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.registry import make_solver
from gtvmin.solvers.block_coordinate import greedy_colours
from gtvmin.solvers.proximal_gradient import momentum
from gtvmin.solvers.standard_form import Point

rng = np.random.default_rng(11)
X, Y = rng.normal(size=(6, 5, 2)), rng.normal(size=(6, 5))
LABELS = np.where(Y > 0, 1.0, -1.0)
RING = nx.cycle_graph(6)


@pytest.mark.parametrize("method", ["proximal_gradient", "block_coordinate"])
@pytest.mark.parametrize("loss", ["hinge", "logistic", "lasso"])
def test_losses_with_kinks_and_squared_differences(method: str, loss: str) -> None:
    W, alpha = cp.Variable((6, 2)), 0.3
    losses, total = [], 0.0
    for i in range(6):
        t = X[i] @ W[i]
        if loss == "hinge":
            losses.append(gtv.Hinge(X[i], LABELS[i]))
            total += cp.sum(cp.pos(1 - cp.multiply(LABELS[i], t))) / 5
        elif loss == "logistic":
            losses.append(gtv.Logistic(X[i], LABELS[i]))
            total += cp.sum(cp.logistic(-cp.multiply(LABELS[i], t))) / 5
        else:
            losses.append(gtv.SquaredError(X[i], Y[i]) + 0.5 * gtv.L1())
            total += cp.sum_squares(t - Y[i]) / 5 + 0.5 * cp.norm1(W[i])
    coupling = sum(cp.sum_squares(W[j] - W[i]) for i, j in RING.edges)
    model = cp.Problem(cp.Minimize(total + alpha * coupling))
    model.solve(solver="CLARABEL")
    solution = gtv.GTVMin(RING, losses, penalty=gtv.SquaredNorm(), alpha=alpha).solve(method, gap=1e-7)
    assert solution.is_certified
    assert solution.objective == pytest.approx(model.value, rel=1e-6)


def test_huber_penalty_by_proximal_gradient() -> None:
    W, losses = cp.Variable((6, 2)), [gtv.SquaredError(X[i], Y[i]) for i in range(6)]
    total = sum(cp.sum_squares(X[i] @ W[i] - Y[i]) / 5 for i in range(6))
    coupling = sum(cp.huber(cp.norm(W[j] - W[i]), 0.1) / 0.2 for i, j in RING.edges)
    model = cp.Problem(cp.Minimize(total + 0.4 * coupling))
    model.solve(solver="CLARABEL")
    problem = gtv.GTVMin(RING, losses, penalty=gtv.HuberPenalty(0.1), alpha=0.4)
    solution = problem.solve("proximal_gradient", gap=1e-9)
    assert solution.is_certified
    assert solution.objective == pytest.approx(model.value, rel=1e-6)


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_convex_clustering_by_the_dual(p: float) -> None:
    points = rng.normal(size=(6, 3))
    W = cp.Variable((6, 3))
    coupling = sum(cp.norm(W[j] - W[i], p) for i, j in RING.edges)
    model = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W - points) + 0.4 * coupling))
    model.solve(solver="CLARABEL")
    losses = [0.5 * gtv.SquaredDistance(point) for point in points]
    solution = gtv.GTVMin(RING, losses, penalty=gtv.Norm(p), alpha=0.4).solve("dual_proximal_gradient", gap=1e-9)
    assert solution.is_certified
    assert solution.objective == pytest.approx(model.value, rel=1e-6)


def two_devices(penalty: gtv.Penalty) -> gtv.GTVMin:
    """``(w_1 - 1)^2 / 2 + (w_2 - 5)^2 / 2 + 0.3 phi(w_2 - w_1)``."""
    losses = [0.5 * gtv.SquaredError([[1.0]], [t]) for t in (1.0, 5.0)]
    return gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=penalty, alpha=0.3)


def test_proximal_gradient_takes_the_steps_of_fista() -> None:
    form = two_devices(gtv.SquaredNorm()).lowered.form
    solver = make_solver("proximal_gradient")
    w, target = np.array([2.0, -1.0]), np.array([1.0, 5.0])
    state = solver.init(form, Point(w[:, None]))
    tau, y, t = 1.0 / 1.2, w.copy(), 1.0  # l = 2 * 0.3, of which twice
    for _ in range(3):
        gradient = 0.6 * np.array([y[0] - y[1], y[1] - y[0]])
        new = (y - tau * gradient + tau * target) / (1.0 + tau)
        if (y - new) @ (new - w) > 0:
            t = 1.0
        after = (1.0 + np.sqrt(1.0 + 4.0 * t**2)) / 2.0
        y, w, t = new + (t - 1.0) / after * (new - w), new, after
        state = solver.step(form, state)
        assert np.allclose(state.W[:, 0], w)


def test_the_dual_method_takes_the_step_of_its_docstring() -> None:
    form = two_devices(gtv.Norm(2)).lowered.form
    solver = make_solver("dual_proximal_gradient")
    state = solver.step(form, solver.init(form, None))
    # the devices answer 1 and 5 to no flow; 1 / sigma = 1 + 1
    assert state.U[0][0, 0] == pytest.approx(min(0.5 * 4.0, 0.3))
    assert np.allclose(solver.point(form, state).W[:, 0], [1.3, 4.7])


def test_a_sweep_of_block_coordinates_by_hand() -> None:
    form = two_devices(gtv.SquaredNorm()).lowered.form
    solver = make_solver("block_coordinate")
    state = solver.step(form, solver.init(form, None))
    first = (1.0 + 0.6 * 0.0) / 1.6
    assert np.allclose(state.W[:, 0], [first, (5.0 + 0.6 * first) / 1.6])


def test_block_coordinates_never_raise_the_objective() -> None:
    losses = [gtv.LeastAbsolute(X[i], Y[i]) for i in range(6)]
    form = gtv.GTVMin(RING, losses, penalty=gtv.SquaredNorm(), alpha=0.2).lowered.form
    solver = make_solver("block_coordinate")
    state = solver.init(form, Point(rng.normal(size=(6, 2))))
    values = []
    for _ in range(30):
        state = solver.step(form, state)
        values.append(form.objective(state.W))
    assert all(b <= a + 1e-12 for a, b in pairwise(values))


@given(n=st.integers(1, 30), seed=st.integers(0, 10**6), density=st.floats(0.0, 0.6))
@settings(max_examples=40, deadline=None)
def test_neighbours_have_different_colours(n: int, seed: int, density: float) -> None:
    graph = nx.gnp_random_graph(n, density, seed=seed)
    ends = np.array(list(graph.edges), dtype=np.int64).reshape(-1, 2)
    colour = greedy_colours(ends[:, 0], ends[:, 1], n)
    assert (colour[ends[:, 0]] != colour[ends[:, 1]]).all()
    assert set(colour.tolist()) == set(range(colour.max() + 1))
    assert colour.max() <= max(dict(graph.degree).values(), default=0)


def test_momentum_grows_as_half_the_steps() -> None:
    t = 1.0
    for _ in range(1000):
        t, share = momentum(t)
    assert 500.0 < t < 510.0
    assert 0.99 < share < 1.0


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        ("proximal_gradient", r"couplings\.gradient"),
        ("block_coordinate", r"coupling\.quadratic"),
        ("dual_proximal_gradient", r"quadratic\.strongly_convex"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(method: str, needs: str) -> None:
    problem = gtv.GTVMin(RING, [gtv.SquaredError(X[i, :1], Y[i, :1]) for i in range(6)], penalty=gtv.Norm(2), alpha=0.1)
    with pytest.raises(CapabilityError, match=needs):
        problem.solve(method)


@pytest.mark.parametrize("method", ["proximal_gradient", "block_coordinate", "dual_proximal_gradient"])
def test_a_warm_start_is_used(method: str) -> None:
    losses = [gtv.SquaredError(X[i], Y[i]) for i in range(6)]
    problem = gtv.GTVMin(RING, losses, penalty=gtv.SquaredNorm(), alpha=0.2)
    cold = problem.solve(method, gap=1e-8)
    assert cold.iterations > 1
    assert problem.solve(method, gap=1e-8, start=cold).iterations <= 1
