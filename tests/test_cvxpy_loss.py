"""Losses given as CVXPY expressions: against closed forms, against CVXPY's own models, and on networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.losses.cvxpy_blocks import CvxpyBlocks
from gtvmin.losses.cvxpy_loss import CvxpyLoss
from models import PENALTIES, PHI

Array = np.ndarray[Any, Any]
A = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
MATRIX = np.array([[1.0, 0.5], [0.3, -1.0], [2.0, 1.0]])

EXPRESSIONS: dict[str, Callable[[Any], Any]] = {
    "norm1": cp.norm1,
    "squares": lambda w: cp.sum_squares(w - 1),
    "quadratic form": lambda w: cp.quad_form(w, np.diag([1.0, 2.0, 0.5])),
    "huber of two rows": lambda w: cp.sum(cp.huber(A @ w - 3)),
    "log-sum-exp": cp.log_sum_exp,
    "barrier": lambda w: -cp.sum(cp.log(w)),
    "entropy": lambda w: -cp.sum(cp.entr(w)),
    "power and largest": lambda w: cp.power(w[0], 4) + cp.max(w),
    "eigenvalue": lambda w: cp.lambda_max(cp.bmat([[w[0], w[1]], [w[1], w[2]]])) + cp.sum_squares(w),
    "affine": lambda w: w[0] - 2 * w[1] + 3,
    "constrained": lambda w: (cp.norm(w, 3), [cp.sum(w) == 1, w >= -1]),
}


def block(name: str, coefficient: float = 2.0) -> CvxpyBlocks:
    return CvxpyBlocks(**CvxpyLoss(EXPRESSIONS[name], 3).row_arrays(3, coefficient))


def solve(problem: cp.Problem) -> float:
    """To the last digit that the solver finds, which it calls inaccurate."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return float(problem.solve(solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12))


def declare(name: str, w: Any) -> tuple[Any, list[Any]]:
    built = EXPRESSIONS[name](w)
    return built if isinstance(built, tuple) else (built, [])


# Against CVXPY


@pytest.mark.parametrize("step", [0.05, 0.7, 20.0])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_prox_and_conjugate_are_what_cvxpy_finds(name: str, step: float) -> None:
    """At ``s = (v - prox) / step``, a slope at the prox, the supremum of the conjugate is attained there."""
    blocks = block(name)
    v = np.array([0.8, -1.3, 0.4])
    w = cp.Variable(3)
    expression, constraints = declare(name, w)
    solve(cp.Problem(cp.Minimize(2 * expression + cp.sum_squares(w - v) / (2 * step)), constraints))
    found = blocks.prox(v[None], np.array([step]))
    np.testing.assert_allclose(found[0], w.value, atol=2e-6 * max(step, 1.0))
    s = (v - found[0]) / step
    supremum = -solve(cp.Problem(cp.Minimize(2 * expression - s @ w), constraints))
    assert blocks.conjugate(s[None])[0] == pytest.approx(supremum, rel=1e-6, abs=1e-6)
    gap = blocks.fenchel_young(found, s[None])[0]
    assert 0 <= gap <= 1e-7 * (1 + abs(supremum))
    conjugate, conditions = blocks.conjugate_to_cvxpy(cp.Constant(s[None]))
    assert solve(cp.Problem(cp.Minimize(conjugate), conditions)) == pytest.approx(supremum, rel=1e-5, abs=1e-5)
    # as a subgradient it is in the domain of the conjugate
    assert blocks.dual_gauge(s[None])[0] <= (1e-6 if "quad" in name or name == "squares" else 1.0) or name == "affine"
    np.testing.assert_allclose(blocks.project_domain(s[None])[0], s, atol=1e-7)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_models_are_those_of_the_expression(name: str) -> None:
    point = np.array([0.5, 0.2, 0.3])
    w, loss = cp.Variable(3), CvxpyLoss(EXPRESSIONS[name], 3)
    w.value = point
    expected = float(declare(name, w)[0].value)
    assert loss.value(point) == pytest.approx(expected, rel=1e-14)
    rows = cp.Variable((1, 3))
    fixed = cp.Problem(cp.Minimize(block(name).to_cvxpy(rows, unit=2.0, factor=0.25)), [2 * rows == point[None]])
    assert solve(fixed) == pytest.approx(0.5 * expected, rel=1e-6, abs=1e-6)


