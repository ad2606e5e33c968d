"""Compiled steps against the formulas in NumPy, in one thread and in several."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from scipy.optimize import brentq

import gtvmin as gtv
from gtvmin.registry import make_solver
from gtvmin.solvers import ordering, sweeps
from gtvmin.solvers.feature_weights import feature_weights
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.ordering import Ordering
from gtvmin.solvers.passes import MOST_THREADS, NUMBERS_PER_THREAD, _nearest_in_ball, thread_count
from gtvmin.solvers.sweeps import Sweep

N, SCALE, RELAXATION = 23, 0.7, 1.6


def problem(dim: int, p: float, seed: int = 0) -> gtv.GTVMin:
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(rng.random((N, N)) < 0.3, 1))
    network = gtv.FLNetwork.from_edges(pairs, weights=rng.uniform(0.5, 2.0, len(pairs)), nodes=range(N))
    losses = [
        gtv.Zero(dim) if i % 5 == 0 else gtv.SquaredError(rng.normal(size=(3, dim)), rng.normal(size=3))
        for i in range(N)
    ]
    return gtv.NetworkLasso(network, losses, lam=0.1, p=p)


def nearest_in_ball(v: np.ndarray, sigma: np.ndarray, radius: float) -> np.ndarray:
    """The u in the ball with the least ``sum_k (u_k - v_k)^2 / sigma_k``, by bisection for its multiplier."""
    if np.linalg.norm(v) <= radius:
        return v

    def outside(logarithm: float) -> float:
        return float(np.log(np.linalg.norm(v / (1.0 + sigma * np.exp(logarithm))) / radius))

    return v / (1.0 + sigma * np.exp(brentq(outside, -200.0, 200.0, xtol=1e-13, rtol=1e-15)))


def step_in_numpy(
    problem: gtv.GTVMin, W: np.ndarray, U: np.ndarray, weights: np.ndarray | float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 3.1 of Condat (2013) with the diagonal steps of Pock and Chambolle (2011), device by device."""
    D, weights = problem.network.incidence().toarray(), np.broadcast_to(weights, W.shape[1])
    degree = np.abs(D).sum(axis=0)
    tau, sigma = SCALE * weights / degree[:, None], 1.0 / (2.0 * SCALE * weights)
    at, prox = W - tau * (D.T @ U), np.empty_like(W)
    for i, loss in enumerate(problem.losses):
        X, y = (loss.X, loss.y) if isinstance(loss, gtv.SquaredError) else (np.zeros((1, W.shape[1])), np.zeros(1))
        hessian = np.diag(1.0 / tau[i]) + 2.0 / len(y) * X.T @ X
        prox[i] = np.linalg.solve(hessian, at[i] / tau[i] + 2.0 / len(y) * X.T @ y)
    V = U + sigma * (D @ (2.0 * prox - W))
    radius = problem.alpha * problem.network.weights
    if problem.penalty == gtv.Norm(1):
        inside = np.clip(V, -radius[:, None], radius[:, None])
    else:
        inside = np.array([nearest_in_ball(v, sigma, r) for v, r in zip(V, radius, strict=True)])
    return W + RELAXATION * (prox - W), U + RELAXATION * (inside - U)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize("dim", [1, 2, 4, 5, 9])
