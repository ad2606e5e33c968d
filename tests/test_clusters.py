"""Polished parameters and flows of a network Lasso whose clusters are known, against CVXPY and by hand."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.dual_repair import dual_value
from gtvmin.gap import gap_rounding, gap_terms
from gtvmin.monitor import GapMonitor
from gtvmin.registry import make_solver
from gtvmin.solvers.cluster_candidates import ClusterCandidates
from gtvmin.solvers.cluster_flow import Conditions, cluster_flow
from gtvmin.solvers.laplacian_factor import LaplacianPattern
from gtvmin.solvers.norm_network import NormNetwork, group
from gtvmin.solvers.polish import polish
from gtvmin.solvers.standard_form import Point


def two_communities(labelled: int, rows: int = 6, seed: int = 3) -> gtv.GTVMin:
    """Two rings of eight devices with chords, joined by two edges; the first devices of each ring have labels."""
    rng = np.random.default_rng(seed)
    ring = nx.circulant_graph(8, [1, 2, 3])
    graph = nx.disjoint_union(ring, ring)
    graph.add_edges_from([(0, 8), (4, 12)])
    truth = np.repeat([[1.0, -1.0], [-2.0, 0.5]], 8, axis=0)
    losses = []
    for i in range(16):
        X = rng.normal(size=(rows, 2))
        y = X @ truth[i] + 0.1 * rng.normal(size=rows)
        losses.append(gtv.SquaredError(X, y) if i % 8 < labelled else gtv.Zero())
    return gtv.NetworkLasso(gtv.FLNetwork(graph), losses, lam=0.3)


def network_of(problem: gtv.GTVMin) -> NormNetwork:
    network = NormNetwork.of(problem.lowered.solver_form)
    assert network is not None
    return network


def solved_by_clusters(problem: gtv.GTVMin, W: np.ndarray, exact: bool) -> tuple[np.ndarray, np.ndarray, bool]:
    """Parameters and flows for the clusters of W, from flows that are zero; with factors or without."""
    form, network = problem.lowered.solver_form, network_of(problem)
    groups = group(network, network.lengths(W), 1e-3)
    found, _ = polish(network.contracted(groups), groups.means(W), 100)
    polished = found[groups.labels]
    flow = cluster_flow(
        network,
        groups,
        Conditions.of(form),
        polished,
        np.zeros((form.n_edges, form.dim)),
        -form.quadratic.gradient(polished),
        1000,
        LaplacianPattern(network.tail, network.head, form.n_nodes) if exact else None,
    )
    return polished, flow.U, flow.fits


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("labelled", "rows"), [(8, 6), (3, 6), (8, 1)], ids=["all", "some", "one row each"])
def test_the_right_clusters_give_the_solution_and_its_proof(labelled: int, rows: int, exact: bool) -> None:
    problem = two_communities(labelled, rows)
    reference = problem.solve(method="cvxpy", gap=1e-6)
    W, U, fits = solved_by_clusters(problem, reference.weights, exact)
    form = problem.lowered.solver_form
    assert fits
    assert form.objective(W) <= reference.objective + 1e-12
    assert np.allclose(W, reference.weights, atol=1e-4)
    assert gap_terms(form, W, (U,)).total + gap_rounding(form, W, (U,)) <= 1e-10 * form.objective(W)
    assert gtv.certify(problem, W, U, rigorous=True).relative_gap <= 1e-9


@pytest.mark.parametrize("exact", [True, False])
def test_the_wrong_clusters_are_not_proved(exact: bool) -> None:
    problem = two_communities(8)
    form = problem.lowered.solver_form
    apart = problem.solve(method="cvxpy", gap=1e-6)
    assert np.ptp(apart.weights, axis=0).max() > 0.5  # two clusters
    together = np.tile(apart.weights.mean(axis=0), (16, 1))
    W, U, fits = solved_by_clusters(problem, together, exact)
    assert not fits
    assert dual_value(form, (U,)) <= apart.objective + 1e-9
    assert form.objective(W) > apart.objective * 1.001


def test_parallel_edges_of_groups_add_up() -> None:
    """Devices 0, 1 together and 2, 3 together: (w - 0)^2 + (w - 1)^2 + (v - 5)^2 + (v - 6)^2 + (1 + 2) |v - w|."""
    net = gtv.FLNetwork.from_edges([(0, 1, 9.0), (2, 3, 9.0), (0, 2, 1.0), (1, 3, 2.0)])
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 1.0, 5.0, 6.0)]
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=1.0)
    network = network_of(problem)
    W = np.array([[0.0], [0.0], [5.0], [5.0]])
    groups = group(network, network.lengths(W), 0.1)
    assert groups.labels.tolist() == [0, 0, 1, 1]
    reduced = network.contracted(groups)
    assert reduced.capacity.tolist() == [3.0]
    assert np.allclose(polish(reduced, groups.means(W), 50)[0].ravel(), [0.5 + 0.75, 5.5 - 0.75], rtol=1e-12)


def test_a_candidate_that_lies_does_no_harm() -> None:
    """Flows beyond their capacities or off their conditions, and worse parameters: the monitor sees through them."""
    problem = two_communities(3)
    form, reference = problem.lowered.solver_form, problem.solve(method="cvxpy", gap=1e-6)
    truth = reference.certificate

    def lie(point: Point, iteration: int) -> list[Point]:
        full = tuple(2.0 * dual for dual in truth.duals)
        broken = tuple(dual + 1e-3 for dual in truth.duals)
        return [Point(np.zeros_like(point.W), full), Point(reference.weights + 1.0, broken)]

    for start in (Point(reference.weights, truth.duals), Point(np.zeros_like(reference.weights), form.zero_duals())):
        assessment = GapMonitor(form, 1e-9, lie)(start, 1)
        assert assessment.dual <= truth.primal + 1e-9
        assert assessment.primal >= truth.dual - 1e-9
        assert form.objective(assessment.point.W) == assessment.primal
        assert assessment.point.U is not None
        assert dual_value(form, assessment.point.U) >= assessment.dual - 1e-9


def test_only_plain_network_lassos_have_candidates() -> None:
    problem = two_communities(8)
    assert ClusterCandidates.of(problem.lowered.solver_form) is not None
    net, losses = problem.network, problem.losses
    for penalty in (gtv.Norm(1), gtv.SquaredNorm()):
        other = gtv.GTVMin(net, losses, penalty=penalty, alpha=0.3)
        assert ClusterCandidates.of(other.lowered.solver_form) is None
    huber = [gtv.Huber([[1.0, 0.0]], [1.0], delta=1.0) for _ in net.nodes]
    assert ClusterCandidates.of(gtv.GTVMin(net, huber, penalty=gtv.Norm(2), alpha=0.3).lowered.solver_form) is None


def test_solutions_are_proved_from_their_clusters_early() -> None:
    """Sixteen devices, few labels: the plain iteration alone needs several times as many steps to 1e-10."""
    problem = two_communities(2)
    solution = problem.solve("adaptive_primal_dual", gap=1e-10)
    reference = problem.solve(method="cvxpy", gap=1e-6)
    assert solution.is_certified
    assert solution.objective == pytest.approx(reference.objective, rel=1e-7)
    plain = problem.solve("primal_dual", gap=1e-10, scale=1.0)
    assert solution.iterations <= 200
    assert plain.objective == pytest.approx(solution.objective, rel=1e-9)


def test_a_start_with_duals_sets_the_balance_of_the_steps() -> None:
    """``scale = 0.1 sqrt(sum_i deg_i |w_i - mean|^2 / sum_e 2 |u_e|^2)``, written out for a path of three devices."""
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 1.0, 5.0)]
    form = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=1.0).lowered.solver_form
    solver = make_solver("adaptive_primal_dual")
    start = Point(np.array([[0.0], [3.0], [6.0]]), (np.array([[0.5], [-1.0]]),))
    expected = 0.1 * np.sqrt((1 * 9 + 2 * 0 + 1 * 9) / (2 * 0.25 + 2 * 1.0))
    assert solver.init(form, start).scale == pytest.approx(expected, rel=1e-12)
    assert solver.init(form, Point(start.W)).scale == solver.init(form, None).scale
