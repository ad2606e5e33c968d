"""What federated algorithms draw: streams of random numbers, minibatches, devices that take part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from federated_problems import DIM, NAMES, N, form_of, gradients, problem_l, problem_q
from gtvmin.federated.forms import label_identity
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.minibatch import Minibatch
from gtvmin.solvers.federated.participation import All, Bernoulli, ByWeight, Cyclic, UniformSample, server_average
from gtvmin.solvers.federated.streams import PARTICIPATION, device_keys, server_key, uniforms
from gtvmin.solvers.standard_form import Point

RNG = np.random.default_rng(1)
W = RNG.normal(size=(N, DIM))


def test_streams_belong_to_labels() -> None:
    """Another order, another device and another round: nobody else's numbers change."""
    problem = problem_q()
    losses = dict(zip(NAMES, problem.losses, strict=True))
    turned = [*NAMES[::-1], "new"]
    larger = gtv.GTVMin(
        gtv.FLNetwork.from_edges([], nodes=turned),
        {name: losses.get(name, problem.losses[0]) for name in turned},
        penalty=gtv.SquaredNorm(),
        alpha=0.0,
    )
    small, large = form_of(problem), form_of(larger)
    before = dict(zip(NAMES, uniforms(device_keys(small, 7), 3, PARTICIPATION), strict=True))
    after = dict(zip(turned, uniforms(device_keys(large, 7), 3, PARTICIPATION), strict=True))
    assert all(before[name] == after[name] for name in NAMES)
    assert len(set(after.values())) == N + 1
    assert before != dict(zip(NAMES, uniforms(device_keys(small, 8), 3, PARTICIPATION), strict=True))
    assert before != dict(zip(NAMES, uniforms(device_keys(small, 7), 4, PARTICIPATION), strict=True))
    batch = Minibatch(3, order="fresh")
    rows = batch.rows(small.data, device_keys(small, 7), 2, 1, 4) - small.data.starts[:-1, None]
    moved = batch.rows(large.data, device_keys(large, 7), 2, 1, 4) - large.data.starts[:-1, None]
    assert np.array_equal(rows[::-1], moved[:N])


@pytest.mark.parametrize(
    ("label", "same"),
    [
        (frozenset([0, 8]), frozenset([8, 0])),  # equal, in another order
        (("Oulu", 3), (np.str_("Oulu"), np.int64(3))),
        ((frozenset([0, 8]), 1.5), (frozenset([8, 0]), np.float64(1.5))),
    ],
)
def test_labels_that_are_equal_have_the_same_streams(label: Any, same: Any) -> None:
    assert label == same
    assert repr(label) != repr(same)
    assert label_identity(label) == label_identity(same)
    assert label_identity(label) != label_identity(repr(label))


def test_random_numbers_are_uniform_and_independent() -> None:
    """Means, variances and correlations of 200,000 numbers within five standard errors."""
    keys = np.concatenate([server_key(seed) for seed in range(200)])
    u = np.array([uniforms(keys[:, None], r, PARTICIPATION, np.arange(20)) for r in range(50)])
    count = u.size
    assert abs(u.mean() - 0.5) < 5 / np.sqrt(12 * count)
    assert abs(u.var() - 1 / 12) < 5 * np.sqrt(1 / 180 / count)
    counts = np.histogram(u, bins=64, range=(0, 1))[0]
    assert ((counts - count / 64) ** 2 / (count / 64)).sum() < 63 + 5 * np.sqrt(126)
    centred = u - 0.5
    for neighbour in (np.roll(centred, 1, axis=0), np.roll(centred, 1, axis=1), np.roll(centred, 1, axis=2)):
        assert abs((centred * neighbour).mean()) < 5 / 12 / np.sqrt(count)


