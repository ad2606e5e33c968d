"""Log-sum-exp of scores less the score of the label: what a multinomial model loses at a data point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega, xlogy

from gtvmin.losses.relative_entropy import relative_entropy
from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["LogSumExpBlocks"]

EPS = float(np.finfo(float).eps)
# A dual whose entries sum to no more than this share of the weight sums to zero but for rounding.
SUM_TOLERANCE = 1e-12
NEWTON_STEPS = 60
NEWTON_TOLERANCE = 4.0 * EPS


class LogSumExpBlocks(BlockFunction):
    """``omega_r (log sum_k exp(s_k) - s_label)`` for every row of scores; the width is the number of classes.

    The dual p has entries that sum to zero, and ``q = p / omega + e_label`` is a probability vector.

    Parameters
    ----------
    weight : array (n_rows,)
        ``omega > 0``.
    indicator : array (n_rows, classes)
        ``e_label``: one at the label of each row, zero elsewhere.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "prox", "conjugate"})

    def __init__(self, weight: Array, indicator: Array) -> None:
        self.n_rows, self.dim = indicator.shape
        self.weight, self.indicator = weight[:, None], indicator

    @property
    def smoothness(self) -> Array:
        """``omega / 2``, the largest eigenvalue of ``omega (diag(q) - q q^T)``."""
        return np.asarray(0.5 * self.weight[:, 0])

    def _log_probabilities(self, W: Array) -> Array:
        """``s_k - log sum exp(s)``, from differences of scores only."""
        shifted = W - W.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def value(self, W: Array) -> Array:
        """``omega (log sum exp(s) - s_label)``, which overflows for no s."""
        own = self._at_label(self._log_probabilities(W))
        return np.asarray(-self.weight[:, 0] * own)

    def gradient(self, W: Array) -> Array:
        """``omega (q - e_label)`` with q the model's probabilities."""
        return self._dual(np.exp(self._log_probabilities(W)))

    def _at_label(self, rows: Array) -> Array:
        return np.asarray(rows[self.indicator > 0])

    def _dual(self, Q: Array) -> Array:
        """``omega (q - e_label)``; the label's entry is minus the sum of the others, so that the row sums to zero."""
        others = np.where(self.indicator > 0, 0.0, Q)
        own = np.minimum(others.sum(axis=1, keepdims=True), 1.0)
        return np.asarray(self.weight * (others - self.indicator * own))

    def _probabilities(self, S: Array) -> tuple[Array, NDArray[np.bool_]]:
        """``q = p / omega + e_label``, clipped at zero, and whether p lies in the domain of the conjugate."""
        Q = S / self.weight + self.indicator
        inside = (Q >= 0).all(axis=1) & (np.abs(S.sum(axis=1)) <= SUM_TOLERANCE * self.weight[:, 0])
        return np.maximum(Q, 0.0), inside

    def conjugate(self, S: Array) -> Array:
        """``omega sum_k q_k log q_k`` for probability vectors q, ``inf`` elsewhere."""
        Q, inside = self._probabilities(S)
        return np.where(inside, self.weight[:, 0] * xlogy(Q, Q).sum(axis=1), np.inf)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``omega`` times the Kullback-Leibler divergence of q from the model's probabilities: no cancellation."""
        Q, inside = self._probabilities(S)
        divergence = relative_entropy(Q, self._log_probabilities(W)).sum(axis=1)
        return np.where(inside, self.weight[:, 0] * divergence, np.inf)

    def rounding(self, W: Array, S: Array) -> Array:
        """Effect of the rounding of the logarithms and of q on the divergence, and of a sum that is not quite zero."""
        Q, _ = self._probabilities(S)
        log_m = self._log_probabilities(W)
        log_q = np.log(np.where(Q > 0, Q, 1.0))
        of_logarithms = np.abs(np.exp(log_m) - Q) * (1.0 + np.abs(W) + np.abs(log_q))
        of_q = (Q + self.indicator) * np.abs(log_m - log_q)
        units = 4.0 * EPS * self.weight[:, 0] * (of_logarithms + of_q).sum(axis=1)
        return np.asarray(units + np.abs(S.sum(axis=1)) * (1.0 + np.abs(W).max(axis=1)))

    def complement(self, V: Array) -> Array:
        """The mean of each row: equal changes of all scores change nothing."""
        return np.array(np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape))

    def _solve(self, V: Array, scale: Array) -> tuple[Array, Array]:
        """Minimiser s of ``scale (log sum exp(s) - s_label) + ||s - v||^2 / 2``, and ``u = scale q``.

        ``s = c - u`` for ``c = v + scale e_label``, and ``u_k = scale exp(s_k - L)`` for ``L = log sum exp(s)``: so
        ``u_k + log u_k = c_k + log(scale) - L``, the Wright omega function, and L is the root of the decreasing convex
        function ``sum_k u_k(L) - scale``.  Newton's method climbs to it from the left without fail.
        """
        top = V.max(axis=1, keepdims=True)
        V = V - top
        C = V + scale * self.indicator
        # two bounds of L from below: no u is above scale, and log sum exp lies above its tangent at v
        log_q = self._log_probabilities(V)
        Q = np.exp(log_q)
        slope = self._at_label(Q)[:, None] - Q.max(axis=1, keepdims=True)
        tangent = -log_q.max(axis=1, keepdims=True) + scale * slope
        L = np.maximum(C.max(axis=1, keepdims=True) - scale, tangent)
        logarithms = C + np.log(scale)
        U = np.empty_like(C)
        active = np.arange(len(C))
        for _ in range(NEWTON_STEPS):
            part = wrightomega(logarithms[active] - L[active])
            U[active] = part
            excess = part.sum(axis=1, keepdims=True) - scale[active]
            move = excess / (part / (1.0 + part)).sum(axis=1, keepdims=True)
            L[active] += move
            active = active[(np.abs(excess) > NEWTON_TOLERANCE * scale[active])[:, 0] & (move[:, 0] > 0)]
            if not len(active):
                break
        U *= scale / U.sum(axis=1, keepdims=True)
        return top + self._scores(V, C, U, scale), U

    def _scores(self, V: Array, C: Array, U: Array, scale: Array) -> Array:
        """``c - u``, and where u is large ``L + log(u / scale)``, with L such that s sums to what v does."""
        large = U >= 1.0
        with np.errstate(divide="ignore"):
            logarithms = np.where(large, np.log(U) - np.log(scale), 0.0)
        small = np.where(large, 0.0, C - U)
        count = np.maximum(large.sum(axis=1, keepdims=True), 1)
        L = (V.sum(axis=1, keepdims=True) - (small + logarithms).sum(axis=1, keepdims=True)) / count
        return np.where(large, L + logarithms, small)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``s = v + step omega (e_label - q)`` by one scalar equation a row."""
        scale = step[:, None] * self.weight
        return lambda V: self._solve(V, scale)[0]

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``p = omega (q - e_label)`` at the s of Moreau's identity, never outside the domain."""
        sigma = step[:, None]
        scale = self.weight / sigma
        return lambda V: self._dual(self._solve(V / sigma, scale)[1] / scale)

    def project_domain(self, S: Array) -> Array:
        """Projection of q onto the probability simplex, by sorting.

        J. Duchi et al., "Efficient projections onto the l1-ball for learning in high dimensions" (2008), Figure 1,
        DOI 10.1145/1390156.1390176.
        """
        Q = S / self.weight + self.indicator
        descending = -np.sort(-Q, axis=1)
        excess = np.cumsum(descending, axis=1) - 1.0
        count = (descending * np.arange(1, self.dim + 1) > excess).sum(axis=1)
        threshold = excess[np.arange(self.n_rows), count - 1] / count
        return self._dual(np.maximum(Q - threshold[:, None], 0.0))

    def dual_gauge(self, S: Array) -> Array:
        """``-p_label / omega``; ``inf`` if another entry is negative or the row does not sum to zero."""
        others = np.where(self.indicator > 0, 0.0, S).min(axis=1)
        size = np.maximum(self.weight[:, 0], np.abs(S).max(axis=1))
        on_ray = (others >= 0) & (np.abs(S.sum(axis=1)) <= SUM_TOLERANCE * size)
        return np.where(on_ray, np.maximum(-self._at_label(S), 0.0) / self.weight[:, 0], np.inf)

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """``2 (diag(q) - q q^T)``, the conjugate's inverse Hessian with norm one at most; at least ``floor``."""
        Q = self._probabilities(self.project_domain(S))[0]

        def metric(Z: Array) -> Array:
            curved = 2.0 * Q * (Z - (Q * Z).sum(axis=1, keepdims=True))
            return np.asarray((1.0 - floor) * curved + floor * (Z - Z.mean(axis=1, keepdims=True)))

        return metric

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum omega (log_sum_exp(s) - s_label)``."""
        import cvxpy as cp

        weight = factor * self.weight
        own = cp.sum(cp.multiply(unit * weight * self.indicator, W))
        return weight[:, 0] @ cp.log_sum_exp(unit * W, axis=1) - own

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Minus the entropies of q."""
        import cvxpy as cp

        Q = cp.multiply(np.broadcast_to(1.0 / self.weight, S.shape), S) + self.indicator
        return -(self.weight[:, 0] @ cp.sum(cp.entr(Q), axis=1)), [Q >= 0, cp.sum(S, axis=1) == 0]
