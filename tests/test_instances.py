"""Small instances with an answer known by hand, by CVXPY, or from a symmetry of the problem."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

import gtvmin as gtv
from gtvmin.penalties.norm import project_rows
from models import FITTING, PENALTIES, cvxpy_optimum, half_squares, point_problem, scalar_problem

NORMS = ["l1", "l2", "linf"]
EVERY = [*FITTING, *((penalty, "cvxpy") for penalty in PENALTIES)]
WELL_SCALED = [(penalty, method) for penalty, method in EVERY if method != "primal_dual"]
"""The plain primal-dual method has the steps of its paper, which suit problems of unit scale without near ties."""

numbers = st.floats(-100, 100).map(lambda x: round(x, 6))
positive = st.floats(-2, 2).map(lambda exponent: 10**exponent)


def solve(problem: gtv.GTVMin, method: str, gap: float = 1e-9) -> gtv.Solution:
    """Solve to a gap that CVXPY's answers reach as well."""
    solution = problem.solve(method, gap=1e-7 if method == "cvxpy" else gap)
    assert solution.is_certified
    return solution


# Closed forms


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(a=numbers, b=numbers, weight=positive, alpha=positive)
@example(a=0.0, b=0.0, weight=1.0, alpha=1.0)
@example(a=3.0, b=3.0, weight=1.0, alpha=1e-2)
@settings(max_examples=10)
def test_two_numbers(penalty: str, method: str, a: float, b: float, weight: float, alpha: float) -> None:
    """Each end moves to the other: by alpha A until they meet, or by the share 2 alpha A / (1 + 4 alpha A)."""
    strength = alpha * weight
    problem = scalar_problem(gtv.FLNetwork.from_edges([("a", "b", weight)]), {"a": a, "b": b}, penalty, alpha)
    if penalty == "sq":
        move = 2 * strength / (1 + 4 * strength) * (b - a)
        optimum = move**2 + strength * (b - a - 2 * move) ** 2
    else:
        move = np.clip((b - a) / 2, -strength, strength)
        optimum = move**2 + strength * abs(b - a - 2 * move)
    solution = solve(problem, method)
    size = max(abs(a), abs(b))
    # the gap is relative to the objective, but to no less than 1e-4 of that of zero parameters
    accuracy = 1e-7 if method == "cvxpy" else 1e-9
    assert solution.objective == pytest.approx(optimum, rel=accuracy, abs=accuracy * 1e-4 * size**2)
    assert (solution["a"][0], solution["b"][0]) == pytest.approx((a + move, b - move), abs=1e-3 * size)
    assert solution.flow("a", "b") == pytest.approx(move, abs=1e-3 * size)


