"""Contextual aggregation: the combination of the devices' updates for which the loss is bounded best.

H. T. Nguyen, H. V. Poor, M. Chiang, "Contextual Model Aggregation for Fast and Robust Federated Learning in Edge
Computing" (2022), arXiv 2203.12738.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import points_per_round
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, gradient_at, local_steps
from .participation import All, Participation
from .start import starting_model
from .step_sizes import StepSizeWarning, smoothness_bound, step_sizes
from .streams import COINS, Keys, device_keys, uniforms

__all__ = ["Contextual", "ContextualSetup", "ContextualState"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class ContextualSetup:
    """What stays the same: weights p, beta, step sizes, numbers of steps, keys."""

    p: Array
    beta: float
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class ContextualState:
    """Server's model, rounds done, and which devices made an update and sent their gradients in the last one."""

    model: Array
    round: int
    updated: Mask
    asked: Mask
    setup: ContextualSetup


@dataclass(frozen=True)
class Contextual:
    """``w += sum_k a_k D_k`` where a minimises ``<g, sum_k a_k D_k> + (beta/2) ||sum_k a_k D_k||^2``.

    D_k are the updates of the devices that take part, S, and g is the gradient of ``F = sum_i p_i L_i`` or an estimate.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    beta : float, optional
        Smoothness of F.  Default: ``sum_i p_i L_i``, an upper bound.
    further : int, optional
        The gradient is estimated from S and so many other devices, drawn anew each round (the paper's K_2; 0 is
        possible).  Default: it is exact, from all devices.
    bound : {"context", "expected"}
        The bound for the devices of the round, or in the mean over which ones are drawn.  The latter needs the updates
        of all devices, and those that are drawn enter the model.
    local_steps : int or sequence of int
        Gradient steps of an update, at least one.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / max_i L_i``.
    participation : Participation
        Who takes part in a round.
    seed : int
        Of all draws.

    Notes
    -----
    The move is ``-P g / beta`` with the projector P onto the span of the updates: if they span the space it is gradient
    descent with step 1/beta, whatever the devices did.  With the exact gradient and beta at least F's smoothness,
    ``F(w+) <= F(w) - (beta/2) ||w+ - w||^2`` for any S; for beta at most half of it the iteration may diverge.  The
    limit is then the minimiser of F, unless there are fewer devices than parameters and several local steps: it can
    stall at another point while F falls in every round.  With an estimated gradient the models do not converge.
    ``further=0``, one local step and ``beta = 1 / eta`` is FedAvg.

    Use it where gradients of all devices can be had each round but few devices can do local work, and the loss must
    fall in every round.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "contextual", rounds=200, weights="uniform", local_steps=5).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    beta: float | None = None
    further: int | None = None
    bound: Literal["context", "expected"] = "context"
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    participation: Participation = field(default_factory=All)
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if self.beta is not None and not 0 < self.beta < np.inf:
            raise ValueError(f"beta must be a finite number > 0, got {self.beta!r}")
        if self.further is not None and (self.further != int(self.further) or self.further < 0):
            raise ValueError(f"further must be a number of devices >= 0, got {self.further!r}")
        if self.bound not in ("context", "expected"):
            raise ValueError(f"bound must be 'context' or 'expected', got {self.bound!r}")

    def init(self, form: StandardForm, start: Point | None) -> ContextualState:
        """The mean of the start's models, or zero."""
        p, n = aggregation_weights(form, self.weights), form.n_nodes
        eta = step_sizes("eta", self.eta, smoothness_bound(form), "2 / L_i", form)
        eta = np.full(n, 0.5 * eta.min()) if self.eta is None else eta
        steps = local_steps(form, self.local_steps)
        if not (steps > 0).all():
            raise ValueError("local_steps must be at least 1")
        smoothness = float(np.where(p > 0, p * form.local.smoothness, 0.0).sum())
        beta = smoothness if self.beta is None else self.beta
        if not beta > 0.5 * smoothness:
            warnings.warn(
                f"beta = {beta:.6g} is not above {0.5 * smoothness:.6g} = sum_i p_i L_i / 2: the loss may rise",
                StepSizeWarning,
                stacklevel=3,
            )
        setup = ContextualSetup(p, beta, eta, steps, device_keys(form, self.seed))
        nobody = np.zeros(n, dtype=bool)
        return ContextualState(starting_model(form, start, p), 0, nobody, nobody, setup)

    def step(self, form: StandardForm, state: ContextualState) -> ContextualState:
        """One round."""
        setup = state.setup
        # choose the devices, and those that send their gradients
        drawn = self.participation.counts(setup.keys, setup.p, state.round) > 0
        updated = np.ones_like(drawn) if self.bound == "expected" and drawn.any() else drawn
        asked = self._asked(setup.keys, drawn, state.round)
        sent = np.tile(state.model, (form.n_nodes, 1))
        update = descend(form, sent, np.where(updated, setup.steps, 0), setup.eta) - sent
        model = state.model
        share = np.where(asked, setup.p, 0.0)
        if drawn.any() and share.any():
            gradient = np.einsum("i,ij->j", share / share.sum(), gradient_at(form, state.model))
            model = model + _combination(update, drawn, -gradient / setup.beta, self.bound)
        return ContextualState(model, state.round + 1, updated, asked, setup)

    def _asked(self, keys: Keys, drawn: Mask, round: int) -> Mask:
        """Devices whose gradients are in the estimate: all, or S and some others."""
        if self.further is None or not drawn.any():
            return np.full_like(drawn, bool(drawn.any()))
        others = np.flatnonzero(~drawn)
        first = others[np.argsort(uniforms(keys[others], round, COINS), kind="stable")[: self.further]]
        asked = drawn.copy()
        asked[first] = True
        return asked

    def point(self, form: StandardForm, state: ContextualState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: ContextualState) -> Traffic:
        """One vector down; the update, the gradient, or both up; the first local gradient is the one that is sent."""
        both, update, gradient = (
            mask.astype(float)
            for mask in (state.updated & state.asked, state.updated & ~state.asked, state.asked & ~state.updated)
        )
        steps, one = state.setup.steps.astype(float), np.ones(form.n_nodes)
        points, point = points_per_round(form, steps, None), points_per_round(form, one, None)
        return (
            server_traffic(form, both, up=2, gradients=steps, points=points)
            + server_traffic(form, update, gradients=steps, points=points)
            + server_traffic(form, gradient, gradients=one, points=point)
        )


def _combination(update: Array, drawn: Mask, target: Array, bound: str) -> Array:
    """The drawn updates, combined to come near the target ``-g / beta``.

    By least squares: the normal equations with the matrix of inner products are singular for more updates than
    parameters.
    """
    if bound == "context":
        span = update[drawn].T
        return np.asarray(span @ np.linalg.lstsq(span, target)[0])
    # the mean over the sets of this size: pairs are drawn together with probability c times that of one of them
    n, size = len(drawn), int(drawn.sum())
    c = (size - 1.0) / (n - 1.0) if n > 1 else 1.0
    G = update @ update.T
    a = np.linalg.lstsq((1.0 - c) * np.diag(np.diag(G)) + c * G, update @ target)[0]
    return np.asarray(np.where(drawn, a, 0.0) @ update)
