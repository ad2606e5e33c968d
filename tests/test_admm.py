"""ADMM: its step by hand, its linear systems, and the factors that they stand on."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.registry import make_solver
from gtvmin.solvers.admm import first_penalties
from gtvmin.solvers.admm_rows import RowStep
from gtvmin.solvers.extrapolation import Trail
from gtvmin.solvers.laplacian_factor import LaplacianPattern, factor_is_cheap, thin_pattern
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.quadratic_systems import RowSystem
from gtvmin.solvers.standard_form import Point


@given(st.integers(1, 12), st.integers(0, 30), st.sampled_from([1, 2, 3, 9]), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_factors_of_laplacians_solve(n: int, m: int, dim: int, seed: int) -> None:
    """Against dense solves; with parallel edges, edges of no weight, and the pattern used twice."""
    rng = np.random.default_rng(seed)
    m = m if n > 1 else 0
    tail = rng.integers(0, max(n - 1, 1), m)
    head = tail + 1 + (rng.random(m) * (n - 1 - tail)).astype(np.int64)
    pattern = LaplacianPattern(tail, head, n)
    D = np.zeros((m, n))
    D[np.arange(m), tail], D[np.arange(m), head] = -1.0, 1.0
    for _ in range(2):
        shift, conductance = rng.uniform(0.1, 1.0, n), rng.uniform(0.0, 9.0, m) * (rng.random(m) < 0.7)
        B = rng.normal(size=(n, dim))
        expected = np.linalg.solve(np.diag(shift) + D.T @ np.diag(conductance) @ D, B)
        assert np.allclose(pattern.factor(shift, conductance).solve(B), expected, rtol=1e-8, atol=1e-10)


def test_thin_graphs_are_factored_and_random_ones_are_not() -> None:
    def ends(graph: nx.Graph) -> tuple[np.ndarray, np.ndarray, int]:
        tail, head = np.array(nx.convert_node_labels_to_integers(graph).edges, dtype=np.int64).T
        return tail, head, len(graph)

    assert factor_is_cheap(*ends(nx.path_graph(30_000)))
    assert factor_is_cheap(*ends(nx.grid_2d_graph(60, 60)))
    assert not factor_is_cheap(*ends(nx.gnm_random_graph(4000, 20_000, seed=1)))
    assert thin_pattern(EdgeDifference(*ends(nx.gnm_random_graph(4000, 20_000, seed=1)), 2)) is None
    map = EdgeDifference(*ends(nx.grid_2d_graph(5, 5)), 2)
    assert thin_pattern(map) is not None
    assert thin_pattern(map) is thin_pattern(map)


def test_admm_takes_the_step_of_the_book() -> None:
    """One iteration of equations (3.2) to (3.4) of Boyd et al. and of (3.19), written out for one edge."""
    net = gtv.FLNetwork.from_edges([(0, 1)])
    a, alpha, rho, relaxation = np.array([1.0, 5.0]), 0.3, 0.7, 1.5
    problem = gtv.GTVMin(net, [0.5 * gtv.SquaredError([[1.0]], [t]) for t in a], penalty=gtv.Norm(2), alpha=alpha)
    form = problem.lowered.form
    solver = make_solver("admm", rho=rho / first_penalties(form)[0][0], relaxation=relaxation)
    w, u = np.array([2.0, -1.0]), -alpha  # a subgradient at the copy
    z = w[1] - w[0]
    state = solver.step(form, solver.init(form, Point(w[:, None], (np.array([[u]]),))))
    D = np.array([[-1.0, 1.0]])
    w_new = np.linalg.solve(np.eye(2) + rho * D.T @ D, a + (rho * z - u) * D[0])
    h = relaxation * (D @ w_new)[0] + (1 - relaxation) * z
    v = h + u / rho
    z_new = np.sign(v) * max(abs(v) - alpha / rho, 0.0)
    u_new = u + rho * (h - z_new)
    assert np.allclose(state.W[:, 0], w_new, rtol=1e-7)
    U, Z = state.row_steps[0].split(state.trail.last[0])
    assert np.allclose([Z[0, 0], U[0, 0]], [z_new, u_new], rtol=1e-7)


def test_steps_are_plain_where_a_device_has_no_loss() -> None:
    """Ten of them, against the book's written out: with free parameters extrapolation can go on for ever."""
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2), (2, 3)])
    losses = [0.5 * gtv.SquaredDistance([a]) if a else gtv.Zero() for a in (3.0, None, None, -1.0)]
    form = gtv.NetworkLasso(net, losses, lam=0.4, dim=1).lowered.form
    solver = make_solver("admm")
    state = solver.init(form, None)
    rho, D = state.penalties[0], np.array([[-1.0, 1, 0, 0], [0, -1, 1, 0], [0, 0, -1, 1]])
    M, b = np.diag([1.0, 0, 0, 1]) + D.T @ np.diag(rho) @ D, np.array([3.0, 0, 0, -1])
    z, u = np.zeros(3), np.zeros(3)
    for _ in range(10):
        state = solver.step(form, state)
        w = np.linalg.solve(M, b + D.T @ (rho * z - u))
        v = u + rho * (1.8 * D @ w - 0.8 * z)
        u = np.clip(v, -0.4, 0.4)
        z = (v - u) / rho
    assert np.allclose(state.W[:, 0], w, rtol=1e-6)


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("penalty", [gtv.Norm(2), gtv.Norm(1), gtv.SquaredNorm()], ids=repr)
def test_a_step_of_the_rows_is_that_of_the_formula(penalty: gtv.Penalty, dim: int) -> None:
    """Multipliers and copies before and after, and what they ask of the devices, by the proximal maps' closed forms."""
    problem = gtv.GTVMin(
        gtv.FLNetwork(nx.cycle_graph(6)), [gtv.SquaredDistance(np.zeros(dim))] * 6, penalty=penalty, alpha=0.8
    )
    term, rng = problem.lowered.form.couplings[0], np.random.default_rng(2)
    W, V, rho = rng.normal(size=(6, dim)), rng.normal(size=(6, dim)), rng.uniform(0.1, 2.0, 6)

    def multipliers(V: np.ndarray) -> np.ndarray:
        return {
            "Norm(p=2.0)": V * np.minimum(1.0, 0.8 / np.linalg.norm(V, axis=1))[:, None],
            "Norm(p=1.0)": np.clip(V, -0.8, 0.8),
            "SquaredNorm()": V / (1.0 + rho / 1.6)[:, None],
        }[repr(penalty)]

    D, rows = term.map.incidence.toarray(), RowStep.of(term, rho, 1.5)
    U = multipliers(V)
    Z = (V - U) / rho[:, None]
    moved = U + rho[:, None] * (1.5 * D @ W - 0.5 * Z)
    dual = multipliers(moved)
    right, out = np.ones((6, dim)), np.empty_like(V)
    rows.advance(V, W, right, out)
    demand = D.T @ (moved - 2.0 * dual)
    assert np.allclose(out, moved)
    assert np.allclose(right, 1.0 + demand)
    rows.demand(out, right)
    assert np.allclose(right, 1.0 + 2.0 * demand)
    found = rows.split(out)
    assert np.allclose(found[0], dual)
    assert np.allclose(found[1], (moved - dual) / rho[:, None])


