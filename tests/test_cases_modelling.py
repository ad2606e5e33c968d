"""Cases from public trackers: what a modelling layer and its numerics get wrong."""

from __future__ import annotations

import tracemalloc
from typing import Any

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import solveh_banded

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning, NotUniqueWarning
from gtvmin.reference import solve_reference, to_cvxpy
from models import FITTING, PENALTIES, cvxpy_optimum, half_squares, methods, point_problem, scalar_problem

OBSERVED = {0: 1.0, 3: 4.0, 5: 10.0}


@pytest.mark.parametrize("method", [*methods("sq"), "cvxpy"])
def test_c12_chain_with_missing_observations(method: str) -> None:
    """C12, cvxpy issue #1622: nodes without data get what the coupling gives them."""
    solution = scalar_problem(nx.path_graph(6), OBSERVED, "sq", 0.5).solve(method, gap=1e-9)
    assert solution.objective == pytest.approx(6.631578947, rel=1e-9)
    expected = [1.947368, 2.894737, 3.842105, 4.789474, 6.526316, 8.263158]
    assert solution.weights.ravel() == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("method", [*methods("l1"), "cvxpy"])
def test_c12_chain_with_missing_observations_fused(method: str) -> None:
    """C12: the optimum is 4.25; at the empty nodes the minimiser is not unique."""
    solution = scalar_problem(nx.path_graph(6), OBSERVED, "l1", 0.5).solve(method, gap=1e-9)
    assert solution.objective == pytest.approx(4.25, rel=1e-8)
    assert solution.weights.ravel()[[0, 3, 5]] == pytest.approx([1.5, 4.0, 9.5], abs=1e-4)


def long_chain(n: int, penalty: str) -> gtv.GTVMin:
    """A noisy wave, a fifth of it and its end not observed."""
    rng = np.random.default_rng(0)
    values = np.sin(np.arange(n) / 50) + 0.1 * rng.normal(size=n)
    seen = np.flatnonzero(rng.random(n - 3) > 0.2)
    network = gtv.FLNetwork.from_edges(np.column_stack([np.arange(n - 1), np.arange(1, n)]))
    return scalar_problem(network, {int(i): values[i] for i in seen}, penalty, 1.0)


def test_c12_very_long_chain() -> None:
    """C12: against the tridiagonal system ``(S + 2 alpha L) w = S y``."""
    n = 20_000
    problem = long_chain(n, "sq")
    targets = {i: loss.terms()[0][1].y[0] for i, loss in enumerate(problem.losses) if loss.n_samples}
    bands, right = np.zeros((2, n)), np.zeros(n)
    bands[0, 1:] = -2.0
    bands[1] = [4.0 - 2.0 * (i in (0, n - 1)) + (i in targets) for i in range(n)]
    right[list(targets)] = list(targets.values())
    exact = solveh_banded(bands, right)
    solution = problem.solve(gap=1e-10)
    assert solution.is_certified
    assert np.abs(solution.weights[:, 0] - exact).max() < 1e-5
    by_hand = 0.5 * sum((exact[i] - y) ** 2 for i, y in targets.items()) + (np.diff(exact) ** 2).sum()
    assert solution.objective == pytest.approx(by_hand, rel=1e-10)

    fused = long_chain(n, "l1").solve(gap=1e-6)
    assert fused.is_certified


@pytest.mark.parametrize("penalty", ["sq", "l1"])
def test_c12_memory_grows_with_the_length_of_the_chain(penalty: str) -> None:
    """C12: four times the chain takes about four times the memory, not sixteen."""
    long_chain(50, penalty).solve(gap=1e-4)  # load and compile everything first

    def peak(n: int) -> int:
        tracemalloc.start()
        long_chain(n, penalty).solve(gap=1e-4)
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(8000) < 6 * peak(2000)


def test_c13_models_are_built_without_a_loop_over_edges() -> None:
    """C13, cvxpy issues #1521, #1332, #886: one norm term an edge takes 9 s for 4,000 edges, one for all 0.1 s."""
    points = np.random.default_rng(0).normal(size=(4000, 2))
    problem = point_problem(nx.path_graph(4000), points, "l2", 0.1)
    model = to_cvxpy(problem)
    # the tree of expressions has the same few nodes whatever the number of edges
    assert len(str(model)) < 1000
    reference = solve_reference(problem)
    assert reference.compile_seconds < 5
    for alpha in np.geomspace(0.01, 1, 5):
        solution = problem.with_alpha(alpha).solve(gap=1e-6)
        assert solution.is_certified
        if alpha == pytest.approx(0.1):
            assert solution.objective == pytest.approx(reference.value, rel=2e-6)


