"""Federated checks of rounds: accounts, states that are written over, draws, and equality to other algorithms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gtvmin.solvers.federated.fed_avg import FedAvg
from gtvmin.solvers.federated.fed_relax import FedRelax
from gtvmin.solvers.federated.fed_sgd import FedSGD
from gtvmin.solvers.federated.ledger import Traffic
from gtvmin.solvers.federated.participation import Bernoulli, UniformSample
from gtvmin.verify import algorithm_under_test, check_solver, suite
from gtvmin.verify.results import CheckResult
from planted_federated import Averaging, Controlled

SQUARES = next(instance for instance in suite("federated") if instance.name == "federated_squares")


def outcome(algorithm: Any, check: str, **options: Any) -> CheckResult:
    return check_solver(algorithm_under_test(algorithm, **options), [SQUARES], checks=[check]).results[0]


class Accounts(Averaging, states=("model",)):
    """FedAvg with accounts that a subclass spoils."""

    def spoilt(self, right: Traffic) -> Traffic:
        return right

    def traffic(self, form: Any, state: Any) -> Traffic:
        return self.spoilt(super().traffic(form, state))


class Negative(Accounts, states=("model",)):
    def spoilt(self, right: Traffic) -> Traffic:
        return replace(right, gradients=right.gradients - 1.0)


class Silent(Accounts, states=("model",)):
    def spoilt(self, right: Traffic) -> Traffic:
        return replace(right, messages_sent=0.0 * right.sent)


class Total(Accounts, states=("model",)):
    def spoilt(self, right: Traffic) -> Traffic:
        return replace(right, received=right.received.sum())


class Missing(Accounts, states=("model",)):
    def spoilt(self, right: Traffic) -> Traffic:
        return replace(right, points=np.nan * right.points)


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        (Negative(), "gradients of a round is"),
        (Silent(), "without a message"),
        (Total(), "received of a round is"),
        (Missing(), "points of a round is"),
        (Averaging(wrong="cumulative"), "hold those of all rounds before"),
        (Accounts(), ""),
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_accounts(algorithm: Any, reason: str) -> None:
    row = outcome(algorithm, "check_traffic")
    assert row.outcome == ("failed" if reason else "passed")
    assert reason in row.reason


class InPlace(Controlled, states=("model", "c", "c_i", "change")):
    """SCAFFOLD that writes its new controls into the array of the old ones."""

    def step(self, form: Any, state: Any) -> Any:
        after = super().step(form, state)
        state.c_i[:] = after.c_i
        return after


class Remembering(Averaging, states=("model",)):
    """FedAvg that goes on where its last run ended."""

    def init(self, form: Any, start: Any) -> Any:
        state = super().init(form, start)
        return replace(state, model=MEMORY.get("model", state.model))

    def step(self, form: Any, state: Any) -> Any:
        after = super().step(form, state)
        MEMORY["model"] = after.model
        return after


MEMORY: dict[str, np.ndarray] = {}


def test_states_are_left_alone_and_runs_repeat() -> None:
    assert "writes into 'c_i'" in outcome(InPlace(), "check_repeatable").reason
    assert "a second run gives other models" in outcome(Remembering(), "check_repeatable").reason
    assert outcome(FedAvg("uniform", batch=2), "check_repeatable").outcome == "passed"


@pytest.mark.parametrize(
    ("algorithm", "expected", "reason"),
    [
        (FedAvg("samples", batch=2), "passed", ""),
        (FedAvg("uniform", participation=Bernoulli(0.5)), "passed", ""),
        (FedSGD(2), "passed", ""),
        (FedRelax(Bernoulli(0.5)), "passed", ""),
        (FedAvg("uniform", participation=UniformSample(3)), "skipped", "takes somebody's place"),
        (FedAvg("uniform"), "skipped", "nothing is drawn"),
        (Averaging("uniform", "no seed"), "skipped", "check_repeatable failed"),
        (Averaging("uniform", "one generator"), "failed", "random numbers are others"),
    ],
    ids=str,
)
def test_draws(algorithm: Any, expected: str, reason: str) -> None:
    row = outcome(algorithm, "check_streams")
    assert row.outcome == expected, row.reason
    assert reason in row.reason


def test_rounds_are_compared_with_those_of_any_algorithm() -> None:
    """One gradient step of FedProx is FedAvg's whatever mu is; two are not."""
    from gtvmin.solvers.federated.fed_prox import FedProx

    like = {"equals": FedAvg("uniform", 1, 0.05)}
    assert outcome(FedProx("samples", 3.0, local_steps=1, eta=0.05), "check_rounds", **like).outcome == "passed"
    row = outcome(FedProx("samples", 3.0, local_steps=2, eta=0.05), "check_rounds", **like)
    assert "after 1 round the models differ from those of FedAvg" in row.reason
    assert outcome(FedAvg("uniform"), "check_rounds").outcome == "skipped"
