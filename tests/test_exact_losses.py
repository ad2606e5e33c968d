"""Rigorous certificates of losses with exponentials, logarithms, matrices and balls, against FLINT's ball arithmetic.

The optimum of a small smooth problem is computed to 100 digits by Newton's method, from the formulas in the losses'
docstrings; none of it is shared with the package.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from ball_arithmetic import ball, flint
from gtvmin import rigorous
from gtvmin.errors import CapabilityError
from gtvmin.exact import functions
from gtvmin.exact.data import exact_problem
from gtvmin.exact.duals import feasible_duals
from gtvmin.exact.rows import row_duals

PRECISION = 400


@pytest.fixture(autouse=True)
def precision() -> Any:
    before, flint.ctx.prec = flint.ctx.prec, PRECISION
    yield
    flint.ctx.prec = before


def balls(values: Any) -> np.ndarray:
    """An array of exact numbers."""
    array = np.asarray(values)
    out = np.empty(array.shape, dtype=object)
    out.ravel()[:] = [ball(v) for v in array.ravel().tolist()]
    return out


# -------------------------------------------------------------------------------------------- the optimum to 100 digits
class Truth:
    """Objective, gradient and Hessian of a problem with ``SquaredNorm`` in ball arithmetic."""

    def __init__(self, problem: gtv.GTVMin) -> None:
        self.problem, self.dim = problem, problem.dim
        self.size = problem.network.n_nodes * self.dim

    def evaluate(self, x: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        value, gradient, hessian = flint.arb(0), balls(np.zeros(self.size)), balls(np.zeros((self.size, self.size)))
        for i, loss in enumerate(self.problem.losses):
            own = slice(i * self.dim, (i + 1) * self.dim)
            for coefficient, atom in loss.terms():
                v, g, H = self.loss(atom, x[own])
                value = value + ball(coefficient) * v
                gradient[own] = gradient[own] + ball(coefficient) * g
                hessian[own, own] = hessian[own, own] + ball(coefficient) * H
        net = self.problem.network
        for i, j, a in zip(net.tail.tolist(), net.head.tolist(), net.weights.tolist(), strict=True):
            s = ball(self.problem.alpha) * ball(a)
            for k in range(self.dim):
                p, q = i * self.dim + k, j * self.dim + k
                z = x[q] - x[p]
                value = value + s * z * z
                gradient[q], gradient[p] = gradient[q] + 2 * s * z, gradient[p] - 2 * s * z
                for r, c, sign in ((p, p, 1), (q, q, 1), (p, q, -1), (q, p, -1)):
                    hessian[r, c] = hessian[r, c] + 2 * sign * s
        return value, gradient, hessian

    def loss(self, atom: Any, w: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        if isinstance(atom, gtv.SquaredDistance):
            z = w - balls(np.broadcast_to(atom.a, len(w)))
            return z @ z, 2 * z, 2 * balls(np.eye(len(w)))
        if isinstance(atom, gtv.Ridge):  # with rows of zeros here
            return ball(atom.lam) * (w @ w), 2 * ball(atom.lam) * w, 2 * ball(atom.lam) * balls(np.eye(len(w)))
        if isinstance(atom, gtv.Quadratic):
            Q, q = balls(atom.Q), balls(atom.q)
            Q = (Q + Q.T) / 2
            return (w @ (Q @ w)) / 2 + q @ w + ball(atom.c), Q @ w + q, Q
        value, gradient, hessian = flint.arb(0), balls(np.zeros(len(w))), balls(np.zeros((len(w), len(w))))
        m = flint.arb(len(atom.y))
        for x, y in zip(balls(atom.X), atom.y.tolist(), strict=True):
            classes = atom.classes if isinstance(atom, gtv.Softmax) else 1
            A = np.array(
                [
                    [x[f] if c == k else flint.arb(0) for f in range(len(x)) for c in range(classes)]
                    for k in range(classes)
                ]
            )
            s = A @ w
            if isinstance(atom, gtv.Poisson):
                mean = s[0].exp()
                v, g, H = mean - ball(y) * s[0], np.array([mean - ball(y)]), np.array([[mean]])
            elif isinstance(atom, gtv.Logistic):
                margin = ball(y) * s[0]
                other = 1 / (1 + margin.exp())
                v, g = (1 + (-margin).exp()).log(), np.array([-ball(y) * other])
                H = np.array([[other * (1 - other)]])
            else:
                exps = [t.exp() for t in s]
                q = np.array([e / sum(exps) for e in exps])
                v, g = -q[int(y)].log(), q - balls(np.eye(classes)[int(y)])
                H = np.diag(q) - q[:, None] * q if classes > 1 else None
            value, gradient, hessian = value + v / m, gradient + g @ A / m, hessian + A.T @ H @ A / m
        return value, gradient, hessian

    def optimum(self, W: np.ndarray) -> tuple[np.ndarray, Any]:
        """Newton's method from parameters that are next to optimal."""
        x = balls(W.ravel())
        for _ in range(6):
            _, gradient, hessian = self.evaluate(x)
            step = flint.arb_mat(hessian.tolist()).solve(flint.arb_mat([[g] for g in gradient]))
            x = np.array([(a - step[k, 0]).mid() for k, a in enumerate(x)], dtype=object)
        value, gradient, _ = self.evaluate(x)
        assert max(abs(g) for g in gradient) < flint.arb(10) ** -60
        return x, value


