"""Programs of federated algorithms as a sentence, and where models that differ stand in them."""

from __future__ import annotations

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import DIM, N, problem_q
from gtvmin.display import objective_line
from gtvmin.federated import program_of
from gtvmin.federated.catalogue import entries, make_algorithm
from gtvmin.federated.program import complete_graph
from gtvmin.solvers.standard_form import Point

CONSENSUS = "minimise sum_i p_i L_i(w) over one model w of all devices"
EXPECTED = [
    ("fedgd", {}, "minimise sum_i L_i(w_i) + 0.5 sum_(i,j) A_ij ||w_j - w_i||_2^2"),
    ("fedavg", {}, CONSENSUS),
    ("feddc", {}, f"{CONSENSUS} (if the drifts settle, inside the stability region)"),
    (
        "fedavg",
        {"local_steps": 3},
        f"{CONSENSUS} (the limit need not solve it: several local steps are biased; for quadratic losses see the "
        "surrogate)",
    ),
    (
        "fedprox",
        {"mu": 3.0},
        "minimise sum_i p_i (L_i(v_i) + 1.5 ||v_i - w||_2^2) over the devices' v_i and the server's w",
    ),
    ("apfl", {}, "minimise L_i(v) for each device i by itself"),
    (
        "ditto",
        {"lam": 3.0},
        "minimise L_i(v) + 1.5 ||v - w||_2^2 for each device i by itself, with w the limit of the global model",
    ),
    (
        "mocha",
        {"ridge": 3.0},
        "minimise sum_i L_i(w_i) + 0.5 sum_(i,j) A_ij ||w_j - w_i||_2^2, with 1.5 ||w_i||_2^2 in every L_i",
    ),
    ("extra", {}, "minimise sum_i L_i(w) over one model w of all devices"),
    (
        "pdsgd",
        {"eta": 0.1},
        "minimise sum_i L_i(w_i) + 5 <W, (M^-1 - I) W> over W in the range of M",
    ),
    ("feddr", {"regulariser": gtv.L1()}, "minimise r(w) + sum_i p_i L_i(w) over one model w of all devices"),
]


@pytest.mark.parametrize(("name", "settings", "formula"), EXPECTED)
def test_a_program_prints_as_a_formula(name: str, settings: dict[str, object], formula: str) -> None:
    program = program_of(make_algorithm(name, **{**entries()[name].example, **settings}), problem_q())
    assert str(program) == formula


def test_other_programs_print_too() -> None:
    assert str(complete_graph(problem_q(), np.full(N, 1 / N), 3.0)) == (
        "minimise sum_i p_i L_i(w_i) + 1.5 sum_(i<j) p_i p_j ||w_i - w_j||_2^2"
    )
    wide = make_algorithm("feddr", weights="uniform", regulariser=object())
    assert str(program_of(wide, problem_q())) == "no convex program: the regulariser is not declared as a loss"


@pytest.mark.parametrize(
    ("penalty", "formula"),
    [
        (gtv.Norm(1), "2 sum_(i,j) A_ij ||w_j - w_i||_1"),
        (gtv.PredictionDiscrepancy(np.eye(1)), "2 sum_(i,j) A_ij mean (x'(w_j - w_i))^2"),
        (
            gtv.FlowCost(cost=1.0, capacity=4.0),
            "2 sum_(i,j) A_ij (capacity max(w_j - w_i - cost, 0) + back_capacity max(-(w_j - w_i) - back_cost, 0))",
        ),
    ],
)
def test_penalties_are_written_out(penalty: gtv.Penalty, formula: str) -> None:
    net = gtv.FLNetwork.from_edges([(0, 1)])
    problem = gtv.GTVMin(net, [gtv.SquaredDistance([0.0])] * 2, penalty=penalty, alpha=2.0)
    assert objective_line(problem) == f"sum_i L_i(w_i) + {formula}"


@pytest.mark.parametrize(
    ("name", "settings"), [("pdsgd", {"local_steps": 5}), ("matcha", {"half_life": 10.0}), ("extra", {})]
)
def test_models_without_a_server_are_placed_at_their_mean(name: str, settings: dict[str, object]) -> None:
    W = np.random.default_rng(3).normal(size=(N, DIM))
    algorithm = make_algorithm(name, **settings)
    assert program_of(algorithm, problem_q()).place(Point(W)) == pytest.approx(np.tile(W.mean(axis=0), (N, 1)))


def test_a_run_without_a_server_is_certified_at_the_mean_of_its_models() -> None:
    """After two rounds of PD-SGD the models differ; the objective is that of their mean, from the data."""
    problem = problem_q()
    run = gtv.federate(problem, "pdsgd", rounds=2, local_steps=5, eta=0.05, check_every=1)
    w = run.weights.mean(axis=0)
    expected = sum(np.mean((loss.X @ w - loss.y) ** 2) for loss in problem.losses)
    assert np.ptp(run.weights, axis=0).max() > 0.01
    assert run.history[-1].objective == pytest.approx(expected)
