"""SCAFFOLD: local gradient steps that are corrected by control variates.

Algorithm 1 of S. P. Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning" (2020),
arXiv 1910.06378.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import minibatch, points_per_round
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, gradient_at, local_steps
from .minibatch import Minibatch
from .participation import All, Participation, server_average
from .start import starting_model
from .step_sizes import smoothness_bound, step_sizes
from .streams import Keys, device_keys

__all__ = ["Scaffold", "ScaffoldSetup", "ScaffoldState"]


@dataclass(frozen=True, eq=False, slots=True)
class ScaffoldSetup:
    """What stays the same: weights p of the controls and q of the models, step sizes, numbers of steps, keys."""

    p: Array
    q: Array
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class ScaffoldState:
    """Server's model and control c, the devices' controls c_i, rounds done, and who took part in the last one."""

    model: Array
    c: Array
    c_i: Array
    round: int
    counts: Array
    setup: ScaffoldSetup


@dataclass(frozen=True)
class Scaffold:
    """FedAvg whose local steps follow ``grad L_i(y) - c_i + c``: the drift of each device is taken out.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the controls, ``c = sum_i p_i c_i``: these decide which ``sum_i p_i L_i`` is minimised.
    local_steps : int or sequence of int
        Gradient steps K a round, at least one.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / (K max_i L_i)`` with option I, ``0.95 / max_i L_i`` with option II.
    eta_g : float
        The server's learning rate.
    option : {"I", "II"}
        The new control of a device: its gradient at the server's model, or the mean of the gradients of its local
        steps, which costs no further gradient.
    model_weights : like weights, optional
        Weights by which the server averages the models of those who take part, renormalised; they have no influence on
        the limit.  Default: p.
    batch, participation, seed
        As for :class:`~gtvmin.solvers.federated.fed_avg.FedAvg`; a batch is not used for the controls of option I.

    Notes
    -----
    The limit is the minimiser of ``sum_i p_i L_i`` for any number of local steps, with ``c_i = grad L_i``, whoever
    takes part.  Rounds keep ``c - sum_i p_i c_i``: it is zero from the start here, and a state in which it is not tends
    to a model with another mean gradient.  From zero controls the first round is that of FedAvg.  Option I needs
    smaller steps.
    A participating device receives and sends two vectors a round.

    Use it where few devices take part in a round, with several local gradient steps, and the limit must be exact.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "scaffold", rounds=200, weights="uniform", local_steps=5).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    eta_g: float = 1.0
    option: Literal["I", "II"] = "II"
    model_weights: Weights | None = None
    batch: Minibatch | int | None = None
    participation: Participation = field(default_factory=All)
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model", "c", "c_i")

    def __post_init__(self) -> None:
        if self.option not in ("I", "II"):
            raise ValueError(f"option must be 'I' or 'II', got {self.option!r}")
        if not 0 < self.eta_g < np.inf:
            raise ValueError(f"eta_g must be a finite number > 0, got {self.eta_g!r}")

    def init(self, form: StandardForm, start: Point | None) -> ScaffoldState:
        """Line 1: the mean of the start's models, or zero, and zero controls."""
        p = aggregation_weights(form, self.weights)
        q = p if self.model_weights is None else aggregation_weights(form, self.model_weights)
        steps = local_steps(form, self.local_steps)
        if not (steps > 0).all():
            raise ValueError("local_steps must be at least 1: a device's control needs a step")
        eta = step_sizes("eta", self.eta, smoothness_bound(form), "2 / L_i", form)
        if self.eta is None:
            eta = np.full(form.n_nodes, 0.5 * eta.min() / (steps.max() if self.option == "I" else 1))
        setup = ScaffoldSetup(p, q, eta, steps, device_keys(form, self.seed))
        nobody, zero = np.zeros(form.n_nodes), np.zeros((form.n_nodes, form.dim))
        return ScaffoldState(starting_model(form, start, p), np.zeros(form.dim), zero, 0, nobody, setup)

    def step(self, form: StandardForm, state: ScaffoldState) -> ScaffoldState:
        """One round."""
        setup = state.setup
        # lines 3-6: choose the devices, send them model and control
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        active = counts > 0
        # lines 7-11: local steps along corrected gradients
        local = descend(
            form,
            np.broadcast_to(state.model, (form.n_nodes, form.dim)),
            np.where(active, setup.steps, 0),
            setup.eta,
            linear=state.c - state.c_i,
            batch=minibatch(self.batch),
            keys=setup.keys,
            round=state.round,
        )
        # line 12: new controls
        if self.option == "I":
            fresh = gradient_at(form, state.model)
        else:
            fresh = state.c_i - state.c + (state.model - local) / (setup.steps * setup.eta)[:, None]
        c_i = np.where(active[:, None], fresh, state.c_i)
        # lines 15-17: average the models; the server's control moves by the changes of the devices' controls
        average = server_average(state.model, local, setup.q, counts, None)
        model = state.model + self.eta_g * (average - state.model)
        c = state.c + np.einsum("i,ij->j", setup.p, c_i - state.c_i)
        return ScaffoldState(model, c, c_i, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: ScaffoldState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: ScaffoldState) -> Traffic:
        """Model and control down, their changes up."""
        steps = state.setup.steps.astype(float)
        points = points_per_round(form, steps, minibatch(self.batch))
        if self.option == "I":
            steps, points = steps + 1.0, points + points_per_round(form, np.ones(form.n_nodes), None)
        return server_traffic(form, state.counts, up=2, down=2, gradients=steps, points=points)
