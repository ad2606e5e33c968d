"""Peers for the squared norm, where the optimum solves ``(Q + 2 alpha L) W = b`` with the weighted Laplacian L."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

import gtvmin as gtv
from benchmarks.answers import Answer, Array, DoesNotFit, Proof, Stopwatch

__all__ = ["multigrid", "plain_cg"]

TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)

Preconditioner = Callable[[gtv.GTVMin, Array], Callable[[Array], Array]]


def plain_cg(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
    """Matrix-free conjugate gradients of SciPy, with the diagonal as preconditioner."""
    return conjugate_gradients(problem, limit, by_diagonal)


def multigrid(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
    """Conjugate gradients with one V-cycle a column of pyamg's smoothed aggregation."""
    return conjugate_gradients(problem, limit, by_multigrid)


def by_diagonal(problem: gtv.GTVMin, Q: Array) -> Callable[[Array], Array]:
    diagonal = np.einsum("ijj->ij", Q) + 2.0 * problem.alpha * problem.network.degrees[:, None]
    return lambda R: R / np.where(diagonal > 0, diagonal, 1.0)


def by_multigrid(problem: gtv.GTVMin, Q: Array) -> Callable[[Array], Array]:
    import pyamg
    from scipy import sparse

    laplacian = 2.0 * problem.alpha * problem.network.laplacian()
    cycles = [
        pyamg.smoothed_aggregation_solver(sparse.csr_matrix(laplacian + sparse.diags(Q[:, j, j]))).aspreconditioner()
        for j in range(problem.dim)
    ]
    return lambda R: np.column_stack([cycle @ column for cycle, column in zip(cycles, R.T, strict=True)])


def conjugate_gradients(problem: gtv.GTVMin, limit: float, precondition: Preconditioner) -> Iterator[Answer]:
    """One run for each tolerance on the residual, from zero; the preconditioner's construction counts each time."""
    form = problem.lowered.form
    if not isinstance(problem.penalty, gtv.SquaredNorm) or len(form.terms) > len(form.couplings):
        raise DoesNotFit("conjugate gradients take quadratic losses with SquaredNorm")
    network, shape = problem.network, (form.n_nodes, form.dim)
    Q, b = form.quadratic.quadratic()
    laplacian, D = 2.0 * problem.alpha * network.laplacian(), network.incidence()
    weights = 2.0 * problem.alpha * network.weights[:, None]

    def apply(w: Array) -> Array:
        W = w.reshape(shape)
        return np.asarray(np.einsum("ijk,ik->ij", Q, W) + laplacian @ W).ravel()

    for tolerance in TOLERANCES:
        watch = Stopwatch()
        with watch:
            solve = precondition(problem, Q)
            w, _ = cg(
                LinearOperator((b.size, b.size), matvec=apply),
                b.ravel(),
                rtol=tolerance,
                maxiter=100_000,
                M=LinearOperator((b.size, b.size), matvec=lambda r, solve=solve: solve(r.reshape(shape)).ravel()),
            )
            W = w.reshape(shape)
            U = weights * (D @ W)
        yield Answer(watch.seconds, 0.0, (Proof(problem, W, (U,)),))
        if watch.seconds > limit:
            return
