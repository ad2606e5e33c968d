"""Federated multi-task learning by dual block-coordinate steps, with a quadratic coupling of the devices' models.

Algorithm 1 (MOCHA), its W step for a given relationship of the tasks, of V. Smith, C.-K. Chiang, M. Sanjabi, A.
Talwalkar, "Federated Multi-Task Learning" (2017), arXiv 1705.10467.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..standard_form import Array, Point, StandardForm
from .ledger import Traffic, server_traffic
from .neighbours import Neighbourhood
from .participation import All, Participation
from .proximal_map import ProximalMap
from .start import starting_models
from .streams import Keys, device_keys

__all__ = ["Mocha", "MochaSetup", "MochaState"]


@dataclass(frozen=True, eq=False, slots=True)
class MochaSetup:
    """Inverse of the coupling's matrix, its diagonal bound, proximal maps of the losses with it as steps, keys."""

    inverse: Array
    bound: Array
    prox: ProximalMap
    keys: Keys


@dataclass(frozen=True, eq=False, slots=True)
class MochaState:
    """Duals of the devices' losses, rounds done, who took part in the last one, and constants."""

    S: Array
    round: int
    counts: Array
    setup: MochaSetup


@dataclass(frozen=True)
class Mocha:
    """Minimise ``sum_i L_i(w_i) + alpha sum_e A_e ||w_head - w_tail||^2 + (ridge / 2) sum_i ||w_i||^2`` by its dual.

    The coupling's matrix is ``K = 2 alpha Laplacian + ridge I``.  The server keeps ``W = -K^-1 S``, where s_i is the
    dual of device i's loss; devices maximise the dual over their own s_i, all at once, with K^-1 replaced by a diagonal
    matrix that bounds it.

    Parameters
    ----------
    ridge : float
        Above 0: it makes K positive definite, as the relationship matrix of the tasks is.
    participation : Participation
        Who takes part in a round; the others' duals stay (the paper's dropped devices).
    seed : int
        Of the draws.

    Notes
    -----
    A device's step is ``x = prox(w_i + c_i s_i)`` with the proximal map of its loss and step c_i,
    ``s_i += (w_i - x) / c_i``; c is the diagonal of K^-1 times the least factor with ``diag(c) >= K^-1``.  So the dual
    objective never falls, whoever takes part.  ``s_i`` tends to a subgradient of L_i at the limit.  The server inverts
    a matrix (n_nodes, n_nodes) once.  A participating device receives its model and sends the change of its dual.

    Use it where a server knows how the tasks are related, and devices drop out of rounds.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredDistance([0.0]), "Turku": gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> run = gtv.federate(problem, "mocha", rounds=200, ridge=2.0)
    >>> run.weights.round(6).tolist(), run.relative_gap < 1e-10
    ([[0.375], [1.125]], True)
    """

    ridge: float
    participation: Participation = field(default_factory=All)
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "couplings.quadratic"})
    variables: ClassVar[tuple[str, ...]] = ("S",)

    def __post_init__(self) -> None:
        if not 0 < self.ridge < np.inf:
            raise ValueError(f"ridge must be a finite number > 0, got {self.ridge!r}")

    def init(self, form: StandardForm, start: Point | None) -> MochaState:
        """Zero duals; those of a start's parameters are ``S = -K W``."""
        K = Neighbourhood.of(form).laplacian.toarray() + self.ridge * np.eye(form.n_nodes)
        inverse = np.linalg.inv(K)
        root = np.sqrt(np.diag(inverse))
        factor = np.linalg.eigvalsh(inverse / np.outer(root, root))[-1]
        bound = factor * root**2
        setup = MochaSetup(inverse, bound, ProximalMap(form.local, bound), device_keys(form, self.seed))
        return MochaState(-K @ starting_models(form, start), 0, np.zeros(form.n_nodes), setup)

    def step(self, form: StandardForm, state: MochaState) -> MochaState:
        """One round of the W step."""
        setup, equal = state.setup, np.full(form.n_nodes, 1.0 / form.n_nodes)
        counts = self.participation.counts(setup.keys, equal, state.round)
        # the devices' subproblems
        W, c = self._models(state), setup.bound[:, None]
        change = (W - setup.prox(W + c * state.S)) / c
        # the server's sum
        S = state.S + np.where(counts[:, None] > 0, change, 0.0)
        return replace(state, S=S, round=state.round + 1, counts=counts)

    def _models(self, state: MochaState) -> Array:
        return np.asarray(-state.setup.inverse @ state.S)

    def point(self, form: StandardForm, state: MochaState) -> Point:
        """The server's models of the devices."""
        return Point(self._models(state))

    def traffic(self, form: StandardForm, state: MochaState) -> Traffic:
        """A model down, the change of a dual up, one proximal map."""
        return server_traffic(form, state.counts, proxes=1.0)
