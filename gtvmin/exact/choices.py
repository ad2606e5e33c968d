"""What exactly feasible duals leave free, chosen in double precision: choices make a bound tight, not valid.

Row duals to start from, the rows that take up what a component is short of, and the edges to push along.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import qr
from scipy.sparse.csgraph import minimum_spanning_tree

from gtvmin.exact.data import ExactProblem
from gtvmin.exact.integers import nearest_float
from gtvmin.penalties.norm import DUAL, row_norm
from gtvmin.solvers.standard_form import Array

__all__ = ["Forest", "choose_basis", "choose_forest", "choose_row_duals", "groups", "refining_step"]

Forest = tuple[sparse.csr_array, dict[tuple[int, int], int]]
"""A spanning forest, and the edge of every pair (tail, head)."""

# A least singular value below this share of the largest does not count as full rank.
ROOT_CONDITION = 1e-8
# How much more freely duals without bounds move.
FREE = 100.0
# Rows of more binary digits, those of large factors, are solved for only where others do not span enough.
LONG = 256


def choose_row_duals(data: ExactProblem, U: Array, rows: Array) -> Array:
    """Row duals: those given, and for squares the ones with the least conjugate that meet the equations."""
    # c (t - y)^2 has the conjugate (p + 2 c y)^2 / (4 c) less a constant: least at -2 c y, from where a step is made
    least = np.array([0.0 if f is None else -nearest_float(f.right / f.curvature) for f in data.squares])
    p = np.where([f is None for f in data.squares], rows, least)
    missing = np.zeros((data.n_nodes, U.shape[1]))
    np.add.at(missing, data.tail, U)
    np.subtract.at(missing, data.head, U)
    np.subtract.at(missing, data.owner, p[:, None] * data.X)
    for i, tilt in enumerate(data.tilt):
        if tilt:
            missing[i] -= [float(t) for t in tilt]
    p += step_of_squares(data, missing)
    return np.where(np.isfinite(p), p, 0.0)


def refining_step(data: ExactProblem, missing: Array, p: Array) -> Array:
    """Change of the row duals p whose ``X_i^T step_i`` is the little that is missing, or next to it (R,).

    Squares take part, and duals between bounds by the room that they have: for a likelihood that is the curvature of
    its conjugate.  Those without bounds, of constraints, cost next to nothing and take most.  On devices where a dual
    would lose half of its room only the squares move.
    """
    step = step_of_squares(data, missing)
    roots = _square_roots(data)
    with np.errstate(divide="ignore"):
        room = 1.0 / (1.0 / np.maximum(p - data.bounds[:, 0], 0.0) + 1.0 / np.maximum(data.bounds[:, 1] - p, 0.0))
    bounded, free = np.isfinite(room), np.isinf(room) & (roots == 0)
    if not (room[bounded].any() or free.any()):
        return step
    roots[bounded] = np.sqrt(room[bounded])
    largest = np.zeros(data.n_nodes)
    np.maximum.at(largest, data.owner, roots)
    roots[free] = FREE * np.where(largest > 0, largest, 1.0)[data.owner[free]]
    together = _cheapest_step(data, missing, roots)
    good = np.ones(data.n_nodes, dtype=bool)
    good[data.owner[bounded & (np.abs(together) > 0.5 * room)]] = False
    return np.where(good[data.owner], together, step)


def step_of_squares(data: ExactProblem, missing: Array) -> Array:
    """Cheapest change of the squares' duals whose ``X_i^T step_i`` is what is missing, or next to it (R,)."""
    return _cheapest_step(data, missing, _square_roots(data))


def _square_roots(data: ExactProblem) -> Array:
    """Roots of the squares' curvatures; zero for other rows."""
    return np.array([0.0 if f is None else nearest_float(1 / f.curvature) ** 0.5 for f in data.squares])


