"""Losses against formulas in extended precision, against CVXPY, and by properties that hold for every convex loss."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gtvmin as gtv
from gtvmin.losses.stacking import stack_losses
from loss_cases import KINDS, Array, Case, Squares, cases, vectors, zero

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
Kind = Callable[[Array, Array, float], Case]


def fixed_case(kind: Kind, m: int, dim: int = 3, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    return kind(rng.standard_normal((m, dim)), rng.standard_normal(m), 1.0)


# Value, gradient, prox and conjugate against CVXPY and the formula
@pytest.mark.parametrize("m", [0, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_value_and_expression_agree_with_cvxpy(kind: Kind, m: int) -> None:
    loss, truth = fixed_case(kind, m)
    point = np.array([0.3, -1.2, 2.0])
    w = cp.Variable(3)
    w.value = point
    expected = truth.to_cvxpy(w).value if len(truth.y) else 0.0
    assert loss.value(point) == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert loss.to_cvxpy(w).value == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert loss.to_cvxpy(w).is_convex()


@pytest.mark.parametrize("m", [0, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.2, 7.0])
def test_prox_is_the_minimiser_that_cvxpy_finds(kind: Kind, m: int, step: float) -> None:
    loss, truth = fixed_case(kind, m)
    v = np.array([2.0, -1.0, 0.5])
    w = cp.Variable(3)
    distance = cp.sum_squares(w - v) / (2 * step)
    cp.Problem(cp.Minimize(distance + (truth.to_cvxpy(w) if len(truth.y) else 0))).solve(**TIGHT)
    np.testing.assert_allclose(loss.prox(v, step), w.value, atol=1e-7)


@pytest.mark.parametrize("m", [0, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_conjugate_is_the_supremum_that_cvxpy_finds(kind: Kind, m: int) -> None:
    loss, truth = fixed_case(kind, m)
    w = cp.Variable(3)
    minus_loss = -truth.to_cvxpy(w) if len(truth.y) else -0 * cp.sum(w)
    s = truth.hessian() @ [1.0, 2.0, -1.0]  # in the range of the Hessian: finite
    supremum = cp.Problem(cp.Maximize(s @ w + minus_loss)).solve(**TIGHT)
    assert loss.conjugate(s) == pytest.approx(supremum, rel=1e-8, abs=1e-8)
    values, directions = np.linalg.eigh(truth.hessian())
    if values[0] < 1e-9:
        outside = s + 0.1 * directions[:, 0]
        unbounded = cp.Problem(cp.Maximize(outside @ w + minus_loss))
        unbounded.solve(solver="CLARABEL")
        assert unbounded.status == "unbounded"
        assert loss.conjugate(outside) == np.inf


@pytest.mark.parametrize("kind", KINDS)
def test_stack_agrees_with_cvxpy(kind: Kind) -> None:
    """Expressions of the stack: the loss in other units, its conjugate by ``f(w) = sup_s <s, w> - f^*(s)``."""
    device = [fixed_case(kind, m, seed=m) for m in (4, 0, 2)]
    block = stack_losses([loss for loss, _ in device], 3)
    W = np.random.default_rng(5).standard_normal((3, 3))
    values = [truth.value(w) for (_, truth), w in zip(device, W, strict=True)]
    np.testing.assert_allclose(block.value(W), values, rtol=1e-12)
    variable = cp.Variable((3, 3))
    variable.value = W / 8.0
    assert block.to_cvxpy(variable, unit=8.0, factor=0.1).value == pytest.approx(0.1 * sum(values), rel=1e-12)
    conjugate, conditions = block.conjugate_to_cvxpy(variable)
    biconjugate = cp.Problem(cp.Maximize(cp.sum(cp.multiply(W, variable)) - conjugate), conditions).solve(**TIGHT)
    if kind is zero:
        assert np.abs(variable.value).max() < 1e-9
    assert biconjugate == pytest.approx(sum(values), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.3, 4.0])
def test_moreau_identity(kind: Kind, step: float) -> None:
    """``v = prox_{step f}(v) + step prox_{f^* / step}(v / step)``, the second prox being found by CVXPY."""
    device = [fixed_case(kind, m, seed=m) for m in (4, 0, 2)]
    block = stack_losses([loss for loss, _ in device], 3)
    V, steps = np.random.default_rng(6).standard_normal((3, 3)), np.full(3, step)
    S = cp.Variable((3, 3))
    conjugate, conditions = block.conjugate_to_cvxpy(S)
    cp.Problem(cp.Minimize(conjugate + step / 2 * cp.sum_squares(S - V / step)), conditions).solve(**TIGHT)
    np.testing.assert_allclose(block.prox(V, steps) + step * S.value, V, atol=1e-6)
    np.testing.assert_allclose(block.conjugate_prox_operator(1 / steps)(V / step), S.value, atol=1e-6)


@given(cases(spread=4), st.data())
def test_value_and_gradient_match_the_formula(case: Any, data: st.DataObject) -> None:
    loss, truth, w_unit, _ = case
    w = w_unit * data.draw(vectors(loss.dim))
    scale = float(truth.omega @ (np.abs(truth.X) @ np.abs(w) + np.abs(truth.y)) ** 2)
    assert loss.value(w) == pytest.approx(truth.value(w), abs=1e-13 * scale)
    np.testing.assert_allclose(loss.gradient(w), np.asarray(truth.gradient(w), float), atol=1e-13 * truth.magnitude(w))


def exact_prox(truth: Squares, v: Array, step: float) -> Array:
    """Solution of ``(Q + I/step) p = b + v/step`` in rational arithmetic."""
    X = [[Fraction(float(entry)) for entry in row] for row in truth.X]
    y, omega = ([Fraction(float(entry)) for entry in column] for column in (truth.y, truth.omega))
    dim, inverse_step = len(v), 1 / Fraction(step)
    rows = []
    for i in range(dim):
        row = [sum((2 * o * x[i] * x[j] for x, o in zip(X, omega, strict=True)), Fraction(0)) for j in range(dim)]
        row[i] += inverse_step
        data = sum((2 * o * t * x[i] for x, t, o in zip(X, y, omega, strict=True)), Fraction(0))
        rows.append([*row, data + inverse_step * Fraction(float(v[i]))])
    for i in range(dim):  # positive definite: no pivoting
        rows[i] = [entry / rows[i][i] for entry in rows[i]]
        for k in range(dim):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return np.array([float(row[-1]) for row in rows])


@given(cases(spread=4), st.integers(-8, 8), st.data())
def test_prox_is_accurate_in_all_units(case: Any, exponent: int, data: st.DataObject) -> None:
    loss, truth, w_unit, _ = case
    v, step = w_unit * data.draw(vectors(loss.dim)), 10.0**exponent
    exact = exact_prox(truth, v, step)
    np.testing.assert_allclose(loss.prox(v, step), exact, rtol=0, atol=1e-12 * (np.abs(v) + np.abs(exact)).max())


@given(cases(), st.data())
def test_no_point_near_the_prox_is_better(case: Any, data: st.DataObject) -> None:
    loss, truth, *_ = case
    v, move = data.draw(vectors(loss.dim)), data.draw(vectors(loss.dim))
    p = loss.prox(v, 0.7)

    def cost(w: Array) -> float:
        return truth.value(w) + float((w - v) @ (w - v)) / 1.4

    assert cost(p) <= cost(p + 0.01 * move) * (1 + 1e-12) + 1e-12


@given(cases(spread=4), st.data())
def test_fenchel_young(case: Any, data: st.DataObject) -> None:
    """``f(w) + f^*(s) >= <s, w>``, with equality exactly if s is the gradient at w."""
    loss, truth, w_unit, value_unit = case
    w, other = (w_unit * data.draw(vectors(loss.dim)) for _ in range(2))
    s = np.asarray(truth.gradient(other), dtype=float)
    block = stack_losses([loss], loss.dim)
    term = float(block.fenchel_young(w[None], s[None])[0])
    direct = loss.value(w) + loss.conjugate(s) - s @ w
    size = value_unit + truth.value(w) + truth.value(other) + np.abs(s) @ (np.abs(w) + np.abs(other))
    assert term >= 0
    assert np.isfinite(term)
    assert term == pytest.approx(direct, abs=1e-8 * size)
    difference = w - other
    exact = 0.5 * difference @ truth.hessian() @ difference  # of a quadratic function
    assert term == pytest.approx(exact, rel=1e-6, abs=1e-13 * size)


@given(cases(), st.data())
def test_every_slope_obeys_fenchel_young(case: Any, data: st.DataObject) -> None:
    loss, truth, *_ = case
    w, s = data.draw(vectors(loss.dim)), data.draw(vectors(loss.dim))
    conjugate = loss.conjugate(s)
    size = 1 + truth.value(w) + abs(conjugate) + np.abs(s) @ np.abs(w)
    assert truth.value(w) + conjugate - s @ w >= (-1e-8 * size if np.isfinite(size) else -np.inf)
    if np.linalg.matrix_rank(truth.hessian()) == loss.dim:
        assert np.isfinite(conjugate)


# Rank, span and curvature
@given(cases(spread=4), st.data())
def test_projection_onto_the_span_of_the_conjugate(case: Any, data: st.DataObject) -> None:
    """The span is the range of the Hessian, where the conjugate is finite, however little of s lies in it."""
    loss, truth, *_ = case
    block, s = stack_losses([loss], loss.dim), data.draw(vectors(loss.dim))
    projected = block.project_dual(s[None])[0]
    np.testing.assert_allclose(truth.hessian() @ (s - projected), 0, atol=1e-9 * np.abs(truth.hessian()).sum())
    np.testing.assert_allclose(block.project_dual(projected[None])[0], projected, rtol=1e-12, atol=1e-12)
    assert (s - projected) @ projected == pytest.approx(0, abs=1e-9)
    assert np.isfinite(loss.conjugate(projected))
    nearly_outside = block.project_dual((s - projected + 1e-14 * projected)[None])[0]
    assert np.isfinite(loss.conjugate(nearly_outside))
    assert block.full_span[0] == (np.linalg.matrix_rank(truth.hessian()) == loss.dim)


@given(cases(spread=4))
def test_curvature_constants(case: Any) -> None:
    """The strong convexity constant is never too large, the smoothness constant never too small."""
    loss, truth, *_ = case
    block, eigenvalues = stack_losses([loss], loss.dim), np.linalg.eigvalsh(truth.hessian())
    rounding = 1e-12 * eigenvalues[-1]
    assert 0 <= block.strong_convexity[0] <= max(eigenvalues[0], 0) + rounding
    assert block.strong_convexity[0] >= eigenvalues[0] - rounding
    assert block.smoothness[0] == pytest.approx(eigenvalues[-1], rel=1e-12, abs=0)
    hessian, linear = block.quadratic()
    np.testing.assert_allclose(hessian[0], truth.hessian(), atol=rounding)
    at_zero = np.asarray(truth.gradient(np.zeros(loss.dim)), float)
    np.testing.assert_allclose(-linear[0], at_zero, atol=1e-13 * truth.magnitude(np.zeros(loss.dim)))


@pytest.mark.parametrize("step", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize("unit", [1e-6, 1e6, 1e8])
def test_prox_leaves_alone_what_the_data_say_nothing_about(unit: float, step: float) -> None:
    """Rows along one direction: the prox moves along it only, also where Q + I/step is singular in doubles."""
    row, across = np.array([0.6, 0.8]), np.array([0.8, -0.6])
    loss = gtv.SquaredError(unit * np.outer([0.1, 0.7, 0.3], row), unit * np.array([1.0, -2.0, 4.0]), scale="sum")
    p = loss.prox(0.5 * row + 2.5 * across, step)
    assert p @ across == pytest.approx(2.5, rel=1e-12)
    growth = 2 * step * unit**2  # (0.5 + growth * sum c_r y_r) / (1 + growth * sum c_r^2) along the row
    assert p @ row == pytest.approx((0.5 - 0.1 * growth) / (1 + 0.59 * growth), rel=1e-12, abs=1e-15)


@given(cases(), st.integers(2, 4), st.data())
def test_duplicated_rows_do_not_change_a_mean(case: Any, copies: int, data: st.DataObject) -> None:
    _, truth, *_ = case
    X, y = np.asarray(truth.X, float), np.asarray(truth.y, float)
    once, often = gtv.SquaredError(X, y), gtv.SquaredError(np.tile(X, (copies, 1)), np.tile(y, copies))
    w = data.draw(vectors(once.dim))
    assert often.value(w) == pytest.approx(once.value(w), rel=1e-12)
    np.testing.assert_allclose(often.prox(w), once.prox(w), atol=1e-11)
    s = once.gradient(w)
    assert often.conjugate(s) == pytest.approx(once.conjugate(s), rel=1e-8, abs=1e-8)
    summed_once, summed_often = (gtv.SquaredError(loss.X, loss.y, scale="sum") for loss in (once, often))
    assert summed_often.value(w) == pytest.approx(copies * summed_once.value(w), rel=1e-12)


def test_no_rows_are_the_loss_zero() -> None:
    for loss in (gtv.SquaredError(np.empty((0, 2)), []), gtv.Zero(), gtv.Zero(2)):
        assert loss.value([1.0, 2.0]) == 0
        assert loss.gradient([1.0, 2.0]).tolist() == [0, 0]
        assert loss.prox([1.0, 2.0], 5.0).tolist() == [1, 2]
        assert loss.conjugate([0.0, 0.0]) == 0
        assert loss.conjugate([0.0, 1e-100]) == np.inf
    ridge = gtv.Ridge(np.empty((0, 2)), [], lam=0.5)
    assert ridge.value([1.0, 2.0]) == 2.5
    assert ridge.prox([1.0, 2.0]).tolist() == [0.5, 1.0]


@settings(max_examples=30)
@given(st.lists(cases().filter(lambda case: case[0].dim == 2), min_size=1, max_size=6), st.data())
def test_a_stack_evaluates_each_device(device: list[Any], data: st.DataObject) -> None:
    losses = [loss for loss, *_ in device]
    n = len(losses)
    block = stack_losses(losses, 2)
    W = data.draw(vectors((n, 2)))
    steps = data.draw(arrays(float, n, elements=st.sampled_from([0.1, 1.0, 30.0])))
    for method in ("value", "gradient", "conjugate"):
        alone = [getattr(loss, method)(w) for loss, w in zip(losses, W, strict=True)]
        np.testing.assert_allclose(getattr(block, method)(W), alone, rtol=1e-9, atol=1e-9)
    alone = [loss.prox(w, step) for loss, w, step in zip(losses, W, steps, strict=True)]
    np.testing.assert_allclose(block.prox(W, steps), alone, atol=1e-9)
