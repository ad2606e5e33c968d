"""Every solver on every loss and penalty that it fits, against CVXPY; and how the driver ends a run."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError, ConvergenceWarning
from gtvmin.monitor import GapMonitor
from gtvmin.registry import make_solver, solver_names
from gtvmin.solvers.driver import missing_capabilities, run
from gtvmin.solvers.standard_form import Point
from gtvmin.solving import choose_method

PENALTIES = [gtv.SquaredNorm(), gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf)]
OBJECTIVE_TOLERANCE = 2e-7  # relative; both sides are solved to a gap of 1e-8 or better

rng = np.random.default_rng(7)
DATA = [(rng.normal(size=(m, 2)), rng.normal(size=m)) for m in (4, 1, 3, 6, 2, 5)]
LOSSES = {
    "squared_error": lambda X, y: gtv.SquaredError(X, y),
    "squared_error_sum": lambda X, y: 0.5 * gtv.SquaredError(X, y, scale="sum"),
    "ridge": lambda X, y: gtv.Ridge(X, y, lam=0.1),
    "ridge_free_intercept": lambda X, y: gtv.Ridge(X, y, lam=0.1, penalise=[1, 0]),
    "sum": lambda X, y: gtv.SquaredError(X, y) + 0.3 * gtv.Ridge(X[:1], y[:1], lam=0.5),
}


def problem_of(loss: str, penalty: gtv.Penalty) -> gtv.GTVMin:
    """Six devices on a triangle with a tail, one without labels."""
    net = gtv.FLNetwork.from_edges([(0, 1, 1.0), (1, 2, 0.5), (0, 2, 2.0), (2, 3, 1.0), (3, 4, 1.0), (4, 5, 3.0)])
    losses = [LOSSES[loss](X, y) for X, y in DATA]
    losses[3] = gtv.Zero()
    return gtv.GTVMin(net, losses, penalty=penalty, alpha=0.2)


def fits(method: str, problem: gtv.GTVMin) -> bool:
    return not missing_capabilities(make_solver(method), problem.lowered.form)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_solver_agrees_with_cvxpy(loss: str, penalty: gtv.Penalty) -> None:
    problem = problem_of(loss, penalty)
    reference = problem.solve(method="cvxpy", gap=1e-7)
    ran = []
    for method in solver_names():
        if not fits(method, problem):
            continue
        solution = problem.solve(method, gap=1e-8)
        assert solution.is_certified
        assert solution.objective == pytest.approx(reference.objective, rel=OBJECTIVE_TOLERANCE)
        assert solution.objective == problem.objective(solution.weights)
        ran.append(method)
    assert {"primal_dual", "adaptive_primal_dual"} <= set(ran)
    assert ("linear_system" in ran) == isinstance(penalty, gtv.SquaredNorm)


@pytest.mark.parametrize("strategy", ["direct", "cg"])
@pytest.mark.parametrize("alpha", [1e-6, 1e-2, 1.0, 1e4])
def test_linear_system_matches_the_normal_equations(strategy: str, alpha: float) -> None:
    problem = problem_of("squared_error", gtv.SquaredNorm()).with_alpha(alpha)
    net, d = problem.network, problem.dim
    K = np.kron(2 * alpha * net.laplacian().toarray(), np.eye(d))
    b = np.zeros(net.n_nodes * d)
    for i, loss in enumerate(problem.losses):
        if loss.n_samples:
            block = slice(d * i, d * i + d)
            K[block, block] += 2 * loss.X.T @ loss.X / loss.n_samples
            b[block] = 2 * loss.X.T @ loss.y / loss.n_samples
    solution = problem.solve("linear_system", strategy=strategy, gap=1e-12)
    assert solution.is_certified
    assert np.allclose(solution.weights.ravel(), np.linalg.solve(K, b), rtol=1e-6, atol=1e-8)


def test_primal_dual_takes_the_step_of_the_paper() -> None:
    """One iteration of Algorithm 1 of arXiv 2010.14159 written out for two devices and one edge."""
    net = gtv.FLNetwork.from_edges([(0, 1)])
    a, alpha = np.array([1.0, 5.0]), 0.3
    problem = gtv.GTVMin(net, [0.5 * gtv.SquaredError([[1.0]], [t]) for t in a], penalty=gtv.Norm(2), alpha=alpha)
    form = problem.lowered.form
    solver = make_solver("primal_dual")
    w, u = np.array([2.0, -1.0]), 0.1
    state = solver.step(form, solver.init(form, Point(w[:, None], (np.array([[u]]),))))
    # tau = 1/degree = 1, sigma = 1/2; D^T u = (-u, u); prox of (v - a)^2 / 2 with step 1 is (v + a) / 2
    w_new = (w - np.array([-u, u]) + a) / 2
    bar = 2 * w_new - w
    u_new = np.clip(u + 0.5 * (bar[1] - bar[0]), -alpha, alpha)
    assert np.allclose(state.W[:, 0], w_new)
    assert np.allclose(state.U[0], u_new)


def test_auto_takes_the_linear_system_where_it_can() -> None:
    assert choose_method(problem_of("ridge", gtv.SquaredNorm()).lowered.form) == "linear_system"
    assert choose_method(problem_of("ridge", gtv.Norm(2)).lowered.form) == "adaptive_primal_dual"
    # without coupling the penalty does not matter
    assert choose_method(problem_of("ridge", gtv.Norm(2)).with_alpha(0).lowered.form) == "linear_system"


def test_a_pair_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(CapabilityError, match=r"couplings\.quadratic.*adaptive_primal_dual"):
        problem_of("ridge", gtv.Norm(2)).solve("linear_system")
    with pytest.raises(ValueError, match=r"'simplex' is unknown.*primal_dual"):
        problem_of("ridge", gtv.Norm(2)).solve("simplex")


@pytest.mark.parametrize("method", solver_names())
def test_runs_are_repeatable_and_leave_the_start_alone(method: str) -> None:
    scalar = gtv.NetworkLasso(nx.path_graph(6), [gtv.SquaredDistance([float(y)]) for y in rng.normal(size=6)], lam=0.3)
    problems = [problem_of("squared_error", gtv.SquaredNorm()), problem_of("ridge", gtv.Norm(2)), scalar]
    problems.append(gtv.NetworkLasso(nx.path_graph(6), [gtv.Huber(X, y, delta=0.5) for X, y in DATA], lam=0.3))
    problem = next(problem for problem in problems if fits(method, problem))
    start = rng.normal(size=(6, problem.dim))
    kept = start.copy()
    first = problem.solve(method, start=start)
    second = problem.solve(method, start=start)
    assert np.array_equal(start, kept)
    assert np.array_equal(first.weights, second.weights)
    assert first.iterations == second.iterations


def test_a_warm_start_pays() -> None:
    problem = problem_of("squared_error", gtv.Norm(2))
    cold = problem.solve(gap=1e-8)
    warm = problem.solve(gap=1e-8, start=cold)
    assert warm.is_certified
    assert warm.iterations <= 1 < cold.iterations


def test_iteration_and_time_limits_are_statuses_and_warnings() -> None:
    problem = problem_of("squared_error", gtv.Norm(2))
    with pytest.warns(ConvergenceWarning, match="after 3 iterations"):
        solution = problem.solve("primal_dual", max_iter=3, gap=1e-10)
    assert solution.status is gtv.Status.ITERATION_LIMIT
    assert solution.certificate.relative_gap > 1e-10
    with pytest.warns(ConvergenceWarning, match="time limit"):
        solution = problem.solve("primal_dual", time_limit=0.0, gap=1e-13)
    assert solution.status is gtv.Status.TIME_LIMIT


@dataclass(frozen=True)
class Runaway:
    """A solver that grows by a large factor each step."""

    requires: ClassVar[frozenset[str]] = frozenset()

    def init(self, form, start):
        return np.ones((form.n_nodes, form.dim))

    def step(self, form, state):
        return state * 1e20

    def point(self, form, state):
        return Point(state)


@pytest.mark.filterwarnings("ignore:overflow")
def test_divergence_is_detected_not_returned() -> None:
    problem = problem_of("squared_error", gtv.Norm(2))
    with pytest.warns(ConvergenceWarning, match="infinite or NaN"):
        solution = problem.solve(Runaway())
    assert solution.status is gtv.Status.DIVERGED
    assert np.isfinite(solution.weights).all()


@pytest.mark.skipif(os.name == "nt", reason="signals to the own process work otherwise there")
def test_an_interrupt_returns_the_best_point_so_far() -> None:
    problem = problem_of("squared_error", gtv.Norm(2))
    form = problem.lowered.form
    monitor = GapMonitor(form, -1.0)  # never content

    def press_ctrl_c(record):
        if record.relative_gap < 1e-9:
            os.kill(os.getpid(), signal.SIGINT)

    # a shell ignores the signal in what it runs in the background
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = run(make_solver("primal_dual"), form, stop=monitor, max_iter=10**5, progress=press_ctrl_c)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.status is gtv.Status.INTERRUPTED
    assert result.history[-1].relative_gap < 1e-9


def test_a_run_ends_when_the_solver_has_nothing_left_to_do() -> None:
    """Three steps towards nowhere: the run ends after them, however many are allowed."""

    @dataclass
    class Count:
        steps: int = 0

        @property
        def finished(self) -> bool:
            return self.steps == 3

    @dataclass(frozen=True)
    class Exact:
        requires: ClassVar[frozenset[str]] = frozenset()

        def init(self, form, start):
            return Count()

        def step(self, form, state):
            return Count(state.steps + 1)

        def point(self, form, state):
            return Point(np.zeros((form.n_nodes, form.dim)))

    with pytest.warns(ConvergenceWarning, match="ended by itself"):
        solution = problem_of("squared_error", gtv.Norm(2)).solve(Exact())
    assert (solution.status, solution.iterations) == (gtv.Status.FINISHED, 3)


def test_the_best_point_is_returned_not_the_last() -> None:
    """A solver that visits the solution and walks on must return it."""
    problem = problem_of("squared_error", gtv.SquaredNorm())
    best = problem.solve(gap=1e-12)

    @dataclass(frozen=True)
    class Passer:
        requires: ClassVar[frozenset[str]] = frozenset()

        def init(self, form, start):
            return 0

        def step(self, form, state):
            return state + 1

        def point(self, form, state):
            return Point(best.weights + (state - 1), (best.flows,))

    with pytest.warns(ConvergenceWarning):
        solution = problem.solve(Passer(), max_iter=60, gap=0.0)
    assert np.array_equal(solution.weights, best.weights)


def test_history_and_progress_tell_the_same() -> None:
    seen = []
    solution = problem_of("squared_error", gtv.Norm(2)).solve("primal_dual", gap=1e-8, progress=seen.append)
    assert tuple(seen) == solution.history
    gaps = [record.gap for record in solution.history]
    assert gaps == sorted(gaps, reverse=True)
    assert solution.history[-1].iteration == solution.iterations


@pytest.mark.parametrize("way", ["value", "exception"])
def test_progress_may_stop_the_run(way: str) -> None:
    problem = problem_of("squared_error", gtv.Norm(2))
    records, objectives = [], []

    def progress(record, weights):
        records.append(record)
        objectives.append(problem.objective(weights))
        weights[:] = 1e6  # a copy: the run does not notice
        if len(records) == 3:
            if way == "exception":
                raise StopIteration
            return np.bool_(record.iteration > 0)
        return None

    with pytest.warns(ConvergenceWarning, match="progress function asked"):
        solution = problem.solve("primal_dual", gap=1e-14, progress=progress)
    assert solution.status is gtv.Status.STOPPED
    assert solution.history == tuple(records)
    assert solution.iterations == records[2].iteration
    assert objectives == pytest.approx([record.primal for record in records])
    assert solution.objective == objectives[2]


def test_progress_with_options_of_its_own_gets_the_record_alone() -> None:
    seen = []

    def progress(record, *, verbose=False):
        seen.append(record)

    solution = problem_of("squared_error", gtv.Norm(2)).solve(gap=1e-8, progress=progress)
    assert solution.history == tuple(seen)


def test_devices_without_edges_are_solved_on_their_own() -> None:
    graph = nx.Graph()
    graph.add_nodes_from("ab")
    X, y = DATA[0]
    for penalty in PENALTIES:
        solution = gtv.GTVMin(graph, lambda _: gtv.SquaredError(X, y), penalty=penalty, alpha=2.0).solve(gap=1e-10)
        assert np.allclose(solution["b"], np.linalg.lstsq(X, y, rcond=None)[0])
        assert solution.flows.shape == (0, 2)
    for method in ("primal_dual", "adaptive_primal_dual"):
        problem = gtv.GTVMin(graph, lambda _: gtv.SquaredError(X, y), penalty=gtv.Norm(2), alpha=2.0)
        assert np.allclose(problem.solve(method, gap=1e-10)["a"], np.linalg.lstsq(X, y, rcond=None)[0])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning")
def test_a_perfect_fit_under_strong_coupling_is_certified(seed: int) -> None:
    """The optimum is zero, and the last bit of the parameters is worth more than any share of it."""
    draw = np.random.default_rng(seed)
    losses = {"a": gtv.Zero(2), "b": 0.1 * gtv.SquaredError(draw.normal(size=(1, 2)), draw.normal(size=1))}
    net = gtv.FLNetwork.from_edges([("a", "b", 30.0)])
    solution = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=1.0).solve(max_iter=20_000)
    assert solution.is_certified
    assert solution.gap < 1e-12


@pytest.mark.parametrize("penalty", [gtv.SquaredNorm(), gtv.Norm(2)], ids=repr)
def test_where_rounding_alone_spoils_a_certificate_it_is_rigorous(penalty: gtv.Penalty) -> None:
    """Absolute errors without noise: the optimum is zero, and no estimate of rounding is small against that."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(8, 6, 3))
    losses = [gtv.LeastAbsolute(X[i], X[i] @ np.array([0.5, -1.0, 2.0])) for i in range(8)]
    problem = gtv.GTVMin(nx.cycle_graph(8), losses, penalty=penalty, alpha=0.1)
    solution = problem.solve()
    assert solution.status is gtv.Status.CERTIFIED
    assert solution.certificate.rigorous
    plain = gtv.certify(problem, solution.weights, duals=solution.certificate.duals)
    assert not plain.holds(1e-6)
    assert plain.gap - plain.rounding < 2.0 * solution.gap < 1e-13  # both are all but rounding


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("primal_dual", {"scale": 0.0}),
        ("primal_dual", {"scale": -1.0}),
        ("adaptive_primal_dual", {"relaxation": 2.0}),
        ("adaptive_primal_dual", {"scale": float("nan")}),
        ("linear_system", {"strategy": "lu"}),
    ],
)
def test_settings_out_of_range_are_refused(method: str, settings: dict) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        problem_of("ridge", gtv.SquaredNorm()).solve(method, **settings)


