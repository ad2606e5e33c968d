"""Problems with every kind of coupling, and their optima by CVXPY."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

import cvxpy as cp
import numpy as np

import gtvmin as gtv
from gtvmin.errors import NotUniqueWarning
from gtvmin.registry import make_solver, solver_names
from gtvmin.solvers.driver import missing_capabilities
from models import penalty_expression

Array = np.ndarray[Any, np.dtype[np.float64]]
Pair = tuple[Hashable, Hashable]
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
EDGES = [("a", "b", 1.0), ("b", "c", 0.5), ("a", "c", 2.0), ("c", "d", 1.0), ("d", "e", 1.0), ("e", "f", 3.0)]
NODES = list("abcdef")
NET = gtv.FLNetwork.from_edges(EDGES, nodes=NODES)
PAIRS = [(tail, head) for tail, head, _ in EDGES]
rng = np.random.default_rng(7)
POINTS = {pair: rng.standard_normal((r, 3)) for pair, r in zip(PAIRS, (5, 2, 1, 4, 3, 3), strict=True)}
MATRIX = POINTS["a", "b"].T @ POINTS["a", "b"] / 5
NEAR = {pair: tuple(np.eye(3) + 0.3 * rng.standard_normal((2, 3, 3))) for pair in PAIRS}
TALL = tuple(np.eye(2, 3) + 0.3 * rng.standard_normal((2, 2, 3)))
FEATURES = rng.standard_normal((6, 4, 3))
LABELS = rng.standard_normal((6, 4))
FLOW = gtv.FlowCost(0.1, 0.4, 0.3, 0.6)

LOSSES: dict[str, Callable[[int], gtv.Loss]] = {
    "full_rank": lambda i: gtv.SquaredError(FEATURES[i], LABELS[i]),
    "rank_deficient": lambda i: gtv.SquaredError(FEATURES[i, :2], LABELS[i, :2]),
    "unlabelled": lambda i: gtv.Zero(3) if i in (1, 4) else gtv.SquaredError(FEATURES[i], LABELS[i]),
}

PENALTIES: dict[str, Any] = {
    "huber": gtv.HuberPenalty(0.3),
    "flow": gtv.FlowCost(0.1, 0.4),
    "two_way_flow": FLOW,
    "one_way_flow": gtv.FlowCost(0.1, 0.4, back_capacity=0.0),
    "flow_by_edge": gtv.FlowCost(np.arange(6) / 10, {pair: 1.0 + k for k, pair in enumerate(PAIRS)}),
    "test_points": gtv.PredictionDiscrepancy(POINTS["a", "b"]),
    "test_points_by_edge": gtv.PredictionDiscrepancy(POINTS, scale="sum"),
    "matrix": gtv.PredictionDiscrepancy(matrices=MATRIX),
    "partial": gtv.Partial(gtv.Norm(2), [2, 0]),
    "partial_points": gtv.Partial(gtv.PredictionDiscrepancy(POINTS["b", "c"][:, :2]), [0, 2]),
    "maps": gtv.Mapped(gtv.Norm(1), TALL),
    "maps_by_edge": gtv.Mapped(gtv.SquaredNorm(), NEAR),
    "consensus": gtv.Consensus(),
    "partial_consensus": gtv.Partial(gtv.Consensus(), [1, 2]),
    "mixed": {
        ("a", "b"): gtv.Norm(2),
        ("c", "b"): FLOW,
        ("a", "c"): gtv.HuberPenalty(0.1),
        ("c", "d"): gtv.Consensus(),
        ("d", "e"): gtv.HuberPenalty(0.4),
        ("e", "f"): gtv.Mapped(gtv.SquaredNorm(), TALL),
    },
}


def on_edges(declared: Any, pairs: list[Pair]) -> Iterator[tuple[Any, Pair]]:
    """What was declared for every edge, and the pair of labels that it was declared for."""
    for k, (tail, head) in enumerate(pairs):
        if isinstance(declared, Mapping):
            key = (tail, head) if (tail, head) in declared else (head, tail)
            yield declared[key], key
        elif isinstance(declared, gtv.FlowCost):
            parts = (declared.cost, declared.capacity, declared.back_cost, declared.back_capacity)
            own = (p[tail, head] if isinstance(p, dict) else p[k] if isinstance(p, np.ndarray) else p for p in parts)
            yield gtv.FlowCost(*own), (tail, head)
        elif isinstance(declared, gtv.PredictionDiscrepancy) and isinstance(declared.X, dict):
            yield gtv.PredictionDiscrepancy(declared.X[tail, head], scale=declared.scale), (tail, head)
        elif isinstance(declared, gtv.Mapped) and isinstance(declared.maps, dict):
            yield gtv.Mapped(declared.penalty, declared.maps[tail, head]), (tail, head)
        else:
            yield declared, (tail, head)


def optimum(losses: Mapping[Any, gtv.Loss], families: list[tuple[Any, Any, float]]) -> tuple[float, dict[Any, Array]]:
    """Optimal value and parameters; families are (edges with weights, what was declared, alpha)."""
    w = {node: cp.Variable(loss.dim) for node, loss in losses.items()}
    value: Any = 0.0
    for node, loss in losses.items():
        if isinstance(loss, gtv.SquaredError):
            value += cp.sum_squares(loss.X @ w[node] - loss.y) / len(loss.y)
        else:
            value += 0.0 * cp.sum(w[node])
    for edges, declared, alpha in families:
        pairs = [edge[:2] for edge in edges]
        for (penalty, (source, target)), (_, _, weight) in zip(on_edges(declared, pairs), edges, strict=True):
            if isinstance(penalty, gtv.Mapped):
                B, C = penalty.maps
                value += alpha * weight * penalty_expression(penalty.penalty, B @ w[target] - C @ w[source])
            else:
                value += alpha * weight * penalty_expression(penalty, w[target] - w[source])
    model = cp.Problem(cp.Minimize(value))
    model.solve(**TIGHT)
    assert model.status in ("optimal", "optimal_inaccurate")
    return float(model.value), {node: variable.value for node, variable in w.items()}


def problem_of(kind: str, penalty: Any, alpha: float = 0.3) -> gtv.GTVMin:
    losses = {node: LOSSES[kind](i) for i, node in enumerate(NODES)}
    return gtv.GTVMin(NET, losses, penalty=penalty, alpha=alpha)


def solved(problem: gtv.GTVMin, method: str = "auto", **options: Any) -> gtv.Solution:
    """A certified solution; some of the problems here have more than one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotUniqueWarning)
        solution = problem.solve(method, **options)
    assert solution.is_certified
    return solution


def fitting(problem: gtv.GTVMin) -> list[str]:
    names = [n for n in solver_names() if not missing_capabilities(make_solver(n), problem.lowered.solver_form)]
    return [name for name in ("primal_dual", "adaptive_primal_dual", "linear_system") if name in names]


# Several families of edges
def scalars(*targets: float) -> list[gtv.Loss]:
    return [0.5 * gtv.SquaredError([[1.0]], [y]) for y in targets]
