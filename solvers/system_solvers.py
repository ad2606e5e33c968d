"""Ways to solve ``(blockdiag(Q_i) + sum_k K_k^T diag(s_k) K_k) Z = R`` for maps K_k and strengths s_k of couplings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from .conjugate_gradients import Operator, conjugate_gradients, numpy_updates
from .linear_maps import Array, EdgeDifference
from .standard_form import StandardForm

if TYPE_CHECKING:
    from .multigrid import BlockLevels

__all__ = ["Solve", "direct_solve", "iterative_solve"]

Solve = Callable[[Array, float], Array]
"""``(R, target) -> Z`` with a residual whose norm is at most the target, if that was within reach."""

# Shift of the factored matrix, relative to each entry of its diagonal: it makes a singular system (a component without
# labels) solvable, and conjugate gradients take its effect out again.
SHIFT = 1e-12
# Limits on the iterations of one call.
DIRECT_LIMIT, ITERATION_LIMIT, MULTIGRID_LIMIT = 20, 1000, 200
# Below this ratio of mean degree to mean curvature the blocks of the devices' losses are worth inverting.
LOCAL = 0.1
# In iterations of the Jacobi method: cost of setting up multigrid, and of reducing the norm of the residual by a digit.
SETUP_COST, DIGIT_COST = 30.0, 10.0
PROBE = 8
# Parameters beyond a cache, of neighbours that are further apart than this share of all devices, are reordered.
FAR_NUMBERS, FAR_SHARE = 500_000, 0.05


def direct_solve(form: StandardForm, Q: Array, strengths: list[Array]) -> Solve:
    """Sparse LU of the whole (slightly shifted) matrix as the preconditioner."""
    n, dim = form.n_nodes, form.dim
    K = sparse.bsr_array((Q, np.arange(n), np.arange(n + 1)), shape=(n * dim, n * dim)).tocsr()
    for strength, term in zip(strengths, form.couplings, strict=True):
        M = term.map.matrix()
        K = K + M.T @ sparse.diags_array(np.repeat(strength, term.map.width)) @ M
    diagonal = K.diagonal()
    shift = sparse.diags_array(SHIFT * np.where(diagonal > 0, diagonal, 1.0))
    factor = splu((K + shift).tocsc(), permc_spec="MMD_AT_PLUS_A")

    def precondition(R: Array, out: Array) -> None:
        # (K + shift)^{-1} K (K + shift)^{-1}: of a rounding error in the null space 1/SHIFT as much would be left
        out[:] = factor.solve(K @ factor.solve(R.ravel())).reshape(n, dim)

    return _plain_solve(lambda V, out: np.copyto(out, (K @ V.ravel()).reshape(n, dim)), precondition, DIRECT_LIMIT)


def iterative_solve(form: StandardForm, Q: Array, strengths: list[Array]) -> Solve:
    """Multigrid where it pays, for plain differences across edges; the blocks of the diagonal for other maps."""
    maps = [term.map for term in form.couplings]
    if all(isinstance(map, EdgeDifference) for map in maps):
        return _graph_solve(form, Q, form.quadratic.few_rows(), strengths)
    degree = np.zeros(form.n_nodes)
    for strength, map in zip(strengths, maps, strict=True):  # a coupling's own blocks are bounded by multiples of I
        degree += map.at_nodes(strength)
    blocks = Q + degree[:, None, None] * np.eye(form.dim)
    size = np.einsum("ijj->i", blocks)
    blocks += (SHIFT * np.where(size > 0, size, 1.0))[:, None, None] * np.eye(form.dim)
    inverses = np.linalg.inv(blocks)

    def multiply(V: Array, out: Array) -> None:
        duals = tuple(s[:, None] * map.apply(V) for s, map in zip(strengths, maps, strict=True))
        out[:] = np.matmul(Q, V[:, :, None])[:, :, 0] + form.adjoint(duals)

    def precondition(R: Array, out: Array) -> None:
        out[:] = np.matmul(inverses, R[:, :, None])[:, :, 0]

    return _plain_solve(multiply, precondition, ITERATION_LIMIT)


def _plain_solve(multiply: Operator, precondition: Operator, limit: int) -> Solve:
    def solve(R: Array, target: float) -> Array:
        return conjugate_gradients(
            multiply, precondition, R, target**2, lambda sizes: len(sizes) <= limit, numpy_updates()
        )

    return solve


def _graph_solve(
    form: StandardForm, Q: Array, rows: Array | None, strengths: list[Array], reorder: bool = True
) -> Solve:
    """Conjugate gradients with a Jacobi preconditioner, which multigrid relieves once it is too slow."""
    from .aggregation import Graph, build_hierarchy
    from .multigrid import BlockLevels, multigrid_cycle
    from .vector_updates import compiled_updates

    tail, head = (np.concatenate([term.map.ends[k] for term in form.couplings]) for k in (0, 1))
    if reorder and form.n_nodes * form.dim > FAR_NUMBERS and np.abs(head - tail).mean() > FAR_SHARE * form.n_nodes:
        return _reordered_solve(form, Q, rows, strengths)
    graph = Graph.of_edges(tail, head, np.concatenate(strengths), form.n_nodes)
    levels = BlockLevels(build_hierarchy(graph, levels=1), Q, rows)
    updates, cycle = compiled_updates(), None
    jacobi = _jacobi(levels, Q)

    def solve(R: Array, target: float) -> Array:
        nonlocal cycle
        Z = np.zeros_like(R)
        if cycle is None:
            Z = conjugate_gradients(
                levels.product, jacobi, R, target**2, lambda sizes: not _too_slow(sizes, target**2), updates
            )
            if updates.inner(R, R) <= target**2:
                return Z
            cycle = multigrid_cycle(BlockLevels(build_hierarchy(graph), Q))
        Z += conjugate_gradients(
            levels.product, cycle, R, target**2, lambda sizes: len(sizes) <= MULTIGRID_LIMIT, updates
        )
        return Z

    return solve


def _reordered_solve(form: StandardForm, Q: Array, rows: Array | None, strengths: list[Array]) -> Solve:
    """With neighbours near to each other in memory, as far as the reverse Cuthill-McKee order brings that."""
    n = form.n_nodes
    tail, head = (np.concatenate([term.map.ends[k] for term in form.couplings]) for k in (0, 1))
    links = sparse.csr_array((np.ones(len(tail)), (tail, head)), shape=(n, n))
    order = reverse_cuthill_mckee((links + links.T).tocsr(), symmetric_mode=True)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    terms = tuple(replace(term, map=term.map.renumbered(position, n)) for term in form.couplings)
    rows = None if rows is None else rows[order]
    inner = _graph_solve(replace(form, couplings=terms), Q[order], rows, strengths, reorder=False)

    def solve(R: Array, target: float) -> Array:
        return inner(R[order], target)[position]

    return solve


def _jacobi(levels: BlockLevels, Q: Array) -> Operator:
    from .vector_updates import block_jacobi, point_jacobi

    curvature = float(np.einsum("ijj->", Q)) / Q.shape[1]
    local = float(levels.graphs.degrees.sum()) <= LOCAL * curvature
    return block_jacobi(levels.inverses(np.ones(len(Q), dtype=bool))) if local else point_jacobi(levels.diagonal)


def _too_slow(sizes: list[float], target: float) -> bool:
    """Whether multigrid would arrive earlier, by the rate over the second half of the iterations so far."""
    done = len(sizes) - 1
    if done < PROBE or done % PROBE:
        return False
    digits = 0.5 * np.log10(sizes[-1] / target)
    rate = 0.5 * np.log10(sizes[done // 2] / sizes[-1]) / (done - done // 2)
    return bool(digits > rate * (SETUP_COST + DIGIT_COST * digits))
