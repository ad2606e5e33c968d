"""Losses that are not quadratic: convex functions of a device's data points or parameters, stacked by kind.

An atom gives rows: vectors x_r and, for each, a convex function of ``x_r^T w`` (or of a vector of scores, or of w
itself).  Rows of the same kind of all devices become one :class:`~gtvmin.solvers.standard_form.Term`, whose dual has
one entry a row: sums of losses need no more than their rows put together.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from gtvmin.losses.base import Loss
from gtvmin.solvers.linear_maps import ClassRows, LinearMap, NodeRows, NodeSelection
from gtvmin.solvers.standard_form import Array, BlockFunction, Term

__all__ = ["RowLoss", "SelectionLoss", "stack_rows"]


class RowLoss(Loss):
    """A loss ``sum_r phi_r(x_r^T w)``; a subclass gives its rows and names the kind of function."""

    __slots__ = ()
    function: ClassVar[type[BlockFunction]]
    """Kind of function; made from the concatenated arrays of all devices by keyword."""

    @abstractmethod
    def row_matrix(self, dim: int) -> Array:
        """The rows x_r, shape (n_rows, dim)."""

    @abstractmethod
    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Parameters of ``coefficient * phi_r``: arrays with one entry a row."""

    def stacking_key(self) -> tuple[object, ...]:
        """Atoms with equal keys are stacked together."""
        return (self.function,)

    def linear_map(self, owner: Array, X: Array, n_nodes: int) -> LinearMap:
        """The map from parameters to what the functions see."""
        return NodeRows(owner.astype(np.int64), X, n_nodes)


class SelectionLoss(RowLoss):
    """A loss that is one function of the whole parameter vector."""

    __slots__ = ()

    def row_matrix(self, dim: int) -> Array:
        """One row; the map needs no matrix."""
        return np.empty((1, dim))

    def linear_map(self, owner: Array, X: Array, n_nodes: int) -> LinearMap:
        """All parameters of the device."""
        return NodeSelection(owner.astype(np.int64), n_nodes, X.shape[1])


class ClassLoss(RowLoss):
    """A loss of vectors of scores, one a class, that are linear in features x classes parameters."""

    __slots__ = ()

    @property
    @abstractmethod
    def classes(self) -> int:
        """Number of classes."""

    def stacking_key(self) -> tuple[object, ...]:
        """Only equal numbers of classes stack."""
        return (self.function, self.classes)

    def linear_map(self, owner: Array, X: Array, n_nodes: int) -> LinearMap:
        """Scores of every class."""
        return ClassRows(owner.astype(np.int64), X, self.classes, n_nodes)


def stack_rows(atoms: Sequence[tuple[int, float, RowLoss]], n_nodes: int, dim: int) -> tuple[Term, ...]:
    """One term per kind of function from ``(device, coefficient, atom)``, in order of first appearance."""
    groups: dict[tuple[object, ...], list[tuple[int, float, RowLoss]]] = {}
    for device, coefficient, atom in atoms:
        groups.setdefault(atom.stacking_key(), []).append((device, coefficient, atom))
    terms = []
    for members in groups.values():
        first = members[0][2]
        matrices = [atom.row_matrix(dim) for _, _, atom in members]
        arrays = [atom.row_arrays(dim, coefficient) for _, coefficient, atom in members]
        owner = np.repeat([device for device, _, _ in members], [len(matrix) for matrix in matrices])
        function = first.function(**{name: np.concatenate([part[name] for part in arrays]) for name in arrays[0]})
        terms.append(Term(first.linear_map(owner, np.concatenate(matrices), n_nodes), function))
    return tuple(terms)
