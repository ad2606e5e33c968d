"""Losses against formulas in extended precision, against CVXPY, and by properties that hold for every convex loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

import gtvmin as gtv
from gtvmin.losses.stacking import stack_losses

Array = np.ndarray[Any, Any]
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


@dataclass(frozen=True)
class Squares:
    """``sum_r omega_r (x_r^T w - y_r)^2``, evaluated in extended precision: what the losses below should be."""

    X: Array
    y: Array
    omega: Array

    @classmethod
    def of(cls, dim: int, *parts: tuple[Any, Any, Any]) -> Squares:
        """From groups of rows, targets and weights; a weight may be one number for its group."""
        blocks = [(np.reshape(X, (-1, dim)), np.ravel(y)) for X, y, _ in parts]
        weights = [np.broadcast_to(part[2], len(y)) for part, (_, y) in zip(parts, blocks, strict=True)]
        X = np.concatenate([np.empty((0, dim)), *(block[0] for block in blocks)])
        y = np.concatenate([np.empty(0), *(block[1] for block in blocks)])
        omega = np.concatenate([np.empty(0), *weights])
        return cls(*(np.asarray(a, dtype=np.longdouble) for a in (X, y, omega)))

    def value(self, w: Array) -> float:
        return float(self.omega @ (self.X @ w - self.y) ** 2)

    def gradient(self, w: Array) -> Array:
        return np.asarray(2 * self.X.T @ (self.omega * (self.X @ w - self.y)))

    def hessian(self) -> Array:
        return np.asarray(2 * self.X.T @ (self.omega[:, None] * self.X), dtype=float)

    def magnitude(self, w: Array) -> float:
        """Size of the terms whose sum is the gradient: the unit of its rounding errors."""
        terms = self.omega[:, None] * np.abs(self.X) * (np.abs(self.X) @ np.abs(w) + np.abs(self.y))[:, None]
        return float(2 * terms.sum())

    def to_cvxpy(self, w: Any) -> Any:
        root = np.sqrt(self.omega)
        return cp.sum_squares(np.asarray(root[:, None] * self.X, float) @ w - np.asarray(root * self.y, float))


Case = tuple[gtv.Loss, Squares]


def mean(X: Array, y: Array, unit: float) -> Case:
    return gtv.SquaredError(X, y), Squares.of(X.shape[1], (X, y, 1 / max(len(y), 1)))


def summed(X: Array, y: Array, unit: float) -> Case:
    return gtv.SquaredError(X, y, scale="sum"), Squares.of(X.shape[1], (X, y, 1.0))


def half(X: Array, y: Array, unit: float) -> Case:
    return 0.5 * gtv.SquaredError(X, y, scale="sum"), Squares.of(X.shape[1], (X, y, 0.5))


def ridge(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], 0.5 * unit**2
    identity = (np.eye(dim), np.zeros(dim), lam)
    return gtv.Ridge(X, y, lam=lam), Squares.of(dim, (X, y, 1 / max(len(y), 1)), identity)


def ridge_with_intercept(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], 0.5 * unit**2
    c = np.arange(dim, dtype=float)
    loss = gtv.Ridge(X, y, lam=lam, penalise=c, scale="sum")
    return loss, Squares.of(dim, (X, y, 1.0), (np.eye(dim), np.zeros(dim), lam * c))


def zero(X: Array, y: Array, unit: float) -> Case:
    return gtv.Zero(X.shape[1]), Squares.of(X.shape[1])


def scaled_sum(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], unit**2
    loss = 3 * gtv.SquaredError(X, y) + 0.25 * gtv.Ridge(X[:1], y[:1], lam=lam, scale="sum") + gtv.Zero()
    parts = [(X, y, 3 / max(len(y), 1)), (X[:1], y[:1], 0.25), (np.eye(dim), np.zeros(dim), 0.25 * lam)]
    return loss, Squares.of(dim, *parts)


KINDS = [mean, summed, half, ridge, ridge_with_intercept, zero, scaled_sum]
Kind = Callable[[Array, Array, float], Case]


def fixed_case(kind: Kind, m: int, dim: int = 3, seed: int = 0) -> Case:
    rng = np.random.default_rng(seed)
    return kind(rng.standard_normal((m, dim)), rng.standard_normal(m), 1.0)


@st.composite
def cases(draw: st.DrawFn, spread: int = 0) -> tuple[gtv.Loss, Squares, float, float]:
    """A loss, what it should be, and the units of its parameters and of its value.

    Data are whole numbers times a unit, so that their rank is beyond doubt, and often deficient.
    """
    dim, m = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    x_unit = 10.0 ** draw(st.integers(-spread, spread))
    y_unit = 10.0 ** draw(st.integers(-spread, spread))
    X = draw(arrays(float, (m, dim), elements=st.integers(-4, 4)))
    y = draw(arrays(float, m, elements=st.integers(-9, 9)))
    loss, truth = draw(st.sampled_from(KINDS))(x_unit * X, y_unit * y, x_unit)
    return loss, truth, y_unit / x_unit, y_unit**2


def vectors(shape: int | tuple[int, int]) -> st.SearchStrategy[Array]:
    return arrays(float, shape, elements=st.integers(-10_000, 10_000).map(lambda k: k / 1000))


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


# Sums and multiples


@given(cases(), cases(), st.floats(0.01, 100), st.data())
def test_losses_add_and_scale(first: Any, second: Any, factor: float, data: st.DataObject) -> None:
    a, b = first[0], second[0]
    if a.dim != b.dim:
        with pytest.raises(ValueError, match=rf"{min(a.dim, b.dim)}, {max(a.dim, b.dim)}.*cannot be added"):
            a + b
        return
    w = data.draw(vectors(a.dim))
    expected = factor * first[1].value(w) + second[1].value(w)
    for loss in (factor * a + b, b + a * factor, sum([factor * a, b]), sum([b, a * factor], gtv.Zero())):
        assert loss.value(w) == pytest.approx(expected, rel=1e-10, abs=1e-12)
        assert loss.dim == a.dim
        assert loss.n_samples == a.n_samples + b.n_samples
    assert (2 * (factor * a)).value(w) == pytest.approx(2 * factor * first[1].value(w), rel=1e-10, abs=1e-12)


def test_a_loss_that_fits_any_number_of_parameters() -> None:
    assert gtv.Zero().dim is None
    assert (gtv.Zero() + gtv.Zero()).dim is None
    assert (gtv.Zero() + gtv.SquaredError([[1.0, 2.0]], [3.0])).dim == 2
    assert gtv.Zero(4).dim == 4


@pytest.mark.parametrize("factor", [0, -1.0, np.nan, np.inf])
def test_factors_are_positive(factor: float) -> None:
    with pytest.raises(ValueError, match="factor of a loss"):
        factor * gtv.Zero()


@pytest.mark.parametrize("factor", ["2", None, 1j, True, [1.0, 2.0]])
def test_factors_are_numbers(factor: Any) -> None:
    with pytest.raises(TypeError):
        gtv.Zero() * factor


@pytest.mark.parametrize("other", [1, 2.0, "loss", None])
def test_only_losses_are_added(other: Any) -> None:
    with pytest.raises(TypeError):
        gtv.Zero() + other
    with pytest.raises(TypeError):
        other + gtv.Zero()


# What can be declared


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float16, bool])
def test_every_numeric_dtype_becomes_float64(dtype: Any) -> None:
    """C52 (nums issue #141, statsmodels issue #3919): 100 * 100 overflows int8, 50 - 100 uint8."""
    X = np.array([[100], [100]]).astype(dtype)
    y = np.array([1, 0] if dtype is bool else [50, 50]).astype(dtype)
    minimiser = 0.5
    loss = gtv.SquaredError(X, y)
    assert loss.X.dtype == loss.y.dtype == np.float64
    assert loss.gradient([minimiser])[0] == 0
    reference = gtv.SquaredError(X.astype(float), y.astype(float))
    assert loss.value([2]) == reference.value([2.0])
    assert loss.prox([3]).tolist() == reference.prox([3.0]).tolist()
    assert gtv.Ridge(X, y, lam=1, penalise=np.ones(1, dtype)).value([1]) == reference.value([1.0]) + 1


@pytest.mark.parametrize(
    "convert",
    [lambda X: X.tolist(), pd.DataFrame, sparse.csr_array, np.asfortranarray, lambda X: X[::-1][::-1]],
)
def test_other_containers(convert: Callable[[Array], Any]) -> None:
    X, y = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([1.0, 2.0])
    plain = gtv.SquaredError(X, y)
    for labels in (y, y.tolist(), pd.Series(y, index=["a", "b"]), y[:, None]):
        assert gtv.SquaredError(convert(X), labels).value([1.0, 1.0]) == plain.value([1.0, 1.0])
    mixed = pd.DataFrame({"rooms": [1, 3], "area": [2.0, 0.0]}).astype(object)
    assert gtv.SquaredError(mixed, y).value([1.0, 1.0]) == plain.value([1.0, 1.0])


@pytest.mark.parametrize("bad", [[["a"], ["b"]], [[1j], [1.0]], [[None], [1.0]], [[object()], [1.0]]])
def test_data_are_real_numbers(bad: Any) -> None:
    """C52: text, complex numbers, None and objects."""
    with pytest.raises(TypeError, match="X must hold real numbers"):
        gtv.SquaredError(bad, [0.0, 0.0])
    with pytest.raises(TypeError, match="y must hold real numbers"):
        gtv.SquaredError([[1.0], [1.0]], np.ravel(np.array(bad)))
    with pytest.raises(TypeError, match="penalise must hold real numbers"):
        gtv.Ridge([[1.0, 1.0]], [1.0], lam=1.0, penalise=np.ravel(np.array(bad)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_data_are_finite(bad: float) -> None:
    """C15 (cvxpy issue #1770): the message says where."""
    with pytest.raises(ValueError, match=r"X has a .* value at position \(1, 0\)"):
        gtv.SquaredError([[1.0, 1.0], [bad, 1.0]], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"y has a .* value at position 1"):
        gtv.SquaredError([[1.0], [1.0]], [0.0, bad])
    with pytest.raises(ValueError, match="lam must be"):
        gtv.Ridge([[1.0]], [1.0], lam=bad)
    with pytest.raises(ValueError, match=r"w has a .* value"):
        gtv.SquaredError([[1.0]], [1.0]).value([bad])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 2)), np.ones(4), "one entry per row of X"),
        (np.ones((2, 2)), np.ones((2, 2)), "one entry per row of X"),
        (np.ones((2, 1)), np.ones((1, 2)), "one entry per row of X"),
        (np.ones(3), np.ones(3), r"X must have shape \(rows, features\)"),
        (np.ones((2, 2, 2)), np.ones(2), r"X must have shape \(rows, features\)"),
        (1.0, 1.0, r"X must have shape \(rows, features\)"),
        (np.ones((3, 0)), np.ones(3), "X has no columns"),
    ],
)
def test_shapes_fit(X: Any, y: Any, message: str) -> None:
    """C54 (TheAlgorithms PR #13615): nothing is broadcast."""
    with pytest.raises(ValueError, match=message):
        gtv.SquaredError(X, y)
    with pytest.raises(ValueError, match=message):
        gtv.Ridge(X, y, lam=1.0)


