"""How clusters follow one another along a path: what stays together, what splits, and the tree of merges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from gtvmin.solvers.standard_form import Array

__all__ = ["follow", "longest_lasting", "merge_linkage"]

IntArray = NDArray[np.int64]


def follow(before: IntArray, now: IntArray, W: Array, mass: Array, gap: float) -> tuple[IntArray, IntArray]:
    """Keep clusters together that were so before, unless the certificate proves that they have parted.

    The pieces into which a cluster falls are compared with its heaviest.  With ``sum_i mu_i/2 ||w_i - w_i*||^2 <= gap``
    the mean of a piece of mass M, the sum of its mu_i, is off by at most ``sqrt(2 gap / M)``, and the difference of two
    means by at most ``sqrt(2 gap (1/M + 1/M'))``: pieces further apart than that are different clusters.

    Parameters
    ----------
    before, now : int arrays (n_nodes,)
        Clusters at the last strength, and as they look at this one.
    W : array (n_nodes, dim)
        Parameters.
    mass : array (n_nodes,)
        Strong convexity ``mu_i`` of the losses.
    gap : float
        Certified bound on the suboptimality.

    Returns
    -------
    labels : int array (n_nodes,)
        Clusters, numbered in order of their first nodes.
    parted : int array (k, 2)
        For every piece that is proved to have parted, one node of it and one of the piece that it was with.
    """
    size = int(now.max()) + 1
    keys, first, piece, count = np.unique(
        before * size + now, return_index=True, return_inverse=True, return_counts=True
    )
    pairs = np.column_stack([keys // size, keys % size])
    total = np.bincount(piece, mass)
    safe = np.where(total > 0, total, 1.0)
    means = np.column_stack([np.bincount(piece, mass * column) / safe for column in W.T])
    # the heaviest piece of each cluster comes first
    order = np.lexsort([-count, -total, pairs[:, 0]])
    heads = order[np.r_[True, np.diff(pairs[order, 0]) > 0]]
    heaviest = heads[np.searchsorted(pairs[heads, 0], pairs[:, 0])]
    others = np.flatnonzero(heaviest != np.arange(len(pairs)))
    main = heaviest[others]
    error = np.sqrt(2.0 * gap * (1.0 / safe[others] + 1.0 / safe[main]))
    weighed = (total[others] > 0) & (total[main] > 0)
    parted = weighed & (np.linalg.norm(means[others] - means[main], axis=1) > error)
    links = (np.ones(int((~parted).sum())), (pairs[others[~parted], 1], pairs[main[~parted], 1]))
    joined = connected_components(sparse.coo_array(links, shape=(size, size)), directed=False)[1]
    return joined[now].astype(np.int64), np.column_stack([first[main[parted]], first[others[parted]]])


def merge_linkage(tail: IntArray, head: IntArray, lams: Array, W: Array, labels: IntArray) -> Array:
    """Linkage matrix (n_nodes - 1, 4) of clusters that only merge, in the format of ``scipy.cluster.hierarchy``.

    A merge has the first strength of the grid at which it is seen as its height.  Of merges at the same strength the
    one whose ends were closest before comes first.  What is not joined in the end is joined at infinity.
    """
    never, n = labels.shape
    together = labels[:, tail] == labels[:, head]
    step = np.where(together.any(axis=0), together.argmax(axis=0), never)
    last = np.clip(step - 1, 0, None)
    distance = np.linalg.norm(W[last, head] - W[last, tail], axis=1)
    rank = np.empty(len(tail))
    rank[np.lexsort([distance, step])] = np.arange(1, len(tail) + 1)
    tree = minimum_spanning_tree(sparse.csr_array((rank, (tail, head)), shape=(n, n))).tocoo()
    chosen = np.argsort(tree.data)
    edge = np.argsort(rank)[tree.data[chosen].astype(np.int64) - 1]
    heights = np.append(lams, np.inf)[step[edge]]
    merges = list(zip(tail[edge].tolist(), head[edge].tolist(), heights.tolist(), strict=True))
    roots = np.unique(connected_components(tree, directed=False)[1], return_index=True)[1].tolist()
    merges += [(roots[0], root, np.inf) for root in roots[1:]]
    return _stack_merges(merges, n)


def longest_lasting(lams: Array, counts: IntArray, most: int) -> int | None:
    """Number of clusters, 2 to ``most``, whose run has the largest ratio of the strengths at its end and its begin.

    Runs at either end of the path, which may have begun earlier or go on, are left out.
    """
    starts = np.flatnonzero(np.diff(counts)) + 1
    begin, end = starts[:-1], starts[1:]
    usable = (counts[begin] >= 2) & (counts[begin] <= most)
    begin, end = begin[usable], end[usable]
    return int(counts[begin[np.argmax(lams[end] / lams[begin])]]) if len(begin) else None


def _stack_merges(merges: list[tuple[int, int, float]], n: int) -> Array:
    """Rows (cluster, cluster, height, size) from pairs of nodes, in the order in which their clusters merge."""
    parent, size = list(range(2 * n - 1)), [1] * n

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    rows = []
    for k, (a, b, height) in enumerate(merges):
        left, right = sorted((root(a), root(b)))
        parent[left] = parent[right] = n + k
        size.append(size[left] + size[right])
        rows.append((left, right, height, size[-1]))
    return np.array(rows, dtype=float).reshape(n - 1, 4)
