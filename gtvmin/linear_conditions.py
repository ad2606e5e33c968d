"""The linear conditions that duals must meet, and the least moves after which they do.

The net dual ``s_i = -(sum_k K_k^T U_k)_i`` of each device must lie in the span of the domain of its quadratic part's
conjugate.  For a device with fewer independent least-squares rows than parameters, or none, that is a proper subspace.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gtvmin.solvers.standard_form import Array, Duals, StandardForm, dot

__all__ = [
    "SPAN_TOLERANCE",
    "Metric",
    "Net",
    "needs_move",
    "row_metrics",
    "satisfy_span",
    "span_residual",
    "violations",
]

Metric = Callable[[Array], Array]
"""How freely the rows of a term may move: a positive semidefinite map of them."""

Net = tuple[Array, Array, Array]
"""Net duals moved into the conjugates' span, how far each was off, and the throughput it is measured by."""

EPS = float(np.finfo(float).eps)
# A residual in a device's linear conditions below this share of what flows through it is accepted, and charged.
SPAN_TOLERANCE = 1e-12
# It is rounding, and not worth another move, below this share.
ROUNDING = 256 * EPS
# Conjugate gradients stop at this share of the norm of all duals, or of the residual that is no rounding.
CG_TOLERANCE = 1e-13
REFINED_SHARE = 1e-3
REFINEMENTS = 4
CG_LIMIT = 1000
# Growth of the squared residual at which they are given up.
RUNAWAY = 1e2
# How far a saturated row may still move outwards: near the optimum a smaller share is better.
FACE_FLOOR = 1e-4


def span_residual(form: StandardForm, U: Duals) -> Net:
    """Net duals moved into the conjugates' span, how far each was off, and the throughput it is measured by."""
    S = -form.adjoint(U)
    if form.quadratic.full_span.all():  # there are no conditions
        return S, np.zeros(form.n_nodes), np.linalg.norm(S, axis=1)
    inside = form.quadratic.project_dual(S)
    throughput = np.linalg.norm(inside, axis=1)
    for term, dual in zip(form.terms, U, strict=True):
        size = np.linalg.norm(dual, axis=1)
        for end, norm in zip(term.map.ends, term.map.sizes(), strict=True):
            throughput += np.bincount(end, norm * size, form.n_nodes)
    return inside, np.asarray(np.linalg.norm(S - inside, axis=1)), throughput


def needs_move(net: Net) -> NDArray[np.bool_]:
    """Devices whose net dual is further outside its span than rounding takes it."""
    _, off, throughput = net
    return off > ROUNDING * throughput


def violations(form: StandardForm, U: Duals) -> Array:
    """Components of the net duals outside their spans where these are no rounding, zero elsewhere."""
    net = span_residual(form, U)
    return np.where(needs_move(net)[:, None], net[0] + form.adjoint(U), 0.0)


def _norm(U: Duals) -> float:
    return float(np.sqrt(sum(dot(dual, dual) for dual in U)))


def row_metrics(form: StandardForm, U: Duals | None = None, free: Duals | None = None) -> list[Metric]:
    """How freely each row may move: by the size of its map, hardly out of the domain of U, and only where ``free``."""
    metrics = []
    for k, term in enumerate(form.terms):
        size = np.max(term.map.sizes(), axis=0)
        scale = (1.0 / np.where(size > 0, size, 1.0) ** 2)[:, None]
        scale = scale if free is None else scale * free[k]
        metrics.append(_scaled(scale, None if U is None else term.function.dual_metric(U[k], FACE_FLOOR)))
    return metrics


def _scaled(scale: Array, inner: Metric | None) -> Metric:
    if (scale == 1.0).all():
        return (lambda Z: Z) if inner is None else inner
    return (lambda Z: scale * Z) if inner is None else (lambda Z: scale * inner(Z))


def satisfy_span(form: StandardForm, U: Duals, metrics: list[Metric]) -> tuple[Duals, int]:
    """Least change of U, in the metrics' inverse, after which every net dual lies in its span.

    Conjugate gradients bring the residual down to a share of the norm of all duals.  Where little flows that is not
    yet rounding: they start again from what is left at such devices alone.
    """
    S = -form.adjoint(U)
    residual, target = form.quadratic.project_dual(S) - S, CG_TOLERANCE * _norm(U)
    products = 1
    for _ in range(1 + REFINEMENTS):
        moves, used = _least_moves(form, residual, metrics, target, CG_LIMIT - products)
        U = tuple(dual - move for dual, move in zip(U, moves, strict=True))
        products += used + 1
        residual = violations(form, U)
        target = REFINED_SHARE * np.sqrt(dot(residual, residual))
        if target == 0 or products >= CG_LIMIT:
            break
    return U, products


def _least_moves(
    form: StandardForm, residual: Array, metrics: list[Metric], target: float, limit: int
) -> tuple[Duals, int]:
    """Moves ``M_k K_k v`` with v from conjugate gradients on ``N sum_k K_k^T M_k K_k N v = residual``.

    N are the projections onto the complements of the spans.  A residual that is rounding may be out of reach of all
    moves: then v is the best before the iteration runs away.
    """
    quadratic = form.quadratic

    def moves(V: Array) -> Duals:
        return tuple(metric(term.map.apply(V)) for term, metric in zip(form.terms, metrics, strict=True))

    weights = np.zeros(form.n_nodes)  # Jacobi; a scalar per device keeps to the complement
    for term, metric in zip(form.terms, metrics, strict=True):
        weights += term.map.at_nodes(metric(np.ones((term.map.n_rows, term.map.width))).mean(axis=1))
    scale = np.where(weights > 0, weights, 1.0)[:, None]
    v = best = np.zeros((form.n_nodes, form.dim))
    scaled = residual / scale
    direction = scaled
    product = dot(residual, scaled)
    products, size = 0, dot(residual, residual)
    least = size
    while products < limit and target**2 < size <= RUNAWAY * least:
        image = quadratic.complement(form.adjoint(moves(direction)))
        curvature = dot(direction, image)
        if curvature <= 0 or product <= 0:  # squares of tiny numbers vanish
            break
        length = product / curvature
        v = v + length * direction
        residual = residual - length * image
        scaled = residual / scale
        previous, product = product, dot(residual, scaled)
        direction = scaled + (product / previous) * direction
        products, size = products + 1, dot(residual, residual)
        if size < least:
            least, best = size, v
    return moves(best), products
