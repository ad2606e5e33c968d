"""FOLB: updates weighted by how much each device's gradient agrees with that of all.

H. T. Nguyen, V. Sehwag, S. Hosseinalipour, C. G. Brinton, M. Chiang, H. V. Poor, "Fast-Convergent Federated Learning"
(2021), DOI 10.1109/JSAC.2020.3036952, with one set of devices a round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import points_per_round
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, gradient_at, local_steps
from .participation import All, Participation
from .start import starting_model
from .step_sizes import smoothness_bound, step_sizes
from .streams import Keys, device_keys

__all__ = ["FOLB", "FOLBSetup", "FOLBState"]


@dataclass(frozen=True, eq=False, slots=True)
class FOLBSetup:
    """What stays the same: weights p, step sizes, numbers of steps, keys."""

    p: Array
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class FOLBState:
    """Server's model, rounds done, and who took part in the last one."""

    model: Array
    round: int
    counts: Array
    setup: FOLBSetup


@dataclass(frozen=True)
class FOLB:
    """``w += sum_k p_k I_k D_k / sum_k p_k |I_k|``: updates D_k, ``I_k = <grad L_k(w), g>``, and the mean gradient g.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices, in g and in the sums; the paper's are uniform.
    local_steps : int or sequence of int
        Gradient steps of an update, at least one.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / (max_i L_i + mu)``.
    mu : float
        Strength of a proximal term ``(mu/2) ||v - w||^2``, at least 0.
    half_life : float, optional
        Rounds after which the rate has halved, ``eta_t = eta / (1 + t / half_life)``.  Default: it is constant.
    participation : Participation
        Who takes part in a round.
    seed : int
        Of its draws.

    Notes
    -----
    There is no fixed point, so no convex program: at the minimiser of ``sum_i p_i L_i`` the weights are zero by zero
    while the updates are not zero.  The models stay in a neighbourhood, which shrinks with the rate; no round moves
    farther than the longest update, because the denominator has absolute values.  A participating device receives a
    vector and sends its update and its gradient.

    Use it for fast first rounds on devices that differ; it does not settle, so end with a smaller rate.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> run = gtv.federate(losses, "folb", rounds=200, weights="uniform", eta=0.01)
    >>> bool(abs(run.model[0] - 2.0) < 0.2)
    True
    """

    weights: Weights
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    mu: float = 0.0
    half_life: float | None = None
    participation: Participation = field(default_factory=All)
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if not 0 <= self.mu < np.inf:
            raise ValueError(f"mu must be a finite number >= 0, got {self.mu!r}")
        if self.half_life is not None and not 0 < self.half_life < np.inf:
            raise ValueError(f"half_life must be a number of rounds > 0, got {self.half_life!r}")

    def init(self, form: StandardForm, start: Point | None) -> FOLBState:
        """The mean of the start's models, or zero."""
        p = aggregation_weights(form, self.weights)
        eta = step_sizes("eta", self.eta, smoothness_bound(form, self.mu), "2 / (L_i + mu)", form)
        eta = np.full(form.n_nodes, 0.5 * eta.min()) if self.eta is None else eta
        steps = local_steps(form, self.local_steps)
        if not (steps > 0).all():
            raise ValueError("local_steps must be at least 1")
        setup = FOLBSetup(p, eta, steps, device_keys(form, self.seed))
        return FOLBState(starting_model(form, start, p), 0, np.zeros(form.n_nodes), setup)

    def step(self, form: StandardForm, state: FOLBState) -> FOLBState:
        """One round."""
        setup = state.setup
        # choose the devices, send them the model; they send back update and gradient
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        active = counts > 0
        sent = np.tile(state.model, (form.n_nodes, 1))
        fade = 1.0 if self.half_life is None else 1.0 / (1.0 + state.round / self.half_life)
        steps = np.where(active, setup.steps, 0)
        update = descend(form, sent, steps, fade * setup.eta, mu=self.mu, anchor=sent) - sent
        gradients = gradient_at(form, state.model)
        # server: weights by the agreement with the mean gradient of those who take part
        share = np.where(active, setup.p, 0.0)
        mean = np.einsum("i,ij->j", share, gradients)  # its scale is immaterial
        agreement = share * np.einsum("ij,j->i", gradients, mean)
        scale = np.abs(agreement).sum()
        model = state.model
        if scale > 0:
            model = model + np.einsum("i,ij->j", agreement / scale, update)
        return FOLBState(model, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: FOLBState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FOLBState) -> Traffic:
        """One vector down, two up; the first local gradient is the one that is sent."""
        steps = state.setup.steps.astype(float)
        return server_traffic(form, state.counts, up=2, gradients=steps, points=points_per_round(form, steps, None))
