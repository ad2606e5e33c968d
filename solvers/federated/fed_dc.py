"""FedDC: local drift variables, which the devices keep and the server corrects for.

Algorithm 1 of L. Gao et al., "FedDC: Federated Learning with Non-IID Data via Local Drift Decoupling and Correction"
(2022), arXiv 2203.11751.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import points_per_round
from .form import Weights, aggregation_weights, device_name
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, local_steps
from .participation import All, Participation, server_average
from .start import starting_model
from .step_sizes import StepSizeWarning, smoothness_bound, step_sizes
from .streams import Keys, device_keys

__all__ = ["FedDC", "FedDCSetup", "FedDCState", "stability_number"]


@dataclass(frozen=True, eq=False, slots=True)
class FedDCSetup:
    """What stays the same: weights p, step sizes, numbers of steps, keys."""

    p: Array
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class FedDCState:
    """Server's model, the devices' drifts h_i and g_i, rounds done, and who took part in the last one."""

    model: Array
    h: Array
    g: Array
    round: int
    counts: Array
    setup: FedDCSetup


@dataclass(frozen=True)
class FedDC:
    """Local steps on ``L_i(v) + (alpha/2) ||v + h_i - w||^2`` and a correction by what the last round moved.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    alpha : float
        Strength of the penalty of the drift.
    local_steps : int or sequence of int
        Gradient steps K a round, at least one; the paper's variant needs many, see below.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / (max_i L_i + alpha)``.
    variant : {"paper", "official", "drift"}
        What corrects the gradients.  In the paper: ``(g_i - g) / (K eta)`` with g_i the last move of device i and g
        their mean.  In the authors' code: control variates as SCAFFOLD's option II.  "drift" is without a correction.
    participation : Participation
        Who takes part in a round.
    seed : int
        Of its draws.

    Notes
    -----
    If it converges, the limit is the minimiser of ``sum_i p_i L_i``, with ``alpha h_i = -grad L_i`` and mean drift
    zero; in the authors' variant the control variates share this task with the drifts.  The paper's variant is stable
    for ``s (eta alpha + 2 / K) < 2`` with ``s = (1 - (1 - a)^K) / a`` and ``a = eta (q + alpha)``, for every curvature
    q of a loss: never for K = 1, and for small steps only for ``alpha < (K - 1) q``.  Devices with the same losses are
    stable nowhere else; different ones can be, a little outside.  There the drifts grow while the model looks
    converged for many rounds.  The opposite sign of the correction has the same limit, without this condition.  A
    participating device receives and sends two vectors a round.

    Use it to compare with the literature; FedDyn and SCAFFOLD have the same limit for any number of local steps.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "feddc", rounds=200, weights="uniform", alpha=1.0).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    alpha: float
    local_steps: LocalSteps = 20
    eta: ArrayLike | None = None
    variant: Literal["paper", "official", "drift"] = "paper"
    participation: Participation = field(default_factory=All)
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model", "h", "g")

    def __post_init__(self) -> None:
        if not 0 < self.alpha < np.inf:
            raise ValueError(f"alpha must be a finite number > 0, got {self.alpha!r}")
        if self.variant not in ("paper", "official", "drift"):
            raise ValueError(f"variant must be 'paper', 'official' or 'drift', got {self.variant!r}")

    def init(self, form: StandardForm, start: Point | None) -> FedDCState:
        """The mean of the start's models, or zero, without drifts."""
        p, alpha = aggregation_weights(form, self.weights), self.alpha
        steps = local_steps(form, self.local_steps)
        if not (steps > 0).all():
            raise ValueError("local_steps must be at least 1")
        eta = step_sizes("eta", self.eta, smoothness_bound(form, alpha), "2 / (L_i + alpha)", form)
        if self.eta is None:
            eta = np.full(form.n_nodes, 0.5 * eta.min())
        if self.variant == "paper":
            _warn_outside(form, alpha, eta, steps)
        setup = FedDCSetup(p, eta, steps, device_keys(form, self.seed))
        nobody, zero = np.zeros(form.n_nodes), np.zeros((form.n_nodes, form.dim))
        return FedDCState(starting_model(form, start, p), zero, zero, 0, nobody, setup)

    def step(self, form: StandardForm, state: FedDCState) -> FedDCState:
        """One round."""
        setup = state.setup
        rate = (setup.eta * setup.steps)[:, None]
        # choose the devices, send them the model and the mean g of the g_i
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        active = (counts > 0)[:, None]
        sent = np.tile(state.model, (form.n_nodes, 1))
        g = np.einsum("i,ij->j", setup.p, state.g)
        correction = {"paper": (state.g - g) / rate, "official": g - state.g, "drift": None}[self.variant]
        # local steps on the loss, the penalty of the drift and the correction
        local = descend(
            form,
            sent,
            np.where(active[:, 0], setup.steps, 0),
            setup.eta,
            linear=correction,
            mu=self.alpha,
            anchor=sent - state.h,
        )
        moved = local - sent
        # the drift takes up the move, and so does g_i
        h = state.h + np.where(active, moved, 0.0)
        fresh = {"paper": moved, "official": state.g - g - moved / rate, "drift": state.g}[self.variant]
        # server: the mean model of those who took part, and the mean drift of all
        model = server_average(state.model, local, setup.p, counts, None)
        if counts.any():
            model = model + np.einsum("i,ij->j", setup.p, h)
        return FedDCState(model, h, np.where(active, fresh, state.g), state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: FedDCState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedDCState) -> Traffic:
        """Model and mean of the g_i down, model with drift and g_i up."""
        steps = state.setup.steps.astype(float)
        vectors = 1 if self.variant == "drift" else 2
        points = points_per_round(form, steps, None)
        return server_traffic(form, state.counts, up=vectors, down=vectors, gradients=steps, points=points)


def stability_number(curvature: Array, alpha: float, eta: Array, steps: NDArray[np.int64]) -> Array:
    """``s (eta alpha + 2 / K)`` with ``s = (1 - (1 - a)^K) / a`` and ``a = eta (q + alpha)``; stable below 2.

    A round takes the drift h and the move g of a device, along a direction of curvature q and beside a model that
    stands still, to ``(h + d, d)`` with ``d = -s (eta alpha h + g / K)``; both eigenvalues are inside the unit circle
    if and only if this number is below 2.
    """
    a = eta * (curvature + alpha)
    return np.asarray((1.0 - (1.0 - a) ** steps) / a * (eta * alpha + 2.0 / steps))


def _warn_outside(form: StandardForm, alpha: float, eta: Array, steps: NDArray[np.int64]) -> None:
    """The number is largest at an end of the range of curvatures."""
    ends = (form.local.strong_convexity, form.local.smoothness)
    number = np.max([stability_number(q, alpha, eta, steps) for q in ends], axis=0)
    outside = np.flatnonzero(~(number < 2.0))
    if len(outside):
        i = int(outside[0])
        warnings.warn(
            f"s (eta alpha + 2 / K) = {number[i]:.6g} of {device_name(form, i)} is not below 2, with "
            "s = (1 - (1 - a)^K) / a and a = eta (q + alpha): its drift may grow without bound. Take more local steps, "
            "or a variant that needs no such condition",
            StepSizeWarning,
            stacklevel=3,
        )
