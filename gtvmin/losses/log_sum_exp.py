"""Log-sum-exp of scores less the score of the label: what a multinomial model loses at a data point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import wrightomega, xlogy

from gtvmin.losses.relative_entropy import relative_entropy, relative_entropy_rounding
from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["LogSumExpBlocks"]

EPS = float(np.finfo(float).eps)
# A dual whose entries sum to no more than this share of the weight sums to zero but for rounding.
SUM_TOLERANCE = 1e-12

# Newton's error is at most half the square of its last move.
LAST_MOVE = 1e-8
NEWTON_STEPS = 60


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
        """That of the relative entropies, with q rounded, and the effect of a sum that is not quite zero."""
        Q, _ = self._probabilities(S)
        error = 4.0 * EPS * (Q + self.indicator)
        rounding = relative_entropy_rounding(Q, self._log_probabilities(W), error).sum(axis=1)
        imbalance = np.abs(S.sum(axis=1)) + 4.0 * EPS * np.abs(S).sum(axis=1)
        return np.asarray(self.weight[:, 0] * rounding + imbalance * (1.0 + np.ptp(W, axis=1)))

    def complement(self, V: Array) -> Array:
        """The mean of each row: equal changes of all scores change nothing."""
        return np.array(np.broadcast_to(V.mean(axis=1, keepdims=True), V.shape))

    def _proximal_probabilities(self, V: Array, scale: Array) -> Array:
        """Probabilities q at the minimiser s of ``scale (log sum exp(s) - s_label) + ||s - v||^2 / 2``.

        With a the scale, ``s = c - a q`` for ``c = v + a e_label``; b is the class of the largest c, and of the largest
        q.  Then ``u = a q`` has ``u_k + log u_k = c_k + log a - L`` with ``L = log sum exp(s)``: the Wright omega
        function.  In ``lambda = L - c_b + a >= 0`` the equation ``sum_k u_k = a`` is
        ``sum_{k != b} u_k(lambda) = rho(lambda)``, where ``rho - log(1 - rho / a) = lambda`` gives ``rho = a - u_b``.
        The difference of its sides is convex and decreasing, so that Newton's method climbs to the root from the left.
        """
        row = np.arange(self.n_rows)
        best = (V + scale * self.indicator).argmax(axis=1)
        at_best = (np.arange(self.dim) == best[:, None]).astype(float)
        of_best = self.indicator[row, best][:, None]
        # c_k - c_b + a + log a, where a drops out if b is the label
        offsets = (V - V[row, best][:, None]) + scale * (self.indicator - of_best + 1.0) + np.log(scale)
        offsets[row, best] = -np.inf
        # log sum exp lies above its tangent at v
        log_q = self._log_probabilities(V)
        Q = np.exp(log_q)
        slope = self._at_label(Q)[:, None] - Q.max(axis=1, keepdims=True) + 1.0 - of_best
        root = np.maximum(scale * slope - log_q[row, best][:, None], 0.0)
        U = np.zeros_like(V)
        active = row
        for _ in range(NEWTON_STEPS):
            a, at = scale[active], root[active]
            u = wrightomega(offsets[active] - at)
            rho = np.maximum(a - wrightomega(a + np.log(a) - at), 0.0)
            # the subtraction lost digits of a small rho, which one Newton step on its equation restores
            rho -= (rho - np.log1p(-rho / a) - at) / (1.0 + 1.0 / (a - rho))
            change = u / (1.0 + u)
            descent = change.sum(axis=1, keepdims=True) + 1.0 / (1.0 + 1.0 / (a - rho))
            move = (u.sum(axis=1, keepdims=True) - rho) / descent
            root[active] = at + move
            U[active] = u - change * move
            active = active[(np.abs(move) > LAST_MOVE * np.maximum(at, 1.0))[:, 0]]
            if not len(active):
                break
        Q = U / scale
        return np.asarray(Q + at_best * np.maximum(1.0 - Q.sum(axis=1, keepdims=True), 0.0))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``s = v - step p`` at the dual p."""
        scale = step[:, None] * self.weight
        return lambda V: np.asarray(V - step[:, None] * self._dual(self._proximal_probabilities(V, scale)))

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``p = omega (q - e_label)`` at the s of Moreau's identity, never outside the domain."""
        sigma = step[:, None]
        scale = self.weight / sigma
        return lambda V: self._dual(self._proximal_probabilities(V / sigma, scale))

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
