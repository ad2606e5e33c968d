"""CVXPY models against formulas written out here, against each other and against cases solved by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.lowering import Lowered
from gtvmin.reference import solve_reference, to_cvxpy, to_cvxpy_dual
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import BlockFunction, StandardForm, Term

Array = np.ndarray[Any, np.dtype[np.float64]]

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11}
# Largest error that is accepted in flows, relative to the largest flow: first-order solvers stop earlier.
FLOW_TOLERANCE = {"CLARABEL": 1e-6, "SCS": 1e-6, "OSQP": 1e-6}
PENALTIES = {"squared": gtv.SquaredNorm(), "l1": gtv.Norm(1), "l2": gtv.Norm(2), "linf": gtv.Norm(np.inf)}
DUAL_ORDER = {"l1": np.inf, "l2": 2, "linf": 1}
FITTING = [(solver, name) for solver in FLOW_TOLERANCE for name in PENALTIES if (solver, name) != ("OSQP", "l2")]


@dataclass(frozen=True)
class Device:
    """A loss and, spelled out, its value and gradient."""

    loss: gtv.Loss
    value: Callable[[Array], float]
    gradient: Callable[[Array], Array]


def mean_error(X: Array, y: Array, _: int) -> Device:
    m = len(y)
    return Device(
        gtv.SquaredError(X, y), lambda w: float(np.mean((X @ w - y) ** 2)), lambda w: 2 / m * X.T @ (X @ w - y)
    )


def summed_error(X: Array, y: Array, _: int) -> Device:
    return Device(
        gtv.SquaredError(X, y, scale="sum"),
        lambda w: float(np.sum((X @ w - y) ** 2)),
        lambda w: 2 * X.T @ (X @ w - y),
    )


def ridge(X: Array, y: Array, _: int) -> Device:
    m = len(y)
    return Device(
        gtv.Ridge(X, y, lam=0.3),
        lambda w: float(np.mean((X @ w - y) ** 2) + 0.3 * w @ w),
        lambda w: 2 / m * X.T @ (X @ w - y) + 0.6 * w,
    )


def ridge_with_intercept(X: Array, y: Array, _: int) -> Device:
    c = np.array([1.0, 2.5, 0.0])
    return Device(
        gtv.Ridge(X, y, lam=0.3, penalise=c, scale="sum"),
        lambda w: float(np.sum((X @ w - y) ** 2) + 0.3 * np.sum(c * w**2)),
        lambda w: 2 * X.T @ (X @ w - y) + 0.6 * c * w,
    )


def half_without_data(X: Array, y: Array, node: int) -> Device:
    if node % 2:
        return Device(gtv.Zero(), lambda w: 0.0, np.zeros_like)
    return summed_error(X, y, node)


def scaled_sum(X: Array, y: Array, node: int) -> Device:
    a, b = summed_error(X, y, node), ridge(X[:2], y[:2], node)
    return Device(
        3 * a.loss + 0.25 * b.loss,
        lambda w: 3 * a.value(w) + 0.25 * b.value(w),
        lambda w: 3 * a.gradient(w) + 0.25 * b.gradient(w),
    )


LOSSES = [mean_error, summed_error, ridge, ridge_with_intercept, half_without_data, scaled_sum]
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 3)]
WEIGHTS = np.array([1.0, 0.5, 2.0, 1.0, 0.25, 1.5])
ALPHA = 0.4


def instance(make: Callable[[Array, Array, int], Device], penalty: gtv.Penalty) -> tuple[gtv.GTVMin, list[Device]]:
    """Five devices of three parameters with four data points each, in two groups."""
    rng = np.random.default_rng(7)
    devices = []
    for node in range(5):
        X = rng.standard_normal((4, 3))
        truth = np.array([1.0, -1.0, 0.5]) if node < 3 else np.array([1.0, 2.0, 0.5])
        devices.append(make(X, X @ truth + 0.3 * rng.standard_normal(4), node))
    network = gtv.FLNetwork.from_edges(EDGES, weights=WEIGHTS, nodes=range(5))
    problem = gtv.GTVMin(network, [device.loss for device in devices], penalty=penalty, alpha=ALPHA)
    return problem, devices


def penalty_value(name: str, z: Array) -> float:
    order = {"l1": 1, "l2": 2, "linf": np.inf}
    return float(z @ z) if name == "squared" else float(np.linalg.norm(z, order[name]))


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize("name", PENALTIES)
def test_primal_dual_and_the_formula_agree(make: Callable[[Array, Array, int], Device], name: str) -> None:
    problem, devices = instance(make, PENALTIES[name])
    model = to_cvxpy(problem)
    primal = model.solve(**TIGHT)
    dual = to_cvxpy_dual(problem).solve(**TIGHT)
    W = model.var_dict["W"].value
    formula = sum(device.value(w) for device, w in zip(devices, W, strict=True)) + ALPHA * sum(
        weight * penalty_value(name, W[head] - W[tail])
        for (tail, head), weight in zip([sorted(edge) for edge in EDGES], WEIGHTS, strict=True)
    )
    assert primal == pytest.approx(formula, rel=1e-7)
    assert dual == pytest.approx(primal, rel=1e-7)
    assert problem.objective(W) == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize("make", LOSSES)
@pytest.mark.parametrize(("solver", "name"), FITTING)
def test_flows_satisfy_the_optimality_conditions(
    make: Callable[[Array, Array, int], Device], solver: str, name: str
) -> None:
    problem, devices = instance(make, PENALTIES[name])
    result = solve_reference(problem, solver)
    assert result.status in ("optimal", "optimal_inaccurate")
    assert result.W.shape == (5, 3)
    assert result.U.shape == (6, 3)
    assert result.compile_seconds > 0
    assert result.solve_seconds > 0
    U, tolerance = result.U, FLOW_TOLERANCE[solver] * np.abs(result.U).max()
    received = np.zeros((5, 3))
    for (tail, head), flow in zip(problem.network.edges, U, strict=True):
        received[head] += flow
        received[tail] -= flow
    gradients = [device.gradient(w) for device, w in zip(devices, result.W, strict=True)]
    np.testing.assert_allclose(-received, gradients, atol=tolerance)
    for (tail, head), weight, flow in zip(problem.network.edges, WEIGHTS, U, strict=True):
        z = result.W[head] - result.W[tail]
        if name == "squared":
            np.testing.assert_allclose(flow, 2 * ALPHA * weight * z, atol=tolerance)
        else:
            assert np.linalg.norm(flow, DUAL_ORDER[name]) <= ALPHA * weight + tolerance
            assert flow @ z == pytest.approx(ALPHA * weight * penalty_value(name, z), abs=tolerance)


def half_square(y: Any) -> gtv.Loss:
    """``1/2 ||w - y||^2``."""
    target = np.atleast_1d(np.asarray(y, dtype=float))
    return 0.5 * gtv.SquaredError(np.eye(len(target)), target, scale="sum")


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "OSQP"])
@pytest.mark.parametrize(("nodes", "sign"), [(("a", "b"), 1.0), (("b", "a"), -1.0)])
def test_sign_of_flows(solver: str, nodes: tuple[str, str], sign: float) -> None:
    """C14 (cvxpy issues #2849, #824, #1464): y = (0, 3) gives w = (1, 2), whose gradients are +1 at a and -1 at b.

    Here ``grad L_i(w_i) = sum of U over edges out of i - sum over edges into i``: a flow of +1 leaves a for b, and
    turning the edge around turns its sign.
    """
    network = gtv.FLNetwork.from_edges([("a", "b")], nodes=nodes)
    losses = {"a": half_square(0.0), "b": half_square(3.0)}
    problem = gtv.GTVMin(network, losses, penalty=gtv.Norm(1), alpha=1.0)
    result = solve_reference(problem, solver)
    assert network.edges == (nodes,)
    assert result.W[network.index("a"), 0] == pytest.approx(1.0, abs=1e-5)
    assert result.U[0, 0] == pytest.approx(sign, abs=1e-6)
    assert result.value == pytest.approx(2.0, rel=1e-9)
    model = to_cvxpy(problem)
    model.solve(solver=solver)
    assert -model.constraints[0].dual_value[0, 0] == pytest.approx(sign, abs=1e-3)
    dual = to_cvxpy_dual(problem)
    dual.solve(solver=solver)
    assert dual.var_dict["U"].value[0, 0] == pytest.approx(sign, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "difference", "value"),
    [("squared", (1, 4 / 3), 25 / 6), ("l2", (2.4, 3.2), 2.25), ("l1", (2, 3), 3.0), ("linf", (3, 3), 1.75)],
)
def test_norm_and_squared_norm_differ(name: str, difference: tuple[float, float], value: float) -> None:
    """C44 (FedDR issue #1): the prox of the norm is not that of the squared norm."""
    losses = [half_square([0, 0]), half_square([3, 4])]
    result = solve_reference(gtv.GTVMin(nx.path_graph(2), losses, penalty=PENALTIES[name], alpha=0.5))
    assert result.value == pytest.approx(value, rel=1e-8)
    np.testing.assert_allclose(result.W[1] - result.W[0], difference, atol=1e-4)


@pytest.mark.parametrize(("scale", "value"), [("sum", 3.0), ("mean", 2.0)])
def test_devices_with_more_data_weigh_more_in_sums(scale: Any, value: float) -> None:
    """C38 (FedLab issue #305): 1 data point at 0 and 3 at 4 meet at 3 if errors are summed, at 2 if averaged."""
    losses = [
        gtv.SquaredError(np.ones((1, 1)), np.zeros(1), scale=scale),
        gtv.SquaredError(np.ones((3, 1)), np.full(3, 4.0), scale=scale),
    ]
    result = solve_reference(gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.Norm(2), alpha=100.0))
    np.testing.assert_allclose(result.W, value, atol=1e-6)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("alpha", [0.01, 10.0])
def test_rank_deficient_devices_complete_each_other(name: str, alpha: float) -> None:
    """C54 (scikit-learn issue #22947): x = (1, 0) with y = 1 and x = (0, 1) with y = 2 give (1, 2) at any alpha > 0."""
    losses = [gtv.SquaredError([[1.0, 0.0]], [1.0]), gtv.SquaredError([[0.0, 1.0]], [2.0])]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=PENALTIES[name], alpha=alpha)
    result = solve_reference(problem)
    assert result.value == pytest.approx(0.0, abs=1e-8)
    np.testing.assert_allclose(result.W, [[1, 2], [1, 2]], atol=1e-3)
    assert to_cvxpy_dual(problem).solve(**TIGHT) == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("penalty", "w", "value"),
    [(gtv.Norm(1), (4, 6), 24.0), (gtv.SquaredNorm(), (80 / 17, 90 / 17), 23.529412)],
)
def test_weight_of_parallel_edges(penalty: gtv.Penalty, w: tuple[float, float], value: float) -> None:
    """C24 (networkx issue #598): parallel edges of weights 1 and 3 are one edge of weight 4."""
    network = gtv.FLNetwork.from_edges([(0, 1)], weights=[4.0])
    problem = gtv.GTVMin(network, [half_square(0), half_square(10)], penalty=penalty, alpha=1.0)
    result = solve_reference(problem)
    np.testing.assert_allclose(result.W[:, 0], w, atol=1e-5)
    assert result.value == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize(
    ("weights", "w", "value"), [((1, 1, 1, 1), None, 4.0), ((2, 0.5, 2, 0.5), (0.75, 0.75, 4.25, 4.25), 2.375)]
)
def test_weighted_fused_lasso(weights: tuple[float, ...], w: tuple[float, ...] | None, value: float) -> None:
    """C07 (gfl issue #6): on a cycle of four, weights scale the penalty of each edge."""
    network = gtv.FLNetwork.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], weights=weights)
    losses = [half_square(y) for y in (0, 1, 4, 5)]
    result = solve_reference(gtv.GTVMin(network, losses, penalty=gtv.Norm(1), alpha=0.5))
    assert result.value == pytest.approx(value, rel=1e-8)
    if w is not None:
        np.testing.assert_allclose(result.W[:, 0], w, atol=1e-5)


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("solver", ["CLARABEL", "SCS", "OSQP"])
def test_one_parameter(name: str, solver: str) -> None:
    """All norms of one number are its absolute value, which OSQP takes as well."""
    losses = [half_square(0), half_square(3), half_square(0)]
    problem = gtv.GTVMin(nx.path_graph(3), losses, penalty=PENALTIES[name], alpha=0.5)
    result = solve_reference(problem, solver)
    expected = [0.75, 1.5, 0.75] if name == "squared" else [0.5, 2.0, 0.5]
    np.testing.assert_allclose(result.W[:, 0], expected, atol=1e-5)
    assert to_cvxpy_dual(problem).solve(solver=solver) == pytest.approx(result.value, rel=1e-4)


