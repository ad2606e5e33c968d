"""Certified solutions of a clustering problem for one strength after the other."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtvmin.certificates import certify
from gtvmin.fusion import ROUNDING, SHARE, SLACK, fused_edges, join
from gtvmin.gap import relative_gap
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.penalties.norm import NormBlocks
from gtvmin.solution import Solution
from gtvmin.solvers.driver import Record, Status
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.quadratic_systems import isotropic_curvature
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import nonnegative_number

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.contracted_admm import ContractedADMM

__all__ = ["PathPoint", "PathSolver", "contracted_admm", "contracted_solution"]

# A certificate adds an estimate of rounding to the gap that the solver sees.
AIM = 0.9
# Numbers whose squares underflow are below this.
LEAST = 1e-150


class PathPoint(NamedTuple):
    """A certified solution for one strength.

    Attributes
    ----------
    W : array (n_nodes, dim)
        Parameters.
    labels : int array (n_nodes,)
        Clusters, by the rule of :func:`gtvmin.fusion.fused_edges`.
    gap, relative_gap : float
        Certified bound on the suboptimality, also relative to the objective.
    """

    W: Array
    labels: NDArray[np.int64]
    gap: float
    relative_gap: float


class PathSolver:
    """Solves a problem for growing alpha, each solution the start of the next.

    Losses ``q_i/2 ||w - a_i||^2`` with one family of edges and the Euclidean norm go to
    :class:`~gtvmin.solvers.contracted_admm.ContractedADMM`, which keeps clusters, flows and step sizes from one alpha
    to the next; what it does not bring to the gap, and all other problems, go to :func:`gtvmin.solving.solve`.

    Parameters
    ----------
    problem : GTVMin
        The problem but for its alpha.
    gap : float
        Certified relative gap of each solution.
    options : dict
        Further arguments of ``solve``; if there are any, it is what solves.
    """

    def __init__(self, problem: GTVMin, gap: float, options: dict[str, Any]) -> None:
        self.problem, self.gap, self.options = problem, gap, options
        self._start: Any = None
        self._contracted = None if options else contracted_admm(problem)
        self._points_alone = self._contracted is not None and _points_alone(problem)

    def solve(self, alpha: float) -> PathPoint:
        """A solution for this alpha."""
        solver = self._contracted
        if solver is None or alpha == 0:
            solution = self.problem.with_alpha(alpha).solve(gap=self.gap, start=self._start, **self.options)
            # without coupling there are no flows to start from
            self._start = solution if alpha > 0 else solution.weights
            return _point_of(solution.problem, solution.certificate)
        solver.solve(alpha, AIM * self.gap)
        if self._points_alone:
            point = _judge(solver)
            if point.relative_gap <= self.gap:
                return point
        current = self.problem.with_alpha(alpha)
        start = solver.W if np.isfinite(solver.W).all() else None
        if start is not None:
            certificate = certify(current, solver.W, duals=(solver.U,))
            if certificate.holds(self.gap):
                return _point_of(current, certificate)
        solution = current.solve("admm", gap=self.gap, start=start)
        solver.restart(solution.weights, solution.flows)
        return _point_of(current, solution.certificate)


def contracted_solution(
    problem: GTVMin, solver: ContractedADMM, gap: float = 1e-6, time_limit: float | None = None
) -> Solution | None:
    """Solution on the contracted network, or None where it misses the gap."""
    began, before = time.perf_counter(), solver.iterations
    solver.solve(problem.alpha, AIM * nonnegative_number(gap, "gap"), np.inf if time_limit is None else time_limit)
    if not np.isfinite(solver.W).all():
        return None
    certificate = certify(problem, solver.W, duals=(solver.U,))
    if not certificate.holds(gap):
        return None
    steps, seconds = solver.iterations - before, time.perf_counter() - began
    last = Record(steps, seconds, certificate.primal, certificate.dual, certificate.gap, certificate.relative_gap)
    return Solution(problem, certificate, Status.CERTIFIED, "contracted_admm", steps, seconds, (last,), ())


def _point_of(problem: GTVMin, certificate: Any) -> PathPoint:
    labels = join(problem, fused_edges(problem, certificate))
    return PathPoint(certificate.W, labels, certificate.gap, certificate.relative_gap)


def _judge(solver: ContractedADMM) -> PathPoint:
    """The solver's point with the gap that its flows prove: what ``certify`` and ``fused_edges`` say, in less time.

    The gap is compared with the objective and the bound alone, so that it is never smaller than the certificate's.
    """
    from gtvmin.solvers.clustering_gap import fused_labels, proved_gap

    network, W, U = solver.network, solver.W, solver.U
    bound = solver.strength * network.weights
    gap, objective = proved_gap(network, solver.strength, W, U)
    # squares of smaller numbers than these underflow, where certify() takes more care
    small = LEAST * float(bound.sum() + np.abs(W).max() + network.mass.max() + 1.0 / network.mass.min())
    relative = relative_gap(gap, objective, 0.0) if objective > small else np.inf
    radius = np.sqrt(2.0 * gap / network.mass)
    least = ROUNDING * float(np.abs(W).max())
    close = max(SHARE * float(np.median(radius)) / np.sqrt(len(W)), least)
    labels = fused_labels(network, W, U, bound, radius, close, least, 1.0 - SLACK)
    return PathPoint(W.copy(), labels, gap, relative)


def _points_alone(problem: GTVMin) -> bool:
    """Whether the losses are ``q_i/2 ||w - a_i||^2`` as declared, with nothing that cancels in them."""
    lowered = problem.with_alpha(1.0).lowered
    quadratic, n, dim = lowered.form.quadratic, lowered.form.n_nodes, lowered.form.dim
    return (
        isinstance(quadratic, QuadraticBlocks)
        and lowered.contraction is None
        and lowered.padding is None
        and len(lowered.edges[0]) == lowered.n_edges
        and not quadratic.tilt_size.any()
        and not quadratic.offset.any()
        and np.array_equal(quadratic.X, np.tile(np.eye(dim), (n, 1)))
    )


def contracted_admm(problem: GTVMin) -> ContractedADMM | None:
    """A solver on the contracted network, if the problem is one for it."""
    form = problem.with_alpha(1.0).lowered.form
    term, curvature = form.couplings[0], isotropic_curvature(form)
    if len(form.couplings) > 1 or form.rows or curvature is None or not (curvature > 0).all():
        return None
    if not isinstance(term.map, EdgeDifference) or not isinstance(term.function, NormBlocks) or not term.map.n_rows:
        return None
    if term.function.p != 2.0 and form.dim > 1:
        return None
    from gtvmin.solvers.clustering_network import ClusteringNetwork
    from gtvmin.solvers.contracted_admm import ContractedADMM

    centres = form.quadratic.quadratic()[1] / curvature[:, None]
    tail, head = (np.asarray(end) for end in term.map.ends)
    return ContractedADMM(ClusteringNetwork(curvature, centres, tail, head, term.function.capacity))
