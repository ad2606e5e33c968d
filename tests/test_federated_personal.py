"""Ditto, pFedMe and APFL: limits, surrogates, identities, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
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
from gtvmin.federated.assessment import ProgramMonitor
from gtvmin.federated.catalogue import program_of, surrogate_of
from gtvmin.federated.operators import affine_round
from gtvmin.federated.program import star
from gtvmin.solvers.federated import apfl, ditto, p_fed_me
from gtvmin.solvers.federated.apfl import APFL
from gtvmin.solvers.federated.ditto import Ditto
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.p_fed_me import PFedMe
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
LAM = 0.7


def proxes(model: np.ndarray, lam: float = LAM) -> np.ndarray:
    """Proximal maps on Q, by normal equations."""
    Q, b = device_quadratics(problem_q())
    return np.array([np.linalg.solve(Qi + lam * np.eye(DIM), bi + lam * model) for Qi, bi in zip(Q, b, strict=True)])


def own_minimisers(problem: gtv.GTVMin) -> np.ndarray:
    return np.array([minimiser(problem, e) for e in np.eye(N)])


# Ditto


def check_ditto(algorithm: Callable[..., Any]) -> None:
    """On Q: FedAvg's limit, with its bias, and the proximal maps there, for any number of personal steps."""
    form = form_of(problem_q())
    for steps in (1, 5):
        model = affine_limit(FedAvg("samples", steps, 0.1), problem_q()).model
        for personal in (1, 4):
            chosen = algorithm("samples", LAM, steps, 0.1, personal_steps=personal)
            state = affine_limit(chosen, problem_q())
            assert_close(state.model, model, 1e-12)
            assert_close(chosen.point(form, state).W, proxes(model))


def check_ditto_round(algorithm: Callable[..., Any]) -> None:
    """Two personal steps towards the model that was received."""
    problem, eta = problem_q(), 0.05
    form, chosen = form_of(problem), algorithm("samples", LAM, 3, 0.1, personal_steps=2, eta_personal=eta)
    state = chosen.init(form, START)
    V = START.W
    for _ in range(2):
        V = V - eta * (gradients(problem, V) + LAM * (V - state.model))
    assert_close(chosen.step(form, state).V, V, 1e-13)


def test_ditto_tends_to_proximal_maps_at_its_global_model() -> None:
    check_ditto(Ditto)
    check_ditto_round(Ditto)
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, Ditto("samples", LAM), 400)
    assert_certified(problem_q(), Ditto("samples", LAM, local_steps=5, eta=0.1), 400)
    program = program_of(Ditto("samples", LAM, local_steps=5), problem_l())
    assert not program.exact
    assert "biased" in program.note


def test_ditto_is_not_a_joint_minimisation() -> None:
    p = weights_of(problem_q(), "samples")
    joint = star(problem_q(), p, LAM).problem.solve(gap=1e-12).weights[:N]
    assert np.abs(affine_limit(Ditto("samples", LAM), problem_q()).V - joint).max() > 0.05


def test_ditto_with_random_devices() -> None:
    """Those who rest keep their models, and pay nothing."""
    form, algorithm = form_of(problem_q()), Ditto("uniform", LAM, participation=UniformSample(3))
    before = algorithm.init(form, START)
    after = algorithm.step(form, before)
    rest = after.counts == 0
    assert rest.sum() == N - 3
    assert np.array_equal(after.V[rest], before.V[rest])
    assert (np.abs(after.V - before.V).max(axis=1)[~rest] > 0).all()
    traffic = algorithm.traffic(form, after)
    assert (traffic.bytes_up, traffic.gradients.sum()) == (3 * DIM * 8, 6)
    with pytest.raises(ValueError, match="lam must be"):
        Ditto("uniform", 0.0)
    with pytest.warns(StepSizeWarning, match="eta_personal"):
        Ditto("uniform", LAM, eta_personal=2.0).init(form, None)


# pFedMe