def _cheapest_step(data: ExactProblem, missing: Array, root: Array) -> Array:
    """The one with the least ``sum_r (step_r / root_r)^2``; rows with the root zero do not move."""
    step = np.zeros(len(data.owner))
    scaled = root[:, None] * data.X
    wanted = np.asarray(np.isfinite(missing).all(axis=1) & missing.any(axis=1))
    for i, own in enumerate(groups(data.owner, data.n_nodes)):
        own = own[root[own] > 0]
        if wanted[i] and len(own) and np.isfinite(scaled[own]).all():
            step[own] = root[own] * np.linalg.lstsq(scaled[own].T, missing[i], rcond=None)[0]
    return np.where(np.isfinite(step), step, 0.0)


def choose_basis(
    data: ExactProblem, own_rows: NDArray[np.int64], duals: Array, dim: int, fallback: int
) -> tuple[NDArray[np.int64], int]:
    """Rows that span what the rows of a component span, of one device if possible, and the device to push to."""
    lengths = np.linalg.norm(data.X[own_rows], axis=1)
    own_rows = own_rows[lengths > 0]
    if not len(own_rows):
        return own_rows, fallback
    unit = data.X[own_rows, :dim] / lengths[lengths > 0][:, None]
    owner, free = data.owner[own_rows], np.asarray(np.isinf(data.bounds[own_rows]).all(axis=1))
    best, chosen = 0.0, np.arange(len(own_rows))
    for mine in groups(owner):
        mine = mine[free[mine]]
        if len(mine) >= dim:
            values = np.linalg.svd(unit[mine], compute_uv=False)
            if values[-1] > max(best, ROOT_CONDITION * values[0]):
                best, chosen = float(values[-1]), mine
    room = np.array([_room(data, r, float(duals[r])) for r in own_rows[chosen].tolist()])
    room[_lengths(data, own_rows[chosen]) > LONG] *= 0.1
    order = qr((room[:, None] * unit[chosen]).T, mode="r", pivoting=True)[1]
    basis = own_rows[chosen[order[: min(dim, len(order))]]]
    return basis, int(data.owner[basis[0]])


def _room(data: ExactProblem, row: int, dual: float) -> float:
    """How freely a row's dual can move: one without bounds, at most a tenth with them."""
    room = float(np.abs(dual - data.bounds[row]).min())
    return 1.0 if np.isinf(room) else 0.1 * min(1.0, room)


def _lengths(data: ExactProblem, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Binary digits of the longest entry of each row, less those that the grid of all rows added."""
    numbers = [[abs(value) for value in row if value] for row in data.lattice[rows].tolist()]
    spans = [max(row).bit_length() - min((v & -v).bit_length() for v in row) for row in numbers]
    return np.array(spans, dtype=np.int64)


def choose_forest(data: ExactProblem, U: Array, kept: NDArray[np.bool_]) -> Forest:
    """Spanning forest of the edges whose flows can move furthest, and the edge of every pair of its ends."""
    slack = np.full(len(U), np.inf)
    for p in (1.0, 2.0, np.inf):
        mine = np.flatnonzero(kept & (data.norm == p))
        slack[mine] = np.array([nearest_float(data.strength[e]) for e in mine]) - row_norm(U[mine], DUAL[p])
    cost = np.empty(len(U))
    cost[np.argsort(-slack)] = np.arange(1.0, len(U) + 1.0)  # a tree depends on the order alone
    edge_of: dict[tuple[int, int], int] = {}
    for e in np.flatnonzero(kept).tolist():
        pair = (int(data.tail[e]), int(data.head[e]))
        if pair not in edge_of or cost[e] < cost[edge_of[pair]]:
            edge_of[pair] = e
    chosen = np.array(list(edge_of.values()), dtype=np.int64)
    shape = (data.n_nodes, data.n_nodes)
    graph = sparse.coo_array((cost[chosen], (data.tail[chosen], data.head[chosen])), shape=shape)
    return sparse.csr_array(minimum_spanning_tree(graph.tocsr())), edge_of


def groups(labels: NDArray[np.int64], count: int | None = None) -> list[NDArray[np.int64]]:
    """Positions of every label."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels, minlength=count or 0)
    return np.split(order, np.cumsum(sizes)[:-1]) if len(sizes) else []
