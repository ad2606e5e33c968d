"""Candidates for a better point of a network Lasso: polished parameters, and flows that may prove them optimal.

Nothing rests on trust in them: they are proposals to a stopping test.  Importing this module imports numba.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from .cluster_flow import ClusterFlow, Conditions, cluster_flow
from .laplacian_factor import LaplacianPattern, thin_pattern
from .linear_maps import Array, EdgeDifference
from .norm_network import Groups, NormNetwork, group
from .polish import polish
from .standard_form import Point, StandardForm

__all__ = ["ClusterCandidates"]

# Neighbours agree in the solution wherever the flow between them is less than the capacity.  How much they still differ
# across edges with this share of it or less shows how far the iterates have come.
ROOM = 0.9
# Before, compiling costs more than it may save.
EARLIEST = 40
# Newton's method is given so many products with the Hessian at a time.
PRODUCTS = 40
# Polish and flows may each cost this share of the iterations so far, and a first try; flows more once one was found to
# fit.
WORK_SHARE, FITTING_SHARE = 0.2, 1.0
FIRST_WORK = 5.0
# A flow is looked for once the number of groups has changed by no more than this share since the last time: the second
# one where the own flows of the solver are feasible, so that there is no haste.  By factors, also at first, and after
# a flow that fitted.
SAME, SAME_IF_FEASIBLE = 1e-2, 2e-3
# Where it was not found, the next try is after this many times the iterations, and may take as many times the passes.
PATIENCE = 1.5
FLOW_PASSES = 40
# Groups' parameters are taken for determined by their losses if the Hessian is no worse conditioned than this.
DETERMINED = 1e-12
# Assembling a partition costs about so many passes over the edges.
OVERHEAD = 2.0


class ClusterCandidates:
    """Proposes points while a solver runs on a network Lasso with quadratic losses.

    Its work is counted in passes over all edges, about one iteration of a first-order method each, so that runs are
    repeatable.

    Parameters
    ----------
    form : StandardForm
        The problem.
    network : NormNetwork
        The same, as :meth:`NormNetwork.of` has it.
    """

    def __init__(self, form: StandardForm, network: NormNetwork) -> None:
        self.form, self.network = form, network
        self.conditions = Conditions.of(form)
        self.same = SAME if len(self.conditions.devices) else SAME_IF_FEASIBLE
        self.polish_work, self.flow_work, self.flow_share = 0.0, 0.0, WORK_SHARE
        self.last_count, self.next_flow, self.passes = 0, 0.0, FLOW_PASSES

    @classmethod
    def of(cls, form: StandardForm) -> ClusterCandidates | None:
        """Candidates for a form, if it is of the right kind."""
        network = NormNetwork.of(form)
        return None if network is None else cls(form, network)

    def __call__(self, point: Point, iteration: int) -> Iterator[Point]:
        """Points that may be better than the solver's."""
        if iteration < EARLIEST or not point.U or not self._may_polish(iteration):
            return
        U = point.U[0]
        lengths = self.network.lengths(point.W)
        size = np.sqrt(np.einsum("ij,ij->i", U, U))
        most = float(lengths[size <= ROOM * self.network.capacity].max(initial=0.0))
        groups = group(self.network, lengths, most)
        reduced = self.network.contracted(groups)
        if not self._may_polish(iteration, 0.5 * PRODUCTS * self._product_work(reduced)):
            return
        found, products = polish(reduced, groups.means(point.W), PRODUCTS)
        self.polish_work += OVERHEAD + products * self._product_work(reduced)
        W = found[groups.labels]
        settled = abs(groups.count - self.last_count) <= self.same * groups.count
        self.last_count = groups.count
        distinct = bool(reduced.lengths(found).all())  # the flow between groups has a direction
        if distinct and self._may_look_for_flow(iteration, settled):
            flow = self._flow(groups, reduced, found, U)
            self.flow_share = FITTING_SHARE if flow.fits else WORK_SHARE
            if self.pattern is None or not flow.fits:
                self.next_flow = PATIENCE * iteration
            if not flow.fits:
                self.passes = int(PATIENCE * self.passes)
            if flow.fits or self.pattern is None:  # what exact corrections leave is of no use
                yield Point(W, (flow.U,))
                return
        yield Point(W)

    def _may_polish(self, iteration: int, more: float = 0.0) -> bool:
        return self.polish_work + more <= WORK_SHARE * iteration + FIRST_WORK

    def _may_look_for_flow(self, iteration: int, settled: bool) -> bool:
        if self.flow_work > self.flow_share * iteration + FIRST_WORK:
            return False
        promising = self.pattern is not None and (self.flow_share == FITTING_SHARE or self.flow_work == 0.0)
        return iteration >= self.next_flow and (settled or promising)

    @functools.cached_property
    def pattern(self) -> LaplacianPattern | None:
        """Of a network that is thin enough for factors."""
        map = self.form.couplings[0].map
        return thin_pattern(map) if isinstance(map, EdgeDifference) else None

    def _product_work(self, reduced: NormNetwork) -> float:
        """Passes that a product with the Hessian of the contracted problem costs."""
        dim, n, m = self.form.dim, self.form.n_nodes, len(self.network.tail)
        return 6.0 * (len(reduced.b) * dim + len(reduced.tail)) / (n * dim + 3.0 * m)

    def _flow(self, groups: Groups, reduced: NormNetwork, found: Array, U: Array) -> ClusterFlow:
        own = found - _newton_rest(reduced, found)
        demand = -self.form.quadratic.gradient(own[groups.labels])
        W = found[groups.labels]
        flow = cluster_flow(self.network, groups, self.conditions, W, U, demand, self.passes, self.pattern)
        self.flow_work += OVERHEAD + flow.passes
        return flow


def _newton_rest(reduced: NormNetwork, W: Array) -> Array:
    """Move of every group's parameters after which the demands of its devices add up.

    Newton's method stops when little of the objective is left; where the losses determine a group's parameters, what
    is left of its gradient is made up for by them alone.
    """
    differences = W[reduced.head] - W[reduced.tail]
    pulls = (reduced.capacity / np.sqrt(np.einsum("ij,ij->i", differences, differences)))[:, None] * differences
    left = np.einsum("ijk,ik->ij", reduced.H, W) - reduced.b
    np.add.at(left, reduced.head, pulls)
    np.subtract.at(left, reduced.tail, pulls)
    move = np.zeros_like(W)
    values = np.linalg.eigvalsh(reduced.H)
    solvable = values[:, 0] > DETERMINED * values[:, -1]
    move[solvable] = np.linalg.solve(reduced.H[solvable], left[solvable][..., None])[..., 0]
    return move
