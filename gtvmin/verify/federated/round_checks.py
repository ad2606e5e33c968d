"""Checks of an algorithm's rounds: formulas and identities that a limit does not show, accounts, random numbers."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.solvers.federated.ledger import Traffic
from gtvmin.solvers.federated.local_steps import gradient
from gtvmin.solvers.federated.participation import ByWeight, Cyclic, UniformSample
from gtvmin.verify.checks.outcome import CheckFailedError, CheckSkipped, Finding
from gtvmin.verify.federated.limit_checks import beside, ready
from gtvmin.verify.federated.reading import algorithm_under_test
from gtvmin.verify.federated.under_test import AlgorithmUnderTest

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array
    from gtvmin.verify.instances import Instance

__all__ = ["check_invariants", "check_repeatable", "check_rounds", "check_streams", "check_traffic"]

ROUNDS = 5
SAME = 1e-9
"""Relative difference that the same numbers may have, summed in another order."""


def check_rounds(algorithm: Any, instance: Instance) -> Finding:
    """Round by round the models are those of the algorithm that it says it equals.

    Fault: what no limit shows: 1/epochs for 1/(eta K), the sign of a correction that vanishes at the limit, states that
    lag behind.
    """
    tested = ready(algorithm, instance)
    if tested.equals is None:
        raise CheckSkipped("the algorithm names none that it equals")
    _need(tested, "rounds")
    problem = instance.problem()
    start = _start(problem) if "start" in tested.takes else None
    model = tested.equals
    if callable(model) and not hasattr(model, "init"):
        model = model(tested.weights)
    elif is_dataclass(model) and not isinstance(model, type) and any(f.name == "weights" for f in fields(model)):
        model = replace(model, weights=tested.weights)
    reference = algorithm_under_test(model, solves="none")
    for rounds in range(1, ROUNDS + 1):
        expected = reference.models(problem, rounds, start=start)
        found = tested.models(problem, rounds, start=start)
        apart = float(np.abs(found - expected).max())
        if not apart <= SAME * (1.0 + np.abs(expected).max()):
            raise CheckFailedError(
                f"after {rounds} round{'s' if rounds > 1 else ''} the models differ from those of {reference.name} by "
                f"up to {apart:.3g}"
            )
    return Finding()


def check_invariants(algorithm: Any, instance: Instance) -> Finding:
    """The identities that are declared hold after every round, from any start.

    Fault: control variates that start wrong, are replaced instead of changed, or averaged with other weights.
    """
    tested = ready(algorithm, instance)
    if not tested.invariants or not tested.has_rounds:
        raise CheckSkipped("the algorithm declares no invariants of its states")
    problem = instance.problem()
    p = tested.shares(problem)
    chosen, form, state = tested.started(problem, start=_start(problem))
    for done in range(ROUNDS + 1):
        for text in tested.invariants:
            left, equal, right = text.partition("=")
            if not equal:
                raise ValueError(f"invariant {text!r} is not of the form 'c = mean c_i'")
            sides = [_side(side.split(), chosen, form, state, p, text) for side in (left, right)]
            apart = float(np.abs(sides[0] - sides[1]).max())
            if not apart <= SAME * (1.0 + max(np.abs(side).max() for side in sides)):
                raise CheckFailedError(f"after {done} rounds {text!r} is violated by {apart:.3g}")
        state = chosen.step(form, state)
    return Finding()


def check_traffic(algorithm: Any, instance: Instance) -> Finding:
    """Accounts of a round are one finite number >= 0 a device, add up, and are those of the round alone.

    Fault: negative or cumulative counts, vectors that travel without a message.
    """
    tested = ready(algorithm, instance)
    if not tested.has_rounds or not hasattr(tested.algorithm, "traffic"):
        raise CheckSkipped("the algorithm keeps no accounts")
    problem = instance.problem()
    chosen, form, state = tested.started(problem)
    n, total = problem.network.n_nodes, None
    rounds: list[Traffic] = []
    for _ in range(ROUNDS):
        state = chosen.step(form, state)
        spent = chosen.traffic(form, state)
        for part in fields(spent):
            count = np.asarray(getattr(spent, part.name), dtype=float)
            if count.shape != (n,) or not np.isfinite(count).all() or (count < 0).any():
                raise CheckFailedError(f"{part.name} of a round is {count!r}: not {n} finite numbers >= 0")
        for vectors, messages in ((spent.sent, spent.messages_sent), (spent.received, spent.messages_received)):
            if ((vectors > 0) & ~(messages > 0)).any():
                raise CheckFailedError("a device sends or receives numbers without a message")
        rounds.append(spent)
        total = spent if total is None else total + spent
    assert total is not None
    if not np.isclose(total.bytes_up, sum(spent.bytes_up for spent in rounds)):
        raise CheckFailedError(f"{ROUNDS} rounds send {total.bytes_up:g} bytes, their sum is another")
    sizes = np.array([spent.bytes_up + spent.bytes_down for spent in rounds])
    if sizes[0] > 0 and np.array_equal(sizes, sizes[0] * np.arange(1, ROUNDS + 1)):
        raise CheckFailedError("the accounts of a round hold those of all rounds before")
    return Finding()


def check_repeatable(algorithm: Any, instance: Instance) -> Finding:
    """Two runs with the same seed give the same bits, and a round leaves the state before it alone.

    Fault: random numbers without a seed, state that is left over or written over.
    """
    tested = ready(algorithm, instance)
    problem = instance.problem()
    seed = 0 if "seed" in tested.takes else None
    first, second = (tested.models(problem, ROUNDS, seed=seed) for _ in range(2))
    if not np.array_equal(first, second):
        raise CheckFailedError(f"a second run gives other models, by up to {np.abs(first - second).max():.3g}")
    if not tested.has_rounds:
        return Finding()
    chosen, form, state = tested.started(problem, start=_start(problem), seed=seed)
    state = chosen.step(form, state)
    variables = getattr(chosen, "variables", ())
    kept = {name: np.array(getattr(state, name)) for name in variables}
    before = np.array(chosen.point(form, state).W)
    chosen.step(form, state)
    for name in variables:
        if not np.array_equal(kept[name], getattr(state, name)):
            raise CheckFailedError(f"a round writes into {name!r} of the state before it")
    if not np.array_equal(before, chosen.point(form, state).W):
        raise CheckFailedError("a round changes the models of the state before it")
    return Finding()


def check_streams(algorithm: Any, instance: Instance) -> Finding:
    """A further device, or another order of the devices, changes none of the other devices' random draws.

    Fault: one generator that all devices draw from in turn.
    """
    tested = ready(algorithm, instance)
    for option in ("seed", "rounds"):
        _need(tested, option)
    if _fixed_size(tested.algorithm):
        raise CheckSkipped("a fixed number of devices is drawn: a further one takes somebody's place")
    problem = instance.problem()
    weighted = "weights" in tested.takes
    if not weighted and tested.solves is not None and tested.solves.weighted:
        raise CheckSkipped("the algorithm takes no weights: the further device has one as well")
    p = tested.shares(problem)
    larger = beside(problem, problem.losses[0], edge=False, first=True)
    plain, other = (p, np.append(0.0, p)) if weighted else (None, None)
    first = tested.models(problem, ROUNDS, seed=0, weights=plain)
    if not np.array_equal(first, tested.models(problem, ROUNDS, seed=0, weights=plain)):
        raise CheckSkipped("check_repeatable failed: draws cannot be compared")
    if np.array_equal(first, tested.models(problem, ROUNDS, seed=1, weights=plain)):
        raise CheckSkipped("nothing is drawn: another seed gives the same models")
    again = tested.models(larger, ROUNDS, seed=0, weights=other)[1:]
    apart = np.abs(again - first).max(axis=1)
    if not apart.max() <= SAME * (1.0 + np.abs(first).max()):
        raise CheckFailedError(
            f"with a further device, without weight and edges, the models of {int((apart > 0).sum())} other devices "
            f"change by up to {apart.max():.3g}: their random numbers are others"
        )
    return Finding()


def _need(tested: AlgorithmUnderTest, option: str) -> None:
    if option not in tested.takes:
        raise CheckSkipped(f"the algorithm takes no argument {option!r}")


def _start(problem: GTVMin) -> Array:
    """Different models at the devices."""
    return np.random.default_rng(2).normal(size=(problem.network.n_nodes, problem.dim))


def _side(words: list[str], algorithm: Any, form: Any, state: Any, p: Array, text: str) -> Array:
    """One side of an identity: ``0``, a state, or its mean or sum over the devices."""
    if words == ["0"]:
        return np.zeros(1)
    if not words or len(words) > 2 or (len(words) == 2 and words[0] not in ("mean", "sum")):
        raise ValueError(f"invariant {text!r}: a side is 0, the name of a state, or 'mean' or 'sum' and a name")
    if words[-1] == "gradient":
        value = gradient(form, np.asarray(algorithm.point(form, state).W, dtype=float))
    elif hasattr(state, words[-1]):
        value = np.asarray(getattr(state, words[-1]), dtype=float)
    else:
        raise ValueError(f"invariant {text!r}: the state has no {words[-1]!r}")
    if len(words) == 1:
        return value
    return np.asarray(np.tensordot(p if words[0] == "mean" else np.ones_like(p), value, axes=1))


def _fixed_size(algorithm: Any) -> bool:
    """Whether a rule of participation draws a number of devices that does not depend on how many there are."""
    parts = [getattr(algorithm, field.name) for field in fields(algorithm)] if is_dataclass(algorithm) else []
    return any(isinstance(part, (UniformSample, ByWeight, Cyclic)) or _fixed_size(part) for part in parts)
