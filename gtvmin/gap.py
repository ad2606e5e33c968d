"""The duality gap as a sum of Fenchel-Young terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtvmin.domain import Domain
from gtvmin.dual_repair import dual_value
from gtvmin.linear_conditions import Net, span_residual
from gtvmin.once import once_a_form
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array, BlockFunction, Duals, StandardForm, Term

__all__ = [
    "GapTerms",
    "gap_rounding",
    "gap_terms",
    "lower_bound",
    "objective_floor",
    "objective_rounding",
    "relative_gap",
]

EPS = float(np.finfo(float).eps)
# The gap is relative to the objective, but to no less than this share of the objective of the zero model: where a
# perfect fit has objective 0, no gap would be small against it.
ZERO_MODEL_SHARE = 1e-10
COUPLING_SHARE, COUPLING_CAP = 1e-9, 1e-5
# How far along a dual a row is moved to find where it is a gradient.
FAR = 1e12
BEYOND = 1e150
# Duals this much to either side, relative to the largest, tell where a function is flat.
NEXT_TO = 1e-6


@dataclass(frozen=True, slots=True)
class GapTerms:
    """Fenchel-Young terms of a primal and a dual point, each at least zero.

    Attributes
    ----------
    per_node : array (n_nodes,)
        Of the devices' quadratic parts.
    per_row : tuple of arrays
        Of the rows of each term of the form.
    infeasibility : float
        Largest violation of a device's linear conditions, relative to the throughput.
    """

    per_node: Array
    per_row: tuple[Array, ...]
    infeasibility: float

    @property
    def total(self) -> float:
        """Sum of all terms."""
        return float(self.per_node.sum() + sum(float(rows.sum()) for rows in self.per_row))


def gap_terms(form: StandardForm, W: Array, U: Duals, net: Net | None = None) -> GapTerms:
    """Terms of the gap between the objective at W and the bound of feasible duals U; ``net`` is its span_residual."""
    net = span_residual(form, U) if net is None else net
    inside, off, throughput = net
    per_node = form.quadratic.span_fenchel_young(W, inside)
    per_row = tuple(
        term.function.fenchel_young(term.evaluate(W)[0], dual) for term, dual in zip(form.terms, U, strict=True)
    )
    if off.any() and not np.isfinite(dual_value(form, U, net)):
        per_node = np.where(off > 0, np.inf, per_node)
    # an overflow is no bound
    per_node, *per_rows = (np.where(np.isnan(part), np.inf, part) for part in (per_node, *per_row))
    share = float((off / np.where(throughput > 0, throughput, 1.0)).max(initial=0.0))
    return GapTerms(per_node, tuple(per_rows), share)


def gap_rounding(form: StandardForm, W: Array, U: Duals, net: Net | None = None) -> float:
    """Estimate of the floating-point error in the sum of the gap's terms; ``net`` is the span_residual of U."""
    inside, off, throughput = span_residual(form, U) if net is None else net
    rounding = float(form.quadratic.rounding(W, inside).sum())
    # the net duals are sums, whose parts may be much larger
    rounding += float(form.quadratic.sensitivity(W, inside, _sum_rounding(form, U)).sum())
    size = 0.0
    for term, dual in zip(form.terms, U, strict=True):
        rows, error = term.evaluate(W)
        # a row that was moved into its function's domain: the terms add up to P(W) - Dual(U) plus <dual, move>
        shift = np.linalg.norm(dual, axis=1) * error
        rounding += float((term.function.rounding(rows, dual) + shift).sum())
        rounding += float(_product_rounding(term, W, rows, dual).sum())
        size += float(np.abs(term.function.conjugate(dual)).sum())
    # what is left of the linear conditions shifts the bound by <off_i, w_i* - w_i>; how large w_i* is the duals tell
    uncertain = np.maximum(off, EPS * throughput) + form.quadratic.linear_rounding(inside)
    left = float(uncertain[~form.quadratic.full_span].sum())
    share = float((off / np.where(throughput > 0, throughput, 1.0)).max(initial=0.0))
    total = rounding + share * size + (left * _reach(form, W, U, inside) if left > 0 else 0.0)
    return np.inf if np.isnan(total) else float(total)  # numbers beyond the range of doubles


def _reach(form: StandardForm, W: Array, U: Duals, inside: Array) -> float:
    """Largest length of W, and of parameters at which duals are gradients of the functions that they belong to.

    A dual at the end of an interval is one on a half-line, and zero may be one of all of a box: duals next to it tell
    where these begin, and the domain of the function where they end.
    """
    lengths = [np.linalg.norm(part, axis=1) for part in (W, form.quadratic.conjugate_gradient(inside))]
    for term, dual in zip(form.terms, U, strict=True):
        function, size = term.function, term.map.sizes()[0]
        shift = NEXT_TO * (float(np.abs(dual).max(initial=0.0)) or 1.0)
        ends = [_gradient_rows(function, function.project_domain(dual + far)) for far in (-shift, 0.0, shift)]
        if function.restricted:
            ends += [_last_rows(function, dual.shape, far) for far in (-BEYOND, BEYOND)]
        for rows in ends:
            length = np.linalg.norm(rows, axis=1)
            bounded = (size > 0) & (length < BEYOND)
            lengths.append(length[bounded] / size[bounded])
    return float(np.concatenate(lengths).max(initial=0.0))


