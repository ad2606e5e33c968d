"""Total variation of one number per device: exact by a sequence of maximum flows.

D. S. Hochbaum, "An efficient algorithm for image segmentation, Markov random fields and related problems", Journal of
the ACM 48 (2001), doi:10.1145/502090.502093; A. Chambolle, J. Darbon, "On total variation minimization and surface
evolution using parametric maximum flows", International Journal of Computer Vision 84 (2009),
doi:10.1007/s11263-009-0238-9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from .linear_maps import Array
from .max_flow import Arcs, push_excess
from .standard_form import Point, StandardForm

__all__ = ["TotalVariation"]

# Excess of this share of what flows through a set is rounding.
ROUNDING = 1e-13


@dataclass(slots=True)
class TotalVariationState:
    """Sets of devices with one value each, flows, edges cut for good, and whether no set wants to be split."""

    labels: NDArray[np.int64]
    values: Array
    flow: Array
    cut: NDArray[np.bool_]
    curvature: Array
    linear: Array
    capacity: Array
    arcs: Arcs
    finished: bool = False


@dataclass(frozen=True)
class TotalVariation:
    """Split sets of devices by maximum flows until no set wants to be split.

    ``minimise sum_i h_i w_i^2 / 2 - b_i w_i + sum_e c_e |w_head - w_tail|`` with one number per device: each connected
    component starts as one set.  A step gives every set its best common value and asks, by one maximum flow for all
    sets at once, whether raising some of its devices against the others would pay.  If so, that is how the solution
    orders them, and the edges between are saturated for good.  If not, the flow proves the value optimal.

    Raises
    ------
    ValueError
        If a device has a linear loss but no curvature: the common value of a set might not exist.

    Notes
    -----
    There are about as many steps as halvings that separate the values of the solution, in the worst case as many as
    values; each costs one maximum flow that starts from the last.  The answer is exact up to rounding.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"scalar", "local.quadratic", "coupling.norm"})

    def init(self, form: StandardForm, start: Point | None) -> TotalVariationState:
        """One set for each connected component; a start is of no use."""
        H, b = form.quadratic.quadratic()
        curvature, linear = H[:, 0, 0], b[:, 0]
        flat = np.flatnonzero((curvature == 0) & (linear != 0))
        if len(flat):
            raise ValueError(f"device {flat[0]} (by position) has a linear loss without curvature: use another method")
        norm = form.coupling.norm
        assert norm is not None  # required above
        edges = form.edges
        m = edges.n_rows
        state = TotalVariationState(
            labels=np.zeros(form.n_nodes, dtype=np.int64),
            values=np.zeros(1),
            flow=np.zeros(m),
            cut=np.zeros(m, dtype=bool),
            curvature=curvature,
            linear=linear,
            capacity=norm[0],
            arcs=Arcs.of(edges.tail, edges.head, form.n_nodes),
        )
        _evaluate(form, state)
        return state

    def step(self, form: StandardForm, state: TotalVariationState) -> TotalVariationState:
        """One maximum flow, then the sets that it separates."""
        if state.finished:
            return state
        edges, flow = form.edges, state.flow.copy()
        excess = state.linear - state.curvature * state.values[state.labels] - edges.adjoint(flow[:, None])[:, 0]
        raised = push_excess(state.arcs, state.capacity, ~state.cut, flow, excess)
        # a set wants to be split if excess is left in a part of it
        pull = np.abs(state.linear) + np.abs(state.curvature * state.values[state.labels])
        size = np.bincount(state.labels, pull, len(state.values))
        left = np.bincount(state.labels, np.where(raised, np.maximum(excess, 0.0), 0.0), len(state.values))
        members = np.bincount(state.labels)
        split = (left > ROUNDING * size) & (np.bincount(state.labels, raised) < members)
        raised = raised & split[state.labels]
        within = state.labels[edges.tail] == state.labels[edges.head]
        new = within & (raised[edges.tail] != raised[edges.head])
        flow[new] = np.where(raised[edges.head[new]], 1.0, -1.0) * state.capacity[new]
        state.flow, state.cut, state.finished = flow, state.cut | new, not split.any()
        if not state.finished:
            _evaluate(form, state)
        return state

    def point(self, form: StandardForm, state: TotalVariationState) -> Point:
        """The value of each device's set, and the flows."""
        return Point(state.values[state.labels][:, None], (state.flow[:, None],))


def _evaluate(form: StandardForm, state: TotalVariationState) -> None:
    """The connected sets that are left when edges are cut, and the best common value of each."""
    edges = form.edges
    kept = ~state.cut
    graph = sparse.coo_array((kept[kept], (edges.tail[kept], edges.head[kept])), shape=(form.n_nodes, form.n_nodes))
    count, labels = csgraph.connected_components(graph, directed=False)
    state.labels = labels.astype(np.int64)
    pulled = state.linear - edges.adjoint(np.where(state.cut, state.flow, 0.0)[:, None])[:, 0]
    curvature = np.bincount(state.labels, state.curvature, count)
    total = np.bincount(state.labels, pulled, count)
    state.values = np.where(curvature > 0, total / np.where(curvature > 0, curvature, 1.0), 0.0)
