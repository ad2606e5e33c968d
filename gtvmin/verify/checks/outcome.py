"""What a check says: it returns what it measured, fails, or is skipped with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from gtvmin.errors import CapabilityError
from gtvmin.verify.under_test import SolverUnderTest, Trial, solver_under_test

if TYPE_CHECKING:
    from gtvmin.verify.answers import Answer
    from gtvmin.verify.instances import Instance
    from gtvmin.verify.judgement import Judgement

__all__ = [
    "Check",
    "CheckFailedError",
    "CheckSkipped",
    "Finding",
    "attempted",
    "judged",
    "need_option",
    "solved",
    "within",
]

Check = Callable[[Any, "Instance"], "Finding"]
"""``check(solver, instance)``: a :class:`Finding`, or :class:`CheckFailedError`, or :class:`CheckSkipped`."""


@dataclass(frozen=True)
class Finding:
    """What a check measured; None where it measures nothing of the kind.

    Attributes
    ----------
    relative_gap : float or None
        Certified relative gap of the answer that it looked at.
    history : tuple
        The solver's own record of that run.
    judgement : Judgement or None
        That answer against the baseline.
    """

    relative_gap: float | None = None
    history: tuple[Any, ...] = ()
    judgement: Judgement | None = None


class CheckFailedError(AssertionError):
    """A solver has the fault that a check looks for."""

    def __init__(self, reason: str, finding: Finding | None = None) -> None:
        super().__init__(reason)
        self.finding = Finding() if finding is None else finding


class CheckSkipped(SkipTest):
    """A check does not apply, for the reason given; pytest counts it as skipped."""


def attempted(solver: Any, instance: Instance) -> tuple[SolverUnderTest, Trial]:
    """The solver and its run on an instance, which may have failed.

    Raises
    ------
    CheckSkipped
        If the solver says that problems of this kind are not for it.
    """
    tested = solver_under_test(solver)
    trial = tested.trial(instance)
    if isinstance(trial.error, (CapabilityError, NotImplementedError)):
        raise CheckSkipped(f"the solver does not take this problem: {trial.error}")
    return tested, trial


def solved(solver: Any, instance: Instance) -> tuple[SolverUnderTest, Trial, Answer]:
    """The solver, its run on an instance, and the answer.

    Raises
    ------
    CheckSkipped
        If there is no answer: why, is for ``check_answer`` to say.
    """
    tested, trial = attempted(solver, instance)
    if trial.answer is None:
        raise CheckSkipped("check_answer failed: there is no answer to look at")
    return tested, trial, trial.answer


def judged(judgement: Judgement) -> Finding:
    """What a judgement measured."""
    return Finding(judgement.relative_gap, judgement.answer.history, judgement)


def need_option(tested: SolverUnderTest, option: str) -> None:
    """Skip the check for a solver without an option."""
    if option not in tested.options:
        raise CheckSkipped(f"the solver takes no argument {option!r}")


def within(found: float, limit: float, reason: str, finding: Finding) -> Finding:
    """The finding, if a number is at most its limit; NaN is not."""
    if not found <= limit:
        raise CheckFailedError(reason, finding)
    return finding