def _last_rows(function: BlockFunction, shape: tuple[int, ...], far: float) -> Array:
    """Where the domain of a function ends on the way to far away."""
    beyond = np.full(shape, far)
    try:
        return function.project_primal(beyond)
    except ValueError:  # numbers that a cone program cannot take
        return beyond


def _gradient_rows(function: BlockFunction, dual: Array) -> Array:
    """Rows at which the function has the dual as a gradient, as the limit of proximal points for large steps."""
    strength = np.linalg.norm(dual, axis=1)
    step = FAR / np.where(strength > 0, strength, 1.0)
    return function.prox(step[:, None] * dual, step)


def _sum_rounding(form: StandardForm, U: Duals) -> Array:
    """Rounding of the net duals as sums of those of all rows, shape (n_nodes, dim)."""
    size, count = np.zeros((form.n_nodes, form.dim)), np.zeros(form.n_nodes)
    for term, dual in zip(form.terms, U, strict=True):
        size += term.map.absolute_adjoint(np.abs(dual))
        for end in term.map.ends:
            count += np.bincount(end, minlength=form.n_nodes)
    return np.asarray(EPS * np.sqrt(4.0 + count)[:, None] * size)


def _product_rounding(term: Term, W: Array, rows: Array, dual: Array) -> Array:
    """Effect of the rounding of ``K W`` on a term's Fenchel-Young terms, which are convex in ``K W``."""
    error = term.map.rounding(W)[:, None]
    if not error.any():
        return np.zeros(len(rows))
    if rows.shape[1] > 1:
        return np.asarray(error[:, 0] * np.linalg.norm(term.function.subgradient(rows) - dual, axis=1))
    ends = (term.function.fenchel_young(rows + step, dual) for step in (error, -error))
    with np.errstate(invalid="ignore"):
        rise = np.maximum(*ends) - term.function.fenchel_young(rows, dual)
    return np.where(np.isfinite(rise), np.maximum(rise, 0.0), 0.0)


def objective_rounding(form: StandardForm, W: Array) -> float:
    """Estimate of the floating-point error in the objective."""
    total = float(form.quadratic.value_rounding(W).sum())
    for term in form.terms:
        rows, _ = term.evaluate(W)
        value = term.function.value(rows)
        total += 4.0 * (form.dim + 4) * EPS * float(np.abs(value).sum())
        if rows.shape[1] == 1:
            error = term.map.rounding(W)[:, None] + 4.0 * EPS * np.abs(rows)
            with np.errstate(invalid="ignore"):
                changes = [np.abs(term.function.value(rows + step) - value) for step in (error, -error)]
            total += float(sum(np.where(np.isfinite(change), change, 0.0).sum() for change in changes))
    return total


def lower_bound(form: StandardForm, W: Array, U: Duals) -> float:
    """What duals prove about the minimum where W is outside the domain: the best of bounds from points inside."""
    domain, best = Domain(form), -np.inf
    for point in (domain.project(W), domain.project(np.zeros_like(W))):
        gap = gap_terms(form, point, U).total + gap_rounding(form, point, U)
        bound = form.objective(point) - gap - objective_rounding(form, point)
        best = max(best, bound) if np.isfinite(bound) else best
    return float(best)


@once_a_form
def _zero_model(form: StandardForm) -> float:
    """Absolute objective of the zero model."""
    return abs(form.objective(Domain(form).project(np.zeros((form.n_nodes, form.dim)))))


def objective_floor(form: StandardForm, W: Array | None = None, size: float = 0.0) -> float:
    """Least size that a gap is compared with: a share of the zero model's objective.

    Given parameters, also a share of the penalties at ``|w_head| + |w_tail|``: where neighbours agree, the last bit of
    their parameters changes the objective by about that times the machine precision.  That share is capped by one of
    the zero model's objective, so that parameters which run away do not make any gap look small.  For an objective of
    at least that ``size`` it does not matter, and is left out.
    """
    zero_model = _zero_model(form)
    if not np.isfinite(zero_model):
        return 0.0
    floor = ZERO_MODEL_SHARE * zero_model
    if W is None or size >= COUPLING_CAP * zero_model:
        return floor
    penalties = 0.0
    for term in form.couplings:
        if isinstance(term.map, EdgeDifference) and not term.function.restricted:
            tail, head = (np.abs(W[end]) for end in term.map.ends)
            penalties += float(term.function.value(tail + head).sum())
    return max(floor, min(COUPLING_SHARE * penalties, COUPLING_CAP * zero_model))


def relative_gap(gap: float, primal: float, floor: float) -> float:
    """The gap over the largest of the objective, the bound and the floor; ``inf`` for an infinite gap."""
    if gap == np.inf:
        return np.inf
    size = max(abs(primal), abs(primal - gap), floor)
    if size == 0:
        return 0.0 if gap == 0 else np.inf
    return gap / size
