"""Published experiments in small: what they found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

# behind the installed packages: the checkout's own gtvmin lacks gtvmin.solvers
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks import aggregation, heterogeneity, network_lasso_sbm
from benchmarks.network_lasso_sbm import mean_of
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning

LARGEST = 40_000


@pytest.fixture(scope="module")
def sbm() -> list[dict[str, object]]:
    return network_lasso_sbm.measure(size=50, lambdas=(1e-3, 1e-2, 10.0), p_out=(1e-3, 2e-2), seeds=(0, 1))


def test_network_lasso_learns_devices_without_labels(sbm: list[dict[str, object]]) -> None:
    """One linear model is off by 4, the variance of what (2, 2) and (-2, 2) do not share; the network Lasso is not."""
    for p_out in (1e-3, 2e-2):
        found = mean_of(sbm, "network Lasso", "unlabelled", noise=0.0, p_out=p_out, **{"lambda": 1e-3})
        assert found < 1e-4
    assert mean_of(sbm, "least squares, one model", "unlabelled", noise=0.0) == pytest.approx(4.0, rel=0.25)
    assert mean_of(sbm, "decision tree, one model", "unlabelled", noise=0.0) > 3.0


def test_errors_grow_with_lambda_and_with_edges_between_clusters(sbm: list[dict[str, object]]) -> None:
    def error(p_out: float, lam: float) -> float:
        return mean_of(sbm, "network Lasso", "unlabelled", noise=0.0, p_out=p_out, **{"lambda": lam})

    assert error(1e-3, 1e-3) < error(2e-2, 1e-3)
    # without noise the error is a bias proportional to lambda, until the clusters merge
    assert error(2e-2, 1e-2) == pytest.approx(100.0 * error(2e-2, 1e-3), rel=0.05)
    merged = mean_of(sbm, "least squares, one model", "unlabelled", noise=0.0, p_out=2e-2)
    assert error(2e-2, 10.0) == pytest.approx(merged, rel=1e-3)


def test_noise_of_neighbours_averages_out(sbm: list[dict[str, object]]) -> None:
    """A device alone has the error ``sigma^2 d / m = 0.1`` in expectation; with its neighbours much less."""
    alone = mean_of(sbm, "least squares at each device", "labelled", noise=0.5)
    assert alone == pytest.approx(0.25 * 2 / 5, rel=0.4)
    assert mean_of(sbm, "network Lasso", "labelled", noise=0.5, p_out=1e-3, **{"lambda": 1e-2}) < 0.5 * alone


def test_stragglers_are_the_same_for_all_and_leave_fedavg() -> None:
    keys = np.arange(1, 201, dtype=np.uint64)
    slow = heterogeneity.late(keys, 3, 0.5)
    assert 70 < slow.sum() < 130
    rule = heterogeneity.Punctual(UniformSample(150), 0.5)
    everybody = UniformSample(150).counts(keys, np.full(200, 1 / 200), 3)
    kept = rule.counts(keys, np.full(200, 1 / 200), 3)
    assert (kept[slow] == 0).all()
    assert (kept[~slow] == everybody[~slow]).all()


@pytest.mark.filterwarnings(f"ignore::{StepSizeWarning.__module__}.{StepSizeWarning.__name__}")
def test_taking_the_work_of_stragglers_beats_dropping_them() -> None:
    rows = heterogeneity.measure(("(1, 1)",), (0.0, 0.9), rounds=10, epochs=4, devices=10, active=4, features=10)
    dropped, partial, proximal = (heterogeneity.curve(rows, "(1, 1)", 0.9, m) for m in heterogeneity.METHODS)
    assert len(dropped) == 11
    assert dropped[0] == partial[0] == pytest.approx(np.log(10.0))
    assert partial[-4:].mean() < dropped[-4:].mean() - 0.1
    assert proximal[-4:].mean() < dropped[-4:].mean() - 0.1


@pytest.mark.filterwarnings(f"ignore::{StepSizeWarning.__module__}.{StepSizeWarning.__name__}")
def test_contextual_aggregation_never_raises_the_loss() -> None:
    """With the exact gradient, as the paper proves; FOLB has no such bound, and all of them learn."""
    rows = aggregation.measure(rounds=15, steps=5, devices=12, active=4, features=15)
    for method in aggregation.METHODS:
        losses = aggregation.curve(rows, method)
        assert losses[0] == pytest.approx(np.log(10.0))
        assert losses[-1] < losses[0] - 0.05
    assert (np.diff(aggregation.curve(rows, "contextual, beta = 100")) < 0).all()


@pytest.mark.parametrize("module", [network_lasso_sbm, heterogeneity, aggregation])
def test_pictures_are_there_and_small(module) -> None:
    name = module.__name__.rpartition(".")[2]
    assert (module.FOLDER / f"{name}.csv").stat().st_size < LARGEST
    assert (module.FOLDER / f"{name}.png").stat().st_size < LARGEST
