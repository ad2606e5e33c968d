"""L2GD: rounds of both kinds, mean and covariance over the coins, communication, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import assert_close, planted, weights_of
from federated_problems import DIM, N, device_quadratics, form_of, problem_q
from gtvmin.federated.catalogue import program_of
from gtvmin.federated.operators import affine_round, pack, stationary_covariance, unpack
from gtvmin.federated.program import complete_graph
from gtvmin.solvers.federated import l2gd
from gtvmin.solvers.federated.l2gd import L2GD
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.federated.streams import COINS, server_key, uniforms
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
LAM, Q = 0.7, 0.3
SIZE = N * DIM


def round_with(algorithm: Any, aggregate: bool) -> Any:
    """A state before a round whose coin is known."""
    form, state = form_of(problem_q()), algorithm.init(form_of(problem_q()), START)
    while True:
        following = algorithm.step(form, state)
        if following.aggregated == aggregate:
            return state
        state = following


def maps(algorithm: Any) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Probability, matrix and vector of both kinds of rounds, on the devices' models."""
    form, q = form_of(problem_q()), algorithm.probability
    found = []
    for aggregate, share in ((True, q), (False, 1 - q)):
        of = affine_round(algorithm, form, round_with(algorithm, aggregate))
        assert not of.A[:SIZE, SIZE:].any()  # the last mean has no influence
        found.append((share, of.A[:SIZE, :SIZE], of.b[:SIZE]))
    return found


