"""Logistic regression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from gtvmin.losses.labels import signed_labels
from gtvmin.losses.relative_entropy import relative_entropy, relative_entropy_rounding
from gtvmin.losses.rows import RowLoss
from gtvmin.losses.squared_error import Scale, row_weights
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, frozen

__all__ = ["Logistic", "LogisticBlocks"]

EPS = float(np.finfo(float).eps)
LEAST_ROOM = 1e-13


class LogisticBlocks(BlockFunction):
    """``omega_r log(1 + exp(-t_r))`` for every row; width one.  The dual p is in ``[-omega, 0]``."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "second_derivative", "prox", "conjugate"})

    def __init__(self, weight: Array) -> None:
        self.n_rows, self.dim = len(weight), 1
        self.weight = weight[:, None]

    @property
    def smoothness(self) -> Array:
        """``omega / 4``."""
        return np.asarray(0.25 * self.weight[:, 0])

    def value(self, W: Array) -> Array:
        """``omega log(1 + exp(-t))``, which overflows for no t."""
        return np.asarray((self.weight * np.logaddexp(0.0, -W))[:, 0])

    def gradient(self, W: Array) -> Array:
        """``-omega / (1 + exp(t))``."""
        return np.asarray(-self.weight * expit(-W))

    def second_derivative(self, W: Array) -> Array:
        """``omega q (1 - q)`` with q the probability of the other class."""
        return np.asarray(self.weight * expit(-W) * expit(W))

    def conjugate(self, S: Array) -> Array:
        """``omega (q log q + (1 - q) log(1 - q))`` with ``q = -p / omega`` in [0, 1], ``inf`` elsewhere."""
        q = -S / self.weight
        inside = (q >= 0) & (q <= 1)
        q = np.clip(q, 0.0, 1.0)
        return np.asarray(np.where(inside, self.weight * (xlogy(q, q) + xlogy(1 - q, 1 - q)), np.inf)[:, 0])

    @staticmethod
    def _log_probabilities(W: Array) -> tuple[Array, Array]:
        """Logarithms of the model's probabilities of the other class and of its own."""
        return -np.logaddexp(0.0, W), -np.logaddexp(0.0, -W)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``omega`` times the Kullback-Leibler divergence of q from the model's probability: no cancellation."""
        q = -S / self.weight
        inside = (q >= 0) & (q <= 1)
        q = np.clip(q, 0.0, 1.0)
        other, own = self._log_probabilities(W)
        divergence = relative_entropy(q, other) + relative_entropy(1.0 - q, own)
        return np.asarray(np.where(inside, self.weight * divergence, np.inf)[:, 0])

    def rounding(self, W: Array, S: Array) -> Array:
        """That of the relative entropies, with q rounded."""
        q = np.clip(-S / self.weight, 0.0, 1.0)
        other, own = self._log_probabilities(W)
        error = 4.0 * EPS * q
        rounding = relative_entropy_rounding(q, other, error) + relative_entropy_rounding(1.0 - q, own, error)
        return np.asarray((self.weight * rounding)[:, 0])

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Newton's method on ``t = v + step omega / (1 + exp(t))``, compiled."""
        from gtvmin.solvers.row_prox import logistic_prox

        scale = step[:, None] * self.weight
        return lambda V: logistic_prox(V, scale)[0]

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``p = -omega / (1 + exp(t))`` at the t of Moreau's identity, never outside ``[-omega, 0]``."""
        from gtvmin.solvers.row_prox import logistic_prox

        sigma = step[:, None]
        scale = self.weight / sigma
        return lambda V: np.asarray(-self.weight * logistic_prox(V / sigma, scale)[1])

    def project_domain(self, S: Array) -> Array:
        """Clip to ``[-omega, 0]``."""
        return np.clip(S, -self.weight, 0.0)

    def dual_gauge(self, S: Array) -> Array:
        """``-p / omega``, ``inf`` for p > 0."""
        return np.asarray(np.where(S > 0, np.inf, -S / self.weight)[:, 0])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """``4 q (1 - q)``: the conjugate's inverse Hessian, scaled to at most one.

        With hardly any floor: a probability near zero or one moves by a share of itself, and stays inside.
        """
        q = np.clip(-S / self.weight, 0.0, 1.0)
        room = np.clip(4.0 * q * (1.0 - q), min(floor, LEAST_ROOM), 1.0)
        return lambda Z: room * Z

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum omega logistic(-t)``."""
        import cvxpy as cp

        return (factor * self.weight[:, 0]) @ cp.logistic(-unit * cp.vec(W, order="C"))

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Minus the entropies of q."""
        import cvxpy as cp

        weight = self.weight[:, 0]
        q = cp.multiply(-1.0 / weight, cp.vec(S, order="C"))
        return -(weight @ (cp.entr(q) + cp.entr(1 - q))), [q >= 0, q <= 1]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Logistic(RowLoss):
    """Logistic loss ``(1/m) sum_r log(1 + exp(-y_r x_r^T w))`` over the m rows of one device.

    Parameters
    ----------
    X : array_like (m, dim)
        Features, one row a data point.
    y : array_like (m,)
        Labels of two classes: {-1, +1}, {0, 1} or booleans; mapped to {-1, +1} once.
    scale : {"mean", "sum"}
        ``"mean"`` divides by m (by the sum of the sample weights, if given).
    sample_weight : array_like (m,), optional
        Weight of each data point, at least 0.

    Raises
    ------
    ValueError
        If the labels are others, shapes disagree, or a value is NaN or infinite.
    TypeError
        If an array holds anything but real numbers.

    Notes
    -----
    Section 2.3 of A. Jung, "Federated Learning: From Theory to Practice" (2025).  On data that a hyperplane separates
    the infimum is not attained: add a regulariser.

    Examples
    --------
    >>> from gtvmin.losses import Logistic
    >>> Logistic([[1.0]], [1]).value([0.0])
    0.6931471805599453
    """

    X: Array
    y: Array
    scale: Scale
    sample_weight: Array | None

    function: ClassVar[type[BlockFunction]] = LogisticBlocks

    def __init__(
        self, X: ArrayLike, y: ArrayLike, *, scale: Scale = "mean", sample_weight: ArrayLike | None = None
    ) -> None:
        from gtvmin.losses.squared_error import regression_data

        features, labels = regression_data(X, y, scale)
        labels = signed_labels(labels)
        weight = None if sample_weight is None else frozen(finite_array(sample_weight, "sample_weight"))
        row_weights(len(labels), scale, weight)
        for name, value in (("X", features), ("y", labels), ("scale", scale), ("sample_weight", weight)):
            object.__setattr__(self, name, value)

    @property
    def dim(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of data points."""
        return int(self.X.shape[0])

    def row_matrix(self, dim: int) -> Array:
        """``y_r x_r`` for the rows of positive weight."""
        weight = row_weights(self.n_samples, self.scale, self.sample_weight)
        return (self.y[:, None] * self.X)[weight > 0]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """The weights."""
        weight = row_weights(self.n_samples, self.scale, self.sample_weight)
        return {"weight": coefficient * weight[weight > 0]}

    def __repr__(self) -> str:
        return f"Logistic({self.n_samples} rows x {self.dim}, scale={self.scale!r})"
