"""How far a limit is from solving a program, and which other program it solves instead."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.federated.assessment import ProgramMonitor
from gtvmin.solvers.standard_form import Point
from gtvmin.verify.answers import read_answer
from gtvmin.verify.checks.outcome import CheckFailedError, Finding
from gtvmin.verify.federated.claims import Claim, same_models
from gtvmin.verify.judgement import Judgement, judge

if TYPE_CHECKING:
    from gtvmin.federated.program import Program
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array
    from gtvmin.verify.federated.limits import Limit
    from gtvmin.verify.federated.under_test import AlgorithmUnderTest

__all__ = ["certified", "gap_on"]

SAME = 1e-8
"""Relative difference of models that are the same."""
EXPLAINS = 1e-8
"""Relative gap on another program that the limit is said to solve."""
FACTORS = (0.5, 2.0, 0.25, 4.0)
ZERO_MODEL_SHARE = 1e-2
"""Gaps are relative to the objective, but to no less than this share of the devices' mean loss of the zero model."""


def certified(tested: AlgorithmUnderTest, problem: GTVMin, program: Program, limit: Limit, change: str = "") -> Finding:
    """The limit's certified relative gap, if it is within the tolerance.

    Raises
    ------
    CheckFailedError
        If it is not, or the devices' models differ where they must not.
    """
    before = f"{change}: " if change else ""
    if not np.isfinite(limit.W).all():
        raise CheckFailedError(f"{before}the models are not finite after {limit.how}")
    claim = tested.solves
    if claim is not None and claim.weighted and not claim.personal and not same_models(limit.W, SAME):
        apart = np.abs(limit.W - limit.W[0]).max()
        raise CheckFailedError(f"{before}the devices' models differ by up to {apart:.3g}, in a claim of {claim}")
    gap = gap_on(problem, program, limit.W)
    if gap <= tested.relative_gap:
        return Finding(gap)
    judgement = _judged(program, limit.W)
    gap = min(gap, _relative(judgement.certificate.gap, judgement.certificate.primal, problem))
    if gap <= tested.relative_gap:
        return Finding(gap, judgement=judgement)
    lines = [
        f"{before}the limit does not solve the program that is claimed: its relative gap is {gap:.3g}, larger than "
        f"{tested.relative_gap:g}",
        f"  limit        {limit.how}{'' if limit.settled else ', still moving'}",
        f"  objective    {judgement.certificate.primal:.12g}",
        f"  lower bound  {judgement.reference.dual:.12g} (of a baseline with the relative gap "
        f"{judgement.relative(judgement.reference.gap):.1e})",
        f"  models       up to {np.abs(judgement.certificate.W - judgement.reference.W).max():.3g} from the baseline's",
    ]
    lines += [f"  hint: it solves {text}" for text in _solved_instead(tested, problem, limit.W)]
    raise CheckFailedError("\n".join(lines), Finding(gap, judgement=judgement))


def gap_on(problem: GTVMin, program: Program, W: Array) -> float:
    """Certified gap of the devices' models on a program, by the gradients at the models, relative to the objective."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = ProgramMonitor(program, 0.0).certificate(Point(W))
    return _relative(found.gap, found.primal, problem)


def _relative(gap: float, primal: float, problem: GTVMin) -> float:
    zero = float(np.mean([abs(loss.value(np.zeros(problem.dim))) for loss in problem.losses]))
    size = max(abs(primal), ZERO_MODEL_SHARE * (zero if np.isfinite(zero) else 0.0))
    return gap / size if size > 0 else float("inf") if gap > 0 else 0.0


def _judged(program: Program, W: Array) -> Judgement:
    """The same against the program's baseline."""
    assert program.problem is not None
    return judge(program.problem, read_answer(program.problem, program.place(Point(W))))


def _solved_instead(tested: AlgorithmUnderTest, problem: GTVMin, W: Array) -> Iterator[str]:
    """A program that the limit solves, in words; none if no common one fits."""
    for text, program in _others(tested, problem):
        if gap_on(problem, program, W) <= EXPLAINS:
            yield text
            return


def _others(tested: AlgorithmUnderTest, problem: GTVMin) -> Iterator[tuple[str, Program]]:
    """Programs of common mistakes."""
    n = problem.network.n_nodes
    counted = any(loss.n_samples for loss in problem.losses)
    words = {"uniform": np.full(n, 1.0 / n)} | ({"samples": tested.shares(problem, "samples")} if counted else {})
    strength = tested.solves.mu if tested.solves is not None else 0.0
    for word, p in words.items():
        yield f"consensus with weights={word!r}", Claim("consensus").program(problem, p)
        for factor in (1.0, *FACTORS) if strength > 0 else ():
            for personal in (False, True):
                claim = Claim("star", factor * strength, personal)
                yield f"{claim} with weights={word!r}", claim.program(problem, p)
    yield "each device's loss alone", Claim("alone").program(problem, words["uniform"])
    for factor in FACTORS:
        changed = problem.with_alpha(factor * problem.alpha)
        yield f"GTVMin with {factor:g} times its alpha", Claim("gtvmin").program(changed, words["uniform"])
