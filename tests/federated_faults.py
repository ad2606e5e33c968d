"""Federated algorithms as small functions of a problem, right ones and ones with a fault of the field.

They are written from the papers, apart from the package's own, and return what a user would report: the models of the
devices.  SCAFFOLD with ``1 / epochs`` for ``1 / (K eta)`` is not here: its limit is the right one, so that only the
formula of a round tells it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gtvmin as gtv
from gtvmin.federated.program import mean

Problem = gtv.GTVMin
Array = np.ndarray


def parts(problem: Problem) -> tuple[Callable[[Array], Array], float, int]:
    """Gradients of the declared losses, a safe step, the number of devices."""
    local = problem.lowered.form.local
    return local.gradient, 0.5 / float(local.smoothness.max()), problem.network.n_nodes


def agreed(model: Array, n: int) -> Array:
    """The server's model at every device."""
    return np.tile(model, (n, 1))


def scaffold(problem: Problem, *, sign: float = 1.0, change: bool = True, rounds: int = 1500) -> Array:
    """SCAFFOLD, option II, five local steps: right."""
    g, eta, n = parts(problem)
    x, own, common = np.zeros(problem.dim), np.zeros((n, problem.dim)), np.zeros(problem.dim)
    for _ in range(rounds):
        y = agreed(x, n)
        for _ in range(5):
            y = y - eta * (g(y) + sign * (common - own))
        new = own - common + (x - y) / (5 * eta)
        common = common + ((new - own) if change else new).mean(axis=0)
        x, own = y.mean(axis=0), new
        if not np.abs(x).max() < 1e12:
            break
    return agreed(x, n)


def correction_with_the_wrong_sign(problem: Problem) -> Array:
    """SCAFFOLD adds the device's control variate and subtracts the server's."""
    return scaffold(problem, sign=-1.0)


def server_adds_the_controls(problem: Problem) -> Array:
    """SCAFFOLD's server adds the mean of the new control variates, not of their changes."""
    return scaffold(problem, change=False)


def several_steps_without_correction(problem: Problem) -> Array:
    """FedAvg with five local steps, taken for the minimiser of the mean."""
    g, eta, n = parts(problem)
    x = np.zeros(problem.dim)
    for _ in range(1500):
        y = agreed(x, n)
        for _ in range(5):
            y = y - eta * g(y)
        x = y.mean(axis=0)
    return agreed(x, n)


def one_step(problem: Problem, *, empty: bool = False, divide: Array | None = None) -> Array:
    """FedAvg with one local step: right."""
    g, eta, n = parts(problem)
    scale = np.ones(n) if divide is None else divide
    eta = eta * float(scale.min())
    nothing = np.array([loss.n_samples == 0 for loss in problem.losses])
    x = np.zeros(problem.dim)
    for _ in range(3000):
        y = x - eta * g(agreed(x, n)) / scale[:, None]
        if empty:
            y[nothing] = 0.0
        x = y.mean(axis=0)
    return agreed(x, n)


def empty_devices_in_the_mean(problem: Problem) -> Array:
    """A device without data sends zeros, and the server averages them with the others."""
    return one_step(problem, empty=True)


def other_weights(problem: Problem) -> Array:
    """Weights by the numbers of data points are asked for, uniform ones are used."""
    sizes = np.array([loss.n_samples for loss in problem.losses], dtype=float)
    return one_step(problem, divide=sizes / sizes.max())


def tracking(problem: Problem, *, zero: bool = False) -> Array:
    """Gradient tracking on a ring, with weights of one third: right."""
    g, eta, n = parts(problem)
    M = (np.eye(n) + np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)) / 3.0
    W = np.zeros((n, problem.dim))
    Y = np.zeros_like(W) if zero else g(W)
    for _ in range(6000):
        new = M @ (W - 0.3 * eta * Y)
        Y = M @ (Y + g(new) - g(W))
        W = new
    return agreed(mean(W, np.full(n, 1 / n)), n)


def tracking_from_zero(problem: Problem) -> Array:
    """The tracked gradients start at zero instead of the devices' gradients."""
    return tracking(problem, zero=True)


