"""Quadratic coupling of quadratic losses: one linear system.

The optimality condition of ``sum_i w_i^T Q_i w_i / 2 - b_i^T w_i + sum_e a_e ||w_head - w_tail||^2`` is
``(blockdiag(Q_i) + 2 D^T diag(a) D) w = b``: equation (3.21) of A. Jung, "Federated Learning: From Theory to Practice"
(2025), in the package's scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from .driver import starting_arrays
from .standard_form import Array, Point, StandardForm, dot

__all__ = ["LinearSystem"]

# A sparse factor of a system this small is cheap even where it fills in.
DIRECT_LIMIT = 3000
# Shift of the factored matrix, relative to each entry of its diagonal: it makes a singular system (a component without
# labels) solvable, and the refinement steps take its effect out again.
SHIFT = 1e-12
EPS = float(np.finfo(float).eps)


@dataclass(slots=True)
class LinearSystemState:
    """Parameters W and residual R = b - K w, the direction, and ``r^T M^{-1} r`` with the preconditioner M.

    ``floor`` is the rounding of b, as the square of a norm.
    """

    W: Array
    R: Array
    multiply: Callable[[Array], Array]
    precondition: Callable[[Array], Array]
    direction: Array
    product: float
    floor: float


@dataclass(frozen=True)
class LinearSystem:
    """Solve the optimality condition by a sparse factor with refinement, or by preconditioned conjugate gradients.

    Parameters
    ----------
    strategy : {"auto", "direct", "cg"}
        ``"auto"`` factors systems of up to 3,000 unknowns and iterates on larger ones, with the device blocks
        ``Q_i + 2 degree_i I`` as the preconditioner.

    Notes
    -----
    The flows are the gradients of the coupling, ``U_e = 2 a_e (w_head - w_tail)``.  The direct step is one refinement
    ``w <- w + (K + shift)^{-1} (b - K w)``, which also finds a solution where K is singular.
    """

    strategy: Literal["auto", "direct", "cg"] = "auto"
    requires: ClassVar[frozenset[str]] = frozenset({"local.quadratic", "couplings.quadratic"})

    def __post_init__(self) -> None:
        if self.strategy not in ("auto", "direct", "cg"):
            raise ValueError(f"strategy must be 'auto', 'direct' or 'cg', got {self.strategy!r}")

    def init(self, form: StandardForm, start: Point | None) -> LinearSystemState:
        """Factor the matrix, or the preconditioner's blocks."""
        W, _ = starting_arrays(form, start)
        Q, b = form.quadratic.quadratic()
        strengths = [term.function.quadratic()[0][:, 0, :] for term in form.couplings]  # 2 a_e, (n_edges, 1)

        def multiply(V: Array) -> Array:
            duals = (s * term.map.apply(V) for s, term in zip(strengths, form.couplings, strict=True))
            return np.asarray(np.matmul(Q, V[:, :, None])[:, :, 0] + form.adjoint(tuple(duals)))

        direct = self.strategy == "direct" or (self.strategy == "auto" and W.size <= DIRECT_LIMIT)
        precondition = (_factor if direct else _block_inverses)(form, Q, strengths)
        R = b - multiply(W)
        direction = precondition(R)
        return LinearSystemState(W, R, multiply, precondition, direction, dot(R, direction), EPS**2 * dot(b, b))

    def step(self, form: StandardForm, state: LinearSystemState) -> LinearSystemState:
        """One preconditioned conjugate gradient step (with a complete factor: a refinement step)."""
        image = state.multiply(state.direction)
        curvature = dot(state.direction, image)
        # solved to the last bit: what is left may lie in the null space, along which a step would run away
        if curvature <= 0 or state.product <= 0 or dot(state.R, state.R) <= state.floor:
            return state
        length = state.product / curvature
        state.W = state.W + length * state.direction
        state.R = state.R - length * image
        scaled = state.precondition(state.R)
        previous, state.product = state.product, dot(state.R, scaled)
        state.direction = scaled + (state.product / previous) * state.direction
        return state

    def point(self, form: StandardForm, state: LinearSystemState) -> Point:
        """Parameters, and the couplings' gradients as duals."""
        duals = (term.function.gradient(term.map.apply(state.W)) for term in form.couplings)
        return Point(state.W, tuple(duals))


def _factor(form: StandardForm, Q: Array, strengths: list[Array]) -> Callable[[Array], Array]:
    """Sparse LU of the whole (slightly shifted) matrix."""
    n, dim = form.n_nodes, form.dim
    K = sparse.bsr_array((Q, np.arange(n), np.arange(n + 1)), shape=(n * dim, n * dim)).tocsr()
    for strength, term in zip(strengths, form.couplings, strict=True):
        M = term.map.matrix()
        K = K + M.T @ sparse.diags_array(np.repeat(strength[:, 0], term.map.width)) @ M
    diagonal = K.diagonal()
    shift = sparse.diags_array(SHIFT * np.where(diagonal > 0, diagonal, 1.0))
    factor = splu((K + shift).tocsc(), permc_spec="MMD_AT_PLUS_A")

    def solve(R: Array) -> Array:
        """Solve with the shifted matrix, and once more for what the shift left over."""
        first = factor.solve(R.ravel())
        return np.asarray((first + factor.solve(R.ravel() - K @ first)).reshape(n, dim))

    return solve


def _block_inverses(form: StandardForm, Q: Array, strengths: list[Array]) -> Callable[[Array], Array]:
    """Inverses of the diagonal blocks (block Jacobi); a coupling's own blocks are bounded by multiples of I."""
    degree = np.zeros(form.n_nodes)
    for strength, term in zip(strengths, form.couplings, strict=True):
        degree += term.map.at_nodes(strength[:, 0])
    blocks = Q + degree[:, None, None] * np.eye(form.dim)
    size = np.einsum("ijj->i", blocks)
    blocks += (SHIFT * np.where(size > 0, size, 1.0))[:, None, None] * np.eye(form.dim)
    inverses = np.linalg.inv(blocks)
    return lambda R: np.matmul(inverses, R[:, :, None])[:, :, 0]
