"""Convex clustering: one point a device, and neighbours whose parameters are drawn together until they fuse."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np

from gtvmin.edges import FloatArray, is_data_frame
from gtvmin.errors import DisconnectedWarning, GtvminWarning
from gtvmin.losses import SquaredDistance
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm
from gtvmin.penalties.norm import row_norm
from gtvmin.points import read_points
from gtvmin.problem import GTVMin
from gtvmin.validation import nonnegative_number, positive_integer

__all__ = ["ConvexClustering", "declare_clustering", "far_from_origin", "points_of"]

NEIGHBOURS = 10
"""Neighbours of a point, unless k says otherwise."""
# An edge this much weaker than the strongest adds nothing to a sum with it: it counts as no edge.
NEGLIGIBLE = float(np.finfo(float).eps)
# exp(-x^2) is zero beyond this x.
LARGEST_ROOT = 30.0
MOST_NAMES = 5
# The objective of the zero model, 1e-10 of which gaps are compared with at least, is then 1e8 times that of the mean.
FAR = 1e4
# Points that differ by less than this share of their size differ by rounding.
EQUAL = 1e-12


def ConvexClustering(  # noqa: N802 - reads as the problem's name
    points: Any,
    weights: Any = None,
    lam: float = 1.0,
    p: float = 2,
    *,
    k: int | None = None,
    phi: float | None = None,
) -> GTVMin:
    r"""Convex clustering: every point has a centroid, and the centroids of neighbours fuse as `lam` grows.

    .. math::
        \min_{w_1, \dots, w_n} \; \frac12 \sum_i \|w_i - x_i\|_2^2 + \lambda \sum_{e = (i, j)} A_e \|w_i - w_j\|_p

    At ``lam = 0`` every point is a cluster; from some `lam` on, each connected component of the weights is one cluster,
    whose centroid is its mean.  ``problem.solve().clusters()`` gives the clusters, and
    :func:`~gtvmin.clustering.path.clusterpath` solves for many `lam`.

    Parameters
    ----------
    points : array_like (n, d) or pandas.DataFrame
        One row a point; a DataFrame's index gives the labels.
    weights : optional
        The edges and their weights :math:`A_e > 0`.  None for Gaussian weights between nearest neighbours, see the
        notes.  Else an FLNetwork (its nodes are the labels of a DataFrame in any order, or the rows of an array in its
        order), a networkx graph, an adjacency matrix (n, n), dense or sparse, or a list, array or DataFrame of edges
        ``(i, j, weight)`` between labels.  A list of tuples is read as edges, an array (n, n) as a matrix.
    lam : float
        Strength :math:`\lambda \ge 0`, in units of the points over those of the weights: points scaled by c, with the
        same weights, need c times the `lam` for c times the centroids.
    p : {2, 1, inf}
        The norm.
    k : int, optional
        Number of neighbours for ``weights=None``; default 10, or n - 1 if that is less.
    phi : float, optional
        Rate of the Gaussian's decay for ``weights=None``, in 1 / (unit of the points)^2; 0 makes all weights 1.
        Default: ``1 / (2 s^2)`` with s the median positive length of an edge, which no change of units affects.

    Returns
    -------
    GTVMin
        With losses ``1/2 ||w_i - x_i||^2``, penalty ``Norm(p)`` and ``alpha = lam``.

    Warns
    -----
    DisconnectedWarning
        If the weights leave more than one component: the path then ends with that many clusters.
    GtvminWarning
        If the points lie 1e4 times as far from the origin as from one another: certificates compare gaps with no less
        than a share of the objective of the zero model, which is large then.

    Raises
    ------
    ValueError
        If a point is NaN or infinite (by row and column), the weights' nodes are not those of the points, a given
        weight is not positive, every Gaussian weight underflows, or `k` and `phi` come with given weights.
    TypeError
        If an argument is of the wrong kind.

    Notes
    -----
    The default weights are those of Chi and Lange: :math:`A_{ij} = \exp(-\phi \|x_i - x_j\|_2^2)` if i is among the k
    nearest neighbours of j *or* j among those of i, and no edge otherwise.  Of equally distant neighbours the one with
    the lower row comes first.  Edges weaker than 2.2e-16 times the strongest couple nothing in floating point and are
    left out; the warning above counts them.

    Every row counts, also where points coincide: m copies of a point pull m times as strongly, and an edge between two
    copies has the weight 1 like any other at distance 0.  More than k copies of a point are each other's nearest
    neighbours, which can cut them off from the rest: take a larger k then.

    References
    ----------
    E. C. Chi, K. Lange, "Splitting methods for convex clustering", J. Comput. Graph. Stat. 24 (2015), equation (1.1)
    and the weights of its Section 3, DOI 10.1080/10618600.2014.948181; T. D. Hocking, A. Joulin, F. Bach, J.-P. Vert,
    "Clusterpath" (2011), which has the half of the losses too.

    Examples
    --------
    Two points meet in the middle at ``lam = ||x_1 - x_2|| / 2``, if the weight is 1:

    >>> import gtvmin as gtv
    >>> problem = gtv.ConvexClustering([[0.0, 0.0], [3.0, 4.0]], weights=[(0, 1, 1.0)], lam=2.0)
    >>> solution = problem.solve()
    >>> solution.weights.round(3).tolist(), solution.clusters()
    ([[1.2, 1.6], [1.8, 2.4]], {0: 0, 1: 1})
    >>> problem.with_alpha(3.0).solve().clusters()
    {0: 0, 1: 0}
    """
    problem, array = declare_clustering(points, weights, lam, p, k, phi)
    ratio = far_from_origin(array)
    if ratio:
        warnings.warn(
            f"the points lie {ratio:.0e} times as far from the origin as from one another: the size that a certificate "
            "compares its gap with grows with that. Subtract their mean, points - points.mean(axis=0), which moves all "
            "centroids alike; clusterpath() does so itself",
            GtvminWarning,
            stacklevel=2,
        )
    return problem


def declare_clustering(
    points: Any, weights: Any, lam: float, p: float, k: int | None, phi: float | None
) -> tuple[GTVMin, FloatArray]:
    """What :func:`ConvexClustering` declares, and the points in node order; no warning of a far origin."""
    strength, norm = nonnegative_number(lam, "lam"), Norm(p)
    labels, array = read_points(points, None, "points")
    left_out = 0
    if weights is None:
        network, left_out = _gaussian_neighbours(array, labels, k, phi)
    elif k is not None or phi is not None:
        raise ValueError("k and phi belong to the default weights: leave them out, or the weights")
    else:
        network, array = _given_network(weights, array, labels, is_data_frame(points))
    _warn_if_disconnected(network, left_out)
    losses = [0.5 * SquaredDistance(point) for point in array]
    return GTVMin(network, losses, penalty=norm, alpha=strength), array


def points_of(problem: GTVMin) -> FloatArray | None:
    """The points of a convex clustering (n_nodes, dim); None for other losses."""
    form = problem.lowered.form
    if form.rows:
        return None
    curvature, linear = form.quadratic.quadratic()
    return linear if np.array_equal(curvature, np.broadcast_to(np.eye(form.dim), curvature.shape)) else None


def far_from_origin(points: FloatArray) -> float:
    """How many times as far from the origin as from each other points are, if this spoils certificates; else 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers near the end of the range of doubles
        centre = points.mean(axis=0)
        distance, spread = float(np.abs(centre).max()), float(np.abs(points - centre).max())
    return distance / spread if EQUAL * distance < spread < distance / FAR else 0.0


