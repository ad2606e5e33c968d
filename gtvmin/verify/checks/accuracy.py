"""Checks of a single answer: is it as good as it should be, and as good as it says."""

from __future__ import annotations

from typing import Any

import numpy as np

from gtvmin.verify.assertion import evaluation_mistake, explain, explain_flows
from gtvmin.verify.checks.outcome import (
    CheckFailedError,
    CheckSkipped,
    Finding,
    attempted,
    judged,
    solved,
    within,
)
from gtvmin.verify.instances import Instance
from gtvmin.verify.judgement import Judgement, judge

__all__ = [
    "check_answer",
    "check_certified_gap",
    "check_claim",
    "check_flows",
    "check_precision",
    "check_reported_objective",
    "untrue_claim",
]

SINGLE_PRECISION_GAP = 1e-3
"""Relative gap that is enough for arithmetic in single precision."""
SAME_OBJECTIVE = 1e-9
"""Relative difference that two evaluations of one objective may have."""


def check_answer(solver: Any, instance: Instance) -> Finding:
    """The solver returns parameters of the right shape, real and finite.

    Fault: it crashes, or returns NaN or infinity, too many or too few rows, whole numbers, or something else.
    """
    _, trial = attempted(solver, instance)
    if trial.answer is None:
        raise CheckFailedError(f"no usable answer: {type(trial.error).__name__}: {trial.error}") from trial.error
    if trial.answer.dtype.kind != "f":
        raise CheckFailedError(f"the parameters are of dtype {trial.answer.dtype}, not floating-point numbers")
    return Finding(history=trial.answer.history)


def check_certified_gap(solver: Any, instance: Instance) -> Finding:
    """The parameters are certified to the gap that the solver is asked for, by the bound of the baseline.

    Fault: it solves another problem (a lost factor, sign, weight or edge), or stops too early.
    """
    tested, trial, _ = solved(solver, instance)
    judgement = trial.judgement
    if not judgement.relative_gap <= tested.relative_gap:
        raise CheckFailedError(explain(judgement, tested.relative_gap), judged(judgement))
    return judged(judgement)


def check_flows(solver: Any, instance: Instance) -> Finding:
    """The bound of the flows, if the solver returns any, is as near to the optimum as asked for.

    Fault: flows with the opposite sign, in another scale or order, or that lag behind.
    """
    tested, trial, _ = solved(solver, instance)
    judgement = trial.judgement
    if judgement.own is None:
        raise CheckSkipped("the solver returns no flows")
    finding = Finding(judgement.flow_relative_gap, judgement.answer.history)
    if not judgement.flow_relative_gap <= tested.relative_gap:
        raise CheckFailedError(explain_flows(judgement, tested.relative_gap), finding)
    return finding


def check_claim(solver: Any, instance: Instance) -> Finding:
    """The gap that the solver claims is no smaller than the true suboptimality.

    Fault: a gap from infeasible flows or from a stale iterate; 'converged' where the iterates merely slowed down.
    """
    tested, trial, answer = solved(solver, instance)
    if not answer.has_claim:
        raise CheckSkipped("the solver claims no gap")
    lie = untrue_claim(trial.judgement, tested.relative_gap)
    if lie is not None:
        raise CheckFailedError(lie, judged(trial.judgement))
    return judged(trial.judgement)


def untrue_claim(judgement: Judgement, asked: float) -> str | None:
    """A sentence if a claim is provably untrue: the baseline's parameters are better by more than the claimed gap."""
    answer, reference = judgement.answer, judgement.reference
    worse = judgement.certificate.primal - reference.primal
    size = max(judgement.size, abs(judgement.certificate.primal))  # relative to which objective, is the solver's choice
    claims = [
        ("the gap {:.3g}", answer.gap, 1.0),
        ("the relative gap {:.3g}", answer.relative_gap, size),
        ("the relative gap {:.3g} that it was asked for", asked if answer.certified else None, size),
    ]
    for text, claimed, unit in claims:
        if claimed is not None and worse - judgement.slack > claimed * unit:
            return (
                f"it claims {text.format(claimed)}, but the baseline's objective {reference.primal:.12g} is lower than "
                f"that of its answer by {worse:.3g}"
            )
    return None


def check_reported_objective(solver: Any, instance: Instance) -> Finding:
    """The objective that the solver reports is that of the parameters that it returns.

    Fault: the objective of the last iterate where the best one is returned, or of another scaling; one below the
    certified bound is an evaluation mistake.
    """
    _, trial, answer = solved(solver, instance)
    if answer.objective is None:
        raise CheckSkipped("the solver reports no objective")
    judgement = trial.judgement
    mistake = evaluation_mistake(judgement)
    if mistake is not None:
        raise CheckFailedError(mistake, judged(judgement))
    actual = judgement.certificate.primal
    return within(
        abs(answer.objective - actual),
        SAME_OBJECTIVE * judgement.size + judgement.slack,
        f"it reports the objective {answer.objective:.12g}; that of the returned parameters is {actual:.12g}",
        judged(judgement),
    )


def check_precision(solver: Any, instance: Instance) -> Finding:
    """A start in single precision leaves the answer in double precision; single precision reaches what it can.

    Fault: arrays that take over the precision of the start; thresholds that single precision never meets.
    """
    tested, trial, answer = solved(solver, instance)
    finding = Finding()
    if not tested.options & {"start", "dtype"}:
        raise CheckSkipped("the solver takes neither 'start' nor 'dtype'")
    if "start" in tested.options:
        judgement = judge(trial.problem, tested.run(instance.problem(), start=answer.W.astype(np.float32)))
        limit = max(tested.relative_gap, 2.0 * trial.judgement.relative_gap)
        reason = f"from a float32 start the relative gap is {judgement.relative_gap:.3g}, larger than {limit:.3g}"
        finding = within(judgement.relative_gap, limit, reason, judged(judgement))
    if "dtype" in tested.options:
        judgement = judge(trial.problem, tested.run(instance.problem(), dtype=np.float32))
        reason = f"in float32 the relative gap is {judgement.relative_gap:.3g}, larger than {SINGLE_PRECISION_GAP:g}"
        finding = within(judgement.relative_gap, SINGLE_PRECISION_GAP, reason, judged(judgement))
    return finding