def prox(penalty: str, v: np.ndarray, step: float) -> np.ndarray:
    """``argmin phi(z) + ||z - v||^2 / (2 step)``, the norms' by Moreau's identity with bisection."""
    if penalty == "sq":
        return v / (1 + 2 * step)
    if penalty == "l1":
        return np.sign(v) * np.maximum(np.abs(v) - step, 0)
    if penalty == "l2":
        return max(1 - step / np.linalg.norm(v), 0) * v
    if np.abs(v).sum() <= step:
        return np.zeros_like(v)
    level = brentq(lambda t: np.maximum(np.abs(v) - t, 0).sum() - step, 0, np.abs(v).max(), xtol=1e-14)
    return np.clip(v, -level, level)


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(seed=st.integers(0, 10**6), alpha=positive)
@settings(max_examples=10)
def test_two_vectors(penalty: str, method: str, seed: int, alpha: float) -> None:
    """The mean stays, and the difference goes to its prox with step 2 alpha."""
    first, second = np.random.default_rng(seed).normal(size=(2, 3))
    solution = solve(point_problem(nx.path_graph(2), [first, second], penalty, alpha), method)
    assert solution[0] + solution[1] == pytest.approx(first + second, abs=1e-3)
    assert solution[1] - solution[0] == pytest.approx(prox(penalty, second - first, 2 * alpha), abs=1e-3)


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=st.integers(0, 10**6), leaves=st.integers(1, 6), alpha=positive)
@settings(max_examples=8)
def test_star_with_an_unlabelled_centre(penalty: str, method: str, seed: int, leaves: int, alpha: float) -> None:
    """The leaves can be minimised out: a sum of envelopes of the centre's number is left."""
    y = np.random.default_rng(seed).normal(size=leaves)
    solution = solve(scalar_problem(nx.star_graph(leaves), dict(enumerate(y, start=1)), penalty, alpha), method)
    if penalty == "sq":
        assert solution[0] == pytest.approx(y.mean(), abs=1e-4)
        assert solution.weights[1:, 0] == pytest.approx((y + 2 * alpha * y.mean()) / (1 + 2 * alpha), abs=1e-4)
        return

    def huber(centre: float) -> float:
        distance = np.abs(centre - y)
        return float(np.where(distance <= alpha, distance**2 / 2, alpha * distance - alpha**2 / 2).sum())

    best = minimize_scalar(huber, bounds=(y.min(), y.max()), method="bounded", options={"xatol": 1e-9}).fun
    floor = 1e-4 * 0.5 * (y**2).sum()
    assert solution.objective == pytest.approx(best, rel=1e-7, abs=1e-7 * floor + 1e-14)


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 8), alpha=positive)
@settings(max_examples=8)
def test_path_with_labels_at_its_ends(penalty: str, method: str, seed: int, n: int, alpha: float) -> None:
    """Edges in series: conductances of the squared norm combine as of resistors, of a norm the weakest is left."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.2, 2.0, n - 1)
    path = gtv.FLNetwork.from_edges([(i, i + 1, w) for i, w in enumerate(weights)])
    combined = 1 / (1 / weights).sum() if penalty == "sq" else weights.min()
    pair = gtv.FLNetwork.from_edges([(0, n - 1, combined)])
    targets = {0: 0.0, n - 1: 5.0}
    long = solve(scalar_problem(path, targets, penalty, alpha), method)
    short = solve(scalar_problem(pair, targets, penalty, alpha), method)
    assert long.objective == pytest.approx(short.objective, rel=3e-7)
    assert (long[0], long[n - 1]) == (pytest.approx(short[0], abs=5e-3), pytest.approx(short[n - 1], abs=5e-3))
    for i in range(n - 1):  # all that leaves one end reaches the other
        assert long.flow(i, i + 1) == pytest.approx(short.flow(0, n - 1), abs=5e-3)


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=st.integers(0, 10**6), alpha=positive)
@settings(max_examples=8)
def test_an_edge_split_in_two(penalty: str, method: str, seed: int, alpha: float) -> None:
    """Half of an edge's weight goes through each of two unlabelled nodes, to the same effect."""
    rng = np.random.default_rng(seed)
    targets = dict(enumerate(rng.normal(size=3)))
    first, second = rng.uniform(0.2, 2.0, 2)
    plain = gtv.FLNetwork.from_edges([(0, 1, first), (1, 2, second)])
    way = first if penalty == "sq" else first / 2  # two edges in series have half the conductance of each
    ways = [(0, "x", way), ("x", 1, way), (0, "y", way), ("y", 1, way)]
    split = gtv.FLNetwork.from_edges([*ways, (1, 2, second)], nodes=[0, 1, 2, "x", "y"])
    one = solve(scalar_problem(plain, targets, penalty, alpha), method)
    two = solve(scalar_problem(split, targets, penalty, alpha), method)
    floor = 1e-4 * 0.5 * sum(y**2 for y in targets.values())
    assert two.objective == pytest.approx(one.objective, rel=3e-7, abs=3e-7 * floor)
    assert two.weights[:3] == pytest.approx(one.weights, abs=2e-3)


@pytest.mark.parametrize("method", ["primal_dual", "adaptive_primal_dual", "linear_system", "cvxpy"])
@given(seed=st.integers(0, 10**6), n=st.integers(2, 7), alpha=positive)
@settings(max_examples=8)
def test_complete_graph_shrinks_to_the_mean(method: str, seed: int, n: int, alpha: float) -> None:
    """The Laplacian is n I less a matrix of ones: each number keeps 1 / (1 + 2 alpha n) of its deviation."""
    y = np.random.default_rng(seed).normal(size=n)
    solution = solve(scalar_problem(nx.complete_graph(n), dict(enumerate(y)), "sq", alpha), method)
    assert solution.weights[:, 0] == pytest.approx(y.mean() + (y - y.mean()) / (1 + 2 * alpha * n), abs=1e-4)


