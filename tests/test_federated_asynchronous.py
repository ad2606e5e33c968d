"""Asynchronous runs: an event simulator written out, convergence whatever the delays, divergence, and accounts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from federated_checks import planted
from federated_problems import DIM, NAMES, N, form_of, network, problem_l, problem_q, run_rounds
from gtvmin.errors import CapabilityError, ConvergenceWarning
from gtvmin.federated.catalogue import program_of
from gtvmin.solvers.federated import asynchronous
from gtvmin.solvers.federated.asynchronous import Asynchronous
from gtvmin.solvers.federated.dgd import DecentralisedGD
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.participation import Bernoulli, Cyclic, UniformSample
from gtvmin.solvers.federated.schedule import Diurnal, GeometricDelay, GrowingDelay, Schedule, UniformDelay
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
SCHEDULES = {
    "half of the devices, delays up to 5": Schedule(Bernoulli(0.5), delay=UniformDelay(5)),
    "two at a time, delay 3": Schedule(Cyclic(2), delay=3),
    "unbounded delays, lost messages": Schedule(UniformSample(5), delay=GeometricDelay(2.0), loss=0.3),
    "stragglers and failures": Schedule(duration=(1, 1, 7, 1, 2, 1, 12, 1), delay=UniformDelay(2), failure=0.2),
    "late joiners, days and nights": Schedule(
        availability=Diurnal(12.0, 0.6), joins=(0, 0, 0, 60, 0, 0, 9, 0), delay=1
    ),
}


@cache
def best(problem: gtv.GTVMin) -> np.ndarray:
    """The certified solution."""
    return np.asarray(problem.solve(gap=1e-13).weights)


@pytest.mark.parametrize("algorithm", [FedGD(eta=tuple(np.full(N, 0.05))), FedRelax(), DecentralisedGD(eta=0.05)])
def test_the_synchronous_schedule_runs_the_algorithm(algorithm: Any) -> None:
    form = form_of(problem_q())
    state, whole = algorithm.init(form, START), Asynchronous(algorithm).init(form, START)
    for _ in range(8):
        state, whole = algorithm.step(form, state), Asynchronous(algorithm).step(form, whole)
        assert np.abs(whole.W - state.W).max() < 1e-13


def written_out(schedule: Schedule, seed: int, events: int) -> np.ndarray:
    """FedRelax device by device and message by message; only the draws are the simulator's."""
    problem, form = problem_q(), form_of(problem_q())
    drawn = Asynchronous(FedRelax(), schedule, seed=seed).init(form, START)
    source, target = drawn.neighbours.source, drawn.neighbours.target
    A = np.zeros((N, N))
    net = network()
    A[net.tail, net.head] = A[net.head, net.tail] = net.weights
    W = [w.copy() for w in START.W]
    known = [{j: START.W[j] for j in np.flatnonzero(A[i])} for i in range(N)]
    stamp = [dict.fromkeys(known[i], -1) for i in range(N)]
    post: list[tuple[int, int, int, int, np.ndarray]] = []  # arrival, sent at, from, to, parameters
    working: list[tuple[int, np.ndarray] | None] = [None] * N
    earlier = [list(START.W)] * (schedule.own_delay + 1)
    for event in range(events):
        for arrival, sent, j, i, w in sorted(post, key=lambda m: m[:2]):
            if arrival == event and sent > stamp[i][j]:
                known[i][j], stamp[i][j] = w, sent
        there, begins = schedule.present(drawn.keys, event), schedule.begins(drawn.keys, event)
        arrives, delay = schedule.delays(drawn.edge_keys, event)
        fails = schedule.fails(drawn.keys, event)
        own = earlier[-1 - schedule.own_delay] if schedule.own_delay else W
        before = [w.copy() for w in W]
        for i in range(N):
            if there[i] and begins[i] and working[i] is None:
                mean = sum(A[i, j] * w for j, w in known[i].items()) / A[i].sum()
                found = problem.losses[i].prox(mean, 1.0 / (2.0 * problem.alpha * A[i].sum()))
                move = found if not schedule.own_delay else before[i] + found - own[i]
                working[i] = (event + int(drawn.duration[i]) - 1, move)
            if there[i] and working[i] is not None and working[i][0] <= event:
                if not fails[i]:
                    W[i] = working[i][1]
                    post += [
                        (event + 1 + int(delay[k]), event, i, int(target[k]), W[i])
                        for k in np.flatnonzero((source == i) & arrives)
                    ]
                working[i] = None
        earlier.append([w.copy() for w in W])
    return np.array(W)


