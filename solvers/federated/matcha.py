"""MATCHA: decentralised gradient descent over some matchings of the network, drawn anew each round.

J. Wang, A. K. Sahu, Z. Yang, G. Joshi, S. Kar, "MATCHA: Speeding Up Decentralized SGD via Matching Decomposition
Sampling" (2019), arXiv 1905.09435, Sections 3.1 (decomposition), 3.2 (activation) and 3.3 (mixing).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array, Point, StandardForm
from .dgd import one_step_size
from .fed_avg import points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import gradient
from .mixing import Order, check_order
from .random_matchings import DrawnMatchings, RandomMatchings
from .start import starting_models

__all__ = ["Matcha", "MatchaSetup", "MatchaState"]


@dataclass(frozen=True, eq=False, slots=True)
class MatchaSetup:
    """What stays the same: matchings and learning rate."""

    matchings: DrawnMatchings
    eta: float


@dataclass(frozen=True, eq=False, slots=True)
class MatchaState:
    """Parameters of all devices, rounds done, and the edges that the last round used."""

    W: Array
    round: int
    used: NDArray[np.bool_]
    setup: MatchaSetup


@dataclass(frozen=True)
class Matcha:
    """``W <- M_k W - eta g(W)`` with ``M_k = I - a sum_j B_j L_j``: each matching j is used if its coin says so.

    Parameters
    ----------
    probability : float or sequence of float
        Of each matching, or of all, above 0 and at most 1: the share of the messages that are sent.
    strength : float, optional
        The factor a.  Default: ``1 / lambda_max(L)`` with the Laplacian L of all edges, the largest for which no M_k
        has a negative eigenvalue.  Squared disagreement shrinks by :func:`second_moment_radius`, which larger ones can
        improve.
    eta : float, optional
        Learning rate.  Default: a tenth of the bound ``(2 - a lambda_max(L)) / max_i L_i``, below which every round
        contracts.
    half_life : float, optional
        Rounds after which the rate has halved, ``eta_t = eta / (1 + t / half_life)``.  Default: it is constant.
    order : {"combine-then-adapt", "adapt-then-combine"}
        The second is ``W <- M_k (W - eta g(W))``.
    seed : int
        Of the coins, which all devices share.

    Notes
    -----
    With a constant rate the parameters do not converge, and do not hover about a consensus.  For quadratic losses their
    mean over the coins is decentralised gradient descent's limit with the expected matrix, GTV minimisation with
    ``alpha A_e = a pi_j / (2 eta)``, and their covariance solves a Lyapunov equation
    (:func:`gtvmin.federated.operators.stationary_covariance`).  With a half-life the limit is the minimiser of
    ``sum_i L_i``, reached as 1/t; gradient tracking over the same matchings reaches it geometrically.  The matchings
    are the colours of an edge colouring, at most one more than the largest number of neighbours.  Devices send one
    vector over the edges of the matchings that are used.

    Use it where edges are too many to use all of them in every round.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> run = gtv.federate(problem, "matcha", rounds=100, probability=0.25, seed=0)
    >>> 10 < int(run.traffic.messages_sent[0]) < 40
    True
    """

    probability: float | Sequence[float] = 0.5
    strength: float | None = None
    eta: float | None = None
    half_life: float | None = None
    order: Order = "combine-then-adapt"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W",)

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.half_life is not None and not 0 < self.half_life < np.inf:
            raise ValueError(f"half_life must be a number of rounds > 0, got {self.half_life!r}")
        RandomMatchings(self.probability, self.strength)

    def init(self, form: StandardForm, start: Point | None) -> MatchaState:
        """Parameters of the start, or zero."""
        drawn = RandomMatchings(self.probability, self.strength, self.seed).on(form)
        eta = one_step_size(form, self.eta, 1.0 + drawn.least_eigenvalue, "(2 - a lambda_max(L)) / max L_i")
        eta *= 0.1 if self.eta is None else 1.0
        none = np.zeros(len(drawn.matching), dtype=bool)
        return MatchaState(starting_models(form, start), 0, none, MatchaSetup(drawn, eta))

    def step(self, form: StandardForm, state: MatchaState) -> MatchaState:
        """Flip the coins, then mix over the chosen matchings and step."""
        matchings = state.setup.matchings
        used = matchings.used(state.round)
        fade = 1.0 if self.half_life is None else 1.0 / (1.0 + state.round / self.half_life)
        move = fade * state.setup.eta * gradient(form, state.W)
        if self.order == "combine-then-adapt":
            W = matchings.mix(state.W, used) - move
        else:
            W = matchings.mix(state.W - move, used)
        return replace(state, W=W, round=state.round + 1, used=used)

    def point(self, form: StandardForm, state: MatchaState) -> Point:
        """The iterate."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: MatchaState) -> Traffic:
        """One vector over the edges that were used, each way, and one gradient a device."""
        once = np.ones(form.n_nodes)
        source, target = state.setup.matchings.messages(state.used)
        return edge_traffic(form, source, target, gradients=once, points=points_per_round(form, once, None))
