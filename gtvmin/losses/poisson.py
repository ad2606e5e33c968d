"""Poisson regression of counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import wrightomega, xlogy

from gtvmin.losses.relative_entropy import relative_entropy, relative_entropy_rounding
from gtvmin.losses.rows import RowLoss
from gtvmin.losses.squared_error import Scale, regression_data, row_weights
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen

__all__ = ["Poisson", "PoissonBlocks"]

EPS = float(np.finfo(float).eps)


class PoissonBlocks(BlockFunction):
    """``omega_r (exp(t_r) - y_r t_r)`` for every row; width one.  The dual p is at least ``-omega y``.

    Parameters
    ----------
    weight : array (n_rows,)
        ``omega > 0``.
    target : array (n_rows,)
        ``y >= 0``.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "second_derivative", "prox", "conjugate"})

    def __init__(self, weight: Array, target: Array) -> None:
        self.n_rows, self.dim = len(weight), 1
        self.weight, self.target = weight[:, None], target[:, None]

    def value(self, W: Array) -> Array:
        """``omega (exp(t) - y t)``, ``inf`` where the exponential overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(W)
            value = self.weight * (mean - self.target * W)
        return np.asarray(np.where(np.isinf(mean), np.inf, value)[:, 0])

    def gradient(self, W: Array) -> Array:
        """``omega (exp(t) - y)``."""
        with np.errstate(over="ignore"):
            return np.asarray(self.weight * (np.exp(W) - self.target))

    def second_derivative(self, W: Array) -> Array:
        """``omega exp(t)``."""
        with np.errstate(over="ignore"):
            return np.asarray(self.weight * np.exp(W))

    def _rate(self, S: Array) -> tuple[Array, Array]:
        """``r = p / omega + y``, the mean ``exp(t)`` at which p is the slope, and whether p is in the domain."""
        return np.maximum(S / self.weight + self.target, 0.0), self.project_domain(S) == S

    def conjugate(self, S: Array) -> Array:
        """``omega (r log r - r)`` for ``r = p / omega + y >= 0``, ``inf`` elsewhere."""
        r, inside = self._rate(S)
        return np.asarray(np.where(inside, self.weight * (xlogy(r, r) - r), np.inf)[:, 0])

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``omega`` times the relative entropy of r and the mean ``exp(t)``: no cancellation."""
        r, inside = self._rate(S)
        return np.asarray(np.where(inside, self.weight * relative_entropy(r, W), np.inf)[:, 0])

    def rounding(self, W: Array, S: Array) -> Array:
        """That of the relative entropy, with r rounded."""
        error = 4.0 * EPS * (np.abs(S) / self.weight + self.target)
        rounding = relative_entropy_rounding(self._rate(S)[0], W, error)
        return np.asarray((self.weight * rounding)[:, 0])

    def _solve(self, V: Array, scale: Array) -> tuple[Array, Array]:
        """Root t of ``t + u = c`` with ``u = scale exp(t)`` and ``c = v + scale y``, and u.

        So ``u + log u = c + log scale``: R. M. Corless, D. J. Jeffrey, "The Wright omega function" (2002), DOI
        10.1007/3-540-45470-5_10.
        """
        c = V + scale * self.target
        u = wrightomega(c + np.log(scale))
        with np.errstate(divide="ignore"):
            # neither form subtracts two large numbers
            return np.where(u < 1.0, c - u, np.log(u) - np.log(scale)), u

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``t = v + step omega (y - exp(t))`` by the Wright omega function."""
        scale = step[:, None] * self.weight
        return lambda V: self._solve(V, scale)[0]

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``p = omega (exp(t) - y)`` at the t of Moreau's identity, never below ``-omega y``."""
        sigma = step[:, None]
        scale, least = self.weight / sigma, self.weight * self.target
        return lambda V: np.asarray(sigma * self._solve(V / sigma, scale)[1] - least)

    def project_domain(self, S: Array) -> Array:
        """Raise to ``-omega y``."""
        return np.maximum(S, -self.weight * self.target)

    def dual_gauge(self, S: Array) -> Array:
        """``-p / (omega y)`` for negative p, which has no bound above; ``inf`` where y is zero."""
        with np.errstate(divide="ignore", invalid="ignore"):
            gauge = np.where(S < 0, S / (-self.weight * self.target), 0.0)
        return np.asarray(gauge[:, 0])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """The rate r, of which the conjugate's Hessian is the inverse, relative to the median rate."""
        r, _ = self._rate(S)
        unit = float(np.median(r)) if r.size else 0.0
        room = np.clip(r / unit if unit > 0 else np.ones_like(r), floor, 1.0)
        return lambda Z: room * Z

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum omega (exp(t) - y t)``."""
        import cvxpy as cp

        t = unit * cp.vec(W, order="C")
        weight = factor * self.weight[:, 0]
        return weight @ cp.exp(t) - (weight * self.target[:, 0]) @ t

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Minus the entropies of the rates."""
        import cvxpy as cp

        weight = self.weight[:, 0]
        r = cp.multiply(1.0 / weight, cp.vec(S, order="C")) + self.target[:, 0]
        return weight @ (-cp.entr(r) - r), [r >= 0]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Poisson(RowLoss):
    """Poisson loss ``(1/m) sum_r exp(x_r^T w) - y_r x_r^T w`` over the m rows of one device.

    The negative log-likelihood of counts with mean ``exp(x_r^T w)``, without its constant ``log(y_r!)``.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Counts, at least 0; they need not be whole numbers.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    ValueError
        If a count is negative, shapes disagree, or a value is NaN or infinite.
    TypeError
        If an array holds anything but real numbers.

    Notes
    -----
    P. McCullagh, J. A. Nelder, "Generalized Linear Models" (2nd ed., 1989), Section 6.2, with the logarithm as link.
    Where every count is zero the infimum is not attained: add a regulariser.  The slope grows as fast as the
    exponential, so that there is no smoothness constant.

    Examples
    --------
    >>> from gtvmin.losses import Poisson
    >>> Poisson([[1.0], [1.0]], [3, 1]).gradient([0.0])
    array([-1.])
    """

    X: Array
    y: Array
    scale: Scale
    sample_weight: Array | None

    function: ClassVar[type[BlockFunction]] = PoissonBlocks

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, scale: Scale = "mean", sample_weight: ArrayLike | None = None
    ) -> None:
        features, counts = regression_data(X, y, scale)
        if (counts < 0).any():
            raise ValueError(f"y must hold counts >= 0, got {counts.min():g} at position {int(counts.argmin())}")
        weight = None if sample_weight is None else frozen(finite_array(sample_weight, "sample_weight"))
        row_weights(len(counts), scale, weight)
        for name, value in (("X", features), ("y", counts), ("scale", scale), ("sample_weight", weight)):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return int(self.X.shape[0])

    def _weights(self) -> Array:
        return row_weights(self.n_samples, self.scale, self.sample_weight)

    def row_matrix(self, dim: int) -> Array:
        """``x_r`` for the rows of positive weight."""
        return self.X[self._weights() > 0]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Weights and counts."""
        weight = self._weights()
        used = weight > 0
        return {"weight": coefficient * weight[used], "target": self.y[used]}

    def __repr__(self) -> str:
        return f"Poisson({self.n_samples} rows x {self.dim}, scale={self.scale!r})"
