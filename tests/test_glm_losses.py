"""Logistic, Poisson, softmax and ball losses: against CVXPY, against decimal arithmetic, and on networks."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.losses.ball import BallBlocks
from gtvmin.losses.log_sum_exp import LogSumExpBlocks
from gtvmin.losses.logistic import LogisticBlocks
from gtvmin.losses.poisson import PoissonBlocks
from gtvmin.losses.relative_entropy import relative_entropy
from likelihoods import LogisticRow, PoissonRow, SoftmaxRow, exact

Array = np.ndarray[Any, Any]
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Kind:
    """A block function of four rows, the same in CVXPY row by row, and a dual inside its domain."""

    block: Any
    row: Callable[[int, Any], Any]
    slope: Array
    limits: Callable[[int, Any], list[Any]] = lambda r, t: []

    @property
    def shape(self) -> tuple[int, int]:
        return self.block.n_rows, self.block.dim


WEIGHT = np.array([0.3, 1.0, 2.0, 0.7])
COUNTS = np.array([0.0, 1.0, 2.5, 7.0])
LABELS = np.array([0, 1, 2, 1])
SHARES = np.array([[0.2, 0.5, 0.3], [0.1, 0.8, 0.1], [0.6, 0.3, 0.1], [0.4, 0.2, 0.4]])
RADII = np.array([0.5, 1.0, 2.0, 3.0])
CENTRES = np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 0.5], [0.3, 0.2, 2.0], [-4.0, 1.0, 1.0]])

KINDS = {
    "logistic": Kind(
        LogisticBlocks(WEIGHT),
        lambda r, t: WEIGHT[r] * cp.logistic(-t[0]),
        -WEIGHT[:, None] * [[0.1], [0.5], [0.9], [0.3]],
    ),
    "poisson": Kind(
        PoissonBlocks(WEIGHT, COUNTS),
        lambda r, t: WEIGHT[r] * (cp.exp(t[0]) - COUNTS[r] * t[0]),
        WEIGHT[:, None] * [[0.4], [-0.5], [3.0], [-6.0]],
    ),
    "softmax": Kind(
        LogSumExpBlocks(WEIGHT, np.eye(3)[LABELS]),
        lambda r, s: WEIGHT[r] * (cp.log_sum_exp(s) - s[LABELS[r]]),
        WEIGHT[:, None] * (SHARES - np.eye(3)[LABELS]),
    ),
    "ball": Kind(
        BallBlocks(RADII, CENTRES),
        lambda r, w: 0 * cp.sum(w),
        np.array([[1.0, 0.0, -2.0], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0], [-1.0, 5.0, 2.0]]),
        lambda r, w: [cp.norm(w - CENTRES[r]) <= RADII[r]],
    ),
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def solve(problem: cp.Problem) -> float:
    """To the last digit that the solver finds, which it calls inaccurate."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        return float(problem.solve(**TIGHT))


def optimum(r: int, kind: Kind, make: Callable[[Any], Any]) -> tuple[float, Array]:
    """Least value of ``f_r(t) + make(t)`` over t, and where."""
    t = cp.Variable(kind.shape[1])
    least = solve(cp.Problem(cp.Minimize(kind.row(r, t) + make(t)), kind.limits(r, t)))
    return least, np.asarray(t.value)


# Against CVXPY


@kinds
def test_values_agree_with_cvxpy(kind: Kind) -> None:
    W = np.random.default_rng(0).standard_normal(kind.shape)
    if kind is KINDS["ball"]:
        W = CENTRES + W * (0.9 * RADII / np.linalg.norm(W, axis=1))[:, None]
    variable = cp.Variable(kind.shape)
    variable.value = W
    expected = [float(kind.row(r, variable[r]).value) for r in range(len(W))]
    np.testing.assert_allclose(kind.block.value(W), expected, rtol=1e-13, atol=1e-15)
    variable.value = W / 8.0
    model = kind.block.to_cvxpy(variable, unit=8.0, factor=0.25)
    assert model.is_convex()
    assert model.value == pytest.approx(0.25 * sum(expected), rel=1e-12)


@kinds
@pytest.mark.parametrize("size", [1.0, 40.0])
def test_prox_is_what_cvxpy_finds(kind: Kind, size: float) -> None:
    V, step = size * np.random.default_rng(1).standard_normal(kind.shape), np.array([0.2, 1.0, 7.0, 30.0])
    found = kind.block.prox(V, step)
    dual = kind.block.conjugate_prox_operator(1.0 / step)(V / step[:, None])
    for r, (v, tau) in enumerate(zip(V, step, strict=True)):
        _, expected = optimum(r, kind, lambda t, v=v, tau=tau: cp.sum_squares(t - v) / (2 * tau))
        np.testing.assert_allclose(found[r], expected, atol=1e-5 * size)
        # Moreau's identity, with CVXPY's prox
        np.testing.assert_allclose(dual[r], (v - expected) / tau, atol=1e-5 * size / tau)


