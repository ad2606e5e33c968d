"""Certificates: true bounds, for any parameters and flows, from the declared data alone."""

from __future__ import annotations

import dataclasses
import json
import warnings

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.dual_repair import best_dual, dual_value
from gtvmin.errors import CertificateError, NotUniqueWarning
from gtvmin.linear_conditions import span_residual

PENALTIES = [gtv.SquaredNorm(), gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf)]
PENALTY_VALUE = {
    gtv.SquaredNorm(): lambda z: cp.sum_squares(z),
    gtv.Norm(1): lambda z: cp.norm(z, 1),
    gtv.Norm(2): lambda z: cp.norm(z, 2),
    gtv.Norm(np.inf): lambda z: cp.norm(z, "inf"),
}


def random_problem(seed: int, penalty: gtv.Penalty, *, n: int = 8, dim: int = 3, scale: float = 1.0) -> gtv.GTVMin:
    """A connected network; a third of the devices has no data and a third fewer rows than parameters."""
    rng = np.random.default_rng(seed)
    graph = nx.connected_watts_strogatz_graph(n, 4, 0.3, seed=seed)
    for edge in graph.edges.values():
        edge["weight"] = rng.uniform(0.2, 3.0)
    losses = {}
    for i in range(n):
        rows = (0, 2, 5)[i % 3]
        X = rng.normal(size=(rows, dim))
        losses[i] = scale * gtv.SquaredError(X, rng.normal(size=rows)) if rows else gtv.Zero()
    return gtv.GTVMin(gtv.FLNetwork(graph), losses, penalty=penalty, alpha=0.3 * scale)


def cvxpy_optimum(problem: gtv.GTVMin) -> float:
    """The optimal value from a model written here, edge by edge, sharing no code with the package."""
    W = cp.Variable((problem.network.n_nodes, problem.dim))
    total = 0
    for i, loss in enumerate(problem.losses):
        for coefficient, atom in loss.terms():
            if isinstance(atom, gtv.SquaredError):
                total += coefficient * cp.sum_squares(atom.X @ W[i] - atom.y) / len(atom.y)
    net = problem.network
    for tail, head, weight in zip(net.tail, net.head, net.weights, strict=True):
        total += problem.alpha * weight * PENALTY_VALUE[problem.penalty](W[head] - W[tail])
    return float(cp.Problem(cp.Minimize(total)).solve(solver="CLARABEL"))


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_gap_bounds_the_true_suboptimality_and_is_tight_at_the_solution(penalty: gtv.Penalty, seed: int) -> None:
    problem = random_problem(seed, penalty)
    optimum = cvxpy_optimum(problem)
    solution = problem.solve(gap=1e-9)
    assert solution.is_certified
    assert solution.objective - optimum == pytest.approx(0.0, abs=1e-7 * optimum)
    assert solution.certificate.dual <= optimum + 1e-7 * optimum
    rng = np.random.default_rng(seed)
    for size in (1e-3, 1e-1, 10.0):
        W = solution.weights + size * rng.normal(size=solution.weights.shape)
        certificate = gtv.certify(problem, W, solution.flows)
        true = problem.objective(W) - optimum
        assert certificate.gap >= true - 1e-7 * optimum
        assert certificate.gap <= true + 1e-7 * optimum  # with the optimal flows the bound is exact


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    which=st.sampled_from(range(4)),
    size=st.sampled_from([0.0, 1e-6, 1e-2, 1.0, 1e3]),
    scale=st.sampled_from([1e-8, 1.0, 1e8]),
)
def test_no_flows_prove_more_than_the_optimum(seed: int, which: int, size: float, scale: float) -> None:
    """The bound of arbitrary repaired flows never exceeds the objective of the best parameters known."""
    problem = random_problem(seed % 7, PENALTIES[which], scale=scale)
    form = problem.lowered.form
    rng = np.random.default_rng(seed)
    best = problem.solve(gap=1e-7).objective
    (value, U), _ = best_dual(form, (size * scale * rng.normal(size=(form.n_edges, form.dim)),))
    assert np.isfinite(value)
    assert value <= best * (1 + 1e-12)
    _, off, throughput = span_residual(form, U)
    assert (off <= 1e-9 * throughput).all()
    assert np.isfinite(dual_value(form, U))