# Against closed forms


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=2), st.floats(-3, 3).map(lambda e: 10.0**e))
@settings(max_examples=30)
def test_prox_of_the_absolute_value(v: list[float], step: float) -> None:
    found = CvxpyLoss(cp.norm1, 2).program.prox(np.array(v), step)
    np.testing.assert_allclose(found, np.sign(v) * np.maximum(np.abs(v) - step, 0), atol=2e-4)


CONJUGATES: dict[str, tuple[Callable[[Any], Any], Callable[[Array], float]]] = {
    "norm1": (cp.norm1, lambda s: 0.0 if np.abs(s).max() <= 1 else np.inf),
    "norm2": (cp.norm2, lambda s: 0.0 if np.linalg.norm(s) <= 1 else np.inf),
    "squares": (cp.sum_squares, lambda s: float(s @ s) / 4),
    "exponential": (
        lambda w: cp.sum(cp.exp(w)),
        lambda s: float((s * np.log(s) - s).sum()) if (s > 0).all() else np.inf,
    ),
    "barrier": (
        lambda w: -cp.sum(cp.log(w)),
        lambda s: float((-1 - np.log(-s)).sum()) if (s < 0).all() else np.inf,
    ),
    "box": (lambda w: (0 * cp.sum(w), [w <= 2, w >= -1]), lambda s: float(np.maximum(2 * s, -s).sum())),
}


@pytest.mark.parametrize("name", CONJUGATES)
@given(s=st.lists(st.floats(-2, 2).filter(lambda x: abs(x) > 1e-3), min_size=2, max_size=2))
@settings(max_examples=30)
def test_conjugates_are_bounds_from_above(name: str, s: list[float]) -> None:
    """No certificate may rest on less than the conjugate; outside the domain it is infinite."""
    build, closed_form = CONJUGATES[name]
    exact = closed_form(np.array(s))
    found = CvxpyLoss(build, 2).program.conjugate(np.array(s))
    if np.isinf(exact):
        margin = {"norm1": np.abs(s).max(), "norm2": float(np.linalg.norm(s))}.get(name, np.inf)
        assert np.isinf(found) or margin < 1 + 1e-6
    else:
        assert exact - 1e-13 * (1 + abs(exact)) <= found <= exact + 1e-6 * (1 + abs(exact))