def linear_iteration(dim: int) -> tuple[Trail, np.ndarray, np.ndarray, np.ndarray]:
    """A trail of five steps ``V <- A V + b`` on 20 rows, where A has the eigenvalues 0.2, 0.5, 0.7 and 0.9; W is V."""
    rng = np.random.default_rng(4)
    problem = gtv.NetworkLasso(gtv.FLNetwork(nx.cycle_graph(20)), [gtv.SquaredDistance(np.zeros(dim))] * 20, lam=1.0)
    basis = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    A, b = basis @ np.diag(np.tile([0.2, 0.5, 0.7, 0.9], 5)) @ basis.T, rng.normal(size=(20, dim))
    trail = Trail(problem.lowered.form, 5)
    trail.restart((rng.normal(size=(20, dim)),))
    return trail, A, b, np.linalg.solve(np.eye(20) - A, b)


def test_extrapolation_solves_linear_iterations_of_few_eigenvalues() -> None:
    trail, A, b, solution = linear_iteration(3)
    for k in range(6):
        V = A @ trail.last[0] + b
        trail.following[0][:] = V
        assert trail.append(V) == (k == 5)
        distance = np.linalg.norm(V - solution)
    assert np.linalg.norm(trail.last[0] - solution) < 0.02 * distance  # a step makes it 0.9 of that