@pytest.mark.parametrize("nodes", [[0, 1], [1, 0]])
@pytest.mark.parametrize("method", [*methods("l1"), "cvxpy"])
def test_c14_sign_of_the_flow(method: str, nodes: list[int]) -> None:
    """C14, cvxpy issues #2849, #824, #1464: a sign of duals that nobody has stated.

    Here ``-(D^T U)_i`` is a gradient of the loss of device i: what leaves a device, less what reaches it.  Between
    targets 0 and 3 with alpha = 1 the parameters are 1 and 2, device 0 has gradient 1 and device 1 has -1, so that 1
    flows from 0 to 1, whichever of the two is the tail.
    """
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edge(1, 0)
    solution = scalar_problem(graph, {0: 0.0, 1: 3.0}, "l1", 1.0).solve(method, gap=1e-10)
    assert (solution[0][0], solution[1][0]) == pytest.approx((1.0, 2.0), abs=1e-4)
    assert solution.flow(0, 1) == pytest.approx([1.0], abs=1e-6)
    assert solution.flow(1, 0) == pytest.approx([-1.0], abs=1e-6)
    assert solution.problem.network.edges == (tuple(nodes),)
    assert solution.flows[0, 0] == pytest.approx(1.0 if nodes == [0, 1] else -1.0, abs=1e-6)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c14_flows_are_conserved(penalty: str) -> None:
    """C14: what a device sends out is the gradient of its loss, and a device without a loss passes all on."""
    rng = np.random.default_rng(14)
    X, y = rng.normal(size=(6, 5, 2)), rng.normal(size=(6, 5))
    losses = {i: gtv.SquaredError(X[i], y[i]) if i != 3 else gtv.Zero(2) for i in range(6)}
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 4)])
    solution = gtv.GTVMin(net, losses, penalty=PENALTIES[penalty], alpha=0.05).solve(gap=1e-13)
    graph = net.to_networkx()
    for i in range(6):
        sent = sum(solution.flow(i, j) for j in graph.neighbors(i))
        gradient = 2 / 5 * X[i].T @ (X[i] @ solution[i] - y[i]) if i != 3 else np.zeros(2)
        assert sent == pytest.approx(gradient, abs=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_c15_no_result_from_data_that_are_not_finite(bad: float) -> None:
    """C15, cvxpy issue #1770 (value nan, status optimal) and jankrepl/deepdow issue #73 (an empty assertion)."""
    y = np.array([0.0, 1.0, bad])
    with pytest.raises(ValueError, match=rf"y has a {bad} value at position 2"):
        gtv.SquaredError(np.ones((3, 1)), y)
    with pytest.raises(ValueError, match=rf"X has a {bad} value at position \(1, 0\)"):
        gtv.Ridge([[1.0], [bad]], [0.0, 1.0], lam=1.0)
    with pytest.raises(ValueError, match=rf"y has a {bad}") as raised:
        gtv.GTVMin(nx.path_graph(3), lambda i: half_squares([[1.0]], y[[i]]), penalty=gtv.Norm(2), alpha=1.0)
    assert raised.value.__notes__ == ["in the loss of node 2"]
    with pytest.raises(ValueError, match="lam must be a finite number"):
        gtv.NetworkLasso(nx.path_graph(2), lambda i: half_squares([[1.0]], [i]), lam=bad)
    if bad != np.inf:  # an infinite alpha means consensus
        with pytest.raises(ValueError, match="alpha must be a finite number"):
            scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, "l2", bad)
    with pytest.raises(ValueError, match=rf"W has a {bad} value at position \(1, 0\)"):
        scalar_problem(nx.path_graph(2), {0: 0.0, 1: 1.0}, "l2", 1.0).certify([[0.0], [bad]])


def level_scale_problem(alpha: float) -> tuple[gtv.GTVMin, Any]:
    """Employment-like levels: X and y of every node multiplied by a number between 4e3 and 8e5."""
    rng = np.random.default_rng(1)
    size = 10 ** rng.uniform(3.6, 5.9, 60)
    X = [s * np.column_stack([np.ones(8), rng.normal(size=8)]) for s in size]
    y = [s * rng.normal(size=8) for s in size]
    losses = [half_squares(*rows) for rows in zip(X, y, strict=True)]

    def value(W: Any) -> float:
        fit = sum(0.5 * ((Xi @ w - yi) ** 2).sum() for Xi, yi, w in zip(X, y, W, strict=True))
        return float(fit + alpha * np.linalg.norm(np.diff(W, axis=0), axis=1).sum())

    return gtv.GTVMin(nx.path_graph(60), losses, penalty=gtv.Norm(2), alpha=alpha), value


@pytest.mark.parametrize("alpha", [1e6, 1e9, 1e11])
def test_c17_data_in_levels(alpha: float) -> None:
    """C17, jgreathouse9/mlsynth issue #331, cvxpy issue #1085: inaccurate answers taken for optimal.

    The objective is that of the returned parameters, and it is within the gap of the value that Clarabel finds.
    """
    problem, value = level_scale_problem(alpha)
    solution = problem.solve(gap=1e-6)
    assert solution.is_certified
    assert solution.objective == pytest.approx(value(solution.weights), rel=1e-11)
    reference = problem.solve("cvxpy", gap=1e-6)
    assert reference.is_certified
    assert reference.objective == pytest.approx(value(reference.weights), rel=1e-11)
    assert solution.certificate.dual <= reference.objective * (1 + 1e-12)
    assert solution.objective == pytest.approx(reference.objective, rel=2e-6)