@kinds
def test_conjugate_is_the_supremum_that_cvxpy_finds(kind: Kind) -> None:
    suprema = [-optimum(r, kind, lambda t, s=s: -s @ t)[0] for r, s in enumerate(kind.slope)]
    np.testing.assert_allclose(kind.block.conjugate(kind.slope), suprema, rtol=1e-7, atol=1e-8)
    variable = cp.Variable(kind.shape)
    expression, conditions = kind.block.conjugate_to_cvxpy(variable)
    fixed = solve(cp.Problem(cp.Minimize(expression), [*conditions, variable == kind.slope]))
    assert fixed == pytest.approx(sum(suprema), rel=1e-7)
    assert (kind.block.dual_gauge(kind.slope) < 1).all()


def test_the_simplex_projection_is_the_one_cvxpy_finds() -> None:
    kind = KINDS["softmax"]
    S = 2.0 * np.random.default_rng(4).standard_normal(kind.shape)
    inside = kind.block.project_domain(S)
    for r, s in enumerate(S):
        q = cp.Variable(3)
        shifted = WEIGHT[r] * (q - np.eye(3)[LABELS[r]])
        solve(cp.Problem(cp.Minimize(cp.sum_squares(shifted - s)), [q >= 0, cp.sum(q) == 1]))
        np.testing.assert_allclose(inside[r], shifted.value, atol=1e-6)
    np.testing.assert_allclose(inside.sum(axis=1), 0, atol=1e-15)
    assert np.isfinite(kind.block.conjugate(inside)).all()


# Against decimal arithmetic, from tiny to huge

sizes = st.floats(-8, 8).map(lambda e: 10.0**e)


def numbers(limit: float) -> st.SearchStrategy[float]:
    """Numbers of every size up to a limit, and whole ones."""
    powers = st.tuples(st.sampled_from([-1.0, 1.0]), st.floats(-8, np.log10(limit))).map(lambda p: p[0] * 10.0 ** p[1])
    return st.one_of(powers, st.integers(-3, 3).map(float))


@st.composite
def rows(draw: st.DrawFn) -> tuple[Any, Any, int]:
    """One row of a likelihood: what it should be, its block, and its width."""
    omega, which = draw(sizes), draw(st.sampled_from(["logistic", "poisson", "softmax"]))
    if which == "logistic":
        return LogisticRow(omega), LogisticBlocks(np.array([omega])), 1
    if which == "poisson":
        y = draw(st.one_of(st.just(0.0), sizes))
        return PoissonRow(omega, y), PoissonBlocks(np.array([omega]), np.array([y])), 1
    classes = draw(st.integers(2, 4))
    label = draw(st.integers(0, classes - 1))
    return SoftmaxRow(omega, label), LogSumExpBlocks(np.array([omega]), np.eye(classes)[[label]]), classes


@given(rows(), sizes, st.data())
def test_prox_is_accurate_to_twelve_digits(case: Any, step: float, data: st.DataObject) -> None:
    truth, block, width = case
    v = np.array([data.draw(numbers(1e8)) for _ in range(width)])
    t = block.prox(v[None], np.array([step]))[0]
    pull = step * truth.omega * max(getattr(truth, "y", 1.0), 1.0)
    size = max(1.0, np.abs(v).max(), np.abs(t).max(), pull if np.abs(t).max() > 0.5 * pull else 0.0)
    assert np.abs(truth.newton(t, v, step)).max() <= 1e-12 * size


@given(rows(), sizes, st.data())
def test_duals_of_the_prox_stay_in_the_domain(case: Any, step: float, data: st.DataObject) -> None:
    truth, block, width = case
    z = np.array([[data.draw(numbers(1e8)) for _ in range(width)]])
    sigma = np.array([step])
    p = block.conjugate_prox_operator(sigma)(z)
    assert np.isfinite(block.conjugate(p)).all()
    assert block.dual_gauge(p)[0] <= 1.0
    np.testing.assert_allclose(block.project_domain(p), p, rtol=1e-15, atol=8 * EPS * truth.omega * (width > 1))
    if isinstance(truth, LogisticRow):
        assert -truth.omega <= p[0, 0] <= 0
    # p is the slope at the primal prox
    t = block.prox(z / step, 1.0 / sigma)
    scale = truth.omega * max(getattr(truth, "y", 1.0), 1.0) + np.abs(p).max()
    np.testing.assert_allclose(p, z - step * t, atol=1e-13 * (np.abs(z).max() + step * np.abs(t).max()) + 1e-14 * scale)


