"""Settings and starting points of a wrong shape are refused with the same words by every algorithm."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import DIM, N, form_of, problem_q
from gtvmin.errors import CapabilityError
from gtvmin.federated.catalogue import entries, make_algorithm
from gtvmin.solvers.federated.participation import Bernoulli
from gtvmin.solvers.standard_form import Point


def run(name: str, **settings: Any) -> Any:
    algorithm = make_algorithm(name, **{**entries()[name].example, **settings})
    return gtv.federate(problem_q(), algorithm, rounds=1)


@pytest.mark.parametrize("shape", [(N, DIM + 1), (1, DIM), (N + 1, DIM), (DIM,)], ids=str)
@pytest.mark.parametrize("name", entries())
def test_a_start_needs_one_model_a_device(name: str, shape: tuple[int, ...]) -> None:
    algorithm = make_algorithm(name, **entries()[name].example)
    with pytest.raises(
        ValueError, match=rf"start must hold one model a device, shape \({N}, {DIM}\), got \({shape[0]},"
    ):
        algorithm.init(form_of(problem_q()), Point(np.zeros(shape)))


def taking(setting: str) -> list[str]:
    return [name for name, entry in entries().items() if setting in signature(entry.algorithm).parameters]


@pytest.mark.parametrize("name", taking("eta"))
def test_a_step_size_is_a_number_or_one_a_device(name: str) -> None:
    """Algorithms with one step for all devices say that they have one."""
    one = {"dgd", "extra", "gradienttracking", "l2gd", "matcha"}
    words = "the same for all devices" if name in one else f"or {N} of them, one a device"
    more = {"local_steps": 1} if name in {"fedprox", "feddyn", "feddr", "fedsplit"} else {}
    with pytest.raises(ValueError, match=rf"^eta must be a finite number > 0.*{words}, got \[0\.1, 0\.1\]"):
        run(name, eta=[0.1, 0.1], **more)


@pytest.mark.parametrize(
    ("name", "setting", "given", "more"),
    [
        ("apfl", "mixture", [0.5, 0.5], {}),
        ("fedprox", "gamma", [0.5, 0.5], {}),
        ("fedavg", "probability", Bernoulli((0.5, 0.5)), {}),
    ],
)
def test_other_settings_of_the_devices(name: str, setting: str, given: Any, more: dict[str, Any]) -> None:
    key = "participation" if isinstance(given, Bernoulli) else setting
    with pytest.raises(ValueError, match=f"^{setting} must be a number or {N} of them, one a device, got "):
        run(name, **{key: given}, **more)


AVERAGING = [name for name in entries() if name not in {"asynchronous", "fedgd", "fedrelax", "fedsgd", "edgeadmm"}]


@pytest.mark.parametrize("name", AVERAGING)
def test_devices_whose_models_are_averaged_need_equally_many_parameters(name: str) -> None:
    losses = {"Oulu": gtv.SquaredError([[1.0, 0.0]], [1.0]), "Turku": gtv.SquaredError([[1.0, 0.0, 2.0]], [1.0])}
    net = gtv.FLNetwork.from_edges([("Oulu", "Turku")])
    problem = gtv.GTVMin(net, losses, penalty=gtv.Partial(gtv.SquaredNorm(), [0]), alpha=1.0)
    algorithm = make_algorithm(name, **entries()[name].example)
    with pytest.raises(CapabilityError) as error:
        gtv.federate(problem, algorithm, rounds=1)
    assert "device 'Turku' has 3 parameters where 'Oulu' has 2" in str(error.value)
