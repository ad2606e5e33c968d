"""Certified solutions of a clustering problem for one strength after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.certificates import certify
from gtvmin.penalties.norm import NormBlocks
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.quadratic_systems import isotropic_curvature

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.contracted_admm import ContractedADMM

__all__ = ["PathSolver"]

# The certificate adds an estimate of rounding to the gap that the solver sees.
AIM = 0.9


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
        self._contracted = None if options else _contracted_admm(problem)

    def solve(self, alpha: float) -> tuple[GTVMin, Certificate]:
        """The problem with this alpha, and the certificate of a solution."""
        current = self.problem.with_alpha(alpha)
        if self._contracted is not None and alpha > 0:
            self._contracted.solve(alpha, AIM * self.gap)
            certificate = certify(current, self._contracted.W, duals=(self._contracted.U,))
            if certificate.holds(self.gap):
                return current, certificate
            solution = current.solve("admm", gap=self.gap, start=self._contracted.W)
            self._contracted.restart(solution.weights, solution.flows)
            return current, solution.certificate
        solution = current.solve(gap=self.gap, start=self._start, **self.options)
        # without coupling there are no flows to start from
        self._start = solution if alpha > 0 else solution.weights
        return current, solution.certificate


def _contracted_admm(problem: GTVMin) -> ContractedADMM | None:
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
