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
    coefficient: float = 1.0,
) -> dict[str, Array]:
    """Parameters of ``coefficient * phi`` for some rows; a pair of targets is (left, right)."""
    left, right = target if isinstance(target, tuple) else (target, target)
    parts = {
        "low": coefficient * np.asarray(low, dtype=float),
        "high": coefficient * np.asarray(high, dtype=float),
        "left": left,
        "right": right,
        "curvature": np.asarray(curvature, dtype=float) / coefficient,
    }
    return {name: np.array(np.broadcast_to(np.asarray(part, dtype=float), (rows,))) for name, part in parts.items()}


class IntervalBlocks(BlockFunction):
    """``phi_r`` for every row; width one.

    Parameters
    ----------
    low, high : arrays (n_rows,)
        Domain of the conjugate, ``low <= 0 <= high``; may be infinite.
    left, right : arrays (n_rows,)
        Where phi is zero.
    curvature : array (n_rows,)
        Of the conjugate; ``1 / curvature`` is phi's own.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})

    def __init__(self, low: Array, high: Array, left: Array, right: Array, curvature: Array) -> None:
        self.n_rows, self.dim = len(low), 1
        self.low, self.high, self.left, self.right = (part[:, None] for part in (low, high, left, right))
        self.curvature = curvature[:, None]
        if (curvature > 0).all():
            self.capabilities = self.capabilities | {"gradient"}  # type: ignore[misc]

    @property
    def smoothness(self) -> Array:
        """``1 / curvature``."""
        with np.errstate(divide="ignore"):
            return np.asarray(1.0 / self.curvature[:, 0])

    def _overshoot(self, T: Array) -> Array:
        """Signed distance from ``[left, right]``."""
        return np.asarray(np.where(self.right < T, T - self.right, np.where(self.left > T, T - self.left, 0.0)))

    def subgradient(self, W: Array) -> Array:
        """``clip(overshoot / curvature, low, high)``."""
        d = self._overshoot(W)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.where(d == 0.0, 0.0, d / self.curvature)
        return np.clip(slope, self.low, self.high)

    def gradient(self, W: Array) -> Array:
        """The subgradient, where every curvature is positive."""
        return self.subgradient(W)

    def value(self, W: Array) -> Array:
        """``p d - curvature p^2 / 2`` at the best p."""
        d, p = self._overshoot(W), self.subgradient(W)
        with np.errstate(invalid="ignore", over="ignore"):
            value = np.where(d == 0.0, 0.0, p * d - 0.5 * self.curvature * p**2)
        return np.asarray(np.where(np.isnan(value), np.inf, value)[:, 0])

    def _linear(self, P: Array) -> Array:
        return np.asarray(np.where(P > 0, self.right, np.where(P < 0, self.left, 0.0)))

    def conjugate(self, S: Array) -> Array:
        """``c(p)``, ``inf`` outside ``[low, high]``."""
        with np.errstate(invalid="ignore"):
            cost = np.where(S == 0, 0.0, self._linear(S) * S) + 0.5 * self.curvature * S**2
        return np.asarray(np.where((self.low <= S) & (self.high >= S), cost, np.inf)[:, 0])

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Shift by the targets, shrink by the curvature, clip to the interval."""
        sigma = step[:, None]
        shrink = 1.0 / (1.0 + sigma * self.curvature)
        up, down = sigma * self.right, sigma * self.left

        def prox(V: Array) -> Array:
            moved = np.maximum(V - up, 0.0) + np.minimum(V - down, 0.0)
            return np.clip(moved * shrink, self.low, self.high)

        return prox

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """By Moreau's identity from the conjugate's."""
        scale = step[:, None]
        inner = self.conjugate_prox_operator(1.0 / step)
        return lambda V: V - scale * inner(V / scale)

    def rounding(self, W: Array, S: Array) -> Array:
        """A few units in the last place of the three summands."""
        finite = np.where(np.isfinite(self._linear(S)), np.abs(self._linear(S) * S), 0.0)
        size = 2.0 * np.abs(W * S) + finite + 0.5 * self.curvature * S**2
        return np.asarray(8.0 * EPS * size[:, 0])

    def project_domain(self, S: Array) -> Array:
        """Clip to ``[low, high]``."""
        return np.clip(S, self.low, self.high)

    def dual_gauge(self, S: Array) -> Array:
        """``max(p / high, p / low)``."""
        bound = np.where(S > 0, self.high, self.low)
        with np.errstate(divide="ignore", invalid="ignore"):
            gauge = np.where(S == 0, 0.0, S / bound)
        return np.asarray(gauge[:, 0])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Room left to the nearer end of the interval, relative to its length."""
        length = self.high - self.low
        typical = np.maximum(np.abs(S), float(np.median(np.abs(S))) if S.size else 0.0)
        unit = np.where(np.isfinite(length), length, 2.0 * typical)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(unit > 0, 2.0 * np.minimum(S - self.low, self.high - S) / unit, 1.0)
        room = np.clip(np.where(np.isnan(room), 1.0, room), floor, 1.0)
        return lambda Z: room * Z

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Distance above ``right`` and below ``left``, linear and Huber parts by the slopes."""
        import cvxpy as cp

        t = unit * cp.vec(W, order="C")
        total: Any = 0.0
        sides = ((1.0, self.right[:, 0], self.high[:, 0]), (-1.0, -self.left[:, 0], -self.low[:, 0]))
        for sign, target, slope in sides:
            excess = sign * t - target
            curvature = self.curvature[:, 0]
            hard = np.flatnonzero(np.isinf(slope) & (curvature == 0))
            linear = np.flatnonzero((slope > 0) & np.isfinite(slope) & (curvature == 0))
            squared = np.flatnonzero(np.isinf(slope) & (curvature > 0))
            huber = np.flatnonzero((slope > 0) & np.isfinite(slope) & (curvature > 0))
            if len(hard):
                total += cp.transforms.indicator([excess[hard] <= 0])
            if len(linear):
                total += factor * (slope[linear] @ cp.pos(excess[linear]))
            if len(squared):
                total += factor * cp.sum(cp.multiply(0.5 / curvature[squared], cp.square(cp.pos(excess[squared]))))
            if len(huber):
                knee = slope[huber] * curvature[huber]
                scaled = cp.multiply(1.0 / knee, cp.pos(excess[huber]))
                total += factor * cp.sum(cp.multiply(0.5 * slope[huber] * knee, cp.huber(scaled, 1.0)))
        return total

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """``c(p)`` with the interval as constraints."""
        import cvxpy as cp

        p = cp.vec(S, order="C")
        low, high, left, right, curvature = (
            part[:, 0] for part in (self.low, self.high, self.left, self.right, self.curvature)
        )
        value: Any = 0.5 * cp.sum(cp.multiply(curvature, cp.square(p)))
        one = left == right
        value += np.where(one, right, 0.0) @ p
        two = np.flatnonzero(~one)
        domain = []
        for rows, bound, sign in ((np.isfinite(high), high, 1.0), (np.isfinite(low), low, -1.0)):
            kept = np.flatnonzero(rows)
            if len(kept):
                domain.append(sign * p[kept] <= sign * bound[kept])
        # an infinite target forbids its sign
        up, down = two[np.isfinite(right[two])], two[np.isfinite(left[two])]
        for kept, target, part in ((up, right, cp.pos), (down, -left, cp.neg)):
            if len(kept):
                value += target[kept] @ part(p[kept])
        for kept, sign in ((two[np.isinf(right[two])], 1.0), (two[np.isinf(left[two])], -1.0)):
            if len(kept):
                domain.append(sign * p[kept] <= 0)
        return value, domain
