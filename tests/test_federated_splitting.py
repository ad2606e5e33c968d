"""FedDyn, FedDR and FedSplit: limits, one family, weights, inexact proximal maps, and planted faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
from gtvmin.solvers.federated import fed_dr, fed_dyn, fed_split
from gtvmin.solvers.federated.fed_dr import FedDR
from gtvmin.solvers.federated.fed_dyn import FedDyn
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.fed_split import FedSplit
from gtvmin.solvers.federated.participation import Bernoulli, UniformSample
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
MU = 0.8


def check_dyn(algorithm: Callable[..., Any], word: str = "uniform") -> None:
    """On Q: stable, consensus with the weights of h, g_i the gradients there and h zero."""
    for steps in (None, 1, 5):
        state = affine_limit(algorithm(word, mu=MU, local_steps=steps), problem_q(), invariants=DIM)
        assert_consensus(state.model, problem_q(), word)
        assert_close(state.g, gradients(problem_q(), state.model))
        assert_close(state.h, np.zeros(DIM))


def check_dr(algorithm: Callable[..., Any], word: str = "uniform") -> None:
    """On Q: stable, consensus, and x_i that agree while the y_i are off by the gradients."""
    for steps in (None, 1, 5):
        for a in (0.5, 1.0, 1.5, 2.0):
            state = affine_limit(algorithm(word, mu=MU, relaxation=a, local_steps=steps), problem_q())
            assert_consensus(state.model, problem_q(), word)
            assert_close(state.x, np.tile(state.model, (N, 1)))
            assert_close(state.y, state.x + gradients(problem_q(), state.model) / MU)


def check_split(algorithm: Callable[..., Any], word: str = "uniform") -> None:
    """On Q: stable, consensus, and z_i that do not agree."""
    for steps in (None, 1, 5):
        state = affine_limit(algorithm(word, mu=MU, local_steps=steps), problem_q())
        assert_consensus(state.model, problem_q(), word)
        assert_close(state.z, state.model - gradients(problem_q(), state.model) / MU)
        assert np.abs(state.z - state.model).max() > 1


def check_invariant(algorithm: Callable[..., Any]) -> None:
    """``h = sum_i p_i g_i`` whoever takes part."""
    chosen = algorithm("samples", mu=MU, participation=UniformSample(2))
    state = run_rounds(chosen, form_of(problem_q()), 30, START)
    assert_close(state.h, weights_of(problem_q(), "samples") @ state.g, 1e-12)


@pytest.mark.parametrize("word", ["uniform", "samples"])
def test_limits_are_consensus(word: str) -> None:
    check_dyn(FedDyn, word)
    check_dr(FedDR, word)
    check_split(FedSplit, word)


@pytest.mark.parametrize("algorithm", [FedDyn("samples"), FedDR("samples", relaxation=1.5), FedSplit("samples")])
def test_limits_are_certified(algorithm: Any) -> None:
    for problem in (problem_q(), problem_l()):
        assert_certified(problem, algorithm, 400)


def check_family(dyn: Any = FedDyn, split: Any = FedSplit) -> None:
    """Round by round: ``y_i += a (sum_j p_j (2 x_j - y_j) - x_i)`` with ``x_i = prox(y_i)``; a = 1, between, and 2."""
    for problem in (problem_q(), problem_l()):
        form, p = form_of(problem), weights_of(problem, "samples")
        for a in (0.5, 1.0, 1.5, 2.0):
            family: dict[str, Any] = {"dr": FedDR("samples", mu=MU, relaxation=a)}
            if a == 1.0:
                family["dyn"] = dyn("samples", mu=MU)
            if a == 2.0:
                family["split"] = split("samples", mu=MU)
            states = {name: algorithm.init(form, START) for name, algorithm in family.items()}
            y = np.tile(p @ START.W, (N, 1))
            for _ in range(6):
                states = {name: family[name].step(form, state) for name, state in states.items()}
                x = np.array([loss.prox(v, 1 / MU) for loss, v in zip(problem.losses, y, strict=True)])
                average = p @ (2 * x - y)
                assert_close(states["dr"].x, x, 1e-11)
                assert_close(states["dr"].y, y, 1e-11)
                y = y + a * (average - x)
                for state in states.values():
                    assert_close(state.model, average, 1e-11)
                if "dyn" in states:
                    assert_close(states["dyn"].model + states["dyn"].g / MU, y, 1e-11)
                if "split" in states:
                    assert_close(2 * states["split"].model - states["split"].z, y, 1e-11)


def test_they_are_one_family() -> None:
    check_family()


@pytest.mark.parametrize("which", [problem_q, problem_l])
def test_random_devices_tend_to_the_same_limit(which: Callable[[], gtv.GTVMin]) -> None:
    problem = which()
    for algorithm in (
        FedDyn("samples", participation=UniformSample(2)),
        FedDyn("samples", local_steps=2, participation=Bernoulli(0.3), seed=2),
        FedDR("samples", relaxation=2.0, participation=UniformSample(2)),
    ):
        state = run_rounds(algorithm, form_of(problem), 1100, START)
        assert_consensus(state.model, problem, "samples")
    check_invariant(FedDyn)


def test_weights_of_h_decide_the_limit_and_those_of_the_models_do_not() -> None:
    for controls, models in (("samples", "uniform"), ("uniform", "samples")):
        state = affine_limit(FedDyn(controls, mu=MU, model_weights=models), problem_q(), invariants=DIM)
        assert_consensus(state.model, problem_q(), controls)


def test_h_has_to_start_as_the_mean_of_the_g() -> None:
    """``h = mean g_i + o`` is kept: the limit's mean gradient is -o."""
    algorithm, offset = FedDyn("uniform", mu=MU), np.full(DIM, 0.2)
    state = replace(algorithm.init(form_of(problem_q()), None), h=offset)
    limit = affine_limit(algorithm, problem_q(), invariants=DIM, state=state)
    assert_close(gradients(problem_q(), limit.model).mean(axis=0), -offset)