@pytest.mark.parametrize("name", SCHEDULES)
def test_events_are_those_of_a_simulator_written_out(name: str) -> None:
    check_events(Asynchronous, SCHEDULES[name])


def check_events(algorithm: Callable[..., Any], schedule: Schedule) -> None:
    state = run_rounds(algorithm(FedRelax(), schedule, seed=3), form_of(problem_q()), 90, START)
    assert np.abs(state.W - written_out(schedule, 3, 90)).max() < 1e-12


def check_all_events(algorithm: Callable[..., Any]) -> None:
    for schedule in SCHEDULES.values():
        check_events(algorithm, schedule)


def test_late_moves_are_those_of_a_simulator_written_out() -> None:
    check_events(Asynchronous, Schedule(own_delay=1, active=Bernoulli(0.5), delay=2))


@pytest.mark.parametrize("which", ["Q", "L"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_pseudo_contractions_converge_under_total_asynchrony(name: str, which: str) -> None:
    problem = {"Q": problem_q, "L": problem_l}[which]()
    events = 800 if which == "Q" else 1400
    state = run_rounds(Asynchronous(FedRelax(), SCHEDULES[name]), form_of(problem), events, START)
    assert np.abs(state.W - best(problem)).max() < 1e-8


def test_gradient_descent_with_safe_steps_converges_under_total_asynchrony() -> None:
    """The default lies within the bound of the largest norm, and so does 1 / (L_i + 2 alpha d_i)."""
    form, limit = form_of(problem_q()), best(problem_q())
    schedule = SCHEDULES["unbounded delays, lost messages"]
    degree = form.local.smoothness + FedRelax().init(form, None).neighbours.degree
    for eta in (None, tuple(1.0 / degree)):
        state = run_rounds(Asynchronous(FedGD(eta=eta), schedule), form, 2000, START)
        assert np.abs(state.W - limit).max() < 1e-8


def test_decentralised_gradient_descent_converges_under_total_asynchrony() -> None:
    """Its bound with delays is 2 M_ii / L_i; adapt-then-combine, whose messages are of one age, is refused."""
    form, schedule = form_of(problem_q()), SCHEDULES["half of the devices, delays up to 5"]
    run = Asynchronous(DecentralisedGD(), schedule)
    degree = np.bincount(np.append(network().tail, network().head))
    own = [1 - sum(1 / (1 + max(degree[i], degree[j])) for j in neighbours(i)) for i in range(N)]
    eta = run.init(form, START).algorithm.eta
    assert eta == pytest.approx(0.95 * (2 * np.array(own) / form.local.smoothness).min())
    limit = program_of(DecentralisedGD(eta=eta), problem_q()).problem.solve(gap=1e-13).weights
    state = run_rounds(run, form, 2500, START)
    assert np.abs(state.W - limit).max() < 1e-8
    assert np.abs(program_of(run, problem_q()).problem.solve(gap=1e-13).weights - limit).max() < 1e-8
    with pytest.warns(StepSizeWarning, match="2 M_ii / L_i, for messages that are late"):
        Asynchronous(DecentralisedGD(eta=1.1 * eta), schedule).init(form, None)
    with pytest.raises(ValueError, match="order must be 'combine-then-adapt'"):
        Asynchronous(DecentralisedGD("lazy", order="adapt-then-combine"), schedule).init(form, None)


def neighbours(i: int) -> list[int]:
    net = network()
    ends = list(zip(net.tail.tolist(), net.head.tolist(), strict=True))
    return [b if a == i else a for a, b in ends if i in (a, b)]


def test_growing_delays_only_slow_it_down() -> None:
    form, limit = form_of(problem_q()), best(problem_q())
    state = run_rounds(Asynchronous(FedRelax(), Schedule(Bernoulli(0.5), delay=GrowingDelay(0.5))), form, 700, START)
    assert 1e-9 < np.abs(state.W - limit).max() < 1e-2
    assert len(state.flight.edge) < 100 * len(state.heard)  # overtaken messages are not kept


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    share=st.floats(0.1, 1.0),
    mean=st.floats(0.1, 20.0),
    loss=st.floats(0.0, 0.8),
    slowest=st.integers(1, 9),
)
def test_no_event_raises_the_largest_error(seed: int, share: float, mean: float, loss: float, slowest: int) -> None:
    """Over all that devices have, have heard, are computing, and messages hold: what total asynchrony rests on."""
    form, limit = form_of(problem_q()), best(problem_q())
    duration = tuple(1 + (seed * (i + 1)) % slowest for i in range(N))
    schedule = Schedule(Bernoulli(share), delay=GeometricDelay(mean), loss=loss, duration=duration)
    for algorithm in (FedRelax(), FedGD()):
        run = Asynchronous(algorithm, schedule, seed=seed)
        state, source = run.init(form, START), FedRelax().init(form, None).neighbours.source
        last = np.linalg.norm(START.W - limit, axis=1).max()
        for _ in range(25):
            state = run.step(form, state)
            apart = [
                state.W - limit,
                state.heard - limit[source],
                state.flight.content - limit[source[state.flight.edge]],
            ]
            now = max(np.linalg.norm(part, axis=1).max(initial=0.0) for part in apart)
            busy = state.done >= 0
            now = max(now, np.linalg.norm((state.result - limit)[busy], axis=1).max(initial=0.0))
            assert now <= last * (1 + 1e-12)
            last = now


def complete(m: float, c: float) -> gtv.GTVMin:
    """K_8 with ``(m/2) (w - i)^2`` at device i, every pair coupled by ``(c/2) (w_i - w_j)^2``."""
    edges = [(i, j) for i in range(N) for j in range(i + 1, N)]
    losses = [0.5 * m * gtv.SquaredDistance([float(i)]) for i in range(N)]
    net = gtv.FLNetwork.from_edges(edges, nodes=range(N))
    return gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.5 * c)


