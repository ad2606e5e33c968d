"""FedSGD: mean and covariance, fading rates, biases, and draws that follow the labels."""

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
    device_quadratics,
    form_of,
    problem_l,
    problem_q,
    run_rounds,
)
from gtvmin.federated.operators import stationary_covariance
from gtvmin.solvers.federated.fed_sgd import FedSGD
from gtvmin.solvers.federated.minibatch import Minibatch
from gtvmin.solvers.standard_form import Point

PROBLEMS = {"Q": problem_q, "L": problem_l}
START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
TO_THE_LIMIT = {"Q": 900, "L": 2500}


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
    limit = problem.solve(gap=1e-12).weights
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
