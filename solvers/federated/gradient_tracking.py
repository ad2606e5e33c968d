"""Gradient tracking: decentralised gradient descent along an estimate of the mean gradient of all devices.

Algorithm 1 (DIGing) of A. Nedic, A. Olshevsky, W. Shi, "Achieving Geometric Convergence for Distributed Optimization
over Time-Varying Graphs" (2017), DOI 10.1137/16M1084316; adapt-then-combine is the Aug-DGM of J. Xu et al. (2015), DOI
10.1109/CDC.2015.7402509.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..standard_form import Array, Point, StandardForm
from .dgd import one_step_size
from .fed_avg import points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import gradient
from .mixing import Mixing, MixingMatrix, Order, check_order, require_connected
from .random_matchings import DrawnMatchings, RandomMatchings
from .start import starting_models

__all__ = ["GradientTracking", "GradientTrackingState"]


@dataclass(frozen=True, eq=False, slots=True)
class GradientTrackingState:
    """Parameters, estimates of the mean gradient, and gradients of all devices; rounds done, mixing, learning rate."""

    W: Array
    Y: Array
    g: Array
    round: int
    neighbours: Mixing | DrawnMatchings
    eta: float


@dataclass(frozen=True)
class GradientTracking:
    """``W <- M W - eta Y``, ``Y <- M Y + g(W new) - g(W)``; alpha and the edges' weights play no part.

    Parameters
    ----------
    mixing : {"metropolis", "lazy"}, array_like (n_nodes, n_nodes) or RandomMatchings
        The mixing matrix M, see :class:`~gtvmin.solvers.federated.mixing.Mixing`, of a connected network; or one that
        is drawn each round, :class:`~gtvmin.solvers.federated.random_matchings.RandomMatchings`.
    eta : float, optional
        Learning rate.  Default: 0.95 of the bound; there is none for matrices that are drawn.
    order : {"combine-then-adapt", "adapt-then-combine"}
        The second is ``W <- M (W - eta Y)``, ``Y <- M (Y + g(W new) - g(W))``, and takes larger rates.

    Notes
    -----
    The limit is the minimiser of ``sum_i L_i``, at every device.  It rests on ``mean Y = mean g``, which rounds keep
    and ``Y = g`` provides at the start.  Known to converge for ``eta < 2 m^2 / max_i L_i`` with m the least eigenvalue
    of M, if that is positive: elimination of Y gives the iteration of W. Shi et al., "EXTRA" (2015), DOI
    10.1137/14096668X, with the matrices ``2 M - I`` and ``M^2``.  Larger rates often converge.  Each device sends two
    vectors to its neighbours.

    Use it for consensus on networks that change from round to round, for two vectors a neighbour; EXTRA needs one where
    the network stays.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> run = gtv.federate(problem, "gradienttracking", rounds=300, eta=0.2)
    >>> run.weights.round(6).tolist(), run.relative_gap < 1e-10
    ([[1.5], [1.5]], True)
    """

    mixing: MixingMatrix | RandomMatchings = "lazy"
    eta: float | None = None
    order: Order = "combine-then-adapt"
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W", "Y", "g")

    def __post_init__(self) -> None:
        check_order(self.order)

    def init(self, form: StandardForm, start: Point | None) -> GradientTrackingState:
        """Parameters of the start, or zero; the estimates are the devices' own gradients."""
        mixing: Mixing | DrawnMatchings
        if isinstance(self.mixing, RandomMatchings):
            mixing = self.mixing.on(form)
            require_connected(mixing.expected)
            if self.eta is None:
                raise ValueError("eta must be given: no safe one is known for matchings that are drawn")
            eta = one_step_size(form, self.eta, 2.0, "2 / max L_i")
        else:
            mixing = Mixing.of(form, self.mixing)
            require_connected(mixing.matrix)
            factor = 2.0 * max(mixing.least_eigenvalue, 0.0) ** 2
            eta = one_step_size(form, self.eta, factor, "2 (least eigenvalue of M)^2 / max L_i")
        W = starting_models(form, start)
        g = gradient(form, W)
        return GradientTrackingState(W, g, g, 0, mixing, eta)

    def step(self, form: StandardForm, state: GradientTrackingState) -> GradientTrackingState:
        """One round."""
        mix, late = mixer(state), self.order == "adapt-then-combine"
        W = mix(state.W - state.eta * state.Y) if late else mix(state.W) - state.eta * state.Y
        g = gradient(form, W)
        Y = mix(state.Y + g - state.g) if late else mix(state.Y) + g - state.g
        return replace(state, W=W, Y=Y, g=g, round=state.round + 1)

    def point(self, form: StandardForm, state: GradientTrackingState) -> Point:
        """The iterate."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: GradientTrackingState) -> Traffic:
        """Two vectors over each edge, each way, and one gradient a device."""
        M, once = state.neighbours, np.ones(form.n_nodes)
        if isinstance(M, Mixing):
            source, target = M.source, M.target
        else:
            source, target = M.messages(M.used(state.round - 1))
        points = points_per_round(form, once, None)
        return edge_traffic(form, source, target, vectors=2, gradients=once, points=points)


def mixer(state: GradientTrackingState) -> Callable[[Array], Array]:
    """Multiplication with the matrix of a round, the same for both variables."""
    M = state.neighbours
    if isinstance(M, Mixing):
        return M.apply
    used = M.used(state.round)
    return lambda V: M.mix(V, used)