@pytest.mark.parametrize(("edges", "alpha"), [([(0, 1), (1, 2)], 0.0), ([], 1.0), ([], 0.0)])
@pytest.mark.parametrize("penalty", [gtv.Norm(2), gtv.SquaredNorm()])
def test_uncoupled_devices_solve_their_own_problems(edges: Any, alpha: float, penalty: gtv.Penalty) -> None:
    graph = nx.empty_graph(3)
    graph.add_edges_from(edges)
    losses = [gtv.SquaredError([[1.0], [1.0]], [1.0, 3.0]), gtv.Zero(), half_square(-4.0)]
    problem = gtv.GTVMin(graph, losses, penalty=penalty, alpha=alpha)
    for solver in ("CLARABEL", "SCS", "OSQP"):
        result = solve_reference(problem, solver)
        np.testing.assert_allclose(result.W[[0, 2], 0], [2.0, -4.0], atol=1e-6)
        np.testing.assert_array_equal(result.U, np.zeros((len(edges), 1)))
        assert result.value == pytest.approx(1.0, rel=1e-8)
    assert to_cvxpy_dual(problem).solve(**TIGHT) == pytest.approx(1.0, rel=1e-8)


@pytest.mark.parametrize("graph", [nx.path_graph(3), nx.empty_graph(3)])
def test_devices_without_data_everywhere(graph: nx.Graph) -> None:
    problem = gtv.GTVMin(graph, [gtv.Zero()] * 3, penalty=gtv.Norm(2), alpha=1.0, dim=2)
    result = solve_reference(problem)
    assert result.W.shape == (3, 2)
    assert result.value == pytest.approx(0.0, abs=1e-9)
    assert to_cvxpy_dual(problem).solve(**TIGHT) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("solver", ["CLARABEL", "SCS"])