def smooth_loss(kind: str, rng: np.random.Generator) -> gtv.Loss:
    X, W = rng.normal(size=(7, 2)), rng.normal(size=(2, 3))
    if kind == "Quadratic":
        return gtv.Quadratic(X.T @ X / 7.0, rng.normal(size=2), c=rng.normal())
    if kind == "Logistic":
        return gtv.Logistic(X, np.where(X @ W[:, 0] + rng.logistic(size=7) > 0, 1, -1)) + 0.1 * gtv.SquaredDistance(0.0)
    if kind == "Poisson":
        return gtv.Poisson(X, rng.poisson(np.exp(X @ W[:, 0]))) + 0.05 * gtv.SquaredDistance(0.0)
    return gtv.Softmax(X, (X @ W + rng.gumbel(size=(7, 3))).argmax(axis=1), classes=3) + 0.1 * gtv.SquaredDistance(0.0)


SMOOTH = ("Quadratic", "Logistic", "Poisson", "Softmax")
_problems: dict[tuple[str, int], tuple[gtv.GTVMin, gtv.Solution, Any]] = {}


def solved(kind: str, seed: int) -> tuple[gtv.GTVMin, gtv.Solution, Any]:
    """A problem, parameters and flows that are optimal to many digits, and the optimum."""
    if (kind, seed) not in _problems:
        rng = np.random.default_rng(seed)
        losses = [smooth_loss(kind, rng) for _ in range(3)]
        net = gtv.FLNetwork.from_edges([(0, 1, 0.3), (1, 2, 1.0 / 3.0)])
        problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.1)
        solution = problem.solve(gap=1e-13)
        _problems[kind, seed] = problem, solution, Truth(problem).optimum(solution.weights)[1]
    return _problems[kind, seed]


def claims_too_much(kind: str, seed: int, W: np.ndarray) -> int:
    problem, solution, optimum = solved(kind, seed)
    value = Truth(problem).evaluate(balls(W.ravel()))[0]
    certificate = gtv.certify(problem, W, duals=solution.certificate.duals, rigorous=True)
    assert np.isfinite(certificate.gap)
    assert certificate.primal == pytest.approx(float(value), rel=1e-15)
    wrong = [
        ball(certificate.gap) < value - optimum,
        ball(certificate.dual) > optimum,
        ball(certificate.primal) < value,
    ]
    return sum(map(bool, wrong))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SMOOTH),
    st.integers(0, 1),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 1e-16, 1e-12, 1e-6, 1.0, 100.0]),
)
def test_no_gap_is_below_the_true_suboptimality(kind: str, seed: int, draw: int, distance: float) -> None:
    flint.ctx.prec = PRECISION
    solution = solved(kind, seed)[1]
    W = solution.weights + distance * np.random.default_rng(draw).normal(size=solution.weights.shape)
    assert claims_too_much(kind, seed, W) == 0


@pytest.mark.parametrize("kind", SMOOTH)
def test_gaps_are_tight(kind: str) -> None:
    """At the optimum in doubles next to nothing is lost; elsewhere the gap is the suboptimality and what duals lack."""
    problem, solution, optimum = solved(kind, 0)
    certificate = gtv.certify(problem, solution.weights, duals=solution.certificate.duals, rigorous=True)
    assert certificate.gap < 1.001 * solution.certificate.gap
    W = solution.weights + 0.1
    true = float(Truth(problem).evaluate(balls(W.ravel()))[0] - optimum)
    assert gtv.certify(problem, W, duals=solution.certificate.duals, rigorous=True).gap == pytest.approx(true, rel=1e-6)


def in_single_precision(x: Fraction) -> tuple[Fraction, Fraction]:
    nearest = Fraction(float(np.float32(math.log(x))))
    return nearest, nearest


