"""The assertion that an answer is as good as asked for, with a message that says where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.validation import nonnegative_number
from gtvmin.verify.answers import read_answer
from gtvmin.verify.hints import flow_hints, hints
from gtvmin.verify.judgement import Judgement, judge

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.problem import GTVMin

__all__ = ["assert_certified", "evaluation_mistake", "explain"]

WORST = 3
"""Number of devices and edges that a message names."""


def assert_certified(problem: GTVMin, answer: Any, relative_gap: float = 1e-6) -> Certificate:
    """Assert that parameters from anywhere are certified to be near the optimum.

    Parameters
    ----------
    problem : GTVMin
        The problem.
    answer : array_like (n_nodes, dim), mapping, DataFrame, (W, U), Solution or Certificate
        Parameters W, by themselves or with flows U; see :func:`gtvmin.verify.answers.read_answer`.  Without flows, W is
        judged against the certified bound of the problem's baseline, so that it is not blamed for missing flows.  With
        flows, these must prove it.
    relative_gap : float
        Largest certified gap that passes, relative to the optimal value.

    Returns
    -------
    Certificate
        The proof.

    Raises
    ------
    AssertionError
        If the gap is larger, or an objective that the answer reports is below the certified bound (which no parameters
        can reach: it is then the evaluation that is wrong).  The message gives objective, bound and gap, the devices
        and edges with the largest terms, and what the error looks like.
    ValueError
        If `relative_gap` is negative or NaN, or the problem has no finite bound.

    Examples
    --------
    The candidates (1, 2) and (1.1, 1.9) for two numbers 0 and 3 and one unit of flow between them:

    >>> import gtvmin as gtv
    >>> from gtvmin.verify import assert_certified
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=1.0)
    >>> certificate = assert_certified(problem, [[1.0], [2.0]])
    >>> assert_certified(problem, {"a": 1.1, "b": 1.9})
    Traceback (most recent call last):
      ...
    AssertionError: not certified: the relative gap 0.005 is larger than 1e-06
    ...
    """
    tolerance = nonnegative_number(relative_gap, "relative_gap")
    try:
        read = read_answer(problem, answer)
    except (ValueError, TypeError) as error:
        raise AssertionError(f"not an answer to this problem: {error}") from error
    judgement = judge(problem, read)
    mistake = evaluation_mistake(judgement)
    if mistake is not None:
        raise AssertionError(mistake)
    if not judgement.relative_gap <= tolerance:
        raise AssertionError(explain(judgement, tolerance))
    if judgement.own is None:
        return judgement.certificate
    if not judgement.own_relative_gap <= tolerance:
        raise AssertionError(explain_flows(judgement, tolerance))
    return judgement.own


def evaluation_mistake(judgement: Judgement) -> str | None:
    """A sentence if an objective is below what the baseline proves to be impossible."""
    bound, slack = judgement.reference.dual, judgement.slack
    reported = judgement.answer.objective
    if reported is not None and reported < bound - slack:
        return (
            f"evaluation mistake: it reports the objective {reported:.12g}, but the certified lower bound is "
            f"{bound:.12g}, and no parameters have less. At the returned parameters the objective is "
            f"{judgement.certificate.primal:.12g}: look for a factor, or an edge or loss that is left out"
        )
    bound = max(bound, judgement.conjugate_bound)
    if judgement.certificate.primal < bound - slack:
        return (
            f"evaluation mistake: the objective {judgement.certificate.primal:.12g} of the returned parameters is "
            f"below the lower bound {bound:.12g}: the value and the conjugate of a loss or penalty do not "
            "belong together"
        )
    return None


def explain(judgement: Judgement, tolerance: float) -> str:
    """Why parameters are not certified."""
    certificate, reference = judgement.certificate, judgement.reference
    lines = [
        f"not certified: the relative gap {judgement.relative_gap:.3g} is larger than {tolerance:g}",
        f"  objective    {certificate.primal:.12g}",
        f"  lower bound  {reference.dual:.12g} (of a baseline with the relative gap "
        f"{judgement.relative(reference.gap):.1e})",
        f"  gap          {certificate.gap:.3g}",
    ]
    nodes, edges = judgement.problem.network.nodes, judgement.problem.edges
    if certificate.violation.any():
        lines.append(f"  outside the domain of their loss: {_worst(nodes, certificate.violation)}")
    elif np.isfinite(certificate.gap):
        lines.append(f"  largest terms of devices: {_worst(nodes, certificate.per_node)}")
        if certificate.per_edge.any():
            lines.append(f"  largest terms of edges:   {_worst(edges, certificate.per_edge)}")
        away = np.linalg.norm(certificate.W - reference.W, axis=1)
        lines.append(f"  farthest from baseline:   {_worst(nodes, away)}")
    lines += [f"  hint: {hint}" for hint in hints(judgement)]
    return "\n".join(lines)


def explain_flows(judgement: Judgement, tolerance: float) -> str:
    """Why flows do not prove the parameters."""
    own = judgement.own
    assert own is not None
    lines = [
        f"the flows do not prove it: with them the relative gap is {judgement.own_relative_gap:.3g}, larger than "
        f"{tolerance:g}; that of the parameters by the baseline's flows is {judgement.relative_gap:.1e}, that of the "
        f"flows by its parameters {judgement.flow_relative_gap:.1e}",
        f"  largest terms of devices: {_worst(judgement.problem.network.nodes, own.per_node)}",
        f"  largest terms of edges:   {_worst(judgement.problem.edges, own.per_edge)}",
    ]
    lines += [f"  hint: {hint}" for hint in flow_hints(judgement)]
    return "\n".join(lines)


def _worst(labels: Sequence[Any], values: Any) -> str:
    order = np.argsort(-values, kind="stable")[:WORST]
    return ", ".join(f"{labels[k]!r} {values[k]:.3g}" for k in order if values[k] > 0) or "none"
