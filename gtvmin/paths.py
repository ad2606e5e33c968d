"""Solutions for many strengths of the coupling, and the strength from which on all devices agree."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.clustering.solver import contracted_admm, contracted_solution
from gtvmin.errors import CapabilityError
from gtvmin.minmax_flow import minmax_flow
from gtvmin.penalties import Norm, SquaredNorm
from gtvmin.pooled import pooled_model
from gtvmin.solvers.driver import Status
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import frozen, numeric_array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solution import Solution
    from gtvmin.solvers.contracted_admm import ContractedADMM

__all__ = ["AlphaPath", "alpha_max", "check_alphas", "solve_path"]


def alpha_max(problem: GTVMin) -> float:
    r"""Smallest strength of the coupling at which the devices of each component have one model in common.

    Parameters
    ----------
    problem : GTVMin
        The problem; its own alpha does not matter.

    Returns
    -------
    float
        For ``Norm(p)``: at alpha_max the minimisers of each component's summed losses are solutions, and for
        larger alpha there are no others.  0 without edges.  ``inf`` for ``SquaredNorm()``, which lets neighbours agree
        exactly only where one model minimises every single loss.

        Exact if the losses are smooth: in closed form for quadratic losses on a tree, to about ten digits else.  For
        losses with kinks (absolute errors, hinges, l1 norms) it is an upper bound, up to such digits: one subgradient
        of each loss is used, and another choice may need less.

    Raises
    ------
    CapabilityError
        For other penalties, and for problems with several families of edges.
    ValueError, RuntimeError
        If a component's summed losses have no minimiser.

    Notes
    -----
    A consensus ``w`` is optimal if and only if there are ``s_i`` in :math:`\partial L_i(w)` and flows with
    :math:`-D^T U = s` and :math:`\|U_e\|_* \le \alpha A_e`, the dual norm; the least such alpha is a minimum of
    :func:`~gtvmin.minmax_flow.minmax_flow`.  Which minimiser of the summed losses is taken does not matter for smooth
    losses: an optimal flow is one for all of them.  On a path with losses ``(w - y_i)^2 / 2`` this is the largest
    ``|cumsum(y - mean(y))|`` of the fused Lasso (R. J. Tibshirani, J. Taylor, "The solution path of the generalized
    lasso", Ann. Statist. 39 (2011), DOI 10.1214/11-AOS878).

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0, 2, 1, 4, 3, 6)]
    >>> round(gtv.alpha_max(gtv.GTVMin(nx.path_graph(6), losses, penalty=gtv.Norm(1), alpha=1.0)), 9)
    5.0
    >>> round(gtv.alpha_max(gtv.GTVMin(nx.cycle_graph(6), losses, penalty=gtv.Norm(1), alpha=1.0)), 9)
    2.5
    """
    network, penalty = problem.network, problem.penalty
    if problem.further:
        raise CapabilityError("alpha_max is for problems with one family of edges")
    if not network.n_edges:
        return 0.0
    if isinstance(penalty, SquaredNorm):
        return float("inf")
    if not isinstance(penalty, Norm):
        raise CapabilityError(f"alpha_max is for Norm and SquaredNorm, the same for all edges, not for {penalty!r}")
    largest = 0.0
    for labels in network.components():
        if len(labels) > 1:
            nodes = [network.index(label) for label in labels]
            model = pooled_model([problem.losses[i] for i in nodes], int(problem.dims[nodes[0]]))
            largest = max(largest, minmax_flow(network.subgraph(labels), model.subgradients, penalty.p))
    return largest


@dataclass(frozen=True, eq=False, repr=False)
class AlphaPath:
    """Solutions of a problem for several strengths of the coupling, in the order asked for.

    ``path[k]`` is the k-th :class:`~gtvmin.solution.Solution`; a path is iterable and has a length.

    Attributes
    ----------
    alphas : array (k,)
        The strengths.
    solutions : tuple of Solution
        One for each, with its own certificate.
    seconds : float
        Time for all of them.
    """

    alphas: Array
    solutions: tuple[Solution, ...]
    seconds: float

    def __len__(self) -> int:
        return len(self.solutions)

    def __getitem__(self, position: int) -> Solution:
        return self.solutions[position]

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)

    @property
    def weights(self) -> Array:
        """Parameters (k, n_nodes, dim)."""
        return np.stack([solution.weights for solution in self.solutions])

    @property
    def is_certified(self) -> bool:
        """Whether every solution has the gap that was asked for."""
        return all(solution.is_certified for solution in self.solutions)

    @property
    def n_clusters(self) -> NDArray[np.int64]:
        """Number of groups of neighbours with equal parameters at each alpha, by :meth:`Solution.clusters`."""
        return np.array([1 + max(solution.clusters().values()) for solution in self.solutions], dtype=np.int64)

    def to_frame(self) -> Any:
        """One row an alpha: objective, gaps, clusters and cost, as a pandas DataFrame; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        columns = {
            name: [getattr(solution, name) for solution in self.solutions]
            for name in ("objective", "gap", "relative_gap", "is_certified", "iterations", "seconds")
        }
        index = pd.Index(self.alphas, name="alpha")
        return pd.DataFrame({**columns, "n_clusters": self.n_clusters}, index=index)

    def __repr__(self) -> str:
        certified = sum(solution.is_certified for solution in self.solutions)
        return (
            f"<AlphaPath: {len(self)} values of alpha from {self.alphas[0]:g} to {self.alphas[-1]:g}, "
            f"{certified} certified, {self.seconds:.3g} s>"
        )


