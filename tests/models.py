"""Small problems in the notation of the literature, and their optimum from a model that shares nothing with gtvmin.

Most published cases are written as ``sum_i L_i(w_i) + alpha sum_e A_e phi(w_i - w_j)`` with squared losses that have
a half and a sum, ``L(w) = 1/2 ||y - X w||^2``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import gtvmin as gtv

PENALTIES = {"sq": gtv.SquaredNorm(), "l1": gtv.Norm(1), "l2": gtv.Norm(2), "linf": gtv.Norm(np.inf)}
PHI = {
    "sq": cp.sum_squares,
    "l1": lambda z: cp.norm(z, 1),
    "l2": lambda z: cp.norm(z, 2),
    "linf": lambda z: cp.norm(z, "inf"),
}


def methods(penalty: str) -> list[str]:
    """Names of the iterative solvers that fit squared losses with this penalty."""
    return ["primal_dual", "adaptive_primal_dual", *(["linear_system"] if penalty == "sq" else [])]


FITTING = [(penalty, method) for penalty in PENALTIES for method in methods(penalty)]
"""Every pair of penalty and iterative solver for squared losses."""


def half_squares(X: Any, y: Any) -> gtv.Loss:
    """``1/2 ||y - X w||^2``."""
    return 0.5 * gtv.SquaredError(X, y, scale="sum")


def scalar_problem(network: Any, targets: Mapping[Any, float], penalty: str, alpha: float) -> gtv.GTVMin:
    """One number a node, ``1/2 (w - target)^2``; a node without a target has no loss."""
    net = network if isinstance(network, gtv.FLNetwork) else gtv.FLNetwork(network)
    losses = {v: half_squares([[1.0]], [targets[v]]) if v in targets else gtv.Zero(1) for v in net.nodes}
    return gtv.GTVMin(net, losses, penalty=PENALTIES[penalty], alpha=alpha)


def point_problem(network: Any, points: Any, penalty: str, alpha: float) -> gtv.GTVMin:
    """One point a node, ``1/2 ||w - point||^2``: convex clustering."""
    losses = [half_squares(np.eye(len(point)), point) for point in np.asarray(points, dtype=float)]
    return gtv.GTVMin(network, losses, penalty=PENALTIES[penalty], alpha=alpha)


def cvxpy_optimum(problem: gtv.GTVMin, phi: str) -> float:
    """Optimal value, written node by node and edge by edge from the declared losses and weights."""
    W = cp.Variable((problem.network.n_nodes, problem.dim))
    value: Any = 0.0 * cp.sum(W)
    for w, loss in zip(W, problem.losses, strict=True):
        for coefficient, atom in loss.terms():
            if isinstance(atom, gtv.Ridge):
                value += coefficient * atom.lam * cp.sum(cp.multiply(atom.penalise, cp.square(w)))
                atom = atom.data
            if isinstance(atom, gtv.SquaredError) and atom.n_samples:
                rows = atom.n_samples if atom.scale == "mean" else 1
                value += coefficient * cp.sum_squares(atom.X @ w - atom.y) / rows
    net = problem.network
    for tail, head, weight in zip(net.tail, net.head, net.weights, strict=True):
        value += problem.alpha * weight * PHI[phi](W[head] - W[tail])
    model = cp.Problem(cp.Minimize(value))
    model.solve(solver="CLARABEL")
    assert model.status == "optimal"
    return float(model.value)


def penalty_expression(penalty: gtv.Penalty, z: Any) -> Any:
    """A penalty at a CVXPY expression, as its definition reads."""
    match penalty:
        case gtv.SquaredNorm():
            return cp.sum_squares(z)
        case gtv.Norm():
            return cp.norm(z, penalty.p)
        case gtv.HuberPenalty():
            near = cp.Variable(z.shape)
            return cp.sum_squares(near) / (2 * penalty.delta) + cp.norm(z - near, 2)
        case gtv.FlowCost():
            back_cost = penalty.cost if penalty.back_cost is None else penalty.back_cost
            back = penalty.capacity if penalty.back_capacity is None else penalty.back_capacity
            return cp.sum(penalty.capacity * cp.pos(z - penalty.cost) + back * cp.pos(-z - back_cost))
        case gtv.PredictionDiscrepancy() if penalty.X is None:
            return cp.quad_form(z, cp.psd_wrap(penalty.matrices))
        case gtv.PredictionDiscrepancy():
            return cp.sum_squares(penalty.X @ z) / (len(penalty.X) if penalty.scale == "mean" else 1)
        case gtv.Partial():
            return penalty_expression(penalty.penalty, z[list(penalty.coordinates)])
        case gtv.Consensus():
            return cp.transforms.indicator([z == 0])
    raise AssertionError(penalty)