def test_settings_are_checked() -> None:
    X, y = [[1.0, 2.0]], [1.0]
    with pytest.raises(ValueError, match=r"scale must be 'mean' or 'sum', got 'half'"):
        gtv.SquaredError(X, y, scale="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lam must be a finite number >= 0"):
        gtv.Ridge(X, y, lam=-1.0)
    with pytest.raises(TypeError, match="lam must be a real number"):
        gtv.Ridge(X, y, lam="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"penalise must be >= 0, got -3 at position 1"):
        gtv.Ridge(X, y, lam=1.0, penalise=[1.0, -3.0])
    with pytest.raises(ValueError, match=r"penalise must have one factor per column of X \(2\)"):
        gtv.Ridge(X, y, lam=1.0, penalise=[1.0])
    with pytest.raises(ValueError, match="size must be >= 1"):
        gtv.Zero(0)
    with pytest.raises(TypeError, match="size must be an integer"):
        gtv.Zero(2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["value", "gradient", "prox", "conjugate"])
def test_points_have_the_right_shape(method: str) -> None:
    evaluate = getattr(gtv.SquaredError([[1.0, 2.0]], [1.0]), method)
    for bad in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0):
        with pytest.raises(ValueError, match="vector of 2 parameters"):
            evaluate(bad)


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf])
def test_steps_are_positive(step: float) -> None:
    with pytest.raises(ValueError, match="step must be"):
        gtv.SquaredError([[1.0]], [1.0]).prox([0.0], step)


