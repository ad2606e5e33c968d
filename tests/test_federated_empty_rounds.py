"""Rounds without devices change nothing and cost nothing, for every algorithm with participation."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from federated_problems import DIM, N, form_of, problem_q
from gtvmin.federated.catalogue import entries, make_algorithm
from gtvmin.solvers.federated.participation import Bernoulli
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))


class Nobody(Bernoulli):
    """A rule whose coins say no."""

    def counts(self, keys: Any, p: np.ndarray, round: int) -> np.ndarray:
        return np.zeros(len(p))


def settings_of(name: str) -> set[str]:
    return {field.name for field in fields(entries()[name].algorithm)}  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [name for name in entries() if "participation" in settings_of(name)])
def test_an_empty_round_changes_nothing(name: str) -> None:
    form, algorithm = form_of(problem_q()), make_algorithm(name, **entries()[name].example)
    state = algorithm.init(form, START)
    for _ in range(3):
        state = algorithm.step(form, state)
    idle = replace(algorithm, participation=Nobody(0.5))
    after = idle.step(form, state)
    for variable in algorithm.variables:
        assert np.allclose(getattr(after, variable), getattr(state, variable), rtol=0, atol=1e-13)
    traffic = idle.traffic(form, after)
    assert all(not np.asarray(getattr(traffic, field.name)).any() for field in fields(traffic))
