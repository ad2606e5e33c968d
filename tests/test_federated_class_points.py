"""Gradients and local steps of devices with classes, against the formula written out for one data point at a time."""

from __future__ import annotations

import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.datasets import make_synthetic
from gtvmin.federated import federated_form
from gtvmin.federated.running import _server_problem
from gtvmin.solvers.federated.class_points import ClassPoints
from gtvmin.solvers.federated.local_steps import descend, gradient

FEATURES, CLASSES = 4, 3
DIM = FEATURES * CLASSES
RIDGE, TILT, FACTOR = 0.3, np.linspace(-1.0, 1.0, DIM), 2.5
SIZES = (6, 1, 9, 0)
RNG = np.random.default_rng(2)
X = [RNG.normal(size=(m, FEATURES)) for m in SIZES]
Y = [RNG.integers(0, CLASSES, m) for m in SIZES]
SAMPLE_WEIGHT = RNG.uniform(0.5, 2.0, SIZES[0])


def table() -> ClassPoints:
    """Weighted data, a plain loss, a sum with quadratic and linear functions, and a device without data."""
    losses = [
        FACTOR * gtv.Softmax(X[0], Y[0], classes=CLASSES, scale="sum", sample_weight=SAMPLE_WEIGHT),
        gtv.Softmax(X[1], Y[1], classes=CLASSES),
        gtv.Softmax(X[2], Y[2], classes=CLASSES) + gtv.Quadratic(RIDGE * np.eye(DIM)) + gtv.Linear(TILT),
        gtv.Zero(),
    ]
    data = federated_form(_server_problem(losses)).data
    assert isinstance(data, ClassPoints)
    return data


def by_hand(i: int, w: np.ndarray, rows: list[int]) -> np.ndarray:
    """Sum of the gradients of some data points of a device, without its quadratic part."""
    total = np.zeros((FEATURES, CLASSES))
    for r in rows:
        p = np.exp(w.reshape(FEATURES, CLASSES).T @ X[i][r])
        p = p / p.sum() - np.eye(CLASSES)[Y[i][r]]
        total += (FACTOR * SAMPLE_WEIGHT[r] if i == 0 else 1.0 / SIZES[i]) * np.outer(X[i][r], p)
    return total.ravel()


def rest(i: int, w: np.ndarray) -> np.ndarray:
    return RIDGE * w + TILT if i == 2 else np.zeros(DIM)


def test_gradients_are_those_of_the_formula() -> None:
    W = RNG.normal(size=(4, DIM))
    expected = [by_hand(i, W[i], list(range(m))) + rest(i, W[i]) for i, m in enumerate(SIZES)]
    assert table().gradient(W) == pytest.approx(np.array(expected), abs=1e-14)
    huge = np.tile(1e4 * RNG.normal(size=DIM), (4, 1))
    assert np.isfinite(table().gradient(huge)).all()


def test_batches_are_scaled_to_all_data() -> None:
    W = RNG.normal(size=(4, DIM))
    rows = np.array([[1, 4], [6, -1], [7, 7], [-1, -1]])  # positions in the table: device 2 starts at row 7
    expected = [
        3.0 * by_hand(0, W[0], [1, 4]),
        by_hand(1, W[1], [0]),
        4.5 * by_hand(2, W[2], [0, 0]) + rest(2, W[2]),
        np.zeros(DIM),
    ]
    assert table().batch_gradient(W, rows) == pytest.approx(np.array(expected), abs=1e-13)


def test_local_steps_are_written_out() -> None:
    W, linear, anchor = RNG.normal(size=(4, DIM)), RNG.normal(size=(4, DIM)), RNG.normal(size=(4, DIM))
    steps, rate, mu = np.array([3, 0, 2, 1]), np.array([0.1, 0.2, 0.3, 0.4]), 0.7
    expected = W.copy()
    for i, m in enumerate(SIZES):
        for _ in range(steps[i]):
            w = expected[i]
            g = by_hand(i, w, list(range(m))) + rest(i, w)
            expected[i] = w - rate[i] * (g + linear[i] + mu * (w - anchor[i]))
    assert table().descend(W, steps, rate, linear, mu, anchor) == pytest.approx(expected, abs=1e-13)


def test_losses_that_no_table_knows_take_the_other_way() -> None:
    """A quadratic function that couples coordinates."""
    H = np.ones((DIM, DIM)) + np.eye(DIM)
    losses = [gtv.Softmax(X[0], Y[0], classes=CLASSES) + gtv.Quadratic(H), gtv.Softmax(X[1], Y[1], classes=CLASSES)]
    form = federated_form(_server_problem(losses))
    assert form.data is None
    w = RNG.normal(size=(2, DIM))
    moved = descend(form, w, np.array([1, 1]), np.array([1.0, 1.0]))
    assert moved == pytest.approx(w - gradient(form, w))


def test_stochastic_gradients_reach_the_classes() -> None:
    """Minibatches of the synthetic data, which were refused without a table."""
    data = make_synthetic(0.5, 0.5, devices=4, features=5, classes=3)
    run = gtv.federate(
        data.losses(ridge=0.01), "fedavg", rounds=40, weights="samples", local_steps=5, batch=10, eta=0.05
    )
    assert run.history[-1].objective < 0.7 * run.history[0].objective