@given(rows(), st.data())
def test_fenchel_young_is_exact_within_its_rounding(case: Any, data: st.DataObject) -> None:
    truth, block, width = case
    t = np.array([[data.draw(numbers(600.0 if isinstance(truth, PoissonRow) else 1e8)) for _ in range(width)]])
    other = np.array([[data.draw(numbers(30.0)) for _ in range(width)]])
    p = data.draw(st.sampled_from([block.gradient(other), block.gradient(t), block.gradient(t * (1 + 1e-9))]))
    if not np.isfinite(p).all():
        return
    found, expected = float(block.fenchel_young(t, p)[0]), truth.fenchel_young(t[0], p[0])
    assert found >= 0
    assert abs(found - expected) <= block.rounding(t, p)[0] + 16 * EPS * expected


@given(rows(), st.data())
def test_values_are_accurate_and_slopes_obey_the_inequality(case: Any, data: st.DataObject) -> None:
    truth, block, width = case
    t = np.array([[data.draw(numbers(600.0 if isinstance(truth, PoissonRow) else 1e8)) for _ in range(width)]])
    u = np.array([[data.draw(numbers(30.0)) for _ in range(width)]])
    value = block.value(t)[0]
    y = getattr(truth, "y", 0.0)
    assert value == pytest.approx(truth.value(t[0]), rel=1e-12, abs=8 * EPS * truth.omega * (y + 1) * np.abs(t).max())
    p = block.gradient(u)
    total = value + block.conjugate(p)[0] - float((t * p).sum())
    size = abs(value) + abs(block.conjugate(p)[0]) + float(np.abs(t * p).sum()) + truth.omega * (1 + y)
    assert total >= -1e-13 * size
    assert total == pytest.approx(block.fenchel_young(t, p)[0], abs=1e-12 * size)


@given(rows(), st.data())
def test_gradients_are_differences_of_values(case: Any, data: st.DataObject) -> None:
    truth, block, width = case
    t = np.array([[data.draw(st.floats(-5, 5)) for _ in range(width)]])
    gradient, h = block.gradient(t)[0], 1e-5
    for k in range(width):
        step = np.zeros((1, width))
        step[0, k] = h
        slope = (block.value(t + step)[0] - block.value(t - step)[0]) / (2 * h)
        size = truth.omega * (1 + getattr(truth, "y", 0.0) + np.exp(np.abs(t).max()))
        assert gradient[k] == pytest.approx(slope, abs=1e-8 * size)
    np.testing.assert_array_equal(block.subgradient(t)[0], gradient)


@given(st.floats(-8, 0.7).map(lambda e: 10.0**e), st.booleans())
def test_relative_entropy_keeps_its_digits(size: float, negative: bool) -> None:
    """``e^x - 1 - x`` for q = 1 and m = e^x, where no logarithm is rounded."""
    x = -size if negative else size
    found = float(relative_entropy(np.array([1.0]), np.array([x]))[0])
    (point,) = exact(x)
    assert found == pytest.approx(float(point.exp() - 1 - point), rel=2e-14, abs=0)


def test_relative_entropy_at_the_ends() -> None:
    q = np.array([0.0, 0.0, 1e-300, 1e300, 1.0])
    log_m = np.array([-1e8, 2.0, 5.0, -1e3, 1e3])
    expected = [0.0, np.exp(2.0), np.exp(5.0), 1e300 * (np.log(1e300) + 1e3 - 1), np.inf]
    np.testing.assert_allclose(relative_entropy(q, log_m), expected, rtol=1e-14)


def test_a_dual_that_sums_to_zero_only_nearly_is_charged() -> None:
    """The last bit of the sum weighs as much as the logarithm of the smallest probability."""
    truth, block = SoftmaxRow(1.0, 0), LogSumExpBlocks(np.ones(1), np.eye(4)[[0]])
    scores = np.array([[-1.0, -1.0, -100.0, 2.0]])
    dual = block.gradient(np.array([[-1.0, -0.8, -100.0, 2.0]]))
    found, expected = block.fenchel_young(scores, dual)[0], truth.fenchel_young(scores[0], dual[0])
    assert abs(found - expected) > 1e-16
    assert abs(found - expected) <= block.rounding(scores, dual)[0]
    assert block.rounding(scores, dual)[0] < 1e-12