def test_a_regulariser_is_the_servers_business() -> None:
    """``sum p_i grad L_i(w)`` is in ``-r'(w)``, with some parameters exactly zero."""
    problem, p, lam = problem_q(), weights_of(problem_q(), "uniform"), 1.2
    for a in (1.5, 2.0):
        algorithm = FedDR("uniform", relaxation=a, regulariser=lam * gtv.L1())
        run = gtv.federate(problem, algorithm, rounds=250)
        g = p @ gradients(problem, run.model)
        zero = run.model == 0
        assert 0 < zero.sum() < DIM
        assert (np.abs(g[zero]) < lam).all()
        assert_close(g[~zero], -lam * np.sign(run.model[~zero]))
        assert run.relative_gap < 1e-10

    class Shrink:
        def prox(self, v: np.ndarray, step: float) -> np.ndarray:
            return v / (1 + step)

    undeclared = gtv.federate(problem, FedDR("uniform", regulariser=Shrink()), rounds=300)
    assert_close(p @ gradients(problem, undeclared.model), -undeclared.model)
    assert program_of(undeclared.algorithm, problem).problem is None


def test_the_default_strength_is_near_the_best_one() -> None:
    form = form_of(problem_q())
    radius = {mu: affine_round(FedSplit("uniform", mu=mu), form).spectral_radius() for mu in (None, 0.1, 4.0)}
    assert radius[None] < min(radius[0.1], radius[4.0])
    flat = gtv.GTVMin(
        gtv.FLNetwork.from_edges([], nodes=[0, 1]),
        [gtv.SquaredError([[1.0, 0.0]], [1.0])] * 2,
        penalty=gtv.SquaredNorm(),
        alpha=0.0,
    )
    for algorithm in (FedDyn, FedDR, FedSplit):
        with pytest.raises(ValueError, match="mu must be given"):
            algorithm("uniform").init(form_of(flat), None)
        with pytest.raises(ValueError, match="mu must be a finite number > 0"):
            algorithm("uniform", mu=-1.0).init(form, None)


def test_accounts_and_settings() -> None:
    for algorithm in (FedDyn("uniform"), FedDR("uniform"), FedSplit("uniform")):
        last = gtv.federate(problem_q(), algorithm, rounds=3).history[-1]
        assert (last.bytes_up, last.bytes_down, last.proxes, last.gradients) == (3 * N * DIM * 8,) * 2 + (3 * N, 0)
    steps = gtv.federate(problem_q(), FedDyn("uniform", local_steps=4), rounds=3).history[-1]
    assert (steps.gradients, steps.proxes) == (3 * N * 4, 0)
    with pytest.raises(ValueError, match="relaxation"):
        FedDR("uniform", relaxation=2.1)
    losses = [gtv.LeastAbsolute([[1.0]], [y]) for y in (0.0, 1.0, 5.0)]  # a median: proximal maps are enough
    assert gtv.federate(losses, FedDR("uniform", mu=1.0), rounds=200).model == pytest.approx([1.0])


