"""Federated relaxation: each device minimises its part of the objective with its neighbours' parameters held fixed.

Algorithm 11 (FedRelax) of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.7: block-coordinate
minimisation of GTV minimisation, by all devices at once or in turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..standard_form import Array, Point, StandardForm
from .ledger import Traffic, edge_traffic
from .neighbours import Neighbourhood
from .participation import Participation
from .proximal_map import ProximalMap
from .start import starting_models
from .streams import Keys, device_keys

__all__ = ["FedRelax", "FedRelaxState", "contraction_factors", "greedy_colours"]

IntArray = NDArray[np.int64]
# A device without neighbours minimises its own loss, by the proximal map with a step this long.
LONG_STEP = 1e8


@dataclass(frozen=True, eq=False, slots=True)
class FedRelaxState:
    """Parameters of all devices, rounds done, who was updated in the last one, and what stays the same."""

    W: Array
    round: int
    updated: NDArray[np.bool_]
    neighbours: Neighbourhood
    prox: ProximalMap
    colours: IntArray
    keys: Keys


@dataclass(frozen=True)
class FedRelax:
    """``w_i <- argmin_w L_i(w) + alpha sum_j A_ij ||w - w_j||^2``: the prox of L_i at the neighbours' weighted mean.

    Parameters
    ----------
    order : {"jacobi", "gauss-seidel"} or Participation
        All devices at once from the last round's parameters; colour by colour of a graph colouring, each with what the
        earlier colours of the round have found; or the devices that a rule of
        :mod:`~gtvmin.solvers.federated.participation` draws (random blocks), all weights being equal for it.
    seed : int
        Of the draws.

    Notes
    -----
    The fixed point is GTV minimisation's.  Jacobi rounds contract in the largest of the devices' norms by the factor
    ``max_i 2 alpha d_i / (mu_i + 2 alpha d_i)``, and asymptotically by the Perron root of
    ``B_ij = kappa_i A_ij / d_i`` (:func:`contraction_factors`), which is below one where every component has a device
    with a strongly convex loss.  So they converge with stale parameters of neighbours as well.  Losses need not be
    smooth.  A device that is updated sends its parameters to its neighbours.

    Use it where devices can minimise their losses exactly: fewer rounds than FedGD, no step size, and it bears delays.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> net = gtv.FLNetwork.from_edges([(0, 1)])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    >>> problem.solve(method="fedrelax").weights.round(4).tolist()
    [[1.0], [2.0]]
    """

    order: Literal["jacobi", "gauss-seidel"] | Participation = "jacobi"
    seed: int = 0
    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "couplings.quadratic"})
    variables: ClassVar[tuple[str, ...]] = ("W",)

    def __post_init__(self) -> None:
        if isinstance(self.order, str) and self.order not in ("jacobi", "gauss-seidel"):
            raise ValueError(f"order must be 'jacobi', 'gauss-seidel' or a participation rule, got {self.order!r}")

    def init(self, form: StandardForm, start: Point | None) -> FedRelaxState:
        """Line 1: parameters of the start, or zero."""
        neighbours = Neighbourhood.of(form)
        alone = neighbours.degree == 0
        step = np.where(alone, LONG_STEP, 1.0 / np.where(alone, 1.0, neighbours.degree))
        turn = self.order == "gauss-seidel"
        colours = greedy_colours(neighbours, form.n_nodes) if turn else np.zeros(form.n_nodes, dtype=np.int64)
        return FedRelaxState(
            W=starting_models(form, start),
            round=0,
            updated=np.zeros(form.n_nodes, dtype=bool),
            neighbours=neighbours,
            prox=ProximalMap(form.local, step),
            colours=colours,
            keys=device_keys(form, self.seed),
        )

    def step(self, form: StandardForm, state: FedRelaxState) -> FedRelaxState:
        """Lines 3-5, for the devices whose turn it is."""
        W, hood = state.W, state.neighbours
        updated = np.ones(form.n_nodes, dtype=bool)
        if not isinstance(self.order, str):
            equal = np.full(form.n_nodes, 1.0 / form.n_nodes)
            updated = self.order.counts(state.keys, equal, state.round) > 0
        for colour in range(int(state.colours.max(initial=0)) + 1):
            turn = updated & (state.colours == colour)
            W = np.where(turn[:, None], self.update(form, state, W, W[hood.source]), W)
        return replace(state, W=W, round=state.round + 1, updated=updated)

    def update(self, form: StandardForm, state: FedRelaxState, W: Array, heard: Array) -> Array:
        """New parameters of every device from what came over the directed edges (2 n_edges, dim), fresh or stale."""
        degree = state.neighbours.degree[:, None]
        mean = state.neighbours.weighted_sum(heard) / np.where(degree > 0, degree, 1.0)
        return state.prox(np.where(degree > 0, mean, W))

    def point(self, form: StandardForm, state: FedRelaxState) -> Point:
        """The iterate; the couplings' gradients are its flows."""
        return Point(state.W, tuple(t.function.gradient(t.map.apply(state.W)) for t in form.couplings))

    def traffic(self, form: StandardForm, state: FedRelaxState) -> Traffic:
        """One vector to each neighbour and one proximal map, for each device that was updated."""
        hood = state.neighbours
        sent = state.updated[hood.source]
        return edge_traffic(form, hood.source[sent], hood.target[sent], proxes=state.updated.astype(float))


def greedy_colours(neighbours: Neighbourhood, n_nodes: int) -> IntArray:
    """Colour of every device, different for neighbours: each takes the first that none of its neighbours has."""
    one = np.ones(len(neighbours.source))
    table = sparse.csr_array((one, (neighbours.target, neighbours.source)), shape=(n_nodes, n_nodes))
    colours = np.full(n_nodes, -1, dtype=np.int64)
    for i in range(n_nodes):
        taken = set(colours[table.indices[table.indptr[i] : table.indptr[i + 1]]].tolist())
        colours[i] = next(colour for colour in range(n_nodes) if colour not in taken)
    return colours


def contraction_factors(form: StandardForm) -> tuple[Array, float]:
    """Factors ``kappa_i = 2 alpha d_i / (mu_i + 2 alpha d_i)`` of the devices, and the Perron root of Jacobi rounds.

    Returns
    -------
    kappa : array (n_nodes,)
        A round brings the distance to the solution below the largest kappa times it, in the largest device's norm.
    root : float
        Spectral radius of ``B_ij = kappa_i A_ij / d_i``, which bounds the factor in the long run.
    """
    hood, mu = Neighbourhood.of(form), form.local.strong_convexity
    total = mu + hood.degree
    kappa = np.where(total > 0, hood.degree / np.where(total > 0, total, 1.0), 1.0)
    share = hood.strength / np.where(total > 0, total, 1.0)[hood.target]
    B = sparse.csr_array((share, (hood.target, hood.source)), shape=(form.n_nodes, form.n_nodes))
    # B is similar to a symmetric matrix
    root = np.sqrt(np.where(total > 0, total, 1.0))
    symmetric = sparse.diags_array(root) @ B @ sparse.diags_array(1.0 / root)
    return kappa, _largest(sparse.csr_array(symmetric))


def _largest(symmetric: sparse.csr_array) -> float:
    if symmetric.shape[0] <= 200:
        return float(np.linalg.eigvalsh(symmetric.toarray())[-1])
    from scipy.sparse.linalg import eigsh

    return float(eigsh(symmetric, k=1, which="LA", return_eigenvectors=False, v0=np.ones(symmetric.shape[0]))[0])