def moments(kinds: list[tuple[float, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Stationary mean and covariance."""
    A, b = sum(share * M for share, M, _ in kinds), sum(share * c for share, _, c in kinds)
    mean = np.linalg.solve(np.eye(SIZE) - A, b)

    def noise(S: np.ndarray) -> np.ndarray:
        out = np.zeros_like(S)
        for share, M, c in kinds:
            off = (M - A) @ mean + c - b
            out += share * ((M - A) @ S @ (M - A).T + np.outer(off, off))
        return out

    return mean, stationary_covariance(A, noise)


def star_solution(word: str) -> np.ndarray:
    """Normal equations of ``sum_i p_i (L_i(w_i) + (lam/2) ||w_i - mean||^2)``."""
    p, (curvature, b) = weights_of(problem_q(), word), device_quadratics(problem_q())
    H = LAM * np.kron(np.diag(p) - np.outer(p, p), np.eye(DIM))
    for i in range(N):
        H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] += p[i] * curvature[i]
    return np.linalg.solve(H, (p[:, None] * b).ravel())


def check_mean(algorithm: Callable[..., Any]) -> None:
    """The mean over the coins is the solution, for any probability."""
    for word in ("uniform", "samples"):
        for q in (Q, 0.6):
            mean, _ = moments(maps(algorithm(word, LAM, q)))
            assert_close(mean, star_solution(word))


def check_rounds(algorithm: Callable[..., Any]) -> None:
    """Both kinds written out; steps towards the mean keep it."""
    p, (curvature, b), eta = weights_of(problem_q(), "samples"), device_quadratics(problem_q()), 0.01
    chosen, form = algorithm("samples", LAM, Q, eta), form_of(problem_q())
    for aggregate in (True, False):
        before = round_with(chosen, aggregate)
        after = chosen.step(form, before)
        centre = p @ before.W
        gradient = np.einsum("ijk,ik->ij", curvature, before.W) - b
        expected = before.W - (eta * LAM / Q * (before.W - centre) if aggregate else eta / (1 - Q) * gradient)
        assert_close(after.W, expected, 1e-13)
        if aggregate:
            assert_close(p @ after.W, centre, 1e-13)


def test_mean_over_the_coins_is_the_solution_of_the_star() -> None:
    check_mean(L2GD)
    check_rounds(L2GD)
    for word in ("uniform", "samples"):
        program = program_of(L2GD(word, LAM), problem_q())
        assert not program.exact
        solution = program.problem.solve(gap=1e-13).weights[:N]
        assert_close(solution.ravel(), star_solution(word))
        pairs = complete_graph(problem_q(), weights_of(problem_q(), word), LAM).problem.solve(gap=1e-13).weights
        assert_close(pairs.ravel(), star_solution(word))


def test_covariance_solves_the_lyapunov_equation() -> None:
    """Against the linear system for its entries, and against all sequences of seven coins with their probabilities."""
    algorithm, form = L2GD("samples", LAM, Q), form_of(problem_q())
    kinds = maps(algorithm)
    mean, S = moments(kinds)
    operator = sum(share * np.kron(M, M) for share, M, _ in kinds)
    offsets = [(share, M @ mean + c - mean) for share, M, c in kinds]
    constant = sum(share * np.outer(off, off) for share, off in offsets).ravel()
    direct = np.linalg.solve(np.eye(SIZE**2) - operator, constant)
    assert_close(S.ravel(), direct, 1e-10 * np.abs(direct).max())
    assert np.sqrt(np.diag(S)).min() > 1e-4  # it does not converge

    coins = {aggregate: round_with(algorithm, aggregate) for aggregate in (True, False)}
    second = np.zeros((SIZE, SIZE))
    for sequence in product((True, False), repeat=7):
        x = mean
        for aggregate in sequence:
            state = unpack(algorithm, coins[aggregate], np.append(x, np.zeros(DIM)))
            x = pack(algorithm, algorithm.step(form, state))[:SIZE]
        chance = Q ** sum(sequence) * (1 - Q) ** (7 - sum(sequence))
        second += chance * np.outer(x - mean, x - mean)
    predicted = np.zeros((SIZE, SIZE))
    for _ in range(7):
        mixed = [
            share * (M @ predicted @ M.T + np.outer(M @ mean + c - mean, M @ mean + c - mean)) for share, M, c in kinds
        ]
        predicted = sum(mixed)
    assert_close(second, predicted, 1e-12)


def test_coins_are_fair_and_shared() -> None:
    coins = np.array([uniforms(server_key(3), round, COINS)[0] < Q for round in range(4000)])
    assert abs(coins.mean() - Q) < 5 * np.sqrt(Q * (1 - Q) / 4000)
    assert abs(np.corrcoef(coins[1:], coins[:-1])[0, 1]) < 5 / np.sqrt(4000)


def test_mean_square_stability() -> None:
    """At the bound and at four times of it; a step outside is warned about."""
    form = form_of(problem_q())
    bound = 0.5 / max(form.local.smoothness.max() / (1 - Q), LAM / Q)
    assert L2GD("uniform", LAM, Q).init(form, None).eta == pytest.approx(0.95 * bound)
    for factor in (0.999, 4.0):
        with pytest.warns(StepSizeWarning) if factor > 1 else nullcontext():
            kinds = maps(L2GD("uniform", LAM, Q, factor * bound))
        S, growth = np.eye(SIZE) / SIZE, 1.0
        for _ in range(200):  # the power method for S -> E[M S M^T]
            S = sum(share * M @ S @ M.T for share, M, _ in kinds)
            growth = S.trace()
            S = S / growth
        assert growth < 1
    small, large = (moments(maps(L2GD("uniform", LAM, Q, factor * bound)))[1].trace() for factor in (0.1, 0.5))
    assert small < 0.3 * large


def test_vectors_are_sent_only_where_the_mean_is_new() -> None:
    form, algorithm = form_of(problem_q()), L2GD("uniform", LAM, 0.6, seed=4)
    state, last, sent = algorithm.init(form, START), False, 0
    for _ in range(60):
        state = algorithm.step(form, state)
        traffic = algorithm.traffic(form, state)
        assert (traffic.bytes_up > 0) == (state.aggregated and not last)
        assert (traffic.gradients.sum() > 0) != state.aggregated
        sent, last = sent + (traffic.bytes_up > 0), state.aggregated
    assert 5 < sent < 30
    run = gtv.federate(problem_q(), algorithm, rounds=60)
    assert run.history[-1].bytes_up == sent * N * DIM * 8
    assert 1e-8 < run.relative_gap < 1
    for settings, name in (({"lam": 0.0}, "lam"), ({"lam": 1.0, "probability": 1.0}, "probability")):
        with pytest.raises(ValueError, match=name):
            L2GD("uniform", **settings)


FAULTS = {
    "lam / (2 n) for lam / 2": (("self.lam / q) * (W", "self.lam / (q * len(W))) * (W"), check_mean),
    "probabilities exchanged": (("(state.eta / (1.0 - q))", "(state.eta / q)"), check_mean),
    "no probability in the gradient step": (("(state.eta / (1.0 - q))", "state.eta"), check_mean),
    "plain mean for samples": (('np.einsum("i,ij->j", state.p, W)', "W.mean(axis=0)"), check_rounds),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_mean_and_formulas_catch(fault: str) -> None:
    change, check = FAULTS[fault]
    with pytest.raises(AssertionError):
        check(planted(l2gd, change).L2GD)
