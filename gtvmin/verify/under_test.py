"""Solvers of every kind behind one face: what is run, with which options, and what came of it."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gtvmin.errors import GtvminWarning
from gtvmin.registry import solver_names
from gtvmin.validation import positive_number
from gtvmin.verify.answers import Answer, read_answer
from gtvmin.verify.judgement import Judgement, judge
from gtvmin.verify.known_failures import KNOWN_FAILURES

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.verify.instances import Instance

__all__ = ["SolverUnderTest", "Trial", "load_object", "solver_under_test"]

OPTIONS = ("gap", "max_iter", "start", "seed", "dtype")
"""Keyword arguments that the checks know; a solver takes those that its signature names."""
OF_METHODS = {"linear_system": {"gap"}, "cvxpy": {"gap"}}
"""Options that mean something to a method by name; all others take the gap, a limit and a start."""
PROTOCOL = ("requires", "init", "step", "point")
SEED = 0


@dataclass(frozen=True, eq=False)
class Trial:
    """One run on one problem; without an answer, the error that the solver raised or its answer caused."""

    problem: GTVMin
    answer: Answer | None
    error: Exception | None

    @cached_property
    def judgement(self) -> Judgement:
        """The answer against the baseline."""
        if self.answer is None:
            raise ValueError("there is no answer to judge") from self.error
        return judge(self.problem, self.answer)


class SolverUnderTest:
    """A solver as the checks see it; :func:`solver_under_test` makes one.

    Attributes
    ----------
    name : str
        For reports.
    options : frozenset of str
        Those of ``gap``, ``max_iter``, ``start``, ``seed`` and ``dtype`` that it takes.
    relative_gap : float
        What it is asked for, and judged by.
    expected_failures : mapping
        Its own known failures.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        options: frozenset[str],
        relative_gap: float,
        expected_failures: Mapping[str, str],
    ) -> None:
        self.name, self.options, self.relative_gap = name, options, positive_number(relative_gap, "relative_gap")
        self.expected_failures = dict(expected_failures)
        self._run = run
        self._last: tuple[Instance, Trial] | None = None

    def returned(self, problem: GTVMin, **options: Any) -> Any:
        """What the solver returns, asked for ``relative_gap`` and with a fixed seed where it takes them."""
        given = {"gap": self.relative_gap, "seed": SEED} | options
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GtvminWarning)  # of runs that fell short: that is judged here
            return self._run(problem, **{name: value for name, value in given.items() if name in self.options})

    def run(self, problem: GTVMin, **options: Any) -> Answer:
        """The answer to a problem.

        Raises
        ------
        Exception
            Whatever the solver raises; ValueError or TypeError for an answer that is none.
        """
        return read_answer(problem, self.returned(problem, **options))

    def trial(self, instance: Instance) -> Trial:
        """The run on an instance that several checks look at; done once."""
        if self._last is None or self._last[0] != instance:
            problem = instance.problem()  # to judge by: the solver gets one of its own, which it may damage
            try:
                trial = Trial(problem, self.run(instance.problem()), None)
            except Exception as error:
                trial = Trial(problem, None, error)
            self._last = instance, trial
        return self._last[1]

    def __repr__(self) -> str:
        return f"SolverUnderTest({self.name!r}, options={sorted(self.options)})"


def solver_under_test(solver: Any, *, relative_gap: float = 1e-6, name: str | None = None) -> SolverUnderTest:
    """Bring a solver of any kind into the form that checks take.

    Parameters
    ----------
    solver : callable, Solver, class or str
        ``problem -> answer`` with an answer as :func:`~gtvmin.verify.answers.read_answer` takes it, and perhaps keyword
        arguments ``gap``, ``max_iter``, ``start``, ``seed`` or ``dtype``; an object with the driver protocol
        (:class:`gtvmin.solvers.driver.Solver`); a class of either kind, which is called without arguments first; the
        name of a method such as ``"adaptive_primal_dual"``; or ``"module:object"`` for one of these.
    relative_gap : float
        What the solver is asked for, and judged by.
    name : str, optional
        For reports; by default the solver's own.

    Raises
    ------
    TypeError
        If it is none of these.
    ValueError
        If a method or object of that name is not found.
    """
    if isinstance(solver, SolverUnderTest):
        return solver
    label = name or _name(solver)
    known = getattr(solver, "expected_failures", None)
    if isinstance(solver, str) and ":" in solver:
        return solver_under_test(load_object(solver), relative_gap=relative_gap, name=label)
    if isinstance(solver, type):
        solver = solver()
    expected = known if isinstance(known, Mapping) else {}
    if isinstance(solver, str):
        if solver not in ("auto", "cvxpy", *solver_names()):
            raise ValueError(
                f"solver {solver!r} is neither a method ({', '.join(('auto', 'cvxpy', *solver_names()))}) nor of the "
                "form module:object"
            )
        options = frozenset(OF_METHODS.get(solver, {"gap", "max_iter", "start"}))
        return SolverUnderTest(label, _method(solver), options, relative_gap, KNOWN_FAILURES.get(solver, {}))
    if all(hasattr(solver, part) for part in PROTOCOL):
        options = frozenset({"gap", "max_iter", "start"})
        return SolverUnderTest(label, _method(solver), options, relative_gap, expected)
    if not callable(solver):
        raise TypeError(
            f"a solver is a function of a problem, an object with {', '.join(PROTOCOL)}, or the name of a method; "
            f"got {solver!r}"
        )
    return SolverUnderTest(label, solver, _options(solver), relative_gap, expected)


def load_object(reference: str) -> Any:
    """The object that ``"module:object"`` names; modules of the current folder are found as well.

    Raises
    ------
    ValueError
        If there is no such module or object.
    """
    module, _, path = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(error.name + ".")):
            raise  # a module that the solver itself lacks
        raise ValueError(f"there is no module {module!r}, neither installed nor in {here}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ValueError(f"module {module!r} has no object {path!r}")
        found = getattr(found, part)
    return found


def _method(method: Any) -> Callable[..., Any]:
    return lambda problem, **options: problem.solve(method, **options)


def _name(solver: Any) -> str:
    if isinstance(solver, str):
        return solver
    return getattr(solver, "__name__", None) or type(solver).__name__


def _options(solver: Callable[..., Any]) -> frozenset[str]:
    try:
        named = inspect.signature(solver).parameters.values()
    except (ValueError, TypeError):  # compiled functions may not tell
        return frozenset()
    keywords = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return frozenset(parameter.name for parameter in named if parameter.kind in keywords) & frozenset(OPTIONS)
