"""From a declared problem to what federated algorithms see: arrays, identities of devices, data points."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from gtvmin.federated.class_tables import class_points
from gtvmin.losses import Huber, Logistic, Ridge, SquaredError, Zero
from gtvmin.losses.base import Loss, Sum
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.quadratic_form import Quadratic
from gtvmin.losses.squared_error import row_weights
from gtvmin.losses.stacking import split_losses
from gtvmin.solvers.federated.class_points import ClassPoints
from gtvmin.solvers.federated.data_points import HUBER, LOGISTIC, SQUARED, DataPoints
from gtvmin.solvers.federated.form import FederatedForm
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["data_points", "federated_form", "label_identity"]

_FORMS: WeakKeyDictionary[GTVMin, FederatedForm] = WeakKeyDictionary()
"""Made once for each problem, as long as it is there."""

Block = tuple[Array, Array, Array, int, float]
"""Rows, targets, weights, kind and parameter of one term of a loss."""


def federated_form(problem: GTVMin) -> FederatedForm:
    """The problem's arrays with the devices' identities and data points.

    Minibatches are possible (``form.data`` is there) if the losses are sums of :class:`~gtvmin.losses.SquaredError`,
    :class:`~gtvmin.losses.Ridge`, :class:`~gtvmin.losses.Logistic`, :class:`~gtvmin.losses.Huber` and quadratic
    functions without data, or of :class:`~gtvmin.losses.Softmax` and separable quadratic functions.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.federated import federated_form
    >>> losses = [gtv.SquaredError([[1.0], [2.0]], [0.0, 1.0]), gtv.SquaredError([[1.0]], [3.0])]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> federated_form(problem).samples.tolist()
    [2, 1]
    """
    if problem not in _FORMS:
        _FORMS[problem] = _make_form(problem)
    return _FORMS[problem]


def _make_form(problem: GTVMin) -> FederatedForm:
    form = problem.lowered.form
    return FederatedForm(
        n_nodes=form.n_nodes,
        dim=form.dim,
        quadratic=form.quadratic,
        couplings=form.couplings,
        rows=form.rows,
        local=form.local,
        ids=np.array([label_identity(label) for label in problem.network.nodes], dtype=np.uint64),
        samples=np.array([loss.n_samples for loss in problem.losses], dtype=np.int64),
        data=_points(problem),
        labels=problem.network.nodes,
    )


def _points(problem: GTVMin) -> DataPoints | ClassPoints | None:
    if (problem.dims != problem.dim).any():
        return None
    return data_points(problem.losses, problem.dim) or class_points(problem.losses, problem.dim)


def label_identity(label: Hashable) -> int:
    """A 64-bit number that a label has in every network and every run.

    A label of another kind than numbers, strings, and tuples and sets of labels is known by its ``repr``, which must
    not change from run to run.
    """
    return int.from_bytes(hashlib.blake2b(_label_text(label).encode(), digest_size=8).digest(), "big")


def _label_text(label: Hashable) -> str:
    """A text for a label, whatever the seed of Python's hashes and whether NumPy made it."""
    if isinstance(label, Integral) and not isinstance(label, bool):
        return f"int {int(label)}"
    if isinstance(label, Real) and not isinstance(label, bool):
        return f"float {float(label)!r}"
    if isinstance(label, str):
        return f"str {str(label)!r}"
    if isinstance(label, tuple):
        return f"tuple {[_label_text(part) for part in label]!r}"
    if isinstance(label, frozenset):
        return f"set {sorted(_label_text(part) for part in label)!r}"
    return f"{type(label).__name__} {label!r}"


def data_points(losses: Sequence[Loss], dim: int) -> DataPoints | None:
    """The losses as one table of data points, or None if one of them is of another kind."""
    blocks: list[list[Block]] = []
    remainders: list[Loss] = []
    for loss in losses:
        mine: list[Block] = []
        rest: list[tuple[float, Loss]] = []
        for coefficient, atom in loss.terms():
            if not atom.n_samples:
                rest.append((coefficient, atom))
                continue
            if isinstance(atom, Ridge):
                rest.append((coefficient, Quadratic(2.0 * atom.lam * np.diag(atom.penalise))))
                atom = atom.data
            block = _block(coefficient, atom)
            if block is None:
                return None
            mine.append(block)
        blocks.append(mine)
        remainders.append(Sum(rest) if rest else Zero())
    quadratic, rows, _ = split_losses(remainders, dim)
    if rows or not isinstance(quadratic, QuadraticBlocks):
        return None
    return _table(blocks, quadratic)


def _block(coefficient: float, atom: Loss) -> Block | None:
    if isinstance(atom, SquaredError):
        kind, parameter = SQUARED, 0.0
    elif isinstance(atom, Logistic):
        kind, parameter = LOGISTIC, 0.0
    elif isinstance(atom, Huber):
        kind, parameter = HUBER, atom.delta
    else:
        return None
    weight = coefficient * row_weights(atom.n_samples, atom.scale, atom.sample_weight)
    return atom.X, atom.y, weight, kind, parameter


def _table(blocks: list[list[Block]], remainder: QuadraticBlocks) -> DataPoints:
    """Data points and remainder in the order of the devices; rows with one entry become a diagonal."""
    diagonal, tilt = np.zeros_like(remainder.tilt), remainder.tilt.copy()
    single = np.count_nonzero(remainder.X, axis=1) <= 1
    owner, X, omega = remainder.owner[single], remainder.X[single], remainder.weight[single, None]
    np.add.at(diagonal, owner, 2.0 * omega * X**2)
    np.add.at(tilt, owner, -2.0 * omega * remainder.y[single, None] * X)
    first = np.cumsum(remainder.counts) - remainder.counts
    parts: list[Block] = []
    starts, ends = [0], []
    for i, mine in enumerate(blocks):
        rows = first[i] + np.flatnonzero(~single[first[i] : first[i] + remainder.counts[i]])
        ends.append(starts[-1] + sum(len(block[1]) for block in mine))
        starts.append(ends[-1] + len(rows))
        parts += mine
        if len(rows):
            parts.append((remainder.X[rows], remainder.y[rows], remainder.weight[rows], SQUARED, 0.0))
    nothing: Block = (np.empty((0, remainder.dim)), np.empty(0), np.empty(0), SQUARED, 0.0)
    parts = parts or [nothing]
    sizes = [len(part[1]) for part in parts]
    return DataPoints(
        X=np.ascontiguousarray(np.concatenate([part[0] for part in parts])),
        y=np.concatenate([part[1] for part in parts]),
        weight=np.concatenate([part[2] for part in parts]),
        kind=np.repeat(np.array([part[3] for part in parts], dtype=np.int64), sizes),
        parameter=np.repeat(np.array([part[4] for part in parts], dtype=float), sizes),
        starts=np.array(starts),
        ends=np.array(ends),
        diagonal=diagonal,
        tilt=tilt,
    )
