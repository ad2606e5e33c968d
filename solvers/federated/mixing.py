"""Mixing matrices: how each device averages its own vector with those of its neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from ..standard_form import Array, StandardForm
from .neighbours import directed_edges

__all__ = ["ORDERS", "Mixing", "MixingMatrix", "Order", "check_order", "coupled_pairs", "require_connected"]

IntArray = NDArray[np.int64]
MixingMatrix = Literal["metropolis", "lazy"] | ArrayLike
Order = Literal["combine-then-adapt", "adapt-then-combine"]
ORDERS = ("combine-then-adapt", "adapt-then-combine")
DENSE_LIMIT = 300
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Mixing:
    """A symmetric, doubly stochastic matrix M with weights on the edges of the network only.

    Attributes
    ----------
    source, target : int arrays (2 n_edges,)
        Ends of the directed edges, those from tail to head first.
    weight : array (2 n_edges,)
        ``M_ij`` of each.
    own : array (n_nodes,)
        ``M_ii``.
    matrix : sparse matrix (n_nodes, n_nodes)
        M.
    """

    source: IntArray
    target: IntArray
    weight: Array
    own: Array
    matrix: sparse.csr_array

    @classmethod
    def of(cls, form: StandardForm, given: MixingMatrix) -> Mixing:
        """That of a form's network.

        ``"metropolis"``: ``M_ij = 1 / (1 + max(number of neighbours of i, of j))``; ``"lazy"``: ``(I + M) / 2`` with
        that M, which is positive semidefinite; or a matrix (n_nodes, n_nodes), dense or sparse.

        Raises
        ------
        ValueError
            If the word is another, or the matrix is not symmetric, has negative entries, rows that do not add up to
            one, or weight between devices that are no neighbours.
        """
        tail, head = coupled_pairs(form)
        if isinstance(given, str):
            if given not in ("metropolis", "lazy"):
                raise ValueError(f"mixing must be 'metropolis', 'lazy' or a matrix, got {given!r}")
            count = np.bincount(np.append(tail, head), minlength=form.n_nodes)
            weight = (1.0 if given == "metropolis" else 0.5) / (1.0 + np.maximum(count[tail], count[head]))
        else:
            weight = _checked(given, tail, head, form.n_nodes)
            used = weight > 0
            tail, head, weight = tail[used], head[used], weight[used]
        source, target, both = np.append(tail, head), np.append(head, tail), np.append(weight, weight)
        own = np.asarray(1.0 - np.bincount(target, both, form.n_nodes), dtype=float)
        off = sparse.csr_array((both, (target, source)), shape=(form.n_nodes, form.n_nodes))
        return cls(source, target, both, own, sparse.csr_array(off + sparse.diags_array(own)))

    @property
    def pairs(self) -> tuple[IntArray, IntArray, Array]:
        """Tail, head and weight of every edge once."""
        m = len(self.source) // 2
        return self.source[:m], self.target[:m], self.weight[:m]

    def apply(self, W: Array) -> Array:
        """``M W``."""
        return np.asarray(self.matrix @ W)

    def combine(self, W: Array, heard: Array) -> Array:
        """``M_ii w_i + sum_j M_ij heard_ij``, of what came over the directed edges (2 n_edges, dim)."""
        return np.asarray(self.own[:, None] * W + self._gather @ heard)

    @cached_property
    def _gather(self) -> sparse.csr_array:
        edges = np.arange(len(self.target))
        return sparse.csr_array((self.weight, (self.target, edges)), shape=(len(self.own), len(edges)))

    @property
    def least_eigenvalue(self) -> float:
        """Least eigenvalue of M, above -1."""
        if self.matrix.shape[0] <= DENSE_LIMIT:
            return float(np.linalg.eigvalsh(self.matrix.toarray())[0])
        start = np.cos(np.arange(self.matrix.shape[0]) ** 2.0)
        return float(eigsh(self.matrix, k=1, which="SA", return_eigenvectors=False, v0=start)[0])

    def require_semidefinite(self) -> None:
        """Refuse a matrix with negative eigenvalues.

        Raises
        ------
        ValueError
            If the least eigenvalue is negative.
        """
        least = self.least_eigenvalue
        if least < -ROUNDING:
            raise ValueError(
                f"mixing has the eigenvalue {least:.3g}: to average after local steps solves a convex program only if "
                "there is no negative one; take mixing='lazy', or (I + M) / 2"
            )


def coupled_pairs(form: StandardForm) -> tuple[IntArray, IntArray]:
    """Ends of every coupled pair of devices once, in the order of the form's couplings."""
    source, target = directed_edges(form)
    m = len(source) // 2
    tail, head = np.minimum(source[:m], target[:m]), np.maximum(source[:m], target[:m])
    first = np.sort(np.unique(tail * form.n_nodes + head, return_index=True)[1])
    return tail[first], head[first]


def require_connected(matrix: sparse.csr_array) -> None:
    """Refuse a network in parts, whose devices cannot agree.

    Raises
    ------
    ValueError
        If there is more than one part.
    """
    parts, _ = connected_components(matrix, directed=False)
    if parts > 1:
        raise ValueError(f"the network falls into {parts} parts, which cannot agree: solve them one by one")


def check_order(order: str) -> None:
    """Raise a ValueError for a word that is no order of combining and adapting."""
    if order not in ORDERS:
        raise ValueError(f"order must be 'combine-then-adapt' or 'adapt-then-combine', got {order!r}")


def _checked(given: Any, tail: IntArray, head: IntArray, n: int) -> Array:
    """Weights of the edges in a matrix that has all that is asked of it."""
    M = (
        sparse.coo_array(given if sparse.issparse(given) else np.array(given, dtype=float, ndmin=2))
        .tocsr()
        .astype(float)
    )
    if M.shape != (n, n) or not np.isfinite(M.data).all():
        raise ValueError(f"mixing must be a matrix of {n} by {n} finite numbers, one row a device")
    i, j, difference = _largest_entry(M - M.T)
    if difference > ROUNDING:
        raise ValueError(f"mixing must be symmetric, but has {M[i, j]:g} at ({i}, {j}) and {M[j, i]:g} at ({j}, {i})")
    i, j, below = _largest_entry(-M)
    if below > 0:
        raise ValueError(f"mixing must have no negative entries, but has {M[i, j]:g} at ({i}, {j})")
    sums = np.asarray(M.sum(axis=1)).ravel()
    if np.abs(sums - 1.0).max() > ROUNDING:
        i = int(np.abs(sums - 1.0).argmax())
        raise ValueError(f"mixing must be doubly stochastic, but row {i} adds up to {sums[i]:g}")
    ends, every = np.append(tail, head), np.arange(n)
    allowed = sparse.csr_array(
        (np.ones(len(ends) + n), (np.append(ends, every), np.concatenate([head, tail, every]))), shape=(n, n)
    )
    i, j, weight = _largest_entry(M - M.multiply(allowed))
    if weight > 0:
        raise ValueError(f"mixing has weight {weight:g} between the devices at {i} and {j}, which are no neighbours")
    return np.asarray(sparse.csr_matrix(M)[tail, head], dtype=float).ravel() if len(tail) else np.zeros(0)


def _largest_entry(M: sparse.csr_array) -> tuple[int, int, float]:
    """Row, column and value of the largest stored entry; zero where there is none."""
    entries = sparse.coo_array(M)
    if not entries.nnz:
        return 0, 0, 0.0
    k = int(entries.data.argmax())
    i, j = entries.coords
    return int(i[k]), int(j[k]), float(entries.data[k])
