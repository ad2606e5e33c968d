"""From raw dual variables to ones that the dual accepts, and the bound that they prove.

Duals U (one array per term) are feasible if each row lies in the domain of its function's conjugate, and if
``s_i = -(sum_k K_k^T U_k)_i`` lies in that of the quadratic part's, for every device: a device with fewer independent
least-squares rows than parameters, or none, puts linear conditions on it.  Solvers meet them in the limit only.  Any
repaired U gives a valid bound.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gtvmin.linear_conditions import SPAN_TOLERANCE, Net, needs_move, row_metrics, satisfy_span, span_residual
from gtvmin.once import once_a_form
from gtvmin.solvers.standard_form import Array, Duals, StandardForm

__all__ = ["DualPoint", "best_dual", "complete_duals", "dual_value", "split_among_rows", "zero_dual"]

DualPoint = tuple[float, Duals]
"""A dual value and the duals that reach it."""

EPS = float(np.finfo(float).eps)
# Duals that meet the linear conditions to that share only must raise the bound by more than this share of it.
PULL_GAIN = 10.0 * SPAN_TOLERANCE
FACE_ROUNDS = 5
# Of the repairs, all but the one along faces, which may take thousands of products.
CHEAP_REPAIRS = 2
ALTERNATIONS = 3
# Numbers below this share of the largest of their term are tried as zeros.
NOISE = 1e-7
OVERSHOOT = 1.5
BISECTIONS = 40


def complete_duals(form: StandardForm, W: Array, U: Duals) -> Duals:
    """Add a subgradient at W for each term that a solver gave no dual for (those of the losses come last)."""
    missing = form.terms[len(U) :]
    return (*U, *(term.function.subgradient(term.map.apply(W)) for term in missing))


def split_among_rows(form: StandardForm, U: Duals) -> Duals | None:
    """Add to the couplings' duals the best ones that each device can give its rows; None if not called for.

    At a kink one subgradient is as good as another for a row, but not for the sum over a device's rows.
    """
    kinks = any("gradient" not in term.function.capabilities for term in form.rows)
    if not kinks or len(U) != len(form.couplings):
        return None
    net = np.zeros((form.n_nodes, form.dim))
    for term, dual in zip(form.couplings, U, strict=True):
        net -= term.map.adjoint(dual)
    rows = form.local.split(net)
    return None if rows is None else (*U, *rows)


def dual_value(form: StandardForm, U: Duals, net: Net | None = None) -> float:
    """``-q^*(-sum_k K_k^T U_k) - sum_k g_k^*(U_k)``, ``-inf`` if U is infeasible; ``net`` is the span_residual of U."""
    inside, off, throughput = span_residual(form, U) if net is None else net
    if (off > SPAN_TOLERANCE * throughput).any():
        return -np.inf
    total = float(form.quadratic.span_conjugate(inside).sum())
    for term, dual in zip(form.terms, U, strict=True):
        total += float(term.function.conjugate(dual).sum())
    return -np.inf if np.isnan(total) else -total  # numbers beyond the range of doubles prove nothing


@once_a_form
def zero_dual(form: StandardForm) -> DualPoint:
    """The dual zero, feasible whenever every function is bounded below."""
    U = form.zero_duals()
    for dual in U:
        dual.flags.writeable = False
    return dual_value(form, U), U


def best_dual(
    form: StandardForm, U: Duals, known: DualPoint | None = None, enough: float = np.inf, near: float = np.inf
) -> tuple[DualPoint, int]:
    """Best of the repairs of U, of the zero dual and of a known one, and how many products with K they cost.

    The cheapest repairs come first, and no more are tried once one proves ``enough``, nor the dearest once one is
    ``near`` to that.
    """
    zero = zero_dual(form)
    best = zero if known is None else max(zero, known, key=_value)
    inside = _pull_in(form, U)
    # already as good as conjugate gradients would make it: then it is kept to the bit, and proves the same again
    net = span_residual(form, inside)
    if not needs_move(net).any():
        return max(best, (dual_value(form, inside, net), inside), key=_value), 1
    anchor = zero if np.isfinite(zero[0]) else best
    start, cost = best, 0
    candidates: list[Duals] = []
    for candidate, used in _repairs(form, inside):
        cost += used
        candidates.append(candidate)
        best = max(best, _best_between(form, anchor, candidate), key=_value)
        if best[0] >= enough:
            return best, cost
        if best[0] >= near and len(candidates) == CHEAP_REPAIRS:
            break
    for candidate in candidates:
        best = _better_pulled_in(form, best, candidate)
    if best is start:
        snapped, used = _with_zeros(form, inside)
        best, cost = max(best, _best_between(form, anchor, snapped), key=_value), cost + used
    return best, cost


def _repairs(form: StandardForm, inside: Duals) -> Iterator[tuple[Duals, int]]:
    """Duals that meet the linear conditions and hardly leave their domains, and the products that each cost."""
    least_squares, cost = satisfy_span(form, inside, row_metrics(form))
    yield least_squares, cost
    if _in_domain(form, least_squares):
        return
    alternated, cost = least_squares, 0
    for _ in range(ALTERNATIONS):
        moved = tuple(
            dual + OVERSHOOT * (term.function.project_domain(dual) - dual)
            for term, dual in zip(form.terms, alternated, strict=True)
        )
        alternated, used = satisfy_span(form, moved, row_metrics(form))
        cost += used
    yield alternated, cost
    yield _along_faces(form, inside)


def _with_zeros(form: StandardForm, U: Duals) -> tuple[Duals, int]:
    """Satisfy the span with the numbers that are next to zero set to zero and kept there.

    Where zero is the end of a half-line, noise outside it can be larger than all that flows through a device.
    """
    sizes = [np.abs(dual) for dual in U]
    kept = [size > NOISE * size.max(initial=0.0) for size in sizes]
    some = tuple(np.where(keep, dual, 0.0) for keep, dual in zip(kept, U, strict=True))
    return satisfy_span(form, some, row_metrics(form, free=tuple(keep.astype(float) for keep in kept)))


def _along_faces(form: StandardForm, inside: Duals) -> tuple[Duals, int]:
    """Satisfy the span by moves along the faces of the domains; data points' duals are pulled in and moved again.

    A dual of a data point at a corner of its interval cannot be scaled back from outside as the flow of an edge can.
    """
    face, cost = satisfy_span(form, inside, row_metrics(form, inside))
    for _ in range(FACE_ROUNDS):
        if _in_domain(form, face):
            break
        inside = _pull_in(form, face)
        face, used = satisfy_span(form, inside, row_metrics(form, inside))
        cost += used
    return face, cost


def _value(point: DualPoint) -> float:
    return point[0]


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
