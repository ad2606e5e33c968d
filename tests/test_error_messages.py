"""Typical mistakes of a first program: the message names the argument and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.solvers.federated.schedule import Schedule

X, Y = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([0.0, 1.0])
NET = gtv.FLNetwork.from_edges([(0, 1)])
LOSSES = {0: gtv.SquaredError(X, Y), 1: gtv.SquaredError(X, Y)}
HINGES = {0: gtv.Hinge(X, Y), 1: gtv.Hinge(X, Y)}


def declare(losses: Any, penalty: Any = None) -> gtv.GTVMin:
    return gtv.GTVMin(NET, losses, penalty=penalty or gtv.Norm(2), alpha=1.0)


def federate(problem: Any, name: str, **settings: Any) -> Any:
    return gtv.federate(problem, name, rounds=1, **settings)


@pytest.mark.parametrize(
    ("mistake", "error", "message"),
    [
        (lambda: gtv.Logistic(X, ["ill", "well"]), TypeError, r"text 'ill': numpy.unique\(y, return_inverse=True\)"),
        (lambda: gtv.Softmax(X, ["a", "b"]), TypeError, r"numpy.unique\(y, return_inverse=True\)"),
        (lambda: gtv.SquaredError(X, ["1.5", "2"]), TypeError, r"numpy.asarray\(y, dtype=float\)"),
        (lambda: gtv.SquaredError([[1.0, None]], [1.0]), TypeError, "dtype object: it holds None"),
        (lambda: gtv.Logistic(X, [1, 2]), ValueError, "y == 2 makes two"),
        (lambda: declare({"0": LOSSES[0], 1: LOSSES[1]}), ValueError, "'0', which is not a node .* while 0 is"),
        (lambda: declare({0: (X, Y), 1: (X, Y)}), TypeError, "got a tuple$"),
        (lambda: declare({0: 3, 1: 3}), TypeError, "got 3$"),
        (lambda: declare(LOSSES, gtv.Norm), TypeError, r"write Norm\(...\)"),
        (lambda: declare(LOSSES).solve(solver="SCS"), TypeError, "CVXPY's solvers need method='cvxpy'"),
        (lambda: federate(LOSSES, "FedAvg", weights="uniform"), ValueError, "did you mean 'fedavg'"),
        (lambda: federate(LOSSES, "PD-SGD"), ValueError, "did you mean 'pdsgd'"),
        (lambda: federate(LOSSES, "adam"), ValueError, "choose one of apfl, .*scaffold"),
        (lambda: federate(LOSSES, "fedavg"), TypeError, "needs weights=: 'uniform', 'samples' or one number"),
        (lambda: federate(LOSSES, "fedavg", weights={0: 1, 1: 1}), TypeError, "got a dict: .*for name in losses"),
        (lambda: federate(LOSSES, "fedavg", weights="uniform", participation=0.5), TypeError, r"Bernoulli\(0.5\)"),
        (lambda: federate(LOSSES, "fedrelax"), CapabilityError, r"give a GTVMin problem with penalty=SquaredNorm\(\)"),
        (lambda: federate(declare(LOSSES), "fedrelax"), CapabilityError, r": declare penalty=SquaredNorm\(\)"),
        (lambda: federate(HINGES, "fedavg", weights="uniform"), CapabilityError, "smooth ones, .* 'fedprox'"),
        (lambda: Schedule(0.5), TypeError, r"active must be a rule such as Bernoulli\(0.5\)"),  # type: ignore[arg-type]
        (lambda: Schedule(availability=0.5), TypeError, "availability must be a rule"),  # type: ignore[arg-type]
    ],
)
def test_the_message_names_the_fix(mistake: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        mistake()


def test_the_fixes_work() -> None:
    """What the messages say to write is taken."""
    labels = np.unique(["ill", "well"], return_inverse=True)[1]
    assert gtv.Logistic(X, labels).value([0.0, 0.0]) == pytest.approx(np.log(2))
    assert gtv.Softmax(X, labels).value(np.zeros(4)) == pytest.approx(np.log(2))
    assert gtv.Logistic(X, np.array([1, 2]) == 2).value([0.0, 0.0]) == pytest.approx(np.log(2))
    federate(HINGES, "fedprox", weights="uniform", mu=1.0)
    federate(declare(LOSSES, gtv.SquaredNorm()), "fedrelax")


@pytest.mark.parametrize("delay", [2.0, np.int64(2)])
def test_a_whole_delay_of_another_type_is_that_delay(delay: Any) -> None:
    problem = declare(LOSSES, gtv.SquaredNorm())
    runs = [gtv.federate(problem, "fedrelax", rounds=6, schedule=Schedule(delay=late)) for late in (2, delay)]
    assert np.array_equal(runs[0].weights, runs[1].weights)


@pytest.mark.parametrize("options", [{"time_limit": float("nan")}, {"time_limit": -1.0}])
def test_limits_are_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="time_limit"):
        declare(LOSSES).solve(**options)
    with pytest.raises(ValueError, match="time_limit"):
        gtv.federate(LOSSES, "fedavg", rounds=2, weights="uniform", **options)


@pytest.mark.parametrize("every", [-5, 2.5])
def test_assessments_come_every_so_many_rounds(every: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="check_every"):
        gtv.federate(LOSSES, "fedavg", rounds=9, weights="uniform", check_every=every)
