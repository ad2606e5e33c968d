"""Parameters are judged inside the domain of their losses: projections against CVXPY, and what certificates say."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.domain import Domain, domain_violation
from gtvmin.monitor import GapMonitor
from gtvmin.solvers.standard_form import Point

Array = np.ndarray[Any, Any]
INF = float("inf")
EPS = float(np.finfo(float).eps)
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12}

A2 = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
SETS: dict[str, tuple[gtv.Loss, Any]] = {
    "box": (gtv.Box(-1.0, [1.0, 0.5, INF]), lambda w: [w >= -1, w[0] <= 1, w[1] <= 0.5]),
    "non-negative": (gtv.NonNegative(), lambda w: [w >= 0]),
    "simplex": (gtv.Simplex(2.0), lambda w: [w >= 0, cp.sum(w) == 2]),
    "one equation": (gtv.Affine([[1.0, -2.0, 3.0]], [0.3]), lambda w: [w[0] - 2 * w[1] + 3 * w[2] == 0.3]),
    "two equations": (gtv.Affine(A2, [0.7, -0.1]), lambda w: [A2 @ w == [0.7, -0.1]]),
    "a repeated equation": (
        gtv.Affine([[0.1, 0.2, 0.3], [0.3, 0.6, 0.9]], [0.1, 0.3]),
        lambda w: [0.1 * w[0] + 0.2 * w[1] + 0.3 * w[2] == 0.1],
    ),
    "capped simplex": (gtv.Simplex() + gtv.Box(0.1, 0.6), lambda w: [w >= 0.1, w <= 0.6, cp.sum(w) == 1]),
    "simplex and equation": (
        gtv.Simplex() + gtv.Affine([[1.0, -1.0, 0.0]], [0.2]),
        lambda w: [w >= 0, cp.sum(w) == 1, w[0] - w[1] == 0.2],
    ),
    "non-negative and two equations": (
        gtv.NonNegative() + gtv.Affine(A2, [0.7, 0.1]),
        lambda w: [w >= 0, A2 @ w == [0.7, 0.1]],
    ),
    "ball": (gtv.Ball(0.5, [1.0, 0.0, 0.0]), lambda w: [cp.norm(w - np.array([1.0, 0.0, 0.0])) <= 0.5]),
}


def problem_with(loss: gtv.Loss, n: int = 4) -> gtv.GTVMin:
    losses = [gtv.SquaredDistance(np.full(3, float(i))) + loss for i in range(n)]
    return gtv.GTVMin(nx.path_graph(n), losses, penalty=gtv.Norm(2), alpha=0.1)


def nearest(v: Array, constraints: Any) -> Array:
    w = cp.Variable(len(v))
    cp.Problem(cp.Minimize(cp.sum_squares(w - v)), constraints(w)).solve(**TIGHT)
    return np.asarray(w.value)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_projection(name: str, size: float) -> None:
    loss, constraints = SETS[name]
    problem = problem_with(loss, 12)
    form = problem.lowered.form
    W = size * np.random.default_rng(1).standard_normal((12, 3))
    projected = Domain(form).project(W)
    assert np.isfinite(form.objective(projected))
    assert not domain_violation(form, projected).any()
    for v, found in zip(W, projected, strict=True):
        np.testing.assert_allclose(found, nearest(v, constraints), atol=1e-6 * size)


@pytest.mark.parametrize("name", SETS)
def test_projection_of_almost_feasible_points(name: str) -> None:
    """What a solver leaves of the constraints is tiny, and so must be what the projection changes."""
    form = problem_with(SETS[name][0], 12).lowered.form
    domain, rng = Domain(form), np.random.default_rng(2)
    inside = domain.project(3.0 * rng.standard_normal((12, 3)))
    for size in (1e-6, 1e-12, 1e-15):
        noise = size * rng.standard_normal((12, 3))
        again = domain.project(inside + noise)
        assert np.isfinite(form.objective(again))
        assert np.abs(again - inside).max() <= 40 * size
    np.testing.assert_array_equal(domain.project(inside), inside)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=6).flatmap(
        lambda v: st.tuples(
            st.just(v), *(st.lists(st.floats(-3, 3), min_size=len(v), max_size=len(v)) for _ in range(3))
        )
    ),
    st.floats(-5, 5),
)
@settings(max_examples=150)
def test_projection_onto_a_box_and_a_row(vectors: tuple[list[float], ...], share: float) -> None:
    """Its optimality conditions: ``w = clip(v + mu a, low, high)`` for one number mu."""
    v, a, ends, other = (np.array(part) for part in vectors)
    a = np.where(np.abs(a) < 1e-3, 0.0, a)
    low, high = np.minimum(ends, other), np.maximum(ends, other)
    inner = low + np.clip(share, 0, 1) * (high - low)
    if np.count_nonzero(a) < 2:
        return
    b = float(a @ inner)
    loss = gtv.Box(low, high) + gtv.Affine(a[None, :], [b])
    problem = gtv.GTVMin(nx.path_graph(1), [loss], penalty=gtv.Norm(2), alpha=0.0)
    w = Domain(problem.lowered.form).project(v[None, :])[0]
    assert ((low <= w) & (w <= high)).all()
    assert abs(float(sum(Fraction(x) * Fraction(y) for x, y in zip(a, w, strict=True)) - Fraction(b))) <= 1e-12
    # strictly inside, all coordinates give the same mu; at a bound they would go beyond it
    used = a != 0
    np.testing.assert_array_equal(w[~used], np.clip(v, low, high)[~used])
    free = used & (w > low) & (w < high)
    mu = (w - v)[used] / a[used]
    if free.any():
        middle = np.median(((w - v) / np.where(used, a, 1.0))[free])
        wanted = np.clip(v + middle * a, low, high)
        np.testing.assert_allclose(w, wanted, atol=1e-6 * (1 + np.abs(v).max()))
    else:
        assert np.isfinite(mu).all()


def test_devices_without_constraints_stay_as_they_are() -> None:
    losses = [gtv.SquaredDistance([0.0, 0.0]), gtv.SquaredDistance([0.0, 0.0]) + gtv.Simplex()]
    form = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.Norm(2), alpha=0.1).lowered.form
    W = np.array([[-3.0, 7.0], [0.5, 0.75]])
    projected = Domain(form).project(W)
    np.testing.assert_array_equal(projected[0], W[0])
    np.testing.assert_allclose(projected[1], [0.375, 0.625])
    free = gtv.GTVMin(nx.path_graph(2), losses[:1] * 2, penalty=gtv.Norm(2), alpha=0.1).lowered.form
    assert Domain(free).project(W) is W


def test_an_empty_domain_stays_infinite() -> None:
    problem = problem_with(gtv.NonNegative() + gtv.Affine([[1.0, 1.0, 1.0]], [-1.0]))
    form = problem.lowered.form
    assert form.objective(Domain(form).project(np.ones((4, 3)))) == INF


def test_the_monitor_judges_feasible_parameters() -> None:
    problem = problem_with(gtv.Simplex())
    W = np.full((4, 3), 1 / 3) + 1e-9
    assert problem.objective(W) == INF
    assessment = GapMonitor(problem.lowered.form, 1e-6)(Point(W), 1)
    assert np.isfinite(assessment.primal)
    assert problem.objective(assessment.point.W) == assessment.primal


# what certificates say


def test_certify_moves_nothing() -> None:
    """Parameters outside by more than rounding have an infinite objective, and the certificate names the device."""
    problem = problem_with(gtv.NonNegative())
    solution = problem.solve()
    W = solution.weights.copy()
    W[2, 1] = -1e-12
    certificate = gtv.certify(problem, W, solution.flows)
    assert certificate.primal == certificate.gap == certificate.relative_gap == INF
    assert not certificate.holds(1e300)
    assert certificate.per_node[2] == INF
    assert np.isfinite(np.delete(certificate.per_node, 2)).all()
    np.testing.assert_array_equal(certificate.violation, [0, 0, 1e-12, 0])
    assert "node 2" in str(certificate)
    assert "outside" in str(certificate)
    assert np.isfinite(certificate.dual)
    assert certificate.dual <= solution.objective * (1 + 1e-12)
    np.testing.assert_array_equal(certificate.W, W)


def test_certificates_of_infeasible_parameters_are_saved(tmp_path: Any) -> None:
    problem = problem_with(gtv.NonNegative())
    certificate = gtv.certify(problem, -np.ones((4, 3)))
    assert certificate.gap == INF
    loaded = gtv.load_certificate(certificate.save(tmp_path / "c.json"), problem)
    assert loaded.gap == INF


@pytest.mark.parametrize("name", [name for name in SETS if "box" not in name])
def test_solutions_are_certified_beyond_the_default(name: str) -> None:
    certificate = problem_with(SETS[name][0]).solve(gap=1e-8).certificate
    assert certificate.holds(1e-8)
    assert not certificate.violation.any()


def test_rounding_of_equations_is_charged() -> None:
    """Parameters off a hyperplane by their own rounding pass; what that may cost, by the dual, is in ``rounding``."""
    dim, rng = 40, np.random.default_rng(3)
    row = np.tile([1.0, -1.0], dim // 2)
    points = 1e3 * rng.standard_normal((3, dim))
    losses = [gtv.SquaredDistance(point) + gtv.Affine([row], [0.0]) for point in points]
    problem = gtv.GTVMin(nx.path_graph(3), losses, penalty=gtv.SquaredNorm(), alpha=1e-3)
    certificate = problem.solve(gap=1e-9).certificate
    residuals = [float(sum(Fraction(a) * Fraction(x) for a, x in zip(row, w, strict=True))) for w in certificate.W]
    prices = np.abs(certificate.duals[1][:, 0]) * np.abs(residuals)
    assert 0 < prices.sum() <= certificate.rounding
    assert certificate.rounding <= 1e-10 * certificate.primal


def test_rounding_is_relative_to_the_row_itself() -> None:
    """``w_0 - w_1 = 0`` at w = 1e-9 (1, 1 + 1e-6) is violated, although by 1e-15 only."""
    loss = gtv.SquaredDistance([0.0, 0.0]) + gtv.Affine([[1.0, -1.0]], [0.0])
    problem = gtv.GTVMin(nx.path_graph(1), [loss], penalty=gtv.Norm(2), alpha=0.0)
    assert problem.objective(1e-9 * np.array([[1.0, 1.0 + 1e-6]])) == INF
    assert problem.objective(1e-9 * np.array([[1.0, 1.0 + EPS]])) < INF


@pytest.mark.parametrize("method", ["adaptive_primal_dual", "cvxpy"])
@pytest.mark.parametrize("name", SETS)
def test_solutions_are_feasible(name: str, method: str) -> None:
    problem = problem_with(SETS[name][0])
    solution = problem.solve(method=method)
    assert solution.is_certified
    assert np.isfinite(problem.objective(solution.weights))
    if "non-negative" in name or "simplex" in name:
        assert (solution.weights >= 0).all()
    if name == "box":
        assert (solution.weights >= -1).all()
        assert (solution.weights <= [1.0, 0.5, INF]).all()
