"""pFedMe: local gradient steps on the Moreau envelopes of the losses.

Algorithm 1 of C. T. Dinh, N. H. Tran, T. D. Nguyen, "Personalized Federated Learning with Moreau Envelopes" (2020),
arXiv 2006.08848.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import Aggregation
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, local_steps
from .participation import All, Participation, expected_and_amplification, server_average
from .proximal_map import ProximalMap
from .start import starting_model
from .step_sizes import averaged_step_sizes, smoothness_bound
from .streams import Keys, device_keys

__all__ = ["PFedMe", "PFedMeSetup", "PFedMeState"]


@dataclass(frozen=True, eq=False, slots=True)
class PFedMeSetup:
    """What stays the same: weights p, the proximal maps, step sizes and numbers of steps, keys, participation."""

    p: Array
    prox: ProximalMap
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys
    expected: Array | None


@dataclass(frozen=True, eq=False, slots=True)
class PFedMeState:
    """Server's model, rounds done, and who took part in the last one."""

    model: Array
    round: int
    counts: Array
    setup: PFedMeSetup


@dataclass(frozen=True)
class PFedMe:
    """FedAvg on the Moreau envelopes ``min_v L_i(v) + (lam/2) ||v - w||^2``; device i uses the v of the server's w.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    lam : float
        Strength of the proximal term.
    local_rounds : int or sequence of int
        Gradient steps R on the envelope a round, each with a proximal map.
    eta : float or array_like (n_nodes,), optional
        Their size.  Default: ``0.95 / max_i M_i`` with the envelopes' smoothness ``M_i = lam L_i / (lam + L_i)``;
        less with partial participation as in FedAvg, and with a large beta.
    beta : float
        The server moves by beta times the mean change.
    participation, aggregation, seed
        As for :class:`~gtvmin.solvers.federated.fed_avg.FedAvg`.

    Notes
    -----
    With R = 1 this is gradient descent on ``sum_i p_i min_v L_i(v) + (lam/2) ||v - w||^2``, FedProx's function with
    ``mu = lam``.  More are biased as FedAvg's local steps are, with the envelopes' Hessians.  Proximal maps are exact
    here, as the paper's analysis has them; the authors' code adds a weight decay of 1e-3 to the losses, which moves
    the limit.  A participating device receives and sends one vector a round.

    Use it for personal models that are held near a common one, with a limit that is a convex program.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> run = gtv.federate(losses, "pfedme", rounds=200, weights="uniform", lam=2.0)
    >>> run["Oulu"].round(6).tolist(), run["Turku"].round(6).tolist()
    ([0.769231], [2.307692])
    """

    weights: Weights
    lam: float
    local_rounds: LocalSteps = 1
    eta: ArrayLike | None = None
    beta: float = 1.0
    participation: Participation = field(default_factory=All)
    aggregation: Aggregation = "unbiased"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.prox"})
    variables: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if not 0 < self.lam < np.inf:
            raise ValueError(f"lam must be a finite number > 0, got {self.lam!r}")
        if not 0 < self.beta < np.inf:
            raise ValueError(f"beta must be a finite number > 0, got {self.beta!r}")
        if self.aggregation not in ("unbiased", "renormalised"):
            raise ValueError(f"aggregation must be 'unbiased' or 'renormalised', got {self.aggregation!r}")

    def init(self, form: StandardForm, start: Point | None) -> PFedMeState:
        """The mean of the start's models, or zero."""
        p, n = aggregation_weights(form, self.weights), form.n_nodes
        bound = 2.0 / self.lam + smoothness_bound(form)
        expected, c = expected_and_amplification(self.participation, p, unbiased=self.aggregation == "unbiased")
        steps = local_steps(form, self.local_rounds, name="local_rounds")
        reason = "2 (1 / lam + 1 / L_i)"
        eta = averaged_step_sizes(self.eta, bound, reason, form, steps=steps, amplification=self.beta * c)
        prox = ProximalMap(form.local, np.full(n, 1.0 / self.lam))
        setup = PFedMeSetup(p, prox, eta, steps, device_keys(form, self.seed), expected)
        return PFedMeState(starting_model(form, start, p), 0, np.zeros(n), setup)

    def step(self, form: StandardForm, state: PFedMeState) -> PFedMeState:
        """One round."""
        setup = state.setup
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        steps = np.where(counts > 0, setup.steps, 0)
        local = np.tile(state.model, (form.n_nodes, 1))
        # local rounds: the personal model of the local one, and a step of the local one towards it
        for r in range(int(steps.max(initial=0))):
            personal = setup.prox(local)
            move = (setup.eta * self.lam)[:, None] * (local - personal)
            local = local - np.where((r < steps)[:, None], move, 0.0)
        # server: w = (1 - beta) w + beta mean
        average = server_average(state.model, local, setup.p, counts, setup.expected)
        model = (1.0 - self.beta) * state.model + self.beta * average
        return PFedMeState(model, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: PFedMeState) -> Point:
        """The personal models of the server's model."""
        return Point(state.setup.prox(np.tile(state.model, (form.n_nodes, 1))))

    def traffic(self, form: StandardForm, state: PFedMeState) -> Traffic:
        """One model down and one up for each device that takes part."""
        return server_traffic(form, state.counts, proxes=state.setup.steps.astype(float))
