"""One cycle of aggregation multigrid on a matrix ``blockdiag(Q_i) + L kron I``.  Importing this module imports numba.

Smoothing is one block Gauss-Seidel sweep forwards before, and one backwards after the coarse correction, which takes
two steps of flexible conjugate gradients with the next level's cycle as their preconditioner (the K-cycle).

Y. Notay, P. S. Vassilevski, "Recursive Krylov-based multigrid cycles", Numerical Linear Algebra with Applications 15
(2008), 473-487, DOI 10.1002/nla.542.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .aggregation import Hierarchy
from .linear_maps import Array
from .operators import invert_blocks
from .system_products import multiply_level, multiply_rows

__all__ = ["BlockLevels", "multigrid_cycle"]

IntArray = NDArray[np.int64]

# A coarse residual that one step brings below this share needs no second one.
ENOUGH = 0.25
# Two steps, unless a level has more than this share of the work of the one before: the visits double with every level.
SHRINKING = 0.45
# Blocks are taken for diagonal where the trace of Q is no more than this share of the degree.
PLAIN = 0.1
# Eigenvalues of a block scaled to a unit diagonal that are taken for zero.
RANK_TOLERANCE = 1e-13


class BlockLevels:
    """The matrices of all levels: blocks ``Q_i + degree_i I`` on the diagonal, ``-weight I`` between neighbours.

    Q of a group is the sum over its members.

    Parameters
    ----------
    graphs : Hierarchy
        Graphs of the levels.
    Q : array (n_nodes, dim, dim)
        Of the devices.
    rows : array (n_nodes, m, dim), optional
        Matrices ``R_i`` with ``Q_i = R_i^T R_i`` and a small m: products with them read less memory.
    """

    def __init__(self, graphs: Hierarchy, Q: Array, rows: Array | None = None) -> None:
        self.graphs, self.Q, self.rows = graphs, Q, rows
        if len(graphs.at) > 2:
            self.Q = np.empty((len(graphs.parent), *Q.shape[1:]))
            _add_up(Q, graphs.parent, self.Q)

    def blocks(self, nodes: NDArray[np.bool_]) -> Array:
        """Blocks on the diagonal, of some nodes."""
        return self.Q[nodes] + self.graphs.degrees[nodes][:, None, None] * np.eye(self.Q.shape[1])

    @property
    def diagonal(self) -> Array:
        """Diagonals of all blocks (n_total, dim)."""
        return np.asarray(np.einsum("ijj->ij", self.Q) + self.graphs.degrees[:, None])

    def inverses(self, nodes: NDArray[np.bool_]) -> Array:
        """Inverses of the blocks of some nodes, pseudo-inverses for those without neighbours; the others' are empty."""
        out = np.empty_like(self.Q)
        out[nodes] = invert_blocks(self.blocks(nodes))
        alone = nodes & (self.graphs.degrees == 0)
        blocks = self.blocks(alone)
        diagonal = np.einsum("ijj->ij", blocks)
        scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(blocks * scale[:, :, None] * scale[:, None, :])
        positive = values > RANK_TOLERANCE * blocks.shape[1]
        roots = scale[:, :, None] * vectors / np.sqrt(np.where(positive, values, np.inf))[:, None, :]
        out[alone] = roots @ np.swapaxes(roots, 1, 2)
        return out

    @cached_property
    def plain(self) -> NDArray[np.bool_]:
        """Nodes whose neighbours outweigh their losses: their blocks are about multiples of the identity."""
        degrees = self.graphs.degrees
        return np.asarray(np.einsum("ijj->i", self.Q) <= PLAIN * degrees) & (degrees > 0)

    def product(self, V: Array, out: Array) -> None:
        """The finest level's matrix times V."""
        g = self.graphs
        if self.rows is None:
            multiply_level(0, len(V), g.start, g.neighbour, g.weight, g.degrees, self.Q, V, out)
        else:
            multiply_rows(g.start, g.neighbour, g.weight, g.degrees, self.rows, V, out)


