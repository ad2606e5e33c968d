"""L2GD: local gradient steps, or steps of all devices towards their mean, by the flip of a coin.

Algorithm 1 of F. Hanzely, P. Richtarik, "Federated Learning of a Mixture of Global and Local Models" (2020), arXiv
2002.05516, whose alpha / n is eta here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..standard_form import Array, Point, StandardForm
from .fed_avg import points_per_round
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import gradient
from .start import starting_model, starting_models
from .step_sizes import step_size
from .streams import COINS, Keys, server_key, uniforms

__all__ = ["L2GD", "L2GDState"]


@dataclass(frozen=True, eq=False, slots=True)
class L2GDState:
    """The devices' models, the last mean that they received, steps done, kind of the last step, and constants."""

    W: Array
    model: Array
    round: int
    aggregated: bool
    communicated: bool
    p: Array
    eta: float
    key: Keys


@dataclass(frozen=True)
class L2GD:
    """Minimise ``sum_i p_i (L_i(w_i) + (lam/2) ||w_i - mean||^2)`` by random steps on one of the two terms.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices, also in the mean.
    lam : float
        Strength of the coupling.
    probability : float
        Of a step towards the mean, ``w_i -= (eta lam / q) (w_i - mean)``: q, above 0 and below 1.  Otherwise all
        devices make a gradient step ``w_i -= (eta / (1 - q)) grad L_i(w_i)``.
    eta : float, optional
        Learning rate.  Default: 0.95 of the bound ``1 / (2 max(max_i L_i / (1 - q), lam / q))``.
    seed : int
        Of the coins, which all devices share.

    Notes
    -----
    The program is FedProx's with ``mu = lam``: a star, or a complete graph.  With a constant rate the models do not
    converge; for quadratic losses their mean over the coins is the solution exactly, and their covariance solves a
    Lyapunov equation (:func:`gtvmin.federated.operators.stationary_covariance`).  Steps towards the mean keep it, so
    that devices send and receive a vector only where such a step follows a gradient step.

    Use it for personal models where communication is dear and a neighbourhood of the solution is enough.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> run = gtv.federate(losses, "l2gd", rounds=200, weights="uniform", lam=2.0, seed=1)
    >>> 1e-6 < run.relative_gap < 0.5
    True
    """

    weights: Weights
    lam: float
    probability: float = 0.5
    eta: float | None = None
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W", "model")

    def __post_init__(self) -> None:
        if not 0 < self.lam < np.inf:
            raise ValueError(f"lam must be a finite number > 0, got {self.lam!r}")
        if not 0 < self.probability < 1:
            raise ValueError(f"probability must be above 0 and below 1, got {self.probability!r}")

    def init(self, form: StandardForm, start: Point | None) -> L2GDState:
        """The start's models, or zero."""
        p, q = aggregation_weights(form, self.weights), self.probability
        constant = max(float(form.local.smoothness.max()) / (1.0 - q), self.lam / q)
        reason = "1 / (2 max(max_i L_i / (1 - q), lam / q))"
        eta = step_size("eta", self.eta, 0.5 / constant, reason)
        W = starting_models(form, start)
        return L2GDState(W, starting_model(form, start, p), 0, False, False, p, eta, server_key(self.seed))

    def step(self, form: StandardForm, state: L2GDState) -> L2GDState:
        """A gradient step, or one towards the mean."""
        q = self.probability
        aggregate = bool(uniforms(state.key, state.round, COINS)[0] < q)
        W, model = state.W, state.model
        if aggregate:
            model = np.einsum("i,ij->j", state.p, W)
            W = W - (state.eta * self.lam / q) * (W - model)
        else:
            W = W - (state.eta / (1.0 - q)) * gradient(form, W)
        communicated = aggregate and not state.aggregated
        return L2GDState(W, model, state.round + 1, aggregate, communicated, state.p, state.eta, state.key)

    def point(self, form: StandardForm, state: L2GDState) -> Point:
        """The devices' models."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: L2GDState) -> Traffic:
        """A gradient, or a vector up and one down if the mean is not known already."""
        once, sent = np.ones(form.n_nodes), int(state.communicated)
        gradients = once * (not state.aggregated)
        points = points_per_round(form, gradients, None)
        return server_traffic(form, once, up=sent, down=sent, gradients=gradients, points=points)
