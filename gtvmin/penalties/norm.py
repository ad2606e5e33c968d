"""Norms: the network Lasso and its relatives, which fuse neighbours exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gtvmin.penalties.base import DifferencePenalty
from gtvmin.penalties.consensus import Consensus
from gtvmin.penalties.edge_terms import EdgeBlocks
from gtvmin.solvers.standard_form import Array

__all__ = ["Norm", "NormBlocks"]

# Norms in this range come from squares that neither under- nor overflow.
SAFE = (1e-140, 1e140)
DUAL = {1.0: np.inf, 2.0: 2.0, np.inf: 1.0}


@dataclass(frozen=True)
class Norm(DifferencePenalty):
    """``phi(z) = ||z||_p`` with p = 1, 2 or infinity.

    Parameters
    ----------
    p : {1, 2, inf}
        2 is the network Lasso (all parameters of a pair fuse together), 1 lets each coordinate fuse by itself, and
        inf bounds the largest change.

    Raises
    ------
    ValueError
        For any other p.

    Notes
    -----
    D. Hallac, J. Leskovec, S. Boyd, "Network Lasso" (2015), DOI 10.1145/2783258.2783313, equation (1).  The conjugate
    is the indicator of the unit ball of the dual norm: a flow obeys ``||u_e||_* <= alpha A_e``.

    Examples
    --------
    >>> from gtvmin.penalties import Norm
    >>> Norm(2).value([3.0, 4.0])
    5.0
    >>> Norm(2).prox([3.0, 4.0], step=1.0)
    array([2.4, 3.2])
    """

    p: float = 2.0

    def __post_init__(self) -> None:
        names = {"1": 1.0, "2": 2.0, "inf": np.inf}
        p = names.get(self.p, self.p) if isinstance(self.p, str) else self.p
        if isinstance(p, (bool, str)) or p not in DUAL:
            raise ValueError(f"p must be 1, 2 or inf, got {self.p!r}")
        object.__setattr__(self, "p", float(p))

    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """``a_e ||z||_p`` per edge."""
        return NormBlocks(strengths, dim, self.p)

    def at_infinity(self) -> Consensus:
        """``z = 0``."""
        return Consensus()


class NormBlocks(EdgeBlocks):
    """``a_e ||z_e||_p``, with ``a_e > 0`` the capacity of edge e for the dual norm."""

    PER_ROW = ("capacity",)
    SHARED = ("dim", "p")
    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate", "prox_derivative"})

    def __init__(self, capacity: Array, dim: int, p: float) -> None:
        self.n_rows, self.dim = len(capacity), dim
        self.capacity, self.p = capacity, p

    @property
    def norm(self) -> tuple[Array, float]:
        """Capacities and p."""
        return self.capacity, self.p

    def value(self, W: Array) -> Array:
        """``a ||z||_p``."""
        return np.asarray(self.capacity * row_norm(W, self.p))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``v - proj(v)`` onto the dual ball of radius ``a step`` (Moreau)."""
        radius = self.capacity * step
        return lambda V: V - project_rows(V, radius, DUAL[self.p])

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Projection onto the dual ball of radius a, whatever the step."""
        from gtvmin.solvers.operators import project_l2_rows

        if self.p == 2.0:
            return lambda V: project_l2_rows(V, self.capacity)
        return self.project_domain

    def conjugate_prox_derivative(self, V: Array, step: Array) -> tuple[Array, Array]:
        """That of the projection onto the dual ball: the identity inside, what lies along the boundary outside."""
        if self.p == 1.0:
            return (np.abs(V) < self.capacity[:, None]).astype(float), np.zeros_like(V)
        outside = self.dual_gauge(V) > 1.0
        diagonal, normal = np.ones_like(V), np.zeros_like(V)
        if self.p == 2.0:
            size = row_norm(V[outside], 2.0)
            share = self.capacity[outside] / size
            diagonal[outside] = share[:, None]
            normal[outside] = (np.sqrt(share) / size)[:, None] * V[outside]
        else:
            signs = np.sign(self.project_domain(V)[outside])
            diagonal[outside] = np.abs(signs)
            normal[outside] = signs / np.sqrt(np.maximum(diagonal[outside].sum(axis=1), 1.0))[:, None]
        return diagonal, normal

    def conjugate(self, S: Array) -> Array:
        """0 in the dual ball, ``inf`` outside: exactly, so a flow that rounding put outside must be pulled in."""
        return np.where(row_norm(S, DUAL[self.p]) <= self.capacity, 0.0, np.inf)

    def dual_gauge(self, S: Array) -> Array:
        """``||u||_* / a``."""
        return np.asarray(row_norm(S, DUAL[self.p]) / self.capacity)

    def project_domain(self, S: Array) -> Array:
        """Projection onto the dual ball."""
        return project_rows(S, self.capacity, DUAL[self.p])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Identity less what would push a saturated row out of its ball.

        p = 2 damps the direction of the row; p = 1 damps the coordinates that are at their bound; p = inf (whose ball
        is a cross-polytope) damps the coordinates that are zero and the direction of the row's signs.
        """
        if self.p == 1.0:
            room = np.clip(1.0 - np.abs(S) / self.capacity[:, None], floor, 1.0)
            return lambda Z: room * Z
        room = np.clip(1.0 - self.dual_gauge(S), floor, 1.0)[:, None]
        if self.p == 2.0:
            size = row_norm(S, 2.0)
            normal = S / np.where(size > 0, size, 1.0)[:, None]
            damped = (1.0 - room) * normal
            return lambda Z: Z - damped * np.einsum("ij,ij->i", normal, Z)[:, None]
        support = np.where((S != 0) | (room > 0.5), 1.0, 0.0)
        signs = np.sign(S) / np.sqrt(np.maximum((S != 0).sum(axis=1), 1))[:, None]

        def damp_cross_polytope(Z: Array) -> Array:
            inside = support * Z
            moved = inside - (1.0 - room) * signs * np.einsum("ij,ij->i", signs, inside)[:, None]
            return np.asarray(moved + floor * (1.0 - support) * Z)

        return damp_cross_polytope

    def rounding(self, W: Array, S: Array) -> Array:
        """Bound on the rounding of ``a ||z||_p - <u, z>``, relative to ``a ||z||_p``."""
        return np.asarray((self.dim + 4) * np.finfo(float).eps * 2.0 * self.value(W))

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """``sum_e a_e ||z_e||_p``."""
        return (factor * unit * self.capacity) @ cvxpy_row_norm(W, self.p)

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """The constraints ``||u_e||_* <= a_e``."""
        import cvxpy as cp

        return cp.Constant(0.0), [cvxpy_row_norm(S, DUAL[self.p]) <= self.capacity]


