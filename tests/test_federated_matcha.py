"""MATCHA: edge colourings, mean and covariance over the coins, fading rates, messages, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from federated_checks import assert_certified, assert_close, planted
from federated_problems import (
    DIM,
    N,
    device_quadratics,
    form_of,
    gradients,
    minimiser,
    network,
    problem_l,
    problem_q,
    run_rounds,
)
from gtvmin.federated.catalogue import program_of
from gtvmin.federated.operators import stationary_covariance
from gtvmin.solvers.federated import matcha, random_matchings
from gtvmin.solvers.federated.dgd import DecentralisedGD
from gtvmin.solvers.federated.gradient_tracking import GradientTracking
from gtvmin.solvers.federated.matcha import Matcha
from gtvmin.solvers.federated.matchings import edge_colours
from gtvmin.solvers.federated.random_matchings import RandomMatchings
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
ATC = "adapt-then-combine"
SHARES = (0.3, 0.5, 0.8)
ETA = 0.05


@settings(max_examples=150, deadline=None)
@given(n=st.integers(1, 14), density=st.floats(0.05, 1.0), seed=st.integers(0, 10**6))
def test_colours_of_edges_that_meet_differ_and_are_few(n: int, density: float, seed: int) -> None:
    graph = nx.gnp_random_graph(n, density, seed=seed)
    edges = np.array(graph.edges, dtype=np.int64).reshape(-1, 2)
    np.random.default_rng(seed).shuffle(edges)
    colours = edge_colours(edges[:, 0], edges[:, 1], n)
    for node in range(n):
        here = colours[(edges == node).any(axis=1)]
        assert len(set(here.tolist())) == len(here)
    if len(edges):
        assert sorted(set(colours.tolist())) == list(range(colours.max() + 1))  # no matching is empty
        assert colours.max() + 1 <= max(dict(graph.degree).values()) + 1


@pytest.mark.parametrize("graph", [nx.complete_graph(9), nx.petersen_graph(), nx.random_regular_graph(6, 60, seed=2)])
def test_graphs_that_simple_colourings_have_trouble_with(graph: nx.Graph) -> None:
    edges = np.array(graph.edges, dtype=np.int64)
    colours = edge_colours(edges[:, 0], edges[:, 1], graph.number_of_nodes())
    assert colours.max() <= max(dict(graph.degree).values())
    pairs = {(int(end), int(colour)) for edge, colour in zip(edges, colours, strict=True) for end in edge}
    assert len(pairs) == 2 * len(edges)


@cache
def laplacians() -> tuple[np.ndarray, ...]:
    """Laplacian of every matching, from the edges of its colour."""
    setup = Matcha(SHARES).init(form_of(problem_q()), None).setup.matchings
    net, found = network(), []
    assert np.array_equal(setup.edges.tail, net.tail)
    for j in range(3):
        L = np.zeros((N, N))
        for e in np.flatnonzero(setup.matching == j):
            d = np.zeros(N)
            d[net.head[e]], d[net.tail[e]] = 1.0, -1.0
            L += np.outer(d, d)
        found.append(L)
    assert np.allclose(sum(found), nx.laplacian_matrix(net.to_networkx(), weight=None).toarray())
    return tuple(found)


def maps(order: str, a: float) -> list[tuple[float, np.ndarray, np.ndarray]]:
    """Probability, matrix and vector of a round for all outcomes of the coins, from the formulas."""
    Q, b = device_quadratics(problem_q())
    H = np.zeros((N * DIM, N * DIM))
    for i in range(N):
        H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] = Q[i]
    found = []
    for coins in product((0, 1), repeat=3):
        chance = float(np.prod([q if coin else 1 - q for q, coin in zip(SHARES, coins, strict=True)]))
        mixed = sum((coin * L for coin, L in zip(coins, laplacians(), strict=True)), np.zeros((N, N)))
        M = np.kron(np.eye(N) - a * mixed, np.eye(DIM))
        if order == ATC:
            found.append((chance, M @ (np.eye(N * DIM) - ETA * H), ETA * M @ b.ravel()))
        else:
            found.append((chance, M - ETA * H, ETA * b.ravel()))
    return found


def moments(kinds: list[tuple[float, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Stationary mean and covariance."""
    A, c = sum(share * M for share, M, _ in kinds), sum(share * v for share, _, v in kinds)
    mean = np.linalg.solve(np.eye(N * DIM) - A, c)

    def noise(S: np.ndarray) -> np.ndarray:
        out = np.zeros_like(S)
        for share, M, v in kinds:
            off = (M - A) @ mean + v - c
            out += share * ((M - A) @ S @ (M - A).T + np.outer(off, off))
        return out

    return mean, stationary_covariance(A, noise)


