"""ProxSkip: limit, control variates, communication, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import assert_certified, assert_close, assert_consensus, planted, weights_of
from federated_problems import DIM, N, form_of, gradients, minimiser, problem_l, problem_q, run_rounds
from gtvmin.solvers.federated import prox_skip
from gtvmin.solvers.federated.prox_skip import ProxSkip
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))


def check_limit(algorithm: Callable[..., Any], word: str = "samples") -> None:
    """Consensus, with control variates that are the gradients and add up to zero after each communication."""
    for problem in (problem_q(), problem_l()):
        form, p = form_of(problem), weights_of(problem, word)
        chosen = algorithm(word, seed=1)
        state = chosen.init(form, START)
        # control variates that do not add up to zero: the first communication mends them
        state = replace(state, h=np.random.default_rng(2).normal(size=(N, DIM)))
        for _ in range(300):
            state = chosen.step(form, state)
            if state.communicated:
                assert_close(p @ state.h, np.zeros(DIM), 1e-11)
        assert_consensus(p @ state.W, problem, word)
        assert_close(state.h, gradients(problem, state.model), 1e-7)


def check_round(algorithm: Callable[..., Any]) -> None:
    """Twelve steps, written out: local ones, and such that communicate."""
    problem, p, gamma, q = problem_q(), weights_of(problem_q(), "samples"), 0.1, 0.4
    form, chosen = form_of(problem), algorithm("samples", gamma=0.1, probability=0.4, seed=5)
    state = chosen.init(form, START)
    x, h, kinds = START.W, np.zeros((N, DIM)), set()
    for _ in range(12):
        state = chosen.step(form, state)
        kinds.add(state.communicated)
        hat = x - gamma * (gradients(problem, x) - h)
        x = np.tile(p @ (hat - gamma / q * h), (N, 1)) if state.communicated else hat
        h = h + q / gamma * (x - hat)
        assert_close(state.W, x, 1e-12)
        assert_close(state.h, h, 1e-11)
    assert kinds == {True, False}


@pytest.mark.parametrize("word", ["uniform", "samples"])
def test_limit_is_consensus(word: str) -> None:
    check_limit(ProxSkip, word)
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, ProxSkip(word), 300)


def test_steps_are_those_of_the_formulas() -> None:
    check_round(ProxSkip)


def test_skipping_saves_communication() -> None:
    """Half the coins: not many more steps, and about half the communications."""
    limit = minimiser(problem_q(), weights_of(problem_q(), "uniform"))
    spent = {}
    for q in (1.0, 0.5):
        algorithm = ProxSkip("uniform", probability=q)
        state, communications = algorithm.init(form_of(problem_q()), None), 0
        while np.abs(state.W - limit).max() > 1e-10:
            state = algorithm.step(form_of(problem_q()), state)
            communications += state.communicated
        spent[q] = communications
    assert spent[0.5] < 0.75 * spent[1.0]


def test_without_skipping_it_is_gradient_descent() -> None:
    """With q = 1 the mean moves along the mean gradient in every step."""
    problem, form = problem_q(), form_of(problem_q())
    state = run_rounds(ProxSkip("uniform", gamma=0.1, probability=1.0), form, 5)
    w = np.zeros(DIM)
    for _ in range(5):
        w = w - 0.1 * gradients(problem, w).mean(axis=0)
    assert_close(state.model, w, 1e-13)


def test_accounts_and_misuse() -> None:
    run = gtv.federate(problem_q(), ProxSkip("uniform", probability=0.3, seed=2), rounds=50)
    last = run.history[-1]
    form = form_of(problem_q())
    algorithm = ProxSkip("uniform", probability=0.3, seed=2)
    state, communications = algorithm.init(form, None), 0
    for _ in range(50):
        state = algorithm.step(form, state)
        communications += state.communicated
    assert 5 < communications < 25
    assert (last.bytes_up, last.bytes_down, last.messages) == (communications * N * DIM * 8,) * 2 + (
        communications * 2 * N,
    )
    assert last.gradients == 50 * N
    with pytest.raises(ValueError, match="probability"):
        ProxSkip("uniform", probability=0.0)
    with pytest.warns(StepSizeWarning, match="1 / max_i L_i"):
        ProxSkip("uniform", gamma=1.01 / form.local.smoothness.max()).init(form, None)


FAULTS = {
    "control variate with the wrong sign": (("form, state.W) - state.h", "form, state.W) + state.h"), check_limit),
    "plain mean": ((" - (gamma / q) * state.h)", ")"), check_limit),
    "1 / gamma for q / gamma": (("(q / gamma) * (W", "(1.0 / gamma) * (W"), check_round),
    "control variates of skipped steps": (("(W - local)", "(state.W - local)"), check_limit),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid:RuntimeWarning")
def test_limit_and_formula_catch(fault: str) -> None:
    change, check = FAULTS[fault]
    with pytest.raises(AssertionError):
        check(planted(prox_skip, change).ProxSkip)
