"""Penalties against CVXPY, closed forms and the properties of norms, their balls and their projections."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gtvmin.losses.interval import IntervalBlocks
from gtvmin.penalties import (
    FlowCost,
    HuberPenalty,
    Norm,
    Penalty,
    SquaredNorm,
)
from models import penalty_expression
from penalty_cases import DIFFERENCES, PENALTIES

Array = np.ndarray[Any, np.dtype[np.float64]]
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}

NORMS = {1: np.inf, 2: 2, np.inf: 1}
"""Orders of the norms and of their dual norms."""
POINTS = [np.array(p) for p in ([0.0, 0.0, 0.0], [2.0, -0.5, 0.1], [0.2, 0.2, -0.2], [-3.0, 3.0, 0.0])]


def expected(penalty: Penalty, z: Array) -> float:
    """Value of a penalty by its definition; that of Huber in closed form, without the auxiliary variable."""
    if isinstance(penalty, HuberPenalty):
        size = float(np.linalg.norm(z))
        return size**2 / (2 * penalty.delta) if size <= penalty.delta else size - penalty.delta / 2
    return float(penalty_expression(penalty, cp.Constant(z)).value)


def row_norms(V: Array, p: float) -> Array:
    return np.array([float(np.linalg.norm(v, p)) for v in V])


# Rows of a stack: many directions, lengths from 1e-8 to 1e8, ties and zeros among their entries.
entries = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.integers(-10_000, 10_000).map(lambda k: k / 1000))


@st.composite
def stacks(draw: st.DrawFn, spread: int = 8) -> tuple[int, int, Array, Array]:
    """Numbers of rows and columns, strengths and rows."""
    m, dim = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    strengths = draw(arrays(float, m, elements=st.integers(1, 500).map(lambda k: k / 100)))
    rows = draw(arrays(float, (m, dim), elements=entries))
    return (
        m,
        dim,
        strengths * 10.0 ** draw(st.integers(-spread, spread)),
        rows * 10.0 ** draw(st.integers(-spread, spread)),
    )


# Value, prox and conjugate against CVXPY
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("z", POINTS)
def test_value(penalty: Penalty, z: Array) -> None:
    assert penalty.value(z) == pytest.approx(expected(penalty, z), rel=1e-12)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("v", POINTS)
@pytest.mark.parametrize("step", [0.3, 2.0])
def test_prox_is_the_minimiser_that_cvxpy_finds(penalty: Penalty, v: Array, step: float) -> None:
    z = cp.Variable(3)
    cp.Problem(cp.Minimize(penalty_expression(penalty, z) + cp.sum_squares(z - v) / (2 * step))).solve(**TIGHT)
    np.testing.assert_allclose(penalty.prox(v, step), z.value, atol=2e-5)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("u", POINTS)
def test_conjugate_is_the_supremum_that_cvxpy_finds(penalty: Penalty, u: Array) -> None:
    z = cp.Variable(3)
    problem = cp.Problem(cp.Maximize(u @ z - penalty_expression(penalty, z)))
    supremum = problem.solve(solver="CLARABEL")
    if problem.status == "unbounded":
        assert penalty.conjugate(u) == np.inf
    else:
        assert penalty.conjugate(u) == pytest.approx(supremum, abs=1e-7)


@pytest.mark.parametrize("penalty", DIFFERENCES, ids=repr)
@pytest.mark.parametrize("dim", [1, 3])
def test_stack_agrees_with_cvxpy(penalty: Penalty, dim: int) -> None:
    """Expressions of the stack: the penalty in other units, its conjugate by ``g(z) = sup_u <u, z> - g^*(u)``."""
    strengths = np.array([0.5, 2.0, 1.0, 3.0])
    block = penalty.stack(strengths, dim)
    Z = np.random.default_rng(1).standard_normal((4, dim))
    values = [a * expected(penalty, z) for a, z in zip(strengths, Z, strict=True)]
    np.testing.assert_allclose(block.value(Z), values, rtol=1e-13)
    variable = cp.Variable((4, dim))
    variable.value = Z / 8.0
    assert block.to_cvxpy(variable, unit=8.0, factor=0.1).value == pytest.approx(0.1 * sum(values), rel=1e-12)
    conjugate, conditions = block.conjugate_to_cvxpy(variable)
    biconjugate = cp.Problem(cp.Maximize(cp.sum(cp.multiply(Z, variable)) - conjugate), conditions).solve(**TIGHT)
    assert biconjugate == pytest.approx(sum(values), rel=1e-8)


@pytest.mark.parametrize("penalty", DIFFERENCES, ids=repr)
@pytest.mark.parametrize("step", [0.3, 4.0])
def test_moreau_identity(penalty: Penalty, step: float) -> None:
    """``v = prox_{step g}(v) + step prox_{g^* / step}(v / step)``, the second prox being found by CVXPY."""
    strengths = np.array([0.5, 2.0, 1.0, 0.1])
    block, V = penalty.stack(strengths, 3), np.stack(POINTS)
    U = cp.Variable((4, 3))
    conjugate, conditions = block.conjugate_to_cvxpy(U)
    cp.Problem(cp.Minimize(conjugate + step / 2 * cp.sum_squares(U - V / step)), conditions).solve(**TIGHT)
    steps = np.full(4, step)
    np.testing.assert_allclose(block.prox(V, steps) + step * U.value, V, atol=2e-5)
    np.testing.assert_allclose(block.conjugate_prox_operator(1 / steps)(V / step), U.value, atol=2e-5)


def test_prox_of_norm_and_of_squared_norm() -> None:
    """C44 (FedDR issue #1): v = (3, 4), step 1; half the squared norm is the squared norm with half the step."""
    assert SquaredNorm().prox([3.0, 4.0], 0.5).tolist() == [1.5, 2.0]
    np.testing.assert_allclose(Norm(2).prox([3.0, 4.0], 1.0), [2.4, 3.2], rtol=1e-15)
    np.testing.assert_allclose(Norm(1).prox([3.0, 4.0], 1.0), [2.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(Norm("inf").prox([3.0, 4.0], 1.0), [3.0, 3.0], rtol=1e-15)


# Norms
@given(stacks(), st.sampled_from(list(NORMS)))
def test_prox_of_a_norm_satisfies_its_optimality_condition(stack: Any, p: float) -> None:
    """``u = (v - z) / step`` is a subgradient at z: in the dual ball, and ``<u, z> = a ||z||``."""
    m, dim, a, V = stack
    block, step = Norm(p).stack(a, dim), np.geomspace(1e-3, 1e3, m)
    Z = block.prox(V, step)
    moved, size = V - Z, np.abs(V).sum(axis=1)
    assert (row_norms(moved, NORMS[p]) <= a * step * (1 + 1e-14) + 1e-14 * size).all()
    np.testing.assert_array_less(np.abs((moved * Z).sum(axis=1) - a * step * row_norms(Z, p)), 1e-13 * size**2 + 1e-300)
    inside = row_norms(V, NORMS[p]) <= a * step * (1 - 1e-14)
    assert (Z[inside] == 0).all()


@given(stacks(), st.sampled_from(list(NORMS)), st.data())
def test_projection_onto_the_dual_ball(stack: Any, p: float, data: st.DataObject) -> None:
    """Inside, unmoved if it was inside, and ``<v - proj v, q - proj v> <= 0`` for every point q of the ball."""
    m, dim, a, V = stack
    block = Norm(p).stack(a, dim)
    projected = block.project_domain(V)
    np.testing.assert_array_less(row_norms(projected, NORMS[p]), a * (1 + 1e-14))
    inside = row_norms(V, NORMS[p]) <= a * (1 - 1e-15)
    np.testing.assert_array_equal(projected[inside], V[inside])
    np.testing.assert_allclose(block.project_domain(projected), projected, rtol=1e-14, atol=1e-15 * a.min())
    point = data.draw(arrays(float, (m, dim), elements=entries))
    lengths = row_norms(point, NORMS[p])
    Q = point * (a / np.where(lengths > 0, lengths, 1.0))[:, None]
    product = ((V - projected) * (Q - projected)).sum(axis=1)
    assert (product <= 1e-13 * a * (np.abs(V).sum(axis=1) + a)).all()
    conjugate_prox = block.conjugate_prox_operator(np.full(m, 7.0))(V)
    np.testing.assert_allclose(conjugate_prox, projected, rtol=1e-13, atol=1e-14 * a.min())


@given(stacks(), st.sampled_from(list(NORMS)))
def test_gauge_of_the_dual_ball(stack: Any, p: float) -> None:
    _, dim, a, V = stack
    block = Norm(p).stack(a, dim)
    gauge = block.dual_gauge(V)
    np.testing.assert_allclose(gauge, row_norms(V, NORMS[p]) / a, rtol=1e-14)
    nonzero = gauge > 0
    on_boundary = np.where(nonzero[:, None], V / np.where(nonzero, gauge, 1.0)[:, None], V)
    assert (block.conjugate((1 - 1e-14) * on_boundary) == 0).all()
    assert (block.conjugate((1 + 1e-14) * on_boundary)[nonzero] == np.inf).all()
    assert (block.project_dual(V) == V).all()
    assert block.full_span.all()


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-8, 1e8, 1e200])
def test_norms_neither_underflow_nor_overflow(p: float, size: float) -> None:
    z = np.array([3.0, -4.0, 0.0])
    penalty = Norm(p)
    assert penalty.value(size * z) == pytest.approx(size * np.linalg.norm(z, p), rel=1e-14)
    np.testing.assert_allclose(penalty.prox(size * z, step=size), size * penalty.prox(z, step=1.0), rtol=1e-13)
    projected = penalty.stack(np.full(1, size), 3).project_domain(size * z[None])[0]
    np.testing.assert_allclose(projected, size * (z - penalty.prox(z)), rtol=1e-13, atol=1e-13 * size)


def test_a_small_radius_is_not_lost_beside_large_entries() -> None:
    block = Norm(np.inf).stack(np.full(3, 1e-8), 3)
    V = np.array([[1e8, 3.0, -5.0], [1e8, 1e8, 0.0], [1e8, 1e8 + 1.5e-8, -1.0]])
    np.testing.assert_allclose(block.project_domain(V)[:2], [[1e-8, 0, 0], [5e-9, 5e-9, 0]], rtol=1e-14)
    assert (block.dual_gauge(block.project_domain(V)) <= 1 + 1e-14).all()


@given(stacks(spread=0), st.sampled_from(list(NORMS)), st.data())
def test_dual_metric_is_positive_definite_and_keeps_flows_in_their_balls(stack: Any, p: float, data: Any) -> None:
    m, dim, a, V = stack
    block, floor = Norm(p).stack(a, dim), 1e-3
    U = block.project_domain(V)
    apply = block.dual_metric(U, floor)
    basis = np.eye(dim)
    M = np.stack([apply(np.tile(e, (m, 1))) for e in basis], axis=2)  # columns M_i e_j
    np.testing.assert_allclose(M, np.swapaxes(M, 1, 2), atol=1e-14)
    eigenvalues = np.linalg.eigvalsh(M)
    assert (eigenvalues > 0.5 * floor).all()
    assert (eigenvalues < 1 + 1e-12).all()
    Z = data.draw(arrays(float, (m, dim), elements=entries))
    np.testing.assert_allclose(apply(Z), np.einsum("ijk,ik->ij", M, Z), atol=1e-12)
    at_zero = block.dual_metric(np.zeros((m, dim)), floor)
    np.testing.assert_array_equal(at_zero(Z), Z)
    for row, u, radius in zip(M, U, a, strict=True):
        if np.linalg.norm(u, NORMS[p]) > radius * (1 - 1e-12) and p == 2:
            np.testing.assert_allclose(row @ u, floor * u, rtol=1e-9)


# Fenchel-Young
def subgradient(penalty: Penalty, z: Array) -> Array:
    """A subgradient of the penalty at z."""
    if isinstance(penalty, SquaredNorm):
        return 2 * z
    if penalty.p == 1:
        return np.sign(z)
    if penalty.p == 2:
        return z / np.hypot.reduce(z) if z.any() else z
    return np.sign(z) * (np.arange(len(z)) == np.abs(z).argmax())


@given(stacks(), st.sampled_from(DIFFERENCES[:4]), st.data())
def test_fenchel_young(stack: Any, penalty: Penalty, data: st.DataObject) -> None:
    """``g(z) + g^*(u) >= <u, z>``, with equality for a subgradient u."""
    m, dim, a, Z = stack
    block = penalty.stack(a, dim)
    U = (1 - 1e-15) * block.project_domain(a[:, None] * data.draw(arrays(float, (m, dim), elements=entries)))
    term = block.fenchel_young(Z, U)
    parts = [block.value(Z), block.conjugate(U), -(U * Z).sum(axis=1)]
    assert (term >= 0).all()
    assert (np.abs(term - sum(parts)) <= 1e-13 * sum(np.abs(part) for part in parts)).all()
    optimal = np.array([strength * subgradient(penalty, z) for strength, z in zip(a, Z, strict=True)])
    assert (block.fenchel_young(Z, (1 - 1e-15) * optimal) <= 1e-13 * block.value(Z)).all()


@given(stacks(), st.data())
def test_flows_outside_the_domain_have_no_finite_conjugate(stack: Any, data: st.DataObject) -> None:
    m, dim, a, Z = stack
    for p, dual in NORMS.items():
        block = Norm(p).stack(a, dim)
        U = data.draw(arrays(float, (m, dim), elements=entries))
        U[:, 0] += np.where(U[:, 0] < 0, -1.0, 1.0)  # not zero
        U *= (1.01 * a / row_norms(U, dual))[:, None]
        assert (block.conjugate(U) == np.inf).all()
        assert (block.fenchel_young(Z, U) == np.inf).all()


# The squared norm
@given(stacks(), st.integers(-8, 8))
def test_squared_norm(stack: Any, exponent: int) -> None:
    """Closed forms: gradient ``2 a z``, prox ``v / (1 + 2 a step)``, conjugate ``||u||^2 / (4 a)``."""
    m, dim, a, Z = stack
    block, step = SquaredNorm().stack(a, dim), np.full(m, 10.0**exponent)
    np.testing.assert_allclose(block.gradient(Z), 2 * a[:, None] * Z, rtol=1e-15)
    P = block.prox(Z, step)
    np.testing.assert_allclose(P + step[:, None] * 2 * a[:, None] * P, Z, rtol=1e-14)
    moved = block.conjugate_prox_operator(step)(Z)
    np.testing.assert_allclose(moved + step[:, None] * moved / (2 * a[:, None]), Z, rtol=1e-14)
    np.testing.assert_allclose(block.conjugate(2 * a[:, None] * Z), block.value(Z), rtol=1e-13)
    assert block.strong_convexity.tolist() == block.smoothness.tolist() == (2 * a).tolist()
    hessian, linear = block.quadratic()
    np.testing.assert_array_equal(hessian[:, 0, 0], 2 * a)
    assert not linear.any()
    assert (block.dual_gauge(Z) == 0).all()
    assert (block.project_domain(Z) == Z).all()


def test_norms_are_not_smooth() -> None:
    block = Norm(2).stack(np.ones(2), 3)
    assert not block.strong_convexity.any()
    assert np.isinf(block.smoothness).all()
    with pytest.raises(NotImplementedError):
        block.gradient(np.ones((2, 3)))


# Huber and flow costs
@given(stacks(spread=3), st.data())
def test_huber_optimality_and_fenchel_young(stack: Any, data: st.DataObject) -> None:
    """The prox satisfies ``v - z = step grad(z)``; Fenchel-Young sums are those of value, conjugate and product."""
    m, dim, a, V = stack
    knee = data.draw(arrays(float, m, elements=st.integers(1, 500).map(lambda k: k / 100)))
    block = HuberPenalty(1.0).stack(a, dim)
    block.knee[:] = knee
    step = np.geomspace(1e-2, 1e2, m)
    Z = block.prox(V, step)
    size = np.linalg.norm(Z, axis=1)
    gradient = (a / np.maximum(size, knee))[:, None] * Z
    np.testing.assert_allclose(Z + step[:, None] * gradient, V, rtol=1e-10, atol=1e-12 * (1 + np.abs(V).max()))
    np.testing.assert_allclose(block.gradient(Z), gradient, rtol=1e-13)
    assert block.smoothness.tolist() == (a / knee).tolist()
    U = block.project_domain(data.draw(arrays(float, (m, dim), elements=entries)))
    U *= 1 - 1e-15
    terms = block.fenchel_young(V, U)
    direct = block.value(V) + block.conjugate(U) - (U * V).sum(axis=1)
    assert (terms >= 0).all()
    np.testing.assert_allclose(terms, direct, rtol=1e-9, atol=1e-12 * (1 + a.max() * np.abs(V).max()))
    at_gradient = block.fenchel_young(V, (1 - 1e-15) * block.gradient(V))
    assert (at_gradient <= 1e-12 * (block.value(V) + 1e-300)).all()
    outside = (1 + 1e-9) * a[:, None] * np.eye(dim)[:1]
    assert np.isinf(block.conjugate(outside)).all()
    assert np.isinf(block.fenchel_young(V, outside)).all()
    np.testing.assert_allclose(block.dual_gauge(outside), 1 + 1e-9, rtol=1e-12)


def test_huber_is_the_envelope_of_the_norm() -> None:
    """``min_v ||v|| + ||z - v||^2 / (2 delta)``, attained at the norm's prox."""
    z = np.array([0.3, -2.0, 1.1])
    for delta in (0.1, 2.0, 10.0):
        near = Norm(2).prox(z, delta)
        envelope = np.linalg.norm(near) + np.sum((z - near) ** 2) / (2 * delta)
        assert HuberPenalty(delta).value(z) == pytest.approx(envelope, rel=1e-14)


@given(stacks(spread=0), st.data())
def test_flow_cost_in_stacks(stack: Any, data: st.DataObject) -> None:
    """Every coordinate of every edge by itself: sums of the scalar function, boxes for the flows."""
    m, dim, a, Z = stack
    number = st.integers(0, 300).map(lambda k: k / 100)
    cost, back_cost, capacity, back = (data.draw(arrays(float, m, elements=number)) for _ in range(4))
    block = FlowCost(cost, capacity, back_cost, back).stack(a, dim)
    c, b, high, low = (part[:, None] for part in (cost, back_cost, a * capacity, a * back))
    value = high * np.maximum(Z - c, 0) + low * np.maximum(-Z - b, 0)
    np.testing.assert_allclose(block.value(Z), value.sum(axis=1), rtol=1e-12, atol=1e-13)
    U = data.draw(arrays(float, (m, dim), elements=entries))
    inside = ((-low <= U) & (high >= U)).all(axis=1)
    price = (np.maximum(U, 0) * c + np.maximum(-U, 0) * b).sum(axis=1)
    np.testing.assert_allclose(block.conjugate(U), np.where(inside, price, np.inf), rtol=1e-12)
    clipped = block.project_domain(U)
    np.testing.assert_array_equal(clipped, np.clip(U, -low, high))
    assert (block.dual_gauge(clipped) <= 1).all()
    assert (block.dual_gauge(U)[~inside] > 1).all()
    steps = np.full(m, 0.7)
    moved = block.prox(Z, steps)
    pulled = block.conjugate_prox_operator(1 / steps)(Z / 0.7)
    np.testing.assert_allclose(moved + 0.7 * pulled, Z, atol=1e-12)
    terms = block.fenchel_young(Z, clipped)
    direct = block.value(Z) + block.conjugate(clipped) - (clipped * Z).sum(axis=1)
    np.testing.assert_allclose(terms, direct, atol=1e-10)
    assert (block.fenchel_young(moved, pulled) <= 1e-10).all()
    assert isinstance(block._coordinates, IntervalBlocks)


def test_flow_cost_by_hand() -> None:
    """C35-like arc: nothing up to the cost, then the capacity; the way back has its own."""
    arc = FlowCost(2.0, 3.0, 1.0, 5.0)
    assert [arc.value([z]) for z in (-2.0, -1.0, 0.0, 2.0, 4.0)] == [5.0, 0.0, 0.0, 0.0, 6.0]
    assert [arc.conjugate([u]) for u in (-6.0, -5.0, -1.0, 0.0, 1.0, 3.0, 3.1)] == [np.inf, 5, 1, 0, 2, 6, np.inf]
    assert arc.reversed() == FlowCost(1.0, 5.0, 2.0, 3.0)
    assert arc.reversed().value([4.0]) == arc.value([-4.0])
    assert FlowCost(2.0, 3.0).reversed().value([1.0]) == FlowCost(2.0, 3.0).value([-1.0])
    assert FlowCost(2.0, 3.0).value([3.0, -3.0]) == 6.0
