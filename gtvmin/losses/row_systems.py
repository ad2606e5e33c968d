"""The rows of losses that are no squares, gathered by device for the compiled minimiser.

A system minimises ``1/2 ||u||^2 - <g, u> + sum_r phi_r(x_r^T w)`` with ``w = w_ref + R^T u`` for every device at once,
where ``(R^T R)^{-1}`` is the Hessian of the quadratic part and of the proximal term.  Devices whose coordinates do not
meet in any row or square are taken apart into their coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.ball import BallBlocks
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.losses.log_sum_exp import LogSumExpBlocks
from gtvmin.losses.logistic import LogisticBlocks
from gtvmin.losses.poisson import PoissonBlocks
from gtvmin.solvers.standard_form import Array, BlockFunction, Term

__all__ = ["RowSystem", "Rows", "gather_rows", "known"]

IntArray = NDArray[np.int64]
KIND, WIDTH, PARAMETERS, SHIFT, NOISE, START = 0, 1, slice(2, 5), 5, 6, 7
"""Columns of the compiled minimiser's table, see :mod:`gtvmin.solvers.row_functions`."""

INTERVAL, LOGISTIC, POISSON, LOG_SUM_EXP, BALL = range(5)
"""Its kinds of functions."""

# A violation of a constraint beyond this share of the parameters' size is no rounding.
CONTRADICTION = 1e-8
# Parameters count as zero below the rounding of this share of the size of their device's.
SMALL_SHARE = 1e-4

Lines = tuple[IntArray, Array, Array]
"""Which entry of a term's dual each line is about; its kind, width and parameters (lines, 5); and its target."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Lines of all terms and devices, sorted by device.

    Attributes
    ----------
    source : int array (R,)
        Position of each line in the duals of all terms, put one after the other.
    owner, X : arrays (R,), (R, dim)
        Device and vector of each line.
    table : array (R, 5)
        Kinds, widths and parameters.
    target : array (R,)
        What is subtracted from ``x_r^T w``.
    """

    source: IntArray
    owner: IntArray
    X: Array
    table: Array
    target: Array

    @property
    def entangled(self) -> NDArray[np.bool_]:
        """Lines on which several coordinates meet."""
        return np.asarray((np.count_nonzero(self.X, axis=1) > 1) | (self.table[:, 0] >= LOG_SUM_EXP))

    @property
    def steepness(self) -> Array:
        """Largest slope of intervals, zero where it is infinite; weights of likelihoods."""
        kind, first, second = self.table[:, [0, 2, 3]].T
        ends = np.maximum(np.where(np.isfinite(first), -first, 0.0), np.where(np.isfinite(second), second, 0.0))
        return np.where(kind == INTERVAL, ends, np.where(kind == BALL, 0.0, first))

    def of(self, devices: IntArray) -> Rows:
        """Lines of some devices, which are numbered anew."""
        position = np.searchsorted(devices, self.owner) % max(len(devices), 1)
        lines = np.flatnonzero(devices[position] == self.owner) if len(devices) else np.zeros(0, dtype=int)
        return Rows(self.source[lines], position[lines], self.X[lines], self.table[lines], self.target[lines])

    def by_coordinate(self) -> Rows:
        """Lines with one coordinate each, owned by coordinates in place of devices."""
        dim = self.X.shape[1]
        column = np.abs(self.X).argmax(axis=1)
        owner = self.owner * dim + column
        order = np.argsort(owner, kind="stable")
        entry = self.X[np.arange(len(column)), column][:, None]
        return Rows(self.source[order], owner[order], entry[order], self.table[order], self.target[order])


def known(function: type[BlockFunction]) -> bool:
    """Whether the compiled minimiser has functions of this kind."""
    return function in _LINES


def gather_rows(terms: tuple[Term, ...], n_nodes: int, dim: int) -> Rows:
    """Lines of the terms of :func:`known` kinds; the others have none."""
    parts, first = [], 0
    for term in terms:
        build = _LINES.get(type(term.function))
        if build is not None:
            source, table, target = build(term.function)
            owner = np.repeat(term.map.ends[0], term.map.width)[source]
            X = np.zeros((term.map.n_rows * term.map.width, dim))
            entries = term.map.matrix().tocoo()
            X[entries.row, entries.col % dim] = entries.data
            parts.append(Rows(first + source, owner, X[source], table, target))
        first += term.map.n_rows * term.map.width
    if not parts:
        return Rows(np.zeros(0, int), np.zeros(0, int), np.zeros((0, dim)), np.zeros((0, 5)), np.zeros(0))
    names = ("source", "owner", "X", "table", "target")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    order = np.argsort(joined["owner"], kind="stable")
    return Rows(**{name: values[order] for name, values in joined.items()})


