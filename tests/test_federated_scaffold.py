"""SCAFFOLD: limit, weights, controls, first round, participation, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import affine_limit, assert_certified, assert_close, assert_consensus, planted, weights_of
from federated_problems import DIM, N, form_of, gradients, minimiser, problem_l, problem_q, run_rounds
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated import scaffold
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.federated.scaffold import Scaffold
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

Option = Literal["I", "II"]
START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
SEVERAL = (1, 2, 3, 5, 1, 2, 3, 5)


def check_limit(algorithm: Callable[..., Any], option: Option, word: str = "uniform") -> None:
    """On Q: stable, consensus with the weights of the controls, and controls that are the gradients there."""
    problem = problem_q()
    for steps in (1, 5, SEVERAL):
        state = affine_limit(algorithm(word, local_steps=steps, eta=0.1, option=option), problem, invariants=DIM)
        assert_consensus(state.model, problem, word)
        assert_close(state.c_i, gradients(problem, state.model))
        assert_close(state.c, np.zeros(DIM))


def check_round(algorithm: Callable[..., Any], option: Option) -> None:
    """The second round, written out device after device."""
    problem, p, eta = problem_q(), weights_of(problem_q(), "samples"), 0.05
    form = form_of(problem)
    state = run_rounds(algorithm("samples", local_steps=SEVERAL, eta=eta, option=option), form, 1, START)
    x, c, c_i = state.model, state.c, state.c_i
    local, fresh = np.empty((N, DIM)), np.empty((N, DIM))
    for i in range(N):
        y = x
        for _ in range(SEVERAL[i]):
            y = y - eta * (gradients(problem, y)[i] - c_i[i] + c)
        local[i] = y
        fresh[i] = gradients(problem, x)[i] if option == "I" else c_i[i] - c + (x - y) / (SEVERAL[i] * eta)
    after = algorithm("samples", local_steps=SEVERAL, eta=eta, option=option).step(form, state)
    assert_close(after.model, p @ local, 1e-13)
    assert_close(after.c_i, fresh, 1e-12)
    assert_close(after.c, p @ fresh, 1e-12)


@pytest.mark.parametrize("word", ["uniform", "samples"])
@pytest.mark.parametrize("option", ["I", "II"])
def test_limit_is_consensus(option: Option, word: str) -> None:
    check_limit(Scaffold, option, word)
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, Scaffold(word, local_steps=5, option=option), 700)


@pytest.mark.parametrize("option", ["I", "II"])
def test_round_is_that_of_the_formula(option: Option) -> None:
    check_round(Scaffold, option)


@pytest.mark.parametrize("option", ["I", "II"])
def test_random_devices_tend_to_the_same_limit(option: Option) -> None:
    """Linearly, and with c equal to the mean of the controls all the way."""
    for problem in (problem_q(), problem_l()):
        algorithm = Scaffold("samples", local_steps=3, eta=0.1, option=option, participation=UniformSample(2))
        state = run_rounds(algorithm, form_of(problem), 1500, START)
        assert_consensus(state.model, problem, "samples")
        assert_close(state.c, weights_of(problem, "samples") @ state.c_i, 1e-13)
        assert state.counts.sum() == 2


def test_weights_of_the_controls_decide_the_limit_and_those_of_the_models_do_not() -> None:
    for controls, models in (("samples", "uniform"), ("uniform", "samples")):
        algorithm = Scaffold(controls, local_steps=5, eta=0.1, model_weights=models)
        assert_consensus(affine_limit(algorithm, problem_q(), invariants=DIM).model, problem_q(), controls)
    apart = minimiser(problem_q(), weights_of(problem_q(), "uniform")) - minimiser(
        problem_q(), weights_of(problem_q(), "samples")
    )
    assert np.abs(apart).max() > 0.05


def test_first_round_from_zero_controls_is_that_of_fed_avg() -> None:
    for problem in (problem_q(), problem_l()):
        form, settings = form_of(problem), {"local_steps": SEVERAL, "eta": 0.1}
        expected = run_rounds(FedAvg("samples", **settings), form, 1, START).model
        for option in ("I", "II"):
            assert_close(
                run_rounds(Scaffold("samples", option=option, **settings), form, 1, START).model, expected, 1e-14
            )
        state = Scaffold("samples", **settings).init(form, START)
        others = replace(state, c_i=gradients(problem, state.model), c=np.ones(DIM))
        assert np.abs(Scaffold("samples", **settings).step(form, others).model - expected).max() > 1e-3


def test_an_offset_of_the_servers_control_moves_the_limit() -> None:
    """``c = mean c_i + o`` is kept, and the limit's mean gradient is -o."""
    problem, offset = problem_q(), np.full(DIM, 0.3)
    algorithm = Scaffold("uniform", local_steps=5, eta=0.1)
    state = replace(algorithm.init(form_of(problem), None), c=offset)
    limit = affine_limit(algorithm, problem, invariants=DIM, state=state)
    assert_close(gradients(problem, limit.model).mean(axis=0), -offset)
    assert np.abs(limit.model - minimiser(problem, weights_of(problem, "uniform"))).max() > 0.05