def test_c17_the_status_comes_from_the_gap() -> None:
    """C17: the plain method does not get there in 50 steps, and says so."""
    problem, value = level_scale_problem(1e9)
    with pytest.warns(ConvergenceWarning, match="after 50 iterations"):
        solution = problem.solve("primal_dual", max_iter=50)
    assert solution.status is gtv.Status.ITERATION_LIMIT
    assert solution.relative_gap > 1e-6
    assert value(solution.weights) - problem.solve().objective <= solution.gap


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint8, np.float32, bool, object])
def test_c52_numeric_dtypes(dtype: Any) -> None:
    """C52, nums-project/nums issue #141, statsmodels issue #3919: X.T @ X in int8 is 32 instead of 20,000."""
    X = np.array([[100], [100]]).astype(dtype)
    y = np.array([50, 50] if dtype is not bool else [1, 0]).astype(dtype)
    problem = gtv.GTVMin(nx.path_graph(2), [half_squares(X, y)] * 2, penalty=gtv.Norm(2), alpha=1)
    assert problem.solve(gap=1e-12).weights == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("bad", [[["a"], ["b"]], [[1j], [1.0]], [[None], [1.0]]])
def test_c52_what_is_no_real_number(bad: Any) -> None:
    """C52, scikit-learn issue #23376."""
    with pytest.raises(TypeError, match="X must hold real numbers"):
        gtv.SquaredError(bad, np.zeros(2))
    with pytest.raises(TypeError, match="y must hold real numbers"):
        gtv.SquaredError(np.ones((2, 1)), np.ravel(bad))


@pytest.mark.parametrize("alpha", [1e-2, 10.0])
@pytest.mark.parametrize(("penalty", "method"), [*FITTING, ("l2", "cvxpy")])
def test_c54_devices_that_determine_their_parameters_together(penalty: str, method: str, alpha: float) -> None:
    """C54, scikit-learn issue #22947: each device knows one of the two parameters; both fit perfectly."""
    losses = [half_squares([[1.0, 0.0]], [1.0]), half_squares([[0.0, 1.0]], [2.0])]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=PENALTIES[penalty], alpha=alpha)
    solution = problem.solve(method, gap=1e-8)
    assert solution.is_certified
    assert solution.objective == pytest.approx(0.0, abs=1e-10)
    assert solution.weights == pytest.approx(np.array([[1.0, 2.0], [1.0, 2.0]]), abs=1e-3)


def test_c54_alone_they_are_not_determined() -> None:
    """C54: at alpha = 0 the answer is not unique, and the package says so."""
    losses = [half_squares([[1.0, 0.0]], [1.0]), half_squares([[0.0, 1.0]], [2.0])]
    problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.Norm(2), alpha=0.0)
    with pytest.warns(NotUniqueWarning, match="2 devices, the first is 0"):
        solution = problem.solve()
    assert solution.undetermined == (0, 1)
    assert (solution[0][0], solution[1][1]) == pytest.approx((1.0, 2.0))


def test_c54_unequal_shapes() -> None:
    """C54, TheAlgorithms/Python PR #13615: NumPy would broadcast (2,) against (2, 1)."""
    with pytest.raises(ValueError, match=r"y must have one entry per row of X: X has shape \(3, 2\), y \(4,\)"):
        gtv.SquaredError(np.ones((3, 2)), np.ones(4))
    with pytest.raises(ValueError, match="y must have one entry per row"):
        gtv.SquaredError(np.ones((2, 1)), np.ones((1, 2)))
    losses = {"a": half_squares([[1.0, 0.0]], [1.0]), "b": half_squares(np.ones((1, 3)), [1.0])}
    with pytest.raises(ValueError, match="node 'b' has 3 parameters and node 'a' has 2"):
        gtv.GTVMin(nx.Graph([("a", "b")]), losses, penalty=gtv.Norm(2), alpha=1.0)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c56_a_diagonal_data_term(penalty: str) -> None:
    """C56, "Almost but not quite univariate trend filtering" on the Julia forum: ``||y - A x||^2`` with diagonal A."""
    losses = [half_squares([[a]], [y]) for a, y in zip((1.0, 2.0, 1.0), (1.0, 6.0, 4.0), strict=True)]
    problem = gtv.GTVMin(nx.path_graph(3), losses, penalty=PENALTIES[penalty], alpha=0.0)
    assert problem.solve().weights.ravel() == pytest.approx([1.0, 3.0, 4.0], abs=1e-7)
    coupled = problem.with_alpha(0.7)
    assert coupled.solve(gap=1e-9).objective == pytest.approx(cvxpy_optimum(coupled, penalty), rel=1e-7)
