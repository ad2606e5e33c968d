"""ADMM over edges against CVXPY, the paper's rounds and its own flows; MOCHA against normal equations and its dual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from federated_checks import affine_limit, assert_certified, assert_close, planted
from federated_problems import (
    DIM,
    NAMES,
    N,
    device_quadratics,
    form_of,
    gradients,
    network,
    problem_l,
    problem_q,
    run_rounds,
)
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated import edge_admm, mocha
from gtvmin.solvers.federated.edge_admm import EdgeADMM
from gtvmin.solvers.federated.mocha import Mocha
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))
LAM = 0.4


def network_lasso(which: str, penalty: Any = None) -> gtv.GTVMin:
    losses = {"Q": problem_q, "L": problem_l}[which]().losses
    return gtv.GTVMin(network(), losses, penalty=gtv.Norm(2) if penalty is None else penalty, alpha=LAM)


def solved(which: str) -> np.ndarray:
    """The network Lasso by CVXPY, written out from the data."""
    W = cp.Variable((N, DIM))
    objective = 0.0
    for i, loss in enumerate(network_lasso(which).losses):
        for _, atom in loss.declared_terms():
            if isinstance(atom, gtv.SquaredError):
                objective += cp.sum_squares(atom.X @ W[i] - atom.y) / len(atom.y)
            elif isinstance(atom, gtv.Logistic):
                objective += cp.sum(cp.logistic(cp.multiply(-atom.y, atom.X @ W[i]))) / len(atom.y)
            else:
                objective += 0.5 * cp.quad_form(W[i], atom.Q)
    net = network()
    for t, h, weight in zip(net.tail, net.head, net.weights, strict=True):
        objective += LAM * weight * cp.norm(W[h] - W[t], 2)
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    return np.asarray(W.value)


def hallac(problem: gtv.GTVMin, rho: float, rounds: int) -> np.ndarray:
    """The paper's rounds with dictionaries of edges, from its equations."""
    net = problem.network
    edges = {(int(t), int(h)): LAM * w for t, h, w in zip(net.tail, net.head, net.weights, strict=True)}
    around = [[j for j in range(N) if (i, j) in edges or (j, i) in edges] for i in range(N)]
    z = {(i, j): START.W[i].copy() for i in range(N) for j in around[i]}
    u = {key: np.zeros(DIM) for key in z}
    x = START.W.copy()
    for _ in range(rounds):
        for i, loss in enumerate(problem.losses):
            mean = np.mean([z[i, j] - u[i, j] for j in around[i]], axis=0)
            x[i] = loss.prox(mean, 1.0 / (rho * len(around[i])))
        for (i, j), strength in edges.items():
            a, b = x[i] + u[i, j], x[j] + u[j, i]
            apart = np.linalg.norm(a - b)
            theta = 0.5 if apart == 0 else max(1.0 - strength / (rho * apart), 0.5)
            z[i, j], z[j, i] = theta * a + (1 - theta) * b, theta * b + (1 - theta) * a
        for i, j in u:
            u[i, j] = u[i, j] + x[i] - z[i, j]
    return x


def check_admm(algorithm: Callable[..., Any]) -> None:
    """Rounds of the paper; flows that are feasible from the first round on, at both ends the same."""
    problem = network_lasso("Q")
    form, radius = form_of(problem), LAM * network().weights
    for rho in (0.3, 1.0, 5.0):
        assert_close(run_rounds(algorithm(rho), form, 25, START).W, hallac(problem, rho, 25), 1e-11)
    state = algorithm(0.7).init(form, START)
    for _ in range(30):
        state = algorithm(0.7).step(form, state)
        flows = algorithm(0.7).point(form, state).U[0]
        assert (np.linalg.norm(flows, axis=1) <= radius * (1 + 1e-12)).all()
        m = network().n_edges
        assert_close(state.V[:m], -state.V[m:], 1e-13)
    for _ in range(600):
        state = algorithm(0.7).step(form, state)
    flows = algorithm(0.7).point(form, state).U[0]
    assert_close(-(network().incidence().T @ flows), gradients(problem, state.W))
    assert gtv.certify(problem, state.W, flows).relative_gap < 1e-10


def test_admm_over_edges_is_the_papers_and_its_flows_certify_it() -> None:
    check_admm(EdgeADMM)


