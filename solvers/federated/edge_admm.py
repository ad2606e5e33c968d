"""ADMM over the edges of a network: every edge keeps a copy of the parameters of its two ends.

Equations (5)-(9) of D. Hallac, J. Leskovec, S. Boyd, "Network Lasso: Clustering and Optimization in Large Graphs"
(2015), DOI 10.1145/2783258.2783313, Section 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..driver import starting_arrays
from ..standard_form import Array, Point, StandardForm
from .ledger import Traffic, edge_traffic
from .proximal_map import ProximalMap
from .start import starting_models

__all__ = ["EdgeADMM", "EdgeADMMState"]

# A device without neighbours minimises its own loss, by the proximal map with a step this long.
LONG_STEP = 1e8


@dataclass(frozen=True, eq=False, slots=True)
class EdgeADMMState:
    """Parameters, and for the ends of the edges, all tails before all heads, copies Z and scaled duals V.

    Attributes
    ----------
    W : array (n_nodes, dim)
    Z, V : arrays (2 n_edges, dim)
    ends : int array (2 n_edges,)
        Devices of the ends.
    gather : sparse matrix (n_nodes, 2 n_edges)
        Sums over the ends at each device.
    count : array (n_nodes,)
        Neighbours of each device.
    local, coupling : callable
        Proximal maps of the losses and of the couplings.
    """

    W: Array
    Z: Array
    V: Array
    ends: NDArray[np.int64]
    gather: sparse.csr_array
    count: Array
    local: ProximalMap
    coupling: ProximalMap


@dataclass(frozen=True)
class EdgeADMM:
    """Devices minimise their losses near the copies that their edges keep, edges settle the copies of their two ends.

    Parameters
    ----------
    rho : float
        Of the augmented Lagrangian; any value above 0 converges.

    Notes
    -----
    The limit is GTV minimisation's, for any penalty with a proximal map: for ``Norm(2)`` it is the network Lasso.
    ``U = rho V_head`` is the edges' flow, ``V_tail = -V_head``; it is feasible for the dual from the first round on,
    and certifies the parameters.  Each device sends ``w_i + v_ij`` to every neighbour, and both compute the edge's
    copies.

    Use it for the network Lasso and other penalties without gradients, where devices can minimise exactly and every
    edge can keep a state.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": 0.5 * gtv.SquaredDistance([0.0]), "Turku": 0.5 * gtv.SquaredDistance([3.0])}
    >>> net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    >>> run = gtv.federate(gtv.NetworkLasso(net, losses, lam=1.0), "edgeadmm", rounds=100)
    >>> run.weights.round(6).tolist(), run.state.Z.round(6).tolist()
    ([[1.0], [2.0]], [[1.0], [2.0]])
    """

    rho: float = 1.0
    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "coupling.prox"})
    variables: ClassVar[tuple[str, ...]] = ("W", "Z", "V")

    def __post_init__(self) -> None:
        if not 0 < self.rho < np.inf:
            raise ValueError(f"rho must be a finite number > 0, got {self.rho!r}")

    def init(self, form: StandardForm, start: Point | None) -> EdgeADMMState:
        """Copies of the start's parameters, or zero, and its flows, or zero."""
        W, (_, duals) = starting_models(form, start), starting_arrays(form, start)
        edges, flow = form.edges, duals[0] / self.rho
        ends = np.append(edges.tail, edges.head)
        count = np.bincount(ends, minlength=form.n_nodes).astype(float)
        step = np.where(count > 0, 1.0 / (self.rho * np.maximum(count, 1.0)), LONG_STEP)
        return EdgeADMMState(
            W=W,
            Z=W[ends],
            V=np.concatenate([-flow, flow]),
            ends=ends,
            gather=sparse.csr_array(
                (np.ones(len(ends)), (ends, np.arange(len(ends)))), shape=(form.n_nodes, len(ends))
            ),
            count=count,
            local=ProximalMap(form.local, step),
            coupling=ProximalMap(form.coupling, np.full(len(edges.tail), 2.0 / self.rho)),
        )

    def step(self, form: StandardForm, state: EdgeADMMState) -> EdgeADMMState:
        """One round."""
        count, m = state.count[:, None], len(state.ends) // 2
        # (5): the prox of L_i with rho times the number of neighbours, at the mean of z_ij - u_ij
        mean = state.gather @ (state.Z - state.V) / np.maximum(count, 1.0)
        W = state.local(np.where(count > 0, mean, state.W))
        # (7)-(8): the edge's penalty acts on the difference of its copies, their mean stays
        sent = W[state.ends] + state.V
        middle = 0.5 * (sent[:m] + sent[m:])
        half = 0.5 * state.coupling(sent[m:] - sent[:m])
        Z = np.concatenate([middle - half, middle + half])
        # (9)
        return replace(state, W=W, Z=Z, V=sent - Z)

    def point(self, form: StandardForm, state: EdgeADMMState) -> Point:
        """The parameters, and the flows of the edges."""
        return Point(state.W, (self.rho * state.V[len(state.V) // 2 :],))

    def traffic(self, form: StandardForm, state: EdgeADMMState) -> Traffic:
        """One vector over each edge, each way, and one proximal map a device."""
        m = len(state.ends) // 2
        other = np.append(state.ends[m:], state.ends[:m])
        return edge_traffic(form, state.ends, other, proxes=1.0)