def solve_path(problem: GTVMin, alphas: ArrayLike, method: str | Any = "auto", **options: Any) -> AlphaPath:
    """Solve a problem for several strengths of the coupling, each solve starting from the one before.

    Parameters
    ----------
    problem : GTVMin
        The problem; its own alpha does not matter.
    alphas : array_like (k,)
        The strengths, solved in this order; falling or rising values start well, others are allowed.
    method : str or Solver
        As for :func:`gtvmin.solving.solve`.  ``"cvxpy"`` compiles one model for all strengths.  ``"auto"`` solves
        large convex clusterings on the clusters found so far (:mod:`gtvmin.solvers.contracted_admm`), unless there are
        options other than ``gap`` and ``time_limit``.
    **options
        Further arguments of :func:`gtvmin.solving.solve`, such as ``gap``.

    Returns
    -------
    AlphaPath
        Each solution is certified by itself: what the others are like does not matter for it.  Ctrl-C ends the path
        with the solution that was being sought.

    Raises
    ------
    ValueError, TypeError
        If alphas is empty or not one-dimensional, or a strength is negative or NaN.

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0, 2, 1, 4, 3, 6)]
    >>> path = gtv.GTVMin(nx.path_graph(6), losses, penalty=gtv.Norm(1), alpha=1.0).path([6.0, 1.0, 0.1])
    >>> path.n_clusters.tolist(), path[1].objective < path[0].objective
    ([1, 4, 6], True)
    """
    strengths = check_alphas(alphas)
    began = time.perf_counter()
    if method == "cvxpy":
        from gtvmin.reference import ReferenceModel

        options = {**options, "model": ReferenceModel(problem)}
    solutions: list[Solution] = []
    clusters = _contracted(problem, method, options)
    for alpha in strengths.tolist():
        current, solution = problem.with_alpha(alpha), None
        if clusters is not None and _couples(alpha):
            solution = contracted_solution(current, clusters, **options)
        if solution is None:
            start = solutions[-1] if solutions else options.get("start")
            if solutions and not (_couples(alpha) and _couples(solutions[-1].problem.alpha)):
                start = solutions[-1].weights  # the duals of uncoupled devices, or of a consensus, are others
            solution = current.solve(method, **{**options, "start": start})
            if clusters is not None and _couples(alpha):
                clusters.restart(solution.weights, solution.flows)
        solutions.append(solution)
        if solution.status is Status.INTERRUPTED:
            break
    return AlphaPath(frozen(strengths[: len(solutions)]), tuple(solutions), time.perf_counter() - began)


def _contracted(problem: GTVMin, method: str | Any, options: dict[str, Any]) -> ContractedADMM | None:
    """What solves on the clusters found so far, for large clusterings and if no option asks for more than that."""
    from gtvmin.solving import choose_method

    if method != "auto" or not options.keys() <= {"gap", "time_limit"}:
        return None
    if choose_method(problem.with_alpha(1.0).lowered.solver_form) != "admm":
        return None
    return contracted_admm(problem)


def check_alphas(alphas: ArrayLike) -> Array:
    """Strengths as a read-only array (k,)."""
    strengths = numeric_array(alphas, "alphas")
    if strengths.ndim != 1 or not strengths.size:
        raise ValueError(f"alphas must be a list of at least one strength, got shape {strengths.shape}")
    bad = np.flatnonzero(~(strengths >= 0))
    if bad.size:
        raise ValueError(f"alphas must be >= 0, got {strengths[bad[0]]:g} at position {bad[0]}")
    return frozen(strengths)


def _couples(alpha: float) -> bool:
    return 0.0 < alpha < np.inf
