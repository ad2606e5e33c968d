"""Step sizes where few devices take part: unbiased updates weigh more than p, and the bound has to know it."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.errors import ConvergenceWarning
from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.participation import All, Bernoulli, ByWeight, Cyclic, UniformSample, amplification
from gtvmin.solvers.federated.step_sizes import StepSizeWarning

N = 4
COINS = (0.1, 0.5, 0.9, 1.0)


def rounds_of(rule: Any, p: np.ndarray) -> list[tuple[float, np.ndarray]]:
    """Every round that a rule can draw: its probability and how often each device takes part."""
    if isinstance(rule, Bernoulli):
        q = np.broadcast_to(rule.probability, N)
        drawn = [np.array(coins) for coins in product((0.0, 1.0), repeat=N)]
        return [(float(np.where(c > 0, q, 1 - q).prod()), c) for c in drawn]
    if isinstance(rule, ByWeight):
        draws = list(product(range(N), repeat=rule.size))
        return [(float(p[list(d)].prod()), np.bincount(d, minlength=N).astype(float)) for d in draws]
    if isinstance(rule, Cyclic):
        return [(1 / N, np.isin(np.arange(N), (r + np.arange(rule.size)) % N) * 1.0) for r in range(N)]
    sets = list(combinations(range(N), rule.size if isinstance(rule, UniformSample) else N))
    return [(1 / len(sets), np.isin(np.arange(N), chosen) * 1.0) for chosen in sets]


RULES = (
    All(),
    UniformSample(1),
    UniformSample(3),
    ByWeight(1),
    ByWeight(3),
    Cyclic(2),
    Bernoulli(0.3),
    Bernoulli(COINS),
)


@given(
    p=st.lists(st.floats(0.01, 1.0), min_size=N, max_size=N),
    h=st.lists(st.floats(0.0, 1.0), min_size=N, max_size=N),
    rule=st.sampled_from(RULES),
)
@settings(deadline=None, max_examples=200)
def test_updates_are_no_larger_than_the_amplification_says(p: list[float], h: list[float], rule: Any) -> None:
    """``E (sum s_i h_i)^2 <= c sum p_i h_i`` for all h in [0, 1], by the sum over all rounds."""
    weights = np.array(p) / sum(p)
    mean, square = 0.0, 0.0
    for probability, counts in rounds_of(rule, weights):
        moved = (weights * counts / rule.expected(weights)) @ h
        mean, square = mean + probability * moved, square + probability * moved**2
    assert mean == pytest.approx(weights @ h, abs=1e-12)
    assert square <= amplification(rule, weights) * mean + 1e-12


@pytest.mark.parametrize(
    ("rule", "c"),
    [(All(), 1.0), (ByWeight(2), 1.0), (UniformSample(1), 1.0), (Cyclic(2), 1.0), (Bernoulli(0.1), 1 + 9 / N)],
    ids=lambda value: repr(value),
)
def test_amplification_of_equal_weights(rule: Any, c: float) -> None:
    assert amplification(rule, np.full(N, 1 / N)) == pytest.approx(c)


def test_of_a_rule_of_somebody_else_only_the_largest_weights_are_known() -> None:
    class Second:
        def counts(self, keys: Any, p: np.ndarray, round: int) -> np.ndarray:
            return np.full(len(p), float(round % 2))

        def expected(self, p: np.ndarray) -> np.ndarray:
            return np.full(len(p), 0.5)

    assert amplification(Second(), np.full(N, 1 / N)) == pytest.approx(2.0)


TWO = [gtv.SquaredError([[1.0]], [3.0]), gtv.SquaredError([[1.0]], [3.0])]
"""Both devices have the minimiser 3, so that nothing but the steps can keep a run from it."""
FEW = {"weights": "uniform", "participation": Bernoulli(0.1)}


@pytest.mark.parametrize(
    ("name", "options", "without"),
    [
        ("fedavg", {}, 0.475),
        ("fedavg", {"local_steps": 3}, 0.475),
        ("apfl", {}, 0.475),
        ("ditto", {"lam": 1.0}, 0.475),
        ("fedprox", {"mu": 0.2, "local_steps": 4}, 0.95 / 2.2),
        ("pfedme", {"lam": 4.0, "local_rounds": 2}, 0.95 / (8.0 / 6.0)),
    ],
    ids=lambda value: str(value),
)
def test_the_default_step_converges_with_few_devices(name: str, options: dict[str, Any], without: float) -> None:
    """With the step of full participation, ``0.95 / L``, the same draws diverge, and the warning states a step."""
    run = gtv.federate(TWO, name, rounds=3000, seed=0, **FEW, **options)
    assert run.model == pytest.approx([3.0], abs=1e-6)
    with (
        pytest.warns(ConvergenceWarning, match="grows without bound"),
        pytest.warns(StepSizeWarning, match="rounds of few devices"),
    ):
        gtv.federate(TWO, name, rounds=3000, seed=0, eta=without, **FEW, **options)


def test_a_step_below_the_stated_bound_is_not_warned_of() -> None:
    """The bound of one step of two devices, by hand: ``c = 1 + 0.5 * 0.9 / 0.1 = 5.5`` and ``2 / (2 * 5.5)``."""
    gtv.federate(TWO, FedAvg(eta=0.1818, **FEW), rounds=1)
    with pytest.warns(StepSizeWarning, match=r"0\.181818"):
        gtv.federate(TWO, FedAvg(eta=0.1819, **FEW), rounds=1)


def test_many_devices_and_renormalised_weights_keep_their_steps() -> None:
    """A hundred devices make up for one another: the default is hardly smaller than that of all."""
    many = [gtv.SquaredError([[1.0]], [3.0])] * 100
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=range(100)), many, penalty=gtv.SquaredNorm(), alpha=0.0)
    form = gtv.federated.federated_form(problem)
    assert FedAvg(**FEW).init(form, None).setup.eta[0] == pytest.approx(0.475 / 1.09)
    assert FedAvg(aggregation="renormalised", **FEW).init(form, None).setup.eta[0] == pytest.approx(0.475)


def test_exact_fedprox_says_which_mu_is_large_enough() -> None:
    """``max L_i (c / 2 - 1) = 2 * 1.75``: below it the runs diverge, above they converge."""
    with (
        pytest.warns(ConvergenceWarning, match="grows without bound"),
        pytest.warns(StepSizeWarning, match=r"mu = 0\.2 is not above 3\.5"),
    ):
        gtv.federate(TWO, "fedprox", rounds=3000, seed=0, mu=0.2, **FEW)
    assert gtv.federate(TWO, "fedprox", rounds=3000, seed=0, mu=3.6, **FEW).model == pytest.approx([3.0], abs=1e-6)
