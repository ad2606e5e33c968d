"""Asynchronous execution: devices that compute when they can, from messages that are late, lost or never sent.

Section 5.8 of A. Jung, "Federated Learning: From Theory to Practice" (2025): ``w_i <- F_i(w_i, w_j of some time ago)``
for the devices of an active set; D. P. Bertsekas, J. N. Tsitsiklis, "Parallel and Distributed Computation" (1989),
Chapters 6 and 7.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array, Point, StandardForm
from .dgd import DecentralisedGD
from .fed_gd import FedGD
from .form import device_ids
from .ledger import Traffic, edge_traffic
from .mixing import Mixing
from .neighbours import coupling_curvature
from .schedule import Schedule, events_per_device
from .start import starting_models
from .step_sizes import SHARE, smoothness_bound, step_sizes
from .streams import COINS, Keys, device_keys, random_bits

__all__ = ["Asynchronous", "AsynchronousState", "Flight", "tolerant"]

IntArray = NDArray[np.int64]
IDLE = -1


@dataclass(frozen=True, eq=False, slots=True)
class Flight:
    """Messages on their way: the directed edge, the event of arrival, and the parameters of each."""

    edge: IntArray
    arrival: IntArray
    content: Array

    def lands(self, event: int) -> tuple[Flight, Flight]:
        """Those that are there at an event, and the others."""
        due = self.arrival <= event
        return self.take(due), self.take(~due)

    def take(self, chosen: NDArray[np.bool_]) -> Flight:
        """Some of them."""
        return Flight(self.edge[chosen], self.arrival[chosen], self.content[chosen])

    def launch(self, edge: IntArray, arrival: IntArray, content: Array, n_edges: int) -> Flight:
        """With new ones, and without older ones that would arrive no sooner: newer parameters replace older ones."""
        overtaken_at = np.full(n_edges, np.iinfo(np.int64).max)
        overtaken_at[edge] = arrival
        kept = self.take(self.arrival < overtaken_at[self.edge])
        return Flight(
            np.append(kept.edge, edge), np.append(kept.arrival, arrival), np.concatenate([kept.content, content])
        )


@dataclass(frozen=True, eq=False, slots=True)
class AsynchronousState:
    """Parameters, what each device has of its neighbours, what is under way, and what the last event cost.

    Attributes
    ----------
    W : array (n_nodes, dim)
        Parameters of the devices.
    heard : array (2 n_edges, dim)
        What came last over each directed edge.
    result : array (n_nodes, dim)
        What each device's computation will find; ``done`` is the event at which it will, -1 where there is none.
    past : array (own_delay, n_nodes, dim)
        Parameters of the last events, the newest first.
    flight : Flight
        Messages under way.
    began, sent, received : bool arrays
        Devices that began a computation in the last event, and directed edges into which and out of which a message
        went.
    """

    W: Array
    heard: Array
    result: Array
    done: IntArray
    past: Array
    flight: Flight
    round: int
    began: NDArray[np.bool_]
    sent: NDArray[np.bool_]
    received: NDArray[np.bool_]
    algorithm: Any
    inner: Any
    duration: IntArray
    keys: Keys
    edge_keys: Keys

    @property
    def neighbours(self) -> Any:
        """Directed edges of the algorithm that runs."""
        return self.inner.neighbours


@dataclass(frozen=True)
class Asynchronous:
    """An algorithm on a network whose devices do not wait for one another; a round is an event of its schedule.

    Parameters
    ----------
    algorithm : Algorithm
        One with a method ``update``, whose devices can work with what they last heard: FedGD, FedRelax, decentralised
        gradient descent.  Rules of its own about who takes part are replaced by the schedule's.
    schedule : Schedule
        Who computes when, and how late messages are.
    seed : int
        Of all random draws.

    Notes
    -----
    An iteration that contracts in the largest of the devices' norms converges whatever the delays, if no device stops
    computing and no message stays the newest for ever (total asynchrony).  FedRelax does; gradient descent does for
    steps ``eta_i < 2 / (L_i + 4 alpha d_i)``, or ``2 M_ii / L_i`` where neighbours are mixed by a matrix M: one rate
    for all devices is checked against this bound here, and the default lies within.  Larger steps that converge
    synchronously can diverge by a delay of one event.  A message that arrives after a newer one is dropped.

    Use it to see what delays, stragglers, lost messages and sleeping devices do to an algorithm before it is deployed.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.solvers.federated.participation import Bernoulli
    >>> from gtvmin.solvers.federated.schedule import Schedule, UniformDelay
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> schedule = Schedule(Bernoulli(0.5), delay=UniformDelay(4), loss=0.1)
    >>> run = gtv.federate(problem, "fedrelax", rounds=400, schedule=schedule, seed=1)
    >>> run.weights.round(6).tolist(), run.relative_gap < 1e-10
    ([[1.0], [2.0]], True)
    """

    algorithm: Any
    schedule: Schedule = field(default_factory=Schedule)
    seed: int = 0
    variables: ClassVar[tuple[str, ...]] = ("W", "heard")

    def __post_init__(self) -> None:
        if not hasattr(self.algorithm, "update"):
            raise ValueError(
                f"{type(self.algorithm).__name__} has no update for messages of different ages: take FedGD, FedRelax "
                "or decentralised gradient descent"
            )
        if not isinstance(self.schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule, got {self.schedule!r}")

    @property
    def requires(self) -> frozenset[str]:
        """What the algorithm does."""
        needed: frozenset[str] = self.algorithm.requires
        return needed

    def init(self, form: StandardForm, start: Point | None) -> AsynchronousState:
        """Everybody has the starting point of its neighbours."""
        algorithm = tolerant(self.algorithm, form)
        inner, n = algorithm.init(form, start), form.n_nodes
        hood = inner.neighbours
        if hood is None:
            raise ValueError("messages of different ages need the coupling SquaredNorm() of whole parameter vectors")
        keys, W = device_keys(form, self.seed), starting_models(form, start)
        none = np.zeros(0, dtype=np.int64)
        quiet = np.zeros(len(hood.source), dtype=bool)
        return AsynchronousState(
            W=W,
            heard=W[hood.source],
            result=W,
            done=np.full(n, IDLE),
            past=np.tile(W, (int(self.schedule.own_delay), 1, 1)),
            flight=Flight(none, none, np.zeros((0, form.dim))),
            round=0,
            began=np.zeros(n, dtype=bool),
            sent=quiet,
            received=quiet,
            algorithm=algorithm,
            inner=inner,
            duration=events_per_device("duration", self.schedule.duration, n),
            keys=keys,
            edge_keys=random_bits(keys[hood.source], 0, COINS, device_ids(form)[hood.target]),
        )

    def step(self, form: StandardForm, state: AsynchronousState) -> AsynchronousState:
        """One event: messages arrive, devices begin, devices end and send."""
        event, schedule, hood = state.round, self.schedule, state.neighbours
        there = schedule.present(state.keys, event)
        landed, flight = state.flight.lands(event)
        heard, received = state.heard, np.zeros(len(state.heard), dtype=bool)
        if len(landed.edge):
            heard = heard.copy()
            heard[landed.edge], received[landed.edge] = landed.content, True
        began = there & (state.done == IDLE) & schedule.begins(state.keys, event)
        result, done = state.result, state.done
        if began.any():
            result = np.where(began[:, None], self._moved(form, state, heard), result)
            done = np.where(began, event + state.duration - 1, done)
        ended = there & (done != IDLE) & (done <= event)
        finished = ended & ~schedule.fails(state.keys, event) if schedule.failure else ended
        W = np.where(finished[:, None], result, state.W)
        sent = finished[hood.source]
        if sent.any():
            arrives, delay = schedule.delays(state.edge_keys, event)
            edge = np.flatnonzero(sent & arrives)
            flight = flight.launch(edge, event + 1 + delay[edge], W[hood.source[edge]], len(sent))
        return replace(
            state,
            W=W,
            heard=heard,
            result=result,
            done=np.where(ended, IDLE, done),
            past=np.concatenate([state.W[None], state.past])[: len(state.past)],
            flight=flight,
            round=event + 1,
            began=began,
            sent=sent,
            received=received,
        )

    def _moved(self, form: StandardForm, state: AsynchronousState, heard: Array) -> Array:
        """New parameters of every device, by a move from its newest or its older ones."""
        own = state.past[-1] if len(state.past) else state.W
        following: Array = state.algorithm.update(form, state.inner, own, heard)
        return following if own is state.W else state.W + (following - own)

    def point(self, form: StandardForm, state: AsynchronousState) -> Point:
        """The devices' parameters."""
        return Point(state.W)

    def traffic(self, form: StandardForm, state: AsynchronousState) -> Traffic:
        """A vector over each edge of a device that is done, counted again where it arrives; one map or gradient."""
        hood, began = state.neighbours, state.began.astype(float)
        proxes = began * ("local.prox" in self.requires)
        source, target = hood.source[state.sent], hood.target[state.received]
        return edge_traffic(form, source, target, proxes=proxes, gradients=began - proxes)


def tolerant(algorithm: Any, form: StandardForm) -> Any:
    """The algorithm with steps that are checked against the bound for delays, and within it by default.

    Bounds for one rate of all devices are synchronous ones; FedGD's for different rates is that of the largest norm.
    """
    n, L = form.n_nodes, form.local.smoothness
    if isinstance(algorithm, DecentralisedGD):
        if algorithm.order != "combine-then-adapt":
            raise ValueError("order must be 'combine-then-adapt' where neighbours send parameters of different ages")
        bound = Mixing.of(form, algorithm.mixing).own * smoothness_bound(form)
        eta = step_sizes("eta", algorithm.eta, bound, "2 M_ii / L_i, for messages that are late", form).min()
        return replace(algorithm, eta=float(eta))
    if not isinstance(algorithm, FedGD) or not np.isfinite(L).all():
        return algorithm
    if algorithm.eta is None:
        total = L + 2.0 * coupling_curvature(form)
        return replace(algorithm, eta=SHARE * np.divide(2.0, total, out=np.ones(n), where=total > 0))
    return replace(algorithm, eta=np.full(n, algorithm.eta)) if np.ndim(algorithm.eta) == 0 else algorithm
