"""Piecewise linear-quadratic functions of one number, against exact arithmetic piece by piece and against CVXPY."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gtvmin.losses.interval import IntervalBlocks, interval_arrays

INF = float("inf")
EPS = float(np.finfo(float).eps)
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


@dataclass(frozen=True)
class Row:
    """One function of the family, evaluated exactly."""

    low: float
    high: float
    left: float
    right: float
    curvature: float

    def block(self) -> IntervalBlocks:
        return blocks([self])

    def side(self, t: float) -> tuple[Fraction, float]:
        """Distance from [left, right] and the largest slope on that side."""
        if t > self.right:
            return Fraction(t) - Fraction(self.right), self.high
        if t < self.left:
            return Fraction(self.left) - Fraction(t), -self.low
        return Fraction(0), 0.0

    def value(self, t: float | Fraction) -> Fraction | float:
        distance, slope = self.side(t)
        if distance == 0 or slope == 0:
            return Fraction(0)
        curvature = Fraction(self.curvature)
        if slope == INF:
            return INF if curvature == 0 else distance**2 / (2 * curvature)
        if distance <= Fraction(slope) * curvature:
            return distance**2 / (2 * curvature)
        return Fraction(slope) * distance - Fraction(slope) ** 2 * curvature / 2

    def conjugate(self, p: float) -> Fraction | float:
        if not self.low <= p <= self.high:
            return INF
        target = self.right if p > 0 else self.left
        return Fraction(p) * Fraction(target) + Fraction(self.curvature) * Fraction(p) ** 2 / 2

    def prox(self, v: float, step: float) -> Fraction:
        """Best of the stationary points of all pieces and of the points between them."""
        exact, s, curvature = Fraction(v), Fraction(step), Fraction(self.curvature)
        points = [exact, Fraction(self.left), Fraction(self.right)]
        for slope, target in ((self.low, self.left), (self.high, self.right)):
            points.append((exact * curvature + s * Fraction(target)) / (curvature + s))
            if abs(slope) < INF:
                points += [exact - s * Fraction(slope), Fraction(target) + Fraction(slope) * curvature]
        finite = [point for point in points if self.value(point) < INF]
        return min(finite, key=lambda x: self.value(x) + (x - exact) ** 2 / (2 * s))


def blocks(rows: list[Row]) -> IntervalBlocks:
    columns = {name: np.array([getattr(row, name) for row in rows]) for name in Row.__dataclass_fields__}
    return IntervalBlocks(**columns)


def column(*values: float) -> Any:
    return np.array(values, dtype=float)[:, None]


sizes = st.sampled_from([0.0, 1e-9, 0.1, 1.0, 3.0, 1e6])
numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 1e-200, -1e-200, 1e100, -1e100]))


@st.composite
def rows(draw: st.DrawFn) -> Row:
    low, high = draw(st.one_of(sizes, st.just(INF))), draw(st.one_of(sizes, st.just(INF)))
    left = draw(st.floats(-10, 10))
    right = left + draw(st.sampled_from([0.0, 0.0, 0.5, 3.0]))
    return Row(-low, high, left, right, draw(st.sampled_from([0.0, 0.0, 1e-6, 0.5, 2.0])))


KINDS = {
    "absolute": Row(-1.0, 1.0, 0.5, 0.5, 0.0),
    "quantile": Row(-0.8, 0.2, -1.0, -1.0, 0.0),
    "hinge": Row(-1.0, 0.0, 1.0, 1.0, 0.0),
    "squared hinge": Row(-INF, 0.0, 1.0, 1.0, 0.5),
    "huber": Row(-0.6, 0.6, 0.25, 0.25, 0.5),
    "square": Row(-INF, INF, 0.25, 0.25, 0.5),
    "insensitive": Row(-1.0, 2.0, -0.5, 0.5, 0.0),
    "insensitive huber": Row(-1.0, 2.0, 0.5, 0.75, 0.3),
    "at least": Row(-INF, 0.0, 0.5, 0.5, 0.0),
    "at most": Row(0.0, INF, 0.5, 0.5, 0.0),
    "between": Row(-INF, INF, 0.5, 0.75, 0.0),
    "between, negative": Row(-INF, INF, -2.0, -0.5, 0.0),
    "equal": Row(-INF, INF, 0.5, 0.5, 0.0),
    "wall and slope": Row(-INF, 1.0, -0.5, 0.5, 0.0),
    "wall below, free above": Row(-INF, 0.0, -0.5, 0.5, 0.0),
}


@given(rows(), numbers)
def test_value(row: Row, t: float) -> None:
    found, true = row.block().value(column(t))[0], row.value(t)
    if true == INF:
        assert found == INF
    else:
        # the distance is rounded once; where phi is linear, it is the difference of two numbers of its size
        size = float(row.side(t)[0]) * slope_bound(row, t) + float(true)
        assert abs(Fraction(float(found)) - true) <= Fraction(4 * EPS * size) + Fraction(1e-300)


def slope_bound(row: Row, t: float) -> float:
    distance, slope = row.side(t)
    if slope == INF:
        return float(distance) / row.curvature if row.curvature else 0.0
    return slope


@given(rows(), numbers)
def test_conjugate(row: Row, p: float) -> None:
    found, true = row.block().conjugate(column(p))[0], row.conjugate(p)
    if true == INF:
        assert found == INF
    else:
        size = abs(p) * max(abs(row.left), abs(row.right)) + row.curvature * abs(p) ** 2
        assert abs(Fraction(float(found)) - true) <= Fraction(4 * EPS) * Fraction(size) + Fraction(1e-300)


@given(rows(), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
@example(KINDS["between"], 0.5, -3.0)
@example(KINDS["equal"], 0.5, 7.0)
@example(KINDS["hinge"], 1.0, -0.5)
def test_fenchel_young(row: Row, t: float, p: float) -> None:
    block = row.block()
    p = float(np.clip(p, row.low, row.high))
    found, rounding = block.fenchel_young(column(t), column(p))[0], block.rounding(column(t), column(p))[0]
    assert found >= 0
    assert np.isfinite(rounding)
    value = row.value(t)
    if value == INF:
        assert found == INF
    else:
        true = value + row.conjugate(p) - Fraction(p) * Fraction(t)
        assert abs(Fraction(float(found)) - true) <= Fraction(float(rounding)) + Fraction(1e-300)


@pytest.mark.parametrize("kind", KINDS)
def test_fenchel_young_keeps_its_digits_near_zero(kind: str) -> None:
    """At p almost a subgradient the sum is tiny: value plus conjugate minus product would lose all digits."""
    row = KINDS[kind]
    block = row.block()
    for t in (-3.0, 0.5, 0.7, 1.25, 40.0):
        for factor in (1 - 1e-9, 1 - 1e-12):
            if row.value(t) < INF:
                p = float(block.subgradient(column(t))[0, 0]) * factor
                true = row.value(t) + row.conjugate(p) - Fraction(p) * Fraction(t)
                found = float(block.fenchel_young(column(t), column(p))[0])
                assert found == pytest.approx(float(true), rel=1e-3, abs=1e-290)


@pytest.mark.parametrize("kind", ["absolute", "quantile", "hinge", "huber", "insensitive", "equal", "between"])
def test_rounding_covers_an_error_in_the_last_place_at_a_kink(kind: str) -> None:
    row = KINDS[kind]
    block = row.block()
    for kink in (row.left, row.right):
        for share in (0.0, 0.3, 1.0):
            p = float(np.clip(-9.0, row.low, row.high)) * share
            found, rounding = (f(column(kink), column(p))[0] for f in (block.fenchel_young, block.rounding))
            for neighbour in (np.nextafter(kink, -INF), np.nextafter(kink, INF)):
                if row.value(neighbour) < INF:
                    true = row.value(neighbour) + row.conjugate(p) - Fraction(p) * Fraction(float(neighbour))
                    assert abs(float(true) - found) <= rounding


def test_fenchel_young_outside_the_domains() -> None:
    row = KINDS["hinge"].block()
    assert row.fenchel_young(column(0.0), column(0.1)) == [INF]
    assert row.fenchel_young(column(0.0), column(-1.1)) == [INF]
    wall = KINDS["at least"].block()
    assert wall.fenchel_young(column(0.4), column(-1.0)) == [INF]
    assert wall.fenchel_young(column(0.5), column(-1e9)) == [0.0]


@given(rows(), st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_subgradient_supports(row: Row, t: float, z: float) -> None:
    assume(row.value(t) < INF)
    g = float(row.block().subgradient(column(t))[0, 0])
    assert np.isfinite(g)
    value = row.value(z)
    if value < INF:
        bound = row.value(t) + Fraction(g) * (Fraction(z) - Fraction(t))
        assert value - bound >= -Fraction(1e-12) * (abs(bound) + abs(value) + abs(Fraction(g)) * 10 + 1)


def test_subgradient_outside_the_domain_is_finite() -> None:
    assert KINDS["between"].block().subgradient(column(-9.0)) == [[0.0]]


@given(rows(), st.floats(-1e3, 1e3), st.sampled_from([1e-3, 0.5, 1.0, 40.0]))
def test_prox(row: Row, v: float, step: float) -> None:
    true = row.prox(v, step)
    found = row.block().prox(column(v), np.array([step]))[0, 0]
    assert found == pytest.approx(float(true), rel=1e-12, abs=1e-12)
    if row.block().restricted:
        assert row.value(float(found)) < INF


@given(rows(), st.floats(-1e3, 1e3), st.sampled_from([1e-3, 0.5, 1.0, 40.0]))
def test_prox_of_the_conjugate(row: Row, v: float, step: float) -> None:
    found = row.block().conjugate_prox_operator(np.array([step]))(column(v))[0, 0]
    true = Fraction(v) - Fraction(step) * row.prox(v / step, 1 / step)  # Moreau
    assert found == pytest.approx(float(true), rel=1e-9, abs=1e-9 * (1 + step * 10))
    assert row.low <= found <= row.high


@given(rows(), st.floats(-1e3, 1e3))
def test_projection_and_gauge_of_the_dual(row: Row, p: float) -> None:
    block = row.block()
    inside = float(block.project_domain(column(p))[0, 0])
    assert row.low <= inside <= row.high
    assert abs(inside - p) <= abs(np.clip(0.0, row.low, row.high) - p)
    gauge = float(block.dual_gauge(column(p))[0])
    assert gauge >= 0
    assert (gauge <= 1) == (row.low <= p <= row.high)
    if 0 < gauge < INF:
        assert row.low * gauge * (1 + 1e-12) <= p <= row.high * gauge * (1 + 1e-12)


@given(st.lists(rows(), min_size=1, max_size=4), st.data())
def test_metric_is_positive_and_at_most_one(several: list[Row], data: st.DataObject) -> None:
    block = blocks(several)
    duals = [float(np.clip(data.draw(st.floats(-1e3, 1e3)), row.low, row.high)) for row in several]
    moved = block.dual_metric(column(*duals), 1e-4)(np.ones((len(several), 1)))
    assert ((moved >= 1e-4) & (moved <= 1)).all()


@given(rows(), numbers, numbers)
def test_numbers_of_any_size_make_no_nan(row: Row, t: float, p: float) -> None:
    block, T, S = row.block(), column(t), column(p)
    one = np.ones(1)
    for found in (
        block.value(T),
        block.subgradient(T),
        block.conjugate(S),
        block.fenchel_young(T, S),
        block.rounding(T, S),
        block.prox(T, one),
        block.conjugate_prox_operator(one)(S),
        block.dual_gauge(S),
        block.project_primal(T),
    ):
        assert not np.isnan(found).any()


@pytest.mark.parametrize("unit", [1.0, 4.0])
def test_cvxpy_expression(unit: float) -> None:
    """``factor f(unit z) + ||z - v||^2 / 2`` for all kinds at once, in other units too."""
    several, factor = list(KINDS.values()), 0.5
    rng = np.random.default_rng(0)
    v = rng.normal(0.0, 2.0, len(several))
    Z = cp.Variable((len(several), 1))
    objective = blocks(several).to_cvxpy(Z, unit, factor) + 0.5 * cp.sum_squares(Z - v[:, None])
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(**TIGHT)
    # z = t / unit: factor f(t) + (t - unit v)^2 / (2 unit^2)
    true = [float(row.prox(unit * x, unit**2 * factor)) / unit for row, x in zip(several, v, strict=True)]
    np.testing.assert_allclose(Z.value[:, 0], true, atol=1e-5)
    at_best = sum(
        factor * float(row.value(row.prox(unit * x, unit**2 * factor))) + 0.5 * (z - x) ** 2
        for row, x, z in zip(several, v, true, strict=True)
    )
    assert problem.value == pytest.approx(at_best, rel=1e-7)


def test_cvxpy_expression_of_the_conjugate() -> None:
    several = list(KINDS.values())
    v = np.random.default_rng(1).normal(0.0, 2.0, len(several))
    S = cp.Variable((len(several), 1))
    value, domain = blocks(several).conjugate_to_cvxpy(S)
    problem = cp.Problem(cp.Minimize(value + 0.5 * cp.sum_squares(S - v[:, None])), domain)
    problem.solve(**TIGHT)
    true = [float(Fraction(x) - row.prox(x, 1.0)) for row, x in zip(several, v, strict=True)]
    np.testing.assert_allclose(S.value[:, 0], true, atol=1e-5)
    at_best = sum(float(row.conjugate(p)) + 0.5 * (p - x) ** 2 for row, x, p in zip(several, v, true, strict=True))
    assert problem.value == pytest.approx(at_best, rel=1e-7)


def test_infinite_targets_become_slopes_of_zero() -> None:
    bounds = (np.array([-INF, 1.0, -INF]), np.array([2.0, INF, INF]))
    block = IntervalBlocks(**interval_arrays(3, low=-INF, high=INF, target=bounds))
    np.testing.assert_array_equal(block.value(column(-9.0, 9.0, 9.0)), 0.0)
    np.testing.assert_array_equal(block.value(column(3.0, 0.0, -9.0)), [INF, INF, 0.0])
    np.testing.assert_array_equal(block.conjugate(column(3.0, -3.0, 0.0)), [6.0, -3.0, 0.0])
    np.testing.assert_array_equal(block.conjugate(column(-3.0, 3.0, 1.0)), INF)
    np.testing.assert_array_equal(block.project_domain(column(-3.0, 3.0, 1.0)), column(0.0, 0.0, 0.0))


def test_a_factor_scales_the_function() -> None:
    arrays = {"low": -1.0, "high": 2.0, "target": (0.0, 1.0), "curvature": 0.5}
    once, thrice = (IntervalBlocks(**interval_arrays(5, coefficient=c, **arrays)) for c in (1.0, 3.0))
    T = column(-9.0, -0.1, 0.5, 1.2, 9.0)
    np.testing.assert_allclose(thrice.value(T), 3.0 * once.value(T), rtol=1e-15)
    np.testing.assert_allclose(thrice.gradient(T), 3.0 * once.gradient(T), rtol=1e-15)
    np.testing.assert_allclose(thrice.smoothness, 3.0 * once.smoothness)


def test_capabilities_and_constants() -> None:
    assert "gradient" in blocks([KINDS["huber"], KINDS["squared hinge"]]).capabilities
    assert "gradient" not in blocks([KINDS["huber"], KINDS["hinge"]]).capabilities
    np.testing.assert_array_equal(blocks([KINDS["huber"], KINDS["hinge"]]).smoothness, [2.0, INF])
    assert blocks([KINDS["wall and slope"]]).restricted
    assert not blocks([KINDS["squared hinge"]]).restricted
