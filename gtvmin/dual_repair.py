"""From raw dual variables to ones that the dual accepts, and the bound that they prove.

Duals U (one array per term) are feasible if each row lies in the domain of its function's conjugate, and if
``s_i = -(sum_k K_k^T U_k)_i`` lies in that of the quadratic part's, for every device: a device with fewer independent
least-squares rows than parameters, or none, puts linear conditions on it.  Solvers meet them in the limit only.  Any
repaired U gives a valid bound.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gtvmin.solvers.standard_form import Array, Duals, StandardForm, dot

__all__ = ["DualPoint", "best_dual", "complete_duals", "dual_value", "span_residual", "zero_dual"]

DualPoint = tuple[float, Duals]
"""A dual value and the duals that reach it."""

EPS = float(np.finfo(float).eps)
# A residual in the linear conditions below this share of the throughput is rounding, and charged as such.
SPAN_TOLERANCE = 1e-9
# Every device is granted at least this share of the norm of all duals as the throughput.
THROUGHPUT_FLOOR = 1e-3
# Duals that meet the linear conditions to that share only must raise the bound by more than this share of it.
PULL_GAIN = 10.0 * SPAN_TOLERANCE
# Conjugate gradients stop at this share of the norm of all duals: relative to the residual they would stall.
CG_TOLERANCE = 1e-13
CG_LIMIT = 1000
# How far a saturated row may still move outwards: near the optimum a smaller share is better.
FACE_FLOOR = 1e-4
FACE_ROUNDS = 5
ALTERNATIONS = 3
OVERSHOOT = 1.5
BISECTIONS = 40

Metric = Callable[[Array], Array]


def complete_duals(form: StandardForm, W: Array, U: Duals) -> Duals:
    """Add a subgradient at W for each term that a solver gave no dual for (those of the losses come last)."""
    missing = form.terms[len(U) :]
    return (*U, *(term.function.subgradient(term.map.apply(W)) for term in missing))


def span_residual(form: StandardForm, U: Duals) -> tuple[Array, Array, Array]:
    """Net duals moved into the conjugates' span, how far each was off, and the throughput it is measured by."""
    S = -form.adjoint(U)
    inside = form.quadratic.project_dual(S)
    throughput = np.linalg.norm(inside, axis=1)
    for term, dual in zip(form.terms, U, strict=True):
        size = np.linalg.norm(dual, axis=1)
        for end, norm in zip(term.map.ends, term.map.sizes(), strict=True):
            throughput += np.bincount(end, norm * size, form.n_nodes)
    # where next to nothing flows, what conjugate gradients leave is large against it: all duals are the measure then
    throughput = np.maximum(throughput, THROUGHPUT_FLOOR * _norm(U))
    return inside, np.asarray(np.linalg.norm(S - inside, axis=1)), throughput


def dual_value(form: StandardForm, U: Duals) -> float:
    """``-q^*(-sum_k K_k^T U_k) - sum_k g_k^*(U_k)``, ``-inf`` if U is infeasible."""
    inside, off, throughput = span_residual(form, U)
    if (off > SPAN_TOLERANCE * throughput).any():
        return -np.inf
    total = float(form.quadratic.conjugate(inside).sum())
    for term, dual in zip(form.terms, U, strict=True):
        total += float(term.function.conjugate(dual).sum())
    return -np.inf if np.isnan(total) else -total  # numbers beyond the range of doubles prove nothing


def zero_dual(form: StandardForm) -> DualPoint:
    """The dual zero, feasible whenever every function is bounded below."""
    U = form.zero_duals()
    return dual_value(form, U), U


def best_dual(form: StandardForm, U: Duals, known: DualPoint | None = None) -> tuple[DualPoint, int]:
    """Best of the repairs of U, of the zero dual and of a known one, and how many products with K they cost."""
    zero = zero_dual(form)
    best = zero if known is None else max(zero, known, key=_value)
    inside = _pull_in(form, U)
    # already as good as conjugate gradients would make it: then it is kept to the bit, and proves the same again
    if form.quadratic.full_span.all() or _residual_share(form, inside) <= 2.0 * CG_TOLERANCE:
        return max(best, (dual_value(form, inside), inside), key=_value), 1
    anchor = zero if np.isfinite(zero[0]) else best
    least_squares, cost = _satisfy_span(form, inside, _metrics(form))
    candidates = [least_squares]
    if not _in_domain(form, least_squares):
        face, used = _along_faces(form, inside)
        cost += used
        alternated = least_squares
        for _ in range(ALTERNATIONS):
            moved = tuple(
                dual + OVERSHOOT * (term.function.project_domain(dual) - dual)
                for term, dual in zip(form.terms, alternated, strict=True)
            )
            alternated, used = _satisfy_span(form, moved, _metrics(form))
            cost += used
        candidates += [face, alternated]
    for candidate in candidates:
        best = max(best, _best_between(form, anchor, candidate), key=_value)
    for candidate in candidates:
        best = _better_pulled_in(form, best, candidate)
    return best, cost


def _along_faces(form: StandardForm, inside: Duals) -> tuple[Duals, int]:
    """Satisfy the span by moves along the faces of the domains; data points' duals are pulled in and moved again.

    A dual of a data point at a corner of its interval cannot be scaled back from outside as the flow of an edge can.
    """
    face, cost = _satisfy_span(form, inside, _metrics(form, inside))
    for _ in range(FACE_ROUNDS if form.rows else 0):
        if _in_domain(form, face):
            break
        inside = _pull_in(form, face)
        face, used = _satisfy_span(form, inside, _metrics(form, inside))
        cost += used
    return face, cost


def _value(point: DualPoint) -> float:
    return point[0]


