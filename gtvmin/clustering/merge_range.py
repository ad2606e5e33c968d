"""Where the path of convex clustering begins and ends: bounds on the first and on the last merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import cg

from gtvmin.clustering.problem import points_of
from gtvmin.penalties import Norm
from gtvmin.penalties.norm import DUAL, row_norm
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.network import FLNetwork
    from gtvmin.problem import GTVMin

__all__ = ["merge_range"]

# The grid ends at the first lam that is seen to merge all, so its upper end need not be sharp.
CG_TOLERANCE = 1e-4
# Points closer than this share of the longest edge count as coincident.
COINCIDENT = 1e-12


def merge_range(problem: GTVMin) -> tuple[float, float]:
    r"""Strengths between which a convex clustering merges: no points before the first, all by the second.

    A centroid moves by at most :math:`\lambda \deg_i` in the dual norm, so that two points cannot meet before
    :math:`\lambda = \|x_i - x_j\|_* / (\deg_i + \deg_j)`.  All of a component is at its mean as soon as flows within
    :math:`\|U_e\|_* \le \lambda A_e` carry every :math:`x_i` to the mean; those of least :math:`\sum \|U_e\|^2 / A_e`
    do so once :math:`\lambda \ge \max_e \|U_e\|_* / A_e`.

    Returns
    -------
    first, last : float
        Without points that differ by no more than rounding; both are 0 where all points of every component coincide.

    Raises
    ------
    ValueError
        If the problem is no convex clustering: its losses are not ``1/2 ||w - x_i||^2``, or its penalty is no Norm.
    """
    net, penalty = problem.network, problem.penalty
    points = points_of(problem)
    if points is None or not isinstance(penalty, Norm):
        raise ValueError("lams: a grid is chosen for ConvexClustering(...) problems only, give increasing values")
    if not net.n_edges:
        return 0.0, 0.0
    dual = DUAL[penalty.p]
    gap = row_norm(points[net.head] - points[net.tail], dual)
    apart = gap > COINCIDENT * gap.max()
    if not apart.any():
        return 0.0, 0.0
    first = float((gap / (net.degrees[net.head] + net.degrees[net.tail]))[apart].min())
    potential = _potentials(net, points)
    last = float(row_norm(potential[net.head] - potential[net.tail], dual).max())
    return min(first, last), last


def _potentials(net: FLNetwork, points: Array) -> Array:
    """Solution of ``Laplacian @ potentials = points - mean of the component``, about."""
    component = net.component_ids
    count = np.bincount(component)
    means = np.column_stack([np.bincount(component, column) / count for column in points.T])
    target = points - means[component]
    laplacian = net.laplacian()
    scale = sparse.diags_array(1.0 / np.where(net.degrees > 0, net.degrees, 1.0))
    return np.column_stack([cg(laplacian, column, rtol=CG_TOLERANCE, M=scale)[0] for column in target.T])
