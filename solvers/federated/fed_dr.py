"""FedDR: Douglas-Rachford splitting between the devices' losses and the server's regulariser.

Algorithm 1 of Q. Tran-Dinh, N. H. Pham, D. T. Phan, L. M. Nguyen, "FedDR: Randomized Douglas-Rachford Splitting
Algorithms for Nonconvex Federated Composite Optimization" (2021), arXiv 2103.03452, whose eta is 1/mu and whose alpha
is the relaxation here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, Point, StandardForm
from .form import Weights, aggregation_weights
from .ledger import Traffic
from .local_prox import LocalProx, prox_capability, proximal_strength
from .local_steps import LocalSteps
from .participation import All, Participation
from .start import starting_model
from .streams import Keys, device_keys

__all__ = ["FedDR", "FedDRSetup", "FedDRState", "Regulariser"]


class Regulariser(Protocol):
    """A convex function r of the server's model, such as a loss ``0.1 * L1()``."""

    def prox(self, v: Array, step: float) -> Array:
        """``argmin_w r(w) + ||w - v||^2 / (2 step)``."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class FedDRSetup:
    """What stays the same: weights p, the proximal map, keys."""

    p: Array
    prox: LocalProx
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class FedDRState:
    """Server's model (the paper's x-bar), the devices' y_i and x_i, rounds done, who took part in the last one."""

    model: Array
    y: Array
    x: Array
    round: int
    counts: Array
    setup: FedDRSetup


@dataclass(frozen=True)
class FedDR:
    """Devices move ``y_i += a (w - x_i)`` and send ``2 x_i - y_i`` with ``x_i = prox(y_i)``; the server averages.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    mu : float, optional
        ``x_i = argmin_x L_i(x) + (mu/2) ||x - y_i||^2``.  Default: ``sqrt(min_i mu_i max_i L_i)``.
    relaxation : float
        The a above, above 0 and at most 2; with 1 and all devices it is FedDyn, with 2 FedSplit, for which some
        strong convexity is needed.
    regulariser : Regulariser, optional
        A convex function r that the server adds; declare it as a loss, such as ``0.1 * gtv.L1()``.
    local_steps : int or sequence of int, optional
        Gradient steps, from the server's model, instead of minimisation.
    eta : float or array_like (n_nodes,), optional
        Their size.  Default: ``0.95 / (max_i L_i + mu)``.
    participation : Participation
        Who takes part in a round.
    seed : int
        Of its draws.

    Notes
    -----
    The limit of the server's model is the minimiser of ``sum_i p_i L_i + r`` for any mu > 0, whoever takes part; the
    y_i do not agree.  A participating device receives and sends one vector a round.

    Use it where devices can minimise exactly, few of them take part in a round, or the server has a regulariser.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "feddr", rounds=200, weights="uniform", regulariser=2.5 * gtv.L1()).model.round(6).tolist()
    [1.5]
    """

    weights: Weights
    mu: float | None = None
    relaxation: float = 1.0
    regulariser: Regulariser | None = None
    local_steps: LocalSteps | None = None
    eta: ArrayLike | None = None
    participation: Participation = field(default_factory=All)
    seed: int = 0
    variables: ClassVar[tuple[str, ...]] = ("model", "y", "x")

    def __post_init__(self) -> None:
        if not 0 < self.relaxation <= 2:
            raise ValueError(f"relaxation must be above 0 and at most 2, got {self.relaxation!r}")

    @property
    def requires(self) -> frozenset[str]:
        """The proximal map, or gradients."""
        return prox_capability(self.local_steps)

    def init(self, form: StandardForm, start: Point | None) -> FedDRState:
        """All of them at the mean of the start's models, or at zero."""
        p = aggregation_weights(form, self.weights)
        prox = LocalProx.of(form, proximal_strength(form, self.mu), self.local_steps, self.eta)
        model = starting_model(form, start, p)
        at = np.tile(model, (form.n_nodes, 1))
        return FedDRState(model, at, at, 0, np.zeros(form.n_nodes), FedDRSetup(p, prox, device_keys(form, self.seed)))

    def step(self, form: StandardForm, state: FedDRState) -> FedDRState:
        """One round."""
        setup = state.setup
        # step 3: choose the devices, send them x-bar
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        active = (counts > 0)[:, None]
        sent = np.tile(state.model, (form.n_nodes, 1))
        # step 4: y_i moves, x_i = prox(y_i)
        y = np.where(active, state.y + self.relaxation * (sent - state.x), state.y)
        x = np.where(active, setup.prox(form, y, sent), state.x)
        # step 5: the mean of all 2 x_i - y_i, of which those who took part sent the change; r at the server
        model = np.einsum("i,ij->j", setup.p, 2.0 * x - y)
        if self.regulariser is not None:
            model = np.asarray(self.regulariser.prox(model, 1.0 / setup.prox.mu))
        return FedDRState(model, y, x, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: FedDRState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedDRState) -> Traffic:
        """One vector down and one up for each device that takes part."""
        return state.setup.prox.traffic(form, state.counts)
