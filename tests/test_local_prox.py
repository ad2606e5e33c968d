"""Prox and conjugate of whole losses: against rational arithmetic, CVXPY, formulas, and the laws of convex analysis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog

import gtvmin as gtv
from exact_prox import exact_prox
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.losses.local import LocalBlocks
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.stacking import split_losses, stack_losses
from gtvmin.solvers.linear_maps import NodeRows
from gtvmin.solvers.standard_form import Term
from local_prox_cases import LABELS, RNG, TIGHT, X, Y

Array = np.ndarray[Any, Any]
COUNTS = RNG.poisson(2.0, size=7).astype(float)
CLASSES = np.array([0, 1, 2, 0, 1, 2, 2])


def softmax_cost(w: Any, log_sum_exp: Any) -> Any:
    scores = [x[0] * w for x in X]
    return sum(log_sum_exp(s) - s[k] for s, k in zip(scores, CLASSES, strict=True)) / 7


def infinite_unless(condition: bool) -> float:
    return 0.0 if condition else np.inf


NEAR = 1e-9

# A loss, its formula in NumPy (walls to within NEAR), and the same in CVXPY.
Case = tuple[gtv.Loss, Callable[[Array], float], Callable[[Any], Any], Callable[[Any], list[Any]]]

CASES: dict[str, Case] = {
    "SquaredError + L1": (
        gtv.SquaredError(X, Y) + 0.7 * gtv.L1(),
        lambda w: float(np.mean((X @ w - Y) ** 2) + 0.7 * np.abs(w).sum()),
        lambda w: cp.sum_squares(X @ w - Y) / 7 + 0.7 * cp.norm1(w),
        lambda w: [],
    ),
    "Huber": (
        gtv.Huber(X, Y, delta=0.5),
        lambda w: float(np.mean([r * r if abs(r) <= 0.5 else abs(r) - 0.25 for r in X @ w - Y])),
        lambda w: cp.sum(cp.huber(X @ w - Y, 0.5)) / 7,
        lambda w: [],
    ),
    "LeastAbsolute": (
        gtv.LeastAbsolute(X, Y),
        lambda w: float(np.mean(np.abs(X @ w - Y))),
        lambda w: cp.norm1(X @ w - Y) / 7,
        lambda w: [],
    ),
    "Quantile + Ridge": (
        gtv.Quantile(X, Y, tau=0.8) + gtv.Ridge(np.empty((0, 3)), [], lam=0.1),
        lambda w: float(np.mean([max(0.8 * r, -0.2 * r) for r in Y - X @ w]) + 0.1 * w @ w),
        lambda w: cp.sum(cp.maximum(0.8 * (Y - X @ w), 0.2 * (X @ w - Y))) / 7 + 0.1 * cp.sum_squares(w),
        lambda w: [],
    ),
    "Hinge": (
        gtv.Hinge(X, LABELS),
        lambda w: float(np.mean(np.maximum(1 - LABELS * (X @ w), 0))),
        lambda w: cp.sum(cp.pos(1 - cp.multiply(LABELS, X @ w))) / 7,
        lambda w: [],
    ),
    "SquaredHinge + L1": (
        gtv.SquaredHinge(X, LABELS) + 0.1 * gtv.L1(),
        lambda w: float(np.mean(np.maximum(1 - LABELS * (X @ w), 0) ** 2) + 0.1 * np.abs(w).sum()),
        lambda w: cp.sum(cp.square(cp.pos(1 - cp.multiply(LABELS, X @ w)))) / 7 + 0.1 * cp.norm1(w),
        lambda w: [],
    ),
    "Logistic": (
        gtv.Logistic(X, LABELS),
        lambda w: float(np.mean(np.logaddexp(0.0, -LABELS * (X @ w)))),
        lambda w: cp.sum(cp.logistic(cp.multiply(-LABELS, X @ w))) / 7,
        lambda w: [],
    ),
    "Logistic + L1": (
        gtv.Logistic(X, LABELS) + 0.1 * gtv.L1(),
        lambda w: float(np.mean(np.logaddexp(0.0, -LABELS * (X @ w))) + 0.1 * np.abs(w).sum()),
        lambda w: cp.sum(cp.logistic(cp.multiply(-LABELS, X @ w))) / 7 + 0.1 * cp.norm1(w),
        lambda w: [],
    ),
    "Poisson": (
        gtv.Poisson(0.5 * X, COUNTS),
        lambda w: float(np.mean(np.exp(0.5 * X @ w) - COUNTS * (0.5 * X @ w))),
        lambda w: cp.sum(cp.exp(0.5 * X @ w) - cp.multiply(COUNTS, 0.5 * X @ w)) / 7,
        lambda w: [],
    ),
    "Softmax": (
        gtv.Softmax(X[:, :1], CLASSES),
        lambda w: float(softmax_cost(w, lambda s: np.logaddexp.reduce(s))),
        lambda w: softmax_cost(w, cp.log_sum_exp),
        lambda w: [],
    ),
    "SquaredError + NonNegative": (
        gtv.SquaredError(X, Y) + gtv.NonNegative(),
        lambda w: float(np.mean((X @ w - Y) ** 2)) + infinite_unless((w >= 0).all()),
        lambda w: cp.sum_squares(X @ w - Y) / 7,
        lambda w: [w >= 0],
    ),
    "Box + Linear": (
        gtv.Box(-1.0, [1.0, 0.5, 2.0]) + gtv.Linear([1.0, -1.0, 0.2]),
        lambda w: float(w @ [1.0, -1.0, 0.2]) + infinite_unless((w >= -1).all() and (w <= [1.0, 0.5, 2.0]).all()),
        lambda w: np.array([1.0, -1.0, 0.2]) @ w,
        lambda w: [w >= -1, w <= np.array([1.0, 0.5, 2.0])],
    ),
    "Simplex + Quadratic": (
        gtv.Simplex(2.0) + gtv.Quadratic(X.T @ X, [1.0, 0.0, -1.0], 3.0),
        lambda w: (
            float(w @ X.T @ X @ w / 2 + w[0] - w[2] + 3) + infinite_unless(abs(w.sum() - 2) < NEAR and (w >= 0).all())
        ),
        lambda w: cp.sum_squares(X @ w) / 2 + w[0] - w[2] + 3,
        lambda w: [w >= 0, cp.sum(w) == 2],
    ),
    "Ball + LeastAbsolute": (
        gtv.Ball(0.8, [0.1, 0.2, 0.3]) + gtv.LeastAbsolute(X, Y),
        lambda w: float(np.mean(np.abs(X @ w - Y))) + infinite_unless(np.linalg.norm(w - [0.1, 0.2, 0.3]) < 0.8 + NEAR),
        lambda w: cp.norm1(X @ w - Y) / 7,
        lambda w: [cp.norm2(w - np.array([0.1, 0.2, 0.3])) <= 0.8],
    ),
    "Affine + L1": (
        gtv.Affine([[1.0, 2.0, 3.0]], [1.0]) + gtv.L1(),
        lambda w: float(np.abs(w).sum()) + infinite_unless(abs(w @ [1.0, 2.0, 3.0] - 1.0) < NEAR),
        lambda w: cp.norm1(w),
        lambda w: [np.array([1.0, 2.0, 3.0]) @ w == 1],
    ),
}


def minimum(case: Case, extra: Callable[[Any], Any]) -> tuple[float, Array]:
    """Least value of a loss plus something, and where CVXPY finds it."""
    w = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(case[2](w) + extra(w)), case[3](w))
    problem.solve(**TIGHT)
    return float(problem.value), np.zeros(3) if w.value is None else np.asarray(w.value)


@pytest.mark.parametrize("step", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_prox_is_the_minimiser_that_cvxpy_finds(name: str, step: float) -> None:
    case = CASES[name]
    v = np.array([1.5, -0.5, 1.0])
    w = case[0].prox(v, step)
    best, found = minimum(case, lambda z: cp.sum_squares(z - v) / (2 * step))
    np.testing.assert_allclose(w, found, rtol=0, atol=1e-5)
    # CVXPY's point is no better: its minimum is known to more digits than its minimiser
    assert case[1](w) + (w - v) @ (w - v) / (2 * step) <= best + 1e-10 * (1 + abs(best))


@pytest.mark.parametrize("name", CASES)
def test_no_step_from_the_prox_goes_down(name: str) -> None:
    """Steps so small that the cost of the prox itself cannot hide a slope of 1e-6 at the point."""
    loss, formula, _, _ = CASES[name]
    v, step = np.array([1.0, 2.0, -1.0]), 0.5
    w = loss.prox(v, step)

    def cost(z: Array) -> float:
        return loss.value(z) + float((z - v) @ (z - v)) / (2 * step)

    assert np.isfinite(formula(w))
    for move in RNG.normal(size=(200, 3)):
        assert cost(w + 1e-6 * move / np.linalg.norm(move)) >= cost(w) * (1 - 1e-14) - 1e-14


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_conjugate_is_the_supremum_that_cvxpy_finds(name: str) -> None:
    case = CASES[name]
    for s in (np.zeros(3), np.array([0.05, 0.1, -0.02]), np.array([3.0, 2.0, -1.0])):
        value = case[0].conjugate(s)
        best, _ = minimum(case, lambda z, s=s: -s @ z)
        assert value == pytest.approx(-best, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("step", [1e-2, 1.0, 100.0])
def test_the_slope_at_the_prox_reaches_the_conjugate(name: str, step: float) -> None:
    """``f(w) + f^*(s) = <s, w>`` for ``s = (v - w) / step``: it holds for no other point than the prox."""
    loss, formula, _, _ = CASES[name]
    v = np.array([0.3, -1.2, 2.0])
    w = loss.prox(v, step)
    s = (v - w) / step
    size = abs(formula(w)) + np.abs(s) @ np.abs(w) + 1
    assert loss.conjugate(s) == pytest.approx(s @ w - formula(w), rel=0, abs=1e-12 * size)
    block = stack_losses([loss], 3)
    assert 0 <= block.fenchel_young(w[None], s[None])[0] <= 1e-12 * size
    z = loss.prox(v + 1.0, step)
    gap = block.fenchel_young(z[None], s[None])[0]
    assert gap == pytest.approx(formula(z) + loss.conjugate(s) - s @ z, rel=1e-9, abs=1e-12 * size)


# Rows of any kind, in rational arithmetic
@st.composite
def interval_rows(draw: st.DrawFn, count: int, unit: float) -> dict[str, Array]:
    """Functions of rows: low, high, left, right, curvature; targets in units."""
    whole = st.integers(-3, 3)
    target = unit * draw(arrays(float, count, elements=whole))
    slope = 10.0 ** draw(st.integers(-3, 3))
    one, zero, inf = np.ones(count), np.zeros(count), np.full(count, np.inf)
    kind = draw(st.sampled_from(["absolute", "quantile", "hinge", "huber", "insensitive", "wall", "box", "equation"]))
    low, high, width, curvature = {
        "absolute": (-slope * one, slope * one, zero, zero),
        "quantile": (-0.25 * slope * one, 0.75 * slope * one, zero, zero),
        "hinge": (-slope * one, zero, zero, zero),
        "huber": (-slope * one, slope * one, zero, unit / slope * one),
        "insensitive": (-slope * one, slope * one, unit * one, zero),
        "wall": (zero, inf, zero, zero),
        "box": (-inf, inf, unit * one, zero),
        "equation": (-inf, inf, zero, zero),
    }[kind]
    if kind in ("wall", "box", "equation"):
        # zero obeys them all
        target = np.zeros(count) if kind == "equation" else np.abs(target) if kind == "wall" else zero
    return {"low": low, "high": high, "left": target - width, "right": target + width, "curvature": curvature}


@settings(max_examples=150)
@given(st.data())
def test_prox_is_exact_in_all_units(data: st.DataObject) -> None:
    """Whole numbers times units: ranks, ties and redundant rows are beyond doubt, and often degenerate."""
    dim, m, count = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    exponent = st.integers(-6, 6)
    whole = st.integers(-3, 3)
    row_unit, unit = 10.0 ** data.draw(exponent), 10.0 ** data.draw(exponent)
    square_unit, step = 10.0 ** data.draw(exponent), 10.0 ** data.draw(exponent)
    S = square_unit * data.draw(arrays(float, (m, dim), elements=whole))
    y = square_unit * unit * data.draw(arrays(float, m, elements=whole))
    omega = np.full(m, 0.5)
    tilt = data.draw(st.sampled_from([0.0, 1.0])) * data.draw(arrays(float, dim, elements=whole))
    R = row_unit * data.draw(arrays(float, (count, dim), elements=whole))
    rows = data.draw(interval_rows(count, row_unit * unit))
    v = unit * data.draw(arrays(float, dim, elements=whole))

    exact = exact_prox((S, y, omega), tilt, R, rows, v, step)
    assume(exact is not None)
    truth, pull = exact  # type: ignore[misc]
    quadratic = QuadraticBlocks(S, y, omega, np.array([m]), tilt[None], np.zeros(1))
    term = Term(NodeRows(np.zeros(count, dtype=int), R, 1), IntervalBlocks(**rows))
    found = LocalBlocks(quadratic, (term,)).prox(v[None], np.array([step]))[0]
    size = max(np.abs(v).max(), np.abs(truth).max(), unit)
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-12 * size + 4e-15 * pull)


def test_the_exact_prox_is_right() -> None:
    """The reference itself, on values worked out by hand."""
    none = (np.empty((0, 1)), np.empty(0), np.empty(0))
    soft = {"low": [-1.0], "high": [1.0], "left": [0.0], "right": [0.0], "curvature": [0.0]}
    for v, w in ((3.0, 2.0), (-3.0, -2.0), (0.5, 0.0)):
        assert exact_prox(none, np.zeros(1), np.eye(1), soft, np.array([v]), 1.0)[0] == w
    ridge = (np.eye(1), np.zeros(1), np.full(1, 0.5))
    assert exact_prox(ridge, np.zeros(1), np.eye(1), soft, np.array([3.0]), 1.0)[0] == 1.0
    band = {"low": [-1.0], "high": [1.0], "left": [-1.0], "right": [1.0], "curvature": [0.0]}
    for v, w in ((3.0, 2.0), (1.5, 1.0), (0.3, 0.3)):
        assert exact_prox(none, np.zeros(1), np.eye(1), band, np.array([v]), 1.0)[0] == w


# Laws
def two_points(data: st.DataObject, dim: int, scale: float) -> tuple[Array, Array]:
    element = st.floats(-3, 3, allow_subnormal=False)
    return tuple(scale * data.draw(arrays(float, dim, elements=element)) for _ in range(2))  # type: ignore[return-value]


@given(st.data(), st.sampled_from(sorted(CASES)), st.integers(-6, 6))
def test_prox_is_firmly_nonexpansive(data: st.DataObject, name: str, exponent: int) -> None:
    loss, step = CASES[name][0], 10.0**exponent
    a, b = two_points(data, 3, 1.0)
    p, q = loss.prox(a, step), loss.prox(b, step)
    slack = 1e-13 * (1 + np.abs([a, b, p, q]).max() ** 2) * (1 + step * 1e-2)
    assert (p - q) @ (p - q) <= (p - q) @ (a - b) + slack


@given(st.data(), st.sampled_from(sorted(CASES)))
def test_no_point_is_better_than_the_prox(data: st.DataObject, name: str) -> None:
    """``f(z) + ||z - v||^2 / (2 step)`` grows at least as ``||z - w||^2 / (2 step)`` from the prox w on."""
    loss, formula, _, _ = CASES[name]
    v, move = two_points(data, 3, 1.0)
    step = 10.0 ** data.draw(st.integers(-3, 3))
    w = loss.prox(v, step)
    z = w + move * 10.0 ** data.draw(st.integers(-6, 0))
    rise = loss.value(z) - loss.value(w) + float((z - v) @ (z - v) - (w - v) @ (w - v) - (z - w) @ (z - w)) / (2 * step)
    size = abs(formula(w)) + float((w - v) @ (w - v) + (z - v) @ (z - v)) / step + 1
    assert rise >= -1e-13 * size


@pytest.mark.parametrize("name", [name for name in CASES if name != "Poisson"])
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_moreau_identity_with_the_conjugate_of_cvxpy(name: str) -> None:
    """The prox of the conjugate from the parts' own conjugates, which know nothing of the prox."""
    loss, step, v = CASES[name][0], 0.7, np.array([1.0, -1.0, 2.0])
    quadratic, rows, _ = split_losses([loss], 3)
    S = cp.Variable((1, 3))
    value: Any = cp.sum_squares(S - v[None] / step) * step / 2
    limits, net = [], S
    for term in rows:
        p = cp.Variable((term.map.n_rows, term.map.width))
        cost, domain = term.function.conjugate_to_cvxpy(p)
        value, limits = value + cost, limits + domain
        pulled = term.map.matrix().T @ cp.reshape(p, (p.size, 1), order="C")
        net = net - cp.reshape(pulled, (1, 3), order="C")
    cost, domain = quadratic.conjugate_to_cvxpy(net)
    cp.Problem(cp.Minimize(value + cost), limits + domain).solve(**TIGHT)
    np.testing.assert_allclose(loss.prox(v, step) + step * S.value[0], v, atol=2e-6)


