"""FedAvg: limits, closed forms of biased ones, partial participation; settings of FedProx that are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import (
    DIM,
    N,
    certified_distance,
    device_quadratics,
    form_of,
    gradients,
    minimiser,
    problem_l,
    problem_q,
    run_rounds,
    weights_of,
)
from gtvmin.federated import program_of, surrogate_of
from gtvmin.federated.operators import affine_round, stationary_covariance
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.participation import Bernoulli, ByWeight, UniformSample
from gtvmin.solvers.standard_form import Point

PROBLEMS = {"Q": problem_q, "L": problem_l}
WORDS = ("uniform", "samples")
START = Point(np.tile(np.random.default_rng(2).normal(size=DIM), (N, 1)))


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("which", PROBLEMS)
def test_one_local_step_tends_to_consensus(which: str, word: str) -> None:
    problem = PROBLEMS[which]()
    p = weights_of(word)
    for algorithm in (FedAvg(word), FedProx(word, mu=3.0, local_steps=1)):
        found = run_rounds(algorithm, form_of(problem), 400, START).model
        assert np.abs(found - minimiser(problem, p)).max() < 1e-8
        program = program_of(algorithm, problem)
        assert program.exact
        assert certified_distance(program, np.tile(found, (N, 1))) < 1e-8
    assert np.abs(minimiser(problem, weights_of("uniform")) - minimiser(problem, weights_of("samples"))).max() > 0.05


@pytest.mark.parametrize("steps", [2, 5, 20, [1, 2, 3, 4, 5, 6, 7, 8]], ids=str)
@pytest.mark.parametrize("word", WORDS)
def test_several_local_steps_minimise_the_surrogate(word: str, steps: Any) -> None:
    """Against ``sum p_i (w - w_i)^T S_i (w - w_i) / 2``, ``S_i = I - (I - eta Q_i)^K``, written down."""
    problem, eta, p = problem_q(), 0.1, weights_of(word)
    algorithm = FedAvg(word, local_steps=steps, eta=eta)
    found = run_rounds(algorithm, form_of(problem), 900, START).model
    Q, b = device_quadratics(problem)
    K = np.broadcast_to(steps, N)
    S = np.array([np.eye(DIM) - np.linalg.matrix_power(np.eye(DIM) - eta * Q[i], K[i]) for i in range(N)])
    own = np.linalg.solve(Q, b[:, :, None])[:, :, 0]
    limit = np.linalg.solve(np.einsum("i,ijk->jk", p, S), np.einsum("i,ijk,ik->j", p, S, own))
    assert np.abs(found - limit).max() < 1e-8
    surrogate = surrogate_of(algorithm, problem)
    assert np.abs(surrogate.problem.solve(gap=1e-12).weights[0] - limit).max() < 1e-6
    assert np.abs(found - minimiser(problem, p)).max() > 0.01
    assert not program_of(algorithm, problem).exact
    assert affine_round(algorithm, form_of(problem)).fixed_point() == pytest.approx(limit, abs=1e-11)


def test_logistic_losses_have_no_surrogate() -> None:
    """The Jacobian of a round's move is not symmetric, so the limit minimises no function."""
    form, algorithm = form_of(problem_l()), FedAvg("uniform", local_steps=5, eta=0.5)
    w, h = run_rounds(algorithm, form, 500).model, 1e-5

    def moved(model: np.ndarray) -> np.ndarray:
        return run_rounds(algorithm, form, 1, Point(np.tile(model, (N, 1)))).model - model

    J = np.array([(moved(w + h * e) - moved(w - h * e)) / (2 * h) for e in np.eye(DIM)]).T
    assert np.abs(moved(w)).max() < 1e-12
    assert np.abs(J - J.T).max() > 1e-4
    with pytest.raises(ValueError, match="quadratic losses only"):
        surrogate_of(algorithm, problem_l())


def test_different_steps_of_the_devices_change_the_weights() -> None:
    """One step at each with its own rate, or none: the weights of the program are p_i eta_i, zero for the latter."""
    eta = np.linspace(0.05, 0.2, N)
    steps = [1, 1, 0, 1, 1, 1, 1, 1]
    algorithm = FedAvg("uniform", local_steps=steps, eta=tuple(eta))
    p = eta * steps / (eta * steps).sum()
    found = run_rounds(algorithm, form_of(problem_q()), 600).model
    assert np.abs(found - minimiser(problem_q(), p)).max() < 1e-8
    assert gtv.federate(problem_q(), algorithm, rounds=600).relative_gap < 1e-12


