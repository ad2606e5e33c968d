"""Federated averaging: local gradient steps at the devices, an average at the server.

Algorithms 8 (server) and 9 (device) of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.6;
Algorithm 1 of H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data" (2017),
arXiv 1602.05629.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .form import Weights, aggregation_weights
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, data_points, descend, local_steps
from .minibatch import Minibatch
from .participation import All, Participation, expected_and_amplification, server_average
from .start import starting_model
from .step_sizes import averaged_step_sizes, smoothness_bound
from .streams import Keys, device_keys

__all__ = ["AveragedGlobalModel", "FedAvg", "FedAvgSetup", "FedAvgState", "points_per_round"]

IntArray = NDArray[np.int64]
Aggregation = Literal["unbiased", "renormalised"]


@dataclass(frozen=True, eq=False, slots=True)
class FedAvgSetup:
    """What stays the same over the rounds: weights p, step sizes, numbers of steps, keys, expected participation."""

    p: Array
    eta: Array
    steps: IntArray
    keys: Keys
    expected: Array | None


@dataclass(frozen=True, eq=False, slots=True)
class FedAvgState:
    """Server's model, rounds done, and who took part in the last one."""

    model: Array
    round: int
    counts: Array
    setup: FedAvgSetup


@dataclass(frozen=True)
class FedAvg:
    """The server sends its model, devices make local gradient steps on it, the server averages what they send back.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices, by which the server averages and the objective ``sum_i p_i L_i`` is defined.  There is
        no default: the two words have different minimisers.
    local_steps : int or sequence of int
        Gradient steps a round, the same for all devices or one number for each.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / max_i L_i (1 + K_i (c - 1))``, where c is 1 if all devices take part.
    batch : Minibatch or int, optional
        Data points a local step; an int draws as many with replacement.  Default: all.
    participation : Participation
        Who takes part in a round.
    aggregation : {"unbiased", "renormalised"}
        With partial participation, whether each update is divided by its device's expected participation, or the
        weights of those who take part by their sum, which moves the limit unless p is uniform.
    seed : int
        Of all random draws.

    Notes
    -----
    One local step of all devices is gradient descent on ``sum_i p_i L_i``, and converges for ``eta < 2 / L_i``.  More
    steps are biased: for quadratic losses the limit minimises ``sum_i p_i (w - w_i)^T S_i (w - w_i) / 2`` with
    ``S_i = (I - (I - eta Q_i)^K) / (eta K)`` and w_i the device's own minimiser, for other losses it minimises no
    convex function.  A participating device receives and sends its model once a round.

    With partial participation, unbiased updates weigh more than p in some rounds: the models stay together in mean
    square for ``eta < 2 / (L_i (1 + K_i (c - 1)))``, derived in :mod:`~gtvmin.solvers.federated.participation`.
    Devices that each take part with probability q_i have ``c = 1 + max_i p_i (1 - q_i) / q_i``, which is near one if
    there are many devices; renormalised weights have ``c = 1``.

    Use it where communication is dear and the devices' data are alike; with data that differ one local step, or an
    algorithm with control variates, is exact.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> gtv.federate(losses, "fedavg", rounds=50, weights=[1, 2], local_steps=1).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    batch: Minibatch | int | None = None
    participation: Participation = field(default_factory=All)
    aggregation: Aggregation = "unbiased"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if self.aggregation not in ("unbiased", "renormalised"):
            raise ValueError(f"aggregation must be 'unbiased' or 'renormalised', got {self.aggregation!r}")

    def init(self, form: StandardForm, start: Point | None) -> FedAvgState:
        """Algorithm 8, line 1: the mean of the start's models, or zero."""
        p = aggregation_weights(form, self.weights)
        steps = local_steps(form, self.local_steps)
        expected, c = expected_and_amplification(self.participation, p, unbiased=self.aggregation == "unbiased")
        bound = smoothness_bound(form)
        eta = averaged_step_sizes(self.eta, bound, "2 / L_i", form, steps=steps, amplification=c)
        setup = FedAvgSetup(p, eta, steps, device_keys(form, self.seed), expected)
        return FedAvgState(starting_model(form, start, p), 0, np.zeros(form.n_nodes), setup)

    def step(self, form: StandardForm, state: FedAvgState) -> FedAvgState:
        """One round."""
        setup = state.setup
        # Algorithm 8, lines 3-4: choose the devices, send them the model
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        sent = np.broadcast_to(state.model, (form.n_nodes, form.dim))
        # Algorithm 9, lines 2-5: local gradient steps, from the model
        local = descend(
            form,
            sent,
            np.where(counts > 0, setup.steps, 0),
            setup.eta,
            batch=minibatch(self.batch),
            keys=setup.keys,
            round=state.round,
        )
        # Algorithm 8, line 6: average
        model = server_average(state.model, local, setup.p, counts, setup.expected)
        return FedAvgState(model, state.round + 1, counts, setup)

    def point(self, form: StandardForm, state: FedAvgState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedAvgState) -> Traffic:
        """One model down and one up for each device that takes part."""
        steps = state.setup.steps.astype(float)
        points = points_per_round(form, steps, minibatch(self.batch))
        return server_traffic(form, state.counts, gradients=steps, points=points)


class AveragedGlobalModel:
    """An algorithm beside whose other models FedAvg makes a global one, with the settings of the same names."""

    weights: Weights
    local_steps: LocalSteps
    eta: ArrayLike | None
    participation: Participation
    aggregation: Aggregation
    seed: int

    @property
    def averaging(self) -> FedAvg:
        """What makes the global model."""
        return FedAvg(
            self.weights,
            self.local_steps,
            self.eta,
            participation=self.participation,
            aggregation=self.aggregation,
            seed=self.seed,
        )


def minibatch(batch: Minibatch | int | None) -> Minibatch | None:
    """A number of data points is a minibatch drawn with replacement."""
    return batch if batch is None or isinstance(batch, Minibatch) else Minibatch(batch)


def points_per_round(form: StandardForm, steps: Array, batch: Minibatch | None) -> Array:
    """Data points that each device looks at in ``steps`` gradients; zero where the form does not count them."""
    data = data_points(form)
    if data is None:
        return np.zeros(form.n_nodes)
    return np.asarray(steps * (data.counts if batch is None else batch.drawn(data)))