def check_p_fed_me(algorithm: Callable[..., Any]) -> None:
    """On Q: the minimiser of the envelopes, biased with several rounds, and the proximal maps there."""
    Q, b = device_quadratics(problem_q())
    p, form = weights_of(problem_q(), "samples"), form_of(problem_q())
    envelope = np.array([LAM * np.linalg.solve(Qi + LAM * np.eye(DIM), Qi) for Qi in Q])
    own = np.linalg.solve(Q, b[:, :, None])[:, :, 0]
    for rounds in (1, 5):
        eta = 0.5
        S = np.eye(DIM) - np.linalg.matrix_power(np.eye(DIM) - eta * envelope, rounds)
        w = np.linalg.solve(np.einsum("i,ijk->jk", p, S), np.einsum("i,ijk,ik->j", p, S, own))
        for beta in (1.0, 1.3):
            chosen = algorithm("samples", LAM, rounds, eta, beta=beta)
            state = affine_limit(chosen, problem_q())
            assert_close(state.model, w)
            assert_close(chosen.point(form, state).W, proxes(w))


def test_p_fed_me_tends_to_the_minimiser_of_the_envelopes() -> None:
    check_p_fed_me(PFedMe)
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, PFedMe("samples", LAM), 400)


def test_several_rounds_of_p_fed_me_are_certified_on_the_surrogate_and_not_on_the_star() -> None:
    algorithm = PFedMe("samples", LAM, local_rounds=5)
    run = gtv.federate(problem_q(), algorithm, rounds=300)
    assert not run.program.exact
    assert run.relative_gap > 1e-4
    assert (
        ProgramMonitor(surrogate_of(algorithm, problem_q()), 0.0).certificate(Point(run.weights)).relative_gap < 1e-12
    )


def test_p_fed_me_with_the_right_rate_is_fed_prox() -> None:
    """``eta lam = 1`` and one local round: the local model is the proximal map."""
    for problem in (problem_q(), problem_l()):
        form = form_of(problem)
        for rounds in (1, 4):
            found = run_rounds(PFedMe("samples", LAM, 1, 1 / LAM), form, rounds, START).model
            assert_close(found, run_rounds(FedProx("samples", LAM), form, rounds, START).model, 1e-13)


def test_p_fed_me_with_random_devices_hovers() -> None:
    algorithm = PFedMe("uniform", LAM, participation=UniformSample(4))
    run = gtv.federate(problem_q(), algorithm, rounds=200)
    assert not run.program.exact
    assert run.relative_gap > 1e-6
    assert run.history[-1].proxes == 200 * 4
    for settings, name in (({"lam": -1.0}, "lam"), ({"lam": 1.0, "beta": 0.0}, "beta")):
        with pytest.raises(ValueError, match=name):
            PFedMe("uniform", **settings)


# APFL


def fixed(algorithm: Callable[..., Any]) -> Any:
    """APFL whose rounds are affine: the mixture weights are no variables."""
    return type("FixedMixture", (algorithm,), {"variables": ("model", "V")})


def check_apfl(algorithm: Callable[..., Any]) -> None:
    """On Q: the global part in consensus, and mixtures that are the devices' own minimisers whatever the weights."""
    form, own = form_of(problem_q()), own_minimisers(problem_q())
    for mixture in (0.25, 0.75, 1.0, np.linspace(0.3, 1.0, N)):
        for chain_factor in (True, False):
            chosen = fixed(algorithm)("samples", mixture, eta=0.1, chain_factor=chain_factor)
            state = affine_limit(chosen, problem_q())
            assert_consensus(state.model, problem_q(), "samples")
            assert_close(chosen.point(form, state).W, own)


