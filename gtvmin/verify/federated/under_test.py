"""Federated algorithms of every kind behind one face: rounds, limit, and the program that is claimed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Program
from gtvmin.solvers.driver import missing_capabilities
from gtvmin.solvers.federated.form import Weights, aggregation_weights
from gtvmin.solvers.standard_form import Point
from gtvmin.validation import positive_number
from gtvmin.verify.checks.outcome import CheckFailedError, Finding
from gtvmin.verify.federated.claims import Claim, declared_program
from gtvmin.verify.federated.conversion import models_of, options_of, quiet, refusals, settings_of
from gtvmin.verify.federated.limits import MOST_ROUNDS, STILL, Limit, limit_of

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.federated.form import FederatedForm
    from gtvmin.solvers.standard_form import Array
    from gtvmin.verify.instances import Instance

__all__ = ["PROTOCOL", "AlgorithmUnderTest"]

PROTOCOL = ("init", "step", "point")
FIRST_ROUNDS = 1_500
FEW = 3
"""Rounds after which models are looked at first."""


class AlgorithmUnderTest:
    """A federated algorithm as the checks see it, made by :func:`gtvmin.verify.algorithm_under_test`.

    Attributes
    ----------
    name : str
        For reports.
    algorithm : object or callable
        With ``init``, ``step`` and ``point``, or a function of a problem.
    solves : Claim or None
        The program; None if the algorithm declares it itself.
    weights : str or array_like
        Weights of the devices unless a check asks for others.
    equals : object, callable or None
        The algorithm whose rounds it should have, or a function of the weights that makes it.
    invariants : tuple of str
        Linear identities between its states.
    takes : frozenset of str
        Those of ``weights``, ``rounds``, ``start`` and ``seed`` that can be given.
    relative_gap : float
        What the limit is judged by.
    expected_failures : mapping
        Its own known failures.
    """

    def __init__(
        self,
        name: str,
        algorithm: Any,
        solves: Claim | None,
        weights: Weights,
        equals: Any,
        invariants: Sequence[str],
        relative_gap: float,
    ) -> None:
        self.name, self.algorithm, self.solves, self.weights = name, algorithm, solves, weights
        self.equals, self.invariants = equals, tuple(invariants)
        self.relative_gap = positive_number(relative_gap, "relative_gap")
        known = getattr(algorithm, "expected_failures", None)
        self.expected_failures: Mapping[str, str] = dict(known) if isinstance(known, Mapping) else {}
        self.has_rounds = all(hasattr(algorithm, part) for part in PROTOCOL)
        self.takes = settings_of(algorithm) | {"rounds", "start"} if self.has_rounds else options_of(algorithm)
        self._last: tuple[Instance, Limit] | None = None
        self._tried: tuple[Instance, Exception | None] | None = None
        self._judged: tuple[Instance, Finding | CheckFailedError] | None = None

    def shares(self, problem: GTVMin, weights: Weights | None = None) -> Array:
        """Weights p of a problem's devices."""
        return aggregation_weights(federated_form(problem), self.weights if weights is None else weights)

    def program(self, problem: GTVMin, weights: Weights | None = None) -> Program:
        """The program that is claimed for a problem."""
        if self.solves is None:
            with quiet(), refusals(self.algorithm):
                return declared_program(self.configured(weights), problem)
        return self.solves.program(problem, self.shares(problem, weights))

    def configured(self, weights: Weights | None = None, seed: int | None = None) -> Any:
        """The algorithm object with other weights or another seed."""
        given = {"weights": weights, "seed": seed}
        changes = {name: value for name, value in given.items() if value is not None and name in self.takes}
        return replace(self.algorithm, **changes) if changes else self.algorithm

    def started(
        self, problem: GTVMin, *, weights: Weights | None = None, start: Array | None = None, seed: int | None = None
    ) -> tuple[Any, FederatedForm, Any]:
        """Algorithm object, arrays of the problem and first state.

        Raises
        ------
        CapabilityError
            If the losses or the coupling lack what the algorithm requires.
        """
        algorithm, form = self.configured(weights, seed), federated_form(problem)
        missing = missing_capabilities(algorithm, form) if hasattr(algorithm, "requires") else []
        if missing:
            raise CapabilityError(f"{self.name} needs {', '.join(missing)}")
        with quiet(), refusals(algorithm):
            state = algorithm.init(form, None if start is None else Point(start))
            algorithm.step(form, state)  # settings that do not fit may be noticed in the first round
            return algorithm, form, state

    def models(
        self,
        problem: GTVMin,
        rounds: int,
        *,
        weights: Weights | None = None,
        start: Array | None = None,
        seed: int | None = None,
    ) -> Array:
        """The devices' models (n_nodes, dim) after some rounds."""
        if not self.has_rounds:
            return self._called(problem, {"weights": weights, "rounds": rounds, "start": start, "seed": seed})
        algorithm, form, state = self.started(problem, weights=weights, start=start, seed=seed)
        with np.errstate(all="ignore"):
            for _ in range(rounds):
                state = algorithm.step(form, state)
            return models_of(problem, algorithm.point(form, state).W)

    def limit(self, problem: GTVMin, *, weights: Weights | None = None, start: Array | None = None) -> Limit:
        """What the rounds tend to."""
        if self.has_rounds:
            algorithm, form, _ = self.started(problem, weights=weights)
            with quiet():
                found = limit_of(algorithm, form, None if start is None else Point(start))
            return replace(found, W=models_of(problem, found.W))
        if "rounds" not in self.takes:
            return Limit(self._called(problem, {"weights": weights, "start": start}), "what it returns")
        rounds, W = FIRST_ROUNDS, None
        while True:
            last, W = W, self.models(problem, rounds, weights=weights, start=start)
            still = last is not None and np.abs(W - last).max() <= STILL * (1.0 + np.abs(W).max())
            if still or rounds >= MOST_ROUNDS or not np.isfinite(W).all():
                return Limit(W, f"{rounds} rounds", bool(still))
            rounds *= 2

    def error_on(self, instance: Instance) -> Exception | None:
        """What the algorithm raises on an instance, or its models cause; found once."""
        if self._tried is None or self._tried[0] != instance:
            problem = instance.problem()
            error: Exception | None = None
            try:
                W = self.models(problem, FEW)
                if W.shape != (problem.network.n_nodes, problem.dim) or not np.isfinite(W).all():
                    finite = np.isfinite(W).all()
                    error = ValueError(f"models of shape {W.shape} after {FEW} rounds, all finite: {finite}")
            except Exception as raised:
                error = raised
            self._tried = instance, error
        return self._tried[1]

    def limit_on(self, instance: Instance) -> Limit:
        """The limit on an instance, which several checks look at; found once."""
        if self._last is None or self._last[0] != instance:
            self._last = instance, self.limit(instance.problem())
        return self._last[1]

    def remembered(self, instance: Instance, verdict: Callable[[], Finding]) -> Finding:
        """The verdict on the limit on an instance, which several checks ask for; found once.

        Raises
        ------
        CheckFailedError
            If that is the verdict.
        """
        if self._judged is None or self._judged[0] != instance:
            found: Finding | CheckFailedError
            try:
                found = verdict()
            except CheckFailedError as failed:
                found = failed
            self._judged = instance, found
        if isinstance(self._judged[1], CheckFailedError):
            raise self._judged[1]
        return self._judged[1]

    def _called(self, problem: GTVMin, options: Mapping[str, Any]) -> Array:
        given = {name: value for name, value in options.items() if name in self.takes and value is not None}
        if "weights" in self.takes:
            given["weights"] = self.shares(problem, given.get("weights"))
        with quiet():
            return models_of(problem, self.algorithm(problem, **given))

    def __repr__(self) -> str:
        return f"AlgorithmUnderTest({self.name!r}, solves={self.solves or 'as declared'!s})"