@pytest.mark.parametrize("which", ["Q", "L"])
def test_admm_over_edges_solves_the_network_lasso(which: str) -> None:
    problem = network_lasso(which)
    assert_certified(problem, EdgeADMM(1.0 if which == "Q" else 0.2), 600)
    found = run_rounds(EdgeADMM(1.0 if which == "Q" else 0.2), form_of(problem), 600).W
    assert_close(found, solved(which), 1e-4)
    assert problem.objective(found) <= problem.objective(solved(which)) + 1e-12
    assert_close(found, problem.solve(gap=1e-12).weights, 1e-5)


@pytest.mark.parametrize("penalty", [gtv.Norm(1), gtv.Norm(np.inf), gtv.HuberPenalty(0.5), gtv.SquaredNorm()])
def test_admm_over_edges_takes_any_penalty_with_a_proximal_map(penalty: Any) -> None:
    assert_certified(network_lasso("Q", penalty), EdgeADMM(), 600)


def test_admm_over_edges_takes_losses_that_are_not_smooth_and_devices_alone() -> None:
    nodes = (*NAMES, "alone")
    losses = {name: loss + 0.1 * gtv.L1() for name, loss in zip(NAMES, problem_q().losses, strict=True)}
    losses["alone"] = losses["a"]
    net = gtv.FLNetwork.from_edges(
        [(*edge, w) for edge, w in zip(network().edges, network().weights, strict=True)], nodes=nodes
    )
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=LAM)
    run = gtv.federate(problem, "edgeadmm", rounds=500)
    assert run.relative_gap < 1e-7
    reference = problem.solve(gap=1e-9).weights
    assert_close(run.weights, reference, 1e-3)
    degree = np.append(np.bincount(np.append(network().tail, network().head)), 0)
    assert run.traffic.messages_sent.tolist() == (500 * degree).tolist()
    assert run.traffic.proxes.tolist() == [500.0] * (N + 1)
    with pytest.raises(ValueError, match="rho"):
        EdgeADMM(0.0)


def test_admm_over_edges_starts_from_flows() -> None:
    """At the solution with its flows it stays there."""
    problem = network_lasso("Q")
    best = run_rounds(EdgeADMM(), form_of(problem), 1500)
    point = EdgeADMM().point(form_of(problem), best)
    again = run_rounds(EdgeADMM(2.0), form_of(problem), 3, point)
    assert_close(again.W, best.W, 1e-10)


# MOCHA

RIDGE = 0.6


def normal_equations(ridge: float) -> np.ndarray:
    problem, (Q, b) = problem_q(), device_quadratics(problem_q())
    H = np.kron(2 * problem.alpha * network().laplacian().toarray() + ridge * np.eye(N), np.eye(DIM))
    for i in range(N):
        H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] += Q[i]
    return np.linalg.solve(H, b.ravel()).reshape(N, DIM)


def check_mocha(algorithm: Callable[..., Any]) -> None:
    """The limit by normal equations, and duals that are the gradients there."""
    form = form_of(problem_q())
    for ridge in (RIDGE, 3.0):
        chosen = algorithm(ridge)
        assert affine_round(chosen, form).spectral_radius() < 1
        state = affine_limit(chosen, problem_q())
        W = chosen.point(form, state).W
        assert_close(W, normal_equations(ridge))
        assert_close(state.S, gradients(problem_q(), W))


def dual(S: np.ndarray) -> float:
    """``-sum_i L_i*(s_i) - <S, K^-1 S> / 2`` on Q, from the data."""
    problem, (Q, b) = problem_q(), device_quadratics(problem_q())
    K = 2 * problem.alpha * network().laplacian().toarray() + RIDGE * np.eye(N)
    total = -0.5 * np.einsum("ij,ij->", S, np.linalg.solve(K, S))
    for i, loss in enumerate(problem.losses):
        w = np.linalg.solve(Q[i], S[i] + b[i])
        total -= S[i] @ w - loss.value(w)
    return float(total)


