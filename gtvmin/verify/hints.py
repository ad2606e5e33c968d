"""What wrong parameters look like: permuted, negated, or optimal for another problem."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.certificates import certify
from gtvmin.network import FLNetwork
from gtvmin.verify.judgement import Judgement

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array

__all__ = ["flow_hints", "hints"]

LARGEST = 2_000
"""Number of parameters up to which other problems are solved to compare with."""
MOST_ITERATIONS = 5_000
MOST_NAMES = 4
# An explanation must leave at most this share of the error.
EXPLAINS = 1e-2


def hints(judgement: Judgement) -> list[str]:
    """Sentences on what may be wrong with the parameters; none where nothing fits."""
    return _permuted(judgement) or list(_other_problems(judgement))


def flow_hints(judgement: Judgement) -> Iterator[str]:
    """Sentences on what may be wrong with the flows."""
    problem, answer, own = judgement.problem, judgement.answer, judgement.own
    if answer.U is None or own is None:
        return
    flipped = certify(problem, answer.W, -answer.U)
    if flipped.gap < EXPLAINS * own.gap:
        yield (
            f"the flows have the opposite sign: -U proves {judgement.relative(flipped.gap):.1e}. Flows run from tail "
            "to head, and -(D^T U)_i is a subgradient of device i's loss"
        )


def _permuted(judgement: Judgement) -> list[str]:
    """Whether the rows are those of the baseline in another order."""
    from scipy.optimize import linear_sum_assignment

    W, best, nodes = judgement.answer.W, judgement.reference.W, judgement.problem.network.nodes
    if W.size > LARGEST:
        return []
    distance = np.linalg.norm(W[:, None, :] - best[None, :, :], axis=2)
    rows, columns = linear_sum_assignment(distance)
    if distance[rows, columns].sum() > EXPLAINS * np.trace(distance):
        return []
    moved = [i for i in rows if columns[i] != i and distance[i, i] > distance[i, columns[i]]]
    if not moved:
        return []
    shown = [f"{nodes[i]!r} has those of {nodes[columns[i]]!r}" for i in moved[:MOST_NAMES]]
    more = f" and {len(moved) - MOST_NAMES} more" if len(moved) > MOST_NAMES else ""
    return [f"the devices look permuted: {', '.join(shown)}{more}. Rows are in the order of problem.network.nodes"]


def _other_problems(judgement: Judgement) -> Iterator[str]:
    """Problems with a common mistake, to which the parameters are the answer."""
    W = judgement.answer.W
    if W.size > LARGEST:
        return
    for text, other, candidate in _variants(judgement.problem, W):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                optimum = other.solve(gap=1e-8, max_iter=MOST_ITERATIONS).certificate
            except (ValueError, TypeError, RuntimeError):
                continue
        size = max(abs(optimum.primal), abs(optimum.dual))
        error = certify(other, candidate, duals=optimum.duals).gap / size if size > 0 else np.inf
        if error <= EXPLAINS * min(judgement.relative_gap, 1.0) and error < 1e-3:
            yield text
            return


def _variants(problem: GTVMin, W: Array) -> Iterator[tuple[str, GTVMin, Array]]:
    """A sentence, a problem, and what its answer would be if the sentence is true."""
    if W.any():
        yield "the parameters have the opposite sign", problem, -W
    net = problem.network
    if net.n_edges and np.ptp(net.weights) > 0 and not problem.further:
        yield (
            "they are the answer to the problem with all edge weights 1: the weights are not used",
            _with_network(problem, FLNetwork.from_edges(net.edges, nodes=net.nodes)),
            W,
        )
    samples = {loss.n_samples for loss in problem.losses if loss.n_samples}
    factors = [2.0, 0.5, 4.0, 0.25, *(factor for m in samples if len(samples) == 1 for factor in (m, 1.0 / m))]
    if net.n_edges and 0 < problem.alpha < np.inf:
        for factor in dict.fromkeys(factors):
            if factor != 1:
                text = f"they are the answer to the problem with {factor:g} times its alpha"
                yield f"{text}: look for a factor such as 1/2, 2 or 1/m", problem.with_alpha(factor * problem.alpha), W


def _with_network(problem: GTVMin, network: FLNetwork) -> GTVMin:
    from gtvmin.problem import GTVMin

    return GTVMin(network, problem.losses, penalty=problem.penalty, alpha=problem.alpha, dim=problem.dim)
