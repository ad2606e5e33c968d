"""What all federated algorithms share: data points, random streams, participation, accounts, programs, divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import DIM, N, device_quadratics, form_of, gradients, minimiser, problem_l, problem_q
from gtvmin.errors import CapabilityError, ConvergenceWarning
from gtvmin.federated import algorithm_names, federated_form, make_algorithm, program_of
from gtvmin.federated.catalogue import entries
from gtvmin.federated.operators import affine_round, measured_contraction
from gtvmin.federated.program import complete_graph, consensus, star
from gtvmin.registry import FEDERATED
from gtvmin.solvers.driver import missing_capabilities
from gtvmin.solvers.federated.fed_gd import FedGD
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.local_steps import descend
from gtvmin.solvers.federated.minibatch import Minibatch
from gtvmin.solvers.federated.participation import Cyclic
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.federated.streams import device_keys
from gtvmin.solvers.standard_form import Point

RNG = np.random.default_rng(1)
W = RNG.normal(size=(N, DIM))


def mixed_problem() -> gtv.GTVMin:
    """All kinds of data points, with remainders of both kinds and a device that has none."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    signs = np.sign(y)
    losses = {
        "ridge": 2.0 * gtv.Ridge(X, y, lam=0.3, penalise=[1, 0], sample_weight=rng.uniform(0.5, 2, 7)),
        "logistic": gtv.Logistic(X, signs) + 0.1 * gtv.Quadratic([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0]),
        "huber": gtv.Huber(X, 5 * y, delta=0.7) + gtv.SquaredError(X[:2], y[:2], scale="sum"),
        "none": gtv.Zero(),
        "linear": gtv.SquaredError(X[:3], y[:3]) + gtv.Linear([0.5, 0.0]),
    }
    return gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=list(losses)), losses, penalty=gtv.SquaredNorm(), alpha=0.0)


@pytest.mark.parametrize("problem", [problem_q(), problem_l(), mixed_problem()], ids=["Q", "L", "mixed"])
def test_data_points_have_the_gradient_of_the_losses(problem: gtv.GTVMin) -> None:
    form = federated_form(problem)
    assert form.data is not None
    at = np.random.default_rng(2).normal(size=(form.n_nodes, form.dim))
    truth = np.array([numerical_gradient(loss, w) for loss, w in zip(problem.losses, at, strict=True)])
    assert np.allclose(form.data.gradient(at), truth, atol=1e-7)
    assert np.allclose(form.data.gradient(at), form.local.gradient(at), atol=1e-13)
    # a batch of all data points is the whole gradient
    every = Minibatch(100, order="fresh").rows(form.data, device_keys(form, 0), 0, 0, 1)
    assert np.allclose(form.data.batch_gradient(at, every), truth, atol=1e-7)


def numerical_gradient(loss: gtv.Loss, w: np.ndarray) -> np.ndarray:
    h = 1e-6
    return np.array([(loss.value(w + h * e) - loss.value(w - h * e)) / (2 * h) for e in np.eye(len(w))])


def test_forms_without_data_points_say_so() -> None:
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges([(0, 1)]),
        [gtv.Poisson([[1.0]], [2.0]), gtv.SquaredError([[1.0]], [1.0])],
        penalty=gtv.SquaredNorm(),
        alpha=1.0,
    )
    assert federated_form(problem).data is None
    assert "data" not in federated_form(problem).capabilities


@pytest.mark.parametrize("problem", [problem_q(), problem_l()], ids=["Q", "L"])
def test_local_steps_are_those_of_one_device_after_the_other(problem: gtv.GTVMin) -> None:
    form = form_of(problem)
    steps = np.array([0, 1, 2, 3, 4, 5, 1, 2])
    rate, linear, anchor = np.linspace(0.05, 0.2, N), RNG.normal(size=(N, DIM)), RNG.normal(size=(N, DIM))
    expected = W.copy()
    for k in range(5):
        g = gradients(problem, expected) + linear + 0.3 * (expected - anchor)
        expected = np.where((k < steps)[:, None], expected - rate[:, None] * g, expected)
    kept = W.copy()
    found = descend(form, W, steps, rate, linear=linear, mu=0.3, anchor=anchor)
    assert np.allclose(found, expected, atol=1e-13)
    assert np.array_equal(W, kept)
    without = descend(problem.lowered.form, W, steps, rate, linear=linear, mu=0.3, anchor=anchor)
    assert np.allclose(without, expected, atol=1e-13)


def test_weights_are_stated() -> None:
    form = form_of(problem_q())
    assert np.allclose(aggregation_weights(form, "samples"), form.samples / form.samples.sum())
    assert np.allclose(aggregation_weights(form, np.arange(8.0)), np.arange(8.0) / 28)
    for wrong in ("mean", [1.0] * 7, [-1.0] * 8, [0.0] * 8, [np.nan] * 8):
        with pytest.raises(ValueError, match="weights"):
            aggregation_weights(form, wrong)
    with pytest.raises(TypeError, match="needs weights="):
        gtv.federate(problem_q(), "fedavg", rounds=1)


