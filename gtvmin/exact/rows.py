"""Losses as convex functions of rows, in exact numbers: ``sum_r phi_r(X_r w) + linear^T w + constant``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gtvmin.errors import CapabilityError
from gtvmin.exact.functions import BallIndicator, ExactFunction, Exponential, Interval, LogSumExp
from gtvmin.exact.integers import IntegerArray
from gtvmin.losses.ball import Ball
from gtvmin.losses.base import Loss
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.losses.linear import Linear
from gtvmin.losses.linear_model import LinearModelLoss
from gtvmin.losses.logistic import Logistic
from gtvmin.losses.poisson import Poisson
from gtvmin.losses.quantile import Quantile
from gtvmin.losses.ridge import Ridge
from gtvmin.losses.rows import RowLoss
from gtvmin.losses.softmax import Softmax
from gtvmin.losses.squared_distance import SquaredDistance
from gtvmin.losses.squared_error import SquaredError
from gtvmin.losses.zero import Zero
from gtvmin.solvers.standard_form import Array, Duals

__all__ = ["LossRows", "loss_rows", "row_duals"]


@dataclass(frozen=True, eq=False)
class LossRows:
    """One loss of a device.

    Attributes
    ----------
    X : array (k, dim)
        Rows; rounded if they are no doubles.
    functions : list of ExactFunction
        Functions of the rows, each of as many as its width says.
    exact : tuple of integer array (k, dim) and int, optional
        Rows that are no doubles, in units of ``2^-grid``, and this grid.
    linear : list of Fraction
        Linear coefficients (dim,), empty for none.
    constant : Fraction
        A constant.
    kind : tuple, optional
        Which term of the standard form has its duals; None for losses that are quadratic there.
    count : int
        How many rows it has in this term.
    duals : callable
        Takes these rows of duals to those of the rows here.
    """

    X: Array
    functions: list[ExactFunction]
    exact: tuple[IntegerArray, int] | None = None
    linear: tuple[Fraction, ...] = ()
    constant: Fraction = Fraction(0)
    kind: tuple[int, tuple[object, ...]] | None = None
    count: int = 0
    duals: Callable[[Array], Array] = np.ravel


def loss_rows(atom: Loss, dim: int, factor: Fraction) -> LossRows:
    """``factor`` times a loss of ``dim`` parameters; rows of weight zero are left out.

    Raises
    ------
    CapabilityError
        If nothing exact is known about it.
    """
    found = _read(atom, dim, factor)
    if not isinstance(atom, RowLoss):
        return found
    return replace(found, kind=(dim, atom.stacking_key()), count=len(atom.row_matrix(dim)))


def row_duals(parts: Sequence[LossRows], duals: Duals) -> Array:
    """Duals of all rows from those that the standard form has of its terms of rows; zero where it has none.

    The form has a term for each number of parameters and kind of function, in the order of their first loss.
    """
    found = dict.fromkeys(part.kind for part in parts if part.kind is not None)
    kinds = sorted(found, key=lambda kind: kind[0])
    terms, taken = dict(zip(kinds, duals, strict=True)), dict.fromkeys(kinds, 0)
    out = []
    for part in parts:
        own = np.zeros(len(part.X))
        if part.kind is not None:
            first = taken[part.kind]
            taken[part.kind] += part.count
            given = part.duals(terms[part.kind][first : first + part.count])
            if len(given) == len(own):  # a weight that is no double is zero there
                own = given
        out.append(own)
    return np.concatenate([np.empty(0), *out])


def _read(atom: Loss, dim: int, factor: Fraction) -> LossRows:
    if isinstance(atom, Zero):
        return LossRows(np.empty((0, dim)), [])
    if isinstance(atom, Linear):
        return LossRows(np.empty((0, dim)), [], linear=tuple(factor * Fraction(c) for c in atom.c))
    if isinstance(atom, SquaredError):
        return _squares(atom.X, atom.y, [factor * w for w in _weights(atom)])
    if isinstance(atom, Ridge):
        weights = [factor * w for w in _weights(atom.data)]
        weights += [factor * Fraction(atom.lam) * Fraction(c) for c in atom.penalise]
        return _squares(np.vstack([atom.data.X, np.eye(dim)]), np.append(atom.data.y, np.zeros(dim)), weights)
    if isinstance(atom, SquaredDistance):
        factors = np.ones(dim) if atom.penalise is None else atom.penalise
        return _squares(np.eye(dim), np.broadcast_to(atom.a, dim), [factor * Fraction(c) for c in factors])
    if isinstance(atom, (Logistic, Poisson, Softmax)):
        return _likelihood(atom, factor)
    if isinstance(atom, Ball):
        centre = tuple(Fraction(c) for c in np.broadcast_to(atom.centre, dim))
        return LossRows(np.eye(dim), [BallIndicator(Fraction(atom.radius), centre)])
    if isinstance(atom, LinearModelLoss) and atom.function is IntervalBlocks:
        used, weights = _positive(atom, factor)
        unit = type(atom)(**{**atom.arguments(), "scale": "sum", "sample_weight": None})
        kinds = _intervals({name: part[used] for name, part in unit.row_arrays(dim, 1.0).items()})
        if isinstance(atom, Quantile):
            kinds = [kind._replace(high=1 - Fraction(atom.tau)) for kind in kinds]
        return LossRows(unit.row_matrix(dim)[used], [f.scaled(w) for f, w in zip(kinds, weights, strict=True)])
    if isinstance(atom, RowLoss) and atom.function is IntervalBlocks:
        return LossRows(atom.row_matrix(dim), [f.scaled(factor) for f in _intervals(atom.row_arrays(dim, 1.0))])
    raise CapabilityError(
        "has no exact evaluation: rigorous certificates take every loss of the package but CvxpyLoss, of whose "
        "expression nothing can be proved"
    )


def _weights(atom: SquaredError | LinearModelLoss | Logistic | Poisson | Softmax) -> list[Fraction]:
    """Exact weights of the data points: what :func:`gtvmin.losses.squared_error.row_weights` rounds."""
    given = atom.sample_weight
    weights = [Fraction(1)] * atom.n_samples if given is None else [Fraction(w) for w in given]
    total = sum(weights, Fraction(0))
    return [w / total for w in weights] if atom.scale == "mean" and weights else weights


def _positive(
    atom: LinearModelLoss | Logistic | Poisson | Softmax, factor: Fraction
) -> tuple[NDArray[np.bool_], list[Fraction]]:
    """Which data points have a positive weight, and ``factor`` times these weights."""
    weights = _weights(atom)
    return np.array([w > 0 for w in weights], dtype=bool), [factor * w for w in weights if w > 0]


def _squares(X: Array, y: Array, weights: list[Fraction]) -> LossRows:
    used = np.array([w > 0 for w in weights], dtype=bool)
    pairs = ((Fraction(t), w) for t, w in zip(y, weights, strict=True) if w > 0)
    return LossRows(X[used], [Interval.square(w, t) for t, w in pairs])


def _likelihood(atom: Logistic | Poisson | Softmax, factor: Fraction) -> LossRows:
    used, weights = _positive(atom, factor)
    X, y = atom.X[used], atom.y[used]
    if isinstance(atom, Poisson):
        return LossRows(X, [Exponential(w, Fraction(t)) for w, t in zip(weights, y, strict=True)])
    if isinstance(atom, Logistic):
        return LossRows(-y[:, None] * X, [LogSumExp(w) for w in weights], duals=lambda S: -S[:, 0])
    # scores of the other classes less that of the label: their duals are free of equations
    label, classes = y.astype(int), np.arange(atom.classes)
    others = np.array([classes[classes != k] for k in label]).reshape(len(y), atom.classes - 1)
    differences = np.eye(atom.classes)[others] - np.eye(atom.classes)[label][:, None, :]
    rows = np.einsum("rf,rkc->rkfc", X, differences).reshape(-1, atom.dim)
    functions: list[ExactFunction] = [LogSumExp(w, atom.classes - 1) for w in weights]
    return LossRows(rows, functions, duals=lambda S: np.take_along_axis(S, others, axis=1).ravel())


def _intervals(arrays: dict[str, Array]) -> list[Interval]:
    """Functions of weight one: their numbers are declared ones, or small multiples of these by a power of two."""
    columns = (arrays[name] for name in ("low", "high", "left", "right", "curvature"))
    return [
        Interval(
            None if low == -np.inf else Fraction(low),
            None if high == np.inf else Fraction(high),
            Fraction(left),
            Fraction(right),
            Fraction(curvature),
        )
        for low, high, left, right, curvature in zip(*columns, strict=True)
    ]
