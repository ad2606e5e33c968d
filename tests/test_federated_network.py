"""FedGD and FedRelax: limits, identities, bounds, contraction, and planted faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import (
    DIM,
    NAMES,
    N,
    certified_distance,
    device_quadratics,
    form_of,
    gradients,
    network,
    problem_l,
    problem_q,
    run_rounds,
)
from gtvmin.federated import program_of
from gtvmin.federated.operators import affine_round, measured_contraction
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax, contraction_factors, greedy_colours
from gtvmin.solvers.federated.neighbours import Neighbourhood, largest_eigenvalue
from gtvmin.solvers.federated.participation import Bernoulli, UniformSample
from gtvmin.solvers.standard_form import Point

PROBLEMS = {"Q": problem_q, "L": problem_l}
START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
TO_THE_LIMIT = {"Q": 900, "L": 2500}


def adjacency() -> np.ndarray:
    net, A = network(), np.zeros((N, N))
    A[net.tail, net.head] = A[net.head, net.tail] = net.weights
    return A


def best(problem: gtv.GTVMin) -> np.ndarray:
    """The package's solution, certified."""
    solution = problem.solve(gap=1e-12)
    assert solution.is_certified
    return solution.weights


ALGORITHMS = {
    "fedgd": FedGD(),
    "fedgd, different rates": FedGD(eta=tuple(np.linspace(0.02, 0.12, N))),
    "jacobi": FedRelax(),
    "gauss-seidel": FedRelax("gauss-seidel"),
    "random blocks": FedRelax(UniformSample(3)),
    "bernoulli blocks": FedRelax(Bernoulli(0.5)),
}


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("which", PROBLEMS)
def test_limit_is_gtv_minimisation(which: str, name: str) -> None:
    problem = PROBLEMS[which]()
    algorithm = ALGORITHMS[name]
    rounds = TO_THE_LIMIT[which] if isinstance(algorithm, FedGD) else 700
    state = run_rounds(algorithm, form_of(problem), rounds, START)
    assert certified_distance(program_of(algorithm, problem), state.W) < 1e-8
    assert np.abs(state.W - best(problem)).max() < 1e-6


@pytest.mark.parametrize("which", PROBLEMS)
def test_rounds_are_those_of_the_formulas(which: str) -> None:
    """FedGD and FedRelax written out, device after device."""
    problem = PROBLEMS[which]()
    form, A, alpha = form_of(problem), adjacency(), problem.alpha
    W, eta = START.W, 0.07
    pulled = np.array([sum(A[i, j] * (W[i] - W[j]) for j in range(N)) for i in range(N)])
    expected = W - eta * (gradients(problem, W) + 2 * alpha * pulled)
    assert np.allclose(run_rounds(FedGD(eta=eta), form, 1, START).W, expected, atol=1e-14)
    relaxed = np.array(
        [
            problem.losses[i].prox(A[i] @ W / A[i].sum(), 1 / (2 * alpha * A[i].sum()))  # A[i, i] = 0
            for i in range(N)
        ]
    )
    assert np.allclose(run_rounds(FedRelax(), form, 1, START).W, relaxed, atol=1e-12)
    assert np.allclose(gradients(problem, relaxed) + 2 * alpha * (A.sum(1)[:, None] * relaxed - A @ W), 0, atol=1e-10)


@pytest.mark.parametrize("algorithm", [FedGD(), FedRelax()])
def test_updates_from_fresh_messages_are_the_step(algorithm: Any) -> None:
    form = form_of(problem_q())
    state = algorithm.init(form, START)
    updated = algorithm.update(form, state, state.W, state.W[state.neighbours.source])
    assert np.allclose(updated, algorithm.step(form, state).W, atol=1e-14)


def test_the_book_identity_of_relaxation_with_a_linearised_loss() -> None:
    """Loss linearised and the coupling exact: FedGD with ``eta / (1 + 2 alpha eta d_i)``."""
    problem, eta = problem_q(), 0.1
    form, A, alpha = form_of(problem), adjacency(), problem.alpha
    d = A.sum(axis=1)
    rates = eta / (1 + 2 * alpha * eta * d)
    state = FedGD(eta=tuple(rates)).init(form, START)
    W, largest = START.W, 0.0
    for _ in range(20):
        # argmin_w <g_i, w> + ||w - w_i||^2 / (2 eta) + alpha sum_j A_ij ||w - w_j||^2
        W = (W / eta - gradients(problem, W) + 2 * alpha * (A @ W)) / (1 / eta + 2 * alpha * d)[:, None]
        state = FedGD(eta=tuple(rates)).step(form, state)
        largest = max(largest, np.abs(state.W - W).max())
    assert largest < 1e-13
    assert np.abs(run_rounds(FedGD(eta=eta), form, 20, START).W - W).max() > 1e-3  # with eta itself it is another


def test_the_bound_of_fed_gd_is_sharp_enough() -> None:
    """A rate at the bound is stable; one beyond twice the reciprocal of the largest curvature is not."""
    problem, form = problem_q(), form_of(problem_q())
    Q, _ = device_quadratics(problem)
    H = np.kron(2 * problem.alpha * problem.network.laplacian().toarray(), np.eye(DIM))
    for i in range(N):
        H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] += Q[i]
    top = np.linalg.eigvalsh(H).max()
    default = FedGD().init(form, None).eta
    assert (default < 2 / top).all()
    assert affine_round(FedGD(), form).spectral_radius() < 1
    each = FedGD(eta=tuple(np.full(N, 1e-3))).init(form, None)
    assert (each.eta == 1e-3).all()
    safe = 1.0 / (np.linalg.eigvalsh(Q)[:, -1] + 2 * problem.alpha * adjacency().sum(axis=1))
    assert affine_round(FedGD(eta=tuple(safe)), form).spectral_radius() < 1
    with pytest.warns(UserWarning, match="may diverge"):
        assert affine_round(FedGD(eta=2.02 / top), form).spectral_radius() > 1


