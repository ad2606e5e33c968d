"""The synthetic(alpha, beta) data against the laws that they are drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from gtvmin.datasets import make_synthetic


def test_sizes_and_labels() -> None:
    data = make_synthetic(1.0, 1.0)
    assert len(data.features) == len(data.labels) == 30
    assert data.true_weights.shape == (30, 60, 10)
    for i in range(30):
        scores = data.features[i] @ data.true_weights[i] + data.true_intercepts[i]
        assert data.labels[i].tolist() == scores.argmax(axis=1).tolist()
        assert not data.features[i].flags.writeable
    assert set(np.concatenate(data.labels)) <= set(range(10))


def test_numbers_of_rows_are_log_normal() -> None:
    rows = make_synthetic(0.0, 0.0, devices=4000, features=1, classes=2).rows
    assert rows.min() >= 50
    # the logarithms of what is beyond 50: floors move them little where they are large
    logs = np.log(rows - 49.5)
    assert np.median(logs) == pytest.approx(4.0, abs=4 * 1.2533 * 2.0 / np.sqrt(4000))
    upper = np.quantile(logs, 0.8413)  # one standard deviation above the mean
    assert upper - np.median(logs) == pytest.approx(2.0, abs=0.2)
    # a heavy tail: the largest tenth of the devices holds most of the data
    assert np.sort(rows)[-400:].sum() > 0.5 * rows.sum()


def test_models_and_features_spread_as_alpha_and_beta_say() -> None:
    data = make_synthetic(3.0, 2.0, devices=2000, features=20, classes=5, seed=1)
    u = data.true_weights.mean(axis=(1, 2))  # of 100 entries N(u_k, 1): variance alpha^2 + 1/100
    assert u.var() == pytest.approx(9.0 + 0.01, rel=0.15)
    within = data.true_weights - u[:, None, None]
    assert within.var() == pytest.approx(0.99, rel=0.02)
    # intercepts share the mean of the weights
    assert (data.true_intercepts.mean(axis=1) - u).var() == pytest.approx(1 / 5 + 1 / 100, rel=0.15)
    means = np.array([X.mean(axis=0) for X in data.features])
    assert means.mean(axis=1).var() == pytest.approx(4.0 + 1 / 20, rel=0.15)


def test_features_have_a_decaying_covariance() -> None:
    data = make_synthetic(0.0, 0.0, devices=60, features=10, classes=2, seed=3)
    centred = np.concatenate([X - X.mean(axis=0) for X in data.features])
    covariance = centred.T @ centred / len(centred)
    expected = np.diag(np.arange(1.0, 11.0) ** -1.2)
    assert covariance == pytest.approx(expected, abs=0.03)
    # of the means N(0, 1) with beta 0
    assert np.array([X.mean(axis=0) for X in data.features]).var() == pytest.approx(1.0, rel=0.2)


def test_identical_devices() -> None:
    data = make_synthetic(0.0, 0.0, iid=True, devices=5)
    assert (data.true_weights == data.true_weights[0]).all()
    assert (data.true_intercepts == data.true_intercepts[0]).all()
    largest = max(data.features, key=len)
    assert np.abs(largest.mean(axis=0)).max() < 5.0 / np.sqrt(len(largest))
    with pytest.raises(ValueError, match="alpha and beta must be 0"):
        make_synthetic(1.0, 0.0, iid=True)


def test_draws_follow_from_the_seed() -> None:
    one, again, other = (make_synthetic(1.0, 1.0, devices=3, seed=s) for s in (4, 4, 5))
    assert all((a == b).all() for a, b in zip(one.features, again.features, strict=True))
    assert one.rows.tolist() != other.rows.tolist()
    # streams of their own: other alpha, the same features
    assert (make_synthetic(0.0, 1.0, devices=3, seed=4).features[2] == one.features[2]).all()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"alpha": -1.0, "beta": 0.0}, "alpha"),
        ({"alpha": 0.0, "beta": float("nan")}, "beta"),
        ({"alpha": 0.0, "beta": 0.0, "classes": 1}, "classes"),
        ({"alpha": 0.0, "beta": 0.0, "devices": 0}, "devices"),
        ({"alpha": 0.0, "beta": 0.0, "seed": -1}, "seed"),
    ],
)
def test_what_is_out_of_range_is_named(arguments, name) -> None:
    with pytest.raises(ValueError, match=name):
        make_synthetic(**arguments)
