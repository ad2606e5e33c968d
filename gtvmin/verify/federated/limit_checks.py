"""Checks of where an algorithm's rounds lead: to the program that it claims, whoever takes part and from anywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.losses import Zero
from gtvmin.network import FLNetwork
from gtvmin.problem import GTVMin
from gtvmin.verify.checks.outcome import CheckFailedError, CheckSkipped, Finding
from gtvmin.verify.federated.limits import Limit
from gtvmin.verify.federated.reading import algorithm_under_test
from gtvmin.verify.federated.verdict import certified
from gtvmin.verify.transforms import NotApplicableError, relabelled, reordered

if TYPE_CHECKING:
    from gtvmin.federated.program import Program
    from gtvmin.losses import Loss
    from gtvmin.solvers.federated.form import Weights
    from gtvmin.solvers.standard_form import Array
    from gtvmin.verify.federated.under_test import AlgorithmUnderTest
    from gtvmin.verify.instances import Instance

__all__ = [
    "beside",
    "check_device_names",
    "check_device_order",
    "check_empty_device",
    "check_limit",
    "check_models",
    "check_start",
    "check_states",
    "check_weights",
    "check_zero_weight",
    "ready",
]

REFUSALS = (CapabilityError, NotImplementedError)
"""What an algorithm raises for a problem that is not for it."""


def check_models(algorithm: Any, instance: Instance) -> Finding:
    """After some rounds every device has a finite model of the right shape.

    Fault: a crash, NaN, models of another shape.
    """
    error = algorithm_under_test(algorithm).error_on(instance)
    if isinstance(error, REFUSALS):
        raise CheckSkipped(f"the algorithm does not take this problem: {error}")
    if error is not None:
        raise CheckFailedError(f"no usable models: {type(error).__name__}: {error}") from error
    return Finding()


def check_states(algorithm: Any, instance: Instance) -> Finding:
    """No part of the state grows, the server's and the devices' included.

    Fault: steps that are too long; control variates or drifts that run away while the model looks converged.
    """
    tested = ready(algorithm, instance)
    if not tested.has_rounds:
        raise CheckSkipped("a function shows no states")
    limit = tested.limit_on(instance)
    if limit.runaway:
        raise CheckFailedError(limit.runaway)
    return Finding()


def check_limit(algorithm: Any, instance: Instance) -> Finding:
    """The limit solves the program that is claimed, by a certified gap.

    Fault: a lost factor, term or weight; local steps, weight decay or averages that bias the limit.
    """
    tested = ready(algorithm, instance)
    problem = instance.problem()
    program, limit = _exact(tested, problem), _attracting(tested, instance)
    return tested.remembered(instance, lambda: certified(tested, problem, program, limit))


def check_start(algorithm: Any, instance: Instance) -> Finding:
    """From another start, with different models at the devices, the limit is as good.

    Fault: a state that starts wrong away from zero, a mean that forgets devices, many fixed points.
    """
    tested = ready(algorithm, instance)
    if "start" not in tested.takes:
        raise CheckSkipped("the algorithm takes no start")
    problem = instance.problem()
    _need_right_limit(tested, instance)
    program = _exact(tested, problem)
    start = np.random.default_rng(1).normal(size=(problem.network.n_nodes, problem.dim))
    limit = tested.limit(problem, start=3.0 * start)
    return certified(tested, problem, program, limit, "from another start")


def check_weights(algorithm: Any, instance: Instance) -> Finding:
    """With uniform weights and with weights by sample counts the limit solves the program with these weights.

    Fault: weights that are not used, or used in one place and not in another.
    """
    tested = ready(algorithm, instance)
    if "weights" not in tested.takes:
        raise CheckSkipped("the algorithm takes no weights")
    for word in ("uniform", "samples"):
        found = _with(tested, instance, lambda problem: problem, word, f"weights={word!r}")
    return found


def check_zero_weight(algorithm: Any, instance: Instance) -> Finding:
    """A device with weight zero has no influence on the program, and none on the limit.

    Fault: a division by a weight, a mean over all devices where weights are stated.
    """
    tested = ready(algorithm, instance)
    if "weights" not in tested.takes:
        raise CheckSkipped("the algorithm takes no weights")
    p = tested.shares(instance.problem())
    if len(p) > 1 and p[:-1].any():
        p = np.append(p[:-1], 0.0)
    return _with(tested, instance, lambda problem: problem, p, "a device with weight zero")


def check_empty_device(algorithm: Any, instance: Instance) -> Finding:
    """With a further device that has no data, the limit solves the program with that device.

    Fault: the mean of no data points, a model of zeros that is averaged, a division by a sample count.
    """
    tested = ready(algorithm, instance)
    return _with(tested, instance, lambda problem: beside(problem, Zero(problem.dim)), None, "a device without data")


def check_device_names(algorithm: Any, instance: Instance) -> Finding:
    """Devices under other names: the limit solves the same program.

    Fault: labels that are sorted, or taken for positions.
    """
    tested = ready(algorithm, instance)
    return _with(tested, instance, lambda problem: relabelled(problem).problem, None, "other names of the devices")


def check_device_order(algorithm: Any, instance: Instance) -> Finding:
    """Devices in another order: the limit solves the same program.

    Fault: weights or states that belong to positions.
    """
    tested = ready(algorithm, instance)
    order = np.random.default_rng(0).permutation(instance.problem().network.n_nodes).tolist()
    return _with(
        tested, instance, lambda problem: reordered(problem, order).problem, None, "another order of the devices"
    )


def beside(problem: GTVMin, loss: Loss, *, edge: bool = True, first: bool = False) -> GTVMin:
    """The problem with a further device, the last or the first one, behind an edge to a device or on its own."""
    net = problem.network
    name: Any = "newcomer"
    numbers = [node for node in net.nodes if isinstance(node, int)]
    if len(numbers) == len(net.nodes):
        name = max(numbers) + 1
    while name in net.nodes:
        name += "'"
    ends = [*net.edges, (net.nodes[0], name)] if edge else list(net.edges)
    weights = [*net.weights, 1.0] if edge else net.weights
    nodes, losses = (
        ([name, *net.nodes], [loss, *problem.losses]) if first else ([*net.nodes, name], [*problem.losses, loss])
    )
    network = FLNetwork.from_edges(ends, weights=weights, nodes=nodes)
    return GTVMin(network, losses, penalty=problem.penalty, alpha=problem.alpha, dim=problem.dim)


def ready(algorithm: Any, instance: Instance) -> AlgorithmUnderTest:
    """The algorithm, if it makes models on the instance.

    Raises
    ------
    CheckSkipped
        If it does not: why, is for ``check_models`` to say.
    """
    tested = algorithm_under_test(algorithm)
    error = tested.error_on(instance)
    if isinstance(error, REFUSALS):
        raise CheckSkipped(f"the algorithm does not take this problem: {error}")
    if error is not None:
        raise CheckSkipped("check_models failed: there are no models to look at")
    return tested


def _attracting(tested: AlgorithmUnderTest, instance: Instance) -> Limit:
    """The limit of the plain run, if there is one."""
    limit = tested.limit_on(instance)
    if limit.runaway:
        raise CheckSkipped("check_states failed: there is no limit to look at")
    return limit


def _need_right_limit(tested: AlgorithmUnderTest, instance: Instance) -> None:
    """Skip the check where the limit of the plain run is wrong already."""
    problem = instance.problem()
    program, limit = _exact(tested, problem), _attracting(tested, instance)
    try:
        tested.remembered(instance, lambda: certified(tested, problem, program, limit))
    except CheckFailedError as failed:
        raise CheckSkipped("check_limit failed: there is no right limit to compare with") from failed


def _exact(tested: AlgorithmUnderTest, problem: GTVMin, weights: Weights | None = None) -> Program:
    """The program that is claimed, if the limit is to solve it."""
    try:
        program = tested.program(problem, weights)
    except REFUSALS as error:
        raise CheckSkipped(f"no program is declared for this problem: {error}") from error
    if program.problem is None or not program.exact:
        raise CheckSkipped(f"no program is claimed for the limit: {program.note}")
    return program


def _with(
    tested: AlgorithmUnderTest,
    instance: Instance,
    transform: Callable[[GTVMin], GTVMin],
    weights: str | Array | None,
    change: str,
) -> Finding:
    """The limit on a changed problem, or with other weights, solves the program that is claimed for it."""
    _need_right_limit(tested, instance)
    try:
        problem = transform(instance.problem())
    except NotApplicableError as error:
        raise CheckSkipped(str(error)) from error
    program = _exact(tested, problem, weights)
    try:
        limit = tested.limit(problem, weights=weights)
    except REFUSALS as error:
        raise CheckSkipped(f"the algorithm does not take {change}: {error}") from error
    except Exception as error:
        raise CheckFailedError(f"{change}: {type(error).__name__}: {error}") from error
    if limit.runaway:
        raise CheckFailedError(f"{change}: {limit.runaway}")
    return certified(tested, problem, program, limit, change)