@pytest.mark.parametrize("penalty", NORMS)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 8))
@settings(max_examples=10)
def test_path_just_above_and_below_full_fusion(penalty: str, seed: int, n: int) -> None:
    """The flows of a fused path are the partial sums of its targets' deviations; their largest is the threshold."""
    y = np.random.default_rng(seed).normal(size=n)
    threshold = np.abs(np.cumsum(y - y.mean())).max()
    targets, spread = dict(enumerate(y)), 0.5 * ((y - y.mean()) ** 2).sum()
    above = solve(scalar_problem(nx.path_graph(n), targets, penalty, 1.01 * threshold), "auto")
    assert above.objective == pytest.approx(spread, rel=1e-8)
    assert above.flows[:, 0] == pytest.approx(np.cumsum(y.mean() - y)[:-1], abs=1e-3)
    below = solve(scalar_problem(nx.path_graph(n), targets, penalty, 0.9 * threshold), "auto")
    assert below.objective < spread * (1 - 1e-6)


# CVXPY on every shape of network

SHAPES = {
    "two nodes": nx.path_graph(2),
    "star": nx.star_graph(4),
    "path": nx.path_graph(5),
    "no edges": nx.empty_graph(3),
    "disconnected": nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2)),
    "isolated node": nx.disjoint_union(nx.complete_graph(3), nx.empty_graph(1)),
}


def regression(graph: nx.Graph, seed: int, penalty: str, alpha: float = 0.3) -> gtv.GTVMin:
    """Regressions with 2 parameters: full rank, rank one, ridge, and repeated rows in turn; random weights."""
    rng = np.random.default_rng(seed)
    weighted = nx.Graph()
    weighted.add_nodes_from(graph)
    weighted.add_weighted_edges_from((u, v, rng.uniform(0.3, 3)) for u, v in graph.edges)
    losses = {}
    for i, node in enumerate(graph):
        X, y = rng.normal(size=(4, 2)), rng.normal(size=4)
        losses[node] = [
            gtv.SquaredError(X, y),
            half_squares(X[:1], y[:1]) + gtv.Ridge(X[1:], y[1:], lam=0.1, penalise=[1, 0], scale="sum"),
            gtv.SquaredError(np.repeat(X[:2], 2, axis=0), y) + 0.5 * gtv.Ridge(X[:1], y[:1], lam=0.2),
        ][i % 3]
    return gtv.GTVMin(weighted, losses, penalty=PENALTIES[penalty], alpha=alpha)


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_against_cvxpy(shape: str, penalty: str, method: str) -> None:
    problem = regression(SHAPES[shape], 3, penalty)
    solution = solve(problem, method)
    optimum = cvxpy_optimum(problem, penalty)
    assert solution.objective == pytest.approx(optimum, rel=2e-7)
    assert solution.certificate.dual <= optimum * (1 + 1e-7)
    assert solution.undetermined == ()


# Symmetries


def assert_same(first: gtv.Solution, second: gtv.Solution, nodes: Any = None, transform: Any = None) -> None:
    """The solutions agree at every node within the sum of the two certified radii, after a transform of the second."""
    nodes = first.problem.network.nodes if nodes is None else nodes
    for node in nodes:
        i, j = (solution.problem.network.index(node) for solution in (first, second))
        other = second[node] if transform is None else transform(second[node])
        assert np.linalg.norm(first[node] - other) <= first.certificate.radius[i] + second.certificate.radius[j]
        assert first.certificate.radius[i] < 0.02