@pytest.mark.parametrize("word", ["uniform", "samples"])
def test_programs_are_those_of_the_definitions(word: str) -> None:
    """Consensus against Newton's method; star and complete graph against each other and against normal equations."""
    problem = problem_q()
    p = aggregation_weights(form_of(problem), word)
    w = consensus(problem, p).problem.solve(gap=1e-12).weights
    assert np.abs(w - minimiser(problem, p)).max() < 1e-9
    mu = 0.7
    around = star(problem, p, mu).problem.solve(gap=1e-13).weights
    assert np.abs(around[:N] - complete_graph(problem, p, mu).problem.solve(gap=1e-13).weights).max() < 1e-9
    # w minimises sum_i p_i min_v L_i(v) + mu/2 ||v - w||^2: the Moreau averages' Hessians mu Q (Q + mu)^-1
    Q, b = device_quadratics(problem)
    resolvents = np.linalg.inv(Q + mu * np.eye(DIM))
    M = np.einsum("i,ijk->jk", p, mu * (np.eye(DIM) - mu * resolvents))
    r = np.einsum("i,ijk,ik->j", p, mu * resolvents, b)
    assert np.abs(around[N] - np.linalg.solve(M, r)).max() < 1e-9


def test_names_of_servers_never_meet_a_device() -> None:
    losses = {name: gtv.SquaredDistance([k]) for k, name in enumerate(("server", "a"))}
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([("server", "a")]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    assert star(problem, np.array([0.5, 0.5]), 1.0).problem.network.nodes == ("server", "a", "server'")


def test_history_counts_rounds_bytes_and_gradients() -> None:
    run = gtv.federate(problem_q(), "fedavg", rounds=7, weights="uniform", local_steps=[1, 2, 3, 4, 1, 2, 3, 4])
    last = run.history[-1]
    assert (last.round, last.bytes_up, last.bytes_down) == (7, 7 * N * DIM * 8, 7 * N * DIM * 8)
    assert last.messages == 7 * 2 * N
    assert last.gradients == 7 * 20
    assert last.points == 7 * np.dot([1, 2, 3, 4, 1, 2, 3, 4], [5, 50, 8, 12, 20, 30, 6, 40])
    frame = run.history_frame()
    assert list(frame["round"]) == [1, 2, 3, 4, 5, 6, 7]
    assert run.traffic_frame().loc["b", "gradients"] == 14
    over_edges = gtv.federate(problem_q(), "fedgd", rounds=3)
    assert over_edges.history[-1].bytes_up == 3 * 2 * 10 * DIM * 8
    assert over_edges.traffic.messages_sent.tolist() == (3 * np.array([3, 2, 3, 2, 3, 2, 3, 2])).tolist()


def test_a_run_ends_at_the_gap_that_is_asked_for() -> None:
    run = gtv.federate(problem_q(), "fedavg", rounds=1000, weights="uniform", gap=1e-6, check_every=1)
    assert run.status is gtv.Status.CERTIFIED
    assert 10 < run.rounds < 200
    assert run.certificate.holds(1e-6)
    with pytest.warns(ConvergenceWarning, match=r"several local steps are biased"):
        biased = gtv.federate(problem_q(), "fedavg", rounds=300, weights="uniform", local_steps=5, eta=0.1, gap=1e-6)
    assert biased.status is gtv.Status.ITERATION_LIMIT
    assert gtv.federate(problem_q(), "fedavg", rounds=3, weights="uniform").status is gtv.Status.COMPLETED


def test_a_run_can_start_anywhere_report_and_be_cut_short() -> None:
    problem = problem_q()
    solution = consensus(problem, np.full(N, 1 / N)).problem.solve(gap=1e-12)
    records: list[Any] = []
    run = gtv.federate(problem, "fedavg", rounds=2, weights="uniform", start=solution.weights, progress=records.append)
    assert tuple(records) == run.history
    assert run.history[0].relative_gap < 1e-9
    assert run["b"] == pytest.approx(solution.weights[1], abs=1e-6)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        short = gtv.federate(problem, "fedavg", rounds=100, weights="uniform", time_limit=0.0)
    assert short.status is gtv.Status.TIME_LIMIT
    assert short.rounds < 100
    assert "TIME_LIMIT: fedavg" in repr(short)


def test_certified_gaps_bound_the_suboptimality() -> None:
    problem, p = problem_l(), np.full(N, 1 / N)
    best = consensus(problem, p).problem.solve(gap=1e-12).objective
    for record in gtv.federate(problem, "fedavg", rounds=20, weights="uniform").history:
        assert -1e-12 <= record.objective - best <= record.gap + 1e-12
        assert record.bound <= best + 1e-12


@pytest.mark.filterwarnings("ignore::gtvmin.solvers.federated.step_sizes.StepSizeWarning")
def test_divergence_is_seen_within_rounds() -> None:
    with pytest.warns(ConvergenceWarning, match=r"'model' grows without bound"):
        run = gtv.federate(problem_q(), "fedavg", rounds=500, weights="uniform", eta=1.5)
    assert run.status is gtv.Status.DIVERGED
    assert run.rounds < 60


@dataclass(frozen=True)
class HiddenRunaway(FedGD):
    """FedGD beside a variable that grows by a tenth each round while the models converge."""

    variables = ("W", "hidden")

    def init(self, form: Any, start: Any) -> Any:
        return Pair(super().init(form, start), np.ones(1))

    def step(self, form: Any, state: Any) -> Any:
        return Pair(super().step(form, state.inner), 1.1 * state.hidden)

    def point(self, form: Any, state: Any) -> Any:
        return super().point(form, state.inner)

    def program(self, problem: gtv.GTVMin) -> Any:
        return program_of(FedGD(), problem)


@dataclass(frozen=True)
class Pair:
    inner: Any
    hidden: np.ndarray

    @property
    def W(self) -> np.ndarray:  # noqa: N802 - the inner state's name
        return self.inner.W


def test_divergence_of_a_hidden_variable_is_seen() -> None:
    with pytest.warns(ConvergenceWarning, match="'hidden' grows without bound"):
        run = gtv.federate(problem_q(), HiddenRunaway(), rounds=500)
    assert run.rounds < 150
    assert gtv.federate(problem_q(), FedGD(), rounds=500).status is gtv.Status.COMPLETED


def test_a_late_device_of_another_scale_is_no_divergence() -> None:
    """Nineteen devices agree about, one of them is a million times as far away, and is heard in round 15."""
    points = 1e-2 * np.random.default_rng(0).normal(size=(20, 2))
    points[15] = [1e4, 0.0]
    losses = [gtv.SquaredDistance(point) for point in points]
    settings = {"weights": "uniform", "participation": Cyclic(1), "eta": 0.1}
    run = gtv.federate(losses, "scaffold", rounds=4000, **settings)
    assert run.status is gtv.Status.COMPLETED
    assert np.allclose(run.model, points.mean(axis=0), rtol=1e-10)


def test_steps_outside_the_bound_are_warned_about_with_the_bound() -> None:
    problem, form = problem_q(), form_of(problem_q())
    Q, _ = device_quadratics(problem)
    H = np.kron(2 * problem.alpha * problem.network.laplacian().toarray(), np.eye(DIM))
    bound = 2 / (np.linalg.eigvalsh(Q).max() + np.linalg.eigvalsh(H).max())
    with pytest.warns(StepSizeWarning, match=rf"not below {bound:.6g}"):
        FedGD(eta=1.001 * bound).init(form, None)
    FedGD(eta=0.999 * bound).init(form, None)
    for wrong in (0.0, -1.0, np.nan, [0.1] * 7):
        with pytest.raises(ValueError, match="eta"):
            FedGD(eta=wrong).init(form, None)


def test_messages_about_steps_name_the_device() -> None:
    """By its label, and all devices together where the step is theirs."""
    losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    settings = {"rounds": 1, "weights": "uniform"}
    with pytest.warns(StepSizeWarning, match=r"eta = 0\.3 of device 'Turku' is not below 0\.25 = 2 / L_i"):
        gtv.federate(losses, "fedavg", eta=[0.3, 0.3], **settings)
    with pytest.warns(StepSizeWarning, match=r"\+ 2 / K\) = .* of device 'Oulu' is not below 2"):
        gtv.federate(losses, "feddc", alpha=20.0, local_steps=1, eta=0.07, **settings)
    with pytest.warns(StepSizeWarning, match=r"^gamma = 0\.3 is not below 0\.125 = 1 / max_i L_i"):
        gtv.federate(losses, "proxskip", gamma=0.3, **settings)
    losses["Turku"] = gtv.Poisson([[1.0]], [2.0])
    with pytest.raises(ValueError, match=r"zero for device 'Turku', whose loss is not known to be smooth"):
        gtv.federate(losses, "fedavg", **settings)
    with pytest.raises(ValueError, match=r"gamma must be given: .* a loss is not known to be smooth"):
        gtv.federate(losses, "proxskip", **settings)
    with pytest.raises(ValueError, match="gamma must be a finite number > 0, the same for all devices"):
        gtv.federate(losses, "proxskip", gamma=[0.1, 0.1], **settings)


def test_the_affine_map_of_a_round_is_exact() -> None:
    """Radius and fixed point of FedGD against the matrix written down, and the measured factor against them."""
    problem, form = problem_q(), form_of(problem_q())
    eta = 0.1
    Q, b = device_quadratics(problem)
    H = np.kron(2 * problem.alpha * problem.network.laplacian().toarray(), np.eye(DIM))
    for i in range(N):
        H[DIM * i : DIM * i + DIM, DIM * i : DIM * i + DIM] += Q[i]
    found = affine_round(FedGD(eta=eta), form)
    assert np.allclose(found.A, np.eye(N * DIM) - eta * H, atol=1e-13)
    radius = np.abs(1 - eta * np.linalg.eigvalsh(H)).max()
    assert found.spectral_radius() == pytest.approx(radius, rel=1e-10)
    assert np.allclose(found.fixed_point(), np.linalg.solve(H, b.ravel()), atol=1e-11)
    assert measured_contraction(FedGD(eta=eta), form, rounds=120) == pytest.approx(radius, rel=1e-3)
    with pytest.raises(ValueError, match="not affine"):
        affine_round(FedGD(), form_of(problem_l()))
    with pytest.raises(ValueError, match="invariants"):
        found.spectral_radius(invariants=1)


def test_plots_of_runs() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    from gtvmin.federated.plots import plot_federated

    runs = [gtv.federate(problem_q(), "fedavg", rounds=30, weights="uniform", local_steps=k, eta=0.1) for k in (1, 5)]
    for x in ("rounds", "bytes", "gradients"):
        axes = plot_federated(runs, x=x, ax=figure.add_subplot())
        assert [text.get_text() for text in axes.get_legend().get_texts()] == ["fedavg", "fedavg (2)"]
        assert len(axes.lines[0].get_xdata()) == 30
    with pytest.raises(ValueError, match="x must be"):
        plot_federated(runs, x="time")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FEDERATED)
