"""FedGD, FedSGD and FedRelax: limits, published values, identities, bounds, covariance, and planted faults."""

from __future__ import annotations

from itertools import permutations
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
from gtvmin.federated.operators import affine_round, measured_contraction, stationary_covariance
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax, contraction_factors, greedy_colours
from gtvmin.solvers.federated.fed_sgd import FedSGD
from gtvmin.solvers.federated.minibatch import Minibatch
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


def sgd_moments(problem: gtv.GTVMin, eta: float, batch: int, replace_draws: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of FedSGD on Q, written out from the data points."""
    Q, b = device_quadratics(problem)
    H = np.kron(2 * problem.alpha * problem.network.laplacian().toarray(), np.eye(DIM))
    blocks = [slice(DIM * i, DIM * i + DIM) for i in range(N)]
    for i in range(N):
        H[blocks[i], blocks[i]] += Q[i]
    limit = np.linalg.solve(H, b.ravel())

    def noise(S: np.ndarray) -> np.ndarray:
        out = np.zeros_like(S)
        for block, loss, Qi, bi in zip(blocks, problem.losses, Q, b, strict=True):
            m = loss.n_samples
            take = min(batch, m)
            share = 1.0 / take if replace_draws else (m - take) / (take * max(m - 1, 1))
            G = 2.0 * loss.X[:, :, None] * loss.X[:, None, :]  # gradients of the rows: G_r w - h_r
            h = 2.0 * loss.X * loss.y[:, None]
            at_limit = (G @ limit[block] - h) - (Qi @ limit[block] - bi)
            multiplicative = np.einsum("rij,jk,rlk->il", G - Qi, S[block, block], G - Qi) / m
            out[block, block] = eta**2 * share * (at_limit.T @ at_limit / m + multiplicative)
        return out

    return limit, stationary_covariance(np.eye(N * DIM) - eta * H, noise)


@pytest.mark.parametrize("order", ["replacement", "fresh"])
def test_sgd_has_the_solution_as_mean_and_the_lyapunov_covariance(order: Any) -> None:
    """Time averages of 8,000 rounds: the mean within five standard errors, standard deviations within 15 per cent."""
    problem, eta, batch = problem_q(), 0.1, 3
    form = form_of(problem)
    limit, S = sgd_moments(problem, eta, batch, order == "replacement")
    algorithm = FedSGD(Minibatch(batch, order), eta=eta, seed=3)
    state = algorithm.init(form, Point(limit.reshape(N, DIM)))
    rounds = 8000
    seen = np.empty((rounds, N * DIM))
    for t in range(rounds):
        state = algorithm.step(form, state)
        seen[t] = state.W.ravel()
    deviations = np.sqrt(np.diag(S))
    assert np.abs(seen.std(axis=0) / deviations - 1.0).max() < 0.15
    correlated = 2.0 / (eta * 0.5)  # rounds after which an error is forgotten, at the least curvature
    assert (np.abs(seen.mean(axis=0) - limit) < 5 * deviations * np.sqrt(correlated / rounds)).all()


def test_sgd_with_a_fading_rate_tends_to_the_solution() -> None:
    problem = problem_q()
    limit = best(problem)
    errors = []
    for rounds in (500, 8000):
        state = run_rounds(FedSGD(3, eta=0.1, half_life=40.0, seed=0), form_of(problem), rounds)
        errors.append(np.abs(state.W - limit).max())
    assert errors[1] < 0.5 * errors[0]
    assert errors[1] < 0.1


def test_sgd_repeats_bit_for_bit_and_follows_the_labels() -> None:
    """Devices in another order, and in a network with one more: the same parameters at the same labels."""
    problem = problem_q().with_alpha(0.0)
    turned = gtv.GTVMin(
        gtv.FLNetwork.from_edges([], nodes=[*NAMES[::-1], "new"]),
        {**dict(zip(NAMES, problem.losses, strict=True)), "new": problem.losses[0]},
        penalty=gtv.SquaredNorm(),
        alpha=0.0,
    )
    runs = [gtv.federate(p, "fedsgd", rounds=30, batch=2, eta=0.05, seed=5) for p in (problem, problem, turned)]
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in NAMES)
    assert all(np.array_equal(runs[0][name], runs[2][name]) for name in NAMES)
    other = gtv.federate(problem, "fedsgd", rounds=30, batch=2, eta=0.05, seed=6)
    assert not np.array_equal(runs[0].weights, other.weights)


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


def copies(loss: gtv.Loss, count: int) -> gtv.GTVMin:
    """Uncoupled devices with the same loss, whose draws are independent."""
    nodes = [f"copy {k}" for k in range(count)]
    losses = dict.fromkeys(nodes, loss)
    return gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=nodes), losses, penalty=gtv.SquaredNorm(), alpha=0.0)


def test_reshuffled_epochs_bias_even_quadratics() -> None:
    """The mean at the ends of epochs is the fixed point of the mean over all 120 orders of five data points."""
    rng = np.random.default_rng(6)
    X, y, eta = rng.normal(size=(5, 2)), rng.normal(size=5), 0.1
    M, c = np.zeros((2, 2)), np.zeros(2)
    for order in permutations(range(5)):
        A, b = np.eye(2), np.zeros(2)
        for r in order:
            step = np.eye(2) - 2 * eta * np.outer(X[r], X[r])
            A, b = step @ A, step @ b + 2 * eta * y[r] * X[r]
        M, c = M + A / 120, c + b / 120
    limit, least_squares = np.linalg.solve(np.eye(2) - M, c), np.linalg.lstsq(X, y, rcond=None)[0]
    count = 3000
    form = form_of(copies(gtv.SquaredError(X, y), count))
    means = {}
    for kind in ("epochs", "fresh"):
        state = run_rounds(FedSGD(Minibatch(1, order=kind), eta=eta), form, 5 * 24, Point(np.tile(limit, (count, 1))))
        means[kind] = state.W.mean(axis=0), 4 * state.W.std(axis=0) / np.sqrt(count)
    assert (np.abs(means["epochs"][0] - limit) < means["epochs"][1]).all()
    assert (np.abs(means["fresh"][0] - least_squares) < means["fresh"][1]).all()
    assert (np.abs(limit - least_squares) > 2 * means["epochs"][1]).any()


def test_sgd_on_logistic_losses_is_biased_by_a_multiple_of_eta() -> None:
    loss = gtv.Logistic([[2.0]] * 6, [1.0, 1.0, 1.0, 1.0, 1.0, -1.0]) + gtv.Quadratic([[0.1]])
    problem, count = copies(loss, 4000), 4000
    best_w = gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=[0]), [loss], penalty=gtv.SquaredNorm(), alpha=0.0)
    w = best_w.solve(gap=1e-12).weights[0]
    bias = []
    for eta, rounds in ((0.8, 80), (0.2, 250)):
        state = run_rounds(FedSGD(1, eta=eta), form_of(problem), rounds, Point(np.tile(w, (count, 1))))
        bias.append(float(state.W.mean() - w[0]))
        error = 4 * float(state.W.std()) / np.sqrt(count)
        assert abs(bias[-1]) > error
    assert 2.0 < bias[0] / bias[1] < 8.0
