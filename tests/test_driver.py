"""Interrupts: whenever they come, the best certified point so far is returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import gtvmin as gtv
from gtvmin import Status
from gtvmin.errors import ConvergenceWarning
from gtvmin.monitor import GapMonitor
from gtvmin.registry import make_solver
from gtvmin.solvers.driver import run
from gtvmin.solvers.standard_form import Assessment, Point


@dataclass(frozen=True)
class PressedIn:
    """A solver during whose setup, or k-th step, the user presses Ctrl-C; its steps double the parameters."""

    during: int
    requires: ClassVar[frozenset[str]] = frozenset()

    def init(self, form, start):
        if self.during == 0:
            raise KeyboardInterrupt
        return np.ones((form.n_nodes, form.dim)), 0

    def step(self, form, state):
        W, done = state
        if done + 1 == self.during:
            raise KeyboardInterrupt
        return 2.0 * W, done + 1

    def point(self, form, state):
        return Point(state[0])


def problem() -> gtv.GTVMin:
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (2.0, 4.0)]
    return gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(2), alpha=1.0)


@pytest.mark.parametrize("start", [None, [[3.0], [3.5]]])
def test_during_the_setup_the_start_is_returned(start: list[list[float]] | None) -> None:
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = problem().solve(PressedIn(0), start=start)
    assert (solution.status, solution.iterations) == (Status.INTERRUPTED, 0)
    W = np.zeros((2, 1)) if start is None else np.array(start)
    np.testing.assert_array_equal(solution.weights, W)
    assert solution.objective == pytest.approx(((W[:, 0] - [2.0, 4.0]) ** 2).sum() + abs(W[0, 0] - W[1, 0]))


def test_a_start_that_is_optimal_is_certified_though_the_setup_was_interrupted() -> None:
    best = problem().solve(gap=1e-12)
    assert problem().solve(PressedIn(0), start=best).status is Status.CERTIFIED


def test_during_a_step_the_best_assessed_point_is_returned() -> None:
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        solution = problem().solve(PressedIn(4))
    assert (solution.status, solution.iterations) == (Status.INTERRUPTED, 3)
    np.testing.assert_array_equal(solution.weights, [[2.0], [2.0]])  # assessed after one step, objective 4


@pytest.mark.parametrize("assessment", [1, 2, 3])
def test_during_an_assessment_the_point_before_it_is_returned(assessment: int) -> None:
    form = problem().lowered.form
    monitor, calls = GapMonitor(form, 0.0), []

    def stop(point: Point, iteration: int) -> Assessment:
        calls.append(iteration)
        if len(calls) == assessment:
            raise KeyboardInterrupt
        return monitor(point, iteration)

    result = run(make_solver("primal_dual"), form, stop=stop)
    assert result.status is Status.INTERRUPTED
    assert len(result.history) == max(assessment - 2, 0)
    objective = form.objective(result.point.W)
    assert np.isfinite(objective)
    assert objective <= form.objective(np.zeros((2, 1)))
    if result.history:
        assert objective == pytest.approx(result.history[-1].primal)


def test_dear_steps_are_assessed_when_the_solver_says() -> None:
    """By hand: after 1, after the first check, then each time 1.5 times as many steps, rounded up."""

    @dataclass(frozen=True)
    class Dear(PressedIn):
        first_check: ClassVar[int] = 4
        check_growth: ClassVar[float] = 1.5

    with pytest.warns(ConvergenceWarning):
        solution = problem().solve(Dear(-1), max_iter=25)
    assert [record.iteration for record in solution.history] == [1, 4, 6, 9, 14, 21, 25]


@pytest.mark.filterwarnings("ignore::gtvmin.errors.ConvergenceWarning")
def test_an_interrupted_path_ends_there_and_no_strength_is_chosen_by_it() -> None:
    losses = [gtv.SquaredError([[1.0], [2.0]], [y, y]) for y in (0.0, 1.0, 5.0)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, penalty=gtv.Norm(2), alpha=1.0)
    path = problem.path([0.1, 0.2, 0.3], PressedIn(0))
    assert [solution.status for solution in path] == [Status.INTERRUPTED]
    assert path.alphas.tolist() == [0.1]
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        problem.cross_validate([0.1, 0.2], method=PressedIn(0), folds=2)
