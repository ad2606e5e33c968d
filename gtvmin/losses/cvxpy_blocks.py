"""Losses given as CVXPY expressions, evaluated one device at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gtvmin.solvers.standard_form import Array, BlockFunction

if TYPE_CHECKING:
    from gtvmin.losses.cvxpy_loss import CvxpyLoss

__all__ = ["FEASIBILITY", "CvxpyBlocks"]

EPS = float(np.finfo(float).eps)
# The solver meets constraints to this share of the parameters' size: points as far outside count as inside.
FEASIBILITY = 1e-8


class CvxpyBlocks(BlockFunction):
    """``coefficient_i * f_i(w_i)`` with f_i of a :class:`CvxpyLoss`, one solve of a cone program at a time.

    Parameters
    ----------
    losses : object array (n_rows,)
        The losses.
    coefficient : array (n_rows,)
        Positive.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})

    def __init__(self, losses: NDArray[Any], coefficient: Array) -> None:
        self.losses: list[CvxpyLoss] = list(losses)
        self.coefficient = coefficient
        self.n_rows, self.dim = len(self.losses), self.losses[0].size
        self.restricted = any(loss.restricted for loss in self.losses)

    def _rows(self, evaluate: Callable[[CvxpyLoss, Array], Any], rows: Array) -> Array:
        return np.array([evaluate(loss, row) for loss, row in zip(self.losses, rows, strict=True)], dtype=float)

    def value(self, W: Array) -> Array:
        """Values of the expressions."""
        return self.coefficient * self._rows(lambda loss, w: loss.evaluate(w), W)

    def project_primal(self, W: Array) -> Array:
        """Nearest points of the domains; points inside, up to the solver's tolerance, stay as they are."""

        def inside(loss: CvxpyLoss, w: Array) -> Array:
            return w if np.isfinite(loss.evaluate(w)) else loss.program.domain.prox(w, 1.0)

        return self._rows(inside, W)

    def subgradient(self, W: Array) -> Array:
        """Those of CVXPY, or where it has none the slope of the Moreau envelope."""
        return self.coefficient[:, None] * self._rows(lambda loss, w: loss.slope(w), W)

    def conjugate(self, S: Array) -> Array:
        """``c f^*(s / c)``, an upper estimate."""
        scaled = S / self.coefficient[:, None]
        return self.coefficient * self._rows(lambda loss, s: loss.program.conjugate(s), scaled)

    def rounding(self, W: Array, S: Array) -> Array:
        """That of the sum, and what the tolerance on constraints may hide."""
        tolerance = FEASIBILITY * (1.0 + np.abs(W).max(axis=1)) * np.linalg.norm(S, axis=1)
        value = self.value(W)
        size = np.where(np.isfinite(value), np.abs(value), 0.0) + np.abs(W * S).sum(axis=1)
        restricted = np.array([loss.restricted for loss in self.losses])
        return np.asarray(8.0 * (self.dim + 4) * EPS * size + np.where(restricted, tolerance, 0.0))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """One cone program a row."""
        steps = step * self.coefficient
        maps = [loss.program.prox_operator(float(t)) for loss, t in zip(self.losses, steps, strict=True)]
        return lambda V: np.array([prox(v) for prox, v in zip(maps, V, strict=True)])

    def complement(self, V: Array) -> Array:
        """Components along which the functions are affine."""

        def along(loss: CvxpyLoss, v: Array) -> Array:
            basis, _ = loss.program.flat
            return np.asarray(basis @ (basis.T @ v))

        return self._rows(along, V)

    def project_dual(self, S: Array) -> Array:
        """Along affine directions, the slope there."""

        def onto(loss: CvxpyLoss, s: Array) -> Array:
            basis, slopes = loss.program.flat
            return np.asarray(s - basis @ (basis.T @ s - slopes))

        scale = self.coefficient[:, None]
        return scale * self._rows(onto, S / scale)

    def project_domain(self, S: Array) -> Array:
        """Rows whose conjugate is finite stay as they are; others move along their ray, or to the nearest point."""

        def inside(loss: CvxpyLoss, s: Array) -> Array:
            if np.isfinite(loss.program.conjugate(s)):
                return s
            gauge = loss.program.gauge(s)
            # an interior-point method finds a value to more digits than the point where a kink has it
            return s / gauge if np.isfinite(gauge) else loss.program.nearest_slope(s)

        scale = self.coefficient[:, None]
        return self.project_dual(scale * self._rows(inside, S / scale))

    def dual_gauge(self, S: Array) -> Array:
        """Gauges of the domains, at most one where the conjugate is finite to the solver's accuracy."""

        def gauge(loss: CvxpyLoss, s: Array) -> float:
            found = loss.program.gauge(s)
            return min(found, 1.0) if found > 1.0 and np.isfinite(loss.program.conjugate(s)) else found

        return self._rows(gauge, S / self.coefficient[:, None])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Projection onto the span of the domain."""
        return lambda Z: Z - self.complement(Z)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """The expressions of new variables that equal the rows."""
        import cvxpy as cp

        total: Any = 0.0
        for r, loss in enumerate(self.losses):
            w = cp.Variable(self.dim)
            expression, constraints = loss.declare(w)
            total += factor * float(self.coefficient[r]) * expression
            total += cp.transforms.indicator([w == unit * W[r], *constraints])
        return total

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Support functions of the epigraphs, at ``(s, -1)``."""
        import cvxpy as cp

        total: Any = 0.0
        for r, loss in enumerate(self.losses):
            point = cp.Variable(self.dim + 1)
            expression, constraints = loss.declare(point[:-1])
            epigraph = cp.suppfunc(point, [expression <= point[-1], *constraints])
            c = float(self.coefficient[r])
            total += c * epigraph(cp.hstack([S[r] / c, -1.0]))
        return total, []
