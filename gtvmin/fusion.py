"""Which neighbours a solution has fused, told from parameters and flows on the scale of the certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.penalties.norm import NormBlocks
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.problem import GTVMin

__all__ = ["close_edges", "coupled_pairs", "fused_edges", "join"]

IntArray = NDArray[np.int64]

SHARE = 0.05
"""Differences up to this share of a device's typical error count as none."""
SLACK = 0.01
"""A flow at least this share of its bound inside its ball holds its edge together."""
UNCERTIFIED = 1e-4
"""Tolerance where there is no finite gap to set the scale."""
# Parameters that agree to this share of their size agree up to rounding.
ROUNDING = 1e-12


def coupled_pairs(problem: GTVMin) -> tuple[IntArray, IntArray]:
    """Positions of tail and head of the edges of all families, in the order of the rows of flows."""
    networks = [coupling.network for coupling in problem.couplings]
    return np.concatenate([net.tail for net in networks]), np.concatenate([net.head for net in networks])


def fused_edges(problem: GTVMin, certificate: Certificate) -> NDArray[np.bool_]:
    r"""Edges (n_edges,), of all families, whose ends have equal parameters at the optimum, as far as can be told.

    With a gap g and losses that are :math:`\mu_i`-strongly convex, ``sum_i mu_i/2 ||w_i - w_i*||^2 <= g``: a device is
    off by ``radius_i / sqrt(n)`` if all share the gap alike, and never by more than ``radius_i = sqrt(2 g / mu_i)``.
    An edge counts as fused unless ``||w_i - w_j||_2 > sqrt(radius_i^2 + radius_j^2)``, which proves it split, if

    - its parameters differ by at most 0.05 times the median of ``radius_i / sqrt(n)``: as a rule few devices are off by
      more, and the gap is itself larger than what separates the objective from its minimum; or
    - its flow is inside its ball by at least one hundredth, ``||U_e||_* <= 0.99 alpha A_e``, which at an optimum only a
      fused edge can be.

    Where no loss is strongly convex, the typical error is taken as the spread of the parameters (root mean square
    distance from their mean) times the root of the relative gap, by which an objective that grows quadratically from
    its minimum would grow to its own size.  Without a finite gap, edges are fused where parameters differ by at most
    1e-4 times the largest distance from their mean.
    """
    W, radius = certificate.W, certificate.radius
    if not np.isfinite(certificate.gap):
        return close_edges(problem, W, UNCERTIFIED)
    tail, head = coupled_pairs(problem)
    jump = np.linalg.norm(W[head] - W[tail], axis=1)
    finite = np.isfinite(radius)
    if finite.any():
        error = float(np.median(radius[finite])) / np.sqrt(len(W))
    else:
        spread = np.sqrt(((W - W.mean(axis=0)) ** 2).sum(axis=1).mean())
        error = float(spread * np.sqrt(certificate.relative_gap))
    floor = ROUNDING * float(np.abs(W).max())
    undecided = jump <= np.maximum(np.hypot(radius[tail], radius[head]), floor)
    return np.asarray(undecided & ((jump <= max(SHARE * error, floor)) | _held(problem, certificate)))


def _held(problem: GTVMin, certificate: Certificate) -> NDArray[np.bool_]:
    """Edges with a norm of all differences as their penalty, whose flow is clearly inside its ball."""
    lowered = problem.lowered
    held = np.zeros(lowered.n_edges, dtype=bool)
    for edges, term, dual in zip(lowered.edges, lowered.form.couplings, certificate.duals, strict=False):
        if isinstance(term.function, NormBlocks) and isinstance(term.map, EdgeDifference):
            held[edges] = term.function.dual_gauge(dual) <= 1.0 - SLACK
    return held


def close_edges(problem: GTVMin, W: Array, tolerance: float) -> NDArray[np.bool_]:
    """Edges whose ends differ by at most ``tolerance`` times the largest distance of a device from the mean."""
    tail, head = coupled_pairs(problem)
    reach = float(np.linalg.norm(W - W.mean(axis=0), axis=1).max())
    return np.asarray(np.linalg.norm(W[head] - W[tail], axis=1) <= tolerance * reach)


def join(problem: GTVMin, kept: NDArray[np.bool_]) -> IntArray:
    """Number of the group of each device (n_nodes,) that the kept edges make, counted in order of their first nodes."""
    tail, head = coupled_pairs(problem)
    n = problem.network.n_nodes
    links = (np.ones(int(kept.sum()), dtype=np.int8), (tail[kept], head[kept]))
    return np.asarray(connected_components(sparse.coo_array(links, shape=(n, n)), directed=False)[1], dtype=np.int64)