def dynamic_regularisation(problem: Problem, *, kept: bool = True) -> Array:
    """FedDyn: right."""
    local, n = problem.lowered.form.local, problem.network.n_nodes
    mu = float(np.sqrt(max(local.strong_convexity.min(), 1e-3) * local.smoothness.max()))
    prox = local.prox_operator(np.full(n, 1.0 / mu))
    theta, own = np.zeros(problem.dim), local.gradient(np.zeros((n, problem.dim)))
    h = own.mean(axis=0)
    for _ in range(2000):
        x = prox(theta + (own if kept else np.zeros_like(own)) / mu)
        own = own - mu * (x - theta)
        h = h - mu * (x - theta).mean(axis=0)
        theta = x.mean(axis=0) - h / mu
    return agreed(theta, n)


def lost_linear_term(problem: Problem) -> Array:
    """FedDyn's local problems have lost their linear term: what is left is FedProx with twice the mu."""
    return dynamic_regularisation(problem, kept=False)


def proximal(problem: Problem, *, mu_times: float = 1.0, personal: bool = True) -> Array:
    """Exact FedProx on the star: the devices' models, and the server's last.  Right."""
    n = problem.network.n_nodes - 1
    strength = 2.0 * problem.alpha * problem.network.weights  # p_i mu
    order = [problem.network.index(node) for node in problem.network.nodes[:n]]
    prox = [problem.losses[i].prox for i in order]
    w = np.zeros(problem.dim)
    for _ in range(120):
        v = np.array([prox[i](w, 1.0 / (mu_times * strength[i])) for i in range(n)])
        w = strength @ v / strength.sum()
    return np.vstack([v if personal else agreed(w, n), w])


def twice_the_mu(problem: Problem) -> Array:
    """The proximal term is ``mu ||v - w||^2`` where ``(mu / 2) ||v - w||^2`` is asked for."""
    return proximal(problem, mu_times=2.0)


def global_model_for_personal_ones(problem: Problem) -> Array:
    """pFedMe returns the server's model in place of the devices' own."""
    return proximal(problem, personal=False)


def norm_without_the_square(problem: Problem) -> Array:
    """The proximal term is a norm, not its square."""
    n = problem.network.n_nodes - 1
    strength = 2.0 * problem.alpha * problem.network.weights
    losses = {node: problem.losses[i] for i, node in enumerate(problem.network.nodes[:n])}
    w = np.zeros(problem.dim)
    for _ in range(40):
        v = []
        for i, loss in enumerate(losses.values()):
            eta = 0.5 / float(
                np.linalg.norm(np.array([loss.gradient(e) - loss.gradient(0 * e) for e in np.eye(len(w))]), 2)
            )
            u = w
            for _ in range(60):
                step = u - eta * loss.gradient(u) - w
                u = w + max(0.0, 1.0 - eta * strength[i] / max(float(np.linalg.norm(step)), 1e-300)) * step
            v.append(u)
        w = strength @ np.array(v) / strength.sum()
    return np.vstack([np.array(v), w])


def mixture(problem: Problem, *, updated: bool = True) -> Array:
    """APFL with a mixture of one half: right."""
    g, eta, n = parts(problem)
    theta, own = np.zeros(problem.dim), np.zeros((n, problem.dim))
    for _ in range(3000):
        own = own - (eta * g(0.5 * own + 0.5 * theta) if updated else 0.0)
        theta = (theta - eta * g(agreed(theta, n))).mean(axis=0)
    return 0.5 * own + 0.5 * theta


def mixture_never_updated(problem: Problem) -> Array:
    """APFL's personal part stays where it started."""
    return mixture(problem, updated=False)


RIGHT = {
    scaffold: "consensus_uniform",
    one_step: "consensus_with_empty_devices",
    tracking: "consensus_uniform",
    dynamic_regularisation: "consensus_uniform",
    proximal: "prox_star",
    mixture: "personal_models",
}
WRONG = {
    correction_with_the_wrong_sign: "consensus_uniform",
    server_adds_the_controls: "consensus_uniform",
    several_steps_without_correction: "consensus_logistic",
    empty_devices_in_the_mean: "consensus_with_empty_devices",
    other_weights: "consensus_by_samples",
    tracking_from_zero: "consensus_uniform",
    lost_linear_term: "consensus_uniform",
    twice_the_mu: "prox_star",
    global_model_for_personal_ones: "prox_star",
    norm_without_the_square: "prox_star",
    mixture_never_updated: "personal_models",
}