def test_mocha_solves_the_squared_coupling_with_a_ridge() -> None:
    check_mocha(Mocha)
    assert_certified(problem_q(), Mocha(RIDGE), 500)
    assert_certified(problem_l(), Mocha(RIDGE), 1500)
    rough = gtv.GTVMin(
        network(),
        [loss + 0.2 * gtv.L1() for loss in problem_q().losses],
        penalty=gtv.SquaredNorm(),
        alpha=0.5,
    )
    run = gtv.federate(rough, "mocha", rounds=600, ridge=RIDGE)
    ridged = gtv.GTVMin(
        network(),
        [loss + gtv.Quadratic(RIDGE * np.eye(DIM)) for loss in rough.losses],
        penalty=gtv.SquaredNorm(),
        alpha=0.5,
    )
    assert_close(run.weights, ridged.solve(gap=1e-12).weights, 1e-5)


def test_a_round_of_mocha_solves_the_papers_subproblems() -> None:
    """The gradient of ``L_i*(s) - <w_i, s> + (c_i / 2) ||s - s_i||^2`` is zero at the new dual."""
    form, (Q, b) = form_of(problem_q()), device_quadratics(problem_q())
    state = Mocha(RIDGE).init(form, START)
    W = Mocha(RIDGE).point(form, state).W
    assert_close(W, START.W, 1e-12)
    after, c = Mocha(RIDGE).step(form, state), state.setup.bound
    for i in range(N):
        of_conjugate = np.linalg.solve(Q[i], after.S[i] + b[i])
        assert_close(of_conjugate - W[i] + c[i] * (after.S[i] - state.S[i]), np.zeros(DIM), 1e-10)


def test_the_dual_never_falls_whoever_takes_part() -> None:
    form = form_of(problem_q())
    K = 2 * problem_q().alpha * network().laplacian().toarray() + RIDGE * np.eye(N)
    for chosen in (Mocha(RIDGE), Mocha(RIDGE, UniformSample(3), seed=4)):
        state = chosen.init(form, START)
        assert np.linalg.eigvalsh(np.diag(state.setup.bound) - np.linalg.inv(K))[0] > -1e-12
        last = dual(state.S)
        for _ in range(40):
            state = chosen.step(form, state)
            assert dual(state.S) >= last - 1e-12
            last = dual(state.S)
    state = run_rounds(Mocha(RIDGE, UniformSample(3)), form, 2000, START)
    assert_close(Mocha(RIDGE).point(form, state).W, normal_equations(RIDGE))
    run = gtv.federate(problem_q(), "mocha", rounds=10, ridge=RIDGE, participation=UniformSample(3))
    assert run.traffic.proxes.sum() == 30
    with pytest.raises(ValueError, match="ridge"):
        Mocha(0.0)


FAULTS = {
    "lam doubled": (edge_admm, ("2.0 / self.rho))", "4.0 / self.rho))"), check_admm, "EdgeADMM"),
    "dual left out of the copies": (
        edge_admm,
        ("sent = W[state.ends] + state.V", "sent = W[state.ends]"),
        check_admm,
        "EdgeADMM",
    ),
    "sign of the flows": (edge_admm, ("(self.rho * state.V[len", "(-self.rho * state.V[len"), check_admm, "EdgeADMM"),
    "flows without rho": (edge_admm, ("(self.rho * state.V[len", "(state.V[len"), check_admm, "EdgeADMM"),
    "sum for the mean": (edge_admm, (" / np.maximum(count, 1.0)\n", "\n"), check_admm, "EdgeADMM"),
    "ridge left out": (
        mocha,
        ("inverse = np.linalg.inv(K)", "inverse = np.linalg.inv(K + K.trace() * np.eye(len(K)))"),
        check_mocha,
        "Mocha",
    ),
    "sign of the models": (
        mocha,
        ("np.asarray(-state.setup.inverse", "np.asarray(state.setup.inverse"),
        check_mocha,
        "Mocha",
    ),
    "factor of the bound lost": (mocha, ("bound = factor * root**2", "bound = 0.4 * root**2"), check_mocha, "Mocha"),
    "dual left out of the prox": (mocha, ("setup.prox(W + c * state.S)", "setup.prox(W)"), check_mocha, "Mocha"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_planted_faults_are_caught(fault: str) -> None:
    module, change, check, name = FAULTS[fault]
    faulty = getattr(planted(module, change), name)
    with pytest.raises(AssertionError):
        check(faulty)