def test_relaxation_contracts_as_computed() -> None:
    """The factor bounds every round in the block maximum norm; the root bounds the rate in the long run."""
    for problem in (problem_q(), problem_l()):
        form, limit = form_of(problem), best(problem)
        kappa, root = contraction_factors(form)
        Q_mu = form.local.strong_convexity
        degree = 2 * problem.alpha * adjacency().sum(axis=1)
        assert np.allclose(kappa, degree / (Q_mu + degree))
        B = kappa[:, None] * adjacency() / adjacency().sum(axis=1)[:, None]
        assert root == pytest.approx(np.abs(np.linalg.eigvals(B)).max(), rel=1e-10)
        state, last = FedRelax().init(form, START), np.linalg.norm(START.W - limit, axis=1).max()
        for _ in range(12):
            state = FedRelax().step(form, state)
            now = np.linalg.norm(state.W - limit, axis=1).max()
            assert now <= kappa.max() * last * (1 + 1e-9)
            last = now
        assert measured_contraction(FedRelax(), form, start=START, rounds=60) <= root * (1 + 1e-3)


def test_relaxation_reaches_devices_without_labels() -> None:
    """With six devices of no loss the factor is one, and the root tells that it converges all the same."""
    losses = {name: loss if name in "ae" else gtv.Zero() for name, loss in zip(NAMES, problem_q().losses, strict=True)}
    losses["a"] = losses["a"] + gtv.Quadratic(np.eye(DIM))
    problem = gtv.GTVMin(network(), losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    kappa, root = contraction_factors(form_of(problem))
    assert kappa.max() == 1.0
    assert 0.9 < root < 1.0
    state = run_rounds(FedRelax("gauss-seidel"), form_of(problem), 1500, START)
    assert np.abs(state.W - best(problem)).max() < 1e-8


def test_relaxation_takes_losses_that_are_not_smooth() -> None:
    losses = {name: loss + 0.3 * gtv.L1() for name, loss in zip(NAMES, problem_q().losses, strict=True)}
    problem = gtv.GTVMin(network(), losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    run = gtv.federate(problem, FedRelax(), rounds=300)
    assert run.relative_gap < 1e-9
    reference = problem.solve(method="cvxpy", gap=1e-6)
    assert problem.objective(run.weights) == pytest.approx(reference.objective, rel=1e-7)


def test_an_isolated_device_finds_its_own_minimiser() -> None:
    nodes = ("a", "b", "c")
    losses = dict(zip(nodes, problem_q().losses, strict=False))
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges([("a", "b")], nodes=nodes), losses, penalty=gtv.SquaredNorm(), alpha=1.0
    )
    state = run_rounds(FedRelax(), form_of(problem), 400)
    loss = losses["c"]
    assert np.allclose(state.W[2], np.linalg.lstsq(loss.X, loss.y, rcond=None)[0], atol=1e-6)


def test_colours_of_neighbours_differ() -> None:
    hood = Neighbourhood.of(form_of(problem_q()))
    colours = greedy_colours(hood, N)
    assert (colours[hood.source] != colours[hood.target]).all()
    assert colours.max() <= np.bincount(hood.target).max()


def test_gauss_seidel_is_faster_and_counts_its_messages() -> None:
    form, limit = form_of(problem_q()), best(problem_q())

    def rounds(algorithm: Any) -> int:
        state = algorithm.init(form, START)
        for k in range(1, 1000):
            state = algorithm.step(form, state)
            if np.abs(state.W - limit).max() < 1e-9:
                return k
        raise AssertionError

    assert rounds(FedRelax("gauss-seidel")) < 0.7 * rounds(FedRelax())
    blocks = gtv.federate(problem_q(), FedRelax(UniformSample(2)), rounds=1)
    assert blocks.traffic.proxes.sum() == 2
    senders = np.flatnonzero(blocks.traffic.sent)
    neighbours = (adjacency() > 0).sum(axis=1)
    assert np.array_equal(blocks.traffic.messages_sent[senders], neighbours[senders])


# Faults that the tests of limits above have to catch: each moves the limit far beyond 1e-8.
def faulty_limit(change: str) -> np.ndarray:
    problem, form, A, eta = problem_q(), form_of(problem_q()), adjacency(), 0.05
    alpha = {"factor 2 lost": 0.5 * problem.alpha, "alpha dropped": 1.0}[change]
    W = START.W
    for _ in range(4000):
        W = W - eta * (form.local.gradient(W) + 2 * alpha * (A.sum(1)[:, None] * W - A @ W))
    return W


@pytest.mark.parametrize("change", ["factor 2 lost", "alpha dropped"])
def test_planted_faults_move_the_limit(change: str) -> None:
    assert np.abs(faulty_limit(change) - best(problem_q())).max() > 1e-2


def test_the_largest_eigenvalue_of_a_large_network_is_bounded_closely() -> None:
    """Above 200 devices it is computed to a per cent, on the safe side."""
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 250, (800, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    net = gtv.FLNetwork.from_edges(pairs, weights=rng.uniform(0.5, 2, len(pairs)), nodes=range(250))
    losses = [gtv.SquaredDistance([0.0, 0.0])] * 250
    truth = np.linalg.eigvalsh(net.laplacian().toarray())[-1]
    for penalty in (gtv.SquaredNorm(), gtv.Partial(gtv.SquaredNorm(), [0])):
        problem = gtv.GTVMin(net, losses, penalty=penalty, alpha=0.5)
        assert truth <= largest_eigenvalue(form_of(problem)) <= 1.02 * truth