def test_solve_takes_algorithms_whose_limit_is_the_problem(name: str) -> None:
    algorithm = make_algorithm(name, **entries()[name].example)
    if missing_capabilities(algorithm, problem_q().lowered.form):
        pytest.skip("for other penalties: its own tests solve them")
    solution = problem_q().solve(method=algorithm, gap=1e-10)
    assert solution.is_certified
    assert solution.objective == pytest.approx(problem_q().solve(gap=1e-12).objective, rel=1e-9)
    assert problem_q().solve(method=name, **entries()[name].example).is_certified


def test_solve_refuses_algorithms_with_other_limits() -> None:
    with pytest.raises(ValueError, match=r"'fedavg' is unknown.*gtvmin\.federate"):
        problem_q().solve(method="fedavg")


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match=r"'fedavgg' is unknown.*fedavg"):
        gtv.federate(problem_q(), "fedavgg", rounds=1)
    with pytest.raises(TypeError, match=r"'lr' is no setting of 'fedgd'"):
        gtv.federate(problem_q(), "fedgd", rounds=1, lr=0.1)
    with pytest.raises(TypeError, match="belong to an algorithm that is given by name"):
        gtv.federate(problem_q(), FedGD(), rounds=1, eta=0.1)
    with pytest.raises(CapabilityError, match=r"local\.gradient"):
        gtv.federate([gtv.LeastAbsolute([[1.0]], [1.0])] * 2, "fedavg", rounds=1, weights="uniform")
    with pytest.raises(ValueError, match="rounds"):
        gtv.federate(problem_q(), FedGD(), rounds=0)


@pytest.mark.parametrize("name", algorithm_names())
def test_every_algorithm_is_a_frozen_solver_that_leaves_its_states_alone(name: str) -> None:
    """Settings and states are immutable, rounds repeat bit for bit, and what `variables` names is there."""
    algorithm = make_algorithm(name, **entries()[name].example)
    form = form_of(problem_q())
    start = Point(W.copy())
    first = algorithm.init(form, start)
    kept = {variable: np.array(getattr(first, variable)) for variable in algorithm.variables}
    runs = []
    for _ in range(2):
        state = first
        for _ in range(3):
            state = algorithm.step(form, state)
        runs.append(state)
        assert all(np.array_equal(getattr(first, variable), value) for variable, value in kept.items())
    for variable in algorithm.variables:
        assert np.array_equal(getattr(runs[0], variable), getattr(runs[1], variable))
    assert np.array_equal(start.W, W)
    assert algorithm.point(form, runs[0]).W.shape == (N, DIM)
    traffic = algorithm.traffic(form, runs[0])
    assert traffic.bytes_up >= 0
    assert traffic.sent.shape == (N,)
    assert program_of(algorithm, problem_q()) is not None
    with pytest.raises(AttributeError):
        algorithm.requires = frozenset()
