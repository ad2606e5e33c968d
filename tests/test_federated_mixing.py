"""Algorithms that mix: decentralised gradient descent, gradient tracking, EXTRA, PD-SGD."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import affine_limit, assert_certified, assert_close, assert_consensus, planted
from federated_problems import (
    DIM,
    NAMES,
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
from gtvmin.federated.catalogue import program_of, surrogate_of
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated import dgd, extra, gradient_tracking, pd_sgd
from gtvmin.solvers.federated.dgd import DecentralisedGD
from gtvmin.solvers.federated.extra import Extra
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.gradient_tracking import GradientTracking
from gtvmin.solvers.federated.pd_sgd import PDSGD
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point
from mixing_matrices import START, lazy, metropolis

ATC = "adapt-then-combine"
J = np.full((N, N), 1.0 / N)
PROBLEMS = {"Q": problem_q, "L": problem_l}


@cache
def all_coupled(which: str) -> gtv.GTVMin:
    """The same devices, all of them neighbours, so that J is one of their mixing matrices."""
    pairs = [(a, b) for i, a in enumerate(NAMES) for b in NAMES[i + 1 :]]
    net = gtv.FLNetwork.from_edges(pairs, nodes=NAMES)
    return gtv.GTVMin(net, PROBLEMS[which]().losses, penalty=gtv.SquaredNorm(), alpha=0.5)


def stacked(problem: gtv.GTVMin, coupling: np.ndarray, scale: float = 1.0) -> np.ndarray:
    """``argmin scale sum_i L_i(w_i) + <W, coupling W> / 2`` by Newton's method on all parameters at once."""
    W, big = np.zeros(N * DIM), np.kron(coupling, np.eye(DIM))
    for _ in range(40):
        g = scale * gradients(problem, W.reshape(N, DIM)).ravel() + big @ W
        H, h = big.copy(), 1e-6
        for e in np.eye(DIM):
            shift = h * np.tile(e, N)
            up, down = (gradients(problem, (W + s).reshape(N, DIM)) for s in (shift, -shift))
            column = scale * (up - down) / (2 * h)
            for i in range(N):
                H[DIM * i : DIM * i + DIM, DIM * i + int(e.argmax())] += column[i]
        move = np.linalg.solve(H, g)
        W = W - move
        if np.abs(move).max() < 1e-14:
            break
    return W.reshape(N, DIM)


# Decentralised gradient descent
def check_dgd(algorithm: Callable[..., Any]) -> None:
    """Both orders tend to the minimisers of their objectives, found by Newton's method."""
    for which, make in PROBLEMS.items():
        problem, form, eta = make(), form_of(make()), 0.1
        limits = {"metropolis": (np.eye(N) - metropolis()) / eta}
        cases = [(algorithm("metropolis", eta), limits["metropolis"])]
        cases.append((algorithm("lazy", eta, ATC), (np.linalg.inv(lazy()) - np.eye(N)) / eta))
        for chosen, coupling in cases:
            found = affine_limit(chosen, problem).W if which == "Q" else run_rounds(chosen, form, 1500).W
            assert_close(found, stacked(problem, coupling))


def test_decentralised_gradient_descent_solves_its_programs() -> None:
    check_dgd(DecentralisedGD)
    for which, rounds in (("Q", 1500), ("L", 3000)):
        for chosen in (DecentralisedGD(eta=0.1), DecentralisedGD("lazy", 0.1, ATC)):
            assert_certified(PROBLEMS[which](), chosen, rounds)