@given(st.data(), st.sampled_from(["Logistic", "Poisson", "Softmax"]), st.integers(-6, 6), st.integers(-3, 3))
def test_smooth_losses_are_at_rest_at_the_prox(data: st.DataObject, name: str, exponent: int, unit: int) -> None:
    """Gradients in extended precision: they bound the distance from the minimiser by the step."""
    loss, step = CASES[name][0], 10.0**exponent
    v, _ = two_points(data, 3, 10.0**unit)
    w = loss.prox(v, step)
    slope = loss.gradient(w)
    np.testing.assert_allclose(w + step * slope, v, rtol=0, atol=1e-13 * (np.abs(v).max() + step) + 1e-300)


@given(st.data(), st.integers(1, 4), st.integers(1, 6))
def test_conjugate_is_finite_exactly_on_its_domain(data: st.DataObject, dim: int, m: int) -> None:
    """Slopes of absolute values sum to ``X^T p``, ``|p| <= 1 / m``: a linear program tells which s they reach."""
    whole = st.integers(-3, 3)
    A, y = data.draw(arrays(float, (m, dim), elements=whole)), data.draw(arrays(float, m, elements=whole))
    s = data.draw(arrays(float, dim, elements=whole)) / 8
    # least t with s in t times the domain
    cost = np.append(np.zeros(m), 1.0)
    sides = np.vstack([np.column_stack([sign * np.eye(m), -np.full(m, 1 / m)]) for sign in (1, -1)])
    program = linprog(cost, sides, np.zeros(2 * m), np.column_stack([A.T, np.zeros(dim)]), s, bounds=(None, None))
    gauge = program.fun if program.status == 0 else np.inf
    assume(abs(gauge - 1) > 1e-6)
    value = gtv.LeastAbsolute(A, y).conjugate(s)
    assert np.isfinite(value) == (gauge < 1)
    if gauge < 1:
        best = linprog(y, A_eq=A.T, b_eq=s, bounds=[(-1 / m, 1 / m)] * m)
        assert value == pytest.approx(best.fun, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    ("loss", "s", "value"),
    [
        (gtv.L1(), [1.0, -1.0, 0.5], 0.0),
        (gtv.L1(), [1.0 + 1e-8, 0.0, 0.0], np.inf),
        (gtv.NonNegative(), [-1.0, 0.0, -2.0], 0.0),
        (gtv.NonNegative(), [-1.0, 1e-8, -2.0], np.inf),
        (gtv.Box(-1.0, 2.0), [3.0, -3.0, 0.0], 9.0),
        (gtv.Simplex(2.0), [1.0, 4.0, -1.0], 8.0),
        (gtv.Ball(2.0, [1.0, 0.0, 0.0]), [3.0, 4.0, 0.0], 13.0),
        (gtv.Ball(0.0, [1.0, 2.0, 3.0]), [3.0, 4.0, 0.0], 11.0),
        (gtv.Affine([[1.0, 1.0, 0.0]], [2.0]), [3.0, 3.0, 0.0], 6.0),
        (gtv.Affine([[1.0, 1.0, 0.0]], [2.0]), [3.0, 3.0, 1e-6], np.inf),
        (gtv.Linear([1.0, 2.0, 3.0]) + gtv.L1(), [2.0, 1.0, 3.0], 0.0),
        (gtv.Logistic([[1.0, 0.0, 0.0]], [1], scale="sum"), [-0.5, 0.0, 0.0], -np.log(2)),
        (gtv.Logistic([[1.0, 0.0, 0.0]], [1], scale="sum"), [0.0, 0.0, 0.0], 0.0),
        (gtv.Logistic([[1.0, 0.0, 0.0]], [1], scale="sum"), [-1.0, 0.0, 0.0], 0.0),
        (gtv.Logistic([[1.0, 0.0, 0.0]], [1], scale="sum"), [0.01, 0.0, 0.0], np.inf),
        (gtv.Poisson([[1.0, 0.0, 0.0]], [2.0]), [-2.0, 0.0, 0.0], 0.0),
        (gtv.Poisson([[1.0, 0.0, 0.0]], [2.0]), [-1.0, 0.0, 0.0], -1.0),
        (gtv.Poisson([[1.0, 0.0, 0.0]], [2.0]), [-2.01, 0.0, 0.0], np.inf),
        (gtv.Hinge([[1.0, 0.0, 0.0]], [1], scale="sum"), [-0.25, 0.0, 0.0], -0.25),
    ],
)
def test_conjugates_by_hand(loss: gtv.Loss, s: list[float], value: float) -> None:
    assert loss.conjugate(s) == pytest.approx(value, rel=1e-12, abs=1e-12)


