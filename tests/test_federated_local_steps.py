"""Devices without data, steps or curvature: what programs then hold, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import N, problem_q
from gtvmin.errors import NotUniqueWarning
from gtvmin.federated.catalogue import entries
from gtvmin.solvers.federated.minibatch import Minibatch

SOME_REST = [1] * (N - 1) + [0]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fedavg", {"local_steps": 0}),
        ("fedprox", {"mu": 1.0, "local_steps": 0}),
        ("pfedme", {"lam": 1.0, "local_rounds": 0}),
        ("apfl", {"local_steps": SOME_REST}),
        ("ditto", {"lam": 1.0, "personal_steps": SOME_REST}),
        ("feddyn", {"local_steps": SOME_REST}),
        ("feddr", {"local_steps": SOME_REST}),
        ("fedsplit", {"local_steps": SOME_REST}),
    ],
)
def test_steps_that_would_leave_models_where_they_are_are_refused(name: str, settings: dict[str, Any]) -> None:
    setting = next(key for key in settings if key not in ("mu", "lam"))
    with pytest.raises(ValueError, match=rf"{setting} (must be|are zero)"):
        gtv.federate(problem_q(), name, rounds=1, weights="uniform", **settings)


def test_devices_without_local_steps_leave_fedavgs_program() -> None:
    """They have no weight in its limit: the minimiser of the others' losses, by the normal equations."""
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0, 9.0)]
    run = gtv.federate(losses, "fedavg", rounds=200, weights=[1, 2, 3], local_steps=[1, 1, 0], eta=0.5)
    assert run.model == pytest.approx([2.0], rel=1e-10)
    assert run.program.exact
    assert run.certificate.holds(1e-10)


@pytest.mark.parametrize("order", ["replacement", "fresh", "epochs"])
def test_minibatches_leave_losses_without_data_whole(order: str) -> None:
    losses = [gtv.SquaredDistance([0.0]), gtv.SquaredDistance([3.0])]
    settings = {"weights": [1, 2], "batch": Minibatch(2, order), "eta": 0.2}
    assert np.allclose(gtv.federate(losses, "fedavg", rounds=200, **settings).model, 2.0)


def test_gradient_descent_on_the_network_counts_its_data_points() -> None:
    """Three devices with 2, 3 and 4 data points on a path, two rounds of 4 messages that are sent and received."""
    losses = [gtv.SquaredError(np.ones((m, 1)), np.arange(m)) for m in (2, 3, 4)]
    network = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    problem = gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    last = gtv.federate(problem, "fedgd", rounds=2).history[-1]
    assert (last.points, last.gradients, last.messages, last.bytes_up) == (18, 6, 16, 64)


@pytest.mark.parametrize("name", ["fedgd", "fedsgd", "proxskip"])
def test_losses_without_curvature_ask_for_a_step(name: str) -> None:
    network = gtv.FLNetwork.from_edges([], nodes=range(2))
    problem = gtv.GTVMin(network, [gtv.Zero(), gtv.Zero()], penalty=gtv.SquaredNorm(), alpha=1.0, dim=1)
    settings = dict(entries()[name].example)
    with pytest.raises(ValueError, match=r"must be given: .* sets no limit here"):
        gtv.federate(problem, name, rounds=1, **settings)
    step = "gamma" if name == "proxskip" else "eta"
    run = gtv.federate(problem, name, rounds=2, **settings, **{step: 0.5})
    assert not run.weights.any()


@pytest.mark.parametrize("local_steps", [1, 3])
def test_ditto_claims_no_program_where_its_global_model_has_many_limits(local_steps: int) -> None:
    """One data point in two dimensions: FedAvg ends where it began across it, and so do the models of the devices."""
    losses = [gtv.SquaredError([[1.0, 0.0]], [1.0]), gtv.Zero()]
    settings = {"weights": "uniform", "lam": 1.0, "local_steps": local_steps}
    ends = []
    for y in (0.0, 5.0):
        with pytest.warns(NotUniqueWarning):
            ends.append(gtv.federate(losses, "ditto", rounds=300, start=np.array([[0.0, y]] * 2), **settings))
    assert np.allclose([run.weights[:, 1] for run in ends], [[0.0, 0.0], [5.0, 5.0]])
    assert not any(run.program.exact for run in ends)
    assert "many limits" in ends[0].program.note
    sure = gtv.federate([loss + gtv.SquaredDistance([0.0, 0.0]) for loss in losses], "ditto", rounds=300, **settings)
    assert sure.program.exact
    assert sure.certificate.holds(1e-9)


def test_devices_without_a_loss_do_not_keep_contextual_aggregation_from_stalling() -> None:
    """Seven devices and six parameters, but only three updates: it stops where the gradient is not zero."""
    rng = np.random.default_rng(0)
    losses = [gtv.SquaredError(rng.normal(size=(9, 6)), rng.normal(size=9)) for _ in range(3)] + [gtv.Zero()] * 4
    run = gtv.federate(losses, "contextual", rounds=3000, weights="uniform", local_steps=5)
    assert not run.certificate.holds(1e-6)
    assert not run.program.exact
