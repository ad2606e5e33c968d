"""Dual variables that are feasible exactly, from ones that are feasible up to rounding.

Feasible are flows U and row duals p with ``(D^T U)_i + X_i^T p_i + tilt_i = 0`` at every device, with every row dual in
the domain of its function's conjugate, and every flow in its ball.  The equations are linear: doubles become integers
on a dyadic grid, what a component of the network is short of goes to the row duals of one device whose rows span all
parameters (or of several devices that do together) by a rational solve, and what each device is short of is then pushed
along a spanning tree of edges with much slack.  Nothing is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from gtvmin.exact.choices import choose_basis, choose_forest, choose_row_duals, groups, refining_step
from gtvmin.exact.data import SQUARED, ExactProblem
from gtvmin.exact.integers import IntegerArray, finest_grid, nearest_float, on_grid, solve_exactly
from gtvmin.solvers.standard_form import Array

__all__ = ["ExactDuals", "feasible_duals"]

# Duals are cut off this many binary digits below the largest: they are ours to choose.
DUAL_DIGITS = 400
ATTEMPTS = 8
# Rounds in which the devices' own rows take up what rounding left, and the digits that they need: what is pushed along
# edges must be small against the capacities, however small these are against the losses.
REFINEMENTS = 2
REFINED_DIGITS = 128


@dataclass(frozen=True, eq=False)
class ExactDuals:
    """Exactly feasible duals.

    Attributes
    ----------
    U : integer array (m, dim)
        Flows, in units of ``1 / (2^grid divisor_e)``.
    grid : int
        See U.
    divisor : list of int
        One for each edge.
    p : list of Fraction
        Row duals.
    """

    U: IntegerArray
    grid: int
    divisor: list[int]
    p: list[Fraction]


def feasible_duals(data: ExactProblem, U: Array, row_duals: Array) -> ExactDuals | None:
    """Exactly feasible duals near the given ones, None if none was found.

    Parameters
    ----------
    data : ExactProblem
        The problem.
    U : array (m, dim)
        Flows that are feasible up to rounding.
    row_duals : array (R,)
        Duals of the rows that are no squares; those of squares are computed.
    """
    U = np.where(np.isfinite(U), U, 0.0)
    rows = np.where(np.isfinite(row_duals), row_duals, 0.0)
    U[[a == 0 for a in data.strength]] = 0.0
    shrink = 0.0
    for _ in range(ATTEMPTS):
        found = _close(data, (1.0 - shrink) * U, (1.0 - shrink) * rows)
        if found is None:
            return None
        excess = _excess(data, found)
        if excess == 0:  # exactly: it is a fraction
            return found
        shrink = max(2.0 * shrink, 4.0 * nearest_float(excess) + float(np.finfo(float).eps))
        if shrink >= 1.0:
            break
    found = _close(data, 0.0 * U, 0.0 * rows)
    return found if found is not None and _excess(data, found) == 0 else None


def _close(data: ExactProblem, U: Array, rows: Array) -> ExactDuals | None:
    """Meet the linear equations exactly; the bounds may be exceeded a little."""
    p = choose_row_duals(data, U, rows)
    flow_grid, dual_grid, data_grid = _dual_grid(U), _dual_grid(p) + REFINED_DIGITS, data.grid
    tilts = [t for tilt in data.tilt for t in tilt]
    grid = max(flow_grid, dual_grid + data_grid, *(t.denominator.bit_length() - 1 for t in tilts))
    flows = on_grid(U, flow_grid) << (grid - flow_grid)
    X, numbers = data.lattice, on_grid(p, dual_grid)
    short = np.full((data.n_nodes, U.shape[1]), 0, dtype=object)
    np.add.at(short, data.head, flows)
    np.subtract.at(short, data.tail, flows)
    np.add.at(short, data.owner, (X * numbers[:, None]) << (grid - data_grid - dual_grid))
    for i, tilt in enumerate(data.tilt):
        if tilt:
            short[i] += np.array([int(t * (1 << grid)) for t in tilt], dtype=object)
    for _ in range(REFINEMENTS):
        missing = np.array([[nearest_float(Fraction(-v, 1 << grid)) for v in row] for row in short.tolist()])
        steps = on_grid(refining_step(data, missing.reshape(short.shape), p), dual_grid)
        numbers = numbers + steps
        np.add.at(short, data.owner, (X * steps[:, None]) << (grid - data_grid - dual_grid))
    duals = ExactDuals(flows, grid, [1] * len(flows), [Fraction(value, 1 << dual_grid) for value in numbers.tolist()])
    kept = np.array([a > 0 for a in data.strength], dtype=bool)
    links = (np.ones(int(kept.sum())), (data.tail[kept], data.head[kept]))
    labels = connected_components(sparse.coo_array(links, shape=(data.n_nodes, data.n_nodes)), directed=False)[
        1
    ].astype(np.int64)
    tree, edge_of = choose_forest(data, U, kept)
    components = groups(labels)
    lifted = X << (grid - data_grid)
    for members, own_rows in zip(components, groups(labels[data.owner], len(components)), strict=True):
        root, common = int(members[0]), 1
        if short[members].any():
            absorbed = _absorb(data, duals, lifted, short, members, own_rows, rows)
            if absorbed is None:
                return None
            root, common = absorbed
        order, parents = breadth_first_order(tree, root, directed=False)
        if common != 1:
            inside = np.isin(data.tail, members)
            flows[inside] *= common
            for e in np.flatnonzero(inside).tolist():
                duals.divisor[e] = common
        _push(data, flows, short, order, parents, edge_of)
        if short[root].any():
            return None
    return duals


def _absorb(
    data: ExactProblem,
    duals: ExactDuals,
    X: IntegerArray,
    short: IntegerArray,
    members: NDArray[np.int64],
    own_rows: NDArray[np.int64],
    rows: Array,
) -> tuple[int, int] | None:
    """Change row duals of a component until its devices together are short of nothing.

    Returns the device to push to and what the component's numbers were multiplied by, None if no change does it.
    """
    dim = int(data.dims[members].max())
    total = short[members].sum(axis=0)
    basis, root = choose_basis(data, own_rows, rows, dim, int(members[0]))
    steps = solve_exactly(X[basis, :dim].T, -total[:dim])
    if steps is None:
        return None
    for r, step in zip(basis.tolist(), steps, strict=True):
        duals.p[r] += step
    if (data.owner[basis] == root).all():
        short[root] -= total
        return root, 1
    common = math.lcm(*(step.denominator for step in steps))
    short[members] *= common
    for r, step in zip(basis.tolist(), steps, strict=True):
        short[data.owner[r]] += X[r] * int(step * common)
    return root, common


def _push(
    data: ExactProblem,
    flows: IntegerArray,
    short: IntegerArray,
    order: NDArray[np.int32],
    parents: NDArray[np.int32],
    edge_of: dict[tuple[int, int], int],
) -> None:
    """Push what every device is short of to its parent, leaves first."""
    for node in order[:0:-1].tolist():
        if not short[node].any():
            continue
        parent = int(parents[node])
        edge = edge_of[min(node, parent), max(node, parent)]
        flows[edge] += -short[node] if data.head[edge] == node else short[node]
        short[parent] += short[node]
        short[node] = 0 * short[node]


def _excess(data: ExactProblem, duals: ExactDuals) -> Fraction:
    """By which share the worst dual exceeds its bound, at most one; zero if and only if all are feasible."""
    worst = Fraction(0)
    for e in np.flatnonzero(data.norm != SQUARED).tolist():
        capacity = data.strength[e]
        bound = capacity.numerator * (duals.divisor[e] << duals.grid)
        flow = [abs(u) * capacity.denominator for u in duals.U[e].tolist()]
        if data.norm[e] == 2.0:
            size, bound = sum(u * u for u in flow), bound * bound
        else:
            size = max(flow) if data.norm[e] == 1.0 else sum(flow)
        if size > bound:
            worst = max(worst, Fraction(size - bound, bound))
    for rows, f in data.blocks():
        worst = max(worst, f.excess(duals.p[rows]))
    return min(worst, Fraction(1))


def _dual_grid(values: Array) -> int:
    top = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    return max(0, min(finest_grid(values), DUAL_DIGITS - top))