class RowSystem:
    """Rows of some devices, or of the single coordinates of some devices.

    Parameters
    ----------
    members : int array (N, d)
        Where the d parameters of each unit, a device or a coordinate, stand in ``W.ravel()``.
    rows : Rows
        Lines of these units, with ``owner`` and ``X`` in their numbering.
    dim : int
        Number of parameters of a device.
    """

    def __init__(self, members: IntArray, rows: Rows, dim: int) -> None:
        self.members, self.rows, self.dim = members, rows, dim
        counts = np.bincount(rows.owner, minlength=len(members))
        self.size = np.linalg.norm(rows.X, axis=1)
        self.start = np.append(0, np.cumsum(counts))
        self._find_landmarks()

    def device(self, units: IntArray) -> IntArray:
        """The devices of some units."""
        return np.asarray(self.members[units, 0] // self.dim)

    def _find_landmarks(self) -> None:
        """Kinks and walls of rows of one coordinate: where w is on one, it is so to the last bit."""
        X, owner = self.rows.X, self.rows.owner
        kind, low, high, curvature = self.rows.table[:, [0, 2, 3, 4]].T
        self.single = (np.count_nonzero(X, axis=1) == 1) & (kind == INTERVAL) & (curvature == 0)
        self.column = np.abs(X).argmax(axis=1)
        entry = np.where(self.single, X[np.arange(len(X)), self.column], 1.0)
        self.place = self.rows.target / entry
        above, below = np.where(entry > 0, high, -low), np.where(entry > 0, low, -high)
        self.highest, self.lowest = np.full(self.members.shape, np.inf), np.full(self.members.shape, -np.inf)
        lines = np.flatnonzero(self.single & (above == np.inf))
        np.minimum.at(self.highest, (owner[lines], self.column[lines]), self.place[lines])
        lines = np.flatnonzero(self.single & (below == -np.inf))
        np.maximum.at(self.lowest, (owner[lines], self.column[lines]), self.place[lines])

    def solver(self, roots: Array) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
        """Return ``(W, P, g) -> (W, P)`` for Hessians ``H = (roots^T roots)^{-1}``, shape (N, d, d).

        It takes reference points W, duals to start from, and g (N, d), the roots times minus the gradient at W of all
        but the rows.
        """
        A = np.einsum("rj,rkj->rk", self.rows.X, roots[self.rows.owner])
        return lambda W, P, g: self._solve(A, roots, W, P, g)

    def _solve(self, A: Array, roots: Array, W: Array, P: Array, g: Array) -> tuple[Array, Array]:
        from gtvmin.solvers.semismooth_newton import minimise_rows

        w = W.ravel()[self.members]
        X, owner, target = self.rows.X, self.rows.owner, self.rows.target
        data = np.empty((len(X), 8))
        data[:, KIND], data[:, WIDTH], data[:, PARAMETERS] = *self.rows.table[:, :2].T, self.rows.table[:, 2:]
        data[:, SHIFT] = np.einsum("rj,rj->r", X, w[owner]) - target
        data[:, START] = P
        data[:, NOISE] = np.einsum("rj,rj->r", np.abs(X), np.abs(w[owner])) + np.abs(target)
        lengths = self._lengths(w, roots, g)
        data[:, NOISE] += SMALL_SHARE * lengths[owner] * self.size
        u, duals, violation = minimise_rows(A, data, self.start, g, bool(P.any()))
        w = w + np.einsum("nkj,nk->nj", roots, u)
        self._refuse_contradictions(np.flatnonzero(violation > CONTRADICTION), w, lengths)
        out = W.copy()
        out.ravel()[self.members] = self._settle(w, duals)
        return out, duals

    def _lengths(self, w: Array, roots: Array, g: Array) -> Array:
        """Size of each unit's parameters: of the point, of the kinks, or a little of the way that g tells."""
        length = np.linalg.norm(w, axis=1)
        np.maximum.at(length, self.rows.owner, np.abs(self.rows.target) / np.where(self.size > 0, self.size, 1.0))
        way = np.linalg.norm(np.einsum("nkj,nk->nj", roots, g), axis=1)
        return np.asarray(np.maximum(length, SMALL_SHARE * way))

    def _refuse_contradictions(self, units: IntArray, w: Array, lengths: Array) -> None:
        """Raise an error if constraints of a unit that was not solved are violated."""
        rows, lines = self.rows, np.flatnonzero(np.isin(self.rows.owner, units))
        excess = np.einsum("rj,rj->r", rows.X[lines], w[rows.owner[lines]]) - rows.target[lines]
        low, high, curvature = rows.table[lines, 2:].T
        wall = (rows.table[lines, 0] == INTERVAL) & (curvature == 0)
        off = np.where(wall & np.isinf(high), np.maximum(excess, 0.0), 0.0)
        off = np.maximum(off, np.where(wall & np.isinf(low), np.maximum(-excess, 0.0), 0.0))
        bad = lines[off > CONTRADICTION * self.size[lines] * lengths[rows.owner[lines]]]
        if len(bad):
            raise ValueError(
                f"no parameters obey all constraints in the loss of the device at position "
                f"{int(self.device(rows.owner[bad])[0])}: they contradict each other"
            )

    def _settle(self, w: Array, duals: Array) -> Array:
        """Put coordinates at the kinks and behind the walls where rounding left them close by."""
        low, high = self.rows.table[:, 2], self.rows.table[:, 3]
        held = self.single & (low < duals) & (duals < high)
        w[self.rows.owner[held], self.column[held]] = self.place[held]
        return np.clip(w, self.lowest, self.highest)


def _table(
    kind: int, width: Array | float, first: Array, second: Array | float = 0.0, third: Array | float = 0.0
) -> Array:
    columns = (
        np.broadcast_to(np.asarray(part, dtype=float), first.shape) for part in (kind, width, first, second, third)
    )
    return np.column_stack(list(columns))


def _widths(function: BlockFunction) -> Array:
    """The width of every block at its first line, zero at the others."""
    first = np.arange(function.dim) == 0
    return np.tile(np.where(first, float(function.dim), 0.0), function.n_rows)


def _interval_lines(function: BlockFunction) -> Lines:
    """A row that is zero on ``[left, right]`` is the sum of its two sides."""
    assert isinstance(function, IntervalBlocks)
    low, high, left, right, curvature = (
        part[:, 0] for part in (function.low, function.high, function.left, function.right, function.curvature)
    )
    zero = np.zeros_like(low)
    one = left == right
    sides = [
        (np.flatnonzero(one & (low < high)), low, high, right),
        (np.flatnonzero(~one & (high > 0)), zero, high, right),
        (np.flatnonzero(~one & (low < 0)), low, zero, left),
    ]
    source = np.concatenate([rows for rows, *_ in sides])
    table = np.concatenate([_table(INTERVAL, 1.0, a[rows], b[rows], curvature[rows]) for rows, a, b, _ in sides])
    return source, table, np.concatenate([target[rows] for rows, *_, target in sides])


def _logistic_lines(function: BlockFunction) -> Lines:
    assert isinstance(function, LogisticBlocks)
    omega = function.weight[:, 0]
    return np.arange(len(omega)), _table(LOGISTIC, 1.0, omega), np.zeros(len(omega))


def _poisson_lines(function: BlockFunction) -> Lines:
    assert isinstance(function, PoissonBlocks)
    omega = function.weight[:, 0]
    return np.arange(len(omega)), _table(POISSON, 1.0, omega, function.target[:, 0]), np.zeros(len(omega))


def _log_sum_exp_lines(function: BlockFunction) -> Lines:
    assert isinstance(function, LogSumExpBlocks)
    omega = np.repeat(function.weight[:, 0], function.dim)
    table = _table(LOG_SUM_EXP, _widths(function), omega, function.indicator.ravel())
    return np.arange(len(omega)), table, np.zeros(len(omega))


def _ball_lines(function: BlockFunction) -> Lines:
    """A ball of radius zero holds every coordinate to its centre."""
    assert isinstance(function, BallBlocks)
    radius = np.repeat(function.radius, function.dim)
    ball = _table(BALL, _widths(function), radius)
    point = _table(INTERVAL, 1.0, np.full(len(radius), -np.inf), np.inf)
    table = np.where(radius[:, None] > 0, ball, point)
    return np.arange(len(table)), table, function.centre.ravel()


_LINES: dict[type[BlockFunction], Callable[[BlockFunction], Lines]] = {
    IntervalBlocks: _interval_lines,
    LogisticBlocks: _logistic_lines,
    PoissonBlocks: _poisson_lines,
    LogSumExpBlocks: _log_sum_exp_lines,
    BallBlocks: _ball_lines,
}