@pytest.mark.parametrize(("x_unit", "y_unit"), [(1.0, 1e8), (1.0, 1e-8), (1e6, 1.0), (1e-6, 1e6)])
@pytest.mark.parametrize("name", ["l2", "squared"])
def test_units_of_the_data_do_not_matter(solver: str, x_unit: float, y_unit: float, name: str) -> None:
    """With features times a and labels times b, parameters scale by b/a, norms' alpha by a b, the objective by b^2."""
    rng = np.random.default_rng(3)
    data = [(rng.standard_normal((4, 2)), 2.0 + rng.standard_normal(4)) for _ in range(6)]

    def solve(a: float, b: float) -> Any:
        alpha = 0.3 * (a**2 if name == "squared" else a * b)
        losses = [gtv.SquaredError(a * X, b * y) for X, y in data]
        return solve_reference(gtv.GTVMin(nx.cycle_graph(6), losses, penalty=PENALTIES[name], alpha=alpha), solver)

    plain, scaled = solve(1.0, 1.0), solve(x_unit, y_unit)
    np.testing.assert_allclose(scaled.W * x_unit / y_unit, plain.W, atol=1e-5)
    np.testing.assert_allclose(scaled.U / (x_unit * y_unit), plain.U, atol=1e-5)
    assert scaled.value / y_unit**2 == pytest.approx(plain.value, rel=1e-8)