def test_declared_data_belong_to_the_loss() -> None:
    """Inputs are copied and never changed; what the loss holds cannot be."""
    X, y, c = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, -1.0]), np.array([1.0, 0.0])
    copies = X.copy(), y.copy(), c.copy()
    plain, ridge = gtv.SquaredError(X, y), gtv.Ridge(X, y, lam=0.5, penalise=c)
    w = np.array([1.0, 1.0])
    for loss in (plain, ridge, 2 * plain + ridge):
        for method in (loss.value, loss.gradient, loss.prox, loss.conjugate):
            method(w)
    for given_array, copy in zip((X, y, c), copies, strict=True):
        np.testing.assert_array_equal(given_array, copy)
        assert given_array.flags.writeable
    assert w.tolist() == [1.0, 1.0]
    before = plain.value(w), ridge.value(w)
    X[:], y[:], c[:] = 9.0, 9.0, 9.0
    assert (plain.value(w), ridge.value(w)) == before
    for array in (plain.X, plain.y, ridge.data.X, ridge.penalise):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(AttributeError):
        plain.scale = "sum"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ridge.lam = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "loss",
    [
        gtv.SquaredError([[1.0, 2.0]], [3.0], scale="sum"),
        gtv.Ridge([[1.0, 2.0]], [3.0], lam=0.5, penalise=[0.0, 2.0]),
        gtv.Zero(2),
    ],
)
def test_arguments_declare_the_same_loss(loss: gtv.Loss) -> None:
    again = type(loss)(**loss.arguments())
    assert repr(again) == repr(loss)
    w = [0.5, -2.0]
    assert again.value(w) == loss.value(w)
    assert again.gradient(w).tolist() == loss.gradient(w).tolist()
    assert repr(3 * loss + loss) == f"3 * {loss!r} + {loss!r}"