def test_edges_between_devices_without_labels_have_penalties_of_their_strength() -> None:
    """A path of 500 devices, five of them labelled: no copy moves before the penalties do."""
    losses = [gtv.Zero(1)] * 500
    for i, label in ((0, 1.0), (120, -2.0), (250, 3.0), (380, 0.0), (499, 2.0)):
        losses[i] = gtv.SquaredError([[1.0]], [label])
    problem = gtv.NetworkLasso(gtv.FLNetwork(nx.path_graph(500)), losses, lam=0.3)
    solution = problem.solve("admm", max_iter=1000)
    assert solution.is_certified
    assert solution.objective == pytest.approx(3.585, rel=1e-6)  # CVXPY's, by Clarabel


@pytest.mark.parametrize("unit", [1e-160, 1e-150, 1e60])
def test_clusterings_in_units_at_the_ends_of_doubles_are_solved(unit: float) -> None:
    points = unit * np.random.default_rng(0).normal(size=(40, 2))
    network = gtv.FLNetwork.knn(points / unit, 4)
    problem = gtv.ConvexClustering(points, network, lam=0.3 * unit)
    weights = problem.solve("admm", gap=1e-3, max_iter=400).weights
    plain = gtv.ConvexClustering(points / unit, network, lam=0.3).solve(gap=1e-8).weights
    assert weights / unit == pytest.approx(plain, abs=0.02)


def test_extrapolation_that_leads_to_long_steps_is_undone() -> None:
    trail, A, b, _ = linear_iteration(2)
    for _ in range(6):
        V = A @ trail.last[0] + b
        trail.following[0][:] = V
        trail.append(V)
    for k, W in enumerate([V, V + 100.0]):
        trail.following[0][:] = W
        assert trail.append(W) == (k == 1)
    assert np.array_equal(trail.last[0], V)


def example(size: int, isotropic: bool) -> gtv.GTVMin:
    rng = np.random.default_rng(3)
    net = gtv.FLNetwork(nx.gnm_random_graph(size, 3 * size, seed=1))
    if isotropic:
        losses = [0.5 * gtv.SquaredDistance(rng.normal(size=2)) for _ in range(size)]
    else:
        losses = [
            gtv.Huber(rng.normal(size=(3, 2)), rng.normal(size=3)) + gtv.Ridge(np.eye(2), [1.0, 2.0], lam=0.1)
            for _ in range(size)
        ]
    return gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.1)


@pytest.mark.parametrize(("size", "isotropic"), [(30, True), (30, False), (1600, False)])
def test_every_kind_of_system_solves_its_equation(size: int, isotropic: bool) -> None:
    form = example(size, isotropic).lowered.form
    system = RowSystem.of(form)
    system.set_penalties(tuple(np.linspace(0.1, 0.9, term.map.n_rows) for term in form.terms))
    R = np.random.default_rng(0).normal(size=(form.n_nodes, form.dim))
    W = R
    for _ in range(8):  # conjugate gradients reduce the residual by a factor in each call
        W = system.solve(R, W)
    Q, b = form.quadratic.quadratic()
    image = np.einsum("ijk,ik->ij", Q, W)
    for term, penalty in zip(form.terms, system.penalties, strict=True):
        image += term.map.adjoint(penalty[:, None] * term.map.apply(W))
    assert np.allclose(image, b + R, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kinds", [True, False])
def test_admm_agrees_with_cvxpy_where_systems_are_iterated(kinds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gtvmin.solvers.quadratic_systems.DIRECT_LIMIT", 0)
    monkeypatch.setattr("gtvmin.solvers.laplacian_factor.BANDED_WORK", 0.0)
    problem = example(30, kinds)
    solution = problem.solve("admm", gap=1e-8)
    assert solution.is_certified
    assert solution.objective == pytest.approx(problem.solve("cvxpy", gap=1e-7).objective, rel=1e-7)


@pytest.mark.parametrize("rho", [1e-3, 1e3])
def test_a_bad_rho_is_mended(rho: float) -> None:
    assert example(30, True).solve("admm", rho=rho, gap=1e-8, max_iter=1500).is_certified


@pytest.mark.parametrize("setting", [{"rho": 0.0}, {"rho": np.inf}, {"relaxation": 2.0}, {"relaxation": 0.0}])
def test_settings_out_of_range_are_refused(setting: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        example(30, True).solve("admm", **setting)
