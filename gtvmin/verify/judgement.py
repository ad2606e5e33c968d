"""How good an answer is, measured against the certified baseline of its problem."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.certificates import Certificate, certify
from gtvmin.dual_repair import dual_value
from gtvmin.gap import objective_floor
from gtvmin.verify.answers import Answer
from gtvmin.verify.baselines import baseline

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Judgement", "judge"]

ROUNDING = 1e-12
"""Relative error of an objective, a sum over all devices and edges."""
CANCELLATION = 1e-6
"""Error, relative to the optimal value, of a bound that is a difference of larger sums."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """An answer, the baseline, and the gap between them.

    Attributes
    ----------
    problem : GTVMin
        What was solved.
    answer : Answer
        The answer.
    reference : Certificate
        The baseline.
    certificate : Certificate
        The answer's parameters with the dual variables of the baseline: its gap is a sum of terms without cancellation.
    own : Certificate or None
        The answer's parameters with its own flows, if it has any.
    size : float
        What gaps are relative to: the optimal value, or where that is tiny a share of the objective of the zero model.
        It does not depend on the answer.
    """

    problem: GTVMin
    answer: Answer
    reference: Certificate
    certificate: Certificate
    own: Certificate | None
    size: float

    def relative(self, difference: float) -> float:
        """A difference of objectives over ``size``."""
        if difference == 0:
            return 0.0
        return difference / self.size if self.size > 0 else float("inf")

    @property
    def relative_gap(self) -> float:
        """Bound on the suboptimality of the parameters, by the baseline's dual variables or better ones of its own."""
        return self.relative(self.certificate.gap if self.own is None else min(self.certificate.gap, self.own.gap))

    @property
    def own_relative_gap(self) -> float:
        """Bound on the suboptimality of the parameters, by the answer's own flows; infinite without any."""
        return float("inf") if self.own is None else self.relative(self.own.gap)

    @cached_property
    def flow_relative_gap(self) -> float:
        """How far the bound of the answer's flows may be below the optimum; infinite without flows."""
        if self.own is None:
            return float("inf")
        return self.relative(certify(self.problem, self.reference.W, duals=self.own.duals).gap)

    @cached_property
    def conjugate_bound(self) -> float:
        """The baseline's bound from conjugates alone, less what cancellation may have added.

        The one of the certificate is the objective less the Fenchel-Young terms, and these are at least zero even where
        a loss's conjugate is wrong.
        """
        form = self.problem.lowered.form
        zero = form.objective(np.zeros_like(self.reference.W))
        return dual_value(form, self.reference.duals) - CANCELLATION * self.size - ROUNDING * abs(zero)

    @property
    def slack(self) -> float:
        """What two evaluations of objectives may differ by, from rounding alone."""
        return self.certificate.rounding + self.reference.rounding + ROUNDING * self.size


def judge(problem: GTVMin, answer: Answer) -> Judgement:
    """Certify an answer against the baseline of its problem.

    Raises
    ------
    ValueError
        If the baseline has no finite bound: its objective may be unbounded below.
    """
    reference = baseline(problem)
    if not np.isfinite(reference.gap):
        raise ValueError(
            f"no finite bound is known for this problem (best objective {reference.primal:g}), so that nothing can be "
            "judged by it: its objective may be unbounded below, or its constraints contradict each other"
        )
    own = None
    if answer.duals is not None:
        own = certify(problem, answer.W, duals=answer.duals)
    elif answer.U is not None:
        own = certify(problem, answer.W, answer.U)
    floor = objective_floor(problem.lowered.form, reference.W)
    return Judgement(
        problem=problem,
        answer=answer,
        reference=reference,
        certificate=certify(problem, answer.W, duals=reference.duals),
        own=own,
        size=max(abs(reference.primal), abs(reference.dual), floor),
    )
