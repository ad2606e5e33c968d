"""Cases from public trackers: gaps, warnings, reproducibility, files, and what averages stand for."""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning
from models import PENALTIES, half_squares, methods, scalar_problem


@pytest.mark.parametrize("penalty", ["l1", "l2", "linf"])
def test_c09_which_of_two_answers_is_right(penalty: str) -> None:
    """C09, davidhallac/TVGL issue #9: one certificate decides between two solvers' answers."""
    problem = scalar_problem(nx.path_graph(2), {0: 0.0, 1: 3.0}, penalty, 1.0)
    right = gtv.certify(problem, {0: [1.0], 1: [2.0]})
    assert right.holds(1e-8)
    assert (right.primal, right.dual) == pytest.approx((2.0, 2.0))
    assert np.abs(right.U) == pytest.approx(1.0)
    wrong = gtv.certify(problem, {0: [1.1], 1: [1.9]})
    assert wrong.primal == pytest.approx(2.01)
    assert wrong.gap == pytest.approx(0.01, rel=1e-6)
    assert not wrong.holds(1e-6)


@pytest.mark.parametrize("weighting", ["sum", "mean"])
def test_c38_what_a_strong_coupling_averages(weighting: str) -> None:
    """C38, FedLab issue #305, shaoxiongji/federated-learning issue #20: means with and without sample counts.

    One sample at 0 and three at 4: sums of squares are pulled to 3, means to 2.
    """
    losses = [
        gtv.SquaredError([[1.0]], [0.0], scale=weighting),
        gtv.SquaredError(np.ones((3, 1)), np.full(3, 4.0), scale=weighting),
    ]
    average = {"sum": 3.0, "mean": 2.0}[weighting]
    for penalty in ("l1", "l2", "linf"):
        problem = gtv.GTVMin(nx.path_graph(2), losses, penalty=PENALTIES[penalty], alpha=100.0)
        assert problem.solve(gap=1e-13).weights == pytest.approx(average, abs=1e-5)
    squared = gtv.GTVMin(nx.path_graph(2), losses, penalty=gtv.SquaredNorm(), alpha=1e6)
    assert squared.solve(gap=1e-13).weights == pytest.approx(average, abs=1e-4)


def test_c40_prox_of_the_square() -> None:
    """C40, flower PR #2210, ki-ljl/FedProx-PyTorch issue #1: 1/2 (w - 4)^2 + 1/2 w^2 has its minimum at 2, not 3.5."""
    assert half_squares([[1.0]], [4.0]).prox([0.0], step=1.0) == pytest.approx([2.0])


def test_c40_the_limit_of_exact_fedprox() -> None:
    """C40: a star with a free centre and edges p_i mu / 2 has the limit of FedProx, which is no minimiser.

    Losses 1/2 a_i (w - b_i)^2 with a = (1, 9), b = (0, 10), mu = 1, plain mean: (90 / 10) / (1/2 + 9/10).
    """
    losses = {
        "server": gtv.Zero(1),
        "a": 0.5 * half_squares([[1.0]], [0.0]),
        "b": 0.5 * half_squares([[3.0]], [30.0]),
    }
    star = gtv.FLNetwork.from_edges([("server", "a"), ("server", "b")])
    solution = gtv.GTVMin(star, losses, penalty=gtv.SquaredNorm(), alpha=0.5 * 1.0 / 2).solve(gap=1e-12)
    assert solution["server"] == pytest.approx([6.428571429], abs=1e-6)
    assert solution["a"] == pytest.approx(solution["server"] / 2, abs=1e-6)  # prox at the server's model
    together = gtv.GTVMin(star, losses, penalty=gtv.Norm(1), alpha=100.0).solve(gap=1e-12)
    assert together["server"] == pytest.approx([9.0], abs=1e-4)


CYCLE = {i: float(i) for i in range(9)}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c47_the_same_problem_gives_the_same_bits(penalty: str) -> None:
    """C47, FL4Health PR #278, flower issue #1845, FLamby issue #170: global random state is neither read nor set."""
    np.random.seed(1)  # noqa: NPY002 - the legacy global state is what may not be touched
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    first = scalar_problem(nx.cycle_graph(9), CYCLE, penalty, 1.0).solve()
    np.random.rand(5)  # noqa: NPY002
    second = scalar_problem(nx.cycle_graph(9), CYCLE, penalty, 1.0).solve()
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(first.weights, second.weights)
    assert np.array_equal(first.flows, second.flows)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("penalty", PENALTIES)
def test_c47_the_order_of_insertion_does_not_matter(penalty: str) -> None:
    """C47: sums of floats depend on the order of their terms, answers only within the tolerance."""
    forward = scalar_problem(nx.cycle_graph(9), CYCLE, penalty, 1.0).solve(gap=1e-12)
    graph = nx.Graph()
    graph.add_nodes_from(reversed(range(9)))
    graph.add_edges_from((j, i) for i, j in reversed(list(nx.cycle_graph(9).edges)))
    backward = scalar_problem(graph, CYCLE, penalty, 1.0).solve(gap=1e-12)
    assert backward.objective == pytest.approx(forward.objective, rel=1e-11)
    for node in CYCLE:
        assert backward[node] == pytest.approx(forward[node], abs=1e-4)


