"""FedProx: the star, closed forms of inexact minimisation, identities, planted faults."""

from __future__ import annotations

import numpy as np
import pytest

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
from gtvmin.federated import surrogate_of
from gtvmin.federated.program import star
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.standard_form import Point

PROBLEMS = {"Q": problem_q, "L": problem_l}
WORDS = ("uniform", "samples")
START = Point(np.tile(np.random.default_rng(2).normal(size=DIM), (N, 1)))


@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("which", PROBLEMS)
def test_exact_prox_solves_the_star(which: str, mu: float) -> None:
    problem = PROBLEMS[which]()
    p = weights_of("samples")
    algorithm = FedProx("samples", mu=mu)
    rounds = {"Q": {0.1: 40, 1.0: 120, 10.0: 700}, "L": {0.1: 80, 1.0: 300, 10.0: 2000}}[which][mu]
    found = run_rounds(algorithm, form_of(problem), rounds, START).model
    # the server, which has no loss, makes the certificate pay for the rounding of its balance
    assert certified_distance(star(problem, p, mu), np.tile(found, (N, 1))) < 1e-5
    # stationary: sum_i p_i (w - v_i) = 0 with v_i the proximal point, mu (w - v_i) = grad L_i(v_i)
    v = np.array([loss.prox(found, 1 / mu) for loss in problem.losses])
    assert np.abs(p @ (found - v)).max() < 1e-10
    assert np.allclose(mu * (found - v), gradients(problem, v), atol=1e-7)
    assert np.abs(found - minimiser(problem, p)).max() > 1e-3


def test_exact_prox_is_block_coordinate_minimisation_on_the_star() -> None:
    """Devices, then the server, in turn on the declared star: the same models round by round."""
    problem, mu = problem_q(), 0.8
    p = weights_of("uniform")
    declared = star(problem, p, mu).problem
    net, strength = declared.network, declared.alpha * declared.network.weights
    assert np.allclose(strength, p * mu / 2)
    centre = net.index("server")
    state, algorithm, form = None, FedProx("uniform", mu=mu), form_of(problem)
    state, w = algorithm.init(form, START), START.W[0]
    for _ in range(30):
        # argmin_v p_i L_i(v) + (p_i mu / 2) ||v - w||^2 by the declared losses, then the weighted mean of all of them
        v = np.array([declared.losses[i].prox(w, 1 / (2 * strength[i])) for i in range(N)])
        assert centre == N
        w = strength @ v / strength.sum()
        state = algorithm.step(form, state)
        assert np.abs(state.model - w).max() < 1e-12


def test_jacobi_on_the_star_at_even_steps_is_exact_prox() -> None:
    problem, mu = problem_q(), 0.8
    declared = star(problem, weights_of("uniform"), mu).problem
    relax, star_form = FedRelax(), form_of(declared)
    prox, form = FedProx("uniform", mu=mu), form_of(problem)
    a = relax.init(star_form, Point(np.vstack([START.W, START.W[:1]])))
    b = prox.init(form, START)
    for _ in range(15):
        a = relax.step(star_form, relax.step(star_form, a))
        b = prox.step(form, b)
        assert np.abs(a.W[N] - b.model).max() < 1e-12


@pytest.mark.parametrize("batch", [None, 3])
def test_prox_without_a_proximal_term_is_averaging(batch: int | None) -> None:
    form, options = form_of(problem_l()), {"local_steps": 4, "eta": 0.3, "batch": batch, "seed": 5}
    options["participation"] = UniformSample(5)
    a, b = FedAvg("samples", **options), FedProx("samples", mu=0.0, **options)
    x, y = a.init(form, START), b.init(form, START)
    for _ in range(12):
        x, y = a.step(form, x), b.step(form, y)
        assert np.array_equal(x.model, y.model)


