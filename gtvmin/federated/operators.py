"""A round as an operator: its affine map on quadratic losses, its spectral radius and fixed point, its contraction.

Section 5.7 of A. Jung, "Federated Learning: From Theory to Practice" (2025), writes every algorithm as
``w_i <- F_i(w)``.  On quadratic losses a round of most algorithms is affine, ``x -> A x + b`` with x all variables of
its state; A and b follow from the rounds of zero and of the unit vectors, and tell exactly what long runs only suggest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gtvmin.solvers.standard_form import Array, StandardForm

__all__ = ["AffineRound", "affine_round", "measured_contraction", "pack", "stationary_covariance", "unpack"]

MOST_ITERATIONS = 1_000_000


def pack(algorithm: Any, state: Any) -> Array:
    """All variables of a state as one vector."""
    return np.concatenate([np.ravel(getattr(state, name)).astype(float) for name in algorithm.variables])


def unpack(algorithm: Any, state: Any, x: Array) -> Any:
    """A state like the given one with other variables."""
    values, first = {}, 0
    for name in algorithm.variables:
        shape = np.shape(getattr(state, name))
        size = int(np.prod(shape))
        values[name] = np.reshape(x[first : first + size], shape)
        first += size
    return replace(state, **values)


@dataclass(frozen=True, eq=False)
class AffineRound:
    """``x -> A x + b`` on the variables of a state, in the order of :func:`pack`.

    Attributes
    ----------
    A : array (size, size)
    b : array (size,)
    """

    A: Array
    b: Array

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of A, the largest in size first."""
        values = np.linalg.eigvals(self.A)
        return np.asarray(values[np.argsort(-np.abs(values), kind="stable")])

    def spectral_radius(self, invariants: int = 0) -> float:
        """Largest size of an eigenvalue: the factor by which errors shrink a round in the long run.

        ``invariants`` is the number of eigenvalues equal to one that belong to quantities which a round keeps, such as
        the mean of control variates; they are left out.

        Raises
        ------
        ValueError
            If there are not as many eigenvalues equal to one.
        """
        values = self.eigenvalues
        kept = np.abs(values - 1.0) < 1e-8
        if kept.sum() < invariants:
            raise ValueError(f"{invariants} invariants need as many eigenvalues equal to one, there are {kept.sum()}")
        left_out = np.flatnonzero(kept)[:invariants]
        return float(np.abs(np.delete(values, left_out)).max(initial=0.0))

    def fixed_point(self, start: Array | None = None) -> Array:
        """The limit from a start (default zero), if there is one: a solution x of ``(I - A) x = b``.

        Where A has eigenvalues equal to one the limit depends on the start: what a round keeps stays the start's.
        """
        size = len(self.b)
        x = np.zeros(size) if start is None else np.asarray(start, dtype=float)
        residual = self.A @ x + self.b - x
        M = np.eye(size) - self.A
        # M restricted to its range is invertible where the eigenvalue one is semisimple: the move lies in the range
        left, sigma, _ = np.linalg.svd(M)
        basis = left[:, sigma > 1e-10 * max(sigma[0], 1.0)]
        move = basis @ np.linalg.lstsq(M @ basis, residual, rcond=None)[0]
        return np.asarray(x + move)


def affine_round(algorithm: Any, form: StandardForm, state: Any = None) -> AffineRound:
    """The affine map of a round, from the rounds of zero and of the unit vectors.

    Parameters
    ----------
    algorithm : Algorithm
        What it draws in a round is what it draws in the given state's.
    form : StandardForm
        With quadratic losses.
    state : optional
        Default: the initial state.

    Raises
    ------
    ValueError
        If the round is not affine.
    """
    base = algorithm.init(form, None) if state is None else state
    size = len(pack(algorithm, base))

    def apply(x: Array) -> Array:
        return pack(algorithm, algorithm.step(form, unpack(algorithm, base, x)))

    b = apply(np.zeros(size))
    A = np.stack([apply(unit) - b for unit in np.eye(size)], axis=1)
    probe = np.cos(np.arange(1.0, size + 1.0))
    error = np.abs(apply(probe) - (A @ probe + b)).max(initial=0.0)
    if error > 1e-8 * (1.0 + np.abs(b).max(initial=0.0) + np.abs(A).max(initial=0.0)):
        raise ValueError(
            f"a round of {type(algorithm).__name__} is not affine here: it is off by {error:.2e} at a probe"
        )
    return AffineRound(A, b)


def stationary_covariance(A: Array, noise: Callable[[Array], Array], tolerance: float = 1e-13) -> Array:
    """Covariance S of a random iteration ``x <- A_t x + b_t`` in the long run: ``S = A S A^T + noise(S)``.

    Parameters
    ----------
    A : array (size, size)
        Mean of the A_t.
    noise : callable
        ``noise(S)``: the covariance of ``(A_t - A) x + b_t`` where x has the stationary mean and covariance S.
    tolerance : float
        Relative change of S at which to stop.

    Raises
    ------
    ValueError
        If S grows without bound: the iteration is not stable in the mean square.

    Examples
    --------
    >>> import numpy as np
    >>> from gtvmin.federated.operators import stationary_covariance
    >>> stationary_covariance(np.array([[0.5]]), lambda S: np.array([[0.75]])).round(12).tolist()
    [[1.0]]
    """
    S = np.zeros_like(A)
    for _ in range(MOST_ITERATIONS):
        following = A @ S @ A.T + noise(S)
        change, size = np.abs(following - S).max(initial=0.0), np.abs(following).max(initial=0.0)
        if change <= tolerance * size:
            return np.asarray(following)
        if not np.isfinite(size):
            break
        S = following
    raise ValueError("the covariance grows without bound, or settles too slowly: take smaller steps")


def measured_contraction(
    algorithm: Any, form: StandardForm, *, start: Any = None, rounds: int = 50, groups: Sequence[int] | None = None
) -> float:
    """Factor by which successive moves shrink: the geometric mean over the second half of some rounds.

    It tends to the spectral radius for affine rounds; for others it is what a user would see.

    Parameters
    ----------
    algorithm : Algorithm
        One without random draws, whose moves would not shrink.
    form : StandardForm
        The problem.
    start : Point, optional
        Where to start.
    rounds : int
        How many, at least 4.
    groups : sequence of int, optional
        Positions of the entries of :func:`pack` to look at; default all.
    """
    if rounds < 4:
        raise ValueError(f"rounds must be at least 4, got {rounds}")
    state = algorithm.init(form, start)
    chosen = slice(None) if groups is None else np.asarray(groups)
    last, moves = pack(algorithm, state)[chosen], []
    for _ in range(rounds):
        state = algorithm.step(form, state)
        now = pack(algorithm, state)[chosen]
        moves.append(float(np.linalg.norm(now - last)))
        last = now
    first, final = moves[rounds // 2], moves[-1]
    if first == 0 or final == 0:
        return 0.0
    return float((final / first) ** (1.0 / (rounds - 1 - rounds // 2)))