def test_the_model_can_be_extended() -> None:
    """A bound on a parameter makes the path (0, 3) stop at it."""
    problem = gtv.GTVMin(nx.path_graph(2), [half_square(0), half_square(3)], penalty=gtv.Norm(1), alpha=1.0)
    model = to_cvxpy(problem)
    W = model.var_dict["W"]
    cp.Problem(model.objective, [*model.constraints, W[1, 0] <= 1.5]).solve(**TIGHT)
    np.testing.assert_allclose(W.value[:, 0], [1.0, 1.5], atol=1e-5)
    assert set(model.var_dict) == {"W", "Z"}
    assert "U" in to_cvxpy_dual(problem).var_dict


@pytest.mark.parametrize("penalty", [gtv.Norm(2), gtv.SquaredNorm()])
def test_certificates_accept_the_flows(penalty: gtv.Penalty) -> None:
    """Through a leaf without data nothing flows; what rounding leaves there is no reason to refuse the flows."""
    losses = [half_square([1, 0]), gtv.Zero(), gtv.SquaredError([[1.0, 1.0]], [4.0]), gtv.Zero()]
    problem = gtv.GTVMin(nx.path_graph(4), losses, penalty=penalty, alpha=0.2)
    result = solve_reference(problem)
    assert gtv.certify(problem, result.W, result.U).relative_gap < 1e-8