def test_steps_are_those_of_the_formulas(dim: int, p: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "thread_count", lambda edges, dim: threads)
    case, rng = problem(dim, p), np.random.default_rng(1)
    form = case.lowered.form
    W, U = rng.normal(size=(N, dim)), 0.1 * rng.normal(size=(form.n_edges, dim))
    sweep = Sweep.of(form, SCALE)
    iterate, pull = (W.copy(), (U.copy(),)), sweep.pull((U,))
    assert len(pull) == threads
    for _ in range(3):
        sweep.advance(iterate, pull, RELAXATION)
        W, U = step_in_numpy(case, W, U)
    np.testing.assert_allclose(iterate[0], W, atol=1e-12)
    np.testing.assert_allclose(iterate[1][0], U, atol=1e-12)
    np.testing.assert_allclose(pull.sum(axis=0), case.network.incidence().T @ U, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_each_parameter_may_have_its_own_steps(p: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "thread_count", lambda edges, dim: threads)
    case, rng, weights = problem(3, p), np.random.default_rng(1), np.array([10.0, 1.0, 0.1])
    W, U = rng.normal(size=(N, 3)), 0.1 * rng.normal(size=(case.lowered.form.n_edges, 3))
    sweep = Sweep.of(case.lowered.form, SCALE, weights)
    iterate, pull = (W.copy(), (U.copy(),)), sweep.pull((U,))
    for _ in range(3):
        sweep.advance(iterate, pull, RELAXATION)
        W, U = step_in_numpy(case, W, U, weights)
    np.testing.assert_allclose(iterate[0], W, atol=1e-12)
    np.testing.assert_allclose(iterate[1][0], U, atol=1e-12)
    zero = np.zeros_like(W), (np.zeros_like(U),)
    degree = np.asarray(abs(case.network.incidence()).sum(axis=0)).ravel()
    primal, dual = sweep.squared_parts((W, (U,)), zero)
    assert primal == pytest.approx((W**2 * degree[:, None] / (SCALE * weights)).sum())
    assert dual == pytest.approx((U**2 * 2.0 * SCALE * weights).sum())
    of_primal, of_dual = sweep.parts((W, (U,)), zero)
    np.testing.assert_allclose(of_primal, (W**2 * degree[:, None] / (SCALE * weights)).sum(axis=0))
    np.testing.assert_allclose(of_dual, (U**2 * 2.0 * SCALE * weights).sum(axis=0))


def test_distances_of_rows_wider_than_the_parameters() -> None:
    B = np.ones((5, 2))
    network = gtv.FLNetwork.from_edges([(0, 1)])
    case = gtv.GTVMin(network, [gtv.Zero(2)] * 2, penalty=gtv.Mapped(gtv.Norm(2), {(0, 1): (B, B)}), alpha=1.0)
    form = case.lowered.form
    sweep = Sweep.of(form, SCALE)
    U = np.arange(1.0, 6.0)[None, :]
    zero = np.zeros((2, 2)), (np.zeros((1, 5)),)
    size = 2.0 * np.linalg.norm(B, 2)
    assert sweep.squared_parts((np.zeros((2, 2)), (U,)), zero)[1] == pytest.approx(55.0 * SCALE * size)


@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(0.0, 9.0), st.floats(-6.0, 3.0))
@settings(deadline=None, max_examples=60)
def test_nearest_points_of_balls_in_a_metric(dim: int, seed: int, spread: float, outside: float) -> None:
    rng = np.random.default_rng(seed)
    sigma, v = 10.0 ** rng.uniform(-spread, spread, dim), rng.normal(size=dim)
    radius = float(np.linalg.norm(v)) / (1.0 + 10.0**outside)
    found = v.copy()
    _nearest_in_ball(found, sigma, radius)
    assert np.linalg.norm(found) <= radius * (1.0 + 4e-16)
    np.testing.assert_allclose(found, nearest_in_ball(v, sigma, radius), atol=1e-10 * radius, rtol=1e-7)


