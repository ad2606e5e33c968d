"""Flows through a network whose largest load per unit of edge weight is as small as possible."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.sparse.csgraph import breadth_first_order

from gtvmin.network import FLNetwork
from gtvmin.penalties.norm import DUAL, row_norm
from gtvmin.solvers.standard_form import Array

__all__ = ["minmax_flow"]

LP_TOLERANCE = 1e-10
TOLERANCE = 1e-11


def minmax_flow(network: FLNetwork, outflows: Array, p: float) -> float:
    r"""Smallest t for which flows with ``||U_e||_* <= t A_e`` carry given net outflows.

    .. math::
        \min_{U, t} \; t \quad \text{subject to} \quad -D^T U = S, \; \|U_e\|_* \le t A_e \text{ for every edge } e

    Parameters
    ----------
    network : FLNetwork
        A connected network.
    outflows : array (n_nodes, dim)
        ``S``: what flows out of each node less what flows into it; the rows sum to zero.
    p : {1, 2, inf}
        The norm whose dual norm measures the flows: the largest entry for p = 1, the sum of entries for p = inf.

    Returns
    -------
    float
        The optimal t.

    Notes
    -----
    On a tree the flow is unique: the edge above a subtree carries the sum of its outflows.  Otherwise p = 1, or a
    single coordinate, is a linear program per coordinate, which HiGHS solves to a vertex; p = 2 and p = inf are a cone
    program that Clarabel solves to about ten digits.  For a single coordinate, t is by the max-flow min-cut theorem the
    largest ``|sum of outflows of C| / (weight of the edges that leave C)`` over sets C of nodes (L. R. Ford,
    D. R. Fulkerson, "Flows in Networks" (1962), DOI 10.1515/9781400875184, chapter 2).

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.minmax_flow import minmax_flow
    >>> triangle = gtv.FLNetwork.from_edges([(0, 1), (1, 2), (0, 2)])
    >>> round(minmax_flow(triangle, [[3.0], [-3.0], [0.0]], 1), 9)
    1.5
    """
    S = np.asarray(outflows, dtype=float)
    size = float(np.abs(S).max(initial=0.0))
    if size == 0.0:
        return 0.0
    if network.n_edges == network.n_nodes - 1:
        return float((row_norm(_tree_flow(network, S), DUAL[p]) / network.weights).max())
    S, weights = S / size, network.weights / network.weights.max()
    # one node's balance follows from the others', up to rounding
    balance = network.incidence().T.tocsr()[1:]
    if p == 1.0 or S.shape[1] == 1:
        load = max(_linear_program(balance, weights, s) for s in S[1:].T)
    else:
        load = _cone_program(balance, weights, S[1:], DUAL[p])
    return load * size / float(network.weights.max())


def _tree_flow(network: FLNetwork, S: Array) -> Array:
    """The only flow on a tree, up to signs: sums from the leaves to the first node."""
    links = (np.ones(network.n_edges), (network.tail, network.head))
    order, parent = breadth_first_order(
        sparse.csr_array(links, shape=(network.n_nodes,) * 2), 0, directed=False, return_predecessors=True
    )
    total = np.array(S)
    for node in order[:0:-1]:
        total[parent[node]] += total[node]
    below = np.where(parent[network.head] == network.tail, network.head, network.tail)
    return np.asarray(total[below])


def _linear_program(balance: sparse.csr_array, weights: Array, s: Array) -> float:
    """Flows of one coordinate between minus and plus t times the weight."""
    m = len(weights)
    flows, load = sparse.eye_array(m), sparse.csr_array(weights[:, None])
    limits: Any = sparse.block_array([[flows, -load], [-flows, -load]], format="csr")
    balances: Any = sparse.hstack([balance, sparse.csr_array((len(s), 1))], format="csr")
    cost = np.zeros(m + 1)
    cost[-1] = 1.0
    result: Any = linprog(
        cost,
        A_ub=limits,
        b_ub=np.zeros(2 * m),
        A_eq=balances,
        b_eq=-s,
        bounds=(None, None),
        method="highs",
        options={"primal_feasibility_tolerance": LP_TOLERANCE, "dual_feasibility_tolerance": LP_TOLERANCE},
    )
    if result.status != 0:
        raise RuntimeError(f"HiGHS did not find the flow: {result.message}")
    return float(result.fun)


def _cone_program(balance: sparse.csr_array, weights: Array, S: Array, order: float) -> float:
    """Flows of all coordinates, by interior points."""
    import cvxpy as cp

    U, load = cp.Variable((balance.shape[1], S.shape[1])), cp.Variable()
    rows: list[Any] = [balance @ U == -S, cp.norm(U, order, axis=1) <= load * weights]
    model = cp.Problem(cp.Minimize(load), rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an answer that is inaccurate: it has stalled near these tolerances
        model.solve(solver="CLARABEL", tol_gap_abs=TOLERANCE, tol_gap_rel=TOLERANCE, tol_feas=TOLERANCE)
    if model.status not in ("optimal", "optimal_inaccurate"):
        raise RuntimeError(f"Clarabel did not find the flow: {model.status}")
    return float(load.value)