@pytest.mark.parametrize("steps", [2, 5, 20])
def test_inexact_prox_minimises_its_surrogate(steps: int) -> None:
    """``sum p_i (I - N_i)(w - prox_i(w)) = 0`` with ``N_i = (I - eta (Q_i + mu))^K``, solved by hand."""
    problem, mu, eta, p = problem_q(), 1.0, 0.1, weights_of("samples")
    algorithm = FedProx("samples", mu=mu, local_steps=steps, eta=eta)
    found = run_rounds(algorithm, form_of(problem), 1200, START).model
    Q, b = device_quadratics(problem)
    H = Q + mu * np.eye(DIM)
    kept = np.array([np.linalg.matrix_power(np.eye(DIM) - eta * h, steps) for h in H])
    R = (np.eye(DIM) - kept) @ np.linalg.inv(H)
    # w - prox(w) = H^-1 (Q w - b)
    limit = np.linalg.solve(np.einsum("i,ijk->jk", p, R @ Q), np.einsum("i,ijk,ik->j", p, R, b))
    assert np.abs(found - limit).max() < 1e-8
    solved = surrogate_of(algorithm, problem).problem.solve(gap=1e-12)
    assert np.abs(solved.weights[0] - limit).max() < 1e-6
    exact = star(problem, p, mu).problem.solve(gap=1e-12).weights[N]
    assert np.abs(limit - exact).max() > (1e-2 if steps < 20 else 1e-4)
    assert np.abs(limit - minimiser(problem, p)).max() > 1e-2


def test_gamma_bounds_the_inexactness_and_does_not_reach_the_star() -> None:
    problem, mu = problem_q(), 1.0
    form, p = form_of(problem), weights_of("uniform")
    exact = star(problem, p, mu).problem.solve(gap=1e-12).weights[N]
    distances = []
    for gamma in (0.6, 0.1, 1e-6):
        algorithm = FedProx("uniform", mu=mu, gamma=gamma, eta=0.1)
        w = START.W[0]
        local, steps = algorithm._minimise(form, algorithm.init(form, START), np.ones(N, dtype=bool))
        residual = np.linalg.norm(gradients(problem, local) + mu * (local - w), axis=1)
        assert (residual <= gamma * np.linalg.norm(gradients(problem, w), axis=1)).all()
        fewer = np.linalg.norm(local - w, axis=1) > 0
        assert fewer.all()
        assert steps.min() >= 1
        distances.append(np.abs(run_rounds(algorithm, form, 300, START).model - exact).max())
    assert distances[0] > distances[1] > 1e-2
    assert distances[2] < 1e-5


def moreau_limit(mu: float, rounds: int = 2000) -> np.ndarray:
    """Limit of exact prox written out."""
    Q, b = device_quadratics(problem_q())
    p, w = weights_of("samples"), np.zeros(DIM)
    for _ in range(rounds):
        w = p @ np.linalg.solve(Q + mu * np.eye(DIM), (b + mu * w)[:, :, None])[:, :, 0]
    return w


def norm_not_squared(mu: float) -> np.ndarray:
    """FedProx with ``mu ||v - w||`` instead of its square."""
    Q, b = device_quadratics(problem_q())
    w, p = np.zeros(DIM), weights_of("samples")
    for _ in range(60):
        v = np.tile(w, (N, 1))
        for _ in range(200):  # proximal gradient steps: the prox of the norm shrinks v - w
            step = v - 0.15 * (np.einsum("ijk,ik->ij", Q, v) - b) - w
            size = np.linalg.norm(step, axis=1, keepdims=True)
            v = w + np.maximum(0.0, 1 - 0.15 * mu / np.maximum(size, 1e-300)) * step
        w = p @ v
    return w


def test_planted_faults_move_the_limit() -> None:
    right = run_rounds(FedProx("samples", mu=1.0), form_of(problem_q()), 400).model
    assert np.abs(right - moreau_limit(1.0)).max() < 1e-10
    faults = {"factor 2 of mu": moreau_limit(2.0), "square lost": norm_not_squared(1.0)}
    faults["other weights"] = run_rounds(FedProx("uniform", mu=1.0), form_of(problem_q()), 400).model
    for name, wrong in faults.items():
        assert np.abs(wrong - right).max() > 1e-3, name