@pytest.mark.filterwarnings("ignore::gtvmin.solvers.federated.step_sizes.StepSizeWarning")
@pytest.mark.parametrize(("m", "c"), [(1.0, 1.0), (0.5, 0.2)])
def test_a_step_that_is_stable_only_without_delays(m: float, c: float) -> None:
    """Beyond the bound of the largest norm, synchronous rounds converge and a delay of one event diverges."""
    problem = complete(m, c)
    form, limit = form_of(problem), np.array([[(m * i + c * sum(range(N))) / (m + c * N)] for i in range(N)])
    bound = 2.0 / (m + 2.0 * c * (N - 1))
    assert 1.2 * bound < 2.0 / (m + c * N)

    def error(eta: float, delay: int, events: int) -> float:
        return float(
            np.abs(run_rounds(Asynchronous(FedGD(eta=eta), Schedule(delay=delay)), form, events).W - limit).max()
        )

    assert error(1.2 * bound, 0, 400) < 1e-10
    assert error(1.2 * bound, 1, 200) > 1e6
    for delay in (1, 2, 5):
        assert error(0.95 * bound, delay, 900) < 1e-8


@pytest.mark.parametrize(("delay", "stable"), [(0, True), (1, True), (2, True), (3, False)])
def test_own_parameters_that_are_stale(delay: int, stable: bool) -> None:
    """``w -= eta h w(B events ago)`` is stable iff ``eta h < 2 sin(pi / (2 (2 B + 1)))``: here eta h = 0.5."""
    assert (2 * np.sin(np.pi / (2 * (2 * delay + 1))) > 0.5) == stable
    net = gtv.FLNetwork.from_edges([], nodes=("a", "b"))
    losses = [0.5 * gtv.SquaredDistance([1.0])] * 2
    problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.0)
    run = Asynchronous(FedGD(eta=0.5), Schedule(own_delay=delay))
    error = np.abs(run_rounds(run, form_of(problem), 400).W - 1.0).max()
    assert error < 1e-8 if stable else error > 100


def test_steps_are_checked_against_the_bound_for_delays() -> None:
    form = form_of(complete(1.0, 1.0))
    bound = 2.0 / (1.0 + 2.0 * (N - 1))
    for eta in (None, 0.99 * bound):
        Asynchronous(FedGD(eta=eta)).init(form, None)
    FedGD(eta=1.01 * bound).init(form, None)
    with pytest.warns(StepSizeWarning, match=r"2 / \(L_i \+ 4 alpha d_i\)"):
        Asynchronous(FedGD(eta=1.01 * bound)).init(form, None)