@given(st.lists(st.floats(-4, 4), min_size=2, max_size=2), st.floats(0.1, 5))
@settings(max_examples=30)
def test_gauge_and_projection_of_a_ball_of_slopes(s: list[float], coefficient: float) -> None:
    """``c ||w||_2`` has slopes in the ball of radius c."""
    blocks = CvxpyBlocks(**CvxpyLoss(cp.norm2, 2).row_arrays(2, coefficient))
    S, size = np.array([s]), float(np.linalg.norm(s)) / coefficient
    assert blocks.dual_gauge(S)[0] == pytest.approx(size, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(blocks.project_domain(S), S / max(size, 1.0), atol=1e-6 * coefficient)


def test_slopes_outside_a_half_line_are_projected() -> None:
    """``max(w, 0)`` in each coordinate has slopes in [0, 1]; the ray of a negative slope never meets them."""
    blocks = CvxpyBlocks(**CvxpyLoss(lambda w: cp.sum(cp.pos(w)), 2).row_arrays(2, 1.0))
    S = np.array([[-0.5, 0.7]])
    assert np.isinf(blocks.conjugate(S)[0])
    assert np.isinf(blocks.dual_gauge(S)[0])
    np.testing.assert_allclose(blocks.project_domain(S), [[0.0, 0.7]], atol=1e-3)


def test_directions_without_curvature_hold_the_slopes_to_a_subspace() -> None:
    """Two rows of three parameters: slopes lie in the rows' span, moved by an affine term."""
    c = np.array([0.5, -1.0, 2.0])
    loss = CvxpyLoss(lambda w: cp.sum(cp.huber(A @ w)) + c @ w, 3)
    blocks = CvxpyBlocks(**loss.row_arrays(3, 3.0))
    null = np.array([2.0, -1.0, -1.0])  # A null = 0
    S = np.random.default_rng(0).standard_normal((1, 3))
    inside = blocks.project_dual(S)
    assert inside[0] @ null == pytest.approx(3.0 * c @ null, rel=1e-12)
    np.testing.assert_allclose(np.cross((S - inside)[0], null), 0, atol=1e-12)
    np.testing.assert_allclose(blocks.complement(S)[0], null * (S[0] @ null) / 6, atol=1e-12)
    moved = blocks.dual_metric(S, 1e-3)(S)
    assert moved[0] @ null == pytest.approx(0, abs=1e-12)


def test_subgradients_without_a_gradient_come_from_the_prox() -> None:
    loss = CvxpyLoss(lambda w: cp.sum_largest(cp.abs(w), 1), 2)
    assert loss.slope(np.array([3.0, 1.0])) == pytest.approx([1.0, 0.0], abs=1e-3)
    barrier = CvxpyLoss(lambda w: -cp.sum(cp.log(w)), 1)
    assert barrier.slope(np.array([2.0])) == pytest.approx([-0.5], rel=1e-9)


def test_constraints_are_the_domain() -> None:
    loss = CvxpyLoss(lambda w: (cp.sum_squares(w), [cp.sum(w) == 1, w >= 0]), 2)
    assert loss.value([0.25, 0.75]) == pytest.approx(0.625)
    assert loss.value([0.25, 0.75 + 1e-10]) < 1
    assert loss.value([0.25, 0.7]) == np.inf
    assert CvxpyLoss(lambda w: -cp.log(w[0]), 1).value([-1.0]) == np.inf
    blocks = CvxpyBlocks(**loss.row_arrays(2, 1.0))
    assert blocks.restricted
    np.testing.assert_allclose(blocks.project_primal(np.array([[2.0, 0.5]])), [[1.0, 0.0]], atol=1e-7)
    inside = np.array([[0.25, 0.75]])
    np.testing.assert_array_equal(blocks.project_primal(inside), inside)
    assert not CvxpyBlocks(**CvxpyLoss(cp.sum_squares, 2).row_arrays(2, 1.0)).restricted


# Declaring

foreign = cp.Variable(name="slack")
parameter = cp.Parameter(name="rate", nonneg=True)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda w: cp.sqrt(w[0]), r"convex expression: CVXPY's rules call .*w\[0\].* concave"),
        (lambda w: w[0] * w[1], r"CVXPY's rules call w\[0\] . w\[1\] unknown"),
        (lambda w: cp.abs(w), r"one real number, got abs\(w\) of shape \(2,\)"),
        (lambda w: (cp.sum(w), [cp.norm(w) >= 1]), r"convex constraints, got 1.0 <= .*\(w, 2\)"),
        (lambda w: cp.sum_squares(w) + cp.square(foreign), r"depends on slack: it may have no other variables"),
        (lambda w: parameter * cp.sum_squares(w), r"depends on rate"),
        (lambda w: cp.Constant(3.0), r"3.0 does not depend on it"),
        (lambda w: (cp.sum_squares(w), [w >= 1, w <= 0]), r"no parameters obey all constraints of CvxpyLoss"),
    ],
)
def test_what_is_no_convex_function_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CvxpyLoss(build, 2)


