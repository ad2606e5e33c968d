"""Eigenvalues of the Laplacian that say how well a network is connected."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from gtvmin.edges import FloatArray

__all__ = ["second_smallest_eigenvalue"]

# Up to this size all eigenvalues of a dense Laplacian are cheaper than a sparse factorisation and Lanczos steps.
_DENSE_SIZE = 400


def second_smallest_eigenvalue(laplacian: sparse.csr_array) -> float:
    """Smallest eigenvalue but 0 of the Laplacian of a connected graph with at least two nodes."""
    if laplacian.shape[0] > _DENSE_SIZE:
        return _by_inverse_iteration(laplacian)
    values = eigh(laplacian.toarray(), eigvals_only=True, subset_by_index=(1, 1))
    return max(float(values[0]), 0.0)


def _by_inverse_iteration(laplacian: sparse.csr_array) -> float:
    """The same for a large sparse Laplacian, by Lanczos steps on its pseudo-inverse.

    The shift is 0: with one node grounded the Laplacian is positive definite, and projecting constants out before and
    after the solve gives the pseudo-inverse, whose largest eigenvalue is the inverse of the one sought.
    """
    n = laplacian.shape[0]
    factor = splu(
        laplacian[1:, 1:].tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def apply(vector: FloatArray) -> FloatArray:
        flat = vector.ravel()
        solved = np.r_[0.0, factor.solve(flat[1:] - flat.mean())]
        return np.asarray(solved - solved.mean())

    start = np.random.default_rng(0).standard_normal(n)
    inverse = LinearOperator((n, n), matvec=apply, dtype=np.float64)
    largest = eigsh(inverse, k=1, which="LA", v0=start - start.mean(), return_eigenvectors=False)
    return float(1 / largest[0])
