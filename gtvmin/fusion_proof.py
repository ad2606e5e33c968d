"""Bounds behind :mod:`gtvmin.structure`: how far neighbours are apart at the optimum, and which are equal there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.penalties.norm import DUAL, NormBlocks, row_norm
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Layer", "layers_of", "least_distance", "proved_equal"]

Mask = NDArray[np.bool_]
Ends = tuple[NDArray[np.int64], NDArray[np.int64]]

# Bounds are compared with this margin, for the rounding of the constants in them.
MARGIN = 1e-9
# Flows may be inside their balls by any of this many amounts, each a share of the one before.
THRESHOLDS, RATIO = 40, 0.6
# Second eigenvalues are computed from dense matrices, up to this many devices.
LARGEST = 3000


@dataclass(frozen=True, slots=True)
class Layer:
    """Coordinates of the parameters that fuse together.

    Attributes
    ----------
    W : array (n_nodes, k)
        The parameters.
    slack : array (n_edges,)
        How far each flow is inside its ball; minus infinity where the penalty is no norm.
    capacity : array (n_edges,)
        Radii of the balls; infinite where the penalty is no norm.
    unique : bool
        Whether a flow is determined where the ends differ.
    factor : float
        Bound of the norm that holds the flows by the Euclidean one, and of the latter by the norm of the differences.
    """

    W: Array
    slack: Array
    capacity: Array
    unique: bool = True
    factor: float = 1.0


def layers_of(problem: GTVMin, W: Array, U: Array) -> list[Layer]:
    """One layer, or one per coordinate for ``Norm(1)``."""
    lowered = problem.lowered
    terms = [term for term in lowered.form.couplings if term.map.n_rows]
    norms = [t.function for t in terms if isinstance(t.map, EdgeDifference) and isinstance(t.function, NormBlocks)]
    alike = len({function.p for function in norms}) == 1 and len(norms) == len(terms)
    if not alike or sum(map(len, lowered.edges)) < lowered.n_edges:
        no_flow = np.full(lowered.n_edges, np.inf)
        return [Layer(W, -no_flow, no_flow, unique=False)]
    p, dim = norms[0].p, W.shape[1]
    capacity, flows = np.zeros(lowered.n_edges), np.zeros((lowered.n_edges, dim))
    for edges, function, dual in zip(lowered.edges, norms, lowered.lower_flows(U), strict=True):
        capacity[edges], flows[edges] = function.capacity, dual
    inside = (1.0 - MARGIN) * capacity
    if p == 1.0:
        return [Layer(W[:, [k]], inside - np.abs(flows[:, k]), capacity) for k in range(dim)]
    slack = inside - row_norm(flows, DUAL[p])
    if p == 2.0 or dim == 1:
        return [Layer(W, slack, capacity)]
    return [Layer(W, slack, capacity, unique=False, factor=float(np.sqrt(dim)))]


def least_distance(layer: Layer, ends: Ends, curvature: Array, gap: float) -> Array:
    """Lower bound of the distance of the ends of every edge at the optimum (n_edges,), zero where there is none.

    Parameters
    ----------
    layer : Layer
        The coordinates.
    ends : pair of int arrays (n_edges,)
        Tails and heads.
    curvature : array (n_nodes, k, k)
        Matrices ``Q_i`` such that each loss less ``w^T Q_i w / 2`` is convex.
    gap : float
        The certified gap.
    """
    tail, head = ends
    own = np.arange(len(layer.W))
    apart = np.maximum(_distance(layer, ends, own, curvature, gap, 0.0), 0.0)
    split = apart > 0
    for threshold, labels in _components(layer, ends, split):
        between = np.flatnonzero(labels[tail] != labels[head])
        bound = _distance(layer, (tail[between], head[between]), labels, curvature, gap, gap / threshold)
        apart[between] = np.maximum(apart[between], bound)
    return apart


def _distance(layer: Layer, ends: Ends, labels: NDArray[np.int64], curvature: Array, gap: float, drift: float) -> Array:
    """Lower bound of the distance of devices of different groups, paths within which add up to at most ``drift``."""
    count, k = int(labels.max()) + 1, layer.W.shape[1]
    total, moment = np.zeros((count, k, k)), np.zeros((count, k))
    np.add.at(total, labels, curvature)
    np.add.at(moment, labels, np.einsum("ijk,ik->ij", curvature, layer.W))
    values = np.linalg.eigvalsh(total)
    least, trace = values[:, 0] - MARGIN * values[:, -1], np.einsum("ijj->i", total)
    held = least > 0
    mean = np.zeros((count, k))
    mean[held] = np.linalg.solve(total[held], moment[held][:, :, None])[:, :, 0]
    inverse, stretch = np.zeros(count), np.zeros(count)
    inverse[held] = 1.0 / least[held]
    stretch[held] = trace[held] * inverse[held]
    rounding = 16.0 * k * float(np.finfo(float).eps) * float(np.abs(layer.W).max(initial=0.0)) * stretch
    stretch[np.bincount(labels, minlength=count) == 1] = 0.0
    i, j = (labels[end] for end in ends)
    known = np.flatnonzero(held[i] & held[j])
    out = np.full(len(i), -np.inf)
    i, j = i[known], j[known]
    reach = np.sqrt(2.0 * gap * (inverse[i] + inverse[j])) + rounding[i] + rounding[j]
    reach += layer.factor * drift * np.sqrt(np.maximum(stretch[i], stretch[j]))
    out[known] = np.linalg.norm(mean[j] - mean[i], axis=1) - (1.0 + MARGIN) * reach
    return out


def proved_equal(layer: Layer, ends: Ends, apart: Array, smoothness: Array, gap: float) -> Mask:
    """Edges whose ends are proved equal in the coordinates of a layer."""
    tail, head = ends
    n = len(smoothness)
    equal = np.zeros(len(tail), dtype=bool)
    with np.errstate(divide="ignore"):
        pull = np.where(apart > 0, 2.0 * layer.capacity / apart, np.inf) if layer.unique else np.full(len(tail), np.inf)
    for threshold, labels in _components(layer, ends, apart > 0):
        loose = (layer.slack > threshold) & (apart == 0)
        leaving = labels[tail] != labels[head]
        degree = np.bincount(np.concatenate([tail[leaving], head[leaving]]), minlength=n)
        boundary, rough = np.zeros(n), np.zeros(n)
        np.maximum.at(rough, labels, smoothness)
        for end in (tail[leaving], head[leaving]):
            np.maximum.at(boundary, labels[end], pull[leaving] * degree[end])
        bounded = np.isfinite(rough + boundary)
        needed = (1.0 + MARGIN) * layer.factor**2 * gap * np.where(bounded, 2.0 * rough + boundary, 0.0)
        bounded[labels[tail[equal]]] = False  # proved with a larger threshold
        degrees = np.bincount(np.concatenate([tail[loose], head[loose]]), minlength=n)
        least, room = np.full(n, n), np.full(n, np.inf)
        np.minimum.at(least, labels, degrees)
        np.minimum.at(room, labels[tail[loose]], layer.slack[loose])
        candidates = np.flatnonzero(bounded & (np.bincount(labels, minlength=n) > 1))
        # twice the least degree is above the second eigenvalue
        hopeful = needed[candidates] < 2.0 * room[candidates] ** 2 * least[candidates]
        for label in candidates[hopeful].tolist():
            mine = loose & (labels[tail] == label)
            if needed[label] < room[label] ** 2 * _second_eigenvalue(tail[mine], head[mine]):
                equal |= (labels[tail] == label) & ~leaving
    return equal


def _components(layer: Layer, ends: Ends, split: Mask) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Amounts by which flows may be inside, and the components of the unsplit edges whose flows are (n_nodes,)."""
    tail, head = ends
    n = len(layer.W)
    largest = float(layer.slack.max(initial=0.0))
    for threshold in largest * RATIO ** np.arange(1, THRESHOLDS + 1) if largest > 0 else ():
        loose = (layer.slack > threshold) & ~split
        links = sparse.coo_array((np.ones(int(loose.sum())), (tail[loose], head[loose])), shape=(n, n))
        yield float(threshold), connected_components(links, directed=False)[1].astype(np.int64)


def _second_eigenvalue(tail: NDArray[np.int64], head: NDArray[np.int64]) -> float:
    """Lower bound of the algebraic connectivity of a connected graph, zero for a graph too large to tell."""
    nodes, ends = np.unique(np.concatenate([tail, head]), return_inverse=True)
    n, m = len(nodes), len(tail)
    if n > LARGEST:
        return 0.0
    adjacency = np.zeros((n, n))
    np.add.at(adjacency, (ends[:m], ends[m:]), 1.0)
    adjacency += adjacency.T
    values = np.linalg.eigvalsh(np.diag(adjacency.sum(axis=0)) - adjacency)
    return float(values[1] - MARGIN * values[-1])