@settings(max_examples=20, deadline=None)
@given(size=st.integers(1, 12), order=st.sampled_from(["replacement", "fresh", "epochs"]), seed=st.integers(0, 99))
def test_minibatches_hold_the_devices_own_data_points(size: int, order: Any, seed: int) -> None:
    form = form_of(problem_q())
    data, keys = form.data, device_keys(form, seed)
    batch = Minibatch(size, order=order)
    rows = batch.rows(data, keys, 1, 2, 5)
    assert rows.shape == (N, size)
    for i in range(N):
        mine = rows[i][rows[i] >= 0]
        assert len(mine) == min(size, data.counts[i]) == batch.drawn(data)[i]
        assert ((mine >= data.starts[i]) & (mine < data.ends[i])).all()
        assert order == "replacement" or len(set(mine.tolist())) == len(mine)


def test_an_epoch_visits_every_data_point_once() -> None:
    form = form_of(problem_q())
    data, keys, batch = form.data, device_keys(form, 0), Minibatch(5, order="epochs")
    device = 4  # with 20 data points: four steps an epoch, here two rounds of two
    assert data.counts[device] == 20
    steps = [batch.rows(data, keys, round, step, 2)[device] for round in (0, 1) for step in (0, 1)]
    assert sorted(np.concatenate(steps)) == list(range(data.starts[device], data.ends[device]))
    again = [batch.rows(data, keys, round, step, 2)[device] for round in (2, 3) for step in (0, 1)]
    assert sorted(np.concatenate(again)) == sorted(np.concatenate(steps))
    assert [a.tolist() for a in again] != [a.tolist() for a in steps]


def test_minibatch_gradients_are_unbiased() -> None:
    form = form_of(problem_l())
    keys = device_keys(form, 4)
    for order in ("replacement", "fresh"):
        batch = Minibatch(4, order=order)
        drawn = [form.data.batch_gradient(W, batch.rows(form.data, keys, round, 0, 1)) for round in range(3000)]
        error = np.std(drawn, axis=0) / np.sqrt(3000)
        assert (np.abs(np.mean(drawn, axis=0) - gradients(problem_l(), W)) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize(
    "rule", [All(), UniformSample(3), ByWeight(3), Cyclic(3), Bernoulli(0.4), Bernoulli(tuple(np.linspace(0.2, 1, N)))]
)
def test_devices_take_part_as_often_as_stated(rule: Any) -> None:
    form = form_of(problem_q())
    p, keys, rounds = aggregation_weights(form, "samples"), device_keys(form, 0), 4000
    counts = np.array([rule.counts(keys, p, round) for round in range(rounds)])
    error = counts.std(axis=0) / np.sqrt(rounds)
    assert (np.abs(counts.mean(axis=0) - rule.expected(p)) <= 5 * error + 1e-12).all()
    if not isinstance(rule, All | Bernoulli):
        assert (counts.sum(axis=1) == 3).all()


def test_server_averages() -> None:
    """Unbiased by enumeration of all pairs, renormalised by its formula, and left alone without devices."""
    p = np.array([0.1, 0.2, 0.7])
    local, model = np.array([[1.0], [2.0], [4.0]]), np.array([0.5])
    pairs = [np.array(c, dtype=float) for c in ((1, 1, 0), (1, 0, 1), (0, 1, 1))]
    expected = np.full(3, 2 / 3)
    unbiased = np.mean([server_average(model, local, p, c, expected) for c in pairs])
    assert unbiased == pytest.approx(p @ local[:, 0])
    assert server_average(model, local, p, pairs[2], None) == pytest.approx((0.2 * 2 + 0.7 * 4) / 0.9)
    assert server_average(model, local, p, np.zeros(3), expected) is model


def test_an_empty_round_is_skipped() -> None:
    form = form_of(problem_q())
    algorithm = FedAvg("uniform", participation=Bernoulli(0.05), seed=1)
    state = algorithm.init(form, Point(W))
    for _ in range(20):
        after = algorithm.step(form, state)
        if not after.counts.any():
            assert np.array_equal(after.model, state.model)
            assert algorithm.traffic(form, after).bytes_up == 0
            return
        state = replace(after)
    raise AssertionError("no round was empty")