def _norm(U: Duals) -> float:
    return float(np.sqrt(sum(dot(dual, dual) for dual in U)))


def _better_pulled_in(form: StandardForm, best: DualPoint, U: Duals) -> DualPoint:
    """U pulled into its domains, if the linear conditions then hold to rounding and that proves clearly more.

    A row at the end of a half-line is pushed out by the least move, and no line from an anchor leads back.
    """
    if _in_domain(form, U):
        return best
    inside = _pull_in(form, U)
    value = dual_value(form, inside)
    # what it leaves of the linear conditions is charged as rounding, so a small gain is none
    return (value, inside) if value - best[0] > PULL_GAIN * abs(value) else best


def _residual_share(form: StandardForm, U: Duals) -> float:
    """Violation of the linear conditions over the norm of all duals."""
    off, norm = float(np.linalg.norm(span_residual(form, U)[1])), _norm(U)
    return off / norm if norm > 0 else (np.inf if off > 0 else 0.0)


def _pull_in(form: StandardForm, U: Duals) -> Duals:
    """Project every row into its domain, and a rounding error further where the projection ends outside."""
    out = []
    for term, dual in zip(form.terms, U, strict=True):
        inside = term.function.project_domain(dual)
        gauge = term.function.dual_gauge(inside)
        outside = (gauge > 1.0) & np.isfinite(gauge)
        if outside.any():
            inside = inside * np.where(outside, (1.0 - 4 * EPS) / np.where(outside, gauge, 1.0), 1.0)[:, None]
        out.append(inside)
    return tuple(out)


def _in_domain(form: StandardForm, U: Duals) -> bool:
    return _largest_gauge(form, U) <= 1.0


def _largest_gauge(form: StandardForm, U: Duals) -> float:
    gauges = (term.function.dual_gauge(dual).max(initial=0.0) for term, dual in zip(form.terms, U, strict=True))
    return float(max(gauges, default=0.0))


def _combine(a: Duals, b: Duals, theta: float) -> Duals:
    return tuple(x + theta * (y - x) for x, y in zip(a, b, strict=True))


def _best_between(form: StandardForm, anchor: DualPoint, U: Duals) -> DualPoint:
    """Best point on the line from a feasible anchor through U: both meet the linear conditions, so all of it does.

    The dual value is concave along it, and a parabola for quadratic losses, which three values determine.
    """
    origin, start = anchor
    if not np.isfinite(origin):
        return dual_value(form, U), U

    def value(theta: float) -> float:
        return dual_value(form, _combine(start, U, theta))

    most = _furthest(form, start, U)
    full = min(most, 1.0)
    end, middle = value(full), value(0.5 * full)
    best = max((end, full), (middle, 0.5 * full), (origin, 0.0))
    if np.isfinite(middle + end):
        curvature = origin - 2.0 * middle + end
        if curvature < 0:
            vertex = 0.5 * full * (1.0 - (end - origin) / (2.0 * curvature))
            theta = min(max(vertex, 0.0), most)
            best = max(best, (value(theta), theta))
    return best[0], _combine(start, U, best[1])


def _furthest(form: StandardForm, start: Duals, U: Duals) -> float:
    """Largest multiple of the step from ``start`` to U that stays in the domains."""
    if not any(dual.any() for dual in start):
        gauge = _largest_gauge(form, U)
        return float("inf") if gauge == 0 else (1.0 - 4 * EPS) / gauge
    low, high = 0.0, 1.0
    if _in_domain(form, U):
        return 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _in_domain(form, _combine(start, U, middle)) else (low, middle)
    return low


def _metrics(form: StandardForm, U: Duals | None = None) -> list[Metric]:
    """How freely each row may move: by the size of its map, and if U is given hardly out of its domain."""
    metrics = []
    for k, term in enumerate(form.terms):
        size = np.max(term.map.sizes(), axis=0)
        scale = (1.0 / np.where(size > 0, size, 1.0) ** 2)[:, None]
        inner = None if U is None else term.function.dual_metric(U[k], FACE_FLOOR)
        metrics.append(_scaled(scale, inner))
    return metrics


def _scaled(scale: Array, inner: Metric | None) -> Metric:
    return (lambda Z: scale * Z) if inner is None else (lambda Z: scale * inner(Z))


def _satisfy_span(form: StandardForm, U: Duals, metrics: list[Metric]) -> tuple[Duals, int]:
    """Least change of U, in the metrics' inverse, after which every net dual lies in its span.

    ``U_k - M_k K_k v`` with v from conjugate gradients on ``N sum_k K_k^T M_k K_k N v = N (sum_k K_k^T U_k + c)``, N
    the projections onto the complements of the spans and c the losses' linear terms.
    """
    quadratic = form.quadratic

    def moves(V: Array) -> Duals:
        return tuple(metric(term.map.apply(V)) for term, metric in zip(form.terms, metrics, strict=True))

    target = CG_TOLERANCE * _norm(U)
    weights = np.zeros(form.n_nodes)  # Jacobi; a scalar per device keeps to the complement
    for term, metric in zip(form.terms, metrics, strict=True):
        weights += term.map.at_nodes(metric(np.ones((term.map.n_rows, term.map.width))).mean(axis=1))
    scale = np.where(weights > 0, weights, 1.0)[:, None]
    v = np.zeros((form.n_nodes, form.dim))
    S = -form.adjoint(U)
    residual = quadratic.project_dual(S) - S
    scaled = residual / scale
    direction = scaled
    product = dot(residual, scaled)
    products = 1
    while products <= CG_LIMIT and dot(residual, residual) > target**2:
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
        products += 1
    return tuple(dual - move for dual, move in zip(U, moves(v), strict=True)), products