GRAPH = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (1, 4)])
seeds = st.integers(0, 10**6)


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(seed=seeds, order=st.permutations(range(5)), flips=st.lists(st.booleans(), min_size=6, max_size=6))
@settings(max_examples=5)
def test_order_of_nodes_and_direction_of_edges(
    penalty: str, method: str, seed: int, order: list[int], flips: list[bool]
) -> None:
    problem = regression(GRAPH, seed, penalty)
    net = problem.network
    edges = [(v, u) if flip else (u, v) for (u, v), flip in zip(net.edges, flips, strict=True)]
    shuffled = gtv.FLNetwork.from_edges(edges[::-1], net.weights[::-1], nodes=order)
    losses = dict(zip(net.nodes, problem.losses, strict=True))
    first = solve(problem, method)
    second = solve(gtv.GTVMin(shuffled, losses, penalty=problem.penalty, alpha=problem.alpha), method)
    assert second.objective == pytest.approx(first.objective, rel=2e-7)
    assert_same(first, second)
    for u, v in net.edges:
        assert second.flow(u, v) == pytest.approx(-second.flow(v, u))


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(seed=seeds, copies=st.integers(2, 4))
@settings(max_examples=5)
def test_repeated_rows_leave_a_mean_as_it_is(penalty: str, method: str, seed: int, copies: int) -> None:
    """And a sum of squares is then as many times a mean."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 3, 2)), rng.normal(size=(5, 3))
    once = [gtv.SquaredError(X[i], y[i]) for i in range(5)]
    often = [gtv.SquaredError(np.tile(X[i], (copies, 1)), np.tile(y[i], copies)) for i in range(5)]
    summed = [
        1 / (3 * copies) * gtv.SquaredError(np.repeat(X[i], copies, axis=0), np.repeat(y[i], copies), scale="sum")
        for i in range(5)
    ]
    first, second, third = (
        solve(gtv.GTVMin(GRAPH, losses, penalty=PENALTIES[penalty], alpha=0.2), method)
        for losses in (once, often, summed)
    )
    assert second.objective == pytest.approx(first.objective, rel=2e-7)
    assert third.objective == pytest.approx(first.objective, rel=2e-7)
    for i in range(5):
        assert second[i] == pytest.approx(first[i], abs=1e-2)
        assert third[i] == pytest.approx(first[i], abs=1e-2)


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=seeds, exponent=st.integers(-6, 6))
@settings(max_examples=5)
def test_losses_and_alpha_times_a_constant(penalty: str, method: str, seed: int, exponent: int) -> None:
    c = 10.0**exponent
    problem = regression(GRAPH, seed, penalty)
    losses = [c * loss for loss in problem.losses]
    scaled = gtv.GTVMin(problem.network, losses, penalty=problem.penalty, alpha=c * problem.alpha)
    first, second = solve(problem, method), solve(scaled, method)
    assert second.objective == pytest.approx(c * first.objective, rel=2e-7)
    assert_same(first, second)
    W = np.random.default_rng(seed).normal(size=(5, 2))
    assert gtv.certify(scaled, W, c * first.flows).gap == pytest.approx(
        c * gtv.certify(problem, W, first.flows).gap, rel=1e-9
    )


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=seeds, exponent=st.integers(-6, 6))
@settings(max_examples=5)
def test_weights_times_a_constant(penalty: str, method: str, seed: int, exponent: int) -> None:
    """Weights over alpha: only their product is in the problem."""
    c = 10.0**exponent
    problem = regression(GRAPH, seed, penalty)
    net = problem.network
    weighted = gtv.FLNetwork.from_edges(net.edges, c * net.weights, nodes=net.nodes)
    other = gtv.GTVMin(weighted, problem.losses, penalty=problem.penalty, alpha=problem.alpha / c)
    first, second = solve(problem, method), solve(other, method)
    assert second.objective == pytest.approx(first.objective, rel=2e-7)
    assert_same(first, second)


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(seed=seeds, shift=st.tuples(numbers, numbers))
@settings(max_examples=5)
def test_targets_moved_along(penalty: str, method: str, seed: int, shift: tuple[float, float]) -> None:
    """The penalty sees differences only: targets of parameters moved by t move the parameters by t."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4))
    t = np.array(shift) / 20
    first, second = (
        solve(
            gtv.GTVMin(
                GRAPH,
                [gtv.SquaredError(X[i], y[i] + X[i] @ move) for i in range(5)],
                penalty=PENALTIES[penalty],
                alpha=0.2,
            ),
            method,
            gap=1e-10,
        )
        for move in (np.zeros(2), t)
    )
    assert second.objective == pytest.approx(first.objective, rel=2e-7, abs=1e-9)
    assert np.abs(second.weights - t - first.weights).max() < 0.02