# To the last bit
def test_coordinates_land_on_kinks_and_walls_to_the_last_bit() -> None:
    lasso = gtv.SquaredError(X, Y) + 3.0 * gtv.L1()
    assert (lasso.prox([0.1, 2.0, -0.3], 10.0) == 0).any()
    np.testing.assert_array_equal(gtv.L1().prox([0.3, -0.7, 2.0], 1.0), [0.0, 0.0, 1.0])
    boxed = (gtv.SquaredError(X, Y) + gtv.Box(0.1, 0.3)).prox([0.0, 0.0, 0.0], 10.0)
    assert set(boxed.tolist()) & {0.1, 0.3}
    assert ((boxed >= 0.1) & (boxed <= 0.3)).all()


@given(st.data(), st.sampled_from(sorted(CASES)), st.integers(-4, 4), st.integers(-4, 4))
def test_the_prox_is_in_the_domain(data: st.DataObject, name: str, exponent: int, unit: int) -> None:
    v, _ = two_points(data, 3, 10.0**unit)
    assert np.isfinite(CASES[name][0].value(CASES[name][0].prox(v, 10.0**exponent)))


def test_separable_losses_by_their_formulas() -> None:
    rng = np.random.default_rng(1)
    v, step = rng.normal(size=50), 0.3
    np.testing.assert_allclose(gtv.L1().prox(v, step), np.sign(v) * np.maximum(np.abs(v) - step, 0), atol=1e-15)
    np.testing.assert_allclose(gtv.Box(-0.5, 0.2).prox(v, step), np.clip(v, -0.5, 0.2), atol=0)
    elastic = (gtv.L1() + 0.5 * gtv.SquaredDistance(np.zeros(50))).prox(v, step)
    np.testing.assert_allclose(elastic, np.sign(v) * np.maximum(np.abs(v) - step, 0) / 1.3, atol=1e-15)


