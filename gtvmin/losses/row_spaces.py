"""What each device's least-squares rows see of its parameters: ranks, bases and square roots of pseudo-inverses.

All of it is invariant, as far as doubles allow, to the units of the parameters: ranks are those of the rows with
columns of unit length.  Triangles whose inverses are of moderate size prove that rows, or columns, are independent,
and then serve as well as singular values, which cost ten times as much and are left to the devices in doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.solvers.standard_form import Array

__all__ = ["RowSpaces", "row_spaces"]

IntArray = NDArray[np.int64]

# Singular values of the rows with columns of unit length are taken for zero below this.  What such directions take
# part in is charged as rounding; if they counted, the rounding of a gradient over their curvature would be larger.
RANK_TOLERANCE = 1e-12
# Inverse triangles of no larger size are as good as singular values.
SAFE_SIZE = 1e3


@dataclass(frozen=True, eq=False)
class RowSpaces:
    """Row spaces of matrices ``A_i`` with ``Q_i = A_i^T A_i``.

    Attributes
    ----------
    rank : int array (n,)
        Dimension of each.
    sure : bool array (n,)
        Where the rank is that of A_i by a margin.
    largest : array (n,)
        At least the largest eigenvalue of Q_i in the scales that give it a unit diagonal, if not much more.
    root : array (n, k, dim)
        ``G_i`` with ``||G_i diag(s_i) v||^2 = v^T Q_i^+ v`` for v in the range of Q_i and these scales s_i.
    basis : array (number of devices with a rank between 0 and dim, dim, k)
        Orthonormal columns that span the range of Q_i, then zeros.
    """

    rank: IntArray
    sure: NDArray[np.bool_]
    largest: Array
    root: Array
    basis: Array


def row_spaces(factors: Iterable[tuple[IntArray, Array]], scale: Array) -> RowSpaces:
    """Row spaces of ``A_i``, given for devices (k,) in turn as arrays (k, m, dim) with ``m <= dim``.

    Devices that are not given have no rows.
    """
    n, dim = scale.shape
    rank, sure, found = np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool), []
    largest = np.full(n, float(dim))
    for devices, A in factors:
        scales = scale[devices]
        safe, root, basis = _by_columns(A, scales) if A.shape[1] == dim else _by_rows(A, scales)
        rank[devices] = A.shape[1]
        found.append((_some(devices, safe), root, basis))
        doubtful = np.flatnonzero(~safe)
        if len(doubtful):
            sigma, root, basis = _by_singular_values(A[doubtful], scales[doubtful])
            doubtful = devices[doubtful]
            rank[doubtful], largest[doubtful] = np.count_nonzero(sigma, axis=1), sigma[:, 0] ** 2
            sure[doubtful] = False
            found.append((doubtful, root, basis))
    partial = (rank > 0) & (rank < dim)
    if len(found) == 1 and len(found[0][0]) == n:  # all devices alike: no copies
        return RowSpaces(rank, sure, largest, found[0][1], _some(found[0][2], partial))
    roots = np.zeros((n, max((root.shape[1] for _, root, _ in found), default=0), dim))
    bases = np.zeros((int(partial.sum()), dim, int(rank[partial].max(initial=0))))
    position = np.cumsum(partial) - 1
    for devices, root, basis in found:
        roots[devices, : root.shape[1]] = root
        own = partial[devices]
        columns = min(basis.shape[2], bases.shape[2])  # those beyond are zero
        bases[position[devices[own]], :, :columns] = basis[own, :, :columns]
    return RowSpaces(rank, sure, largest, roots, bases)


def _some(values: NDArray[Any], chosen: NDArray[np.bool_]) -> NDArray[Any]:
    """The chosen ones, without a copy if these are all."""
    return values if chosen.all() else values[chosen]


def _by_columns(A: Array, scale: Array) -> tuple[NDArray[np.bool_], Array, Array]:
    """Where square triangles have independent columns, and for these the inverses as roots; no bases, which are all."""
    scaled = A * scale[:, None, :]
    safe = (np.abs(np.einsum("ijj->ij", scaled)) * SAFE_SIZE >= 1.0).all(axis=1)
    inverse = np.linalg.inv(_some(scaled, safe))
    small = np.einsum("ijk,ijk->i", inverse, inverse) <= SAFE_SIZE**2
    safe[safe] = small
    root = np.ascontiguousarray(np.swapaxes(_some(inverse, small), 1, 2))
    return safe, root, np.zeros((len(root), A.shape[2], 0))


def _by_rows(A: Array, scale: Array) -> tuple[NDArray[np.bool_], Array, Array]:
    """Where rows are independent, fewer than columns, and for these roots and bases.

    With ``A^T = B R`` the pseudo-inverse of ``A^T A`` is that of ``G = R^{-1} B^T``.  The least singular value of R
    times the least of the scales is at most that of A with columns of unit length.
    """
    basis, triangle = np.linalg.qr(np.swapaxes(A, 1, 2))
    longest = np.sqrt(np.einsum("ijk,ijk->ik", A, A).max(axis=1))
    diagonal = np.abs(np.einsum("ijj->ij", triangle)).min(axis=1)
    safe = (diagonal * SAFE_SIZE >= longest) & (longest > 0)
    inverse = np.linalg.inv(_some(triangle, safe))
    small = np.einsum("ijk,ijk->i", inverse, inverse) * longest[safe] ** 2 <= SAFE_SIZE**2
    safe[safe] = small
    own = _some(basis, safe)
    root = _some(inverse, small) @ np.swapaxes(own, 1, 2)
    root /= _some(scale, safe)[:, None, :]
    return safe, root, own


def _by_singular_values(A: Array, scale: Array) -> tuple[Array, Array, Array]:
    """Singular values of the rows with columns of unit length, those taken for zero as zeros; roots and bases."""
    dim, most = A.shape[2], A.shape[1]
    scaled = A * scale[:, None, :]
    finite = np.asarray(np.isfinite(scaled).all(axis=(1, 2)))
    _, sigma, right = np.linalg.svd(np.where(finite[:, None, None], scaled, 0.0))
    positive = sigma > RANK_TOLERANCE * dim
    rank = positive.sum(axis=1)
    root = np.where(positive, 1.0 / np.where(positive, sigma, 1.0), 0.0)[:, :, None] * right[:, :most]
    root[~finite] = np.nan  # numbers beyond the range of doubles prove nothing
    # null(Q) = diag(s) null(diag(s) Q diag(s)); the left singular vectors beyond its rank span its complement
    null = np.arange(dim) >= rank[:, None]
    left = np.linalg.svd(scale[:, :, None] * np.swapaxes(right * null[:, :, None], 1, 2))[0]
    beyond = np.arange(dim) >= dim - rank[:, None]
    return np.where(positive, sigma, 0.0), root, (left * beyond[:, None, :])[:, :, ::-1][:, :, :most]
