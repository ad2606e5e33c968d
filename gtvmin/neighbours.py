"""Union of k-nearest-neighbour relations among points, with ties broken by the lower index."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from gtvmin.edges import EdgeList, FloatArray, IntArray, pair, positive_weights
from gtvmin.points import read_points
from gtvmin.validation import positive_integer, positive_number

__all__ = ["EARTH_RADIUS_KM", "nearest_neighbours", "read_neighbours"]

EARTH_RADIUS_KM = 6371.0088  # mean radius R1 of the ellipsoid GRS 80

WeightRule = Callable[[FloatArray], Any]

# Numbers held at once while candidates are compared: 32 MiB of float64
_BLOCK = 2**22


def read_neighbours(
    points: Any,
    k: int,
    metric: str,
    weights: str | WeightRule | None,
    nodes: Iterable[Any] | None,
    radius: float,
) -> tuple[EdgeList, FloatArray]:
    """Checked edges of the union k-nearest-neighbour graph, and the points as an array."""
    labels, array = read_points(points, nodes, "points")
    k = positive_integer(k, "k")
    if k >= len(array):
        raise ValueError(f"k must be less than the number of points, got k={k} for {len(array)} points")
    if metric not in ("euclidean", "haversine"):
        raise ValueError(f"metric must be 'euclidean' or 'haversine', got {metric!r}")
    if metric == "haversine":
        _check_degrees(array, labels)
        radius = positive_number(radius, "radius")
    if not (weights is None or callable(weights) or (isinstance(weights, str) and weights == "gaussian")):
        raise TypeError(f"weights must be None, 'gaussian' or a function of an array of distances, got {weights!r}")

    neighbours, distances = nearest_neighbours(array, k, metric, radius)
    tail, head, length = _union(neighbours, distances)
    rule: WeightRule = np.ones_like if weights is None else _gaussian if isinstance(weights, str) else weights
    values = np.asarray(rule(length.copy()))
    if values.shape != length.shape:
        raise ValueError(f"weights(distances) must have shape {length.shape} of the distances, got {values.shape}")
    checked = positive_weights(
        values,
        lambda e: f"edge {pair(labels, tail[e], head[e])} at distance {length[e]:g}",
        if_zero="it underflows, use a weight that decays more slowly with the distance or rescale the points",
    )
    return EdgeList(labels, tail, head, checked), array


def _check_degrees(points: FloatArray, labels: tuple[Hashable, ...]) -> None:
    if points.shape[1] != 2:
        raise ValueError(f"haversine needs two columns, (latitude, longitude) in degrees, got {points.shape[1]}")
    wrong = np.flatnonzero(np.abs(points[:, 0]) > 90)
    if wrong.size:
        raise ValueError(
            f"points: row {labels[wrong[0]]!r} has latitude {points[wrong[0], 0]:g}, outside [-90, 90]: haversine "
            "takes (latitude, longitude) in degrees, in this order"
        )


def _gaussian(distances: FloatArray) -> FloatArray:
    positive = distances[distances > 0]
    scale = np.median(positive) if positive.size else 1.0
    weights: FloatArray = np.exp(-((distances / scale) ** 2) / 2)
    return weights


def _union(neighbours: IntArray, distances: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Pairs of which at least one is a neighbour of the other, sorted, with their distance.

    Pairs are joined by their indices, never by a distance matrix, where distance 0 would read as 'no edge'.
    """
    n_points, k = neighbours.shape
    rows = np.repeat(np.arange(n_points), k)
    columns = neighbours.ravel()
    keys, places = np.unique(np.minimum(rows, columns) * n_points + np.maximum(rows, columns), return_index=True)
    return keys // n_points, keys % n_points, distances.ravel()[places]


