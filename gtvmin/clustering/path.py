"""The path of convex clustering: solutions for growing lam, their clusters, and the tree in which they merge."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtvmin.clustering.grid import merge_grid
from gtvmin.clustering.merge_tree import follow, longest_lasting, merge_linkage
from gtvmin.clustering.problem import declare_clustering, far_from_origin, points_of
from gtvmin.clustering.solver import PathSolver
from gtvmin.errors import HierarchyError
from gtvmin.fusion import coupled_pairs, join
from gtvmin.losses import SquaredDistance
from gtvmin.problem import GTVMin
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen, positive_integer

__all__ = ["ClusterPath", "Split", "clusterpath"]


class Split(NamedTuple):
    """Two nodes that were in one cluster at a strength and are proved to have parted at the next, `lam`."""

    lam: float
    first: Hashable
    second: Hashable


@dataclass(frozen=True, eq=False)
class ClusterPath:
    """Solutions for growing `lam`.

    Attributes
    ----------
    problem : GTVMin
        The problem, with the first `lam`.
    lams : array (n_lams,)
        Strengths of the coupling.
    W : array (n_lams, n_nodes, dim)
        Centroids.
    labels : int array (n_lams, n_nodes)
        Cluster of each node, counted from 0 in node order.
    relative_gaps : array (n_lams,)
        Certified relative gap of each solution.  Where points lie far from the origin, that of the solution less their
        mean, which is added last: the digits that this costs are not in it.
    splits : tuple of Split
        Nodes that part again; none if clusters only merge.
    """

    problem: GTVMin
    lams: Array
    W: Array
    labels: NDArray[np.int64]
    relative_gaps: Array
    splits: tuple[Split, ...]

    @cached_property
    def n_clusters(self) -> NDArray[np.int64]:
        """Number of clusters at each `lam`, (n_lams,)."""
        return frozen(self.labels.max(axis=1) + 1)

    @cached_property
    def n_components(self) -> int:
        """Number of connected components of the weights: so many clusters remain however large `lam` is."""
        return _n_components(self.problem)

    @property
    def is_hierarchy(self) -> bool:
        """Whether clusters only merge."""
        return not self.splits

    @cached_property
    def linkage(self) -> Array:
        """The merge tree as a linkage matrix (n_nodes - 1, 4) of ``scipy.cluster.hierarchy``.

        Node i of the network is leaf i.  The height of a merge is the first of `lams` at which it is seen: it takes
        place between the one before and this one; of merges at the same height the one whose centroids were closest
        before comes first.  Components that no `lam` joins, and clusters that the last of `lams` leaves apart, are
        joined at height infinity, so that the matrix is whole: its rows of finite height are the forest.

        Raises
        ------
        HierarchyError
            If clusters split.
        """
        if self.splits:
            lam, first, second = self.splits[0]
            more = f", the first of {len(self.splits)} splits" if len(self.splits) > 1 else ""
            raise HierarchyError(
                f"the path is no hierarchy: nodes {first!r} and {second!r} are in one cluster before lam={lam:g} and "
                f"in two clusters there{more}"
            )
        return frozen(merge_linkage(*coupled_pairs(self.problem), self.lams, self.W, self.labels))

    def position(self, n_clusters: int) -> int:
        """Position in `lams` of the first strength with that many clusters.

        Raises
        ------
        ValueError
            If no strength has that many; the message says between which two to look.
        """
        wanted = positive_integer(n_clusters, "n_clusters")
        if wanted > self.W.shape[1]:
            raise ValueError(f"n_clusters must be at most the number of nodes, {self.W.shape[1]}, got {wanted}")
        found = np.flatnonzero(self.n_clusters == wanted)
        if len(found):
            return int(found[0])
        below = np.flatnonzero(self.n_clusters < wanted)
        if not len(below):
            least, lam = int(self.n_clusters.min()), float(self.lams[-1])
            why = (
                f"the weights have {self.n_components} components" if least == self.n_components else "go on from there"
            )
            raise ValueError(f"no lam up to {lam:g} gives {wanted} clusters, the least is {least}: {why}")
        k = int(below[0])
        before = (
            f"{self.n_clusters[k - 1]} at lam={self.lams[k - 1]:g}" if k else f"{len(self.problem.losses)} at lam=0"
        )
        raise ValueError(
            f"no lam of the path gives {wanted} clusters: there are {before} and {self.n_clusters[k]} at "
            f"lam={self.lams[k]:g}; give lams between these to see whether one does"
        )

    def at(self, n_clusters: int) -> dict[Hashable, int]:
        """Clusters at the first `lam` that gives so many: node label to number, counted from 0 in node order."""
        return dict(zip(self.problem.network.nodes, self.cut(n_clusters).tolist(), strict=True))

    @property
    def persistent_n_clusters(self) -> int:
        r"""Number of clusters that lasts longest, by the ratio of the strengths at which it ends and begins.

        A heuristic, like the longest gap of a dendrogram: it looks for the widest range of scales, on the logarithm of
        `lam`, over which nothing merges.  Only numbers whose begin and end `lams` show count, from 2 to half of the
        nodes: near copies of a few points merge long before all else.  Where the weights have several components, which
        stay apart for ever, these are the clusters.  Far outliers are clusters of their own by this rule: look at the
        dendrogram too.

        Raises
        ------
        ValueError
            If `lams` show no such number.

        Examples
        --------
        >>> import gtvmin as gtv
        >>> path = gtv.clusterpath([[0.0], [0.2], [5.0], [5.3], [9.0]])
        >>> path.persistent_n_clusters, path.cut().tolist()
        (3, [0, 0, 1, 1, 2])
        """
        most = (self.W.shape[1] + 1) // 2
        if self.n_components > 1 and self.n_clusters[-1] == self.n_components:
            return self.n_components
        found = longest_lasting(self.lams, self.n_clusters, most)
        if found is None:
            raise ValueError(
                f"lams from {self.lams[0]:g} to {self.lams[-1]:g} show no number of clusters from 2 to {most} "
                "from begin to end: give n_clusters, or leave out lams for a grid that follows the merges"
            )
        return found

    def cut(self, n_clusters: int | None = None) -> NDArray[np.int64]:
        """Clusters (n_nodes,) at the first `lam` that gives so many, as ``labels_`` of scikit-learn's clusterings are.

        By default so many as :attr:`persistent_n_clusters` says.
        """
        wanted = self.persistent_n_clusters if n_clusters is None else n_clusters
        labels: NDArray[np.int64] = self.labels[self.position(wanted)]
        return labels

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each `lam` and node: columns ``cluster``, ``w0``, ``w1``, ...

        The index has the levels ``lam`` and ``node``.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        dim = self.problem.dim
        nodes = pd.Index(list(self.problem.network.nodes), tupleize_cols=False)
        index = pd.MultiIndex.from_product([pd.Index(self.lams), nodes], names=["lam", "node"])
        frame = pd.DataFrame(self.W.reshape(-1, dim), index=index, columns=[f"w{k}" for k in range(dim)])
        frame.insert(0, "cluster", self.labels.ravel())
        return frame

    def __repr__(self) -> str:
        kind = "hierarchy" if self.is_hierarchy else f"{len(self.splits)} splits"
        return (
            f"<ClusterPath: {self.W.shape[1]} nodes, {len(self.lams)} lams from {self.lams[0]:g} to {self.lams[-1]:g}, "
            f"{self.n_clusters[0]} to {self.n_clusters[-1]} clusters, {kind}, "
            f"relative gap at most {self.relative_gaps.max():.1e}>"
        )


def clusterpath(
    problem: GTVMin | Any,
    lams: Any = None,
    *,
    weights: Any = None,
    p: float | None = None,
    k: int | None = None,
    phi: float | None = None,
    n_lams: int = 100,
    gap: float = 1e-6,
    **solve: Any,
) -> ClusterPath:
    """Solve a convex clustering for growing `lam`, each solution certified and the start of the next.

    Parameters
    ----------
    problem : GTVMin or array_like (n, d) or DataFrame
        A problem whose `alpha` is varied, such as :func:`~gtvmin.clustering.problem.ConvexClustering` makes, or points
        for it.  Other losses are possible, with given `lams`: what is said of clusters holds for them too.
    lams : array_like (n_lams,), optional
        Strengths >= 0, each larger than the one before.  Default: 0, then strengths from below the first merge until
        every component has become one cluster, placed where clusters merge: a coarse path comes first to find that out
        (:func:`gtvmin.clustering.grid.merge_grid`).
    weights, p, k, phi
        As for ConvexClustering, if points are given.
    n_lams : int
        Number of strengths of the default grid, about.
    gap : float
        Certified relative gap of each solution.
    **solve
        Further arguments of :func:`gtvmin.solving.solve`: ``method``, ``max_iter``, ...  Without any, a problem with
        losses ``q_i/2 ||w - a_i||^2`` and the penalty ``Norm(2)`` is solved on the clusters found so far, see
        :class:`gtvmin.clustering.solver.PathSolver`.

    Returns
    -------
    ClusterPath

    Warns
    -----
    ConvergenceWarning
        Where a solution misses the gap; ``relative_gaps`` says which.

    Raises
    ------
    ValueError
        If `lams` do not increase, or a grid is to be chosen for a problem that is no convex clustering.

    Notes
    -----
    Clusters are those of ``Solution.clusters()``.  Nodes that were together at one `lam` and look apart at the next are
    kept together unless the certificate proves that they have parted (:func:`gtvmin.clustering.merge_tree.follow`);
    then they are listed in ``splits``.  With the l1 norm and equal weights between all points clusters never split
    (Hocking et al.); in general they can.  A split smaller than the certified errors goes unseen: ask for a smaller gap
    then.

    Points far from the origin are solved for less their mean, so that gaps are compared with what does not depend on
    the origin; ``W`` has the mean added again, to the digits that it has there.

    References
    ----------
    T. D. Hocking, A. Joulin, F. Bach, J.-P. Vert, "Clusterpath: an algorithm for clustering using convex fusion
    penalties", ICML (2011).

    Examples
    --------
    >>> import gtvmin as gtv
    >>> path = gtv.clusterpath([[0.0], [1.0], [5.0]], [0.1, 0.4, 0.6, 1.0, 2.0], k=2, phi=0.0)
    >>> path.n_clusters.tolist()
    [3, 3, 2, 2, 1]
    >>> path.at(2)
    {0: 0, 1: 0, 2: 1}
    >>> path.linkage.tolist()
    [[0.0, 1.0, 0.6, 2.0], [2.0, 3.0, 2.0, 3.0]]
    """
    if isinstance(problem, GTVMin):
        if not (weights is None and p is None and k is None and phi is None):
            raise ValueError("weights, p, k and phi belong to points: a problem has its own")
        base = problem
    else:
        base, _ = declare_clustering(problem, weights, 0.0, 2 if p is None else p, k, phi)
    n_components = _n_components(base)
    near, centre = _near_origin(base)
    given = lams is not None
    strengths = iter(_increasing(lams) if given else merge_grid(near, positive_integer(n_lams, "n_lams"), n_components))
    mass = base.lowered.form.local.strong_convexity
    solved: list[tuple[float, Array, NDArray[np.int64], float]] = []
    splits: list[Split] = []
    solver = PathSolver(near, gap, solve)
    for lam in strengths:
        point = solver.solve(lam)
        labels = point.labels
        if solved:
            labels, parted = follow(solved[-1][2], labels, point.W, mass, point.gap)
            splits += [Split(lam, *(base.network.nodes[i] for i in pair)) for pair in parted.tolist()]
        solved.append((lam, point.W + centre, labels, point.relative_gap))
        if not given and labels.max() + 1 == n_components:
            break
    values, W, clusters, gaps = zip(*solved, strict=True)
    return ClusterPath(
        base.with_alpha(values[0]),
        frozen(np.array(values)),
        frozen(np.array(W)),
        frozen(np.array(clusters)),
        frozen(np.array(gaps)),
        tuple(splits),
    )


def _near_origin(problem: GTVMin) -> tuple[GTVMin, Array]:
    """The problem with its points less a centre: their mean where they lie far from the origin, else zero."""
    points = points_of(problem)
    if points is None or not far_from_origin(points):
        return problem, np.zeros(problem.dim)
    centre = points.mean(axis=0)
    return problem.with_losses([0.5 * SquaredDistance(point) for point in points - centre]), centre


def _n_components(problem: GTVMin) -> int:
    return int(join(problem, np.ones(problem.lowered.n_edges, dtype=bool)).max()) + 1


def _increasing(lams: Any) -> list[float]:
    values = finite_array(lams, "lams")
    if values.ndim != 1 or not len(values):
        raise ValueError(f"lams must be a list of at least one number, got shape {values.shape}")
    if values[0] < 0 or (np.diff(values) <= 0).any():
        k = 0 if values[0] < 0 else int(np.flatnonzero(np.diff(values) <= 0)[0]) + 1
        raise ValueError(f"lams must increase from at least 0, but position {k} has {values[k]:g}: sort them")
    return [float(value) for value in values]