def _gaussian_neighbours(
    points: FloatArray, labels: tuple[Hashable, ...], k: int | None, phi: float | None
) -> tuple[FLNetwork, int]:
    """The default weights, and how many edges were too weak to be one."""
    rate = None if phi is None else nonnegative_number(phi, "phi")
    count = min(NEIGHBOURS, len(points) - 1) if k is None else positive_integer(k, "k")
    if len(points) == 1 and k is None:
        return FLNetwork.from_edges([], nodes=labels, coordinates=points), 0
    network = FLNetwork.knn(points, count, nodes=labels)
    length = row_norm(points[network.head] - points[network.tail], 2.0)
    positive = length[length > 0]
    if rate is not None:
        root = np.sqrt(rate) * length
    else:
        root = length / (np.sqrt(2.0) * np.median(positive)) if positive.size else length
    values = np.exp(-(np.minimum(root, LARGEST_ROOT) ** 2))
    kept = values > NEGLIGIBLE * values.max()
    if not kept.any():
        raise ValueError(
            f"phi={phi:g}: all Gaussian weights underflow to 0, since the closest points are {length.min():g} apart: "
            "take a smaller phi, or None to have it chosen from the distances"
        )
    edges = [edge for edge, keep in zip(network.edges, kept.tolist(), strict=True) if keep]
    return FLNetwork.from_edges(edges, values[kept], nodes=labels, coordinates=points), int((~kept).sum())


def _given_network(
    weights: Any, points: FloatArray, labels: tuple[Hashable, ...], labelled: bool
) -> tuple[FLNetwork, FloatArray]:
    """Whatever states the edges as a network, and the points in the order of its nodes."""
    if hasattr(weights, "is_multigraph"):
        weights = FLNetwork(weights, nodes=labels if labelled else None)
    if not isinstance(weights, FLNetwork):
        tuples = isinstance(weights, (list, tuple)) and all(isinstance(edge, tuple) for edge in weights)
        shape = getattr(weights, "shape", None) or np.shape(weights)
        read = FLNetwork if shape == (len(labels), len(labels)) and not tuples else FLNetwork.from_edges
        return read(weights, nodes=labels, coordinates=points), points
    if weights.n_nodes != len(labels):
        raise ValueError(f"weights has {weights.n_nodes} nodes for {len(labels)} points: give one point a node")
    if weights.nodes == labels:
        return weights, points
    if labelled:
        row = {label: position for position, label in enumerate(labels)}
        strange = next((node for node in weights.nodes if node not in row), None)
        if strange is not None:
            raise ValueError(f"weights has the node {strange!r}, which is no row label of points")
        return weights, points[[row[node] for node in weights.nodes]]
    if set(weights.nodes) == set(labels):
        raise ValueError(
            f"weights lists the nodes {', '.join(map(repr, weights.nodes[:MOST_NAMES]))}, ... in another order than "
            "the rows of points: build it with nodes=range(n), or give points as a DataFrame with these labels"
        )
    return weights, points


def _warn_if_disconnected(network: FLNetwork, left_out: int) -> None:
    components = sorted(network.components(), key=len)
    if len(components) == 1:
        return
    apart = [f"{component[0]!r} (of {len(component)})" for component in components[:MOST_NAMES]]
    more = ", ..." if len(components) > MOST_NAMES else ""
    weak = f"; {left_out} edges are too weak to couple anything" if left_out else ""
    warnings.warn(
        f"the weights have {len(components)} components{weak}: however large lam is, at least {len(components)} "
        f"clusters remain. The smallest have the nodes {', '.join(apart)}{more}: take a larger k or a smaller phi, "
        "or add edges between them",
        DisconnectedWarning,
        stacklevel=4,
    )