def nearest_neighbours(
    points: FloatArray, k: int, metric: str = "euclidean", radius: float = EARTH_RADIUS_KM
) -> tuple[IntArray, FloatArray]:
    """Indices and distances, each (n_points, k), of the k nearest other points, sorted by (distance, index).

    A k-d tree (for haversine, of the points on the unit sphere, where chords order pairs as arcs do) proposes
    candidates; their distances are then computed by the metric's formula, so that ties are exact, and a row is settled
    once the tree has returned a candidate that is clearly farther than the k-th. Memory is O(n_points * k).

    Of coincident points only the first k + 1 can be anybody's neighbour under this order. The tree holds no others, so
    that neither time nor memory grows with the number of copies.
    """
    if metric == "haversine":
        places = _on_unit_sphere(points)
        rounding = 1e-14  # of a chord, absolute
    else:
        # Scaling by a power of two is exact and keeps squares from overflow and underflow.
        exponent = int(np.frexp(np.abs(points).max())[1])
        points = places = np.ldexp(points, -exponent)
        rounding = 0.0

    def measure(rows: IntArray, candidates: IntArray) -> tuple[FloatArray, FloatArray]:
        """Distance in the tree and by the metric, from each row to its candidates."""
        start, end = points[rows, None, :], points[candidates]
        if metric == "haversine":
            sine = _half_chord(start, end)
            return 2 * sine, 2 * radius * np.arcsin(sine)
        straight = np.sqrt(((start - end) ** 2).sum(axis=2))
        return straight, np.ldexp(straight, exponent)

    proposed = _first_copies(points, k + 1)
    tree = cKDTree(places[proposed])
    neighbours = np.empty((len(points), k), dtype=np.int64)
    distances = np.empty((len(points), k))
    waiting = np.arange(len(points))
    asked = min(k + 8, len(proposed))
    while waiting.size:
        unsettled = []
        block = max(1, _BLOCK // (asked * points.shape[1]))
        for rows in np.split(waiting, range(block, len(waiting), block)):
            reach, found = map(np.asarray, tree.query(places[rows], k=np.arange(1, asked + 1)))
            candidates = np.sort(proposed[found], axis=1)
            straight, length = measure(rows, candidates)
            length[candidates == rows[:, None]] = np.inf  # a point is no neighbour of its own
            order = np.argsort(length, axis=1, kind="stable")[:, :k]
            neighbours[rows] = np.take_along_axis(candidates, order, axis=1)
            distances[rows] = np.take_along_axis(length, order, axis=1)
            farthest = np.take_along_axis(straight, order[:, -1:], axis=1)[:, 0]
            settled = reach[:, -1] * (1 - 1e-9) - rounding > farthest
            unsettled.append(rows[~settled])
        if asked == len(proposed):
            break
        waiting = np.concatenate(unsettled)
        asked = min(2 * asked, len(proposed))
    return neighbours, distances


def _first_copies(points: FloatArray, copies: int) -> IntArray:
    """Indices, sorted, of the points before which fewer than `copies` points stand at the same place."""
    order = np.lexsort(points.T[::-1])  # stable: copies stay in the order of their indices
    ordered = points[order]
    new = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    starts = np.flatnonzero(new)
    rank = np.arange(len(points)) - np.repeat(starts, np.diff(np.r_[starts, len(points)]))
    kept: IntArray = np.sort(order[rank < copies])
    return kept


def _on_unit_sphere(points: FloatArray) -> FloatArray:
    latitude, longitude = np.radians(points).T
    parallel = np.cos(latitude)
    return np.column_stack([parallel * np.cos(longitude), parallel * np.sin(longitude), np.sin(latitude)])


def _half_chord(start: FloatArray, end: FloatArray) -> FloatArray:
    """Sine of half the central angle between points in degrees, by the haversine formula."""
    latitude, other = np.radians(start[..., 0]), np.radians(end[..., 0])
    longitude = np.radians(end[..., 1] - start[..., 1])
    square = np.sin((other - latitude) / 2) ** 2 + np.cos(latitude) * np.cos(other) * np.sin(longitude / 2) ** 2
    half: FloatArray = np.sqrt(np.minimum(square, 1.0))
    return half
