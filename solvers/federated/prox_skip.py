"""ProxSkip (Scaffnew): local gradient steps with control variates, and communication by chance.

Algorithm 2 of K. Mishchenko, G. Malinovsky, S. Stich, P. Richtarik, "ProxSkip: Yes! Local Gradient Steps Provably Lead
to Communication Acceleration! Finally!" (2022), arXiv 2202.09357.
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
from .step_sizes import bound_by, largest_smoothness, step_size
from .streams import COINS, Keys, server_key, uniforms

__all__ = ["ProxSkip", "ProxSkipState"]


@dataclass(frozen=True, eq=False, slots=True)
class ProxSkipState:
    """The devices' x_i and h_i, the server's last mean, steps done, whether the last communicated; constants."""

    W: Array
    h: Array
    model: Array
    round: int
    communicated: bool
    p: Array
    gamma: float
    key: Keys


@dataclass(frozen=True)
class ProxSkip:
    """Steps ``x_i -= gamma (grad L_i(x_i) - h_i)``, after each of which all devices average with probability q.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    gamma : float, optional
        Step size, the same for all devices.  Default: ``0.95 / max_i L_i``.
    probability : float
        Of communication after a local step: q, above 0 and at most 1; about ``sqrt(min_i mu_i / max_i L_i)`` needs the
        fewest communications.
    seed : int
        Of the coins, which all devices share.

    Notes
    -----
    The limit is the minimiser of ``sum_i p_i L_i``, with ``h_i = grad L_i``.  A communication sets ``sum_i p_i h_i`` to
    zero, and rounds keep it there.  A step of this algorithm is one local step: the devices send and receive a vector
    only in steps that communicate.

    Use it where all devices can take part in every round and local gradients are cheap beside communication: exact
    consensus, and few communications.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "proxskip", rounds=200, weights="uniform", seed=1).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    gamma: float | None = None
    probability: float = 0.5
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W", "h", "model")

    def __post_init__(self) -> None:
        if not 0 < self.probability <= 1:
            raise ValueError(f"probability must be above 0 and at most 1, got {self.probability!r}")

    def init(self, form: StandardForm, start: Point | None) -> ProxSkipState:
        """Line 1: the start's models, or zero, with h zero."""
        p = aggregation_weights(form, self.weights)
        bound = float(bound_by(1.0, largest_smoothness(form)))
        gamma = step_size("gamma", self.gamma, bound, "1 / max_i L_i")
        W = starting_models(form, start)
        return ProxSkipState(
            W, np.zeros_like(W), starting_model(form, start, p), 0, False, p, gamma, server_key(self.seed)
        )

    def step(self, form: StandardForm, state: ProxSkipState) -> ProxSkipState:
        """One local step, and a communication if the coin says so."""
        q, gamma = self.probability, state.gamma
        # line 4: a local step that is corrected by the control variate
        local = state.W - gamma * (gradient(form, state.W) - state.h)
        # lines 5-9: flip the coin; average, or skip it
        communicate = bool(uniforms(state.key, state.round, COINS)[0] < q)
        W, model = local, state.model
        if communicate:
            model = np.einsum("i,ij->j", state.p, local - (gamma / q) * state.h)
            W = np.tile(model, (form.n_nodes, 1))
        # line 10: the control variate
        h = state.h + (q / gamma) * (W - local)
        return ProxSkipState(W, h, model, state.round + 1, communicate, state.p, gamma, state.key)

    def point(self, form: StandardForm, state: ProxSkipState) -> Point:
        """The devices' iterates."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: ProxSkipState) -> Traffic:
        """A gradient; one vector up and one down in a step that communicates."""
        once, sent = np.ones(form.n_nodes), int(state.communicated)
        return server_traffic(form, once, up=sent, down=sent, gradients=1.0, points=points_per_round(form, once, None))
