"""Federated stochastic gradient descent on GTV minimisation.

Algorithm 5 (FedSGD) of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.5: FedGD with gradients
from a few data points.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, Point, StandardForm
from .fed_gd import coupling_gradient, network_step_bound
from .ledger import Traffic, edge_traffic
from .local_steps import data_points
from .minibatch import Minibatch
from .neighbours import directed_edges
from .start import starting_models
from .streams import Keys, device_keys

__all__ = ["FedSGD", "FedSGDState"]


@dataclass(frozen=True, eq=False, slots=True)
class FedSGDState:
    """Parameters of all devices, their first steps and their keys."""

    W: Array
    round: int
    eta: Array
    keys: Keys


@dataclass(frozen=True)
class FedSGD:
    """FedGD whose devices draw a minibatch of their data points each round.

    Parameters
    ----------
    batch : Minibatch or int
        Data points a round; an int draws as many with replacement.
    eta : float or array_like (n_nodes,), optional
        Learning rate.  Default: a tenth of what FedGD takes.
    half_life : float, optional
        Rounds after which the rate has halved, ``eta_t = eta / (1 + t / half_life)``.  Default: it is constant.
    seed : int
        Of the draws.

    Notes
    -----
    With a constant rate and batches that are drawn anew the parameters do not converge.  For quadratic losses their
    mean is GTV minimisation's solution exactly, and their covariance S solves ``S = E[A S A^T] + eta^2 N`` with the
    random matrix A of a round and the covariance N of the gradients at the solution
    (:func:`gtvmin.federated.operators.stationary_covariance`).  For others the mean is off by a multiple of eta, and
    epochs (reshuffled batches) bias even quadratic losses.  With a half-life the limit is exact.

    Use it as FedGD where a device has too many data points for whole gradients, and a neighbourhood of the solution is
    enough.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> net = gtv.FLNetwork.from_edges([(0, 1)])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    >>> run = gtv.federate(problem, "fedsgd", rounds=200, batch=1, eta=0.2, half_life=50.0, seed=0)
    >>> run.weights.round(3).tolist(), run.history[-1].points
    ([[1.0], [2.0]], 400.0)
    """

    batch: Minibatch | int
    eta: ArrayLike | None = None
    half_life: float | None = None
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"data", "local.gradient", "couplings.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W",)

    def __post_init__(self) -> None:
        if self.half_life is not None and not 0 < self.half_life < np.inf:
            raise ValueError(f"half_life must be a number of rounds > 0, got {self.half_life!r}")

    @property
    def _batch(self) -> Minibatch:
        return self.batch if isinstance(self.batch, Minibatch) else Minibatch(self.batch)

    def init(self, form: StandardForm, start: Point | None) -> FedSGDState:
        """Line 1: parameters of the start, or zero."""
        eta = network_step_bound(form, self.eta) * (0.1 if self.eta is None else 1.0)
        return FedSGDState(starting_models(form, start), 0, eta, device_keys(form, self.seed))

    def step(self, form: StandardForm, state: FedSGDState) -> FedSGDState:
        """Lines 3-6: share with the neighbours, draw a batch, and step along its gradient and towards them."""
        data = data_points(form)
        if data is None:
            raise ValueError("FedSGD needs a form with data points")
        g = data.batch_gradient(state.W, self._batch.rows(data, state.keys, state.round, 0, 1))
        g += coupling_gradient(form, state.W)
        fade = 1.0 if self.half_life is None else 1.0 / (1.0 + state.round / self.half_life)
        return replace(state, W=state.W - fade * state.eta[:, None] * g, round=state.round + 1)

    def point(self, form: StandardForm, state: FedSGDState) -> Point:
        """The iterate; the couplings' gradients are its flows."""
        return Point(state.W, tuple(t.function.gradient(t.map.apply(state.W)) for t in form.couplings))

    def traffic(self, form: StandardForm, state: FedSGDState) -> Traffic:
        """One vector over each edge, each way, and a batch a device."""
        data = data_points(form)
        points = 0.0 if data is None else self._batch.drawn(data)
        return edge_traffic(form, *directed_edges(form), gradients=1.0, points=points)
