"""Rigorous certificates against exact rational arithmetic and ball arithmetic written here."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin import rigorous
from gtvmin.errors import CapabilityError
from gtvmin.exact import duals as exact_duals
from gtvmin.exact.data import exact_problem
from gtvmin.exact.duals import feasible_duals
from gtvmin.penalties import HuberPenalty

PENALTIES = [gtv.SquaredNorm(), gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf)]
RATIONAL = [gtv.SquaredNorm(), gtv.Norm(1), gtv.Norm(np.inf)]


def problem_with_gaps_in_rank(seed: int, penalty: gtv.Penalty, *, full: bool = True) -> gtv.GTVMin:
    """Devices with no row, with fewer rows than parameters and, if `full`, with more; weights that are no dyadics."""
    rng = np.random.default_rng(seed)
    graph = nx.connected_watts_strogatz_graph(7, 4, 0.3, seed=seed)
    for edge in graph.edges.values():
        edge["weight"] = rng.uniform(0.2, 3.0)
    losses = []
    for i in range(7):
        rows = (0, 2, 5 if full else 1)[i % 3]
        X = rng.normal(size=(rows, 3))
        losses.append(0.7 * gtv.SquaredError(X, rng.normal(size=rows)) if rows else gtv.Zero(3))
    return gtv.GTVMin(gtv.FLNetwork(graph), losses, penalty=penalty, alpha=0.3)


def exactly(array: np.ndarray) -> list[list[Fraction]]:
    return [[Fraction(float(v)) for v in row] for row in array]


def exact_objective(problem: gtv.GTVMin, W: list[list[Fraction]]) -> Fraction:
    """``P(W)`` from the declared numbers, for squared errors and penalties without roots."""
    total = Fraction(0)
    for w, loss in zip(W, problem.losses, strict=True):
        for coefficient, atom in loss.terms():
            if isinstance(atom, gtv.SquaredError):
                squares = [
                    (sum(a * b for a, b in zip(map(Fraction, x.tolist()), w, strict=True)) - Fraction(float(y))) ** 2
                    for x, y in zip(atom.X, atom.y, strict=True)
                ]
                total += Fraction(coefficient) * sum(squares) / (len(squares) if atom.scale == "mean" else 1)
    for tail, head, weight in zip(problem.network.tail, problem.network.head, problem.network.weights, strict=True):
        z = [abs(a - b) for a, b in zip(W[head], W[tail], strict=True)]
        size = {gtv.SquaredNorm(): sum(v * v for v in z), gtv.Norm(1): sum(z), gtv.Norm(np.inf): max(z)}
        total += Fraction(problem.alpha) * Fraction(float(weight)) * size[problem.penalty]
    return total


def scalar_chain(y: list[float], weights: list[float], alpha: float, penalty: gtv.Penalty) -> gtv.GTVMin:
    """``sum_i (w_i - y_i)^2 / 3`` on a path: the factor is 1/m with three times the same row."""
    net = gtv.FLNetwork.from_edges([(i, i + 1, w) for i, w in enumerate(weights)], nodes=range(len(y)))
    losses = [gtv.SquaredError([[1.0], [0.0], [0.0]], [v, 0.0, 0.0]) for v in y]
    return gtv.GTVMin(net, losses, penalty=penalty, alpha=alpha)


def exact_chain_optimum(y: list[float], weights: list[float], alpha: float) -> tuple[Fraction, list[Fraction]]:
    """Least value and minimiser of the chain with ``Norm``: over all ways to fuse or order neighbours, in rationals.

    Given which neighbours are equal and the signs of the other differences the minimiser is a quotient; the optimum
    has one of these patterns, and every pattern's point has at least the optimal value.
    """
    n, third = len(y), Fraction(1, 3)
    target = [Fraction(v) for v in y]
    pull = [Fraction(alpha) * Fraction(w) for w in weights]
    best = None
    for signs in itertools.product((-1, 0, 1), repeat=n - 1):
        groups, force = [[0]], [Fraction(0)]
        for i, sign in enumerate(signs):
            if sign == 0:
                groups[-1].append(i + 1)
            else:
                force[-1] -= sign * pull[i]
                groups.append([i + 1])
                force.append(sign * pull[i])
        w = [Fraction(0)] * n
        for group, f in zip(groups, force, strict=True):
            value = (2 * third * sum(target[i] for i in group) - f) / (2 * third * len(group))
            for i in group:
                w[i] = value
        value = sum(third * (a - b) ** 2 for a, b in zip(w, target, strict=True))
        value += sum(p * abs(b - a) for p, a, b in zip(pull, w, w[1:], strict=False))
        best = (value, w) if best is None else min(best, (value, w))
    assert best is not None
    return best


# -------------------------------------------------------------------------------------------------- feasibility, exact
@settings(max_examples=60)
@given(
    seed=st.integers(0, 40),
    which=st.sampled_from(range(4)),
    full=st.booleans(),
    size=st.sampled_from([0.0, 1e-12, 1e-3, 1.0]),
)
def test_closed_duals_are_feasible_without_rounding(seed: int, which: int, full: bool, size: float) -> None:
    """Equations, balls and the weak-duality identity, each recomputed in rationals."""
    problem = problem_with_gaps_in_rank(seed, PENALTIES[which], full=full)
    rng = np.random.default_rng(seed)
    W = rng.normal(size=(7, 3))
    repaired = gtv.certify(problem, W, size * rng.normal(size=problem.flow_shape)).U
    data = exact_problem(problem)
    duals = feasible_duals(data, repaired, np.zeros(len(data.owner)))
    assert duals is not None
    U = [[Fraction(u, d << duals.grid) for u in row] for row, d in zip(duals.U.tolist(), duals.divisor, strict=True)]
    net = problem.network
    balance = [[Fraction(0)] * 3 for _ in range(7)]
    for u, tail, head in zip(U, net.tail, net.head, strict=True):
        for k in range(3):
            balance[head][k] += u[k]
            balance[tail][k] -= u[k]
    for p, owner, x in zip(duals.p, data.owner, exactly(data.X), strict=True):
        for k in range(3):
            balance[owner][k] += p * x[k]
    assert not any(v for row in balance for v in row)
    for u, weight in zip(U, net.weights, strict=True):
        capacity = Fraction(problem.alpha) * Fraction(float(weight))
        if PENALTIES[which] == gtv.Norm(1):
            assert max(map(abs, u)) <= capacity
        elif PENALTIES[which] == gtv.Norm(2):
            assert sum(v * v for v in u) <= capacity**2
        elif PENALTIES[which] == gtv.Norm(np.inf):
            assert sum(map(abs, u)) <= capacity
    assert np.allclose([[float(v) for v in row] for row in U], repaired, atol=1e-9)
    if PENALTIES[which] in RATIONAL:
        dual = -sum(
            p * p * len(atom.y) / (4 * Fraction(c)) + p * Fraction(float(y))
            for p, c, atom, y in zip(
                duals.p,
                [c for loss in problem.losses for c, atom in loss.terms() for _ in range(atom.n_samples)],
                [atom for loss in problem.losses for _, atom in loss.terms() for _ in range(atom.n_samples)],
                [y for loss in problem.losses for _, atom in loss.terms() if atom.n_samples for y in atom.y],
                strict=True,
            )
        )
        if PENALTIES[which] == gtv.SquaredNorm():
            dual -= sum(
                sum(v * v for v in u) / (4 * Fraction(problem.alpha) * Fraction(float(a)))
                for u, a in zip(U, net.weights, strict=True)
            )
        exact = exact_objective(problem, exactly(W)) - dual
        bound = rigorous.rigorous_bound(problem, W, repaired, ())
        assert exact <= Fraction(bound.gap) <= exact * (1 + Fraction(1, 10**13))
        assert Fraction(bound.dual) <= dual
        assert Fraction(bound.primal[0]) <= exact_objective(problem, exactly(W)) <= Fraction(bound.primal[1])


def test_devices_that_determine_nothing_alone_absorb_together() -> None:
    """No device has full rank: the residual goes to rows of several, and what they are short of along the tree."""
    problem = problem_with_gaps_in_rank(2, gtv.Norm(2), full=False)
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, solution.flows, rigorous=True)
    assert certificate.relative_gap <= 1.01e-9
    duals = feasible_duals(exact_problem(problem), solution.flows, np.zeros(6))
    assert duals is not None
    assert max(duals.divisor) > 1


# --------------------------------------------------------------------------------------------------- true suboptimality
def rational_minimum(problem: gtv.GTVMin) -> tuple[Fraction, list[Fraction]]:
    """Minimum and minimiser of a scalar problem with ``SquaredNorm`` by its stationarity equations."""
    n = problem.network.n_nodes
    A = [[Fraction(0)] * n for _ in range(n)]
    b = [Fraction(0)] * n
    for i, loss in enumerate(problem.losses):
        for c, atom in loss.terms():
            for x, y in zip(atom.X[:, 0], atom.y, strict=True):
                A[i][i] += 2 * Fraction(c) * Fraction(float(x)) ** 2 / len(atom.y)
                b[i] += 2 * Fraction(c) * Fraction(float(x)) * Fraction(float(y)) / len(atom.y)
    for i, j, a in zip(problem.network.tail, problem.network.head, problem.network.weights, strict=True):
        s = 2 * Fraction(problem.alpha) * Fraction(float(a))
        A[i][i] += s
        A[j][j] += s
        A[i][j] -= s
        A[j][i] -= s
    for k in range(n):
        for r in range(k + 1, n):
            f = A[r][k] / A[k][k]
            A[r] = [u - f * v for u, v in zip(A[r], A[k], strict=True)]
            b[r] -= f * b[k]
    w = [Fraction(0)] * n
    for k in reversed(range(n)):
        w[k] = (b[k] - sum(A[k][c] * w[c] for c in range(k + 1, n))) / A[k][k]
    return exact_objective(problem, [[v] for v in w]), w


magnitudes = st.sampled_from([0.0, 1.0, -1.0, 1.0 + 2.0**-52, 3.0, 0.1, 1e8, -1e8 + 1.0, 1e-8, 1e-150, 1e100])


@settings(max_examples=80)
@given(
    y=st.lists(magnitudes, min_size=3, max_size=3),
    weights=st.lists(st.sampled_from([1.0, 0.1, 1.0 / 3.0, 1e-6]), min_size=2, max_size=2),
    alpha=st.sampled_from([0.1, 0.3, 1.0, 1e-12]),
    squared=st.booleans(),
    ulps=st.lists(st.integers(-2, 2), min_size=3, max_size=3),
)
def test_no_gap_is_below_the_true_suboptimality(
    y: list[float], weights: list[float], alpha: float, squared: bool, ulps: list[int]
) -> None:
    """Parameters within a few units of the last place of the optimum: the suboptimality is far below rounding."""
    problem = scalar_chain(y, weights, alpha, gtv.SquaredNorm() if squared else gtv.Norm(1))
    optimum, best = rational_minimum(problem) if squared else exact_chain_optimum(y, weights, alpha)
    W = np.array([[float(w)] for w in best])
    W += np.spacing(W) * np.array([ulps]).T
    forces = [2 * (w - Fraction(v)) / 3 for w, v in zip(best, y, strict=True)]
    flows = [[float(forces[0])], [float(forces[0] + forces[1])]]
    certificate = gtv.certify(problem, W, flows, rigorous=True)
    true = exact_objective(problem, exactly(W)) - optimum
    assert true >= 0
    assert np.isfinite(certificate.gap)
    assert Fraction(certificate.gap) >= true
    assert Fraction(certificate.dual) <= optimum
    assert Fraction(certificate.primal) >= exact_objective(problem, exactly(W))
    assert certificate.rigorous


@pytest.mark.parametrize(
    ("y", "W"),
    [
        ([1e-300, -1e-300], [0.0, 0.0]),
        ([5e-324, 1.0], [0.0, 1.0]),
        ([1e160, 1.0], [1e160, 1.0]),
        ([1e300, -1e300], [1e300, -1e300]),
        ([1e16, 1e16 + 2.0], [1e16, 1e16 + 2.0]),
    ],
)
@pytest.mark.parametrize("alpha", [1e-300, 0.1, 1e100])
def test_extreme_numbers(y: list[float], W: list[float], alpha: float) -> None:
    problem = scalar_chain(y, [1.0], alpha, gtv.Norm(1))
    bound = rigorous.rigorous_bound(problem, np.array(W)[:, None], np.zeros((1, 1)), (np.zeros((1, 1)),))
    true = exact_objective(problem, exactly(np.array(W)[:, None])) - exact_chain_optimum(y, [1.0], alpha)[0]
    assert bound.gap == np.inf or Fraction(bound.gap) >= true
    assert bound.gap > 0 or true == 0


def test_a_flow_on_the_boundary_of_its_ball_is_judged_exactly() -> None:
    """0.1 * 3 as a double is above the product of the doubles 0.1 and 3: flows of that size are outside."""
    problem = scalar_chain([0.0, 9.0], [3.0], 0.1, gtv.Norm(1))
    assert Fraction(0.1 * 3.0) > Fraction(0.1) * 3
    certificate = gtv.certify(problem, [[0.45], [8.55]], [[0.1 * 3.0]], rigorous=True)
    optimum, _ = exact_chain_optimum([0.0, 9.0], [3.0], 0.1)
    true = exact_objective(problem, exactly(np.array([[0.45], [8.55]]))) - optimum
    assert Fraction(certificate.gap) >= true
    assert certificate.gap < 1e-14
    data = exact_problem(problem)
    duals = feasible_duals(data, np.array([[0.1 * 3.0]]), np.zeros(len(data.owner)))
    assert duals is not None
    assert Fraction(int(duals.U[0, 0]), 1 << duals.grid) <= Fraction(0.1) * 3


@pytest.mark.parametrize("seed", range(4))
def test_euclidean_norms_against_ball_arithmetic(seed: int) -> None:
    """Two devices in the plane have their optimum in closed form; 200 bits bracket it."""
    flint = pytest.importorskip("flint", reason="python-flint is the independent ball arithmetic")
    flint.ctx.prec = 200
    rng = np.random.default_rng(seed)
    a, b, alpha = rng.normal(size=3), rng.normal(size=3) + 2.0, 0.3
    losses = [0.5 * gtv.SquaredError(np.eye(3), v, scale="sum") for v in (a, b)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(2), alpha=alpha)
    exact = lambda v: [flint.arb(float(x)) for x in v]  # noqa: E731
    length = lambda v: sum((x * x for x in v), flint.arb(0)).sqrt()  # noqa: E731
    difference = [y - x for x, y in zip(exact(a), exact(b), strict=True)]
    # both move by alpha towards each other: 2 alpha^2 / 2 + alpha (|b - a| - 2 alpha)
    optimum = flint.arb(alpha) ** 2 + flint.arb(alpha) * (length(difference) - 2 * flint.arb(alpha))
    direction = (b - a) / np.linalg.norm(b - a)
    for W in (np.array([a + alpha * direction, b - alpha * direction]), np.array([a, b]) + 1e-5):
        certificate = gtv.certify(problem, W, [alpha * direction], rigorous=True)
        value = flint.arb(0)
        for w, v in zip(W, (a, b), strict=True):
            value += sum(((x - y) ** 2 for x, y in zip(exact(w), exact(v), strict=True)), flint.arb(0)) / 2
        value += flint.arb(alpha) * length([y - x for x, y in zip(exact(W[0]), exact(W[1]), strict=True)])
        assert flint.arb(certificate.primal) >= value
        assert flint.arb(certificate.primal) <= value * (1 + flint.arb(2) ** -50)
        assert flint.arb(certificate.gap) >= value - optimum
        assert flint.arb(certificate.gap) <= value - optimum + flint.arb(1e-14)
        assert flint.arb(certificate.dual) <= optimum


# ------------------------------------------------------------------------------------------------------ planted faults
def nearest(top: int, bottom: int = 1) -> tuple[float, float]:
    return top / bottom, top / bottom


def truncated(value: Fraction, *, up: bool) -> Fraction:
    return Fraction(value.numerator * 2**30 // value.denominator, 2**30)


def nearest_sum(values: np.ndarray) -> tuple[float, float]:
    return float(values.sum()), float(values.sum())


def no_push(*args: object) -> None:
    args[2][...] = 0  # type: ignore[index] - what devices are short of is forgotten


def rounded_strengths(original: Callable[..., object]) -> Callable[..., object]:
    def read(problem: gtv.GTVMin) -> object:
        data = original(problem)
        data.strength[:] = [Fraction(float(a)) * (1 + Fraction(1, 10**14)) for a in data.strength]
        return data

    return read


FAULTS = {
    "terms rounded to nearest": (rigorous, "enclose", nearest),
    "sums rounded to nearest": (rigorous, "sum_outward", nearest_sum),
    "terms shortened downwards": (rigorous, "round_outward", truncated),
    "residuals forgotten": (exact_duals, "_push", no_push),
    "capacities a little too large": (rigorous, "exact_problem", rounded_strengths(exact_problem)),
}


def violations() -> int:
    """Instances whose gap or bounds are on the wrong side of exact values."""
    found = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y, weights = rng.normal(size=3).tolist(), rng.uniform(0.1, 1.0, size=2).tolist()
        for penalty in (gtv.SquaredNorm(), gtv.Norm(1)):
            problem = scalar_chain(y, weights, 0.1, penalty)
            squared = penalty == gtv.SquaredNorm()
            optimum, _ = rational_minimum(problem) if squared else exact_chain_optimum(y, weights, 0.1)
            solution = problem.solve(gap=1e-12)
            for W in (solution.weights, solution.weights + 1.0):
                certificate = gtv.certify(problem, W, solution.flows, rigorous=True)
                primal = exact_objective(problem, exactly(W))
                found += Fraction(certificate.gap) < primal - optimum
                found += Fraction(certificate.primal) < primal
                found += Fraction(certificate.dual) > optimum
    # every term of these flows is zero at W, but the device in the middle, without a loss, gets more than it gives
    net = gtv.FLNetwork.from_edges([(0, 1, 0.5), (1, 2, 1.0)])
    ends = [gtv.SquaredError([[1.0], [0.0], [0.0]], [v, 0.0, 0.0]) for v in (0.0, 3.5)]
    problem = gtv.GTVMin(net, [ends[0], gtv.Zero(), ends[1]], penalty=gtv.Norm(1), alpha=1.0)
    W, better = np.array([[0.75], [1.0], [2.0]]), np.array([[0.75], [2.0], [2.0]])
    true = exact_objective(problem, exactly(W)) - exact_objective(problem, exactly(better))
    assert true > 0
    found += Fraction(rigorous.rigorous_bound(problem, W, np.array([[0.5], [1.0]]), ()).gap) < true
    return found


def test_exact_values_lie_on_the_right_side() -> None:
    assert violations() == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_seen(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert violations() > 0


# ------------------------------------------------------------------------------------------------------------- the rest
@pytest.mark.parametrize(
    "loss",
    [
        lambda rng: gtv.SquaredError(rng.normal(size=(5, 3)), rng.normal(size=5)) + 0.2 * gtv.L1(),
        lambda rng: gtv.Huber(rng.normal(size=(5, 3)), rng.normal(size=5), delta=0.3),
        lambda rng: gtv.Quantile(rng.normal(size=(7, 3)), rng.normal(size=7), tau=0.3),
        lambda rng: gtv.Hinge(rng.normal(size=(9, 3)), rng.choice([-1, 1], size=9)) + 0.1 * gtv.SquaredDistance(0.0),
        lambda rng: (
            gtv.Ridge(rng.normal(size=(2, 3)), rng.normal(size=2), lam=0.1, penalise=[1, 1, 0]) + gtv.NonNegative()
        ),
        lambda rng: gtv.SquaredDistance(rng.normal(size=3)) + gtv.Linear(rng.normal(size=3)),
        lambda rng: gtv.Logistic(rng.normal(size=(9, 3)), rng.choice([-1, 1], size=9)) + 0.1 * gtv.L1(),
        lambda rng: gtv.Poisson(rng.normal(size=(9, 3)), rng.poisson(1.0, size=9)) + gtv.Ball(5.0),
        lambda rng: gtv.Softmax(rng.normal(size=(20, 1)), rng.integers(0, 3, size=20), classes=3) + 0.1 * gtv.L1(),
        lambda rng: (
            gtv.Quadratic([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.0]], [1.0, -1.0, 0.0]) + 0.1 * gtv.L1()
        ),
    ],
)
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_as_tight_as_the_plain_certificate(loss: Callable[..., gtv.Loss], penalty: gtv.Penalty) -> None:
    rng = np.random.default_rng(5)
    losses = [loss(rng) for _ in range(4)]
    problem = gtv.GTVMin(nx.cycle_graph(4), losses, penalty=penalty, alpha=0.1)
    solution = problem.solve(gap=1e-6)
    plain = solution.certificate
    certificate = gtv.certify(problem, solution.weights, duals=plain.duals, rigorous=True)
    floor = 1e-12 * abs(plain.primal)
    assert plain.gap - plain.rounding - floor <= certificate.gap <= 1.001 * plain.gap + floor
    assert certificate.primal == pytest.approx(plain.primal, rel=1e-13)
    assert certificate.per_edge.sum() == pytest.approx(plain.per_edge.sum(), rel=1e-3, abs=floor)


def test_piecewise_losses_in_rationals() -> None:
    """One device: ``|w - 1| / 3 + w^2 / 10`` has its minimum where ``w / 5 = 1 / 3``, outside [0, 1]: at w = 1."""
    loss = gtv.LeastAbsolute([[1.0], [0.0], [0.0]], [1.0, 0.0, 0.0]) + 0.1 * gtv.SquaredDistance([0.0])
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=["a"]), {"a": loss}, penalty=gtv.Norm(1), alpha=1.0)
    optimum = Fraction(0.1)
    for w in (1.0, np.nextafter(1.0, 2), 0.9, 2.0):
        W = np.array([[w]])
        certificate = gtv.certify(problem, W, np.zeros((0, 1)), rigorous=True)
        value = abs(Fraction(w) - 1) / 3 + Fraction(0.1) * Fraction(w) ** 2
        assert Fraction(certificate.primal) >= value
        assert Fraction(certificate.gap) >= value - optimum


def test_other_penalties_are_named() -> None:
    net = gtv.FLNetwork.from_edges([("a", "b")])
    squares = gtv.SquaredError([[1.0]], [1.0])
    problem = gtv.GTVMin(net, {"a": squares, "b": squares}, penalty=HuberPenalty(1.0), alpha=1.0)
    with pytest.raises(CapabilityError, match=r"penalty Huber.*no exact evaluation"):
        gtv.certify(problem, np.zeros((2, 1)), rigorous=True)


def test_an_unbounded_problem_has_an_infinite_gap() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1)])
    problem = gtv.GTVMin(net, [gtv.Linear([1.0]), gtv.Zero()], penalty=gtv.Norm(1), alpha=1.0)
    certificate = gtv.certify(problem, np.zeros((2, 1)), np.zeros((1, 1)), rigorous=True)
    assert certificate.gap == np.inf
    assert certificate.dual == -np.inf


def test_parameters_outside_a_constraint_have_an_infinite_gap() -> None:
    loss = gtv.SquaredDistance([-1.0]) + gtv.NonNegative()
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), [loss, loss], penalty=gtv.Norm(1), alpha=1.0)
    assert gtv.certify(problem, [[-1e-300], [0.0]], [[0.0]], rigorous=True).gap == np.inf
    solution = problem.solve(gap=1e-9)
    assert gtv.certify(problem, solution.weights, duals=solution.certificate.duals, rigorous=True).relative_gap <= 1e-9


def test_devices_of_different_sizes_and_two_families_of_edges() -> None:
    rng = np.random.default_rng(1)
    dims = [2, 2, 3, 3]
    losses = [gtv.SquaredError(rng.normal(size=(5, d)), rng.normal(size=5)) for d in dims]
    net = gtv.FLNetwork.from_edges([(0, 1), (2, 3)])
    problem = gtv.GTVMin(net, losses, penalty={(0, 1): gtv.Norm(2), (2, 3): gtv.SquaredNorm()}, alpha=0.2)
    problem = problem.couple(gtv.FLNetwork.from_edges([(2, 3, 0.5)]), gtv.Norm(1), 0.1)
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, solution.flows, rigorous=True)
    assert certificate.relative_gap <= 1e-9


def test_it_says_theorem_and_is_proved_anew_when_loaded(tmp_path: object) -> None:
    problem = problem_with_gaps_in_rank(1, gtv.Norm(2))
    solution = problem.solve(gap=1e-8)
    certificate = problem.certify(solution.weights, solution.flows, rigorous=True)
    assert str(certificate).startswith("Certificate (theorem)")
    assert certificate.rounding == 0.0
    assert np.allclose(certificate.U, solution.flows, atol=1e-8)
    loaded = gtv.load_certificate(certificate.save(tmp_path / "proof.json"), problem)  # type: ignore[operator]
    assert loaded.rigorous
    assert loaded.gap == pytest.approx(certificate.gap, rel=1e-6)
