"""Run a federated algorithm for some rounds, with accounts and certificates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gtvmin.errors import CapabilityError, ConvergenceWarning
from gtvmin.federated.assessment import ProgramMonitor
from gtvmin.federated.catalogue import make_algorithm, name_of, program_of
from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Program
from gtvmin.federated.solution import FederatedSolution, RoundRecord
from gtvmin.losses.base import Loss
from gtvmin.network import FLNetwork
from gtvmin.penalties import Consensus
from gtvmin.problem import GTVMin
from gtvmin.solvers.driver import Monitor, Record, Status, missing_capabilities, run
from gtvmin.solvers.federated.algorithm import global_model
from gtvmin.solvers.federated.asynchronous import Asynchronous
from gtvmin.solvers.federated.form import FederatedForm
from gtvmin.solvers.federated.ledger import Traffic
from gtvmin.solvers.federated.schedule import Schedule
from gtvmin.solvers.federated.watch import DivergenceWatch
from gtvmin.solvers.standard_form import Assessment, Point
from gtvmin.validation import nonnegative_number, positive_integer

__all__ = ["federate"]

ASSESSMENTS = 100
"""How many times the models of a run are assessed by default."""


def federate(
    problem: GTVMin | Mapping[Any, Loss] | Sequence[Loss],
    algorithm: str | Any,
    *,
    rounds: int,
    seed: int | None = None,
    gap: float = 0.0,
    check_every: int | None = None,
    start: Any = None,
    time_limit: float | None = None,
    progress: Callable[[RoundRecord], None] | None = None,
    schedule: Schedule | None = None,
    **settings: Any,
) -> FederatedSolution:
    """Run a federated algorithm, and certify its models on the convex program that its limit solves.

    Parameters
    ----------
    problem : GTVMin, mapping or sequence of Loss
        Devices with their losses and network.  Losses alone are enough for algorithms with a server, which look neither
        at edges nor at alpha.
    algorithm : str or object
        A name of :func:`~gtvmin.federated.catalogue.algorithm_names`, or an algorithm.
    rounds : int
        Number of communication rounds.
    seed : int, optional
        Of all random draws; it replaces the algorithm's own ``seed``.
    gap : float
        Certified relative gap, on the declared program, at which to stop earlier; 0 never does.
    check_every : int, optional
        Rounds between assessments.  Default: about a hundred in all.
    start : array_like (n_nodes, dim) or Solution, optional
        Where to start; default zero.  A server starts from the mean.
    time_limit : float, optional
        Seconds, looked at when the models are assessed.
    progress : callable, optional
        Called with each :class:`~gtvmin.federated.solution.RoundRecord`.
    schedule : Schedule, optional
        Who computes when and how late messages are (:class:`gtvmin.solvers.federated.schedule.Schedule`), for
        algorithms on a network whose devices can work with what they last heard; a round is then an event.
    **settings
        Settings of the algorithm, if it is given by name.

    Returns
    -------
    FederatedSolution
        The models after the last round, with their certificate, history and accounts.  If a part of the algorithm's
        state grows without bound the status is ``DIVERGED``, a :class:`~gtvmin.errors.ConvergenceWarning` is issued,
        and the models are the last ones that were assessed.

    Raises
    ------
    CapabilityError
        If the losses or the penalty lack what the algorithm needs.
    ValueError, TypeError
        For arguments out of range.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {name: 0.5 * gtv.SquaredError([[1.0]], [y]) for name, y in (("Oulu", 0.0), ("Turku", 3.0))}
    >>> run = gtv.federate(losses, "fedavg", rounds=60, weights="uniform", local_steps=1, eta=0.5)
    >>> run.model.round(6).tolist(), run.relative_gap < 1e-12, run.history[-1].bytes_up
    ([1.5], True, 960.0)
    """
    declared = problem if isinstance(problem, GTVMin) else _server_problem(problem)
    chosen = make_algorithm(algorithm, **settings) if isinstance(algorithm, str) else algorithm
    if settings and not isinstance(algorithm, str):
        raise TypeError(f"settings such as {next(iter(settings))!r} belong to an algorithm that is given by name")
    if schedule is not None:
        chosen = Asynchronous(chosen, schedule)
    if seed is not None and hasattr(chosen, "seed"):
        chosen = replace(chosen, seed=seed)
    tolerance, count = nonnegative_number(gap, "gap"), positive_integer(rounds, "rounds")
    if check_every is not None:
        positive_integer(check_every, "check_every")
    if time_limit is not None:
        nonnegative_number(time_limit, "time_limit")
    form = federated_form(declared)
    missing = missing_capabilities(chosen, form)
    if missing:
        raise CapabilityError(
            f"{name_of(chosen)!r} needs {', '.join(missing)}, which these losses and penalty {declared.penalty!r} do "
            f"not offer{_hint(missing, losses_alone=declared is not problem)}"
        )
    program = program_of(chosen, declared)
    accounts = _Accounts(chosen, form, progress)
    monitor = _NoProgram() if program.problem is None else ProgramMonitor(program, tolerance)
    result = run(
        chosen,
        form,
        stop=accounts.assessing(monitor),
        start=None if start is None else Point(declared.parameters_array(start)),
        max_iter=count,
        check_every=check_every or max(1, -(-count // ASSESSMENTS)),
        time_limit=time_limit,
        progress=accounts.record,
        observe=accounts.observe,
    )
    status = result.status
    if status is Status.ITERATION_LIMIT and not tolerance:
        status = Status.COMPLETED
    solution = FederatedSolution(
        problem=declared,
        algorithm=chosen,
        name=name_of(chosen),
        program=program,
        certificate=monitor.certificate(result.point) if isinstance(monitor, ProgramMonitor) else None,
        status=status,
        reason=accounts.reason,
        rounds=result.iterations,
        seconds=result.seconds,
        history=tuple(accounts.history),
        traffic=accounts.traffic,
        weights=result.point.W,
        model=global_model(accounts.assessed),
        state=accounts.state,
    )
    if status not in (Status.CERTIFIED, Status.COMPLETED):
        _warn(solution, program, tolerance)
    return solution


class _Accounts:
    """Traffic, history and divergence of a run."""

    def __init__(self, algorithm: Any, form: FederatedForm, progress: Callable[[RoundRecord], None] | None) -> None:
        self.algorithm, self.form, self.progress = algorithm, form, progress
        self.watch = DivergenceWatch(algorithm.variables)
        self.traffic = Traffic.none(form.n_nodes)
        self.history: list[RoundRecord] = []
        self.state: Any = None
        self.assessed: Any = None

    @property
    def reason(self) -> str:
        return "" if self.watch.runaway is None else f"the state's {self.watch.runaway!r} grows without bound"

    def observe(self, state: Any, iteration: int) -> Status | None:
        self.state = state
        if iteration:
            self.traffic = self.traffic + self.algorithm.traffic(self.form, state)
        return self.watch(state, iteration)

    def assessing(self, monitor: Monitor) -> Monitor:
        def assess(point: Point, iteration: int) -> Assessment:
            self.assessed = self.state
            return monitor(point, iteration)

        return assess

    def record(self, found: Record) -> None:
        spent = self.traffic
        record = RoundRecord(
            round=found.iteration,
            seconds=found.seconds,
            objective=found.primal,
            bound=found.dual,
            gap=found.gap,
            relative_gap=found.relative_gap,
            bytes_up=spent.bytes_up,
            bytes_down=spent.bytes_down,
            messages=float(spent.messages_sent.sum() + spent.messages_received.sum()),
            gradients=float(spent.gradients.sum()),
            points=float(spent.points.sum()),
            proxes=float(spent.proxes.sum()),
        )
        self.history.append(record)
        if self.progress is not None:
            self.progress(record)


class _NoProgram:
    """Assesses nothing."""

    def __call__(self, point: Point, iteration: int) -> Assessment:
        return Assessment(point, np.nan, np.nan, np.nan, np.nan, False)


def _hint(missing: list[str], *, losses_alone: bool) -> str:
    """What to change if an algorithm does not fit."""
    if "data" in missing:
        return ": minibatches need data points of known losses"
    if any(name.startswith("couplings") for name in missing):
        given = "give a GTVMin problem with" if losses_alone else "declare"
        return f": {given} penalty=SquaredNorm()"
    if "local.gradient" in missing:
        return ": its losses must be smooth; take smooth ones, or an algorithm of proximal maps such as 'fedprox'"
    return ""


def _server_problem(losses: Mapping[Any, Loss] | Sequence[Loss]) -> GTVMin:
    """Devices around the first of them, in consensus: a network that algorithms with a server do not look at."""
    by_label = dict(losses) if isinstance(losses, Mapping) else dict(enumerate(losses))
    nodes = list(by_label)
    if not nodes:
        raise ValueError("losses are empty: give at least one device")
    network = FLNetwork.from_edges([(nodes[0], node) for node in nodes[1:]], nodes=nodes)
    return GTVMin(network, by_label, penalty=Consensus(), alpha=1.0)


def _warn(solution: FederatedSolution, program: Program, tolerance: float) -> None:
    because = f" ({solution.reason})" if solution.reason else ""
    bias = f"; {program.note}" if not program.exact and program.note else ""
    warnings.warn(
        f"{solution.name} after {solution.rounds} rounds: {solution.status.value}{because}; the certified relative gap "
        f"is {solution.relative_gap:.2e}, the tolerance {tolerance:.2e}{bias}",
        ConvergenceWarning,
        stacklevel=3,
    )