@pytest.mark.parametrize("z", [-30.0, -300.0])
def test_small_duals_keep_their_digits(z: float) -> None:
    """``p = omega exp(t)`` and ``t = z - p`` for a count of zero; the mirror image for a well classified point."""
    p = PoissonBlocks(np.array([2.0]), np.zeros(1)).conjugate_prox_operator(np.ones(1))(np.array([[z]]))
    assert p[0, 0] == pytest.approx(2 * np.exp(z), rel=1e-11, abs=0)
    p = LogisticBlocks(np.array([2.0])).conjugate_prox_operator(np.ones(1))(np.array([[-z]]))
    assert p[0, 0] == pytest.approx(-2 * np.exp(z), rel=1e-11, abs=0)
    S = LogSumExpBlocks(np.array([2.0]), np.eye(3)[[1]]).conjugate_prox_operator(np.ones(1))(np.array([[0, -z, 0]]))
    assert S[0] == pytest.approx([2 * np.exp(z), -4 * np.exp(z), 2 * np.exp(z)], rel=1e-11, abs=0)


def test_duals_of_many_badly_classified_points_stay_in_the_domain() -> None:
    """The largest entry is one less the others: rounding must not carry a row past its corner."""
    rng = np.random.default_rng(6)
    block = LogSumExpBlocks(np.full(3000, 0.1), np.eye(7)[np.zeros(3000, dtype=int)])
    Z = rng.standard_normal((3000, 7)) + 100.0 * (1.0 - block.indicator)
    P = block.conjugate_prox_operator(np.ones(3000))(Z)
    assert (P[:, 0] >= -0.1).all()
    assert np.isfinite(block.conjugate(P)).all()
    assert np.isfinite(block.conjugate(block.gradient(Z))).all()
    assert np.isfinite(block.conjugate(block.project_domain(Z))).all()


def test_nothing_overflows() -> None:
    """Case C18 (cvxpy PR #229, #1359; Stack Overflow 20085768): log(1 + exp(s)) and its slope at -1000, 0 and 1000."""
    loss = gtv.Logistic([[-1.0]], [1.0])
    assert [loss.value([s]) for s in (-1e3, 0.0, 1e3)] == pytest.approx([0.0, np.log(2), 1e3], rel=1e-15)
    assert [loss.gradient([s])[0] for s in (-1e3, 0.0, 1e3)] == pytest.approx([0.0, 0.5, 1.0], rel=1e-15)
    np.testing.assert_array_equal(LogisticBlocks(np.ones(2)).conjugate(np.array([[0.0], [-1.0]])), 0.0)
    counts = gtv.Poisson([[1.0]], [2.0])
    assert [counts.value([s]) for s in (-1e3, 0.0, 1e3)] == [2e3, 1.0, np.inf]
    assert counts.gradient([1e3])[0] == np.inf
    assert gtv.Poisson([[1.0]], [1e200]).value([1e200]) == np.inf
    classes = gtv.Softmax([[1.0]], [0], classes=3)
    assert classes.value([-1e8, 1e8, 0.0]) == 2e8
    np.testing.assert_array_equal(classes.gradient([-1e8, 1e8, 0.0]), [-1.0, 1.0, 0.0])


@pytest.mark.parametrize("name", ["logistic", "poisson", "softmax"])
def test_the_gauge_is_where_the_domain_ends(name: str) -> None:
    block, slope = KINDS[name].block, KINDS[name].slope
    gauge = block.dual_gauge(slope)
    bounded = gauge > 0
    ends = slope[bounded] / gauge[bounded, None]
    part = type(block)(**{key: value[bounded] for key, value in row_arrays(name).items()})
    assert np.isfinite(part.conjugate(ends * (1 - 1e-14))).all()
    assert np.isinf(part.conjugate(ends * (1 + 1e-9))).all()
    for factor in (0.0, 0.3, 0.99):  # star-shaped about zero
        assert np.isfinite(part.conjugate(factor * ends)).all()


def row_arrays(name: str) -> dict[str, Array]:
    if name == "logistic":
        return {"weight": WEIGHT}
    return {"weight": WEIGHT, **({"target": COUNTS} if name == "poisson" else {"indicator": np.eye(3)[LABELS]})}