@pytest.mark.parametrize("p", [1.0, 2.0])
@pytest.mark.parametrize(
    ("units", "rows", "labelled", "most"), [((1e6, 1.0, 1e-3), 8, 1, 3000), ((1e2, 1.0, 1e-2), 2, 2, 4000)]
)
def test_features_in_other_units_take_no_more_than_a_few_steps(
    units: tuple[float, ...], rows: int, labelled: int, most: int, p: float
) -> None:
    """With equal steps the first takes more than 3,000; in the second the first weights are far from good ones."""
    rng, n = np.random.default_rng(0), 60
    truth, losses = rng.normal(size=(2, 3)), []
    for i in range(n):
        Z = rng.normal(size=(rows, 3))
        loss = gtv.SquaredError(Z * units, Z @ truth[2 * i // n] + 0.3 * rng.normal(size=rows))
        losses.append(gtv.Zero(3) if i % labelled else loss)
    network = gtv.FLNetwork.from_edges([(i, j) for i in range(n) for j in (i + 1, i + 2, i + 5) if j < n])
    case = gtv.NetworkLasso(network, losses, lam=0.3, p=p)
    weights = feature_weights(case.lowered.form)
    assert np.exp(np.log(weights).mean()) == pytest.approx(1.0)
    np.testing.assert_allclose(weights[1:] / weights[:-1], np.square(np.divide(units[:-1], units[1:])), rtol=0.5)
    assert case.solve("adaptive_primal_dual", max_iter=most, gap=1e-6).is_certified


def test_features_in_like_units_have_equal_steps() -> None:
    form = problem(4, 2.0).lowered.form
    assert (feature_weights(form) == 1.0).all()
    for scale in np.geomspace(0.01, 100.0, 9):
        solver = make_solver("adaptive_primal_dual", scale=scale)
        state = solver.init(form, None)
        for _ in range(100):
            state = solver.step(form, state)
        assert state.scale != scale  # they stay equal to the last bit when the scale moves
        assert (state.sweep.weights == 1.0).all()
    network = gtv.FLNetwork.from_edges([(0, 1)])
    rows = [gtv.Huber([[1e6, 1.0]], [1.0])] * 2  # rows of data tie parameters together
    assert (feature_weights(gtv.NetworkLasso(network, rows, lam=1.0).lowered.form) == 1.0).all()
    empty = gtv.NetworkLasso(network, [gtv.Zero(2)] * 2, lam=1.0).lowered.form
    assert (feature_weights(empty) == 1.0).all()
    partly = [gtv.SquaredError([[1e3, 1.0, 0.0]], [1.0])] * 2
    np.testing.assert_allclose(
        feature_weights(gtv.NetworkLasso(network, partly, lam=1.0).lowered.form), [1e-3, 1e3, 1.0], rtol=1e-12
    )


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_an_order_with_neighbours_near_changes_no_step(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "CACHED", 0)
    rng = np.random.default_rng(3)
    shuffled = rng.permutation(N)
    ring = np.column_stack([shuffled, np.roll(shuffled, 1)])
    network = gtv.FLNetwork.from_edges(ring, weights=rng.uniform(0.5, 2.0, N), nodes=range(N))
    case = gtv.NetworkLasso(network, problem(2, p).losses, lam=0.1, p=p)
    form = case.lowered.form
    sweep = Sweep.of(form, SCALE)
    assert sweep.ordering is not None
    places = sweep.ordering.map
    assert np.abs(places.tail - places.head).max() <= 2
    W, U = rng.normal(size=(N, 2)), 0.1 * rng.normal(size=(N, 2))
    iterate, pull = sweep.arranged((W, (U,))), sweep.pull(sweep.arranged((W, (U,)))[1])
    for _ in range(3):
        sweep.advance(iterate, pull, RELAXATION)
        W, U = step_in_numpy(case, W, U)
    found = sweep.restored(iterate)
    np.testing.assert_allclose(found[0], W, atol=1e-12)
    np.testing.assert_allclose(found[1][0], U, atol=1e-12)
    solution = case.solve("adaptive_primal_dual", gap=1e-9)
    assert solution.is_certified
    monkeypatch.setattr(ordering, "CACHED", 10**9)
    assert case.solve("adaptive_primal_dual", gap=1e-9).objective == pytest.approx(solution.objective, rel=1e-8)


def test_an_order_is_sought_only_where_neighbours_are_far(monkeypatch: pytest.MonkeyPatch) -> None:
    path, n = np.arange(200), 200
    shuffled = np.random.default_rng(0).permutation(n)
    assert Ordering.of(EdgeDifference(shuffled[:-1], shuffled[1:], n, 2)) is None
    monkeypatch.setattr(ordering, "CACHED", 0)
    assert Ordering.of(EdgeDifference(path[:-1], path[1:], n, 2)) is None
    assert Ordering.of(EdgeDifference(shuffled[:-1], shuffled[1:], n, 2)) is not None
    none = np.empty(0, dtype=np.int64)
    assert Ordering.of(EdgeDifference(none, none, n, 2)) is None


def test_a_step_from_zero_without_labels_stays_there() -> None:
    network = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    form = gtv.NetworkLasso(network, [gtv.Zero(2)] * 3, lam=1.0).lowered.form
    sweep = Sweep.of(form, 1.0)
    iterate = np.zeros((3, 2)), form.zero_duals()
    sweep.advance(iterate, sweep.pull(iterate[1]), RELAXATION)
    assert not iterate[0].any()
    assert not iterate[1][0].any()


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_threads_give_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "thread_count", lambda edges, dim: threads)
    runs = []
    for _ in range(2):
        form, solver = problem(3, 2.0).lowered.form, make_solver("adaptive_primal_dual")
        state = solver.init(form, None)
        for _ in range(100):
            state = solver.step(form, state)
        runs.append(state.iterate)
    assert np.array_equal(runs[0][0], runs[1][0])
    assert np.array_equal(runs[0][1][0], runs[1][1][0])


def test_small_problems_take_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 64)
    assert thread_count(NUMBERS_PER_THREAD // 2, 3) == 1
    assert thread_count(NUMBERS_PER_THREAD, 2) == 2
    assert thread_count(10**9, 2) == MOST_THREADS
    monkeypatch.setattr(config, "NUMBA_NUM_THREADS", 1)
    assert thread_count(10**9, 2) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork on Windows")
def test_a_forked_process_starts_threads_of_its_own() -> None:
    script = """
import os, signal, warnings
warnings.simplefilter("ignore")
from gtvmin.solvers.passes import _run
_run([list, list])
child = os.fork()
if child == 0:
    signal.alarm(20)
    _run([list, list])
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "0"
