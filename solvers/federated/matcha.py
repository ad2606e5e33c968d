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

from ..driver import starting_arrays
from ..linear_maps import EdgeDifference
from ..standard_form import Array, Point, StandardForm
from .dgd import one_step_size
from .fed_avg import points_per_round
from .ledger import Traffic, edge_traffic
from .local_steps import gradient
from .matchings import edge_colours
from .mixing import Order, check_order, coupled_pairs
from .streams import COINS, Keys, server_key, uniforms

__all__ = ["Matcha", "MatchaSetup", "MatchaState", "second_moment_radius"]


@dataclass(frozen=True, eq=False, slots=True)
class MatchaSetup:
    """Edges with their matchings, probabilities of the matchings, strength a, learning rate, key of the coins."""

    edges: EdgeDifference
    matching: NDArray[np.int64]
    probability: Array
    strength: float
    eta: float
    key: Keys


@dataclass(frozen=True, eq=False, slots=True)
class MatchaState:
    """Parameters of all devices, rounds done, and the edges over which the last round mixed."""

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
    ``sum_i L_i``, reached as 1/t.  The matchings are the colours of an edge colouring, at most one more than the
    largest number of neighbours.  Devices send one vector over the edges of the matchings that are used.

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
        q = np.asarray(self.probability, dtype=float)
        if not ((q > 0) & (q <= 1)).all():
            raise ValueError(f"probability must be above 0 and at most 1, got {self.probability!r}")
        for name in ("strength", "half_life"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} must be a finite number > 0, got {value!r}")

    def init(self, form: StandardForm, start: Point | None) -> MatchaState:
        """Parameters of the start, or zero."""
        tail, head = coupled_pairs(form)
        matching = edge_colours(tail, head, form.n_nodes)
        count = int(matching.max(initial=-1)) + 1
        q = np.asarray(self.probability, dtype=float)
        if q.shape not in ((), (count,)):
            raise ValueError(f"probability must be one number or {count} of them, one a matching of this network")
        q = np.array(np.broadcast_to(q, (count,)))
        edges = EdgeDifference(tail, head, form.n_nodes, form.dim)
        largest = _largest(edges)
        a = (1.0 / largest if largest else 1.0) if self.strength is None else self.strength
        eta = one_step_size(form, self.eta, 2.0 - a * largest, "(2 - a lambda_max(L)) / max L_i")
        eta *= 0.1 if self.eta is None else 1.0
        setup = MatchaSetup(edges, matching, q, a, eta, server_key(self.seed))
        return MatchaState(starting_arrays(form, start)[0], 0, np.zeros(len(tail), dtype=bool), setup)

    def step(self, form: StandardForm, state: MatchaState) -> MatchaState:
        """Flip the coins, then mix over the chosen matchings and step."""
        setup = state.setup
        coins = uniforms(setup.key, state.round, COINS, np.arange(len(setup.probability))) < setup.probability
        used = coins[setup.matching] if len(coins) else state.used
        fade = 1.0 if self.half_life is None else 1.0 / (1.0 + state.round / self.half_life)
        move = fade * setup.eta * gradient(form, state.W)
        mixed = state.W if self.order == "combine-then-adapt" else state.W - move
        mixed = mixed - setup.strength * setup.edges.adjoint(used[:, None] * setup.edges.apply(mixed))
        W = mixed - move if self.order == "combine-then-adapt" else mixed
        return replace(state, W=W, round=state.round + 1, used=used)

    def point(self, form: StandardForm, state: MatchaState) -> Point:
        """The iterate."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: MatchaState) -> Traffic:
        """One vector over the edges that were used, each way, and one gradient a device."""
        edges, once = state.setup.edges, np.ones(form.n_nodes)
        tail, head = edges.tail[state.used], edges.head[state.used]
        points = points_per_round(form, once, None)
        return edge_traffic(form, np.append(tail, head), np.append(head, tail), gradients=once, points=points)


def second_moment_radius(edges: EdgeDifference, matching: NDArray[np.int64], q: Array, a: float) -> float:
    """``lambda_max(E[M_k^2] - J)``: with ``L_j^2 = 2 L_j``, E is ``(I - a Lbar)^2 + 2 a^2 sum_j q_j (1 - q_j) L_j``."""
    n = edges.n_nodes
    mean, spread = (_laplacian(edges, weight[matching]) for weight in (q, q * (1.0 - q)))
    M = np.eye(n) - a * mean
    return float(np.linalg.eigvalsh(M @ M + 2.0 * a**2 * spread - np.full((n, n), 1.0 / n))[-1])


def _largest(edges: EdgeDifference) -> float:
    return float(np.linalg.eigvalsh(_laplacian(edges, np.ones(edges.n_rows)))[-1])


def _laplacian(edges: EdgeDifference, weight: Array) -> Array:
    D = edges.incidence
    return np.asarray((D.T @ (D * weight[:, None])).toarray())
