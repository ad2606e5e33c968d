"""Conjugates of whole losses, by the proximal point method.

``f^*(s) = -min_w f(w) - <s, w>`` is approached by ``w <- prox_{step f}(w + step s)`` with growing steps (R. T.
Rockafellar, "Monotone operators and the proximal point algorithm", SIAM J. Control Optim. 14 (1976),
doi:10.1137/0314056).  The move over the step tends to the distance of s from the domain of ``f^*`` (A. Pazy,
"Asymptotic behavior of contractions in Hilbert space", Israel J. Math. 9 (1971), doi:10.1007/BF02771588).  The duals of
the rows at the end split s between the parts of f: a bound from above whose error is of second order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.ball import BallBlocks
from gtvmin.losses.row_systems import INTERVAL
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.losses.local import LocalBlocks

__all__ = ["row_duals"]

STEPS = 25
GROWTH = 100.0
# The first step, in natural units of the loss.
FIRST_STEP = 10.0
# A slope below this share of the slopes that cancel in it is rounding.
FLAT = 1e-14
# A slope that growing steps do not bring down is rounding below this share.  Above, s is outside the conjugate's domain
# once so many steps have gone far beyond all natural lengths of the loss.
OUTSIDE = 1e-10
STALLED = 0.1
LONG = 6
# One more step corrects the rounding of the first.
AT_LEAST = 2

Split = tuple[list[Array], Array, NDArray[np.bool_]]


def row_duals(local: LocalBlocks, S: Array) -> Split:
    """Duals of the rows at which the conjugate is reached.

    Returns
    -------
    duals : list of arrays
        One per term, of the shape of its rows, each in the domain of its function's conjugate.
    rest : array (n_rows, dim)
        ``s - sum_k K_k^T p_k``, projected onto the span of the domain of the quadratic part's conjugate.
    inside : bool array (n_rows,)
        Whether the projection moved a row by no more than rounding: otherwise its conjugate is infinite.
    """
    quadratic = local.quadratic_part
    W, step = np.zeros_like(S), _first_step(local, S)
    lines = [np.zeros(len(system.rows.owner)) for _, system in local.systems]
    moving, slope = np.ones(local.n_rows, dtype=bool), np.full(local.n_rows, np.inf)
    for iteration in range(STEPS):
        moved = W.copy()
        for k, (devices, system) in enumerate(local.systems):
            roots = local.roots(devices, system, step)
            moved, duals_there = system.solver(roots)(moved, lines[k], local.push(devices, system, roots, W, S))
            lines[k] = np.where(moving[system.device(system.rows.owner)], duals_there, lines[k])
        before, slope = slope, np.where(moving, np.linalg.norm(moved - W, axis=1) / step, slope)
        W = np.where(moving[:, None], moved, W)
        duals = _collect(local, lines)
        size = _throughput(local, S, W, duals)
        stalled = slope > STALLED * before
        at_rest = (slope <= FLAT * size) | (stalled & ((slope <= OUTSIDE * size) | (iteration >= LONG)))
        if iteration + 1 >= AT_LEAST:
            moving &= ~at_rest
            if not moving.any():
                break
        step = np.where(at_rest, step, GROWTH * step)
    net = S - _pull(local, duals)
    rest = quadratic.project_dual(net)
    _give_to_balls(local, duals, net - rest)
    net = S - _pull(local, duals)
    rest = quadratic.project_dual(net)
    off = np.linalg.norm(net - rest, axis=1)
    return duals, rest, np.asarray(off <= OUTSIDE * _throughput(local, S, W, duals))


def _first_step(local: LocalBlocks, S: Array) -> Array:
    """Infinite where the quadratic part is strictly convex; elsewhere a length over a slope, or over a curvature."""
    quadratic = local.quadratic_part
    curvature = quadratic.smoothness
    slope = np.linalg.norm(S - quadratic.gradient(np.zeros_like(S)), axis=1)
    length = np.zeros(local.n_rows)
    for _, system in local.systems:
        rows = system.rows
        kinks = np.abs(rows.target) + rows.table[:, 4] * rows.steepness
        reach = np.where(rows.table[:, 0] == INTERVAL, kinks, 1.0)
        size = np.where(system.size > 0, system.size, 1.0)
        np.maximum.at(length, system.device(rows.owner), reach / size)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_curvature = np.where(curvature > 0, 1.0 / curvature, 0.0)
        natural = np.maximum(of_curvature, np.where(slope > 0, length / slope, 0.0))
    return np.where(quadratic.full_span, np.inf, FIRST_STEP * np.where(natural > 0, natural, 1.0))


def _collect(local: LocalBlocks, lines: list[Array]) -> list[Array]:
    """Duals of all terms from those of the systems' lines."""
    shapes = [(term.map.n_rows, term.map.width) for term in local.rows]
    ends = np.cumsum([rows * width for rows, width in shapes])
    flat = np.zeros(ends[-1])
    for (_, system), part in zip(local.systems, lines, strict=True):
        np.add.at(flat, system.rows.source, part)
    return [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]


def _pull(local: LocalBlocks, duals: list[Array]) -> Array:
    """``sum_k K_k^T p_k``."""
    total = np.zeros((local.n_rows, local.dim))
    for term, dual in zip(local.rows, duals, strict=True):
        total += term.map.adjoint(dual)
    return total


def _throughput(local: LocalBlocks, S: Array, W: Array, duals: list[Array]) -> Array:
    """Sum of the sizes of the slopes that cancel in each device, and of those that its rows could have."""
    quadratic = local.quadratic_part
    total: Array = np.linalg.norm(S, axis=1) + np.linalg.norm(quadratic.gradient(W), axis=1)
    total += np.linalg.norm(quadratic.tilt, axis=1)
    for term, dual in zip(local.rows, duals, strict=True):
        np.add.at(total, term.map.ends[0], term.map.sizes()[0] * np.linalg.norm(dual, axis=1))
    for _, system in local.systems:
        np.add.at(total, system.device(system.rows.owner), system.size * system.rows.steepness)
    return total


def _give_to_balls(local: LocalBlocks, duals: list[Array], left: Array) -> None:
    """Any vector is in the domain of a ball's conjugate: what the solution leaves over goes there."""
    for term, dual in zip(local.rows, duals, strict=True):
        if isinstance(term.function, BallBlocks):
            devices, first = np.unique(term.map.ends[0], return_index=True)
            dual[first] += left[devices]