def test_a_wrong_entry_shows_in_the_gap() -> None:
    problem = random_problem(3, gtv.Norm(2))
    solution = problem.solve(gap=1e-9)
    W = solution.weights.copy()
    W[2, 1] += 1e-3
    certificate = gtv.certify(problem, W, solution.flows)
    assert certificate.relative_gap > 1e-6
    assert not certificate.holds(1e-6)
    assert certificate.gap == pytest.approx(problem.objective(W) - solution.objective, rel=1e-3)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_the_terms_are_what_each_device_and_edge_can_compute(penalty: gtv.Penalty) -> None:
    """Terms recomputed with the local data only, by a formula that is not the package's; their sum is P - Dual."""
    problem = random_problem(4, penalty)
    solution = problem.solve(gap=1e-3)
    W, U, net = solution.weights, solution.flows, problem.network
    shares = []
    for i, loss in enumerate(problem.losses):
        s = U[net.tail == i].sum(axis=0) - U[net.head == i].sum(axis=0)
        if not loss.n_samples:
            shares.append(0.0)
            assert np.linalg.norm(s) < 1e-9
            continue
        (_, atom), *_ = loss.terms()
        m = len(atom.y)
        # conjugate by least squares over row duals: s = X^T p, value sum p^2 m / 4 + p y
        p = np.linalg.lstsq(atom.X.T, s, rcond=None)[0]
        Q = 2 * atom.X.T @ atom.X / m
        point = np.linalg.lstsq(Q, s + 2 * atom.X.T @ atom.y / m, rcond=None)[0]
        conjugate = s @ point - np.mean((atom.y - atom.X @ point) ** 2)
        assert np.allclose(atom.X.T @ p, s, atol=1e-9)
        shares.append(np.mean((atom.y - atom.X @ W[i]) ** 2) + conjugate - s @ W[i])
    assert np.allclose(solution.certificate.per_node, shares, atol=1e-10)
    total = solution.certificate.per_node.sum() + solution.certificate.per_edge.sum()
    assert solution.certificate.gap == pytest.approx(total + solution.certificate.rounding, rel=1e-12)
    assert solution.certificate.dual == pytest.approx(dual_value(problem.lowered.form, (U,)), rel=1e-9)
    assert (solution.certificate.per_node >= 0).all()
    assert (solution.certificate.per_edge >= -1e-15).all()


def test_the_radius_contains_the_minimiser() -> None:
    problem = random_problem(5, gtv.Norm(2))
    best = problem.solve(gap=1e-12).weights
    rough = problem.solve(gap=1e-2).certificate
    labelled = np.isfinite(rough.radius)
    assert labelled.sum() == sum(loss.n_samples > problem.dim for loss in problem.losses)
    distance = np.linalg.norm(rough.W - best, axis=1)
    assert (distance[labelled] <= rough.radius[labelled]).all()
    assert (rough.radius[labelled] < 10.0).all()


def test_without_flows_a_good_bound_is_found() -> None:
    problem = random_problem(6, gtv.Norm(2))
    solution = problem.solve(gap=1e-8)
    certificate = gtv.certify(problem, solution.as_dict())
    assert certificate.relative_gap < 1e-7


def test_flows_outside_their_balls_are_repaired() -> None:
    problem = random_problem(7, gtv.Norm(2))
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, 1.01 * solution.flows)
    assert np.isfinite(certificate.gap)
    capacity = problem.alpha * problem.network.weights
    assert (np.linalg.norm(certificate.U, axis=1) <= capacity).all()


