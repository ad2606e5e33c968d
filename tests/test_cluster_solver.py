"""The solver of clustering paths: its arrays by hand, its contraction, and its solutions against CVXPY."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.clustering.solver import PathSolver, _judge, _points_alone, contracted_admm
from gtvmin.fusion import fused_edges, join
from gtvmin.gap import gap_rounding, gap_terms
from gtvmin.solvers.clustering_flows import continued_flows, fit_flows
from gtvmin.solvers.clustering_gap import fused_labels, proved_gap
from gtvmin.solvers.clustering_network import ClusteringNetwork, Contracted, Groups
from gtvmin.solvers.contracted_admm import ContractedADMM


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
    full, U = W[labels], small.expand(flows, zero)
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


def test_flows_go_on_as_they_changed_inside_their_balls() -> None:
    before, now = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]), np.array([[0.3, 0.4], [2.0, 0.0], [2.0, 0.0]])
    ahead = continued_flows(now, before, 0.5, np.array([True, True, False]), np.array([1.0, 2.25, 2.25]))
    assert np.allclose(ahead, [[0.45, 0.6], [2.25, 0.0], [2.0, 0.0]])


@pytest.mark.filterwarnings("ignore::gtvmin.errors.DisconnectedWarning")
def test_continued_flows_save_laplacian_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two clusters that approach one another flows change steadily, once they have formed."""
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(scale=0.2, size=(40, 2)) + place for place in ([0, 0], [5, 0])])
    problem = gtv.ConvexClustering(points, k=12, phi=0.0)
    links = [(i, i + 40, 0.3) for i in range(12)]
    edges = [(*edge, weight) for edge, weight in zip(problem.network.edges, problem.network.weights, strict=True)]
    problem = gtv.ConvexClustering(points, edges + links)
    work = []
    for kept in (True, False):
        solver = contracted_admm(problem)
        assert solver is not None
        if not kept:
            monkeypatch.setattr("gtvmin.solvers.contracted_admm.continued_flows", lambda U, *_: U)
        factor, count = solver.network.pattern.factor, []
        monkeypatch.setattr(solver.network.pattern, "factor", lambda *a, f=factor, c=count: c.append(1) or f(*a))
        for lam in np.linspace(1.0, 12.0, 12):
            assert solver.solve(lam, 1e-10) <= 1e-10
        assert solver.groups.size == 2
        work.append(len(count))
    assert work[0] < 0.7 * work[1]


def clustering_of(network: ClusteringNetwork, alpha: float) -> gtv.GTVMin:
    losses = [0.5 * float(m) * gtv.SquaredDistance(a) for m, a in zip(network.mass, network.centres, strict=True)]
    edges = np.column_stack([network.tail, network.head])
    net = gtv.FLNetwork.from_edges(edges, network.weights, nodes=range(network.n_nodes))
    return gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=alpha)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.sampled_from([0.0, 1e-9, 1.0]), st.sampled_from([0.0, 1e8]))
@settings(max_examples=30, deadline=None)
def test_the_gap_of_a_path_is_the_one_of_certificates(seed: int, dim: int, noise: float, shift: float) -> None:
    """Never smaller, be it rounding or not, and hardly larger."""
    network, rng, alpha = random_network(seed, dim=dim), np.random.default_rng(seed), 0.7
    network = ClusteringNetwork(network.mass, network.centres + shift, network.tail, network.head, network.weights)
    solver = ContractedADMM(network)
    solver.solve(alpha, 1e-12)
    W = solver.W + noise * rng.normal(size=solver.W.shape)
    U = solver.U * (1.0 + noise * rng.normal(size=(len(solver.U), 1)))
    gap, objective = proved_gap(network, alpha, W, U)
    form = clustering_of(network, alpha).lowered.form
    inside = form.couplings[0].function.project_domain(U) * (1.0 - 1e-15)
    expected = gap_terms(form, W, (inside,)).total + gap_rounding(form, W, (inside,))
    assert objective == pytest.approx(form.objective(W), rel=1e-12)
    assert gap >= expected * (1.0 - 1e-9) - 1e-14 * objective
    assert gap <= expected * (1.0 + 1e-9) + 4.0 * gap_rounding(form, W, (inside,)) + 1e-14 * objective


def test_flows_out_of_range_prove_nothing() -> None:
    network = random_network(3)
    W, U = np.zeros((12, 2)), np.zeros((len(network.tail), 2))
    for value in (np.nan, np.inf):
        U[0] = value
        assert not proved_gap(network, 1.0, W, U)[0] <= 1e300