def cvxpy_row_norm(V: Any, p: float) -> Any:
    """p-norm of every row of a CVXPY expression."""
    import cvxpy as cp

    # all norms of one number are its absolute value, and linear solvers take that
    return cp.norm(V, p if V.shape[1] > 1 else 1, axis=1)


def row_norm(V: Array, p: float) -> Array:
    """p-norm of every row."""
    if p == 2.0:
        size = np.sqrt(np.einsum("ij,ij->i", V, V))
        extreme = np.flatnonzero((size < SAFE[0]) | (size > SAFE[1]))  # squares may have under- or overflowed
        extreme = extreme[np.abs(V[extreme]) @ np.ones(V.shape[1]) > 0]  # those of zeros have not
        if len(extreme):
            largest = np.abs(V[extreme]).max(axis=1, initial=0.0)
            safe = np.where(largest > 0, largest, 1.0)
            size[extreme] = largest * np.sqrt(np.square(V[extreme] / safe[:, None]).sum(axis=1))
        return np.asarray(size)
    return np.asarray(np.linalg.norm(V, ord=p, axis=1))


def project_rows(V: Array, radius: Array, p: float) -> Array:
    """Euclidean projection of every row onto the p-norm ball of its radius."""
    if p == np.inf or V.shape[1] == 1:
        return np.clip(V, -radius[:, None], radius[:, None])
    if p == 2.0:
        size = row_norm(V, 2.0)
        factor = np.where(size > radius, radius / np.where(size > 0, size, 1.0), 1.0)
        return np.asarray(V * factor[:, None])
    # l1: soft threshold at the level where the norm equals the radius (Duchi et al. 2008, Figure 1). It is found from
    # the distances to the largest entry: from the entries themselves, rows much longer than the radius would cancel.
    size = np.abs(V)
    below = size.max(axis=1, keepdims=True) - size
    ordered = np.sort(below, axis=1)
    shares = (radius[:, None] + np.cumsum(ordered, axis=1)) / np.arange(1, V.shape[1] + 1)
    count = np.maximum((shares > ordered).sum(axis=1), 1)
    share = shares[np.arange(len(V)), count - 1]
    projected = np.sign(V) * np.maximum(share[:, None] - below, 0.0)
    return np.asarray(np.where(size.sum(axis=1)[:, None] > radius[:, None], projected, V))