def check_rounds(algorithm: Callable[..., Any]) -> None:
    """Rounds of both orders are those of the formulas for their coins, and coins of all kinds come up."""
    form = form_of(problem_q())
    for order in ("combine-then-adapt", ATC):
        chosen = algorithm(SHARES, eta=ETA, order=order, seed=2)
        state, seen = chosen.init(form, START), set()
        kinds = dict(zip(product((0, 1), repeat=3), maps(order, state.setup.matchings.strength), strict=True))
        for _ in range(80):
            after = chosen.step(form, state)
            coins = tuple(int(after.used[state.setup.matchings.matching == j].all()) for j in range(3))
            _, M, v = kinds[coins]
            assert_close(after.W.ravel(), M @ state.W.ravel() + v, 1e-13)
            seen.add(coins)
            state = after
        assert len(seen) >= 7


def test_rounds_are_those_of_the_formulas() -> None:
    check_rounds(Matcha)


@pytest.mark.parametrize("order", ["combine-then-adapt", ATC])
def test_the_mean_solves_the_expected_program(order: Any) -> None:
    """Not consensus; and it is decentralised gradient descent's limit with the expected matrix."""
    chosen = Matcha(SHARES, eta=ETA, order=order)
    a = chosen.init(form_of(problem_q()), None).setup.matchings.strength
    mean, _ = moments(maps(order, a))
    expected = np.eye(N) - a * sum(q * L for q, L in zip(SHARES, laplacians(), strict=True))
    reference = run_rounds(DecentralisedGD(expected, ETA, order), form_of(problem_q()), 4000).W
    assert_close(mean.reshape(N, DIM), reference)
    program = program_of(chosen, problem_q())
    best = program.problem.solve(gap=1e-14).weights
    assert_close(program.place(Point(reference)), best, 1e-7)
    assert not program.exact
    assert np.abs(mean.reshape(N, DIM) - minimiser(problem_q(), np.full(N, 1 / N))).max() > 0.1
    if order != ATC:
        weights = program.problem.alpha * program.problem.network.weights
        matching = chosen.init(form_of(problem_q()), None).setup.matchings.matching
        assert weights == pytest.approx(a * np.array(SHARES)[matching] / (2 * ETA), rel=1e-12)


def test_the_covariance_solves_the_lyapunov_equation() -> None:
    """Time averages of 12,000 rounds: the mean within five standard errors, deviations within 15 per cent."""
    form, chosen = form_of(problem_q()), Matcha(SHARES, eta=ETA, seed=1)
    kinds = maps("combine-then-adapt", chosen.init(form, None).setup.matchings.strength)
    mean, S = moments(kinds)
    assert np.sqrt(np.diag(S)).min() > 1e-3  # it does not converge
    state, rounds = chosen.init(form, Point(mean.reshape(N, DIM))), 12000
    seen = np.empty((rounds, N * DIM))
    for t in range(rounds):
        state = chosen.step(form, state)
        seen[t] = state.W.ravel()
    deviations = np.sqrt(np.diag(S))
    assert np.abs(seen.std(axis=0) / deviations - 1.0).max() < 0.15
    slowest = np.abs(np.linalg.eigvals(sum(share * M for share, M, _ in kinds))).max()
    correlated = 2.0 / (1.0 - slowest)
    assert (np.abs(seen.mean(axis=0) - mean) < 5 * deviations * np.sqrt(correlated / rounds)).all()


def test_the_radius_of_the_second_moment_by_enumeration() -> None:
    setup = Matcha(SHARES).init(form_of(problem_q()), None).setup.matchings
    for a in (0.1, 0.3):
        second = np.full((N, N), -1.0 / N)
        for coins in product((0, 1), repeat=3):
            chance = np.prod([q if coin else 1 - q for q, coin in zip(SHARES, coins, strict=True)])
            M = np.eye(N) - a * sum((c * L for c, L in zip(coins, laplacians(), strict=True)), np.zeros((N, N)))
            second += chance * M @ M
        found = RandomMatchings(SHARES, a).on(form_of(problem_q())).second_moment_radius
        assert found == pytest.approx(np.linalg.eigvalsh(second)[-1], rel=1e-10)
        assert found < 1
    largest = np.linalg.eigvalsh(sum(laplacians()))[-1]
    assert setup.strength == pytest.approx(1 / largest)