def check_apfl_round(algorithm: Callable[..., Any], adaptive: bool = False) -> None:
    """Two local steps, written out, and an average."""
    problem, p, eta = problem_q(), weights_of(problem_q(), "samples"), 0.05
    form = form_of(problem)
    for chain_factor in (True, False):
        chosen = algorithm("samples", 0.3, 2, eta, 0.02 if adaptive else None, chain_factor)
        state = chosen.init(form, START)
        local, V, a = np.tile(state.model, (N, 1)), START.W, np.full((N, 1), 0.3)
        for _ in range(2):
            g = gradients(problem, a * V + (1 - a) * local)
            along = ((V - local) * g).sum(axis=1, keepdims=True)
            V_next = V - eta * (a if chain_factor else 1.0) * g
            local, V = local - eta * gradients(problem, local), V_next
            if adaptive:
                a = np.minimum(np.maximum(a - 0.02 * along, 0.0), 1.0)
        after = chosen.step(form, state)
        assert_close(after.model, p @ local, 1e-13)
        assert_close(after.V, V, 1e-13)
        assert_close(after.mixture, a[:, 0], 1e-13)


def check_adaptive(algorithm: Callable[..., Any]) -> None:
    """Weights stay in [0, 1] and move."""
    check_apfl_round(algorithm, adaptive=True)
    form, chosen = form_of(problem_q()), algorithm("uniform", 0.5, eta=0.1, eta_mixture=0.1)
    for start in (START, Point(5 * START.W)):
        state = chosen.init(form, start)
        for _ in range(50):
            state = chosen.step(form, state)
            assert ((state.mixture >= 0) & (state.mixture <= 1)).all()
        assert np.abs(state.mixture - 0.5).min() > 1e-3


def test_apfl_tends_to_the_devices_own_minimisers() -> None:
    check_apfl(APFL)
    check_apfl_round(APFL)
    assert_certified(problem_l(), APFL("samples", 0.75), 300)
    state = run_rounds(APFL("samples", 0.75), form_of(problem_l()), 900)
    assert_close(APFL("samples", 0.75).point(form_of(problem_l()), state).W, own_minimisers(problem_l()))


def test_rates_of_apfl() -> None:
    """``1 - eta a^2 mu`` with the chain factor, ``1 - eta a mu`` without."""
    form, mu, eta, a = form_of(problem_q()), np.linalg.eigvalsh(device_quadratics(problem_q())[0]).min(), 0.1, 0.25
    for chain_factor, slope in ((True, a * a), (False, a)):
        radius = affine_round(fixed(APFL)("uniform", a, eta=eta, chain_factor=chain_factor), form).spectral_radius()
        assert radius == pytest.approx(1 - eta * slope * mu, abs=1e-10)


def test_several_steps_of_apfl_are_biased_by_the_drift_of_the_global_part() -> None:
    """In proportion to the rate: the global part is set back at the end of a round, and the mixture with it."""
    form, own, bias = form_of(problem_q()), own_minimisers(problem_q()), []
    for eta in (0.01, 0.001):
        algorithm = fixed(APFL)("uniform", 0.75, local_steps=5, eta=eta)
        bias.append(np.abs(algorithm.point(form, affine_limit(algorithm, problem_q())).W - own).max())
    assert bias[0] > 0.01
    assert bias[0] / bias[1] == pytest.approx(10, rel=0.1)
    assert not program_of(APFL("uniform", 0.75, local_steps=5), problem_q()).exact


def test_with_many_minimisers_the_mixture_depends_on_the_start() -> None:
    """Two data points and three parameters: two starts end apart, both certified."""
    rng = np.random.default_rng(4)
    losses = [gtv.SquaredError(rng.normal(size=(2, 3)), rng.normal(size=2)) for _ in range(3)]
    runs = [gtv.federate(losses, APFL("uniform", 0.9), rounds=2000, start=np.full((3, 3), at)) for at in (0.0, 1.0)]
    assert max(run.relative_gap for run in runs) < 1e-10
    assert np.abs(runs[0].weights - runs[1].weights).max() > 0.05


def test_adaptive_mixtures() -> None:
    """Bounded, moving, with a limit that depends on the start; the mixture does not, unless one ends at 0."""
    check_adaptive(APFL)
    form = form_of(problem_l())
    stuck = run_rounds(APFL("uniform", 0.5, eta=1.0, eta_mixture=0.1), form, 1000, Point(3 * START.W))
    assert stuck.mixture.min() == 0
    algorithm = APFL("uniform", 0.5, eta=1.0, eta_mixture=0.01)
    ends = [run_rounds(algorithm, form, 2000, Point(scale * START.W)) for scale in (1.0, 3.0)]
    assert np.abs(ends[0].mixture - ends[1].mixture).max() > 0.01
    for end in ends:
        assert (end.mixture > 0).all()
        assert_close(algorithm.point(form, end).W, own_minimisers(problem_l()))


