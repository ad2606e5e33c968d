"""Every algorithm with every rule of participation, with numbers of local steps that differ, with stated weights."""

from __future__ import annotations

from dataclasses import fields, replace
from inspect import Parameter, signature
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import DIM, NAMES, N, form_of, problem_q
from gtvmin.federated.catalogue import entries, make_algorithm
from gtvmin.federated.operators import affine_round
from gtvmin.solvers.federated.participation import All, Bernoulli, ByWeight, Cyclic, UniformSample
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(4).normal(size=(N, DIM)))
RULES = (UniformSample(3), ByWeight(3), Cyclic(3), Bernoulli(0.4), Bernoulli(tuple(np.linspace(0.1, 1.0, N))))
SEVERAL = [1, 2, 3, 4, 1, 2, 3, 4]


def taking(*names: str) -> list[str]:
    """Algorithms with one of these settings."""
    return [name for name, entry in entries().items() if set(names) & set(signature(entry.algorithm).parameters)]


def made(name: str, **settings: Any) -> Any:
    return make_algorithm(name, **{**entries()[name].example, **settings})


@pytest.mark.parametrize("name", taking("weights"))
def test_weights_are_never_implicit(name: str) -> None:
    assert signature(entries()[name].algorithm).parameters["weights"].default is Parameter.empty
    without = {key: value for key, value in entries()[name].example.items() if key != "weights"}
    with pytest.raises(TypeError, match="needs weights="):
        gtv.federate(problem_q(), name, rounds=1, **without)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("name", taking("participation"))
def test_who_takes_no_part_does_nothing(name: str, rule: Any) -> None:
    """It sends, receives and computes nothing, and what is its own stays as it is; the others do something."""
    # with the exact gradient, contextual aggregation asks all devices for theirs
    more = {"further": 0} if name == "contextual" else {}
    form, algorithm = form_of(problem_q()), made(name, participation=rule, **more)
    state = algorithm.init(form, START)
    rested = worked = False
    for _ in range(6):
        before, state = state, algorithm.step(form, state)
        idle = ~state.updated if name == "contextual" else state.counts == 0
        spent = algorithm.traffic(form, state)
        for field in fields(spent):
            assert not np.asarray(getattr(spent, field.name))[idle].any()
        assert (spent.sent[~idle] > 0).all()
        for variable in algorithm.variables:
            now, last = (np.asarray(getattr(s, variable)) for s in (state, before))
            assert np.isfinite(now).all()
            if now.shape[:1] == (N,):
                assert np.array_equal(now[idle], last[idle]), variable
        rested, worked = rested or bool(idle.any()), worked or not idle.all()
    assert rested
    assert worked


@pytest.mark.parametrize("name", taking("participation"))
def test_all_devices_are_the_default(name: str) -> None:
    form, algorithm = form_of(problem_q()), made(name)
    assert algorithm.participation == All()
    sure = replace(algorithm, participation=Bernoulli(1.0))
    states = [algorithm.init(form, START), sure.init(form, START)]
    for _ in range(3):
        states = [a.step(form, state) for a, state in zip((algorithm, sure), states, strict=True)]
    for variable in algorithm.variables:
        assert np.allclose(getattr(states[0], variable), getattr(states[1], variable), atol=1e-13)


@pytest.mark.filterwarnings("ignore:s .eta alpha")  # FedDC with few steps, for a few rounds
@pytest.mark.parametrize("name", taking("local_steps", "local_rounds"))
def test_numbers_of_local_steps_belong_to_the_devices(name: str) -> None:
    """Devices in another order, with their numbers, make the same rounds; other numbers are another map."""
    setting = "local_steps" if "local_steps" in signature(entries()[name].algorithm).parameters else "local_rounds"
    problem, settings = problem_q(), {"eta": 0.05}
    if name == "contextual":  # where the updates span the space, what the devices did has no influence
        settings = {"further": 0, "participation": UniformSample(2), "eta": 0.05}
    order = np.random.default_rng(0).permutation(N)
    turned = gtv.GTVMin(
        gtv.FLNetwork.from_edges(
            [(*edge, w) for edge, w in zip(problem.network.edges, problem.network.weights, strict=True)],
            nodes=[NAMES[i] for i in order],
        ),
        [problem.losses[i] for i in order],
        penalty=problem.penalty,
        alpha=problem.alpha,
    )
    plain = made(name, **{setting: SEVERAL}, **settings)
    moved = made(name, **{setting: [SEVERAL[i] for i in order]}, **settings)
    form, other = form_of(problem), form_of(turned)
    a, b = plain.init(form, START), moved.init(other, Point(START.W[order]))
    for _ in range(4):
        a, b = plain.step(form, a), moved.step(other, b)
    models = plain.point(form, a).W
    assert np.allclose(models[order], moved.point(other, b).W, atol=1e-12)
    same = made(name, **{setting: 1}, **settings)
    c = same.init(form, START)
    for _ in range(4):
        c = same.step(form, c)
    assert np.abs(models - same.point(form, c).W).max() > 1e-3


def test_the_affine_map_sees_each_number_of_steps() -> None:
    """FedAvg's map is ``sum_i p_i (I - eta Q_i)^K_i``, from the data."""
    problem, eta = problem_q(), 0.05
    found = affine_round(made("fedavg", local_steps=SEVERAL, eta=eta), form_of(problem)).A
    powers = [
        np.linalg.matrix_power(np.eye(DIM) - eta * 2.0 * loss.X.T @ loss.X / loss.n_samples, k)
        for loss, k in zip(problem.losses, SEVERAL, strict=True)
    ]
    assert np.allclose(found, np.mean(powers, axis=0), atol=1e-13)
