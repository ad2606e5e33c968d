"""FedDC: limit, stability region, drifts that run away unseen, variants, and planted faults."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import affine_limit, assert_certified, assert_close, assert_consensus, planted, weights_of
from federated_problems import DIM, N, form_of, gradients, minimiser, problem_l, problem_q, run_rounds
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated import fed_dc
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_dc import FedDC, stability_number
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

Variant = Literal["paper", "official", "drift"]
START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
# What rounds keep: nothing; differences of h_i / (K eta) + g_i; all g_i.
KEPT = {"paper": 0, "official": (N - 1) * DIM, "drift": N * DIM}
ALPHA = 1.0


def check_limit(algorithm: Callable[..., Any], variant: Variant, word: str = "uniform") -> None:
    """On Q: stable, consensus, mean drift zero, and drifts (with controls) that stand for the gradients."""
    state = affine_limit(algorithm(word, ALPHA, variant=variant), problem_q(), invariants=KEPT[variant])
    assert_consensus(state.model, problem_q(), word)
    p = weights_of(problem_q(), word)
    assert_close(p @ state.h, np.zeros(DIM))
    g = gradients(problem_q(), state.model)
    if variant == "official":
        assert_close(p @ state.g, np.zeros(DIM))
        assert_close(ALPHA * state.h - state.g, -g)
    else:
        assert_close(ALPHA * state.h, -g)
        assert_close(state.g, np.zeros((N, DIM)))


def check_round(algorithm: Callable[..., Any], variant: Variant) -> None:
    """The third round, written out device after device."""
    problem, p, eta, steps = problem_q(), weights_of(problem_q(), "samples"), 0.05, (5, 6, 7, 8, 5, 6, 7, 8)
    form = form_of(problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        chosen = algorithm("samples", ALPHA, steps, eta=eta, variant=variant)
        state = run_rounds(chosen, form, 2, START)
    w, h, g_i, g = state.model, state.h, state.g, p @ state.g
    local, fresh = np.empty((N, DIM)), g_i.copy()
    for i in range(N):
        y, scale = w, eta * steps[i]
        for _ in range(steps[i]):
            move = gradients(problem, y)[i] + ALPHA * (y + h[i] - w)
            if variant == "paper":
                move = move + (g_i[i] - g) / scale
            elif variant == "official":
                move = move - (g_i[i] - g)
            y = y - eta * move
        local[i] = y
        if variant == "paper":
            fresh[i] = y - w
        elif variant == "official":
            fresh[i] = g_i[i] - g + (w - y) / scale
    after = chosen.step(form, state)
    assert_close(after.h, h + local - w, 1e-12)
    assert_close(after.g, fresh, 1e-12)
    assert_close(after.model, p @ (local + after.h), 1e-12)


@pytest.mark.parametrize("word", ["uniform", "samples"])
@pytest.mark.parametrize("variant", ["paper", "official", "drift"])
def test_limit_is_consensus_in_all_variants(variant: Variant, word: str) -> None:
    check_limit(FedDC, variant, word)
    check_round(FedDC, variant)
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, FedDC(word, ALPHA, variant=variant), 250)


@pytest.mark.parametrize("variant", ["paper", "official"])
def test_random_devices_tend_to_the_same_limit(variant: Variant) -> None:
    for problem in (problem_q(), problem_l()):
        algorithm = FedDC("samples", ALPHA, variant=variant, participation=UniformSample(2))
        assert_consensus(run_rounds(algorithm, form_of(problem), 1000, START).model, problem, "samples")


def test_stability_number_is_that_of_one_device_beside_a_model_that_stands_still() -> None:
    """Both eigenvalues of ``(h, g) -> (h + d, d)`` against the number, for many curvatures, steps and strengths."""
    for q in (0.02, 0.3, 2.0, 6.0):
        for alpha in (0.05, 1.0, 5.0):
            for steps in (1, 2, 3, 4, 7, 20):
                for eta in (0.01, 0.1, 1.5 / (q + alpha)):
                    number = float(stability_number(np.array(q), alpha, np.array(eta), np.array(steps)))
                    s = sum((1 - eta * (q + alpha)) ** k for k in range(steps))
                    round_of = np.array([[1 - s * eta * alpha, -s / steps], [-s * eta * alpha, -s / steps]])
                    radius = np.abs(np.linalg.eigvals(round_of)).max()
                    assert number == pytest.approx(s * (eta * alpha + 2 / steps), rel=1e-9)
                    assert (radius < 1 - 1e-12) == (number < 2)
                    assert steps > 1 or radius > 1


@pytest.mark.parametrize(
    ("alpha", "steps", "eta", "stable"),
    [(1.0, 20, None, True), (4.0, 5, 0.1, True), (1.0, 2, 0.1, False), (4.0, 5, 0.02, False), (0.1, 1, 0.1, False)],
)
def test_region_of_stability(alpha: float, steps: int, eta: float | None, stable: bool) -> None:
    """Inside no warning and a radius below one, outside a warning that states the condition and a radius above one."""
    form, algorithm = form_of(problem_q()), FedDC("samples", alpha, steps, eta=eta)
    if stable:
        assert affine_round(algorithm, form).spectral_radius() < 1
        return
    with pytest.warns(StepSizeWarning, match=r"s \(eta alpha \+ 2 / K\) = [\d.]+ .* is not below 2"):
        state = algorithm.init(form, None)
    assert affine_round(algorithm, form, state).spectral_radius() > 1


def test_the_region_is_sufficient_where_devices_differ() -> None:
    """A little outside of it, differences between the devices can still make the drifts settle."""
    form, settings = form_of(problem_q()), {"alpha": 1.0, "local_steps": 5}
    with pytest.warns(StepSizeWarning):
        state = FedDC("uniform", **settings).init(form, None)
    assert affine_round(FedDC("uniform", **settings), form, state).spectral_radius() < 1


@pytest.mark.filterwarnings("ignore::gtvmin.solvers.federated.step_sizes.StepSizeWarning")
def test_drifts_run_away_while_the_model_looks_converged() -> None:
    """One local step: at round 300 the model is right to 1e-8 and the drifts are a million; the watch sees them."""
    problem, algorithm = problem_q(), FedDC("uniform", 1.0, 1, eta=0.1)
    state = run_rounds(algorithm, form_of(problem), 300)
    assert_close(state.model, minimiser(problem, weights_of(problem, "uniform")))
    assert np.abs(state.h).max() > 1e5
    with pytest.warns(gtv.errors.ConvergenceWarning, match="'[hg]' grows without bound"):
        run = gtv.federate(problem, algorithm, rounds=3000)
    assert run.status is gtv.Status.DIVERGED
    assert run.rounds < 400
    with pytest.warns(gtv.errors.ConvergenceWarning, match="'[hg]' grows without bound"):
        run = gtv.federate(problem_l(), FedDC("uniform", 1.0, 1, eta=0.5), rounds=3000)
    assert run.rounds < 600


def test_first_round_with_a_vanishing_penalty_is_that_of_fed_avg_and_its_drift() -> None:
    form = form_of(problem_q())
    expected = run_rounds(FedAvg("samples", 20, eta=0.1), form, 1, START).model
    state = run_rounds(FedDC("samples", 1e-12, 20, eta=0.1, variant="drift"), form, 1, START)
    start = FedDC("samples", 1.0).init(form, START).model
    assert_close(state.model, 2 * expected - start, 1e-10)  # the mean drift is the mean move


def test_accounts_and_misuse() -> None:
    for variant, vectors in (("paper", 2), ("official", 2), ("drift", 1)):
        last = gtv.federate(problem_q(), FedDC("uniform", 1.0, variant=variant), rounds=2).history[-1]
        assert (last.bytes_up, last.bytes_down, last.gradients) == (2 * vectors * N * DIM * 8,) * 2 + (2 * N * 20,)
    for settings, name in (({"alpha": 0.0}, "alpha"), ({"alpha": 1.0, "variant": "code"}, "variant")):
        with pytest.raises(ValueError, match=name):
            FedDC("uniform", **settings)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="local_steps"):
        FedDC("uniform", 1.0, local_steps=0).init(form_of(problem_q()), None)


WRONG_SIGN = ("(state.g - g) / rate", "(g - state.g) / rate")
FAULTS: dict[str, tuple[tuple[str, str], Callable[..., None], Variant]] = {
    "correction with the wrong sign": (WRONG_SIGN, check_round, "paper"),
    "authors' correction with the wrong sign": (("g - state.g, ", "state.g - g, "), check_limit, "official"),
    "1/K for 1/(K eta)": (("(setup.eta * setup.steps)[:, None]", "setup.steps[:, None]"), check_round, "official"),
    "models averaged without drifts": (("model = model + np", "model = model + 0 * np"), check_limit, "paper"),
    "drift never updated": (("h = state.h + np.where(active, moved, 0.0)", "h = state.h"), check_limit, "paper"),
    "penalty with the wrong sign": (("sent - state.h", "sent + state.h"), check_limit, "paper"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_limit_and_formula_catch(fault: str) -> None:
    change, check, variant = FAULTS[fault]
    with pytest.raises(AssertionError):
        check(planted(fed_dc, change).FedDC, variant)


def test_the_limit_cannot_see_the_sign_of_the_correction() -> None:
    """It is the same, and reached faster: the formula of a round has to catch it."""
    faulty = planted(fed_dc, WRONG_SIGN).FedDC
    check_limit(faulty, "paper")
    form = form_of(problem_q())
    right, wrong = (affine_round(a("uniform", 1.0), form).spectral_radius() for a in (FedDC, faulty))
    assert wrong < right