LOST_G = ("g = state.g - mu", "g = -mu")
NO_H = ('h = state.h - mu * np.einsum("i,ij->j", setup.p, np.where(active, moved, 0.0))', "h = state.h")
FAULTS: dict[str, tuple[Any, tuple[str, str], str, Callable[..., None]]] = {
    "g_i lost from its update": (fed_dyn, LOST_G, "FedDyn", check_dyn),
    "h never updated": (fed_dyn, NO_H, "FedDyn", check_dyn),
    "h with the wrong sign": (fed_dyn, ("h = state.h - mu", "h = state.h + mu"), "FedDyn", check_dyn),
    "h by the sum of all models less one model, not less as many": (
        fed_dyn,
        (
            'np.einsum("i,ij->j", setup.p, np.where(active, moved, 0.0))',
            '(np.einsum("i,ij->j", setup.p, sent + moved) - state.model / form.n_nodes)',
        ),
        "FedDyn",
        check_dyn,
    ),
    "g_i with the wrong sign": (fed_dyn, ("g = state.g - mu", "g = state.g + mu"), "FedDyn", check_dyn),
    "h over those who take part": (
        fed_dyn,
        ('np.einsum("i,ij->j", setup.p', 'np.einsum("i,ij->j", setup.p * N_OVER_S'),
        "FedDyn",
        check_invariant,
    ),
    "steps from FedDyn's shifted model": (
        fed_dyn,
        ("sent + state.g / mu, sent)", "sent + state.g / mu, sent + state.g / mu)"),
        "FedDyn",
        check_dyn,
    ),
    "steps from the prox input of FedDR": (fed_dr, ("(form, y, sent)", "(form, y, y)"), "FedDR", check_dr),
    "steps from the prox input of FedSplit": (
        fed_split,
        ("(form, 2.0 * x - state.z, x)", "(form, 2.0 * x - state.z, 2.0 * x - state.z)"),
        "FedSplit",
        check_split,
    ),
    "FedSplit's z_i returned": (
        fed_split,
        ('np.einsum("i,ij->j", self.p, self.z)', "self.z[0]"),
        "FedSplit",
        check_split,
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_limits_and_invariants_catch(fault: str) -> None:
    module, change, name, check = FAULTS[fault]
    faulty = planted(module, change)
    faulty.N_OVER_S = 4.0
    with pytest.raises(AssertionError):
        check(getattr(faulty, name))


def test_the_family_catches_reflection_without_its_factor_two() -> None:
    """The limit cannot: it is the same, and slower."""
    faulty = planted(fed_split, ("2.0 * (half - x)", "(half - x)")).FedSplit
    check_split(faulty)
    with pytest.raises(AssertionError):
        check_family(split=faulty)


def test_a_lost_g_is_fed_prox_with_twice_the_strength() -> None:
    """The fault's limit in closed form: ``sum p_i prox_{2 mu}(w) = w``."""
    faulty = planted(fed_dyn, LOST_G).FedDyn
    found = affine_limit(faulty("uniform", mu=MU), problem_q()).model
    Q, b = device_quadratics(problem_q())
    inverse = np.linalg.inv(Q + 2 * MU * np.eye(DIM))
    expected = np.linalg.solve(np.eye(DIM) - 2 * MU * inverse.mean(axis=0), np.einsum("ijk,ik->j", inverse, b) / N)
    assert_close(found, expected, 1e-10)
    assert_close(affine_limit(FedProx("uniform", 2 * MU), problem_q()).model, expected, 1e-10)
    assert np.abs(expected - minimiser(problem_q(), weights_of(problem_q(), "uniform"))).max() > 0.05


def test_h_over_those_who_take_part_has_the_same_limit() -> None:
    """It is N / |S| times what it should be and zero at the limit: the invariant has to catch it."""
    faulty = planted(fed_dyn, FAULTS["h over those who take part"][1])
    faulty.N_OVER_S = 2.0
    algorithm = faulty.FedDyn("uniform", mu=MU, participation=UniformSample(4))
    assert_consensus(run_rounds(algorithm, form_of(problem_q()), 1500, START).model, problem_q(), "uniform")