FAULTS = {
    "logarithms in single precision": (functions, "log_enclosure", in_single_precision, "Logistic"),
    "exponentials a little too small": (
        *(functions, "exp_enclosure"),
        *(lambda t: (Fraction(math.exp(t)) * (1 - Fraction(1, 2**30)),) * 2, "Poisson"),
    ),
    "entropy of the label left out": (
        *(functions.LogSumExp, "conjugate"),
        *(lambda self, p: sum(v * functions.log_enclosure(v / self.weight)[1] for v in p) - self.weight, "Softmax"),
    ),
    "values of squares too small": (
        *(functions.Interval, "value", lambda self, t: (Fraction(0), Fraction(0))),
        "Quadratic",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *target, kind = FAULTS[fault]
    rng = np.random.default_rng(0)

    def found() -> int:
        total = 0
        for seed in (0, 1):
            base = solved(kind, seed)[1].weights
            for distance in (0.0, 1e-12, 1e-3, 1e-3, 1e-3):
                problem, solution, optimum = solved(kind, seed)
                W = base + distance * rng.normal(size=base.shape)
                value = Truth(problem).evaluate(balls(W.ravel()))[0]
                bound = rigorous.rigorous_bound(problem, W, solution.flows, solution.certificate.duals)
                total += bool(ball(bound.gap) < value - optimum) + bool(ball(bound.dual) > optimum)
        return total

    assert found() == 0
    monkeypatch.setattr(*target)
    assert found() > 0


# --------------------------------------------------------------------------------------------- duals of all kinds
def mixed(rng: np.random.Generator, dim: int) -> list[gtv.Loss]:
    """Losses of all kinds, in an order that differs from device to device."""
    X = rng.normal(size=(6, dim))
    parts = [
        gtv.Logistic(X, rng.choice([0, 1], size=6), sample_weight=[1, 0, 2, 1, 3, 1]),
        gtv.Poisson(X[:4] / 2.0, rng.poisson(1.0, size=4)),
        gtv.Quadratic(X.T @ X, X[0], c=2.0),
        gtv.Ball(3.0, centre=rng.normal(size=dim)),
        0.3 * gtv.L1(),
        gtv.Huber(X, rng.normal(size=6), delta=0.4),
        gtv.Linear(rng.normal(size=dim)),
    ]
    if dim % 2 == 0:
        parts.append(0.5 * gtv.Softmax(X[:, : dim // 2], rng.integers(0, 2, size=6), classes=2))
    order = rng.permutation(len(parts))
    return [sum((parts[k] for k in order), gtv.Zero(dim))]


def inside_balls(problem: gtv.GTVMin, W: np.ndarray) -> np.ndarray:
    """Parameters on the spheres moved inwards by more than rounding."""
    out = W.copy()
    for w, loss, dim in zip(out, problem.losses, problem.dims, strict=True):
        for _, atom in loss.terms():
            if isinstance(atom, gtv.Ball):
                w[:dim] -= 1e-15 * (w[:dim] - atom.centre)
    return out


@pytest.mark.parametrize("seed", range(4))
def test_sums_of_all_kinds_on_devices_of_several_sizes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dims = [2, 2, 4, 4, 3]
    losses = [mixed(rng, dim)[0] for dim in dims]
    net = gtv.FLNetwork.from_edges([(0, 1), (2, 3)], nodes=range(5))
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.2)
    solution = problem.solve(gap=1e-7)
    plain = solution.certificate
    W = inside_balls(problem, solution.weights)
    certificate = gtv.certify(problem, W, duals=plain.duals, rigorous=True)
    assert certificate.primal == pytest.approx(plain.primal, rel=1e-13)
    assert certificate.gap == pytest.approx(plain.gap, rel=1e-3, abs=1e-11 * plain.primal)
    data = exact_problem(problem)
    rows = row_duals(data.parts, plain.duals[len(problem.lowered.form.couplings) :])
    duals = feasible_duals(data, solution.flows, rows)
    assert duals is not None
    fixed = np.array([f is None for f in data.squares])
    assert np.allclose(np.array([float(p) for p in duals.p])[fixed], rows[fixed], atol=1e-9)
    balance = np.zeros((5, 4), dtype=object)
    for owner, x, p in zip(data.owner.tolist(), data.lattice, duals.p, strict=True):
        balance[owner] += np.array([Fraction(v, 1 << data.grid) * p for v in x.tolist()], dtype=object)
    for i, tilt in enumerate(data.tilt):
        balance[i] += np.array(tilt or [Fraction(0)] * 4, dtype=object)
    for e, (i, j) in enumerate(zip(data.tail.tolist(), data.head.tolist(), strict=True)):
        flow = np.array([Fraction(u, duals.divisor[e] << duals.grid) for u in duals.U[e].tolist()], dtype=object)
        balance[j] += flow
        balance[i] -= flow
    assert not balance.any()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
def test_objectives_are_enclosed_anywhere(seed: int, dim: int, far: bool) -> None:
    """The value of the logistic, Poisson and quadratic rows at any parameters, with weights that are no doubles."""
    flint.ctx.prec = PRECISION
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3, dim)) * 10.0 ** rng.uniform(-3, 3)
    losses = [
        gtv.Logistic(X, [1, -1, 1]) + 0.1 * gtv.Quadratic(X.T @ X, X[0]),
        gtv.Softmax(X, [0, 1, 1], classes=2) if dim % 2 else gtv.Poisson(X, [0, 1, 2.5]),
    ]
    size = dim * 2 if dim % 2 else dim
    losses[0] = losses[0] if size == dim else gtv.Softmax(X, [1, 0, 1], classes=2)
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.SquaredNorm(), alpha=0.7)
    W = rng.normal(size=(2, size)) * (10.0 if far else 0.1)
    value = Truth(problem).evaluate(balls(W.ravel()))[0]
    assume(value < flint.arb(1e100))
    certificate = gtv.certify(problem, W, np.zeros((1, size)), rigorous=True)
    assert not ball(certificate.primal) < value
    assert certificate.primal == pytest.approx(float(value), rel=1e-15)
    assert certificate.gap >= 0


# ---------------------------------------------------------------------------------------------------------- matrices
def test_a_singular_matrix_is_exact() -> None:
    """``(w_1 + w_2)^2 / 2 - (w_1 + w_2)`` has the least value -1/2 on a line; no digit is lost."""
    loss = gtv.Quadratic([[1.0, 1.0], [1.0, 1.0]], [-1.0, -1.0], c=0.25)
    problem = gtv.GTVMin(nx.path_graph(2), [loss, loss], penalty=gtv.Norm(2), alpha=1.0)
    certificate = gtv.certify(problem, [[0.5, 0.5], [0.5, 0.5]], np.zeros((1, 2)), rigorous=True)
    assert certificate.gap < 1e-90
    assert certificate.primal == -0.5
    assert certificate.dual >= np.nextafter(-0.5, -1.0)
    tilted = gtv.Quadratic([[1.0, 1.0], [1.0, 1.0]], [-1.0, -1.0 + 2.0**-52])  # unbounded below along (1, -1)
    problem = gtv.GTVMin(nx.path_graph(2), [tilted, tilted], penalty=gtv.Norm(2), alpha=1.0)
    assert gtv.certify(problem, np.zeros((2, 2)), np.zeros((1, 2)), rigorous=True).gap == np.inf


def test_an_asymmetric_matrix_stands_for_its_symmetric_part() -> None:
    e = 2.0**-52
    loss = gtv.Quadratic([[1.0, 0.5 + e], [0.5, 1.0]], [1.0, -1.0])
    problem = gtv.GTVMin(nx.path_graph(2), [loss, loss], penalty=gtv.Norm(1), alpha=1.0)
    W = np.array([[-2.0, 2.0], [-2.0, 2.0]])
    half = Fraction(1, 2) + Fraction(e) / 2
    best = Fraction(1) / (1 - half)  # (Q w)_1 = -1 for w = (-best, best)
    optimum = -best  # of each device: half of q^T w
    certificate = gtv.certify(problem, W, np.zeros((1, 2)), rigorous=True)
    value = 2 * (Fraction(1, 2) * (4 + 4 - 8 * half) - 4)
    assert Fraction(certificate.primal) >= value >= Fraction(certificate.primal) - Fraction(1, 10**15)
    assert value - 2 * optimum <= Fraction(certificate.gap) <= (value - 2 * optimum) * (1 + Fraction(1, 10**12))


def test_a_matrix_that_is_semidefinite_by_rounding_only_is_named() -> None:
    Q = np.array([[1.0, 1.0], [1.0, 1.0 - 2.0**-53]])
    problem = gtv.GTVMin(nx.path_graph(2), [gtv.Quadratic(Q)] * 2, penalty=gtv.Norm(2), alpha=1.0)
    assert gtv.certify(problem, np.zeros((2, 2)), np.zeros((1, 2))).gap < 1e-12
    with pytest.raises(CapabilityError, match=r"Quadratic.*node 0.*only up to rounding.*multiple of SquaredDistance"):
        gtv.certify(problem, np.zeros((2, 2)), np.zeros((1, 2)), rigorous=True)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1.0, 1e-6, 1e-12]), st.booleans())