def test_arguments_have_the_right_kind() -> None:
    with pytest.raises(TypeError, match="build must be a function"):
        CvxpyLoss(cp.Variable(2), 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must return an expression of CVXPY"):
        CvxpyLoss(lambda w: 3.0, 2)
    with pytest.raises(TypeError, match="dim must be an integer"):
        CvxpyLoss(cp.norm1, 2.0)  # type: ignore[arg-type]


def problem_of(loss: gtv.Loss) -> gtv.GTVMin:
    return gtv.GTVMin(gtv.FLNetwork.from_edges([("a", "b")]), [gtv.Zero(), loss], penalty=gtv.Norm(1), alpha=1.0)


def test_the_hash_is_that_of_the_numbers(tmp_path: Path) -> None:
    def declared(target: float) -> gtv.Loss:
        return CvxpyLoss(lambda w: cp.norm(w - target) + cp.log_sum_exp(w), 2)

    same, other = problem_of(declared(1.0)), problem_of(declared(1.0))
    assert same.hash == other.hash
    assert problem_of(declared(1.0 + 1e-12)).hash != same.hash
    assert problem_of(2 * declared(1.0)).hash != same.hash
    with pytest.raises(TypeError, match=r"loss of node 'b' cannot be stored: CvxpyLoss\(.*\) is code, not data"):
        same.save(tmp_path / "problem.npz")
    assert not list(tmp_path.iterdir())


# Networks


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("kind", ["absolute deviations", "simplex", "eigenvalue"])
def test_networks_are_certified_at_the_optimum_of_cvxpy(kind: str, penalty: str) -> None:
    rng = np.random.default_rng(3)
    targets = rng.standard_normal((4, 2))

    def build(i: int) -> Callable[[Any], Any]:
        if kind == "absolute deviations":
            y = MATRIX @ targets[i]
            return lambda w: cp.norm1(MATRIX @ w - y) / 3
        if kind == "simplex":
            return lambda w: (cp.sum_squares(w - targets[i]), [w >= 0, cp.sum(w) == 1])
        return lambda w: cp.lambda_max(cp.bmat([[w[0], w[1]], [w[1], -w[0]]])) + cp.sum_squares(w - targets[i])

    graph = nx.cycle_graph(4)
    net = gtv.FLNetwork(graph)
    problem = gtv.GTVMin(net, [CvxpyLoss(build(i), 2) for i in range(4)], penalty=PENALTIES[penalty], alpha=0.2)
    W = cp.Variable((4, 2))
    built = [build(i)(W[i]) for i in range(4)]
    parts = [part if isinstance(part, tuple) else (part, []) for part in built]
    value: Any = sum(expression for expression, _ in parts)
    value += sum(0.2 * PHI[penalty](W[head] - W[tail]) for tail, head in zip(net.tail, net.head, strict=True))
    expected = solve(cp.Problem(cp.Minimize(value), [limit for _, limits in parts for limit in limits]))
    solution = problem.solve(method="adaptive_primal_dual", max_iter=5000)
    assert solution.is_certified
    assert solution.objective - expected <= solution.certificate.gap + 1e-8
    assert solution.objective == pytest.approx(expected, rel=2e-6)


def test_mixed_losses_and_the_reference() -> None:
    loss = 0.5 * CvxpyLoss(lambda w: cp.norm(w - np.array([1.0, 2.0]), 1.5), 2) + gtv.SquaredError([[1.0, 1.0]], [1.0])
    problem = gtv.NetworkLasso(gtv.FLNetwork(nx.path_graph(2)), [loss, gtv.Logistic([[1.0, 0.0]], [1])], lam=0.3)
    solution = problem.solve()
    assert solution.is_certified
    from gtvmin.reference import to_cvxpy, to_cvxpy_dual

    primal, dual = solve(to_cvxpy(problem)), solve(to_cvxpy_dual(problem))
    assert primal == pytest.approx(dual, rel=1e-7)
    assert solution.objective == pytest.approx(primal, rel=2e-6)
    assert problem.solve(method="cvxpy").is_certified