@pytest.mark.parametrize(("penalty", "method"), WELL_SCALED)
@given(seed=seeds, exponent=st.integers(-5, 5))
@settings(max_examples=5)
def test_targets_times_a_constant(penalty: str, method: str, seed: int, exponent: int) -> None:
    """Parameters are in the unit of the targets; alpha of a norm takes one factor to keep up with the loss."""
    c = -(10.0**exponent)
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4))
    alpha = 0.2
    first, second = (
        solve(
            gtv.GTVMin(
                GRAPH,
                [gtv.SquaredError(X[i], factor * y[i]) for i in range(5)],
                penalty=PENALTIES[penalty],
                alpha=alpha if penalty == "sq" else alpha * abs(factor),
            ),
            method,
        )
        for factor in (1.0, c)
    )
    assert second.objective == pytest.approx(c**2 * first.objective, rel=2e-7)
    assert second.weights / c == pytest.approx(first.weights, abs=0.01)
    assert second.flows / c == pytest.approx(first.flows, abs=0.01)


@pytest.mark.parametrize(("penalty", "method"), [pair for pair in EVERY if pair[0] in ("sq", "l2")])
@given(seed=seeds, angle=st.floats(0, 6.3))
@settings(max_examples=5)
def test_features_rotated(penalty: str, method: str, seed: int, angle: float) -> None:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 4, 2)), rng.normal(size=(5, 4))
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    first, second = (
        solve(
            gtv.GTVMin(
                GRAPH,
                [gtv.SquaredError(X[i] @ turn, y[i]) for i in range(5)],
                penalty=PENALTIES[penalty],
                alpha=0.2,
            ),
            method,
        )
        for turn in (np.eye(2), rotation)
    )
    assert second.objective == pytest.approx(first.objective, rel=2e-7)
    assert_same(first, second, transform=lambda w: rotation @ w)


@pytest.mark.parametrize(("penalty", "method"), EVERY)
@given(seed=seeds)
@settings(max_examples=3)
def test_components_do_not_see_each_other(penalty: str, method: str, seed: int) -> None:
    parts = [regression(nx.relabel_nodes(nx.path_graph(3), lambda i, s=s: (s, i)), seed + s, penalty) for s in (0, 1)]
    edges = [edge for part in parts for edge in part.network.edges]
    weights = np.concatenate([part.network.weights for part in parts])
    losses = {v: loss for part in parts for v, loss in zip(part.network.nodes, part.losses, strict=True)}
    network = gtv.FLNetwork.from_edges(edges, weights, nodes=losses)
    together = solve(gtv.GTVMin(network, losses, penalty=PENALTIES[penalty], alpha=0.3), method)
    apart = [solve(part, method) for part in parts]
    assert together.objective == pytest.approx(sum(part.objective for part in apart), rel=2e-7)
    for part in apart:
        assert_same(part, together)


@pytest.mark.parametrize("penalty", PENALTIES)
@given(seed=seeds, alphas=st.tuples(positive, positive))
@settings(max_examples=10)
def test_the_optimum_is_concave_and_rises_with_alpha(penalty: str, seed: int, alphas: tuple[float, float]) -> None:
    """It is the least of functions that are affine in alpha; and with_alpha is a problem of its own."""
    problem = regression(GRAPH, seed, penalty)
    low, high = sorted(alphas)
    values = [problem.with_alpha(a).solve(gap=1e-9).objective for a in (low, (low + high) / 2, high)]
    assert values[0] <= values[1] * (1 + 2e-9) <= values[2] * (1 + 4e-9)
    assert values[1] >= (values[0] + values[2]) / 2 * (1 - 4e-9)
    anew = gtv.GTVMin(problem.network, problem.losses, penalty=problem.penalty, alpha=high)
    assert anew.hash == problem.with_alpha(high).hash


# The one projection that is not a formula


@given(
    row=st.lists(st.floats(-1e12, 1e12).map(lambda x: round(x, 3)), min_size=1, max_size=5),
    exponent=st.integers(-12, 6),
)
@settings(max_examples=100)
def test_projection_onto_the_l1_ball(row: list[float], exponent: int) -> None:
    """In exact arithmetic: entries shrink by one level, so that their sizes add up to the radius."""
    radius = 10.0**exponent
    sizes, r = [abs(Fraction(x)) for x in row], Fraction(radius)
    expected = row
    if sum(sizes) > r:
        ordered = sorted(sizes, reverse=True)
        level = max((sum(ordered[:k]) - r) / k for k in range(1, len(row) + 1))
        expected = [float(np.sign(x)) * float(max(size - level, 0)) for x, size in zip(row, sizes, strict=True)]
    assert project_rows(np.array([row]), np.array([radius]), 1.0)[0] == pytest.approx(
        expected, rel=1e-12, abs=1e-14 * radius
    )
