"""Piecewise linear-quadratic functions of one number, by their conjugates.

``phi(t) = sup { p t - c(p) : low <= p <= high }`` with ``c(p) = curvature p^2 / 2 + right p`` for p >= 0 and
``curvature p^2 / 2 + left p`` for p <= 0, where ``low <= 0 <= high`` and ``left <= right``.  So phi is zero on
``[left, right]``, grows quadratically outside and from slopes ``low`` and ``high`` on linearly.  Absolute values,
hinges, Huber functions, quantile losses and interval constraints are all of this kind (extended linear-quadratic:
R. T. Rockafellar, R. J.-B. Wets, "Variational Analysis" (1998), Example 11.18).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["IntervalBlocks", "interval_arrays"]

EPS = float(np.finfo(float).eps)


def interval_arrays(
    rows: int,
    *,
    low: Array | float,
    high: Array | float,
    target: Array | float | tuple[Array | float, Array | float] = 0.0,
    curvature: Array | float = 0.0,
    coefficient: Array | float = 1.0,
) -> dict[str, Array]:
    """Parameters of ``coefficient * phi`` for some rows; a pair of targets is (left, right).

    An infinite target means that phi is zero on that side, and is stated by a slope of zero instead.
    """
    left, right = target if isinstance(target, tuple) else (target, target)
    parts = {
        "low": coefficient * np.asarray(low, dtype=float),
        "high": coefficient * np.asarray(high, dtype=float),
        "left": left,
        "right": right,
        "curvature": np.asarray(curvature, dtype=float) / coefficient,
    }
    full = {name: np.full(rows, part, dtype=float) for name, part in parts.items()}
    open_left, open_right = np.isinf(full["left"]), np.isinf(full["right"])
    full["low"][open_left], full["high"][open_right] = 0.0, 0.0
    full["left"][open_left] = np.where(open_right, 0.0, full["right"])[open_left]
    full["right"][open_right] = full["left"][open_right]
    return full


class IntervalBlocks(BlockFunction):
    """``phi_r`` for every row; width one.

    Parameters
    ----------
    low, high : arrays (n_rows,)
        Domain of the conjugate, ``low <= 0 <= high``; may be infinite.
    left, right : arrays (n_rows,)
        Where phi is zero; finite.
    curvature : array (n_rows,)
        Of the conjugate; ``1 / curvature`` is phi's own.  Where it is zero and a slope infinite, phi is infinite on
        that side.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})

    def __init__(self, low: Array, high: Array, left: Array, right: Array, curvature: Array) -> None:
        self.n_rows, self.dim = len(low), 1
        self.low, self.high, self.left, self.right = (part[:, None] for part in (low, high, left, right))
        self.curvature = curvature[:, None]
        wall = curvature == 0
        self.limits = (
            np.where(wall & np.isinf(low), left, -np.inf)[:, None],
            np.where(wall & np.isinf(high), right, np.inf)[:, None],
        )
        self.restricted = bool((wall & (np.isinf(low) | np.isinf(high))).any())
        if (curvature > 0).all():
            self.capabilities = self.capabilities | {"gradient", "second_derivative"}  # type: ignore[misc]

    @property
    def smoothness(self) -> Array:
        """``1 / curvature``."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.curvature[:, 0])

    def project_primal(self, W: Array) -> Array:
        """Clip to the interval on which phi is finite."""
        return np.clip(W, *self.limits) if self.restricted else W

    def _overshoot(self, T: Array) -> Array:
        """Signed distance from ``[left, right]``."""
        return np.asarray(np.where(self.right < T, T - self.right, np.where(self.left > T, T - self.left, 0.0)))

    def _slope(self, overshoot: Array) -> Array:
        """``clip(overshoot / curvature, low, high)``, infinite where phi is."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            slope = np.where(overshoot == 0.0, 0.0, overshoot / self.curvature)
        return np.clip(slope, self.low, self.high)

    def subgradient(self, W: Array) -> Array:
        """``clip(overshoot / curvature, low, high)``, zero on ``[left, right]`` and where phi is infinite."""
        return self._slope(self._overshoot(self.project_primal(W)))

    def gradient(self, W: Array) -> Array:
        """The subgradient, where every curvature is positive."""
        return self.subgradient(W)

    def second_derivative(self, W: Array) -> Array:
        """``1 / curvature`` where phi is quadratic, zero elsewhere."""
        slope = self._overshoot(W) / self.curvature
        return np.where((slope != 0) & (self.low < slope) & (slope < self.high), 1.0 / self.curvature, 0.0)

    def majorant(self, W: Array) -> Array:
        """Slope over overshoot, the weight of reweighted least squares: the parabola is above phi everywhere."""
        overshoot = self._overshoot(W)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(overshoot == 0, 1.0 / self.curvature, self._slope(overshoot) / overshoot)

    def value(self, W: Array) -> Array:
        """``p (d - curvature p / 2)`` with the overshoot d and the slope p there."""
        d = self._overshoot(W)
        p = self._slope(d)
        with np.errstate(over="ignore"):
            return np.asarray((p * (d - 0.5 * self.curvature * np.where(np.isfinite(p), p, 0.0)))[:, 0])

    def conjugate(self, S: Array) -> Array:
        """``c(p)``, ``inf`` outside ``[low, high]``."""
        with np.errstate(over="ignore"):
            cost = np.where(S > 0, self.right, self.left) * S + 0.5 * (self.curvature * S) * S
        return np.asarray(np.where(self._holds(S), cost, np.inf)[:, 0])

    def _holds(self, S: Array) -> Any:
        return (self.low <= S) & (self.high >= S)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """Sum of products that are at least zero each: nothing cancels.

        With the slope q of phi at t, and ``d - curvature q`` what t overshoots beyond the point where phi becomes
        linear: ``(q - p) (d - curvature q) + curvature (q - p)^2 / 2`` for a dual p that pulls towards t's side, and
        ``phi(t) + curvature p^2 / 2 + p (target - t)`` for any other.
        """
        d = self._overshoot(W)
        slope = self._slope(d)
        q = np.where(np.isfinite(slope), slope, 0.0)
        linear = np.where((q == self.low) | (q == self.high), d - self.curvature * q, 0.0)
        with np.errstate(over="ignore"):
            agree = np.maximum((q - S) * linear, 0.0) + 0.5 * self.curvature * (q - S) ** 2
            target = np.where(S > 0, self.right, self.left)
            oppose = self.value(W)[:, None] + 0.5 * (self.curvature * S) * S + S * (target - W)
        agrees = (S == 0) | ((S > 0) & (self.right <= W)) | ((S < 0) & (self.left >= W))
        terms = np.where(agrees, agree, oppose)
        return np.asarray(np.where(self._holds(S) & np.isfinite(slope), terms, np.inf)[:, 0])

    def rounding(self, W: Array, S: Array) -> Array:
        """Effect of a few units in the last place of t and of the target, which may lie on a kink, and of the sum."""
        right, left = (S > 0) | (self.right < W), (S < 0) | (self.left > W)
        targets = np.maximum(np.where(right, np.abs(self.right), 0.0), np.where(left, np.abs(self.left), 0.0))
        shift = 4.0 * EPS * (np.abs(W) + targets)
        slope = self.subgradient(W)
        at_kink = np.minimum(np.abs(W - self.left), np.abs(W - self.right)) <= shift
        jump = np.where(np.isfinite(self.high), self.high, 0.0) - np.where(np.isfinite(self.low), self.low, 0.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            jump = np.minimum(jump, np.where(self.curvature > 0, shift / self.curvature, np.inf))
            terms = self.fenchel_young(W, S)[:, None]
            total = shift * (np.abs(slope - S) + np.where(at_kink, jump, 0.0))
            return np.asarray((total + 8.0 * EPS * np.where(np.isfinite(terms), terms, 0.0))[:, 0])

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Back towards ``[left, right]``: by a share of the overshoot, at most by ``step`` times the largest slope."""
        scale = step[:, None]
        with np.errstate(over="ignore"):
            share = self.curvature / (self.curvature + scale)
            most, least = scale * self.high, scale * self.low

        def prox(V: Array) -> Array:
            d = self._overshoot(V)
            kept = np.where(d > 0, np.maximum(share * d, d - most), np.minimum(share * d, d - least))
            return np.clip(V, self.left, self.right) + np.where(d == 0, 0.0, kept)

        return prox

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Shift by the targets, shrink by the curvature, clip to the interval."""
        sigma = step[:, None]
        shrink = 1.0 / (1.0 + sigma * self.curvature)
        up, down = sigma * self.right, sigma * self.left

        def prox(V: Array) -> Array:
            moved = np.maximum(V - up, 0.0) + np.minimum(V - down, 0.0)
            return np.clip(moved * shrink, self.low, self.high)

        return prox

    def project_domain(self, S: Array) -> Array:
        """Clip to ``[low, high]``."""
        return np.clip(S, self.low, self.high)

    def dual_gauge(self, S: Array) -> Array:
        """``max(p / high, p / low)``."""
        with np.errstate(divide="ignore", over="ignore"):
            gauge = S / np.where(S > 0, self.high, np.where(S < 0, self.low, 1.0))
        return np.asarray(np.abs(gauge)[:, 0])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Room left to the nearer end of the interval, relative to its length, or to the duals' size if infinite."""
        length = self.high - self.low
        typical = np.maximum(np.abs(S), float(np.median(np.abs(S))) if S.size else 0.0)
        unit = np.where(np.isfinite(length), length, 2.0 * np.where(typical > 0, typical, 1.0))
        with np.errstate(over="ignore"):
            room = 2.0 * np.minimum(S - self.low, self.high - S) / np.where(unit > 0, unit, 1.0)
        room = np.clip(room, floor, 1.0)
        return lambda Z: room * Z

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Distance above ``right`` and below ``left``, linear and Huber parts by the slopes."""
        import cvxpy as cp

        t = cp.vec(W, order="C")
        lower, upper = (limit[:, 0] / unit for limit in self.limits)
        fixed = np.flatnonzero(lower == upper)
        above, below = np.isfinite(upper), np.isfinite(lower)
        above[fixed] = below[fixed] = False
        constraints = [t[fixed] == lower[fixed]] if len(fixed) else []
        constraints += [t[above] <= upper[above]] if above.any() else []
        constraints += [t[below] >= lower[below]] if below.any() else []
        total: Any = cp.transforms.indicator(constraints) if constraints else 0.0
        curvature = self.curvature[:, 0]
        for sign, target, slope in ((1.0, self.right, self.high), (-1.0, -self.left, -self.low)):
            excess, slope = cp.pos(sign * unit * t - target[:, 0]), slope[:, 0]
            linear = np.flatnonzero((slope > 0) & np.isfinite(slope) & (curvature == 0))
            squared = np.flatnonzero(np.isinf(slope) & (curvature > 0))
            huber = np.flatnonzero((slope > 0) & np.isfinite(slope) & (curvature > 0))
            if len(linear):
                total += (factor * slope[linear]) @ excess[linear]
            if len(squared):
                total += cp.sum_squares(cp.multiply(np.sqrt(0.5 * factor / curvature[squared]), excess[squared]))
            if len(huber):
                knee = slope[huber] * curvature[huber]
                total += (0.5 * factor * slope[huber] * knee) @ cp.huber(cp.multiply(1.0 / knee, excess[huber]), 1.0)
        return total

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``c(p) = curvature p^2 / 2 + left p + (right - left) max(p, 0)`` with the interval as constraints."""
        import cvxpy as cp

        p = cp.vec(S, order="C")
        low, high, left, right, curvature = (
            part[:, 0] for part in (self.low, self.high, self.left, self.right, self.curvature)
        )
        bent, value = np.flatnonzero(curvature), left @ p + (right - left) @ cp.pos(p)
        if len(bent):
            value += cp.sum_squares(cp.multiply(np.sqrt(0.5 * curvature[bent]), p[bent]))
        above, below = np.isfinite(high), np.isfinite(low)
        domain = [p[above] <= high[above]] if above.any() else []
        domain += [p[below] >= low[below]] if below.any() else []
        return value, domain