@pytest.mark.parametrize(
    ("block", "outside"),
    [
        (LogisticBlocks(np.ones(2)), [[1e-9], [-1.0 - 1e-9]]),
        (PoissonBlocks(np.ones(2), np.array([0.0, 3.0])), [[-1e-9], [-3.0 - 1e-9]]),
        (LogSumExpBlocks(np.ones(2), np.eye(2)), [[0.1, -0.1], [0.0, 1e-9]]),
    ],
)
def test_slopes_outside_the_domain_have_no_finite_conjugate(block: Any, outside: Any) -> None:
    S = np.array(outside)
    assert np.isinf(block.conjugate(S)).all()
    assert np.isinf(block.fenchel_young(np.zeros(S.shape), S)).all()
    assert np.isfinite(block.conjugate(block.project_domain(S))).all()
    assert (block.dual_gauge(S) > 1).all()


@pytest.mark.parametrize("name", ["logistic", "poisson", "softmax"])
def test_the_metric_moves_along_the_boundary(name: str) -> None:
    """Positive definite on the span, at most one, and the floor in directions that leave the domain.

    Logistic has hardly any floor: its duals at a corner move by shares of themselves.
    """
    block = KINDS[name].block
    width, asked = block.dim, 1e-3
    floor = 1e-13 if name == "logistic" else asked
    edge = {"logistic": np.zeros((4, 1)), "poisson": -(WEIGHT * COUNTS)[:, None], "softmax": np.zeros((4, 3))}[name]
    for S in (KINDS[name].slope, edge):
        metric = block.dual_metric(S, asked)
        columns = np.stack([metric(np.tile(e, (4, 1))) for e in np.eye(width)], axis=2)
        values = np.linalg.eigvalsh(0.5 * (columns + np.swapaxes(columns, 1, 2)))
        np.testing.assert_allclose(columns, np.swapaxes(columns, 1, 2), atol=1e-15)
        free = values[:, 1:] if name == "softmax" else values
        assert (free >= 0.999 * floor).all()
        assert (values <= 1 + 1e-12).all()
    if name == "softmax":
        np.testing.assert_allclose(columns.sum(axis=1), 0, atol=1e-15)
    if name != "poisson":
        np.testing.assert_allclose(free, floor, rtol=1e-12)


# Balls

points = st.integers(1, 4).flatmap(lambda d: st.tuples(*[st.lists(numbers(1e8), min_size=d, max_size=d)] * 3))


@given(points, st.one_of(st.just(0.0), sizes))
def test_ball(vectors: Any, radius: float) -> None:
    centre, w, p = (np.array([x]) for x in vectors)
    block = BallBlocks(np.array([radius]), centre)
    inside = block.project_primal(w)
    reach = radius + np.linalg.norm(centre)
    assert block.value(inside)[0] == 0.0
    np.testing.assert_array_equal(block.project_primal(inside), inside)
    assert np.linalg.norm(inside - centre) <= radius + 8 * EPS * reach
    # every other point of the ball lies on the far side: <w - projection, c - projection> <= 0
    size = np.linalg.norm(w - inside) * (radius + EPS * reach)
    assert float(((w - inside) * (centre - inside)).sum()) <= 1e-13 * size + 1e-15 * np.linalg.norm(w) * reach
    support = radius * np.linalg.norm(p) + float((centre * p).sum())
    assert block.conjugate(p)[0] == pytest.approx(support, rel=1e-13, abs=1e-15 * np.abs(centre * p).sum())
    term = block.fenchel_young(inside, p)[0]
    direct = support - float((inside * p).sum())
    assert term >= 0
    assert abs(term - direct) <= 1e-14 * np.linalg.norm(p) * (reach + np.linalg.norm(inside)) * 4


def test_the_best_point_of_a_ball_closes_the_gap() -> None:
    block, slope = KINDS["ball"].block, KINDS["ball"].slope
    size = np.linalg.norm(slope, axis=1)
    best = CENTRES + RADII[:, None] * slope / np.where(size > 0, size, 1)[:, None]
    assert (block.fenchel_young(best, slope) <= 1e-15).all()
    np.testing.assert_allclose(block.fenchel_young(CENTRES, slope), RADII * size, rtol=1e-15)
    assert np.isinf(block.fenchel_young(CENTRES + 2 * RADII[:, None], slope)).all()
    far = 10.0 * slope + CENTRES
    np.testing.assert_allclose(
        block.prox(far, np.ones(4)) - CENTRES,
        (far - CENTRES) * np.minimum(1, RADII / np.maximum(np.linalg.norm(far - CENTRES, axis=1), 1e-300))[:, None],
        rtol=1e-14,
    )
