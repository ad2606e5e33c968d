"""Ditto: FedAvg, and beside it a model of its own for every device, held near the global one.

Algorithm 1 of T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through Personalization"
(2021), arXiv 2012.04221.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import Aggregation, AveragedGlobalModel, FedAvgSetup, FedAvgState, points_per_round
from .form import Weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, local_steps
from .participation import All, Participation
from .start import starting_models
from .step_sizes import step_sizes

__all__ = ["Ditto", "DittoState"]


@dataclass(frozen=True, eq=False, slots=True)
class DittoState:
    """Server's model, the devices' own models V, rounds done, who took part in the last one, and constants."""

    model: Array
    V: Array
    round: int
    counts: Array
    setup: FedAvgSetup
    eta_personal: Array
    personal_steps: NDArray[np.int64]


@dataclass(frozen=True)
class Ditto(AveragedGlobalModel):
    """The server's model w by FedAvg; device i uses ``v_i``, by steps on ``L_i(v) + (lam/2) ||v - w||^2``.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices in the global model.
    lam : float
        Strength of the proximal term.
    local_steps, eta : as for FedAvg
        Of the global model.
    personal_steps : int or sequence of int
        Gradient steps a round on the own model.
    eta_personal : float or array_like (n_nodes,), optional
        Their size.  Default: ``0.95 / (L_i + lam)``.
    participation, aggregation, seed
        As for :class:`~gtvmin.solvers.federated.fed_avg.FedAvg`.

    Notes
    -----
    The global model does not see the personal ones.  Its limit w is FedAvg's, with its bias if there are several local
    steps, and the limit of v_i is the proximal map of L_i at that w: for any number of personal steps, and not where
    both are minimised jointly.  A participating device receives and sends one vector a round.

    Use it to add personal models to a global model that is trained anyway: the global training does not change.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> run = gtv.federate(losses, "ditto", rounds=200, weights="uniform", lam=2.0)
    >>> run["Oulu"].round(6).tolist(), run["Turku"].round(6).tolist()
    ([1.0], [2.4])
    """

    weights: Weights
    lam: float
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    personal_steps: LocalSteps = 1
    eta_personal: ArrayLike | None = None
    participation: Participation = field(default_factory=All)
    aggregation: Aggregation = "unbiased"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model", "V")

    def __post_init__(self) -> None:
        if not 0 < self.lam < np.inf:
            raise ValueError(f"lam must be a finite number > 0, got {self.lam!r}")

    def init(self, form: StandardForm, start: Point | None) -> DittoState:
        """The start's models as the personal ones, and their mean; or zero."""
        average = self.averaging.init(form, start)
        bound = 2.0 / (form.local.smoothness + self.lam)
        eta = step_sizes("eta_personal", self.eta_personal, bound, "2 / (L_i + lam)", form)
        eta = 0.5 * eta if self.eta_personal is None else eta
        V = starting_models(form, start)
        steps = local_steps(form, self.personal_steps, name="personal_steps", least=1)
        return DittoState(average.model, V, 0, average.counts, average.setup, eta, steps)

    def step(self, form: StandardForm, state: DittoState) -> DittoState:
        """One round."""
        # lines 3-4 and 8: choose the devices; local steps on the global model, and their mean
        average = self.averaging.step(form, FedAvgState(state.model, state.round, state.counts, state.setup))
        # line 6: v_i -= eta (grad L_i(v_i) + lam (v_i - w)), with the w that the device received
        sent = np.tile(state.model, (form.n_nodes, 1))
        steps = np.where(average.counts > 0, state.personal_steps, 0)
        V = descend(form, state.V, steps, state.eta_personal, mu=self.lam, anchor=sent)
        constants = (state.eta_personal, state.personal_steps)
        return DittoState(average.model, V, average.round, average.counts, state.setup, *constants)

    def point(self, form: StandardForm, state: DittoState) -> Point:
        """Each device's own model."""
        return Point(state.V)

    def traffic(self, form: StandardForm, state: DittoState) -> Traffic:
        """One model down and one up for each device that takes part."""
        steps = (state.setup.steps + state.personal_steps).astype(float)
        points = points_per_round(form, steps, None)
        return server_traffic(form, state.counts, gradients=steps, points=points)
