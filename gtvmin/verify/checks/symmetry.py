"""Checks that an answer does not depend on how the problem is written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.verify.checks.outcome import CheckFailedError, CheckSkipped, Finding, solved, within
from gtvmin.verify.instances import Instance
from gtvmin.verify.judgement import judge
from gtvmin.verify.transforms import (
    NotApplicableError,
    Transformed,
    duplicated_rows,
    relabelled,
    reordered,
    scaled,
    split_edge,
    two_copies,
    without_edges,
)

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.verify.answers import Answer
    from gtvmin.verify.under_test import SolverUnderTest

__all__ = [
    "check_duplicate_rows",
    "check_edge_reversal",
    "check_edgeless",
    "check_node_order",
    "check_relabelling",
    "check_scaling",
    "check_split_edge",
    "check_two_copies",
]

SMALL = 1e-4
"""Factor of the objective that shows absolute tolerances."""


def check_relabelling(solver: Any, instance: Instance) -> Finding:
    """Devices under other names, in the same order, which is not the alphabetical one: the same answer.

    Fault: labels are sorted, or taken for positions.
    """
    return _same(solver, instance, relabelled, "other names of the devices")


def check_node_order(solver: Any, instance: Instance) -> Finding:
    """Devices in a random order: the same answer.

    Fault: rows of the answer or of the data in another order than the network's nodes.
    """
    return _same(
        solver,
        instance,
        lambda problem: reordered(problem, np.random.default_rng(0).permutation(problem.network.n_nodes).tolist()),
        "another order of the devices",
    )


def check_edge_reversal(solver: Any, instance: Instance) -> Finding:
    """Devices in the reverse order, so that every edge runs the other way: the same answer.

    Fault: a sign that is right for one end of the edges only, sweeps that treat devices unequally and stop too early.
    """
    return _same(
        solver,
        instance,
        lambda problem: reordered(problem, range(problem.network.n_nodes)[::-1]),
        "edges that run the other way",
    )


def check_scaling(solver: Any, instance: Instance) -> Finding:
    """Losses and alpha both times 1/10,000: the same answer.

    Fault: absolute tolerances, fixed steps, a factor of the losses or of alpha that is lost.
    """
    return _same(solver, instance, lambda problem: scaled(problem, SMALL), f"losses and alpha times {SMALL:g}")


def check_split_edge(solver: Any, instance: Instance) -> Finding:
    """Half of the heaviest edge as a detour over a new device without labels: the same answer.

    Fault: weights that are not used, or used twice; devices without labels that are left where they start.
    """
    return _same(solver, instance, split_edge, "half of an edge led over a new device without labels")


def check_duplicate_rows(solver: Any, instance: Instance) -> Finding:
    """Every data point twice, the first three times, at a half and a third of its weight: the same answer.

    Fault: the number of rows in the wrong place, sample weights that are not used.
    """
    return _same(solver, instance, duplicated_rows, "every data point several times at a share of its weight")


def check_two_copies(solver: Any, instance: Instance) -> Finding:
    """The network beside a copy of itself, without an edge in between: the same answer for both.

    Fault: a method that needs a connected network, or lets one component disturb another.
    """
    return _same(solver, instance, two_copies, "a disconnected network of two copies")


def check_edgeless(solver: Any, instance: Instance) -> Finding:
    """The devices without any edge: each minimises its own loss.

    Fault: a division by a degree or a largest eigenvalue of zero, arrays of no rows.
    """
    tested, trial, _ = solved(solver, instance)
    alone = _changed(without_edges, trial.problem).problem
    answer = _answer(tested, _changed(without_edges, trial.problem).problem, "no edges")
    certificate = judge(alone, answer).certificate
    # alone, devices may fit perfectly: the objective with edges is what a gap is small against; and what digits of the
    # certificate ill-conditioned losses cost is no fault of the answer
    gap = trial.judgement.relative(certificate.gap - certificate.rounding)
    reason = f"without edges the gap is {gap:.3g} of the objective with edges, larger than {tested.relative_gap:g}"
    return within(gap, tested.relative_gap, reason, Finding(gap, answer.history))


def _same(solver: Any, instance: Instance, transform: Callable[[GTVMin], Transformed], change: str) -> Finding:
    """The answer to a changed problem has the same objective in both problems as the answer to the original one."""
    tested, trial, _ = solved(solver, instance)
    changed = _changed(transform, trial.problem)
    answer = _answer(tested, _changed(transform, trial.problem).problem, change)
    judgement = trial.judgement
    original = judgement.certificate.primal
    objectives = (
        trial.problem.objective(changed.back(answer.W)),
        changed.problem.objective(answer.W) / changed.unit,
    )
    found = max(objectives, key=lambda objective: abs(objective - original))
    difference = judgement.relative(abs(found - original))
    finding = Finding(judgement.relative(found - judgement.reference.dual), answer.history)
    return within(
        difference,
        tested.relative_gap + judgement.relative(judgement.slack),
        f"{change}: the answer's objective is {found:.12g} instead of {original:.12g}, a relative difference of "
        f"{difference:.3g}",
        finding,
    )


def _changed(transform: Callable[[GTVMin], Transformed], problem: GTVMin) -> Transformed:
    try:
        return transform(problem)
    except NotApplicableError as error:
        raise CheckSkipped(str(error)) from error


def _answer(tested: SolverUnderTest, problem: GTVMin, change: str) -> Answer:
    try:
        return tested.run(problem)
    except (CapabilityError, NotImplementedError) as error:
        raise CheckSkipped(f"the solver does not take {change}: {error}") from error
    except Exception as error:
        raise CheckFailedError(f"{change}: {type(error).__name__}: {error}") from error
