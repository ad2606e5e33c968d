"""EXTRA: decentralised gradient descent whose corrections are the flows of a primal-dual method.

W. Shi, Q. Ling, G. Wu, W. Yin, "EXTRA: An Exact First-Order Algorithm for Decentralized Consensus Optimization" (2015),
Algorithm 1 with its choice (2.12) of matrices, DOI 10.1137/14096668X.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..linear_maps import EdgeDifference
from ..standard_form import Array, Point, StandardForm
from .dgd import one_step_size
from .fed_avg import points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import gradient
from .mixing import Mixing, MixingMatrix, require_connected
from .start import starting_models

__all__ = ["Extra", "ExtraState"]


@dataclass(frozen=True, eq=False, slots=True)
class ExtraState:
    """Parameters of all devices, flows (n_edges, dim) in the order of the mixing matrix's edges, and constants."""

    W: Array
    U: Array
    neighbours: Mixing
    edges: EdgeDifference
    eta: float


@dataclass(frozen=True)
class Extra:
    """``W'' = (I + M) W' - (I + M)/2 W - eta (g(W') - g(W))`` from ``W' = M W - eta g(W)``, written with flows.

    Parameters
    ----------
    mixing : {"metropolis", "lazy"} or array_like (n_nodes, n_nodes)
        The mixing matrix M, see :class:`~gtvmin.solvers.federated.mixing.Mixing`, of a connected network.
    eta : float, optional
        Learning rate.  Default: 0.95 of the bound ``(1 + least eigenvalue of M) / max_i L_i``.

    Notes
    -----
    The limit is the minimiser of ``sum_i L_i``, at every device.  A round is ``U_e += M_e (w_head - w_tail) / (2 eta)``
    on the edges and ``W <- (I + M)/2 W - eta g(W) - eta D^T U`` at the devices: elimination of U gives the published
    form, and ``-(D^T U)_i`` tends to the gradient of L_i, so that the flows certify the limit.  alpha and the edges'
    weights play no part.  Each device sends one vector to its neighbours.

    Use it for consensus on a network without a server: exact with a constant rate, for one vector a neighbour and
    round.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> run = gtv.federate(problem, "extra", rounds=200)
    >>> run.weights.round(6).tolist(), run.state.U.round(6).tolist()
    ([[1.5], [1.5]], [[3.0]])
    """

    mixing: MixingMatrix = "metropolis"
    eta: float | None = None
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W", "U")

    def init(self, form: StandardForm, start: Point | None) -> ExtraState:
        """Parameters of the start, or zero, and zero flows."""
        mixing = Mixing.of(form, self.mixing)
        require_connected(mixing.matrix)
        factor = 1.0 + mixing.least_eigenvalue
        eta = one_step_size(form, self.eta, factor, "(1 + least eigenvalue of M) / max L_i")
        tail, head, _ = mixing.pairs
        edges = EdgeDifference(tail, head, form.n_nodes, form.dim)
        return ExtraState(starting_models(form, start), np.zeros((len(tail), form.dim)), mixing, edges, eta)

    def step(self, form: StandardForm, state: ExtraState) -> ExtraState:
        """One round."""
        W, M, eta = state.W, state.neighbours, state.eta
        _, _, weight = M.pairs
        U = state.U + (0.5 / eta) * weight[:, None] * state.edges.apply(W)
        W = 0.5 * (W + M.apply(W)) - eta * (gradient(form, W) + state.edges.adjoint(U))
        return replace(state, W=W, U=U)

    def point(self, form: StandardForm, state: ExtraState) -> Point:
        """The iterate, and its flows."""
        return Point(state.W, (state.U,))

    def traffic(self, form: StandardForm, state: ExtraState) -> Traffic:
        """One vector over each edge, each way, and one gradient a device."""
        M, once = state.neighbours, np.ones(form.n_nodes)
        return edge_traffic(form, M.source, M.target, gradients=once, points=points_per_round(form, once, None))