@given(st.integers(0, 2**32 - 1), st.booleans(), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_what_is_left_at_an_optimum_is_rounding(seed: int, fused: bool, dim: int) -> None:
    """Centres follow from parameters and flows; through fused nodes runs much that cancels."""
    network, rng = random_network(seed, dim=dim), np.random.default_rng(seed)
    D = incidence(network)
    if fused:
        W, U, weights = np.ones((12, dim)), 1e3 * rng.normal(size=(len(D), dim)), np.full(len(D), 1e4)
        U -= D @ (np.linalg.pinv(D) @ U)
    else:
        W, weights = rng.normal(size=(12, dim)), network.weights
        U = D @ W
        U *= ((1.0 - 1e-15) * weights / np.linalg.norm(U, axis=1))[:, None]
    centres = W + D.T @ U / network.mass[:, None]
    network = ClusteringNetwork(network.mass, centres, network.tail, network.head, weights)
    form = clustering_of(network, 1.0).lowered.form
    expected = gap_terms(form, W, (U,)).total + gap_rounding(form, W, (U,))
    assert expected <= (1e-20 if fused else 1e-14 * form.objective(W))
    assert expected <= proved_gap(network, 1.0, W, U)[0] <= 10.0 * expected


def test_clusters_are_joined_by_the_rule() -> None:
    """In order: equal ends; close ones; a flow inside its ball; the same, but proved apart; a saturated flow."""
    W = np.array([[0.0], [0.0], [0.01], [0.5], [3.5], [4.0]])
    network = ClusteringNetwork(np.ones(6), W, np.arange(5), np.arange(1, 6), np.ones(5))
    U = np.array([[1.0], [1.0], [0.98], [0.98], [1.0]])
    labels = fused_labels(network, W, U, np.ones(5), np.ones(6), 0.02, 1e-9, 0.99)
    assert labels.tolist() == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("loss", "alone"),
    [
        (0.5 * gtv.SquaredDistance([1.0, 2.0]), True),
        (3.0 * gtv.SquaredDistance(0.0), True),
        (gtv.SquaredDistance([1e6, 0.0]) + gtv.Linear([2e6, 0.0]), False),
        (gtv.SquaredDistance([1e6, 0.0]) + gtv.SquaredDistance([-1e6, 0.0]), False),
        (gtv.SquaredError([[2.0, 0.0], [0.0, 2.0]], [1.0, 3.0]), False),
    ],
)
def test_losses_in_which_much_may_cancel_have_ordinary_certificates(loss: gtv.losses.Loss, alone: bool) -> None:
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    problem = gtv.NetworkLasso(net, [loss] * 3, lam=1.0, dim=2)
    assert contracted_admm(problem) is not None
    assert _points_alone(problem) is alone
    point = PathSolver(problem, 1e-6, {}).solve(0.1)
    assert problem.with_alpha(0.1).objective(point.W) == pytest.approx(
        problem.with_alpha(0.1).solve("cvxpy").objective, rel=1e-5
    )


@pytest.mark.parametrize("masses", [False, True])
def test_clusters_and_gaps_along_a_path_are_those_of_certificates(masses: bool) -> None:
    network = random_network(11, n=40)
    if not masses:
        network = ClusteringNetwork(np.ones(40), network.centres, network.tail, network.head, network.weights)
    problem = clustering_of(network, 1.0)
    path, check = PathSolver(problem, 1e-7, {}), contracted_admm(problem)
    assert check is not None
    counts = []
    for lam in np.geomspace(1e-3, 3.0, 20):
        point, current = path.solve(lam), problem.with_alpha(lam)
        check.solve(lam, 0.9e-7)
        certificate = gtv.certify(current, check.W, duals=(check.U,))
        assert np.array_equal(point.W, check.W)
        assert point.relative_gap == pytest.approx(certificate.relative_gap, rel=1e-3, abs=1e-12)
        assert np.array_equal(point.labels, join(current, fused_edges(current, certificate)))
        counts.append(point.labels.max() + 1)
    assert max(counts) == 40
    assert min(counts) < 5


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
    network = random_network(7)
    solver = ContractedADMM(network)
    for strength in (0.1, 3.0, 0.01, 50.0, 0.3):
        assert solver.solve(strength, 1e-9) <= 1e-9
        assert (np.linalg.norm(solver.U, axis=1) <= strength * network.weights * (1 + 1e-12)).all()
        problem = clustering_of(network, strength)
        assert problem.network.n_edges == len(network.tail)
        assert problem.certify(solver.W, solver.U).relative_gap <= 2e-9


def test_what_the_contracted_solver_misses_is_solved_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left where it was: the certificate sees that, and another method takes over."""
    monkeypatch.setattr(ContractedADMM, "solve", lambda self, strength, tolerance: 0.0)
    problem = gtv.ConvexClustering(np.random.default_rng(1).normal(size=(20, 2)), k=4)
    solver = PathSolver(problem, 1e-6, {})
    for lam in (0.1, 0.5):
        point = solver.solve(lam)
        assert problem.with_alpha(lam).certify(point.W).relative_gap <= 1e-5
        assert point.relative_gap <= 1e-6


@pytest.mark.parametrize("p", [1, np.inf])
def test_other_norms_go_the_ordinary_way(p: float) -> None:
    points = np.random.default_rng(2).normal(size=(12, 2))
    path = gtv.clusterpath(points, [0.1, 0.6], k=4, p=p)
    for k, lam in enumerate(path.lams):
        reference = path.problem.with_alpha(lam).solve("cvxpy")
        assert path.problem.with_alpha(lam).objective(path.W[k]) == pytest.approx(reference.objective, rel=2e-6)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.ConvergenceWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("scale", [1e-150, 1e150, 1e160])
def test_numbers_whose_squares_leave_the_range_of_doubles_are_judged_with_care(scale: float) -> None:
    """Gaps are those of certificates, or infinite: squares that underflow to zero do not prove anything."""
    network = random_network(5)
    network = ClusteringNetwork(
        np.ones(12), scale * network.centres, network.tail, network.head, np.ones(len(network.tail))
    )
    problem = clustering_of(network, 1.0)
    for lam in (0.05 * scale, 0.5 * scale):
        point = PathSolver(problem, 1e-6, {}).solve(lam)
        certificate = problem.with_alpha(lam).certify(point.W)
        assert np.isfinite(point.W).all()
        assert point.relative_gap == np.inf or certificate.relative_gap <= 1e-5


def test_an_objective_that_underflows_is_not_judged_by_its_squares() -> None:
    network = random_network(5)
    solver = ContractedADMM(
        ClusteringNetwork(np.ones(12), 1e-165 * network.centres, network.tail, network.head, 1e-165 * network.weights)
    )
    solver.strength = 1.0
    assert _judge(solver).relative_gap == np.inf