def test_the_programs_are_those_of_the_formulas() -> None:
    problem, eta = problem_q(), 0.1
    combine = program_of(DecentralisedGD(eta=eta), problem).problem
    assert combine.alpha * combine.network.laplacian().toarray() == pytest.approx(
        (np.eye(N) - metropolis()) / (2 * eta)
    )
    assert_close(combine.solve(gap=1e-13).weights, stacked(problem, (np.eye(N) - metropolis()) / eta))
    adapt = program_of(DecentralisedGD("lazy", eta, ATC), problem)
    W = np.random.default_rng(3).normal(size=(N, DIM))
    coupling = np.kron(np.linalg.inv(lazy()) - np.eye(N), np.eye(DIM)) / (2 * eta)
    value = sum(loss.value(w) for loss, w in zip(problem.losses, W, strict=True)) + W.ravel() @ coupling @ W.ravel()
    assert adapt.problem.objective(adapt.place(Point(W))) == pytest.approx(value, rel=1e-12)
    other = {name: loss + 0.1 * gtv.L1() for name, loss in zip(NAMES, problem.losses, strict=True)}
    rough = gtv.GTVMin(network(), other, penalty=gtv.SquaredNorm(), alpha=0.5)
    assert program_of(DecentralisedGD("lazy", eta, ATC), rough).problem is None
    wide = [gtv.SquaredDistance(np.full(300, float(i))) for i in range(N)]
    large = gtv.GTVMin(network(), wide, penalty=gtv.SquaredNorm(), alpha=0.5)
    run = gtv.federate(large, "dgd", rounds=2, mixing="lazy", order=ATC)
    assert run.certificate is None
    assert "2000 parameters" in run.program.note