def test_a_certificate_is_made_by_certify_only_and_cannot_be_changed() -> None:
    certificate = random_problem(0, gtv.Norm(2)).solve().certificate
    with pytest.raises(CertificateError, match="only be made by"):
        gtv.Certificate(object(), gap=0.0)
    with pytest.raises((CertificateError, TypeError)):
        dataclasses.replace(certificate, gap=0.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        certificate.gap = 0.0  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        certificate.W[0, 0] = 1.0


def test_the_radius_is_computed_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the least eigenvalue of twice the mean of x x^T, and once."""
    rows = np.array([[[1.0, 2.0], [0.5, -1.0], [1.5, 0.0]], [[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    losses = [gtv.SquaredError(X, [1.0, 2.0, 3.0]) for X in rows]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    eigenvalues = [np.linalg.svd(X, compute_uv=False)[-1] ** 2 * 2 / 3 for X in rows]
    with monkeypatch.context() as patch:
        patch.delattr(np.linalg, "eigvalsh")
        certificate = gtv.certify(problem, np.ones((2, 2)), [[0.0, 0.0]])
    np.testing.assert_allclose(certificate.radius, np.sqrt(2 * certificate.gap / np.array(eigenvalues)), rtol=1e-12)
    assert certificate.radius is certificate.radius
    assert not certificate.radius.flags.writeable


def test_save_and_load_prove_again(tmp_path) -> None:
    problem = random_problem(1, gtv.Norm(2))
    solution = problem.solve(gap=1e-6)
    certificate = gtv.certify(problem, 1.01 * solution.weights, solution.flows)  # well above rounding
    path = certificate.save(tmp_path / "certificate.json")
    again = gtv.load_certificate(path, problem)
    assert again.gap == certificate.gap
    assert np.array_equal(again.W, certificate.W)

    record = json.loads(path.read_text())
    record["gap"] = record["gap"] / 100
    path.write_text(json.dumps(record))
    with pytest.raises(CertificateError, match="can be proved"):
        gtv.load_certificate(path, problem)
    with pytest.raises(CertificateError, match="certifies the problem"):
        gtv.load_certificate(certificate.save(path), problem.with_alpha(0.31))
    path.write_text("{}")
    with pytest.raises(CertificateError, match="not a saved certificate"):
        gtv.load_certificate(path, problem)


def test_the_hash_sees_every_declared_number() -> None:
    problem = random_problem(1, gtv.Norm(2))
    assert problem.hash == random_problem(1, gtv.Norm(2)).hash
    others = [problem.with_alpha(0.4), random_problem(1, gtv.Norm(1)), random_problem(2, gtv.Norm(2))]
    assert len({problem.hash, *(other.hash for other in others)}) == 4


def test_problem_files_restore_the_problem(tmp_path) -> None:
    graph = nx.Graph([(("a", 1), 2), (2, "c")])
    losses = {
        ("a", 1): gtv.Ridge([[1.0, 2.0]], [3.0], lam=0.1, penalise=[1, 0]) + 2 * gtv.SquaredError(np.eye(2), [0, 1]),
        2: gtv.Zero(),
        "c": gtv.SquaredError(np.eye(2), [1, 1], scale="sum"),
    }
    problem = gtv.GTVMin(graph, losses, penalty=gtv.Norm(np.inf), alpha=0.1 + 0.2)
    restored = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert restored.hash == problem.hash
    assert restored.network.nodes == problem.network.nodes
    W = np.random.default_rng(0).normal(size=(3, 2))
    assert restored.objective(W) == problem.objective(W)


def test_a_free_component_is_named() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1), (2, 3)])
    losses = {0: gtv.SquaredError([[1.0]], [2.0]), 1: gtv.Zero(), 2: gtv.Zero(), 3: gtv.Zero()}
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=1.0)
    assert problem.undetermined() == (2, 3)
    with pytest.warns(NotUniqueWarning, match="the first is 2"):
        solution = problem.solve()
    assert solution.undetermined == (2, 3)
    assert solution.is_certified
    assert np.isfinite(solution.weights).all()


def test_unlabelled_nodes_get_a_finite_bound_from_any_flows() -> None:
    """A path with a label at each end: whatever the raw flows, what leaves node 0 reaches the other end."""
    net = gtv.FLNetwork(nx.path_graph(30))
    losses = {i: gtv.Zero(1) for i in range(30)}
    losses[0], losses[29] = gtv.SquaredError([[1.0]], [0.0]), gtv.SquaredError([[1.0]], [10.0])
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.5)
    U = 0.4 + 0.05 * np.random.default_rng(0).normal(size=(29, 1))
    certificate = gtv.certify(problem, np.zeros((30, 1)), U)
    assert np.ptp(certificate.U) < 1e-12  # the one degree of freedom of a path
    # the bound of a constant flow u: -L_0^*(u) - L_29^*(-u), here -(u^2/4 + 0 u) - (u^2/4 - 10 u)
    u = float(certificate.U[0, 0])
    assert certificate.dual == pytest.approx(10 * u - u**2 / 2, rel=1e-9)
    assert 0.3 < u <= 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert problem.solve(gap=1e-9).objective == pytest.approx(0.5 * 10 - 2 * 0.25**2, rel=1e-8)


@pytest.mark.parametrize("penalty", [gtv.SquaredNorm(), gtv.HuberPenalty(0.3)], ids=repr)
def test_the_dual_radius_contains_the_optimal_flows(penalty: gtv.Penalty) -> None:
    problem = random_problem(5, penalty)
    best = problem.solve("adaptive_primal_dual", gap=1e-12).flows
    rough = problem.solve("adaptive_primal_dual", gap=1e-2).certificate
    distance = np.linalg.norm(rough.U - best, axis=1)
    assert (distance <= rough.dual_radius).all()
    assert (rough.dual_radius < 5.0).all()
    # of the size that a strongly concave dual allows: all edges together are within sqrt(2 L gap)
    assert rough.dual_radius.max() == pytest.approx(
        np.sqrt(2 * rough.gap * strength(problem, penalty).max()), rel=1e-12
    )


def strength(problem: gtv.GTVMin, penalty: gtv.Penalty) -> np.ndarray:
    """Smoothness of the penalty on every edge, by hand: 2 alpha A, or alpha A / delta."""
    scale = problem.alpha * problem.network.weights
    return 2 * scale if isinstance(penalty, gtv.SquaredNorm) else scale / 0.3


def test_norms_have_no_dual_radius() -> None:
    assert np.isinf(random_problem(5, gtv.Norm(2)).solve().certificate.dual_radius).all()


@pytest.mark.parametrize("name", ["LeastAbsolute", "Quantile", "Hinge"])
def test_parameters_and_flows_of_losses_with_kinks_are_enough(name: str) -> None:
    """The optimum is CVXPY's: at kinks the duals of data points are not those of any subgradient."""
    rng = np.random.default_rng(3)
    n, truth = 8, np.array([1.0, 2.0, -1.0])
    net = gtv.FLNetwork.from_edges([(i, (i + step) % n) for step in (1, 3) for i in range(n)])
    losses = []
    for _ in range(n):
        X = rng.normal(size=(6, 3))
        y = np.where(np.arange(6) % 2, 1.0, -1.0) if name == "Hinge" else X @ truth + 0.3 * rng.normal(size=6)
        losses.append(getattr(gtv, name)(X, y))
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.1)
    best = problem.to_cvxpy().solve(solver="CLARABEL")
    solution = problem.solve(gap=1e-9)
    moved = solution.weights + 1e-3 * rng.normal(size=(n, 3))
    for W in (solution.weights, moved):
        certificate = gtv.certify(problem, W, solution.flows)
        true = problem.objective(W) - best
        assert certificate.gap <= 1.05 * true + 1e-7 * best
        assert certificate.gap >= true - 1e-8 * best


def test_a_direction_that_is_taken_for_null_still_counts() -> None:
    """Two columns that differ in the last digits: ``x^T w = 2^-13`` at each device, by hand; the minimum is zero."""
    X = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-43]])
    losses = [gtv.SquaredError(X, [0.0, 0.0], scale="sum")] * 2
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(2), alpha=1.0)
    assert not problem.lowered.form.quadratic.full_span.any()
    certificate = gtv.certify(problem, [[-(2.0**30), 2.0**30]] * 2, [[0.0, 0.0]])
    assert certificate.gap >= 2 * 2.0**-26


def test_a_certificate_names_devices_by_their_labels() -> None:
    net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([4.0]) + gtv.Box(3.0, 5.0)}
    problem = gtv.NetworkLasso(net, losses, lam=0.5)
    assert "largest term      node 'Turku': " in str(gtv.certify(problem, {"Oulu": [0.0], "Turku": [5.0]}))
    assert "outside domain    node 'Turku': by 2.000e+00" in str(gtv.certify(problem, {"Oulu": [0.0], "Turku": [1.0]}))
