"""The benchmark of rounds compares like with like."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

# behind the installed packages: the checkout's own gtvmin lacks gtvmin.solvers
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.federated_rounds import ALGORITHMS, loops, main, problem_of
from gtvmin.federated import federated_form, make_algorithm
from gtvmin.solvers.standard_form import Point


@pytest.mark.parametrize("title", ALGORITHMS)
def test_rounds_are_those_of_the_loops(title: str) -> None:
    """From models of the server's, or of each device for FedGD, three rounds one after the other."""
    name, settings = ALGORITHMS[title]
    problem = problem_of(30)
    form, algorithm = federated_form(problem), make_algorithm(name, **settings)
    written_out = loops(problem, name, settings)
    start = np.random.default_rng(1).normal(size=(30, 10))
    W = start if name == "fedgd" else np.tile(start[0], (30, 1))
    state = algorithm.init(form, Point(W))
    for _ in range(3):
        state, W = algorithm.step(form, state), written_out(W)
        assert np.abs(algorithm.point(form, state).W - W).max() < 1e-13


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(20)
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(ALGORITHMS)