def test_squares_beside_a_matrix_make_up_for_its_rounding(seed: int, ridge: float, ridged: bool) -> None:
    """A computed Gram matrix of fewer rows than parameters, and a ridge or a distance: the optimum is as declared."""
    flint.ctx.prec = PRECISION
    rng = np.random.default_rng(seed)
    losses = []
    for _ in range(2):
        X = rng.normal(size=(2, 3))
        Q = X.T @ X
        Q[2, 2] = np.nextafter(Q[2, 2], 0.0)
        regulariser = gtv.Ridge(np.zeros((1, 3)), [0.0], lam=ridge) if ridged else ridge * gtv.SquaredDistance(X[1])
        losses.append(0.3 * gtv.Quadratic(Q, X[0], c=1.0) + regulariser)
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.SquaredNorm(), alpha=0.1)
    solution = problem.solve("linear_system")
    best = Truth(problem).optimum(solution.weights)[1]
    for W in (solution.weights, solution.weights + rng.normal(size=(2, 3))):
        certificate = gtv.certify(problem, W, solution.flows, rigorous=True)
        value = Truth(problem).evaluate(balls(W.ravel()))[0]
        assert not ball(certificate.primal) < value
        assert not ball(certificate.gap) < value - best
        assert not ball(certificate.dual) > best
        assert certificate.primal == pytest.approx(float(value), rel=1e-15)
        assert certificate.gap <= float(value - best) * (1 + 1e-6) + 1e-9 * abs(certificate.primal)