def test_option_one_needs_smaller_steps() -> None:
    """At 1.9 / L with 20 local steps: option I diverges, and is seen to; option II converges; so do the defaults."""
    form = form_of(problem_q())
    large = 1.9 / form.local.smoothness.max()
    radius = {
        (option, eta): affine_round(Scaffold("uniform", 20, eta=eta, option=option), form).spectral_radius(DIM)
        for option in ("I", "II")
        for eta in (large, None)
    }
    assert radius["I", large] > 1.1
    assert max(radius["II", large], radius["I", None], radius["II", None]) < 1
    with pytest.warns(gtv.errors.ConvergenceWarning, match="grows without bound"):
        run = gtv.federate(problem_q(), Scaffold("uniform", 20, eta=large, option="I"), rounds=300)
    assert run.status is gtv.Status.DIVERGED
    with pytest.warns(StepSizeWarning, match="2 / L_i"):
        Scaffold("uniform", eta=2.01 / form.local.smoothness.max()).init(form, None)


def test_minibatches_hover_about_the_limit() -> None:
    run = gtv.federate(problem_q(), Scaffold("uniform", 3, eta=0.02, batch=2, seed=1), rounds=800)
    assert not run.program.exact
    assert 1e-8 < run.relative_gap < 0.1


def test_accounts() -> None:
    """Two vectors each way; option I evaluates one gradient more."""
    for option, more in (("I", 1), ("II", 0)):
        run = gtv.federate(problem_q(), Scaffold("uniform", 3, option=option, participation=UniformSample(2)), rounds=5)
        last = run.history[-1]
        assert (last.bytes_up, last.bytes_down, last.messages) == (5 * 2 * 2 * DIM * 8, 5 * 2 * 2 * DIM * 8, 20)
        assert last.gradients == 5 * 2 * (3 + more)


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match="option must be"):
        Scaffold("uniform", option="III")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="eta_g"):
        Scaffold("uniform", eta_g=0.0)
    with pytest.raises(ValueError, match="local_steps must be at least 1"):
        Scaffold("uniform", local_steps=[0] + [1] * 7).init(form_of(problem_q()), None)


CHANGES = {
    "correction with the wrong sign": ("linear=state.c - state.c_i", "linear=state.c_i - state.c"),
    "server adds controls": ("p, c_i - state.c_i)", "p, c_i)"),
    "server's control frozen": ('c = state.c + np.einsum("i,ij->j", setup.p, c_i - state.c_i)', "c = state.c"),
    "1/K for 1/(K eta)": ("(setup.steps * setup.eta)[:, None]", "setup.steps[:, None]"),
    "models' weights for controls": ("setup.p, c_i - state.c_i", "setup.q * counts / counts.sum(), c_i - state.c_i"),
}


@pytest.mark.parametrize(
    ("change", "option"),
    [(change, "II") for change in list(CHANGES)[:3]] + [("correction with the wrong sign", "I")],
)
def test_the_limit_catches(change: str, option: Option) -> None:
    faulty = planted(scaffold, CHANGES[change]).Scaffold
    with pytest.raises(AssertionError):
        check_limit(faulty, option)


@pytest.mark.parametrize("change", ["1/K for 1/(K eta)", "models' weights for controls"])
def test_the_formula_catches(change: str) -> None:
    faulty = planted(scaffold, CHANGES[change]).Scaffold
    with pytest.raises(AssertionError):
        check_round(faulty, "II")


def test_the_limit_cannot_see_another_scale_of_the_controls() -> None:
    """1/K for 1/(K eta) has the same limit where it is stable: the formula of a round has to catch it."""
    faulty = planted(scaffold, CHANGES["1/K for 1/(K eta)"]).Scaffold
    state = affine_limit(faulty("uniform", local_steps=5, eta=0.1), problem_q(), invariants=DIM)
    assert_consensus(state.model, problem_q(), "uniform")