@given(st.data(), st.integers(2, 6), st.integers(-5, 5))
def test_projections_onto_simplex_and_ball(data: st.DataObject, dim: int, unit: int) -> None:
    scale = 10.0**unit
    v, _ = two_points(data, dim, scale)
    ball = v * min(1.0, scale / max(float(np.linalg.norm(v)), 1e-300))
    np.testing.assert_allclose(gtv.Ball(scale).prox(v), ball, rtol=0, atol=1e-14 * scale)
    # the sorting formula of Held, Wolfe and Crowder (1974)
    descending = np.sort(v)[::-1]
    excess = (np.cumsum(descending) - scale) / np.arange(1, dim + 1)
    threshold = excess[np.flatnonzero(descending > excess)[-1]]
    np.testing.assert_allclose(gtv.Simplex(scale).prox(v), np.maximum(v - threshold, 0), rtol=0, atol=1e-14 * scale)


@pytest.mark.parametrize("height", [1e3, 1e6])
def test_far_points_overflow_nowhere(height: float) -> None:
    v = np.full(3, height)
    for name in ("Poisson", "Softmax", "Logistic"):
        loss = CASES[name][0]
        w = loss.prox(v, 1.0)
        np.testing.assert_allclose(w + loss.gradient(w), v, rtol=1e-12)
