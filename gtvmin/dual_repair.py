"""From raw flows to flows that the dual accepts, and the bound that they prove.

A flow matrix U is dual feasible if ``s_i = -(D^T U)_i`` lies in the domain of ``L_i^*`` for every device and ``U_e`` in
that of the penalty's conjugate for every edge.  A device with fewer independent rows than parameters, or none, puts
linear conditions on its net flow; solvers meet them in the limit only.  Any repaired U gives a valid bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gtvmin.solvers.standard_form import Array, StandardForm

__all__ = ["DualPoint", "best_dual", "dual_value", "span_residual", "zero_flow"]

DualPoint = tuple[float, Array]
"""A dual value and the flows that reach it."""

EPS = float(np.finfo(float).eps)
# A residual in the linear conditions below this share of the flow through the device is rounding, charged as such.
SPAN_TOLERANCE = 1e-9
# Every device is granted at least this share of the norm of all flows as the flow through it.
THROUGHPUT_FLOOR = 1e-3
# Conjugate gradients stop at this share of the norm of all flows: relative to the residual they would stall.
CG_TOLERANCE = 1e-13
CG_LIMIT = 1000
# How far a saturated edge may still move outwards: near the optimum a smaller share is better.
FACE_FLOOR = 1e-4
ALTERNATIONS = 3
OVERSHOOT = 1.5

Metric = Callable[[Array], Array]


def span_residual(form: StandardForm, U: Array) -> tuple[Array, Array, Array]:
    """Net flows moved into the conjugates' span, how far each was off, and the throughput it is measured by."""
    S = -form.divergence(U)
    inside = form.local.project_dual(S)
    size = np.linalg.norm(U, axis=1)
    throughput = np.bincount(form.tail, size, form.n_nodes) + np.bincount(form.head, size, form.n_nodes)
    # where next to nothing flows, what conjugate gradients leave is large against it: all flows are the measure then
    throughput = np.maximum(throughput, THROUGHPUT_FLOOR * np.linalg.norm(U))
    return inside, np.asarray(np.linalg.norm(S - inside, axis=1)), np.asarray(throughput, dtype=float)


def dual_value(form: StandardForm, U: Array) -> float:
    """``-sum_i L_i^*(-(D^T U)_i) - sum_e g_e^*(U_e)``, ``-inf`` if U is infeasible."""
    inside, off, throughput = span_residual(form, U)
    if (off > SPAN_TOLERANCE * throughput).any():
        return -np.inf
    return -float(form.local.conjugate(inside).sum() + form.coupling.conjugate(U).sum())


def zero_flow(form: StandardForm) -> DualPoint:
    """The flow zero, feasible whenever every loss is bounded below."""
    U = np.zeros((form.n_edges, form.dim))
    return dual_value(form, U), U


def best_dual(form: StandardForm, U: Array) -> tuple[DualPoint, int]:
    """Best of the repairs of U and of the zero flow, and how many products with D they cost."""
    best = zero_flow(form)
    inside = _pull_in(form, U)
    if form.local.full_span.all():
        return max(best, (dual_value(form, inside), inside), key=lambda point: point[0]), 1
    cost = 0
    least_squares, used = _satisfy_span(form, inside, lambda Z: Z)
    cost += used
    candidates = [least_squares]
    if _largest_gauge(form, least_squares) > 1.0:
        face, used = _satisfy_span(form, inside, form.coupling.dual_metric(inside, FACE_FLOOR))
        cost += used
        alternated = least_squares
        for _ in range(ALTERNATIONS):
            alternated = alternated + OVERSHOOT * (form.coupling.project_domain(alternated) - alternated)
            alternated, used = _satisfy_span(form, alternated, lambda Z: Z)
            cost += used
        candidates += [face, alternated]
    for candidate in candidates:
        best = max(best, _scale(form, candidate), key=lambda point: point[0])
    return best, cost


def _pull_in(form: StandardForm, U: Array) -> Array:
    """Project every edge into its domain, and a rounding error further where the projection ends outside."""
    inside = form.coupling.project_domain(U)
    gauge = form.coupling.dual_gauge(inside)
    outside = gauge > 1.0
    if outside.any():
        inside = inside * np.where(outside, (1.0 - 4 * EPS) / np.where(outside, gauge, 1.0), 1.0)[:, None]
    return inside


def _largest_gauge(form: StandardForm, U: Array) -> float:
    return float(form.coupling.dual_gauge(U).max(initial=0.0))


def _scale(form: StandardForm, U: Array) -> DualPoint:
    """Best multiple of U: the linear conditions survive scaling, and theta -> dual value is concave.

    For quadratic losses it is a parabola, which three values determine.
    """
    gauge = _largest_gauge(form, U)
    most = (1.0 - 4 * EPS) / gauge if gauge > 0 else np.inf
    full = min(most, 1.0)
    origin = dual_value(form, 0.0 * U)
    end, middle = dual_value(form, full * U), dual_value(form, 0.5 * full * U)
    best = max((end, full), (middle, 0.5 * full), (origin, 0.0))
    if np.isfinite(origin + end + middle):
        curvature = origin - 2.0 * middle + end
        if curvature < 0:
            vertex = 0.5 * full * (1.0 - (end - origin) / (2.0 * curvature))
            theta = min(max(vertex, 0.0), most)
            best = max(best, (dual_value(form, theta * U), theta))
    return best[0], best[1] * U


def _satisfy_span(form: StandardForm, U: Array, metric: Metric) -> tuple[Array, int]:
    """Least change of U, in the metric's inverse, after which every net flow lies in its span.

    ``U - M D v`` with v from conjugate gradients on ``N D^T M D N v = N D^T U``, N the projections onto the
    complements of the spans.
    """

    def complement(V: Array) -> Array:
        return V - form.local.project_dual(V)

    def apply(V: Array) -> Array:
        return complement(form.divergence(metric(form.difference(V))))

    target = CG_TOLERANCE * float(np.linalg.norm(U))
    counts = np.maximum(form.neighbour_counts, 1)[:, None]  # Jacobi; a scalar per row keeps to the complement
    v = np.zeros((form.n_nodes, form.dim))
    residual = complement(form.divergence(U))
    scaled = residual / counts
    direction = scaled
    product = float(np.vdot(residual, scaled))
    products = 1
    while products <= CG_LIMIT:
        if float(np.linalg.norm(residual)) <= target:
            break
        image = apply(direction)
        curvature = float(np.vdot(direction, image))
        if curvature <= 0:
            break
        length = product / curvature
        v = v + length * direction
        residual = residual - length * image
        scaled = residual / counts
        previous, product = product, float(np.vdot(residual, scaled))
        direction = scaled + (product / previous) * direction
        products += 1
    return U - metric(form.difference(v)), products