def test_neighbours_of_a_device_that_left_live_with_what_it_sent_last() -> None:
    """Their limit solves the problem in which it is held fixed."""
    leaves = tuple(7 if name == "c" else -1 for name in NAMES)
    run = Asynchronous(FedRelax(), Schedule(leaves=leaves))
    form, problem = form_of(problem_q()), problem_q()
    kept = run_rounds(run, form, 7, START).W[2]
    state = run_rounds(run, form, 400, START)
    assert np.array_equal(state.W[2], kept)
    losses = dict(zip(NAMES, problem.losses, strict=True))
    losses["c"] = gtv.Box(kept, kept)
    held = gtv.GTVMin(problem.network, losses, penalty=gtv.SquaredNorm(), alpha=problem.alpha)
    assert np.abs(state.W - held.solve(gap=1e-12).weights).max() < 1e-6
    assert not program_of(run, problem).exact
    assert program_of(Asynchronous(FedRelax()), problem).exact


def test_schedules_do_what_they_say() -> None:
    """Shares of lost messages, of failures and of the day within five standard errors; joining; delays' means."""
    form, events = form_of(problem_q()), 600
    state = Asynchronous(FedRelax()).init(form, None)
    keys, edges = state.keys, state.edge_keys
    assert len(set(edges.tolist())) == 2 * network().n_edges
    schedule = Schedule(delay=GeometricDelay(2.0), loss=0.25, failure=0.1, joins=(5,) * N)
    drawn = [schedule.delays(edges, event) for event in range(events)]
    count = events * len(edges)
    arrived, late = np.array([a for a, _ in drawn]), np.array([d for _, d in drawn])
    assert abs(arrived.mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / count)
    assert abs(late.mean() - 2.0) < 5 * np.sqrt(6.0 / count)
    assert late.min() == 0
    assert abs(np.corrcoef(arrived.ravel(), late.ravel())[0, 1]) < 5 / np.sqrt(count)
    failed = np.array([schedule.fails(keys, event) for event in range(events)])
    assert abs(failed.mean() - 0.1) < 5 * np.sqrt(0.09 / (events * N))
    assert [schedule.present(keys, event).all() for event in (4, 5)] == [False, True]
    there = np.array([Schedule(availability=Diurnal(24.0, 0.25)).present(keys, event) for event in range(240)])
    assert np.allclose(there.mean(axis=0), 0.25, atol=0.05)
    assert np.array_equal(there[:24], there[24:48])
    assert len({tuple(column) for column in there.T}) > 3  # not all at the same time of day
    day = Schedule(availability=Diurnal(4.0, 0.5, phases=(0.0,) * 7 + (0.5,)))
    assert [day.present(keys, event).tolist()[::7] for event in range(4)] == [[True, False]] * 2 + [[False, True]] * 2
    u = (np.arange(6000) + 0.5) / 6000
    assert np.bincount(UniformDelay(5).draw(u, 0)).tolist() == [1000] * 6
    assert GrowingDelay(0.5).draw(u, 100).max() == 50


def test_runs_repeat_and_other_devices_change_nothing() -> None:
    """Another order of the devices, and one more: the same events at the same labels."""
    problem = problem_q()
    schedule = Schedule(Bernoulli(0.5), delay=UniformDelay(4), loss=0.2)
    edges = [(b, a, w) for (a, b), w in zip(problem.network.edges, problem.network.weights, strict=True)]
    turned = gtv.GTVMin(
        gtv.FLNetwork.from_edges(edges[::-1], nodes=[*NAMES[::-1], "new"]),
        {**dict(zip(NAMES, problem.losses, strict=True)), "new": problem.losses[0]},
        penalty=gtv.SquaredNorm(),
        alpha=problem.alpha,
    )
    runs = [gtv.federate(p, "fedrelax", rounds=40, schedule=schedule, seed=5) for p in (problem, problem, turned)]
    assert np.array_equal(runs[0].weights, runs[1].weights)
    for name in NAMES:
        assert np.abs(runs[0][name] - runs[2][name]).max() < 1e-12
    other = gtv.federate(problem, "fedrelax", rounds=40, schedule=schedule, seed=6)
    assert np.abs(runs[0].weights - other.weights).max() > 1e-6


