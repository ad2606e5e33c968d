"""Parameters at which every loss and every penalty is finite, and the way back to them.

A solver meets the constraints of indicators in the limit only.  Before its parameters are judged, each device's are
moved to the nearest point that obeys its own: a box in closed form, a box with one more row (a simplex, say) as a
continuous knapsack, other polyhedra as a small least-distance problem.  Parameters in consensus take their mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from gtvmin.agreement import Agreement
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.solvers.linear_maps import NodeRows, NodeSelection
from gtvmin.solvers.standard_form import Array, StandardForm, Term

__all__ = ["Domain", "domain_violation"]

# Rounds of projections in turn, where a device has several kinds of constraints, and of corrections of the last digits.
ROUNDS = 100
CORRECTIONS = 3


@dataclass(frozen=True)
class Polyhedra:
    """``{w_i : low_i <= w_i <= high_i, lower_r <= x_r^T w_i <= upper_r}`` for every device i and its rows r.

    Attributes
    ----------
    low, high : arrays (n_nodes, dim)
        Boxes, possibly infinite.
    owner, X, lower, upper : arrays (R,), (R, dim), (R,), (R,)
        Rows that involve several coordinates, each device's together.
    """

    low: Array
    high: Array
    owner: NDArray[np.int64]
    X: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, terms: list[tuple[NodeRows, IntervalBlocks]], n_nodes: int, dim: int) -> Polyhedra:
        """Gather the rows with limits."""
        owner = np.concatenate([map.owner for map, _ in terms])
        X = np.concatenate([map.X for map, _ in terms])
        lower, upper = (np.concatenate([function.limits[k][:, 0] for _, function in terms]) for k in (0, 1))
        limited = np.isfinite(lower) | np.isfinite(upper)
        single = np.count_nonzero(X, axis=1) == 1
        low, high = np.full((n_nodes, dim), -np.inf), np.full((n_nodes, dim), np.inf)
        rows = np.flatnonzero(limited & single)
        column = np.abs(X[rows]).argmax(axis=1)
        entry = X[rows, column]
        ends = lower[rows] / entry, upper[rows] / entry
        np.maximum.at(low, (owner[rows], column), np.minimum(*ends))
        np.minimum.at(high, (owner[rows], column), np.maximum(*ends))
        rows = np.flatnonzero(limited & ~single)
        rows = rows[np.argsort(owner[rows], kind="stable")]
        return cls(low, high, owner[rows], X[rows], lower[rows], upper[rows])

    def project(self, W: Array) -> Array:
        """Nearest parameters inside; devices that are inside stay as they are."""
        out = np.clip(W, self.low, self.high)
        if not len(self.owner):
            return out
        own = out[self.owner]
        values, sizes = np.einsum("rj,rj->r", self.X, own), np.einsum("rj,rj->r", np.abs(self.X), np.abs(own))
        outside = np.maximum(self.lower - values, values - self.upper) > _units(self.X) * sizes
        counts = np.bincount(self.owner, minlength=len(W))
        alone = outside & (counts[self.owner] == 1)
        if alone.any():
            device = self.owner[alone]
            out[device] = _project_with_row(
                W[device], self.low[device], self.high[device], self.X[alone], self.lower[alone], self.upper[alone]
            )
        for device in np.unique(self.owner[outside & ~alone]):
            rows = slice(*np.searchsorted(self.owner, [device, device + 1]))
            out[device] = _project_with_rows(
                W[device], self.low[device], self.high[device], self.X[rows], self.lower[rows], self.upper[rows]
            )
        return out


def _units(X: Array) -> Array:
    """Rounding of ``x_r^T w`` and of the last digits of w, in units of ``|x_r|^T |w|``."""
    return np.asarray(np.finfo(float).eps * (np.count_nonzero(X, axis=1) + 2.0))


def _project_with_row(V: Array, low: Array, high: Array, A: Array, lower: Array, upper: Array) -> Array:
    """Projection of every row onto a box and ``lower <= a^T w <= upper``, which its projection onto the box violates.

    ``w(mu) = clip(v + mu a, low, high)`` with the mu at which ``a^T w`` arrives at the bound; ``a^T w`` is piecewise
    linear and increasing in mu, and the right piece is found by bisection over its breakpoints (P. Brucker, "An O(n)
    algorithm for quadratic knapsack problems" (1984), DOI 10.1016/0167-6377(84)90010-5).
    """

    def at(mu: Array) -> Array:
        return np.clip(V + mu[:, None] * A, low, high)

    def value(W: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", A, W))

    goal = np.clip(value(np.clip(V, low, high)), lower, upper)
    used = A != 0
    steps = np.where(used, A, 1.0)
    points = np.concatenate([np.where(used, (end - V) / steps, 0.0) for end in (low, high)], axis=1)
    points = np.sort(np.where(np.isfinite(points), points, 0.0), axis=1)
    row = np.arange(len(V))
    first, last = np.full(len(V), -1), np.full(len(V), points.shape[1])  # the goal lies between these two
    while (last - first > 1).any():
        middle = np.clip((first + last) // 2, 0, points.shape[1] - 1)
        below = value(at(points[row, middle])) < goal
        narrow = last - first > 1
        first, last = np.where(narrow & below, middle, first), np.where(narrow & ~below, middle, last)
    start = points[row, np.maximum(first, 0)]
    end = points[row, np.minimum(last, points.shape[1] - 1)]
    # beyond the outermost breakpoints, only coordinates without bounds move
    inner = np.where(first < 0, end - 1.0, np.where(last == points.shape[1], start + 1.0, 0.5 * (start + end)))
    probe = V + inner[:, None] * A
    free = used & (probe > low) & (probe < high)
    slope = np.einsum("ij,ij->i", A * free, A)
    slope = np.where(slope > 0, slope, 1.0)
    fixed = np.where(free, V, np.clip(probe, low, high))
    mu = (goal - value(fixed)) / slope
    out = np.clip(np.where(free, V + mu[:, None] * A, fixed), low, high)
    for _ in range(CORRECTIONS):
        out = np.clip(out + ((goal - value(out)) / slope)[:, None] * A * free, low, high)
    return out


def _project_with_rows(v: Array, low: Array, high: Array, A: Array, lower: Array, upper: Array) -> Array:
    """Projection of one device's parameters onto a box and several rows, if there is such a point."""
    identity = np.eye(len(v))
    G, h = np.concatenate([A, -A, identity, -identity]), np.concatenate([lower, -upper, low, -high])
    G, h = G[np.isfinite(h)], h[np.isfinite(h)]
    equations = len(h) == 2 * len(A) and (lower == upper).all()
    units, w = _units(G), v
    for _ in range(CORRECTIONS):
        missing = h - G @ w
        if (missing <= units * (np.abs(G) @ np.abs(w))).all():
            break
        w = w + (np.linalg.lstsq(A, lower - A @ w)[0] if equations else _least_move(G, missing))
    return np.asarray(np.clip(w, low, high))


def _least_move(G: Array, h: Array) -> Array:
    """Shortest z with ``G z >= h``.

    Non-negative least squares finds the rows that hold with equality (C. L. Lawson, R. J. Hanson, "Solving Least
    Squares Problems" (1974), chapter 23, problem LDP), in units of the largest violation; they give z.
    """
    system = np.vstack([G.T, h / h.max()])
    goal = np.append(np.zeros(G.shape[1]), 1.0)
    sizes = np.linalg.norm(system, axis=0)
    try:
        multipliers = nnls(system / np.where(sizes > 0, sizes, 1.0), goal)[0]  # a row of zeros asks for nothing
    except (RuntimeError, ValueError):  # too many iterations, or numbers beyond the range of doubles
        return np.zeros(G.shape[1])
    active = multipliers > 0
    return np.asarray(np.linalg.lstsq(G[active], h[active])[0])


class Domain:
    """Where all losses and penalties of a form are finite.

    Parameters
    ----------
    form : StandardForm
        The problem's arrays; of its rows those whose functions are infinite somewhere matter.
    """

    def __init__(self, form: StandardForm) -> None:
        limited = [term for term in form.rows if term.function.restricted and term.map.n_rows]
        rows = [
            (term.map, term.function)
            for term in limited
            if isinstance(term.map, NodeRows) and isinstance(term.function, IntervalBlocks)
        ]
        self._polyhedra = Polyhedra.of(rows, form.n_nodes, form.dim) if rows else None
        self._sets = [term for term in limited if isinstance(term.map, NodeSelection)]
        self._agreement = Agreement.of(form)

    def project(self, W: Array) -> Array:
        """Move each device's parameters to the nearest point of its domain, or near it if that has several parts.

        Where no such point is found the parameters stay outside, and the objective infinite.
        """
        if self._polyhedra is None and not self._sets:
            return W if self._agreement is None else self._agreement.project(W)
        for _ in range(ROUNDS):
            before = W
            if self._agreement is not None:
                W = self._agreement.project(W)
            for term in self._sets:
                W = _project_selected(term, W)
            if self._polyhedra is not None:
                W = self._polyhedra.project(W)
            if (not self._sets and self._agreement is None) or np.array_equal(before, W):
                break
        return W


def _project_selected(term: Term, W: Array) -> Array:
    """Project the whole parameter vectors that a function reads."""
    out, owner = W.copy(), term.map.ends[0]
    out[owner, : term.map.width] = term.function.project_primal(term.map.apply(W))
    return out


def domain_violation(form: StandardForm, W: Array) -> Array:
    """Distance of each device's rows from the domains of their functions (n_nodes,), zero if it is mere rounding."""
    worst = np.zeros(form.n_nodes)
    for term in form.terms:
        if term.function.restricted:
            rows, _ = term.evaluate(W)
            distance = np.linalg.norm(rows - term.function.project_primal(rows), axis=1)
            for end in term.map.ends:
                np.maximum.at(worst, end, distance)
    return worst
