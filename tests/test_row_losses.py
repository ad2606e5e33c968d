"""Losses of rows, quadratic forms and indicators: formulas, CVXPY, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.losses.stacking import split_losses, stack_losses
from row_loss_data import DIM, INF, RNG, TIGHT, Array, X

Y = X @ [1.0, -2.0, 0.5] + RNG.standard_normal(7)
SIGNS = np.where(RNG.random(7) < 0.5, -1.0, 1.0)
FACTOR = RNG.standard_normal((2, DIM))
Q = FACTOR.T @ FACTOR
POINT = np.array([0.5, -1.0, 2.0])
LOW, HIGH = np.array([-1.0, -INF, 0.25]), np.array([1.0, 2.0, INF])
A = np.array([[1.0, 2.0, -1.0], [0.0, 1.0, 4.0]])
B = np.array([2.0, -1.0])


def inside(condition: Any) -> float:
    return 0.0 if np.all(condition) else INF


@dataclass(frozen=True)
class Case:
    """A loss, the same as a formula and as a CVXPY expression with constraints, and what is known of it."""

    loss: gtv.Loss
    formula: Callable[[Array], Any]
    expression: Callable[[Any], Any]
    domain: Callable[[Any], list[Any]] = field(default=lambda w: [])
    smooth: bool = False
    strong: bool = False
    feasible: Array | None = None


CASES = {
    "quadratic": Case(
        gtv.Quadratic(Q, POINT, 3.0),
        lambda w: 0.5 * w @ Q @ w + POINT @ w + 3.0,
        lambda w: 0.5 * cp.sum_squares(FACTOR @ w) + POINT @ w + 3.0,
        smooth=True,
    ),
    "squared distance": Case(
        gtv.SquaredDistance(POINT),
        lambda w: ((w - POINT) ** 2).sum(),
        lambda w: cp.sum_squares(w - POINT),
        smooth=True,
        strong=True,
    ),
    "squared distance with factors": Case(
        gtv.SquaredDistance(1.5, penalise=[1, 0, 2]),
        lambda w: (w[0] - 1.5) ** 2 + 2 * (w[2] - 1.5) ** 2,
        lambda w: cp.square(w[0] - 1.5) + 2 * cp.square(w[2] - 1.5),
        smooth=True,
    ),
    "linear": Case(gtv.Linear(POINT), lambda w: POINT @ w, lambda w: POINT @ w, smooth=True),
    "l1": Case(gtv.L1(), lambda w: np.abs(w).sum(), lambda w: cp.norm(w, 1)),
    "l1 with factors": Case(
        gtv.L1([0, 1, 3]), lambda w: abs(w[1]) + 3 * abs(w[2]), lambda w: cp.abs(w[1]) + 3 * cp.abs(w[2])
    ),
    "elastic net": Case(
        gtv.ElasticNet(0.3, 0.2),
        lambda w: 0.3 * np.abs(w).sum() + 0.2 * (w**2).sum(),
        lambda w: 0.3 * cp.norm(w, 1) + 0.2 * cp.sum_squares(w),
        strong=True,
    ),
    "huber": Case(
        gtv.Huber(X, Y, delta=0.6),
        lambda w: np.mean([t**2 if abs(t) <= 0.6 else 0.6 * (2 * abs(t) - 0.6) for t in Y - X @ w]),
        lambda w: cp.sum(cp.huber(Y - X @ w, 0.6)) / 7,
        smooth=True,
    ),
    "least absolute": Case(
        gtv.LeastAbsolute(X, Y), lambda w: np.abs(Y - X @ w).mean(), lambda w: cp.norm(Y - X @ w, 1) / 7
    ),
    "quantile": Case(
        gtv.Quantile(X, Y, tau=0.8),
        lambda w: np.mean([0.8 * t if t > 0 else -0.2 * t for t in Y - X @ w]),
        lambda w: cp.sum(cp.maximum(0.8 * (Y - X @ w), -0.2 * (Y - X @ w))) / 7,
    ),
    "hinge": Case(
        gtv.Hinge(X, SIGNS),
        lambda w: np.maximum(0, 1 - SIGNS * (X @ w)).mean(),
        lambda w: cp.sum(cp.pos(1 - cp.multiply(SIGNS, X @ w))) / 7,
    ),
    "squared hinge": Case(
        gtv.SquaredHinge(X, SIGNS, scale="sum"),
        lambda w: (np.maximum(0, 1 - SIGNS * (X @ w)) ** 2).sum(),
        lambda w: cp.sum_squares(cp.pos(1 - cp.multiply(SIGNS, X @ w))),
        smooth=True,
    ),
    "non-negative": Case(
        gtv.NonNegative(), lambda w: inside(w >= 0), lambda w: 0.0, lambda w: [w >= 0], feasible=np.array([0, 1.0, 3.0])
    ),
    "box": Case(
        gtv.Box(LOW, HIGH),
        lambda w: inside((w >= LOW) & (w <= HIGH)),
        lambda w: 0.0,
        lambda w: [w[0] >= -1, w[2] >= 0.25, w[:2] <= HIGH[:2]],
        feasible=np.array([-1.0, -50.0, 0.25]),
    ),
    "simplex": Case(
        gtv.Simplex(2.0),
        lambda w: inside([*(w >= 0), w.sum() == 2.0]),
        lambda w: 0.0,
        lambda w: [w >= 0, cp.sum(w) == 2.0],
        feasible=np.array([0.5, 0.0, 1.5]),
    ),
    "affine": Case(
        gtv.Affine(A, B),
        lambda w: inside(A @ w == B),
        lambda w: 0.0,
        lambda w: [A @ w == B],
        feasible=np.array([4.0, -1.0, 0.0]),
    ),
    "lasso, non-negative": Case(
        gtv.SquaredError(X, Y) + 0.1 * gtv.L1() + gtv.NonNegative(),
        lambda w: ((Y - X @ w) ** 2).mean() + 0.1 * np.abs(w).sum() + inside(w >= 0),
        lambda w: cp.sum_squares(Y - X @ w) / 7 + 0.1 * cp.norm(w, 1),
        lambda w: [w >= 0],
        strong=True,
        feasible=np.array([0.0, 1.0, 3.0]),
    ),
    "logistic and ridge": Case(
        gtv.Logistic(X, SIGNS) + 0.1 * gtv.SquaredDistance(0),
        lambda w: np.logaddexp(0, -SIGNS * (X @ w)).mean() + 0.1 * (w**2).sum(),
        lambda w: cp.sum(cp.logistic(-cp.multiply(SIGNS, X @ w))) / 7 + 0.1 * cp.sum_squares(w),
        smooth=True,
        strong=True,
    ),
    "linear in a box": Case(
        gtv.Linear(POINT) + gtv.Box(-1, 2),
        lambda w: POINT @ w + inside((w >= -1) & (w <= 2)),
        lambda w: POINT @ w,
        lambda w: [w >= -1, w <= 2],
        feasible=np.array([-1.0, 2.0, 0.0]),
    ),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
POINTS = [np.zeros(DIM), *(size * RNG.standard_normal(DIM) for size in (0.1, 1.0, 1.0, 10.0, 100.0))]


@each_case
def test_value(case: Case) -> None:
    points = POINTS if case.feasible is None else [*POINTS, case.feasible]
    assert case.feasible is None or np.isfinite(case.loss.value(case.feasible))
    for w in points:
        assert case.loss.value(w) == pytest.approx(case.formula(w), rel=1e-12, abs=1e-12)


@each_case
def test_cvxpy_expression(case: Case) -> None:
    """The point nearest to v, drawn by the loss: an error in the expression or its domain moves it."""
    for v in POINTS[1:4]:
        w, z = cp.Variable(DIM), cp.Variable(DIM)
        cp.Problem(cp.Minimize(case.loss.to_cvxpy(w) + cp.sum_squares(w - v))).solve(**TIGHT)
        own = cp.Problem(cp.Minimize(case.expression(z) + cp.sum_squares(z - v)), case.domain(z))
        own.solve(**TIGHT)
        np.testing.assert_allclose(w.value, z.value, atol=2e-5)


@each_case
def test_subgradient(case: Case) -> None:
    """``f(z) >= f(w) + <g, z - w>`` for g put together from the rows."""
    quadratic, rows, local = split_losses([case.loss], DIM)
    points = [w for w in (*POINTS, case.feasible) if w is not None and np.isfinite(case.formula(w))]
    for w in points:
        W = w[None, :]
        g = quadratic.gradient(W) + sum(term.map.adjoint(term.function.subgradient(term.map.apply(W))) for term in rows)
        for z in points:
            bound = case.formula(w) + g[0] @ (z - w)
            assert case.formula(z) >= bound - 1e-10 * (1 + abs(bound))
    assert case.smooth == ("gradient" in local.capabilities)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.smooth])
def test_gradient(name: str) -> None:
    case = CASES[name]
    for w in POINTS[1:5]:
        step = 1e-6 * (1 + np.abs(w).max())
        differences = [(case.formula(w + step * e) - case.formula(w - step * e)) / (2 * step) for e in np.eye(DIM)]
        np.testing.assert_allclose(case.loss.gradient(w), differences, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.smooth])
def test_no_gradient(name: str) -> None:
    with pytest.raises(CapabilityError, match="not smooth"):
        CASES[name].loss.gradient(np.ones(DIM))


@each_case
def test_smoothness_and_strong_convexity(case: Case) -> None:
    block = stack_losses([case.loss], DIM)
    L, mu = float(block.smoothness[0]), float(block.strong_convexity[0])
    assert (mu > 1e-9) == case.strong
    assert np.isfinite(L) == case.smooth
    points = [w for w in (*POINTS, case.feasible) if w is not None and np.isfinite(case.formula(w))]
    for w in points:
        for z in points:
            middle, gap = 0.5 * (w + z), 0.125 * ((w - z) ** 2).sum()
            mean = 0.5 * (case.formula(w) + case.formula(z))
            excess = mean - case.formula(middle) if np.isfinite(case.formula(middle)) else INF
            slack = 1e-10 * (1 + abs(mean))
            assert mu * gap - slack <= excess
            assert not case.smooth or excess <= L * gap + slack


@each_case
def test_weak_duality_of_rows(case: Case) -> None:
    """Fenchel-Young terms of the quadratic part and of the rows add up to primal minus dual value, at least zero."""
    quadratic, rows, _ = split_losses([case.loss], DIM)
    rng = np.random.default_rng(8)
    w = case.feasible if case.feasible is not None else POINTS[2]
    W = w[None, :]
    for size in (0.01, 1.0):
        duals = [
            term.function.project_domain(size * rng.standard_normal((term.map.n_rows, term.map.width))) for term in rows
        ]
        S = quadratic.project_dual(
            -sum((term.map.adjoint(p) for term, p in zip(rows, duals, strict=True)), np.zeros_like(W))
        )
        of_quadratic = quadratic.fenchel_young(W, S).sum()
        pairs = [(term.map.apply(W), p, term.function) for term, p in zip(rows, duals, strict=True)]
        of_rows = sum(function.fenchel_young(T, p).sum() for T, p, function in pairs)
        assert of_quadratic >= 0
        assert of_rows >= 0
        values = case.formula(w) + quadratic.conjugate(S).sum() + sum(f.conjugate(p).sum() for _, p, f in pairs)
        products = (S * W).sum() + sum((p * T).sum() for T, p, _ in pairs)
        assert of_quadratic + of_rows == pytest.approx(values - products, rel=1e-9, abs=1e-9)


@each_case
def test_multiples_and_sums(case: Case) -> None:
    points = POINTS if case.feasible is None else [*POINTS, case.feasible]
    for w in points:
        value = case.formula(w)
        assert (2.5 * case.loss).value(w) == pytest.approx(2.5 * value, rel=1e-12, abs=1e-12)
        both = case.loss + gtv.SquaredDistance(POINT) + case.loss
        assert both.value(w) == pytest.approx(2 * value + ((w - POINT) ** 2).sum(), rel=1e-12, abs=1e-12)


def test_files_keep_every_loss(tmp_path: Any) -> None:
    losses = [case.loss for case in CASES.values()]
    problem = gtv.GTVMin(nx.path_graph(len(losses)), losses, penalty=gtv.Norm(2), alpha=0.1)
    loaded = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert loaded.hash == problem.hash
    for case, loss in zip(CASES.values(), loaded.losses, strict=True):
        assert loss.value(POINTS[2]) == case.loss.value(POINTS[2])
        assert repr(loss) == repr(case.loss)
    changed = [*losses[:-1], gtv.Linear(POINT) + gtv.Box(-1, 2.5)]
    assert gtv.GTVMin(problem.network, changed, penalty=gtv.Norm(2), alpha=0.1).hash != problem.hash


# data points: scale, weights, labels
FITS: dict[str, Callable[..., gtv.Loss]] = {
    "huber": lambda X, y, **k: gtv.Huber(X, y, delta=0.6, **k),
    "least absolute": gtv.LeastAbsolute,
    "quantile": lambda X, y, **k: gtv.Quantile(X, y, tau=0.3, **k),
    "hinge": lambda X, y, **k: gtv.Hinge(X, np.sign(y), **k),
    "squared hinge": lambda X, y, **k: gtv.SquaredHinge(X, np.sign(y), **k),
}
each_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS.keys())


@each_fit
@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_weights_are_repeated_rows(fit: Callable[..., gtv.Loss], scale: str) -> None:
    counts = np.array([1, 0, 3, 1, 2, 0, 1])
    weighted = fit(X, Y, sample_weight=counts, scale=scale)
    repeated = fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts), scale=scale)
    for w in POINTS:
        assert weighted.value(w) == pytest.approx(repeated.value(w), rel=1e-12)
    fractions = fit(X, Y, sample_weight=0.25 * counts, scale=scale)
    factor = 1.0 if scale == "mean" else 0.25
    assert fractions.value(POINTS[2]) == pytest.approx(factor * repeated.value(POINTS[2]), rel=1e-12)


@each_fit
def test_scale(fit: Callable[..., gtv.Loss]) -> None:
    for w in POINTS:
        assert fit(X, Y, scale="sum").value(w) == pytest.approx(7 * fit(X, Y).value(w), rel=1e-12)
    with pytest.raises(ValueError, match="scale"):
        fit(X, Y, scale="average")


@each_fit
def test_data_are_checked(fit: Callable[..., gtv.Loss]) -> None:
    with pytest.raises(ValueError, match="one entry per row"):
        fit(X, Y[:3])
    with pytest.raises(ValueError, match="sample_weight"):
        fit(X, Y, sample_weight=-np.ones(7))
    with pytest.raises(ValueError, match="remove or impute"):
        fit(np.where(X > 1, np.nan, X), Y)
    assert fit(X, Y).dim == DIM
    assert fit(X, Y).n_samples == 7
    assert fit(np.empty((0, 2)), np.empty(0)).value([1.0, 2.0]) == 0.0


@pytest.mark.parametrize("loss", [gtv.Hinge, gtv.SquaredHinge, gtv.Logistic])
def test_labels_of_two_classes(loss: Any) -> None:
    w = POINTS[2]
    values = {
        loss(X, labels).value(w) for labels in (SIGNS, (SIGNS + 1) / 2, SIGNS > 0, (SIGNS > 0).astype(int).tolist())
    }
    assert len(values) == 1
    # one class alone
    assert loss(X, np.ones(7)).value(w) == loss(X, [True] * 7).value(w)
    assert loss(X, np.zeros(7)).value(w) == loss(X, -np.ones(7)).value(w)
    for wrong in ([0, 1, 2, 0, 1, 2, 0], [-1, 0, 1, 0, 1, 0, 1], np.linspace(0, 1, 7)):
        with pytest.raises(ValueError, match="two classes"):
            loss(X, wrong)


def test_relatives() -> None:
    """Losses that are others in disguise."""
    for w in POINTS:
        median = gtv.Quantile(X, Y).value(w)
        assert 2 * median == pytest.approx(gtv.LeastAbsolute(X, Y).value(w), rel=1e-12)
        assert gtv.Huber(X, Y, delta=1e9).value(w) == pytest.approx(gtv.SquaredError(X, Y).value(w), rel=1e-12)
        ridge = gtv.SquaredError(X, Y) + 0.3 * gtv.SquaredDistance(0)
        assert ridge.value(w) == pytest.approx(gtv.Ridge(X, Y, lam=0.3).value(w), rel=1e-12)
        square = gtv.Quadratic(2 * X.T @ X / 7, -2 * X.T @ Y / 7, float(Y @ Y) / 7)
        assert square.value(w) == pytest.approx(gtv.SquaredError(X, Y).value(w), rel=1e-9, abs=1e-9)
        assert gtv.Box(0, INF).value(w) == gtv.NonNegative().value(w)
    assert gtv.ElasticNet(0.0, 0.0).value([3.0]) == 0.0
    assert (gtv.ElasticNet(2.0, 0.0) + gtv.Zero()).value([3.0]) == 6.0


def test_badly_scaled_quadratic_forms() -> None:
    """Coordinates in units 1e12 apart: no eigenvalue may be taken for zero."""
    units = np.array([1e-6, 1.0, 1e6])
    scaled = gtv.Quadratic((Q + np.eye(DIM)) * units[:, None] * units)
    plain = gtv.Quadratic(Q + np.eye(DIM))
    for w in POINTS:
        assert scaled.value(w / units) == pytest.approx(plain.value(w), rel=1e-9)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: gtv.Quadratic([[1.0, 0.0], [0.0, -2.0]]), "least eigenvalue is -2"),
        (lambda: gtv.Quadratic([[0.0, 1.0], [1.0, 0.0]]), "least eigenvalue is -1"),
        (lambda: gtv.Quadratic([[1.0, 0.5], [0.0, 1.0]]), r"symmetric.*\(Q \+ Q.T\) / 2"),
        (lambda: gtv.Quadratic([[1.0, 0.5]]), "square"),
        (lambda: gtv.Quadratic(np.eye(2), [1.0]), "q must have one entry per row"),
        (lambda: gtv.Quadratic(np.eye(2), c=[1.0]), "c must be one number"),
        (lambda: gtv.SquaredDistance([[1.0]]), "a must be a vector"),
        (lambda: gtv.SquaredDistance([1.0, 2.0], penalise=[1.0]), "one factor per entry"),
        (lambda: gtv.SquaredDistance(INF), "a has a inf"),
        (lambda: gtv.Linear(3.0), "c must be a vector"),
        (lambda: gtv.L1([-1.0]), "penalise must be >= 0"),
        (lambda: gtv.L1(0.1), "penalise must be a vector"),
        (lambda: gtv.ElasticNet(-0.1, 0.1), "l1"),
        (lambda: gtv.Huber(X, Y, delta=0), "delta"),
        (lambda: gtv.Quantile(X, Y, tau=1.0), r"tau must be in \(0, 1\)"),
        (lambda: gtv.Quantile(X, Y, tau=0.0), "tau"),
        (lambda: gtv.Box(1.0, [2.0, 0.0]), "low must be <= high.*position 1"),
        (lambda: gtv.Box([1.0], [2.0, 3.0]), "low has 1 bounds and high 2"),
        (lambda: gtv.Box(INF, INF), "low holds a NaN or inf"),
        (lambda: gtv.Box(0.0, np.nan), "high holds a NaN"),
        (lambda: gtv.Simplex(0.0), "total must be > 0"),
        (lambda: gtv.Affine([1.0, 2.0], [1.0]), "A must have shape"),
        (lambda: gtv.Affine([[1.0, 2.0]], [1.0, 2.0]), "one entry per row of A"),
        (lambda: gtv.Affine([[1.0, 2.0], [2.0, 4.0]], [1.0, 3.0]), "contradict each other"),
        (lambda: gtv.Affine([[0.0, 0.0]], [1.0]), "contradict"),
        (lambda: gtv.Linear([1.0, 2.0]) + gtv.Box(0.0, [1.0, 1.0, 1.0]), "dimensions differ"),
    ],
)
def test_errors_at_declaration(declare: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        declare()


def test_arrays_are_copied_and_read_only() -> None:
    low = np.zeros(2)
    box = gtv.Box(low, 1.0)
    low[0] = 9.0
    assert box.value([0.0, 0.0]) == 0.0
    with pytest.raises(ValueError, match="read-only"):
        box.low[0] = 1.0
