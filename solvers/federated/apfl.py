"""APFL: each device mixes the global model with one of its own.

Algorithm 1 of Y. Deng, M. M. Kamani, M. Mahdavi, "Adaptive Personalized Federated Learning" (2020), arXiv 2003.13461.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import Aggregation, AveragedGlobalModel, FedAvgSetup, points_per_round
from .form import Weights, per_device
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, gradient
from .participation import All, Participation, server_average
from .start import starting_models

__all__ = ["APFL", "APFLState"]


@dataclass(frozen=True, eq=False, slots=True)
class APFLState:
    """Server's model, the devices' own parts V, mixture weights, rounds done, who took part in the last one."""

    model: Array
    V: Array
    mixture: Array
    round: int
    counts: Array
    setup: FedAvgSetup


@dataclass(frozen=True)
class APFL(AveragedGlobalModel):
    """Device i uses the mixture ``a_i v_i + (1 - a_i) w`` of its own part and the server's model.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices in the global model.
    mixture : float or array_like (n_nodes,)
        Weights a_i of the own parts, from 0 to 1; where they start, if they adapt.
    local_steps : int or sequence of int
        Steps a round (the paper's tau), of the global part and of the own.
    eta : float or array_like (n_nodes,), optional
        Learning rate.  Default: ``0.95 / max_i L_i``, less with partial participation as in FedAvg.
    eta_mixture : float, optional
        Step size of adaptive mixture weights, which are clipped to [0, 1].  Default: they stay.
    chain_factor : bool
        Whether the step of v_i has the factor a_i that the chain rule gives, as in the paper.  Without, own parts move
        faster, and run away where a_i is zero.
    participation, aggregation, seed
        As for :class:`~gtvmin.solvers.federated.fed_avg.FedAvg`.

    Notes
    -----
    The global part is FedAvg.  With one local step the limit of the mixture is the device's own minimiser, for any
    fixed weight in (0, 1]: only stopping early, or a loss with many minimisers, makes it differ from training alone.
    With more, the global part drifts within a round and is set back at its end, which biases the mixture by O(eta).
    Convergence is as ``1 - eta a^2 mu`` a step, and as ``1 - eta a mu`` without the chain factor.  Adaptive weights
    have a continuum of fixed points, and one that ends at zero leaves its device with the global model.  A
    participating device receives and sends one vector a round.

    Use it for personal models that start near the global one and are stopped early; for a limit that depends on how
    much devices share, take a coupling: pFedMe, FedRelax.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> run = gtv.federate(losses, "apfl", rounds=500, weights="uniform", mixture=0.5)
    >>> run["Oulu"].round(6).tolist(), run["Turku"].round(6).tolist()
    ([0.0], [2.5])
    """

    weights: Weights
    mixture: ArrayLike = 0.5
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    eta_mixture: float | None = None
    chain_factor: bool = True
    participation: Participation = field(default_factory=All)
    aggregation: Aggregation = "unbiased"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model", "V", "mixture")

    def __post_init__(self) -> None:
        a = np.asarray(self.mixture, dtype=float)
        if not ((a >= 0) & (a <= 1)).all():
            raise ValueError(f"mixture must be from 0 to 1, got {self.mixture!r}")
        if not self.chain_factor and not (a > 0).all():
            raise ValueError("mixture must be > 0 without the chain factor: the device's own part would run away")
        if self.eta_mixture is not None and not 0 < self.eta_mixture < np.inf:
            raise ValueError(f"eta_mixture must be a finite number > 0, got {self.eta_mixture!r}")

    def init(self, form: StandardForm, start: Point | None) -> APFLState:
        """The start's models as the own parts, and their mean; or zero."""
        average = self.averaging.init(form, start)
        mixture = per_device("mixture", self.mixture, form.n_nodes)
        if not (average.setup.steps > 0).all():
            raise ValueError("local_steps must be at least 1: a device's own part moves by them")
        V = starting_models(form, start)
        return APFLState(average.model, V, mixture, 0, average.counts, average.setup)

    def step(self, form: StandardForm, state: APFLState) -> APFLState:
        """One round of local steps, and an average of the global parts."""
        setup = state.setup
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        steps = np.where(counts > 0, setup.steps, 0)
        local, V, a = np.tile(state.model, (form.n_nodes, 1)), state.V, state.mixture
        for k in range(int(steps.max(initial=0))):
            local, V, a = self._local_step(form, setup.eta, local, V, a, k < steps)
        model = server_average(state.model, local, setup.p, counts, setup.expected)
        return replace(state, model=model, V=V, mixture=a, round=state.round + 1, counts=counts)

    def _local_step(
        self, form: StandardForm, eta: Array, local: Array, V: Array, a: Array, active: NDArray[np.bool_]
    ) -> tuple[Array, Array, Array]:
        """Global part, own part and mixture weight after a step of the active devices."""
        own = a[:, None]
        g = gradient(form, own * V + (1.0 - own) * local)
        rate = np.where(active, eta, 0.0)[:, None]
        slope = own * g if self.chain_factor else g
        following = a
        if self.eta_mixture is not None:
            along = np.einsum("ij,ij->i", V - local, g)
            following = np.clip(a - np.where(active, self.eta_mixture, 0.0) * along, 0.0, 1.0)
        return local - rate * gradient(form, local), V - rate * slope, following

    def point(self, form: StandardForm, state: APFLState) -> Point:
        """The mixtures."""
        own = state.mixture[:, None]
        return Point(own * state.V + (1.0 - own) * state.model)

    def traffic(self, form: StandardForm, state: APFLState) -> Traffic:
        """One model down and one up for each device that takes part."""
        gradients = np.asarray(2.0 * state.setup.steps)
        points = points_per_round(form, gradients, None)
        return server_traffic(form, state.counts, gradients=gradients, points=points)
