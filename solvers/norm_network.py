"""A network Lasso with quadratic losses, groups of its devices, and the contracted problem of the groups.

Importing this module imports numba.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from .linear_maps import Array, EdgeDifference
from .standard_form import StandardForm

__all__ = ["Groups", "NormNetwork", "group"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NormNetwork:
    """``minimise sum_i w_i^T H_i w_i / 2 - b_i^T w_i + sum_e cap_e ||w_head - w_tail||_2``.

    Attributes
    ----------
    tail, head : int arrays (m,)
        Edges.
    capacity : array (m,)
        Strengths of the norms.
    H, b : arrays (n, dim, dim), (n, dim)
        Quadratic losses.
    """

    tail: IntArray
    head: IntArray
    capacity: Array
    H: Array
    b: Array

    @classmethod
    def of(cls, form: StandardForm) -> NormNetwork | None:
        """The network Lasso that a form states; None if it states something else."""
        term = form.couplings[0]
        norm = term.function.norm
        if len(form.couplings) > 1 or form.rows or norm is None or not isinstance(term.map, EdgeDifference):
            return None
        capacity, p = norm
        if (p != 2.0 and form.dim > 1) or "quadratic" not in form.quadratic.capabilities or not term.map.n_rows:
            return None
        return cls(term.map.tail, term.map.head, capacity, *form.quadratic.quadratic())

    def lengths(self, W: Array) -> Array:
        """``||w_head - w_tail||`` of every edge."""
        out: Array = _lengths(W, self.tail, self.head)
        return out

    def contracted(self, groups: Groups) -> NormNetwork:
        """The problem of the groups: parallel edges are put together, and those inside a group vanish."""
        k, labels = groups.count, groups.labels
        ends = labels[self.tail[groups.between]], labels[self.head[groups.between]]
        between = self.capacity[groups.between], (np.minimum(*ends), np.maximum(*ends))
        links = sparse.coo_array(between, shape=(k, k)).tocsr()  # sums parallel ones
        tail = np.repeat(np.arange(k), np.diff(links.indptr))
        H = groups.sums(self.H.reshape(len(labels), -1)).reshape(k, *self.H.shape[1:])
        return NormNetwork(tail, links.indices.astype(np.int64), links.data, H, groups.sums(self.b))


@dataclass(frozen=True, eq=False)
class Groups:
    """A partition of the devices.

    Attributes
    ----------
    labels : int array (n,)
        Group of each device, numbered in the order of their first devices.
    count : int
        Number of groups.
    between : int array
        Edges between different groups.
    """

    labels: IntArray
    count: int
    between: IntArray

    def sums(self, rows: Array) -> Array:
        """Sum rows, one a device, over every group."""
        n = len(self.labels)
        member = sparse.csr_array((np.ones(n), self.labels, np.arange(n + 1)), shape=(n, self.count))
        return np.asarray(member.T @ rows)

    def means(self, rows: Array) -> Array:
        """Mean over every group."""
        return np.asarray(self.sums(rows) / np.bincount(self.labels, minlength=self.count)[:, None])


def group(network: NormNetwork, lengths: Array, most: float) -> Groups:
    """Devices joined by edges across which the parameters differ by no more than ``most``."""
    labels, count = _join(network.tail, network.head, lengths, most, len(network.b))
    between = np.flatnonzero(labels[network.tail] != labels[network.head])
    return Groups(labels, int(count), between)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _lengths(W: Array, tail: IntArray, head: IntArray) -> Array:
    out = np.zeros(len(tail))
    for e in range(len(tail)):
        total = 0.0
        for k in range(W.shape[1]):
            total += (W[head[e], k] - W[tail[e], k]) ** 2
        out[e] = np.sqrt(total)
    return out


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _root(parent: IntArray, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _join(tail: IntArray, head: IntArray, lengths: Array, most: float, n: int) -> tuple[IntArray, int]:
    parent = np.arange(n)
    for e in range(len(tail)):
        if lengths[e] <= most:
            i, j = _root(parent, tail[e]), _root(parent, head[e])
            parent[max(i, j)] = min(i, j)
    labels, count = np.zeros(n, dtype=np.int64), 0
    for i in range(n):
        if parent[i] == i:  # roots are the first of their group
            labels[i] = count
            count += 1
        else:
            labels[i] = labels[_root(parent, i)]
    return labels, count
