"""The solver of clustering paths: its arrays by hand, its contraction, and its solutions against CVXPY."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.cluster_solver import PathSolver
from gtvmin.solvers.clustering_network import ClusteringNetwork, Contracted, Groups
from gtvmin.solvers.contracted_admm import ContractedADMM, fit_flows


def random_network(seed: int, n: int = 12, dim: int = 2) -> ClusteringNetwork:
    """A ring with chords, in random units of mass and weight."""
    rng = np.random.default_rng(seed)
    tail, head = np.array([(i, j) for i in range(n) for j in range(i + 1, n) if j == i + 1 or rng.random() < 0.3]).T
    mass, weights = rng.uniform(0.2, 3.0, n), 10.0 ** rng.uniform(-3, 1, len(tail))
    return ClusteringNetwork(mass, rng.normal(size=(n, dim)), tail, head, weights)


def incidence(network: ClusteringNetwork) -> np.ndarray:
    D = np.zeros((len(network.tail), network.n_nodes))
    D[np.arange(len(D)), network.tail], D[np.arange(len(D)), network.head] = -1.0, 1.0
    return D


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_gap_and_residual_are_those_of_the_definition(seed: int, dim: int) -> None:
    network, rng = random_network(seed, dim=dim), np.random.default_rng(seed)
    W, strength, D = rng.normal(size=(12, dim)), 0.7, incidence(network)
    U = rng.normal(size=(len(D), dim))
    U *= (strength * network.weights * rng.random(len(D)) / np.linalg.norm(U, axis=1))[:, None]
    move = W - network.centres
    primal = 0.5 * (network.mass @ move**2).sum() + strength * network.weights @ np.linalg.norm(D @ W, axis=1)
    s = -D.T @ U  # the conjugate of m/2 ||w - a||^2 is ||s||^2 / (2 m) + <s, a>
    dual = -((s**2).sum(axis=1) / (2.0 * network.mass) + (s * network.centres).sum(axis=1)).sum()
    gap, objective = network.gap(strength, W, U)
    assert objective == pytest.approx(primal, rel=1e-12)
    assert gap == pytest.approx(primal - dual, rel=1e-9)
    assert np.allclose(network.residual(W, U), network.mass[:, None] * move + D.T @ U)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_contracted_network_has_the_objective_of_the_full_one(seed: int, count: int) -> None:
    network, rng = random_network(seed), np.random.default_rng(seed)
    labels = np.unique(rng.integers(0, count, 12), return_inverse=True)[1]
    small = Contracted(network, Groups(labels, int(labels.max()) + 1))
    W = rng.normal(size=(small.network.n_nodes, 2))
    zero = np.zeros((len(network.tail), 2))
    inside = small.network.gap(0.3, W, np.zeros((len(small.network.tail), 2)))[1] + small.offset
    assert network.gap(0.3, W[labels], zero)[1] == pytest.approx(inside, rel=1e-12)
    # flows keep what they bring to every group, and their share of the bounds
    flows = rng.normal(size=(len(small.network.tail), 2))
    full, U = small.expand(W, flows, zero)
    assert np.array_equal(full, W[labels])
    brought = np.zeros_like(W)
    np.add.at(brought, labels, incidence(network).T @ U)
    assert np.allclose(brought, incidence(small.network).T @ flows)
    again_W, again_flows = small.shrink(full, U)
    assert np.allclose(again_W, W)
    assert np.allclose(again_flows, flows)


def test_flows_inside_a_cluster_are_found_where_they_exist() -> None:
    """Ring of five at its mean: the bounds leave room for flows, which no first guess has."""
    centres = np.array([[0.0], [0.2], [-0.1], [0.3], [-0.4]])
    tail, head = np.array([0, 1, 2, 3, 0]), np.array([1, 2, 3, 4, 4])
    network = ClusteringNetwork(np.ones(5), centres, tail, head, np.ones(5))
    W, together = np.zeros((5, 1)), Groups(np.zeros(5, dtype=np.int64), 1)
    U, gap = fit_flows(network, together, 0.4, W, np.zeros((5, 1)), 1e-12)
    assert gap <= 1e-12
    assert np.abs(U).max() <= 0.4
    assert np.allclose(network.residual(W, U), 0.0, atol=1e-6)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.DisconnectedWarning")
@pytest.mark.parametrize(("dim", "p"), [(1, 1), (1, 2), (2, 2), (3, 2)])
def test_a_path_agrees_with_cvxpy(dim: int, p: float) -> None:
    rng = np.random.default_rng(dim)
    points = np.concatenate([rng.normal(size=(8, dim)), 4.0 + rng.normal(size=(8, dim))])
    problem = gtv.ConvexClustering(points, p=p, k=5)
    lams = np.geomspace(0.02, 20.0, 12)
    path = gtv.clusterpath(problem, lams, gap=1e-7)
    assert (path.relative_gaps <= 1e-7).all()
    for lam, W in zip(lams, path.W, strict=True):
        reference = problem.with_alpha(lam).solve("cvxpy", gap=1e-7)
        assert problem.with_alpha(lam).objective(W) == pytest.approx(reference.objective, rel=3e-7)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.DisconnectedWarning")
def test_a_path_is_that_of_another_solver() -> None:
    rng = np.random.default_rng(5)
    points = np.concatenate([rng.normal(scale=0.3, size=(60, 2)) + place for place in ([0, 0], [2, 0], [0, 3])])
    problem = gtv.ConvexClustering(points, k=6)
    lams = np.geomspace(0.01, 30.0, 25)
    fast, plain = gtv.clusterpath(problem, lams, gap=1e-8), gtv.clusterpath(problem, lams, gap=1e-8, method="admm")
    # 1-strongly convex losses: centroids are off by the root of twice the gap
    for k, lam in enumerate(lams):
        size = problem.with_alpha(lam).objective(plain.W[k])
        assert np.linalg.norm(fast.W[k] - plain.W[k]) <= 2.0 * np.sqrt(2e-8 * size)
    assert np.abs(fast.n_clusters - plain.n_clusters).max() <= 2  # clusters about to merge may be told either way


def test_masses_and_falling_strengths_are_solved_for_too() -> None:
    network, D = random_network(7), incidence(random_network(7))
    solver = ContractedADMM(network)
    for strength in (0.1, 3.0, 0.01, 50.0, 0.3):
        assert solver.solve(strength, 1e-9) <= 1e-9
        assert (np.linalg.norm(solver.U, axis=1) <= strength * network.weights * (1 + 1e-12)).all()
        losses = [0.5 * float(m) * gtv.SquaredDistance(a) for m, a in zip(network.mass, network.centres, strict=True)]
        net = gtv.FLNetwork.from_edges(np.column_stack([network.tail, network.head]), network.weights, nodes=range(12))
        assert len(net.edges) == len(D)
        problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=strength)
        assert problem.certify(solver.W, solver.U).relative_gap <= 2e-9


def test_what_the_contracted_solver_misses_is_solved_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left where it was: the certificate sees that, and another method takes over."""
    monkeypatch.setattr(ContractedADMM, "solve", lambda self, strength, tolerance: 0.0)
    problem = gtv.ConvexClustering(np.random.default_rng(1).normal(size=(20, 2)), k=4)
    solver = PathSolver(problem, 1e-6, {})
    for lam in (0.1, 0.5):
        assert solver.solve(lam)[1].holds(1e-6)


@pytest.mark.parametrize("p", [1, np.inf])
def test_other_norms_go_the_ordinary_way(p: float) -> None:
    points = np.random.default_rng(2).normal(size=(12, 2))
    path = gtv.clusterpath(points, [0.1, 0.6], k=4, p=p)
    for k, lam in enumerate(path.lams):
        reference = path.problem.with_alpha(lam).solve("cvxpy")
        assert path.problem.with_alpha(lam).objective(path.W[k]) == pytest.approx(reference.objective, rel=2e-6)
