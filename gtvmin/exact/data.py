"""The declared numbers of a problem as exact rationals.

A double is a rational number, and so are ``1/m``, ``alpha A_e`` and all else that a declaration multiplies and divides.
Nothing here is rounded: what :mod:`gtvmin.rigorous` proves, it proves about these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gtvmin.errors import CapabilityError
from gtvmin.exact.devices import device_rows
from gtvmin.exact.functions import ExactFunction, Interval
from gtvmin.exact.integers import IntegerArray, finest_grid, nearest_float, on_grid
from gtvmin.exact.rows import LossRows
from gtvmin.penalties.norm import Norm
from gtvmin.penalties.per_edge import PerEdge
from gtvmin.penalties.squared_norm import SquaredNorm
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["SQUARED", "ExactProblem", "exact_problem"]

SQUARED = 0.0
"""Stands for the squared norm where edges have the p of their norm."""


@dataclass(frozen=True, eq=False)
class ExactProblem:
    """``sum_i sum_b phi_b(X_b w_i) + tilt_i^T w_i + constant_i  +  sum_e a_e ||w_head - w_tail||``.

    Attributes
    ----------
    dims : int array (n_nodes,)
        Number of parameters of each device.
    X : array (R, dim)
        Rows of all devices, those of device 0 first, with zeros beyond a device's own parameters; rounded.
    lattice, grid : integer array (R, dim) and int
        The rows without rounding, in units of ``2^-grid``.
    owner : int array (R,)
        Device of each row.
    functions : list of ExactFunction
        ``phi_b``, each of consecutive rows: one after the other they take all.
    parts : list of LossRows
        The losses that the rows come from.
    tilt : list
        Linear coefficients of each device, empty for none.
    constant : list of Fraction
        Constants of the devices.
    tail, head : int arrays (m,)
        Edges of all families.
    norm : array (m,)
        p of each edge's norm, or ``SQUARED``.
    strength : list of Fraction
        ``a_e = alpha A_e``; zero where nothing is coupled.
    """

    dims: NDArray[np.int64]
    X: Array
    lattice: IntegerArray
    grid: int
    owner: NDArray[np.int64]
    functions: list[ExactFunction]
    parts: list[LossRows]
    tilt: list[list[Fraction]]
    constant: list[Fraction]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    norm: Array
    strength: list[Fraction]

    @property
    def n_nodes(self) -> int:
        """Number of devices."""
        return len(self.dims)

    def blocks(self) -> Iterator[tuple[slice, ExactFunction]]:
        """All functions and their rows."""
        first = 0
        for f in self.functions:
            yield slice(first, first + f.width), f
            first += f.width

    @cached_property
    def squares(self) -> list[Interval | None]:
        """The weighted square of each row; None for other functions."""
        rows = ((f if isinstance(f, Interval) and f.is_square else None, f.width) for f in self.functions)
        return [f for f, width in rows for _ in range(width)]

    @cached_property
    def bounds(self) -> Array:
        """Least and largest dual of each row (R, 2), rounded; infinite where there is none."""
        pairs = [
            (-np.inf if low is None else nearest_float(low), np.inf if high is None else nearest_float(high))
            for f in self.functions
            for low, high in [f.bounds] * f.width
        ]
        return np.array(pairs).reshape(-1, 2)


def exact_problem(problem: GTVMin) -> ExactProblem:
    """Read a declared problem.

    Raises
    ------
    CapabilityError
        If it has a loss or a penalty of which nothing exact is known; the message names the first.
    """
    dim = problem.dim
    parts: list[LossRows] = []
    owner: list[int] = []
    tilts, constants = [], []
    for i, (node, loss) in enumerate(zip(problem.network.nodes, problem.losses, strict=True)):
        tilt, constant = [Fraction(0)] * dim, Fraction(0)
        for part in device_rows(loss, int(problem.dims[i]), node):
            parts.append(part)
            owner += [i] * len(part.X)
            tilt[: len(part.linear)] = [a + b for a, b in zip(tilt, part.linear, strict=False)]
            constant += part.constant
        tilts.append(tilt if any(tilt) else [])
        constants.append(constant)
    X, lattice, grid = _stack(parts, dim)
    tail, head, norm, strength = _edges(problem)
    return ExactProblem(
        dims=problem.dims,
        X=X,
        lattice=lattice,
        grid=grid,
        owner=np.array(owner, dtype=np.int64),
        functions=[f for part in parts for f in part.functions],
        parts=parts,
        tilt=tilts,
        constant=constants,
        tail=tail,
        head=head,
        norm=norm,
        strength=strength,
    )


def _stack(parts: list[LossRows], dim: int) -> tuple[Array, IntegerArray, int]:
    """Rows of all losses: rounded, and on one grid."""
    X = np.concatenate([np.empty((0, dim)), *(np.pad(p.X, ((0, 0), (0, dim - p.X.shape[1]))) for p in parts)])
    declared = np.repeat([part.exact is None for part in parts], [len(part.X) for part in parts])
    grid = max(finest_grid(X[declared]), *(part.exact[1] for part in parts if part.exact is not None), 0)
    lattice = np.zeros(X.shape, dtype=object)
    lattice[declared] = on_grid(X[declared], grid)
    first = 0
    for part in parts:
        rows, columns = part.X.shape
        if part.exact is not None:
            lattice[first : first + rows, :columns] = part.exact[0] << (grid - part.exact[1])
        first += rows
    return X, lattice, grid


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