def test_programs_of_averages_after_steps_take_losses_of_several_kinds() -> None:
    """A device without a loss, distances, ridges, Huber's: certified all the same."""
    losses = dict(zip(NAMES, problem_q().losses, strict=True))
    losses["b"] = gtv.Zero()
    losses["c"] = gtv.SquaredDistance([1.0, 2.0, 3.0]) + gtv.Linear([0.1, 0.0, -0.2])
    losses["d"] = gtv.Huber(losses["d"].X, losses["d"].y, delta=0.5) + 0.1 * gtv.Quadratic(
        np.eye(DIM), np.ones(DIM), 2.0
    )
    losses["e"] = gtv.Ridge(losses["e"].X, losses["e"].y, lam=0.2)
    problem = gtv.GTVMin(network(), losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    for algorithm in (DecentralisedGD("lazy", 0.1, ATC), PDSGD(eta=0.1)):
        assert_certified(problem, algorithm, 4000)
    program = program_of(DecentralisedGD("lazy", 0.1, ATC), problem)
    W = START.W
    coupling = np.kron(np.linalg.inv(lazy()) - np.eye(N), np.eye(DIM)) / 0.2
    value = sum(loss.value(w) for loss, w in zip(problem.losses, W, strict=True)) + W.ravel() @ coupling @ W.ravel()
    assert program.problem.objective(program.place(Point(W))) == pytest.approx(value, rel=1e-12)


def test_combine_then_adapt_is_fed_gd_on_the_matching_problem() -> None:
    eta = 0.1
    for make in PROBLEMS.values():
        matching = program_of(DecentralisedGD(eta=eta), make()).problem
        mine, other = form_of(make()), form_of(matching)
        state, reference = DecentralisedGD(eta=eta).init(mine, START), FedGD(eta=eta).init(other, START)
        for _ in range(30):
            state, reference = DecentralisedGD(eta=eta).step(mine, state), FedGD(eta=eta).step(other, reference)
            assert_close(state.W, reference.W, 1e-13)


@pytest.mark.parametrize("which", ["Q", "L"])
def test_with_equal_entries_the_orders_are_fed_avg_and_fed_prox(which: str) -> None:
    """Adapt-then-combine is FedAvg with one step, round by round; combine-then-adapt tends to FedProx, mu = 1/eta."""
    problem, eta = all_coupled(which), 0.15
    form = form_of(problem)
    same = Point(np.tile(START.W[0], (N, 1)))
    state, server = DecentralisedGD(J, eta, ATC).init(form, same), FedAvg("uniform", eta=eta).init(form, same)
    for _ in range(20):
        state, server = DecentralisedGD(J, eta, ATC).step(form, state), FedAvg("uniform", eta=eta).step(form, server)
        assert_close(state.W, np.tile(server.model, (N, 1)), 1e-13)
    found = run_rounds(DecentralisedGD(J, eta), form, 3000).W
    assert_close(found, prox_of_fed_prox(problem, 1 / eta))


def prox_of_fed_prox(problem: gtv.GTVMin, mu: float) -> np.ndarray:
    """The devices' proximal points at FedProx's limit."""
    run = gtv.federate(problem, "fedprox", rounds=1500, weights="uniform", mu=mu)
    return np.array([loss.prox(run.model, 1 / mu) for loss in problem.losses])


def test_bounds_on_the_step_of_decentralised_gradient_descent() -> None:
    form, Q = form_of(problem_q()), device_quadratics(problem_q())[0]
    L = np.linalg.eigvalsh(Q).max()
    bound = (1 + np.linalg.eigvalsh(metropolis())[0]) / L
    assert DecentralisedGD().init(form, None).eta == pytest.approx(0.95 * bound)
    assert DecentralisedGD("lazy", order=ATC).init(form, None).eta == pytest.approx(0.95 * 2 / L)
    assert affine_round(DecentralisedGD(eta=0.98 * bound), form).spectral_radius() < 1
    assert affine_round(DecentralisedGD("lazy", 0.98 * 2 / L, ATC), form).spectral_radius() < 1
    for chosen in (DecentralisedGD(eta=1.5 * bound), DecentralisedGD("lazy", 1.5 * 2 / L, ATC)):
        with pytest.warns(StepSizeWarning, match="may diverge"):
            assert affine_round(chosen, form).spectral_radius() > 1


def test_adapt_then_combine_refuses_negative_eigenvalues() -> None:
    """With one, it would converge to a saddle of its objective."""
    ring = nx.cycle_graph(N)
    net = gtv.FLNetwork.from_edges([(NAMES[a], NAMES[b]) for a, b in ring.edges], nodes=NAMES)
    problem = gtv.GTVMin(net, problem_q().losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    M = 0.3 * np.eye(N) + 0.35 * nx.to_numpy_array(ring)
    assert np.linalg.eigvalsh(M)[0] == pytest.approx(-0.4)
    for make in (lambda: DecentralisedGD(M, 0.1, ATC), lambda: PDSGD(M)):
        with pytest.raises(ValueError, match=r"eigenvalue -0\.4.*mixing='lazy'"):
            make().init(form_of(problem), None)
    Q, _ = device_quadratics(problem)
    blocks = np.zeros((N * DIM, N * DIM))
    for i in range(N):
        blocks[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] = Q[i]
    big = np.kron(M, np.eye(DIM))
    assert np.abs(np.linalg.eigvals(big @ (np.eye(N * DIM) - 0.1 * blocks))).max() < 1  # it does converge
    assert np.linalg.eigvalsh(blocks + (np.linalg.inv(big) - np.eye(N * DIM)) / 0.1)[0] < -10
    DecentralisedGD(M, 0.1).init(form_of(problem), None)
    assert_certified(all_coupled("Q"), DecentralisedGD(J, 0.1, ATC), 1500)  # singular is no harm: over the range of M


# Gradient tracking
def check_tracking(algorithm: Callable[..., Any]) -> None:
    """Consensus, exactly; the mean of the estimates is that of the gradients."""
    problem, form = problem_q(), form_of(problem_q())
    for chosen in (algorithm("lazy", 0.05), algorithm("lazy", 0.05, ATC)):
        state = run_rounds(chosen, form, 5, START)
        assert_close(state.Y.mean(axis=0), gradients(problem, state.W).mean(axis=0), 1e-12)
        limit = affine_limit(chosen, problem, invariants=DIM)
        assert_consensus(limit.W, problem, "uniform")


def test_gradient_tracking_reaches_consensus() -> None:
    check_tracking(GradientTracking)
    assert_certified(problem_q(), GradientTracking(), 1500)
    assert_certified(problem_l(), GradientTracking("lazy", 0.2, ATC), 2500)
    state = run_rounds(GradientTracking("lazy", 0.2), form_of(problem_l()), 1500)
    assert_consensus(state.W, problem_l(), "uniform")


def test_rounds_of_gradient_tracking_are_those_of_the_formulas() -> None:
    problem, form, M, eta = problem_l(), form_of(problem_l()), lazy(), 0.2
    W0 = START.W
    Y0 = gradients(problem, W0)
    W1 = M @ W0 - eta * Y0
    Y1 = M @ Y0 + gradients(problem, W1) - Y0
    W2 = M @ W1 - eta * Y1
    assert_close(run_rounds(GradientTracking("lazy", eta), form, 2, START).W, W2, 1e-13)
    W1 = M @ (W0 - eta * Y0)
    Y1 = M @ (Y0 + gradients(problem, W1) - Y0)
    W2 = M @ (W1 - eta * Y1)
    assert_close(run_rounds(GradientTracking("lazy", eta, ATC), form, 2, START).W, W2, 1e-13)


def test_steps_of_gradient_tracking() -> None:
    """The bound is safe, in both orders, and not sharp; far beyond it rounds diverge, averaging late later."""
    form, Q = form_of(problem_q()), device_quadratics(problem_q())[0]
    bound = 2 * np.linalg.eigvalsh(lazy())[0] ** 2 / np.linalg.eigvalsh(Q).max()
    assert GradientTracking().init(form, None).eta == pytest.approx(0.95 * bound)
    for order in ("combine-then-adapt", ATC):
        assert affine_round(GradientTracking("lazy", 0.99 * bound, order), form).spectral_radius(DIM) < 1
    with pytest.warns(StepSizeWarning, match="least eigenvalue of M"):
        assert affine_round(GradientTracking("lazy", 0.4), form).spectral_radius(DIM) > 1
    with pytest.warns(StepSizeWarning):
        assert affine_round(GradientTracking("lazy", 0.2, ATC), form).spectral_radius(DIM) < 1
    with pytest.raises(ValueError, match=r"2 \(least eigenvalue of M\)\^2 / max L_i is not above zero"):
        GradientTracking(J).init(form_of(all_coupled("Q")), None)


# EXTRA
def check_extra(algorithm: Callable[..., Any]) -> None:
    """Round by round the published recursion of two steps; consensus; flows whose divergence is the gradients."""
    for make, eta in ((problem_q, 0.1), (problem_l, 0.5)):
        problem, form = make(), form_of(make())
        half = 0.5 * (np.eye(N) + metropolis())
        last = START.W
        W = metropolis() @ last - eta * gradients(problem, last)
        state = algorithm(eta=eta).init(form, START)
        for _ in range(12):
            state = algorithm(eta=eta).step(form, state)
            assert_close(state.W, W, 1e-11)
            moved = 2 * half @ W - half @ last - eta * (gradients(problem, W) - gradients(problem, last))
            last, W = W, moved
    cycles = (network().n_edges - N + 1) * DIM
    limit = affine_limit(algorithm(eta=0.1), problem_q(), invariants=cycles)
    assert_consensus(limit.W, problem_q(), "uniform")
    assert_close(-(network().incidence().T @ limit.U), gradients(problem_q(), limit.W))


def test_extra_is_the_published_recursion_and_its_flows_certify_it() -> None:
    check_extra(Extra)
    for make, rounds in ((problem_q, 600), (problem_l, 2000)):
        assert_certified(make(), Extra(), rounds)
    run = gtv.federate(problem_q(), "extra", rounds=600)
    point = Extra().point(form_of(problem_q()), run.state)
    program = run.program.problem
    assert np.array_equal(program.network.tail, problem_q().network.tail)
    certificate = gtv.certify(program, run.weights.mean(axis=0) + np.zeros((N, 1)), point.U[0])
    assert certificate.relative_gap < 1e-10


def test_steps_and_starts_of_extra() -> None:
    form, Q = form_of(problem_q()), device_quadratics(problem_q())[0]
    bound = (1 + np.linalg.eigvalsh(metropolis())[0]) / np.linalg.eigvalsh(Q).max()
    cycles = (network().n_edges - N + 1) * DIM
    assert Extra().init(form, None).eta == pytest.approx(0.95 * bound)
    assert affine_round(Extra(eta=0.99 * bound), form).spectral_radius(cycles) < 1
    with pytest.warns(StepSizeWarning, match=r"\(1 \+ least eigenvalue of M\) / max L_i"):
        assert affine_round(Extra(eta=3 * bound), form).spectral_radius(cycles) > 1
    parts = gtv.FLNetwork.from_edges([("a", "b"), ("c", "d")], nodes=NAMES)
    apart = gtv.GTVMin(parts, problem_q().losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    for algorithm in (Extra(), GradientTracking()):
        with pytest.raises(ValueError, match="6 parts, which cannot agree"):
            algorithm.init(form_of(apart), None)


# PD-SGD
def check_pd_sgd(algorithm: Callable[..., Any]) -> None:
    """The closed form on quadratics, for equal and for different numbers of steps and rates."""
    Q, b = device_quadratics(problem_q())
    for steps, eta in ((1, 0.1), (5, 0.1), (tuple(range(1, N + 1)), tuple(np.linspace(0.05, 0.2, N)))):
        chosen = algorithm("lazy", steps, eta)
        K, rate = np.broadcast_to(steps, N), np.broadcast_to(eta, N)
        H = np.kron(np.linalg.inv(lazy()) - np.eye(N), np.eye(DIM))
        r = np.zeros((N, DIM))
        for i in range(N):
            S = np.eye(DIM) - np.linalg.matrix_power(np.eye(DIM) - rate[i] * Q[i], int(K[i]))
            H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] += S
            r[i] = S @ np.linalg.solve(Q[i], b[i])
        closed = np.linalg.solve(H, r.ravel()).reshape(N, DIM)
        assert_close(affine_limit(chosen, problem_q()).W, closed, 1e-10)
        found = surrogate_of(PDSGD("lazy", steps, eta), problem_q())
        best = found.problem.solve(gap=1e-14).weights
        assert_close(found.place(Point(closed)), best, 1e-7)


def test_pd_sgd_solves_its_surrogate() -> None:
    check_pd_sgd(PDSGD)
    program = program_of(PDSGD(local_steps=5, eta=0.1), problem_q())
    assert not program.exact
    consensus = minimiser(problem_q(), np.full(N, 1 / N))
    assert np.abs(affine_limit(PDSGD(local_steps=5, eta=0.1), problem_q()).W - consensus).max() > 0.05
    assert_certified(problem_l(), PDSGD(eta=0.1), 3000)  # one local step: adapt-then-combine


@pytest.mark.parametrize("which", ["Q", "L"])
def test_pd_sgd_with_equal_entries_is_fed_avg(which: str) -> None:
    """With minibatches of the same draws as well, and one local step is decentralised gradient descent."""
    problem, same = all_coupled(which), Point(np.tile(START.W[0], (N, 1)))
    form = form_of(problem)
    for batch in (None, 3):
        mine = run_rounds(PDSGD(J, 4, 0.1, batch, seed=3), form, 15, same)
        theirs = run_rounds(FedAvg("uniform", 4, 0.1, batch, seed=3), form, 15, same)
        assert_close(mine.W, np.tile(theirs.model, (N, 1)), 1e-13)
    here = form_of(PROBLEMS[which]())
    mine = run_rounds(PDSGD("lazy", 1, 0.1), here, 10, START)
    assert_close(mine.W, run_rounds(DecentralisedGD("lazy", 0.1, ATC), here, 10, START).W, 1e-13)


# What all of them send, and faults
def test_vectors_are_sent_over_the_edges_of_the_matrix() -> None:
    degree = np.bincount(np.append(network().tail, network().head))
    for name, vectors in (("dgd", 1), ("gradienttracking", 2), ("extra", 1), ("pdsgd", 1)):
        run = gtv.federate(problem_q(), name, rounds=3)
        assert run.traffic.messages_sent.tolist() == (3 * degree).tolist()
        assert run.traffic.sent.tolist() == (3 * vectors * DIM * degree).tolist()
        assert run.traffic.gradients.tolist() == [3.0] * N
        assert run.traffic.points.tolist() == (3 * form_of(problem_q()).samples).tolist()


def test_orders_are_named() -> None:
    for algorithm in (DecentralisedGD, GradientTracking):
        with pytest.raises(ValueError, match="order must be 'combine-then-adapt' or 'adapt-then-combine'"):
            algorithm(order="cta")  # type: ignore[arg-type]


FAULTS = {
    "dgd: rate of the other order": (
        dgd,
        ("M.apply(W) - move if", "M.apply(W - move) if"),
        check_dgd,
        "DecentralisedGD",
    ),
    "dgd: mixing left out late": (dgd, ("else M.apply(W - move)", "else W - move"), check_dgd, "DecentralisedGD"),
    "tracking started at zero": (
        gradient_tracking,
        ("GradientTrackingState(W, g, g, 0, mixing", "GradientTrackingState(W, 0.0 * g, g, 0, mixing"),
        check_tracking,
        "GradientTracking",
    ),
    "tracking: old gradient lost": (
        gradient_tracking,
        ("else mix(state.Y) + g - state.g", "else mix(state.Y) + g - mix(state.g)"),
        check_tracking,
        "GradientTracking",
    ),
    "tracking: estimates not mixed": (
        gradient_tracking,
        ("else mix(state.Y) + g - state.g", "else state.Y + g - state.g"),
        check_tracking,
        "GradientTracking",
    ),
    "extra: half lost": (extra, ("(0.5 / eta)", "(1.0 / eta)"), check_extra, "Extra"),
    "extra: sign of the flows": (
        extra,
        ("W) + state.edges.adjoint(U))", "W) - state.edges.adjoint(U))"),
        check_extra,
        "Extra",
    ),
    "extra: flows of the last round": (
        extra,
        ("state.edges.adjoint(U))", "state.edges.adjoint(state.U))"),
        check_extra,
        "Extra",
    ),
    "extra: M for (I + M) / 2": (extra, ("0.5 * (W + M.apply(W))", "M.apply(W)"), check_extra, "Extra"),
    "pd-sgd: mixes first": (
        pd_sgd,
        ("form, state.W, setup.steps", "form, setup.mixing.apply(state.W), setup.steps"),
        check_pd_sgd,
        "PDSGD",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_planted_faults_are_caught(fault: str) -> None:
    module, change, check, name = FAULTS[fault]
    faulty = getattr(planted(module, change), name)
    with pytest.raises(AssertionError):
        check(faulty)


def test_starts_of_extra_that_lose_the_sum_of_the_gradients() -> None:
    """From ``W' = W`` the recursion ends elsewhere; from ``W' = W - eta g`` it does not."""
    problem, eta, half = problem_q(), 0.1, 0.5 * (np.eye(N) + metropolis())
    best, ends = minimiser(problem, np.full(N, 1 / N)), []
    for first in (START.W - eta * gradients(problem, START.W), START.W):
        last, W = START.W, first
        for _ in range(600):
            moved = 2 * half @ W - half @ last - eta * (gradients(problem, W) - gradients(problem, last))
            last, W = W, moved
        ends.append(np.abs(W - best).max())
    assert ends[0] < 1e-8
    assert ends[1] > 1e-2
