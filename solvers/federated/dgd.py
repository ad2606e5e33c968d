"""Decentralised gradient descent: devices average with their neighbours and step along their own gradients.

Equation (3) of A. Nedic, A. Ozdaglar, "Distributed Subgradient Methods for Multi-Agent Optimization" (2009), DOI
10.1109/TAC.2008.2009515; the other order is that of J. Chen, A. H. Sayed, "Diffusion Adaptation Strategies for
Distributed Optimization and Learning over Networks" (2012), DOI 10.1109/TSP.2012.2198470.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..standard_form import Array, Point, StandardForm
from .fed_avg import points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import gradient
from .mixing import Mixing, MixingMatrix, Order, check_order
from .start import starting_models
from .step_sizes import smoothness_bound, step_size

__all__ = ["DecentralisedGD", "DecentralisedGDState", "one_step_size"]


@dataclass(frozen=True, eq=False, slots=True)
class DecentralisedGDState:
    """Parameters of all devices, the mixing matrix and the learning rate."""

    W: Array
    neighbours: Mixing
    eta: float


@dataclass(frozen=True)
class DecentralisedGD:
    """``W <- M W - eta g(W)``, or adapt-then-combine ``W <- M (W - eta g(W))``.

    alpha and the edges' weights play no part.

    Parameters
    ----------
    mixing : {"metropolis", "lazy"} or array_like (n_nodes, n_nodes)
        The mixing matrix M, see :class:`~gtvmin.solvers.federated.mixing.Mixing`.
    eta : float, optional
        Learning rate.  Default: 0.95 of the bound.
    order : {"combine-then-adapt", "adapt-then-combine"}
        The second order refuses a matrix with negative eigenvalues, with which it can settle at a saddle.

    Notes
    -----
    With a constant rate devices do not reach consensus.  Combine-then-adapt solves GTV minimisation with
    ``alpha A_ij = M_ij / (2 eta)``, and is FedGD on it; it converges for
    ``eta < (1 + least eigenvalue of M) / max_i L_i``, and with delays for ``eta < 2 M_ii / L_i``.  Adapt-then-combine
    minimises ``sum_i L_i(w_i) + sum_k <w_k, ((M^-1 - I) W)_k> / (2 eta)``, whose weights are on non-edges as well, over
    the range of M; it converges for ``eta < 2 / max_i L_i``.  Each device sends one vector to its neighbours.

    Use it on a network without a server if models near consensus are enough, and one vector a neighbour is all that
    fits; EXTRA and gradient tracking reach consensus itself.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": 0.5 * gtv.SquaredDistance([0.0]), "Turku": 0.5 * gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> run = gtv.federate(problem, "dgd", rounds=200, eta=0.5)
    >>> run.weights.round(6).tolist(), run.relative_gap < 1e-10
    ([[1.0], [2.0]], True)
    """

    mixing: MixingMatrix = "metropolis"
    eta: float | None = None
    order: Order = "combine-then-adapt"
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W",)

    def __post_init__(self) -> None:
        check_order(self.order)

    def init(self, form: StandardForm, start: Point | None) -> DecentralisedGDState:
        """Parameters of the start, or zero."""
        mixing = Mixing.of(form, self.mixing)
        if self.order == "adapt-then-combine":
            mixing.require_semidefinite()
            eta = one_step_size(form, self.eta, 2.0, "2 / max L_i")
        else:
            factor = 1.0 + mixing.least_eigenvalue
            eta = one_step_size(form, self.eta, factor, "(1 + least eigenvalue of M) / max L_i")
        return DecentralisedGDState(starting_models(form, start), mixing, eta)

    def step(self, form: StandardForm, state: DecentralisedGDState) -> DecentralisedGDState:
        """Send, combine and adapt, in one order or the other."""
        W, M = state.W, state.neighbours
        move = state.eta * gradient(form, W)
        return replace(state, W=M.apply(W) - move if self.order == "combine-then-adapt" else M.apply(W - move))

    def update(self, form: StandardForm, state: DecentralisedGDState, W: Array, heard: Array) -> Array:
        """New parameters of every device from what came over the directed edges (2 n_edges, dim), fresh or stale."""
        if self.order != "combine-then-adapt":
            raise ValueError("order must be 'combine-then-adapt' where neighbours send parameters of different ages")
        return state.neighbours.combine(W, heard) - state.eta * gradient(form, W)

    def point(self, form: StandardForm, state: DecentralisedGDState) -> Point:
        """The iterate."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: DecentralisedGDState) -> Traffic:
        """One vector over each edge, each way, and one gradient a device."""
        M, once = state.neighbours, np.ones(form.n_nodes)
        return edge_traffic(form, M.source, M.target, gradients=once, points=points_per_round(form, once, None))


def one_step_size(form: StandardForm, eta: float | None, factor: float, reason: str) -> float:
    """The same step for all devices, checked against its bound ``factor / max_i L_i``.

    Raises
    ------
    ValueError
        Beside those of :func:`~gtvmin.solvers.federated.step_sizes.step_sizes`: if no step is given and the factor,
        which follows from the mixing, is not above zero.
    """
    if eta is None and factor <= 0:
        raise ValueError(f"eta must be given: no safe one is known for this mixing, since {reason} is not above zero")
    bound = max(factor, 0.0) * 0.5 * float(smoothness_bound(form).min())
    return step_size("eta", eta, bound, reason)
