"""FOLB and contextual aggregation: neighbourhood, guarantees, identities, stalling, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import affine_limit, assert_certified, assert_close, assert_consensus, planted, weights_of
from federated_problems import (
    DIM,
    N,
    device_quadratics,
    form_of,
    gradients,
    minimiser,
    problem_l,
    problem_q,
    run_rounds,
)
from gtvmin.federated.catalogue import program_of
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated import contextual, folb
from gtvmin.solvers.federated.contextual import Contextual
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.folb import FOLB
from gtvmin.solvers.federated.participation import Bernoulli, UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))


def loss(problem: gtv.GTVMin, w: np.ndarray, word: str = "uniform") -> float:
    return float(weights_of(problem, word) @ form_of(problem).local.value(np.tile(w, (N, 1))))


def smoothness(word: str = "uniform") -> float:
    """Of ``sum_i p_i L_i`` on Q, from the data."""
    return float(
        np.linalg.eigvalsh(np.einsum("i,ijk->jk", weights_of(problem_q(), word), device_quadratics(problem_q())[0]))[-1]
    )


@dataclass(frozen=True)
class These:
    """The devices that are named, in every round."""

    devices: tuple[int, ...]

    def counts(self, keys: Any, p: np.ndarray, round: int) -> np.ndarray:
        return np.isin(np.arange(len(p)), self.devices).astype(float)

    def expected(self, p: np.ndarray) -> np.ndarray:
        return self.counts(None, p, 0)


# FOLB


def check_folb_round(algorithm: Callable[..., Any]) -> None:
    """Written out, for some devices; the move is at most the longest update."""
    problem, eta, mu, S = problem_q(), 0.1, 0.4, (0, 3, 4, 7)
    p = weights_of(problem, "samples")
    chosen = algorithm("samples", 3, eta, mu, half_life=5.0, participation=These(S))
    state = run_rounds(chosen, form_of(problem), 2, START)
    w, rate = state.model, eta / (1 + 2 / 5.0)
    g = gradients(problem, w)
    mean = sum(p[k] * g[k] for k in S) / sum(p[k] for k in S)
    top, bottom, longest = np.zeros(DIM), 0.0, 0.0
    for k in S:
        v = w
        for _ in range(3):
            v = v - rate * (gradients(problem, v)[k] + mu * (v - w))
        agreement = p[k] * (g[k] @ mean)
        top, bottom = top + agreement * (v - w), bottom + abs(agreement)
        longest = max(longest, float(np.linalg.norm(v - w)))
    after = chosen.step(form_of(problem), state)
    assert_close(after.model, w + top / bottom, 1e-13)
    assert np.linalg.norm(after.model - w) <= longest


def check_folb_moves(algorithm: Callable[..., Any]) -> None:
    """No round moves farther than the longest update, which is at most eta times the longest gradient."""
    form, state, eta = form_of(problem_q()), None, 0.1
    chosen = algorithm("uniform", eta=eta)
    state = chosen.init(form, START)
    for _ in range(300):
        following = chosen.step(form, state)
        longest = eta * np.linalg.norm(gradients(problem_q(), state.model), axis=1).max()
        assert np.linalg.norm(following.model - state.model) <= longest * (1 + 1e-9)
        state = following


def test_folb_stays_in_a_neighbourhood_without_a_fixed_point() -> None:
    """Far from 1e-8, in many rounds uphill, and nearer with a rate that fades."""
    for problem, fraction in ((problem_q(), 0.2), (problem_l(), 0.1)):
        form, limit = form_of(problem), minimiser(problem, weights_of(problem, "uniform"))
        state = run_rounds(FOLB("uniform", eta=0.1), form, 300)
        distances, rises, last = [], 0, loss(problem, state.model)
        for _ in range(300):
            state = FOLB("uniform", eta=0.1).step(form, state)
            now = loss(problem, state.model)
            rises, last = rises + (now > last), now
            distances.append(np.abs(state.model - limit).max())
        assert 1e-4 < max(distances) < 1.0
        assert rises > fraction * 300
        faded = run_rounds(FOLB("uniform", eta=0.1, half_life=50.0), form, 1500)
        assert np.abs(faded.model - limit).max() < 0.3 * max(distances)
    run = gtv.federate(problem_q(), FOLB("uniform", eta=0.1), rounds=300)
    assert not run.program.exact
    assert 1e-8 < run.relative_gap < 0.1
    check_folb_round(FOLB)
    check_folb_moves(FOLB)


def test_folb_at_the_minimiser_has_no_direction() -> None:
    """One device: its gradient vanishes there, and the model stays; empty rounds leave it as well."""
    problem = problem_q()
    alone = weights_of(problem, np.eye(N)[1])
    at = Point(np.tile(minimiser(problem, alone), (N, 1)))
    state = FOLB(np.eye(N)[1]).init(form_of(problem), at)
    moved = FOLB(np.eye(N)[1]).step(form_of(problem), state).model
    assert np.isfinite(moved).all()
    empty = FOLB("uniform", participation=These(()))
    assert np.array_equal(empty.step(form_of(problem), state).model, state.model)
    assert empty.traffic(form_of(problem), empty.step(form_of(problem), state)).bytes_up == 0
    last = gtv.federate(problem, FOLB("uniform", 3), rounds=2).history[-1]
    assert (last.bytes_up, last.bytes_down, last.gradients) == (2 * 2 * N * DIM * 8, 2 * N * DIM * 8, 2 * 3 * N)
    for settings, name in (({"mu": -1.0}, "mu"), ({"half_life": 0.0}, "half_life")):
        with pytest.raises(ValueError, match=name):
            FOLB("uniform", **settings)


# Contextual aggregation


def check_descent(algorithm: Callable[..., Any]) -> None:
    """``F(w+) <= F(w) - (beta/2) ||w+ - w||^2`` for the exact gradient, any devices and any local steps."""
    for problem in (problem_q(), problem_l()):
        form = form_of(problem)
        beta = smoothness("samples") if problem is problem_q() else None
        for size, steps in ((1, 1), (2, 4), (5, 4)):
            chosen = algorithm("samples", beta, local_steps=steps, participation=UniformSample(size))
            state = chosen.init(form, START)
            for _ in range(30):
                following = chosen.step(form, state)
                before, after = loss(problem, state.model, "samples"), loss(problem, following.model, "samples")
                decrease = 0.5 * state.setup.beta * ((following.model - state.model) ** 2).sum()
                assert after <= before - decrease + 1e-12
                state = following


def check_projection(algorithm: Callable[..., Any]) -> None:
    """Updates that span the space: gradient descent with step 1/beta, whatever the devices did."""
    for problem in (problem_q(), problem_l()):
        form, p, w = form_of(problem), weights_of(problem, "samples"), None
        chosen = algorithm("samples", 4.0, local_steps=(1, 2, 3, 4, 5, 6, 7, 8))
        state = chosen.init(form, START)
        w = state.model
        for _ in range(5):
            state = chosen.step(form, state)
            w = w - p @ gradients(problem, w) / 4.0
            assert_close(state.model, w, 1e-12)


def check_fed_avg(algorithm: Callable[..., Any]) -> None:
    """K2 = 0, one local step and ``beta = 1 / eta``: FedAvg on the devices that take part."""
    for problem in (problem_q(), problem_l()):
        form = form_of(problem)
        for rule in (UniformSample(2), UniformSample(5), Bernoulli(0.3)):
            settings = {"eta": 0.2, "participation": rule, "seed": 3}
            found = algorithm("samples", beta=5.0, further=0, **settings)
            reference = FedAvg("samples", aggregation="renormalised", **settings)
            for rounds in (1, 2, 10):
                expected = run_rounds(reference, form, rounds, START).model
                assert_close(run_rounds(found, form, rounds, START).model, expected, 1e-11)


def check_expected(algorithm: Callable[..., Any]) -> None:
    """The mean over all sets of three devices falls by at least what its quadratic bound says."""
    problem, p, beta = problem_q(), weights_of(problem_q(), "samples"), smoothness("samples")
    form = form_of(problem)
    for at in np.random.default_rng(3).normal(size=(4, DIM)):
        w = minimiser(problem, p) + at
        here, g = loss(problem, w, "samples"), p @ gradients(problem, w)
        values, moves = [], []
        for S in combinations(range(N), 3):
            chosen = algorithm("samples", beta, bound="expected", local_steps=4, participation=These(S))
            state = chosen.init(form, Point(np.tile(w, (N, 1))))
            after = chosen.step(form, state).model
            values.append(loss(problem, after, "samples"))
            moves.append(after - w)
        bounds = [g @ move + 0.5 * beta * move @ move for move in moves]
        assert np.mean(values) <= here + np.mean(bounds) + 1e-12
        # the minimum of a quadratic bound is half of its linear part
        assert np.mean(bounds) == pytest.approx(0.5 * np.mean([g @ move for move in moves]), rel=1e-9)
        assert np.mean(bounds) < 0


def test_contextual_with_the_exact_gradient_tends_to_consensus() -> None:
    for word in ("uniform", "samples"):
        assert_consensus(affine_limit(Contextual(word, local_steps=5), problem_q()).model, problem_q(), word)
        for problem in (problem_q(), problem_l()):
            assert_certified(problem, Contextual(word, local_steps=5), 250)
            for size, bound in ((1, "context"), (2, "context"), (2, "expected")):
                algorithm = Contextual(word, bound=bound, local_steps=3, participation=UniformSample(size))
                assert_consensus(run_rounds(algorithm, form_of(problem), 700, START).model, problem, word)


def test_contextual_guarantees_and_identities() -> None:
    check_descent(Contextual)
    check_projection(Contextual)
    check_fed_avg(Contextual)
    check_expected(Contextual)


def test_single_rounds_of_the_expected_bound_can_rise() -> None:
    problem = problem_l()
    algorithm = Contextual("uniform", bound="expected", local_steps=5, participation=UniformSample(2))
    state, rises = algorithm.init(form_of(problem), START), 0
    for _ in range(60):
        following = algorithm.step(form_of(problem), state)
        rises += loss(problem, following.model) > loss(problem, state.model)
        state = following
    assert 0 < rises < 10


def test_expected_bound_of_all_devices_is_the_contextual_one() -> None:
    for problem in (problem_q(), problem_l()):
        expected, context = (
            run_rounds(Contextual("samples", bound=bound, local_steps=4), form_of(problem), 3, START).model
            for bound in ("expected", "context")
        )
        assert_close(expected, context, 1e-9)


@pytest.mark.filterwarnings("ignore::gtvmin.solvers.federated.step_sizes.StepSizeWarning")
def test_beta_has_to_be_above_half_the_smoothness() -> None:
    form, top = form_of(problem_q()), smoothness()
    for share, stable in ((0.51, True), (0.45, False)):
        radius = affine_round(Contextual("uniform", share * top, local_steps=3), form).spectral_radius()
        assert (radius < 1) == stable
    with pytest.warns(gtv.errors.ConvergenceWarning, match="grows without bound"):
        run = gtv.federate(problem_q(), Contextual("uniform", 0.45 * top), rounds=300)
    assert run.status is gtv.Status.DIVERGED
    with pytest.warns(StepSizeWarning, match="sum_i p_i L_i / 2"):
        Contextual("uniform", 0.45 * top).init(form, None)


@pytest.mark.parametrize("further", [0, 4])
def test_an_estimated_gradient_does_not_converge(further: int) -> None:
    """The loss rises in about half of the rounds, and the gap stays."""
    for problem in (problem_q(), problem_l()):
        algorithm = Contextual("uniform", further=further, local_steps=3, participation=UniformSample(2), seed=1)
        state = run_rounds(algorithm, form_of(problem), 100)
        rises, last = 0, loss(problem, state.model)
        for _ in range(200):
            state = algorithm.step(form_of(problem), state)
            now = loss(problem, state.model)
            rises, last = rises + (now > last), now
        assert 60 < rises < 140
        assert state.asked.sum() == 2 + further
        assert state.asked[state.updated].all()
    run = gtv.federate(problem_q(), algorithm, rounds=200)
    assert not run.program.exact
    assert run.relative_gap > 1e-4


def test_fewer_devices_than_parameters_stall_while_the_loss_falls() -> None:
    """Three devices, six parameters: five local steps stop at a gradient that is not zero, one step does not."""
    rng = np.random.default_rng(0)
    losses = [
        gtv.SquaredError(rng.normal(size=(30, 6)) * rng.uniform(0.5, 2, 6), 2 * rng.normal(size=30)) for _ in range(3)
    ]
    sizes = {}
    for steps in (1, 5):
        run = gtv.federate(losses, Contextual("uniform", local_steps=steps, eta=0.05), rounds=3000, check_every=50)
        objectives = [record.objective for record in run.history]
        assert all(after <= before + 1e-12 for before, after in pairwise(objectives))
        g = np.mean([2 * a.X.T @ (a.X @ run.model - a.y) / 30 for a in losses], axis=0)
        sizes[steps] = np.linalg.norm(g)
        assert run.program.exact == (steps == 1)
    assert sizes[1] < 1e-8
    assert sizes[5] > 1e-3


def test_accounts_of_contextual_aggregation_and_misuse() -> None:
    """Down a vector to everybody who does something, up the updates and the gradients."""

    def costs(**settings: Any) -> tuple[float, float, float]:
        last = gtv.federate(problem_q(), Contextual("uniform", local_steps=3, **settings), rounds=2).history[-1]
        return last.bytes_up / (2 * DIM * 8), last.bytes_down / (2 * DIM * 8), last.gradients / 2

    two = UniformSample(2)
    assert costs() == (2 * N, N, 3 * N)
    assert costs(participation=two) == (2 + N, N, 3 * 2 + N - 2)
    assert costs(participation=two, further=0) == (4, 2, 6)
    assert costs(participation=two, further=3) == (2 + 5, 5, 6 + 3)
    assert costs(participation=two, bound="expected", further=0) == (N + 2, N, 3 * N)
    assert costs(participation=These(())) == (0, 0, 0)
    assert not program_of(Contextual("uniform", further=0), problem_q()).exact
    for settings, name in (({"beta": 0.0}, "beta"), ({"further": -1}, "further"), ({"bound": "best"}, "bound")):
        with pytest.raises(ValueError, match=name):
            Contextual("uniform", **settings)


FAULTS: dict[str, tuple[Any, str, Callable[..., None], tuple[str, str]]] = {
    "signed denominator": (folb, "FOLB", check_folb_moves, ("np.abs(agreement).sum()", "agreement.sum()")),
    "agreement with the plain mean": (
        folb,
        "FOLB",
        check_folb_round,
        ("setup.p, 0.0)", "1.0, 0.0)"),
    ),
    "updates unweighted": (
        folb,
        "FOLB",
        check_folb_round,
        ("agreement / scale, update", "(agreement != 0) / N, update"),
    ),
    "move along the gradient": (
        contextual,
        "Contextual",
        check_descent,
        ("-gradient / setup.beta", "gradient / setup.beta"),
    ),
    "without beta": (contextual, "Contextual", check_projection, ("-gradient / setup.beta", "-gradient")),
    "gradient of those who take part": (
        contextual,
        "Contextual",
        check_descent,
        ("if self.further is None or not", "if not"),
    ),
    "K2 = 0 is everybody": (
        contextual,
        "Contextual",
        check_fed_avg,
        ("if self.further is None or", "if not self.further or"),
    ),
    "mean of the updates' combination": (
        contextual,
        "Contextual",
        check_fed_avg,
        ("span @ np.linalg.lstsq(span, target)[0]", "span @ np.linalg.lstsq(span, target)[0] / span.shape[1]"),
    ),
    "c of the wrong devices": (contextual, "Contextual", check_expected, ("(size - 1.0) / (n - 1.0)", "size / n")),
    "diagonal left out": (contextual, "Contextual", check_expected, ("(1.0 - c) * np.diag(np.diag(G)) + c * G", "G")),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_guarantees_and_formulas_catch(fault: str) -> None:
    module, name, check, change = FAULTS[fault]
    faulty = planted(module, change)
    faulty.N = N
    if fault == "gradient of those who take part":  # as if no further devices were asked by default
        faulty = planted(module, change, ("further: int | None = None", "further: int | None = 0"))
    with pytest.raises(AssertionError):
        check(getattr(faulty, name))