@pytest.mark.parametrize("size", [1, 2, 4])
def test_renormalised_weights_have_the_mean_of_other_weights(size: int) -> None:
    """Means over all sets of devices, against the mean over the draws of many rounds; unbiased updates keep p."""
    form, p = form_of(problem_q()), weights_of("samples")
    sets = [np.isin(np.arange(N), chosen) for chosen in combinations(range(N), size)]
    effective = np.mean([p * s / p[s].sum() for s in sets], axis=0)
    rule, w = UniformSample(size), START.W[0]
    local = w - 0.1 * gradients(problem_q(), w)
    for aggregation, q in (("renormalised", effective), ("unbiased", p)):
        algorithm = FedAvg("samples", eta=0.1, participation=rule, aggregation=aggregation)
        state = algorithm.init(form, START)
        models = np.array([algorithm.step(form, replace(state, round=t)).model for t in range(3000)])
        error = models.std(axis=0) / np.sqrt(3000)
        assert (np.abs(models.mean(axis=0) - q @ local) <= 5 * error + 1e-12).all()
    if size < 4:
        assert np.abs(effective - p).max() > 0.01


def test_partial_participation_hovers_about_the_limit_of_all() -> None:
    """On quadratics the mean is the limit of full participation, the covariance that of random affine maps."""
    problem, eta, size = problem_q(), 0.1, 4
    form = form_of(problem)
    Q, b = device_quadratics(problem)
    limit = minimiser(problem, np.full(N, 1 / N))
    sets = [np.isin(np.arange(N), chosen) for chosen in combinations(range(N), size)]
    maps = [(np.eye(DIM) - eta * Q[s].mean(axis=0), eta * b[s].mean(axis=0)) for s in sets]
    A = np.mean([M for M, _ in maps], axis=0)

    def noise(S: np.ndarray) -> np.ndarray:
        out = np.zeros_like(S)
        for M, c in maps:
            move = M @ limit + c - limit
            out += (np.outer(move, move) + (M - A) @ S @ (M - A).T) / len(maps)
        return out

    S = stationary_covariance(A, noise)
    algorithm = FedAvg("uniform", eta=eta, participation=UniformSample(size), seed=2)
    state = algorithm.init(form, Point(np.tile(limit, (N, 1))))
    models = np.empty((8000, DIM))
    for t in range(len(models)):
        state = algorithm.step(form, state)
        models[t] = state.model
    assert np.abs(models.std(axis=0) / np.sqrt(np.diag(S)) - 1).max() < 0.1
    assert (np.abs(models.mean(axis=0) - limit) < 5 * np.sqrt(np.diag(S)) * np.sqrt(40 / len(models))).all()
    assert np.sqrt(np.diag(S)).max() > 0.02
    program = program_of(algorithm, problem)
    assert not program.exact
    assert "hover" in program.note


@pytest.mark.parametrize("rule", [ByWeight(3), Bernoulli(0.3), UniformSample(3)])
def test_draws_by_weight_and_by_coins_are_unbiased(rule: Any) -> None:
    form, p, w = form_of(problem_q()), weights_of("samples"), START.W[0]
    algorithm = FedAvg("samples", eta=0.1, participation=rule)
    state = algorithm.init(form, START)
    models = np.array([algorithm.step(form, replace(state, round=t)).model for t in range(4000)])
    expected = p @ (w - 0.1 * gradients(problem_q(), w))
    assert (np.abs(models.mean(axis=0) - expected) <= 5 * models.std(axis=0) / np.sqrt(4000)).all()


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="mu must be > 0"):
        FedProx("uniform", mu=0.0)
    with pytest.raises(ValueError, match="gamma sets the number"):
        FedProx("uniform", mu=1.0, gamma=0.5, local_steps=3)
    with pytest.raises(ValueError, match="gamma must be"):
        FedProx("uniform", mu=1.0, gamma=1.5)
    with pytest.raises(ValueError, match="batch needs local_steps"):
        FedProx("uniform", mu=1.0, batch=3)
    with pytest.raises(ValueError, match="local_steps must be"):
        gtv.federate(problem_q(), "fedavg", rounds=1, weights="uniform", local_steps=[1, 2])


@pytest.mark.parametrize("name", ["fedavg", "fedprox"])
def test_a_device_without_a_loss_takes_part(name: str) -> None:
    """It has no bound on its step, and pulls at nothing with one local step."""
    losses = {"a": gtv.SquaredError([[1.0]], [2.0]), "none": gtv.Zero()}
    options = {"mu": 1.0, "local_steps": 1} if name == "fedprox" else {}
    run = gtv.federate(losses, name, rounds=300, weights="uniform", **options)
    assert run.model == pytest.approx([2.0], abs=1e-8)
    with pytest.raises(ValueError, match=r"eta must be given: no safe one is known.*device 0"):
        gtv.federate([gtv.Poisson([[1.0]], [2.0])], name, rounds=5, weights="uniform", **options)
