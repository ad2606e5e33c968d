"""Checks of how a solver behaves: towards its input, from run to run, when cut short, when it cannot cope."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.storage import fingerprint
from gtvmin.verify.answers import read_answer
from gtvmin.verify.checks.accuracy import untrue_claim
from gtvmin.verify.checks.outcome import CheckFailedError, CheckSkipped, Finding, judged, need_option, solved, within
from gtvmin.verify.instances import Instance
from gtvmin.verify.judgement import judge
from gtvmin.verify.transforms import scaled

__all__ = [
    "check_deterministic",
    "check_divergence",
    "check_input_untouched",
    "check_iteration_budget",
    "check_warm_start",
]

BUDGET = 3
"""Iterations of a run that is cut short."""
STEEP = 1e6
"""Factor that makes fixed steps too long."""


def check_input_untouched(solver: Any, instance: Instance) -> Finding:
    """The declared problem and its arrays are the same after a run.

    Fault: work in place on the data or on the arrays of the standard form, so that a second run solves another problem.
    """
    tested, _, _ = solved(solver, instance)
    problem = instance.problem()
    probe = np.random.default_rng(0).normal(size=(problem.network.n_nodes, problem.dim))
    before = fingerprint(problem), problem.objective(probe)
    tested.run(problem)
    if fingerprint(problem) != before[0]:
        raise CheckFailedError("the declared problem has changed: its SHA-256 is another one after the run")
    if not np.array_equal(problem.objective(probe), before[1], equal_nan=True):
        raise CheckFailedError(
            "the arrays of the standard form have changed: the same parameters have another objective"
        )
    return Finding()


def check_deterministic(solver: Any, instance: Instance) -> Finding:
    """Two runs with the same seed give the same parameters to the last bit.

    Fault: random numbers without a seed, state that is left over from an earlier run, sums in varying order.
    """
    tested, _, answer = solved(solver, instance)
    again = tested.run(instance.problem())
    if not np.array_equal(answer.W, again.W):
        most = float(np.abs(answer.W - again.W).max())
        raise CheckFailedError(f"a second run gives other parameters, by up to {most:.3g}")
    return Finding(history=again.history)


def check_warm_start(solver: Any, instance: Instance) -> Finding:
    """From its own answer as start the solver gets as good an answer, in at most twice the iterations.

    Fault: the start is ignored in part, destroyed, or so placed that the method first moves away from it.
    """
    tested, trial, cold = solved(solver, instance)
    need_option(tested, "start")
    start = cold.W.copy()
    warm = tested.run(instance.problem(), start=start)
    if not np.array_equal(start, cold.W):
        raise CheckFailedError("the array given as start has been changed")
    judgement = judge(trial.problem, warm)
    limit = max(tested.relative_gap, 2.0 * trial.judgement.relative_gap)
    if cold.iterations is not None and warm.iterations is not None and warm.iterations > 2 * cold.iterations:
        raise CheckFailedError(
            f"from its own answer it takes {warm.iterations} iterations, from its default start {cold.iterations}",
            judged(judgement),
        )
    reason = f"from its own answer it ends at a relative gap of {judgement.relative_gap:.3g}, larger than {limit:.3g}"
    return within(judgement.relative_gap, limit, reason, judged(judgement))


def check_iteration_budget(solver: Any, instance: Instance) -> Finding:
    """Cut short after three iterations, the solver returns finite parameters and no untrue claim.

    Fault: the limit is ignored, an answer is said to be converged because the run is over, or there is none.
    """
    tested, trial, _ = solved(solver, instance)
    need_option(tested, "max_iter")
    try:
        answer = tested.run(instance.problem(), max_iter=BUDGET)
    except Exception as error:
        raise CheckFailedError(
            f"with max_iter={BUDGET} it returns no answer: {type(error).__name__}: {error}"
        ) from error
    judgement = judge(trial.problem, answer)
    if answer.iterations is not None and answer.iterations > BUDGET:
        raise CheckFailedError(f"with max_iter={BUDGET} it takes {answer.iterations} iterations", judged(judgement))
    lie = untrue_claim(judgement, tested.relative_gap)
    if lie is not None:
        raise CheckFailedError(f"with max_iter={BUDGET} {lie}", judged(judgement))
    return judged(judgement)


def check_divergence(solver: Any, instance: Instance) -> Finding:
    """With losses and alpha a million times as steep, the solver raises an error or returns something sensible.

    Fault: steps that are too long for the problem, and iterates that grow without anybody looking.  Sensible is what is
    finite and not worse than zero parameters.
    """
    tested, _, _ = solved(solver, instance)
    problem = scaled(instance.problem(), STEEP).problem
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            returned = tested.returned(scaled(instance.problem(), STEEP).problem)
        except (CapabilityError, NotImplementedError) as error:
            raise CheckSkipped(f"the solver does not take the scaled problem: {error}") from error
        except Exception:  # whatever it raises, it has noticed
            return Finding()
    try:
        answer = read_answer(problem, returned)
    except (ValueError, TypeError) as error:
        raise CheckFailedError(f"with losses {STEEP:g} times as steep it returns no usable answer: {error}") from error
    zero, found = problem.objective(np.zeros_like(answer.W)), problem.objective(answer.W)
    slack = tested.relative_gap * (abs(zero) if np.isfinite(zero) else 0.0)
    reason = f"with losses {STEEP:g} times as steep the objective is {found:.3g}, that of zero parameters {zero:.3g}"
    return within(found, zero + slack, reason, Finding(history=answer.history))