def test_unknown_solver() -> None:
    problem, _ = instance(summed_error, gtv.Norm(2))
    with pytest.raises(ValueError, match=r"'GURBOI' is not installed.*CLARABEL"):
        solve_reference(problem, "GURBOI")
    assert solve_reference(problem, "clarabel").status.startswith("optimal")


def test_solver_that_does_not_fit() -> None:
    problem, _ = instance(summed_error, gtv.Norm(2))
    with pytest.raises(CapabilityError, match=r"OSQP cannot express.*CLARABEL"):
        solve_reference(problem, "OSQP")


def test_options_reach_the_solver() -> None:
    """Running out of iterations is told by the status, not by a warning: a certificate judges the answer."""
    problem, _ = instance(summed_error, gtv.Norm(2))
    assert solve_reference(problem, "CLARABEL", max_iter=3).status == "user_limit"
    assert solve_reference(problem, "SCS", max_iters=5).status == "optimal_inaccurate"


class Slope(BlockFunction):
    """``sum of w``: bounded below nowhere."""

    n_rows, dim = 2, 1

    def value(self, W: Array) -> Array:
        return W.sum(axis=1)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        return factor * unit * cp.sum(W)


class Infeasible(Slope):
    """A function whose domain is empty."""

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        return cp.sum(W) + cp.sum(cp.transforms.indicator([W >= 1, W <= 0]))


@pytest.mark.parametrize(("function", "status"), [(Slope(), "unbounded"), (Infeasible(), "infeasible")])
def test_unbounded_and_infeasible_problems(function: BlockFunction, status: str) -> None:
    coupling = gtv.Norm(2).stack(np.ones(1), 1)
    difference = EdgeDifference(np.array([0]), np.array([1]), 2, 1)
    form = StandardForm(2, 1, function, (Term(difference, coupling),), (), function)
    problem: Any = SimpleNamespace(lowered=Lowered(form, (np.array([0]),), 1, 1))
    with pytest.raises(RuntimeError, match=f"CLARABEL .*{status}"):
        solve_reference(problem)


def test_a_solver_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = instance(summed_error, gtv.Norm(2))

    def fail(*_: Any, **__: Any) -> None:
        raise cp.SolverError("Solver 'CLARABEL' failed.")

    monkeypatch.setattr(cp.Problem, "unpack_results", fail)
    with pytest.raises(RuntimeError, match="CLARABEL failed"):
        solve_reference(problem)


def test_large_problems_compile_fast() -> None:
    """About 0.2 s where this was written; a model that loops over nodes or edges takes minutes."""
    rng = np.random.default_rng(0)
    n, dim, m = 2000, 10, 10_000
    tail = rng.integers(0, n - 1, m)
    head = rng.integers(tail + 1, n)
    losses = [gtv.SquaredError(rng.standard_normal((15, dim)), rng.standard_normal(15)) for _ in range(n)]
    network = gtv.FLNetwork.from_edges(np.unique(np.column_stack([tail, head]), axis=0), nodes=range(n))
    problem = gtv.GTVMin(network, losses, penalty=gtv.Norm(2), alpha=0.1)
    start = time.perf_counter()
    to_cvxpy(problem).get_problem_data("CLARABEL")
    to_cvxpy_dual(problem).get_problem_data("CLARABEL")
    assert time.perf_counter() - start < 10.0
