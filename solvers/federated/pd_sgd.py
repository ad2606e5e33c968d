"""Periodic decentralised SGD: several local steps, then an average with the neighbours.

Algorithm 1 (PD-SGD) of X. Li, W. Yang, S. Wang, Z. Zhang, "Communication-Efficient Local Decentralized SGD Methods"
(2019), arXiv 1910.09126, with one averaging after the local steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import minibatch, points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import LocalSteps, descend, local_steps
from .minibatch import Minibatch
from .mixing import Mixing, MixingMatrix
from .start import starting_models
from .step_sizes import smoothness_bound, step_sizes
from .streams import Keys, device_keys

__all__ = ["PDSGD", "PDSGDSetup", "PDSGDState"]


@dataclass(frozen=True, eq=False, slots=True)
class PDSGDSetup:
    """What stays the same: mixing matrix, step sizes, numbers of steps, keys."""

    mixing: Mixing
    eta: Array
    steps: NDArray[np.int64]
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class PDSGDState:
    """Parameters of all devices and rounds done."""

    W: Array
    round: int
    setup: PDSGDSetup


@dataclass(frozen=True)
class PDSGD:
    """FedAvg without a server: local gradient steps of every device, then ``W <- M W``.

    Parameters
    ----------
    mixing : {"metropolis", "lazy"} or array_like (n_nodes, n_nodes)
        The mixing matrix M, see :class:`~gtvmin.solvers.federated.mixing.Mixing`; one with negative eigenvalues is
        refused.
    local_steps : int or sequence of int
        Gradient steps a round, the same for all devices or one number for each.
    eta : float or array_like (n_nodes,), optional
        Local learning rate.  Default: ``0.95 / max_i L_i``.
    batch : Minibatch or int, optional
        Data points a local step; an int draws as many with replacement.  Default: all.
    seed : int
        Of the draws.

    Notes
    -----
    The limit is biased, and no consensus.  For quadratic losses it minimises
    ``sum_i <w_i - w_i*, (I - P_i) (w_i - w_i*)> / 2 + sum_k <w_k, ((M^-1 - I) W)_k> / 2`` with
    ``P_i = (I - eta Q_i)^K`` and w_i* the device's own minimiser.  One local step is decentralised gradient descent,
    adapt-then-combine; with all entries of M equal it is FedAvg with uniform weights.  Each device sends one vector to
    its neighbours a round.

    Use it as FedAvg where there is no server, with the same bias.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> gtv.federate(problem, "pdsgd", rounds=100, local_steps=2, eta=0.25).weights.round(6).tolist()
    [[0.857143], [2.142857]]
    """

    mixing: MixingMatrix = "lazy"
    local_steps: LocalSteps = 1
    eta: ArrayLike | None = None
    batch: Minibatch | int | None = None
    seed: int = 0
    variables: ClassVar[tuple[str, ...]] = ("W",)

    @property
    def requires(self) -> frozenset[str]:
        """Gradients, and data points to draw."""
        return frozenset({"local.gradient"} if self.batch is None else {"local.gradient", "data"})

    def init(self, form: StandardForm, start: Point | None) -> PDSGDState:
        """Parameters of the start, or zero."""
        mixing = Mixing.of(form, self.mixing)
        mixing.require_semidefinite()
        eta = step_sizes("eta", self.eta, smoothness_bound(form), "2 / L_i", form)
        if self.eta is None:
            eta = np.full(form.n_nodes, 0.5 * eta.min())
        setup = PDSGDSetup(mixing, eta, local_steps(form, self.local_steps), device_keys(form, self.seed))
        return PDSGDState(starting_models(form, start), 0, setup)

    def step(self, form: StandardForm, state: PDSGDState) -> PDSGDState:
        """Local steps, then one average."""
        setup = state.setup
        local = descend(
            form, state.W, setup.steps, setup.eta, batch=minibatch(self.batch), keys=setup.keys, round=state.round
        )
        return replace(state, W=setup.mixing.apply(local), round=state.round + 1)

    def point(self, form: StandardForm, state: PDSGDState) -> Point:
        """The iterate."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: PDSGDState) -> Traffic:
        """One vector over each edge, each way."""
        M, steps = state.setup.mixing, state.setup.steps.astype(float)
        points = points_per_round(form, steps, minibatch(self.batch))
        return edge_traffic(form, M.source, M.target, gradients=steps, points=points)