def test_an_unknown_option_names_those_there_are() -> None:
    with pytest.raises(
        TypeError, match=r"'tol' is neither an option of solve\(\) \(gap, .*setting of 'primal_dual' \(scale"
    ):
        problem_of("ridge", gtv.Norm(2)).solve("primal_dual", tol=1e-3)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning")
def test_a_singular_system_does_not_run_away() -> None:
    """Demands that cancel up to rounding: a Laplacian with its null space, along which steps would grow without end."""
    net = gtv.FLNetwork(nx.path_graph(6))
    demands = [0.1, 0.2, 0.3, -0.7, 0.4, -0.3]
    problem = gtv.GTVMin(net, [gtv.Linear([-d]) for d in demands], penalty=gtv.SquaredNorm(), alpha=0.7)
    solution = problem.solve("linear_system", max_iter=500)
    # by hand: the flow over edge e is the sum of what the nodes after it demand, its cost u^2 / (4 alpha)
    flows = [sum(demands[e + 1 :]) for e in range(5)]
    assert solution.is_certified
    assert np.abs(solution.weights).max() < 10.0
    assert solution.objective == pytest.approx(-sum(u**2 for u in flows) / 2.8, rel=1e-9)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning")
def test_parameters_that_run_away_make_no_gap_look_small() -> None:
    """Shifted far along the null space, the objective's last bits are worth more than the tolerance."""
    net = gtv.FLNetwork(nx.path_graph(3))
    problem = gtv.GTVMin(net, [gtv.Linear([d]) for d in (0.1, 0.2, -0.3)], penalty=gtv.SquaredNorm(), alpha=0.7)
    solution = problem.solve()
    far = gtv.certify(problem, solution.weights + 1e14, solution.flows)
    assert far.gap > 1e-3
    assert far.relative_gap > 1e-3