def test_all_matchings_for_sure_are_decentralised_gradient_descent() -> None:
    form, a = form_of(problem_l()), 0.2
    M = np.eye(N) - a * sum(laplacians())
    mine = run_rounds(Matcha(1.0, a, eta=0.3), form, 20, START)
    assert_close(mine.W, run_rounds(DecentralisedGD(M, 0.3), form, 20, START).W, 1e-13)
    assert_certified(problem_l(), Matcha(1.0, eta=0.3), 1500)


def test_a_fading_rate_tends_to_consensus() -> None:
    best, errors = minimiser(problem_q(), np.full(N, 1 / N)), []
    for rounds in (500, 8000):
        state = run_rounds(Matcha(0.5, eta=0.1, half_life=20.0), form_of(problem_q()), rounds)
        errors.append(np.abs(state.W - best).max())
    assert errors[1] < 0.15 * errors[0]
    program = program_of(Matcha(0.5, eta=0.1, half_life=20.0), problem_q())
    assert_close(program.problem.solve(gap=1e-13).weights, best)


def test_only_the_matchings_that_are_used_send() -> None:
    form, chosen = form_of(problem_q()), Matcha((0.2, 0.5, 0.9), seed=3)
    state, sent = chosen.init(form, None), np.zeros(N)
    for _ in range(400):
        state = chosen.step(form, state)
        traffic = chosen.traffic(form, state)
        assert traffic.messages_sent.sum() == 2 * state.used.sum()
        sent += traffic.messages_sent
    sizes = np.bincount(state.setup.matchings.matching)
    expected = 2 * 400 * sizes @ np.array([0.2, 0.5, 0.9])
    assert abs(sent.sum() / expected - 1) < 0.1


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"probability": 0.0}, "probability"),
        ({"probability": (0.5, 1.5, 0.5)}, "probability"),
        ({"strength": 0.0}, "strength"),
        ({"half_life": -1.0}, "half_life"),
        ({"order": "cta"}, "order"),
    ],
)
def test_settings_are_checked(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Matcha(**settings_)


def test_numbers_that_do_not_fit_the_network() -> None:
    form = form_of(problem_q())
    with pytest.raises(ValueError, match="3 of them, one a matching of this network"):
        Matcha((0.5, 0.5)).init(form, None)
    with pytest.warns(StepSizeWarning, match=r"\(2 - a lambda_max\(L\)\) / max L_i"):
        Matcha(eta=0.5).init(form, None)
    with pytest.raises(ValueError, match="eta must be given: no safe one is known for this mixing"):
        Matcha(strength=1.0).init(form, None)
    net = gtv.FLNetwork.from_edges([], nodes=("a", "b"))
    alone = gtv.GTVMin(net, [gtv.SquaredDistance([1.0])] * 2, penalty=gtv.SquaredNorm(), alpha=0.0)
    assert_close(run_rounds(Matcha(), form_of(alone), 300).W, np.ones((2, 1)))


def test_gradient_tracking_over_matchings_reaches_consensus() -> None:
    """Both variables over the same matchings; the mean of the estimates stays that of the gradients."""
    best = minimiser(problem_q(), np.full(N, 1 / N))
    form = form_of(problem_q())
    for order in ("combine-then-adapt", ATC):
        chosen = GradientTracking(RandomMatchings(SHARES), 0.05, order)
        state = run_rounds(chosen, form, 10, START)
        assert_close(state.Y.mean(axis=0), gradients(problem_q(), state.W).mean(axis=0), 1e-12)
        assert_close(run_rounds(chosen, form, 2500, START).W, np.tile(best, (N, 1)))
    drawn = RandomMatchings(SHARES).on(form)
    used = [drawn.used(round).sum() for round in range(20)]
    run = gtv.federate(problem_q(), GradientTracking(RandomMatchings(SHARES), 0.05), rounds=20)
    assert run.traffic.sent.sum() == 2 * 2 * DIM * sum(used)
    with pytest.raises(ValueError, match="eta must be given: no safe one is known for matchings that are drawn"):
        GradientTracking(RandomMatchings()).init(form, None)


FAULTS = {
    "one coin for all": ("np.arange(len(self.probability))) <", "np.zeros(len(self.probability), dtype=int)) <"),
    "strength lost": ("W - self.strength * self", "W - self"),
    "mixes over all edges": ("(used[:, None] * self.edges", "(self.edges"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcha, "RandomMatchings", planted(random_matchings, FAULTS[fault]).RandomMatchings)
    with pytest.raises(AssertionError):
        check_rounds(Matcha)


def test_mixing_over_the_last_matchings_is_caught() -> None:
    change = ("matchings.mix(state.W, used) - move", "matchings.mix(state.W, state.used) - move")
    with pytest.raises(AssertionError):
        check_rounds(planted(matcha, change).Matcha)