def multigrid_cycle(levels: BlockLevels) -> Callable[[Array, Array], None]:
    """``(B, out)`` puts about ``A^{-1} B`` in ``out``; not quite a linear map of B."""
    g = levels.graphs
    n, dim = int(g.at[1]), levels.Q.shape[1]
    B, X, C, AC, AX = (np.zeros((int(g.at[-1]), dim)) for _ in range(5))
    plain, diagonal = levels.plain, levels.diagonal
    scale, inverses = 1.0 / np.where(diagonal > 0, diagonal, 1.0), levels.inverses(~plain)
    work = np.diff(g.at) * float(dim) + np.diff(g.start[g.at])
    twice = np.append(work[1:] <= SHRINKING * work[:-1], False)

    def cycle(rhs: Array, out: Array) -> None:
        B[:n] = rhs
        _cycle(
            0, g.at, twice, g.start, g.neighbour, g.weight, g.degrees, levels.Q, plain, scale, inverses, g.parent,
            B, X, C, AC, AX,
        )  # fmt: skip
        out[:] = X[:n]

    return cycle


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _add_up(Q: Array, parent: IntArray, sums: Array) -> None:
    """Of every node the sum of Q over the devices that it stands for."""
    n, total, dim = len(Q), len(parent), Q.shape[1]
    for i in range(total):
        for j in range(dim):
            for k in range(dim):
                sums[i, j, k] = Q[i, j, k] if i < n else 0.0
    for i in range(total):  # parents come after their members
        if parent[i] >= 0:
            for j in range(dim):
                for k in range(dim):
                    sums[parent[i], j, k] += sums[i, j, k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _sweep(
    first: int, last: int, forwards: bool, start: IntArray, neighbour: IntArray, weight: Array,
    plain: NDArray[np.bool_], scale: Array, inverses: Array, B: Array, X: Array,
) -> None:  # fmt: skip
    """Gauss-Seidel: solve the equations of one node after the other for its unknowns; forwards it starts from zero."""
    dim = X.shape[1]
    rest = np.empty(dim)
    for step in range(last - first):
        i = first + step if forwards else last - 1 - step
        for j in range(dim):
            rest[j] = B[i, j]
        for e in range(start[i], start[i + 1]):
            other = neighbour[e]
            if other < i or not forwards:
                factor = weight[e]
                for j in range(dim):
                    rest[j] += factor * X[other, j]
        if plain[i]:
            for j in range(dim):
                X[i, j] = scale[i, j] * rest[j]
            continue
        for j in range(dim):
            total = 0.0
            for k in range(dim):
                total += inverses[i, j, k] * rest[k]
            X[i, j] = total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _restrict(
    first: int, last: int, start: IntArray, neighbour: IntArray, weight: Array, parent: IntArray, X: Array, B: Array
) -> None:
    """Add up what a sweep forwards left: what every node's later neighbours have changed in its equations."""
    for i in range(first, last):
        group = parent[i]
        if group >= 0:
            for e in range(start[i], start[i + 1]):
                other = neighbour[e]
                if other > i:
                    factor = weight[e]
                    for j in range(X.shape[1]):
                        B[group, j] += factor * X[other, j]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _inner(first: int, last: int, U: Array, V: Array) -> float:
    total = 0.0
    for i in range(first, last):
        for j in range(U.shape[1]):
            total += U[i, j] * V[i, j]
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _cycle(
    level: int, at: IntArray, twice: NDArray[np.bool_], start: IntArray, neighbour: IntArray, weight: Array,
    degrees: Array, Q: Array, plain: NDArray[np.bool_], scale: Array, inverses: Array, parent: IntArray,
    B: Array, X: Array, C: Array, AC: Array, AX: Array,
) -> int:  # fmt: skip
    """Put about ``A^{-1} B`` in X on one level; the rows of the levels below are scratch."""
    first, last, dim = at[level], at[level + 1], B.shape[1]
    _sweep(first, last, True, start, neighbour, weight, plain, scale, inverses, B, X)
    if level + 2 == len(at):
        return 0
    low, high = last, at[level + 2]
    B[low:high] = 0.0
    _restrict(first, last, start, neighbour, weight, parent, X, B)
    _cycle(
        level + 1, at, twice, start, neighbour, weight, degrees, Q, plain, scale, inverses, parent, B, X, C, AC, AX
    )  # fmt: skip
    multiply_level(low, high, start, neighbour, weight, degrees, Q, X, AX)
    curvature, slope = _inner(low, high, X, AX), _inner(low, high, X, B)
    if curvature > 0.0:
        size, length = _inner(low, high, B, B), slope / curvature
        for i in range(low, high):
            for j in range(dim):
                B[i, j] -= length * AX[i, j]
                C[i, j], AC[i, j] = X[i, j], AX[i, j]
                X[i, j] *= length
        if twice[level] and _inner(low, high, B, B) > ENOUGH**2 * size:
            _cycle(
                level + 1, at, twice, start, neighbour, weight, degrees, Q, plain, scale, inverses, parent,
                B, X, C, AC, AX,
            )  # fmt: skip
            multiply_level(low, high, start, neighbour, weight, degrees, Q, X, AX)
            mixed, slope_2 = _inner(low, high, X, AC), _inner(low, high, X, B)
            curvature_2 = _inner(low, high, X, AX) - mixed**2 / curvature
            second = slope_2 / curvature_2 if curvature_2 > 0.0 else 0.0
            along = length - mixed * second / curvature
            for i in range(low, high):
                for j in range(dim):
                    X[i, j] = along * C[i, j] + second * X[i, j]
    for i in range(first, last):
        group = parent[i]
        if group >= 0:
            for j in range(dim):
                X[i, j] += X[group, j]
    _sweep(first, last, False, start, neighbour, weight, plain, scale, inverses, B, X)
    return 0
