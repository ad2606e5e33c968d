"""FedDyn: proximal terms that are shifted by what each device's gradient was.

Algorithm 1 of D. A. E. Acar et al., "Federated Learning Based on Dynamic Regularization" (2021), arXiv 2111.04263,
whose alpha is mu here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, Point, StandardForm
from .form import Weights, aggregation_weights
from .ledger import Traffic
from .local_prox import LocalProx, prox_capability, proximal_strength
from .local_steps import LocalSteps
from .participation import All, Participation, server_average
from .start import starting_model
from .streams import Keys, device_keys

__all__ = ["FedDyn", "FedDynSetup", "FedDynState"]


@dataclass(frozen=True, eq=False, slots=True)
class FedDynSetup:
    """What stays the same: weights p of h and q of the models, the proximal map, keys."""

    p: Array
    q: Array
    prox: LocalProx
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class FedDynState:
    """Server's model and h, the devices' g_i, rounds done, and who took part in the last one."""

    model: Array
    h: Array
    g: Array
    round: int
    counts: Array
    setup: FedDynSetup


@dataclass(frozen=True)
class FedDyn:
    """Each device minimises ``L_i(v) - <g_i, v> + (mu/2) ||v - w||^2``, where g_i tends to its gradient at the limit.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the server's ``h = sum_i p_i g_i``: these decide which ``sum_i p_i L_i`` is minimised.
    mu : float, optional
        Strength of the proximal term.  Default: ``sqrt(min_i mu_i max_i L_i)`` with the losses' curvatures.
    local_steps : int or sequence of int, optional
        Gradient steps, from the server's model, instead of minimisation.
    eta : float or array_like (n_nodes,), optional
        Their size.  Default: ``0.95 / (max_i L_i + mu)``.
    model_weights : like weights, optional
        Weights by which the server averages the models of those who take part, renormalised; they have no influence on
        the limit.  Default: p.
    participation : Participation
        Who takes part in a round.
    seed : int
        Of its draws.

    Notes
    -----
    The limit is the minimiser of ``sum_i p_i L_i`` for any mu > 0, also with inexact minimisation, since gradient steps
    that start at the limit stay there.  Rounds keep ``h - sum_i p_i g_i``, zero from the start here.  With exact
    minimisation and all devices the ``y_i = v_i + g_i / mu`` are those of FedDR with relaxation 1: Douglas-Rachford
    splitting.  A participating device receives and sends one vector a round.

    Use it where devices can minimise exactly and keep one vector, and exact consensus is wanted from one vector each
    way.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "feddyn", rounds=200, weights="uniform").model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    mu: float | None = None
    local_steps: LocalSteps | None = None
    eta: ArrayLike | None = None
    model_weights: Weights | None = None
    participation: Participation = field(default_factory=All)
    seed: int = 0
    variables: ClassVar[tuple[str, ...]] = ("model", "h", "g")

    @property
    def requires(self) -> frozenset[str]:
        """The proximal map, or gradients."""
        return prox_capability(self.local_steps)

    def init(self, form: StandardForm, start: Point | None) -> FedDynState:
        """The mean of the start's models, or zero, with g and h zero."""
        p = aggregation_weights(form, self.weights)
        q = p if self.model_weights is None else aggregation_weights(form, self.model_weights)
        prox = LocalProx.of(form, proximal_strength(form, self.mu), self.local_steps, self.eta)
        setup = FedDynSetup(p, q, prox, device_keys(form, self.seed))
        nobody, zero = np.zeros(form.n_nodes), np.zeros((form.n_nodes, form.dim))
        return FedDynState(starting_model(form, start, p), np.zeros(form.dim), zero, 0, nobody, setup)

    def step(self, form: StandardForm, state: FedDynState) -> FedDynState:
        """One round."""
        setup, mu = state.setup, state.setup.prox.mu
        # choose the devices, send them the model
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        active = (counts > 0)[:, None]
        sent = np.tile(state.model, (form.n_nodes, 1))
        # each of them minimises L_i(v) - <g_i, v> + (mu/2) ||v - w||^2, and updates its g_i
        moved = setup.prox(form, sent + state.g / mu, sent) - sent
        g = state.g - mu * np.where(active, moved, 0.0)
        # server: h over all devices, the mean of the models over those who took part
        h = state.h - mu * np.einsum("i,ij->j", setup.p, np.where(active, moved, 0.0))
        model = server_average(state.model, sent + moved, setup.q, counts, None)
        if counts.any():
            model = model - h / mu
        return FedDynState(model, h, g, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: FedDynState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedDynState) -> Traffic:
        """One model down and one up for each device that takes part."""
        return state.setup.prox.traffic(form, state.counts)