@pytest.mark.parametrize("dim", [1, 6, 12])
def test_matrices_of_any_units(dim: int) -> None:
    rng = np.random.default_rng(dim)
    units = 10.0 ** rng.uniform(-6, 6, size=dim)
    X = rng.normal(size=(3 * dim, dim)) * units
    losses = [gtv.Quadratic(X.T @ X, X[k]) for k in range(2)]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.SquaredNorm(), alpha=1e-3)
    solution = problem.solve("cvxpy") if dim == 1 else problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, solution.flows, rigorous=True)
    assert certificate.gap <= 1.01 * solution.certificate.gap + 1e-12 * abs(certificate.primal)
    best = Truth(problem).optimum(solution.weights)[1]
    assert not ball(certificate.dual) > best


def test_nothing_is_proved_about_expressions_of_cvxpy() -> None:
    cp = pytest.importorskip("cvxpy")
    loss = gtv.CvxpyLoss(lambda w: cp.sum_squares(w), dim=2)
    problem = gtv.GTVMin(nx.path_graph(2), [loss, loss], penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(CapabilityError, match=r"CvxpyLoss.*node 0.*no exact evaluation.*nothing can be proved"):
        gtv.certify(problem, np.zeros((2, 2)), np.zeros((1, 2)), rigorous=True)


# --------------------------------------------------------------------------------------------------- likelihoods alone
@pytest.mark.parametrize("alpha", [1e-12, 0.05])
@pytest.mark.parametrize("kind", ["Logistic", "Poisson"])
def test_rounding_stays_on_its_device(kind: str, alpha: float) -> None:
    """What rounding leaves goes to the device's own duals: flows as small as it is could not take it up."""
    rng = np.random.default_rng(3)
    losses = []
    for _ in range(6):
        X = rng.normal(size=(8, 3))
        losses.append(
            gtv.Logistic(X, np.resize([-1, 1], 8)) if kind == "Logistic" else gtv.Poisson(X, rng.poisson(1.0, 8))
        )
    problem = gtv.GTVMin(nx.cycle_graph(6), losses, penalty=gtv.Norm(2), alpha=alpha)
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, duals=solution.certificate.duals, rigorous=True)
    assert certificate.gap <= 1.01 * solution.certificate.gap + 1e-13 * certificate.primal


def test_constraints_take_up_what_rounding_leaves() -> None:
    """Linear parts do not shrink with flows that exceed their capacities: duals of the constraints make up for it."""
    losses = [
        gtv.Ball(0.5, centre=[-0.5, -2.0]) + gtv.Linear([0.1, 0.7]),
        gtv.Box(-1.0, 1.0) + gtv.Linear([-0.9, 0.3]),
        gtv.Box(0.0, [2.0, 3.0]) + gtv.Linear([0.3, -0.7]),
    ]
    net = gtv.FLNetwork.from_edges([(0, 1, 0.1), (1, 2, 0.7)])
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.3)
    solution = problem.solve(gap=1e-10)
    W = inside_balls(problem, solution.weights)
    certificate = gtv.certify(problem, W, duals=solution.certificate.duals, rigorous=True)
    assert certificate.gap <= 1.01 * solution.certificate.gap + 1e-13