@pytest.mark.parametrize("c", [1.0, 1e3, 1e-6, 1e6])
def test_c49_the_gap_has_the_scale_of_the_objective(c: float) -> None:
    """C49, scikit-learn issues #19160 and #22836: c y with c alpha has c^2 times the objective, bound and gap.

    Targets 0, 2, 1, 5 with alpha 0.7 on a path: levels 0.7, 1.5, 1.5, 4.3, objective 3.26 by hand.
    """
    targets = {i: c * y for i, y in enumerate([0.0, 2.0, 1.0, 5.0])}
    problem = scalar_problem(nx.path_graph(4), targets, "l1", 0.7 * c)
    solution = problem.solve(gap=1e-10)
    assert solution.objective == pytest.approx(3.26 * c**2, rel=1e-9)
    assert solution.weights.ravel() == pytest.approx(np.array([0.7, 1.5, 1.5, 4.3]) * c, abs=1e-4 * c)
    certificate = solution.certificate
    assert certificate.primal - certificate.dual == pytest.approx(certificate.gap, abs=1e-13 * c**2)
    # the bound of zero flows is 0, so that the gap of any parameters is their objective
    assert gtv.certify(problem, np.zeros((4, 1)), np.zeros((3, 1))).gap == pytest.approx(15 * c**2, rel=1e-12)


@pytest.mark.parametrize("max_iter", [1, 5, 100_000])
@pytest.mark.parametrize("method", methods("l1"))
def test_c50_a_warning_exactly_if_the_gap_is_too_large(method: str, max_iter: int) -> None:
    """C50, scikit-learn issue #13394, celer issue #248: warnings with another gap or another tolerance."""
    targets = dict(enumerate([0.0, 3.0, 1.0, 4.0, 8.0]))
    problem = scalar_problem(nx.path_graph(5), targets, "l1", 1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = problem.solve(method, max_iter=max_iter, gap=1e-6)
    assert [w.category for w in caught] == ([ConvergenceWarning] if solution.relative_gap > 1e-6 else [])
    assert solution.is_certified == (not caught) == (max_iter > 5)
    for warning in caught:
        stated = re.search(r"relative gap is (\S+) after (\d+) .* tolerance is (\S+) \(", str(warning.message))
        assert stated is not None
        assert float(stated[1]) == pytest.approx(solution.relative_gap, rel=1e-2)
        assert (int(stated[2]), float(stated[3])) == (solution.iterations, 1e-6)
        assert Path(warning.filename) == Path(__file__)
    assert gtv.certify(problem, solution.weights, solution.flows).gap == solution.gap
    assert solution.objective - 8.0 <= solution.gap  # 8 is the optimum: levels 1, 2, 2, 4, 7


def test_c55_files_give_back_what_was_solved(tmp_path: Path) -> None:
    """C55, aimclub/BAMT issue #89, cuml issue #4341, tabfm PR #48: saving spoils the object, loading loses the fit."""
    graph = nx.grid_2d_graph(2, 2)
    problem = scalar_problem(graph, {node: float(sum(node)) for node in graph}, "l2", 0.3)
    solution = problem.solve(gap=1e-9)
    before = (solution.weights.copy(), solution.flows.copy(), repr(solution))
    problem_file = problem.save(tmp_path / "problem.npz")
    certificate_file = solution.certificate.save(tmp_path / "certificate.json")
    assert np.array_equal(solution.weights, before[0])
    assert np.array_equal(solution.flows, before[1])
    assert repr(solution) == before[2]
    assert solution[0, 0] == pytest.approx([0.6], abs=1e-3)  # still there, by its tuple

    restored = gtv.load_problem(problem_file)
    assert restored.network.nodes == tuple(graph)
    again = gtv.load_certificate(certificate_file, restored)
    assert np.array_equal(again.W, solution.weights)
    assert np.array_equal(again.U, solution.flows)
    assert again.gap == solution.gap
    assert np.array_equal(restored.solve(gap=1e-9).weights, solution.weights)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_c55_copies_and_pickles_of_what_was_solved(duplicate: Callable[[gtv.Solution], gtv.Solution]) -> None:
    """C55: all is there again, and as read-only as it was."""
    graph = nx.grid_2d_graph(2, 2)
    solution = scalar_problem(graph, {node: float(sum(node)) for node in graph}, "l2", 0.3).solve()
    again = duplicate(solution)
    assert set(again.as_dict()) == set(graph)
    assert all(np.array_equal(again[node], solution[node]) for node in graph)
    assert np.array_equal(again.flow((0, 0), (0, 1)), solution.flow((0, 0), (0, 1)))
    assert again.gap == solution.gap
    assert again.problem.hash == solution.problem.hash
    assert gtv.certify(again.problem, again.weights, again.flows).gap == solution.gap
    ridge = duplicate(gtv.Ridge([[1.0]], [2.0], lam=1.0))
    data = again.problem.losses[0].terms()[0][1]
    proof = again.certificate
    for array in (
        again.weights,
        again.flows,
        proof.per_node,
        *proof.duals,
        data.X,
        data.y,
        ridge.data.X,
        ridge.penalise,
    ):
        assert not array.flags.writeable