def test_accounts_of_an_asynchronous_run() -> None:
    schedule = Schedule(Cyclic(1), delay=2, loss=0.3)
    run = gtv.federate(problem_q(), "fedrelax", rounds=80, schedule=schedule, seed=1)
    neighbours = np.bincount(np.append(network().tail, network().head))
    assert run.name == "asynchronous"
    assert run.traffic.proxes.tolist() == [10.0] * N
    assert np.array_equal(run.traffic.messages_sent, 10 * neighbours)
    assert run.history[-1].bytes_up == 8 * DIM * run.traffic.messages_sent.sum()
    received = run.traffic.messages_received.sum() / run.traffic.messages_sent.sum()
    assert 0.5 < received < 0.85
    descent = gtv.federate(problem_q(), "fedgd", rounds=10, schedule=Schedule(delay=1))
    assert descent.traffic.gradients.tolist() == [10.0] * N
    assert not descent.traffic.proxes.any()


def test_the_users_way_in() -> None:
    schedule = Schedule(Bernoulli(0.5), delay=UniformDelay(3), loss=0.1)
    run = gtv.federate(problem_q(), "fedrelax", rounds=900, schedule=schedule, seed=2, gap=1e-8)
    assert run.status is gtv.Status.CERTIFIED
    assert run.certificate.holds(1e-8)
    with pytest.warns(StepSizeWarning), pytest.warns(ConvergenceWarning, match="grows without bound"):
        gone = gtv.federate(complete(1.0, 1.0), "fedgd", rounds=200, eta=0.16, schedule=Schedule(delay=1))
    assert gone.status is gtv.Status.DIVERGED
    with pytest.raises(ValueError, match="FedAvg has no update for messages of different ages"):
        gtv.federate(problem_q(), "fedavg", rounds=1, weights="uniform", schedule=schedule)
    with pytest.raises(TypeError, match="schedule must be a Schedule"):
        Asynchronous(FedRelax(), 3)  # type: ignore[arg-type]
    partial = gtv.GTVMin(network(), problem_q().losses, penalty=gtv.Partial(gtv.SquaredNorm(), [0]), alpha=0.5)
    with pytest.raises((ValueError, CapabilityError), match=r"SquaredNorm\(\) of whole parameter vectors"):
        gtv.federate(partial, "fedgd", rounds=1, schedule=schedule)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Schedule(loss=1.0), "loss"),
        (lambda: Schedule(failure=-0.1), "failure"),
        (lambda: Schedule(delay=-1), "delay"),
        (lambda: Schedule(delay=1.5), "delay"),  # type: ignore[arg-type]
        (lambda: Schedule(own_delay=-1), "own_delay"),
        (lambda: Schedule(duration=0), "duration"),
        (lambda: UniformDelay(-1), "most"),
        (lambda: GeometricDelay(0.0), "mean"),
        (lambda: GrowingDelay(-1.0), "share"),
        (lambda: Diurnal(0.5, 0.5), "period"),
        (lambda: Diurnal(24.0, 0.0), "share"),
        (lambda: Asynchronous(FedRelax(), Schedule(duration=(1, 2))).init(form_of(problem_q()), None), "duration"),
        (lambda: run_rounds(Asynchronous(FedRelax(), Schedule(joins=(1, 2))), form_of(problem_q()), 1), "joins"),
        (lambda: Schedule(availability=Diurnal(9.0, 0.5, (0.1,))).present(np.zeros(3, np.uint64), 0), "phases"),
    ],
)
def test_bad_schedules_are_named(make: Callable[[], Any], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        make()


FAULTS = {
    "messages are there at once": ("event + 1 + delay[edge]", "event + delay[edge]"),
    "lost messages arrive": ("np.flatnonzero(sent & arrives)", "np.flatnonzero(sent)"),
    "results of later inputs": ("result = np.where(began[:, None], self._moved", "result = np.where(True, self._moved"),
    "older messages overtake": ("self.arrival < overtaken_at[self.edge]", "self.arrival > -1"),
    "failures are sent": ("ended & ~schedule.fails(state.keys, event) if schedule.failure else ended", "ended"),
    "devices that are away compute": ("began = there & ", "began = "),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault: str) -> None:
    faulty = planted(asynchronous, FAULTS[fault]).Asynchronous
    with pytest.raises(AssertionError):
        check_all_events(faulty)
