"""The declared numbers of a problem as exact rationals.

A double is a rational number, and so are ``1/m``, ``alpha A_e`` and all else that a declaration multiplies and divides.
Nothing here is rounded: what :mod:`gtvmin.rigorous` proves, it proves about these numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gtvmin.errors import CapabilityError
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.losses.linear import Linear
from gtvmin.losses.linear_model import LinearModelLoss
from gtvmin.losses.quantile import Quantile
from gtvmin.losses.ridge import Ridge
from gtvmin.losses.rows import RowLoss
from gtvmin.losses.squared_distance import SquaredDistance
from gtvmin.losses.squared_error import SquaredError
from gtvmin.losses.zero import Zero
from gtvmin.penalties.norm import Norm
from gtvmin.penalties.per_edge import PerEdge
from gtvmin.penalties.squared_norm import SquaredNorm
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.losses.base import Loss
    from gtvmin.problem import GTVMin

__all__ = ["SQUARED", "ExactProblem", "RowFunction", "exact_problem"]

SQUARED = 0.0
"""Stands for the squared norm where edges have the p of their norm."""


class RowFunction(NamedTuple):
    """``phi(t) = sup { p t - c(p) : low <= p <= high }`` with the c of :mod:`gtvmin.losses.interval`; None: no bound.

    A square ``c (t - y)^2`` has no bounds, both targets y, and the curvature ``1 / (2 c)``.
    """

    low: Fraction | None
    high: Fraction | None
    left: Fraction
    right: Fraction
    curvature: Fraction

    def holds(self, p: Fraction) -> bool:
        """Whether p is in the domain of the conjugate."""
        return (self.low is None or p >= self.low) and (self.high is None or p <= self.high)

    def conjugate(self, p: Fraction) -> Fraction:
        """``c(p)``."""
        return self.curvature * p * p / 2 + (self.right if p > 0 else self.left) * p

    def value(self, t: Fraction) -> Fraction | None:
        """``phi(t)``, None where it is infinite."""
        if self.left <= t <= self.right:
            return Fraction(0)
        d = t - (self.right if t > self.right else self.left)
        bound = self.high if d > 0 else self.low
        if self.curvature == 0:
            return None if bound is None else bound * d
        p = d / self.curvature
        if bound is not None and abs(p) > abs(bound):
            p = bound
        return p * d - self.curvature * p * p / 2


@dataclass(frozen=True, eq=False)
class ExactProblem:
    """``sum_i sum_r phi_r(x_r^T w_i) + tilt_i^T w_i  +  sum_e a_e ||w_head - w_tail||``.

    Attributes
    ----------
    dims : int array (n_nodes,)
        Number of parameters of each device.
    X : array (R, dim)
        Rows of all devices, those of device 0 first, with zeros beyond a device's own parameters.
    owner : int array (R,)
        Device of each row.
    functions : list of RowFunction
        ``phi_r``.
    tilt : list
        Linear coefficients of each device, empty for none.
    tail, head : int arrays (m,)
        Edges of all families.
    norm : array (m,)
        p of each edge's norm, or ``SQUARED``.
    strength : list of Fraction
        ``a_e = alpha A_e``; zero where nothing is coupled.
    """

    dims: NDArray[np.int64]
    X: Array
    owner: NDArray[np.int64]
    functions: list[RowFunction]
    tilt: list[list[Fraction]]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    norm: Array
    strength: list[Fraction]

    @property
    def n_nodes(self) -> int:
        """Number of devices."""
        return len(self.dims)

    @property
    def square(self) -> NDArray[np.bool_]:
        """Rows of weighted squares (R,); the others are those of the standard form's terms."""
        bent = (f.curvature > 0 and f.left == f.right for f in self.functions)
        return np.asarray(self.free & np.fromiter(bent, bool, len(self.functions)))

    def marked_squares(self) -> Iterable[tuple[RowFunction, bool]]:
        """All functions, and whether they are squares."""
        return zip(self.functions, self.square.tolist(), strict=True)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Rows whose dual has no bounds (R,)."""
        return np.array([f.low is None and f.high is None for f in self.functions], bool)


def exact_problem(problem: GTVMin) -> ExactProblem:
    """Read a declared problem.

    Raises
    ------
    CapabilityError
        If it has a loss or a penalty whose values or conjugates are not rational functions of rational numbers; the
        message names the first.
    """
    dim = problem.dim
    rows: list[Array] = [np.empty((0, dim))]
    functions: list[RowFunction] = []
    owner: list[int] = []
    tilts: list[list[Fraction]] = []
    for i, (node, loss) in enumerate(zip(problem.network.nodes, problem.losses, strict=True)):
        own, tilt = int(problem.dims[i]), [Fraction(0)] * dim
        for coefficient, atom in loss.terms():
            factor = Fraction(coefficient)
            if isinstance(atom, Linear):
                tilt = [total + factor * Fraction(c) for total, c in zip(tilt, _padded(atom.c, dim), strict=True)]
                continue
            found = _rows(atom, own, factor)
            if found is None:
                raise CapabilityError(
                    f"the loss {atom!r} of node {node!r} has no exact evaluation: rigorous certificates take squared "
                    "errors, ridges, squared distances, linear functions and piecewise linear or quadratic losses "
                    "(L1, ElasticNet, Huber, LeastAbsolute, Quantile, Hinge, SquaredHinge, Box, NonNegative, Affine)"
                )
            matrix, kinds = found
            rows.append(np.pad(matrix, ((0, 0), (0, dim - own))))
            functions += kinds
            owner += [i] * len(kinds)
        tilts.append(tilt if any(tilt) else [])
    tail, head, norm, strength = _edges(problem)
    return ExactProblem(
        dims=problem.dims,
        X=np.concatenate(rows),
        owner=np.array(owner, dtype=np.int64),
        functions=functions,
        tilt=tilts,
        tail=tail,
        head=head,
        norm=norm,
        strength=strength,
    )


def _padded(row: Array, dim: int) -> list[float]:
    return [*map(float, row), *[0.0] * (dim - len(row))]


def _rows(atom: Loss, dim: int, factor: Fraction) -> tuple[Array, list[RowFunction]] | None:
    """Rows of positive weight and their functions, None for a loss that is not known here."""
    if isinstance(atom, Zero):
        return np.empty((0, dim)), []
    if isinstance(atom, SquaredError):
        return _squares(atom.X, atom.y, [factor * w for w in _weights(atom)])
    if isinstance(atom, Ridge):
        weights = [factor * w for w in _weights(atom.data)]
        weights += [factor * Fraction(atom.lam) * Fraction(c) for c in atom.penalise]
        return _squares(np.vstack([atom.data.X, np.eye(dim)]), np.append(atom.data.y, np.zeros(dim)), weights)
    if isinstance(atom, SquaredDistance):
        factors = np.ones(dim) if atom.penalise is None else atom.penalise
        return _squares(np.eye(dim), np.broadcast_to(atom.a, dim), [factor * Fraction(c) for c in factors])
    if isinstance(atom, LinearModelLoss) and atom.function is IntervalBlocks:
        weights = [w for w in _weights(atom) if w > 0]
        unit = type(atom)(**{**atom.arguments(), "scale": "sum", "sample_weight": None})
        used = np.array([w > 0 for w in _weights(atom)], dtype=bool)
        kinds = _intervals({name: part[used] for name, part in unit.row_arrays(dim, 1.0).items()})
        if isinstance(atom, Quantile):
            kinds = [kind._replace(high=1 - Fraction(atom.tau)) for kind in kinds]
        return unit.row_matrix(dim)[used], [_scaled(f, factor * w) for f, w in zip(kinds, weights, strict=True)]
    if isinstance(atom, RowLoss) and atom.function is IntervalBlocks:
        return atom.row_matrix(dim), [_scaled(f, factor) for f in _intervals(atom.row_arrays(dim, 1.0))]
    return None


def _weights(atom: SquaredError | LinearModelLoss) -> list[Fraction]:
    """Exact weights of the data points: what :func:`gtvmin.losses.squared_error.row_weights` rounds."""
    given = atom.sample_weight
    weights = [Fraction(1)] * atom.n_samples if given is None else [Fraction(w) for w in given]
    total = sum(weights, Fraction(0))
    return [w / total for w in weights] if atom.scale == "mean" and weights else weights


def _squares(X: Array, y: Array, weights: list[Fraction]) -> tuple[Array, list[RowFunction]]:
    used = np.array([w > 0 for w in weights], dtype=bool)
    pairs = ((Fraction(t), w) for t, w in zip(y, weights, strict=True) if w > 0)
    return X[used], [RowFunction(None, None, t, t, 1 / (2 * w)) for t, w in pairs]


def _intervals(arrays: dict[str, Array]) -> list[RowFunction]:
    """Functions of weight one: their numbers are declared ones, or small multiples of these by a power of two."""
    columns = (arrays[name] for name in ("low", "high", "left", "right", "curvature"))
    return [
        RowFunction(
            None if low == -np.inf else Fraction(low),
            None if high == np.inf else Fraction(high),
            Fraction(left),
            Fraction(right),
            Fraction(curvature),
        )
        for low, high, left, right, curvature in zip(*columns, strict=True)
    ]


def _scaled(f: RowFunction, factor: Fraction) -> RowFunction:
    """``factor * phi``."""
    low, high = (None if bound is None else factor * bound for bound in (f.low, f.high))
    return RowFunction(low, high, f.left, f.right, f.curvature / factor)


def _edges(problem: GTVMin) -> tuple[NDArray[np.int64], NDArray[np.int64], Array, list[Fraction]]:
    tails, heads, norms = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    strength: list[Fraction] = []
    for coupling in problem.couplings:
        net, penalty = coupling.network, coupling.penalty
        kinds, which = (
            (penalty.kinds, penalty.which) if isinstance(penalty, PerEdge) else ((penalty,), np.zeros(net.n_edges, int))
        )
        unknown = next((kind for kind in kinds if not isinstance(kind, (Norm, SquaredNorm))), None)
        if unknown is not None:
            raise CapabilityError(
                f"the penalty {unknown!r} has no exact evaluation: rigorous certificates take Norm and SquaredNorm"
            )
        if coupling.alpha == np.inf:
            raise CapabilityError("alpha is infinite: rigorous certificates take finite ones, declare a shared device")
        codes = np.array([kind.p if isinstance(kind, Norm) else SQUARED for kind in kinds])
        tails.append(net.tail)
        heads.append(net.head)
        norms.append(codes[which])
        strength += [Fraction(coupling.alpha) * Fraction(weight) for weight in net.weights]
    return np.concatenate(tails), np.concatenate(heads), np.concatenate(norms), strength