def test_apfl_without_own_parts_is_fed_avg() -> None:
    form = form_of(problem_q())
    for steps in (1, 5):
        algorithm = APFL("samples", 0.0, steps, 0.1)
        state = run_rounds(algorithm, form, 7, START)
        assert_close(state.model, run_rounds(FedAvg("samples", steps, 0.1), form, 7, START).model, 1e-14)
        assert np.array_equal(algorithm.point(form, state).W, np.tile(state.model, (N, 1)))
        assert np.array_equal(state.V, START.W)
    assert_certified(problem_q(), APFL("samples", 0.0), 300)
    # without the chain factor they would run away: by the same move every round, which no watch can tell from progress
    with pytest.raises(ValueError, match="mixture must be > 0 without the chain factor"):
        APFL("samples", 0.0, chain_factor=False)
    for mixture in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="mixture must be from 0 to 1"):
            APFL("samples", mixture)


EVERYWHERE = "np.tile(state.model, (form.n_nodes, 1))"
MIXED = "own * V + (1.0 - own) * local"
FAULTS: dict[str, tuple[Any, str, Callable[..., None], tuple[tuple[str, str], ...]]] = {
    "Ditto returns the global model": (
        ditto,
        "Ditto",
        check_ditto,
        (("return Point(state.V)", f"return Point({EVERYWHERE})"),),
    ),
    "Ditto with half the strength": (ditto, "Ditto", check_ditto, (("mu=self.lam", "mu=0.5 * self.lam"),)),
    "Ditto near the new global model": (
        ditto,
        "Ditto",
        check_ditto_round,
        ((f"sent = {EVERYWHERE}", f"sent = {EVERYWHERE}".replace("state", "average")),),
    ),
    "pFedMe returns the global model": (
        p_fed_me,
        "PFedMe",
        check_p_fed_me,
        ((f"Point(state.setup.prox({EVERYWHERE}))", f"Point({EVERYWHERE})"),),
    ),
    "pFedMe with a hidden weight decay of 1e-3": (
        p_fed_me,
        "PFedMe",
        check_p_fed_me,
        (
            ("personal = setup.prox(local)", "personal = setup.prox(local * self.lam / (self.lam + 1e-3))"),
            ("np.full(n, 1.0 / self.lam)", "np.full(n, 1.0 / (self.lam + 1e-3))"),
        ),
    ),
    "pFedMe with half the strength": (
        p_fed_me,
        "PFedMe",
        check_p_fed_me,
        (("np.full(n, 1.0 / self.lam)", "np.full(n, 2.0 / self.lam)"),),
    ),
    "APFL's mixture never updated": (
        apfl,
        "APFL",
        check_adaptive,
        (("if self.eta_mixture is not None:", "if False:"),),
    ),
    "APFL's mixture not clipped": (apfl, "APFL", check_adaptive, (("* along, 0.0, 1.0)", "* along, -9.0, 9.0)"),)),
    "APFL's mixture the wrong way round": (
        apfl,
        "APFL",
        check_apfl,
        ((f"gradient(form, {MIXED})", "gradient(form, (1.0 - own) * V + own * local)"),),
    ),
    "APFL without its chain factor": (
        apfl,
        "APFL",
        check_apfl_round,
        (("own * g if self.chain_factor else g", "g"),),
    ),
    "APFL returns its own part": (
        apfl,
        "APFL",
        check_apfl,
        (("Point(own * state.V + (1.0 - own) * state.model)", "Point(state.V)"),),
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_limits_and_formulas_catch(fault: str) -> None:
    module, name, check, changes = FAULTS[fault]
    with pytest.raises(AssertionError):
        check(getattr(planted(module, *changes), name))
