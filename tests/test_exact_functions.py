"""Exact evaluation, function by function, against ball arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtvmin as gtv
from ball_arithmetic import ball, flint
from gtvmin.exact.functions import BallIndicator, Exponential, LogSumExp

weights = st.fractions(Fraction(1, 1000), 1000, max_denominator=1000)
scores = st.floats(-60, 60).map(Fraction)
shares = st.floats(1e-12, 1).map(Fraction)


def assert_enclosed(value: Any, exact: Any, size: Fraction) -> None:
    low, high = value
    assert not ball(low) > exact
    assert not ball(high) < exact
    assert high - low <= (size + abs(low)) / 2**100


# ------------------------------------------------------------------------------------------------ functions, one by one
@given(weights, st.lists(scores, min_size=1, max_size=4), st.lists(shares, min_size=4, max_size=4))
def test_log_sum_exp(weight: Fraction, t: list[Fraction], q: list[Fraction]) -> None:
    f = LogSumExp(weight, len(t))
    exact = ball(weight) * sum((ball(s).exp() for s in t), flint.arb(1)).log()
    assert_enclosed(f.value(t), exact, weight)
    p = [weight * share / (sum(q) + 1) for share in q[: len(t)]]
    assert f.excess(p) == 0
    probabilities = [ball(v / weight) for v in (*p, weight - sum(p))]
    entropy = ball(weight) * sum(v * v.log() for v in probabilities)
    conjugate = f.conjugate(p)
    assert not ball(conjugate) < entropy
    assert not ball(conjugate - weight / 2**100) > entropy
    assert f.excess([*p[:-1], p[-1] + 2 * weight]) > 0
    assert f.excess([*p[:-1], -Fraction(1, 10**40)]) == 1


@given(weights, st.floats(0, 50).map(Fraction), scores, st.floats(1e-12, 1e6).map(Fraction))
def test_exponential(weight: Fraction, target: Fraction, t: Fraction, mean: Fraction) -> None:
    f = Exponential(weight, target)
    exact = ball(weight) * (ball(t).exp() - ball(target * t))
    assert_enclosed(f.value([t]), exact, weight * (1 + abs(target * t)))
    p = [weight * (mean - target)]
    entropy = ball(weight) * (ball(mean) * ball(mean).log() - ball(mean))
    assert f.excess(p) == 0
    assert not ball(f.conjugate(p)) < entropy
    assert not ball(f.conjugate(p) - weight * (1 + mean) / 2**100) > entropy
    assert f.excess([-weight * target]) == 0
    assert f.conjugate([-weight * target]) == 0
    assert f.excess([-weight * target - Fraction(1, 10**40)]) > 0


@given(
    st.floats(0, 1e3).map(Fraction), st.lists(scores, min_size=3, max_size=3), st.lists(scores, min_size=3, max_size=3)
)
def test_support_function_of_a_ball(radius: Fraction, centre: list[Fraction], p: list[Fraction]) -> None:
    f = BallIndicator(radius, tuple(centre))
    length = sum((ball(x) ** 2 for x in p), flint.arb(0)).sqrt()
    exact = ball(radius) * length + sum((ball(x) * ball(c) for x, c in zip(p, centre, strict=True)), flint.arb(0))
    assert not ball(f.conjugate(p)) < exact
    assert not ball(f.conjugate(p) - (1 + radius) * (1 + sum(map(abs, p))) / 2**100) > exact
    on_sphere = [centre[0] + radius, *centre[1:]]
    assert f.value(on_sphere) == (0, 0)
    assert f.value([on_sphere[0] + Fraction(1, 10**40), *centre[1:]]) is None


def test_what_no_double_holds() -> None:
    """An exponential beyond all doubles has no upper bound; a tiny one is enclosed from zero on."""
    assert Exponential(Fraction(1), Fraction(2)).value([Fraction(10**6)])[1] is None  # type: ignore[index]
    low, high = Exponential(Fraction(1), Fraction(2)).value([Fraction(-(10**6))])  # type: ignore[misc]
    assert low == 2 * 10**6 < high < 2 * 10**6 + Fraction(5e-324)
    value = LogSumExp(Fraction(1), 1).value([Fraction(-(10**6))])
    assert value is not None
    assert 0 == value[0] < value[1] < Fraction(5e-324)


# ------------------------------------------------------------------------------------------------------------- balls
@pytest.mark.parametrize("a", [(3.0, 4.0), (1.0, 2.0), (0.1, 0.2)])
def test_the_nearest_point_of_a_ball(a: tuple[float, float]) -> None:
    """``||w - a||^2`` over the unit ball is least at ``a / ||a||``: ``(||a|| - 1)^2``, or zero inside."""
    loss = gtv.SquaredDistance(a) + gtv.Ball(1.0)
    problem = gtv.GTVMin(nx.path_graph(2), [loss, loss], penalty=gtv.Norm(2), alpha=1.0)
    length = (ball(a[0]) ** 2 + ball(a[1]) ** 2).sqrt()
    optimum = 2 * (length - 1) ** 2 if length > 1 else flint.arb(0)
    W = np.array([a, a]) / max(1.0, np.hypot(*a)) * (1.0 - 2.0**-52)
    dual = 2.0 * (np.array([a, a]) - W)
    certificate = gtv.certify(problem, W, duals=(np.zeros((1, 2)), dual), rigorous=True)
    value = sum((ball(x) - ball(y)) ** 2 for x, y in zip(W.ravel(), [*a, *a], strict=True))
    assert not ball(certificate.gap) < value - optimum
    assert not ball(certificate.dual) > optimum
    assert certificate.gap < 1e-14


def test_a_point_outside_a_ball_by_rounding_is_outside() -> None:
    loss = gtv.SquaredDistance([3.0, 3.0]) + gtv.Ball(1.0)
    problem = gtv.GTVMin(nx.path_graph(2), [loss, loss], penalty=gtv.Norm(2), alpha=1.0)
    W = np.full((2, 2), np.nextafter(np.sqrt(0.5), 1.0))
    assert Fraction(W[0, 0]) ** 2 > Fraction(1, 2)
    duals = (np.zeros((1, 2)), 2.0 * (3.0 - W))
    assert np.isfinite(gtv.certify(problem, W, duals=duals).gap)
    assert gtv.certify(problem, W, duals=duals, rigorous=True).gap == np.inf
    assert gtv.certify(problem, W * (1.0 - 2.0**-51), duals=duals, rigorous=True).gap < 1e-14
