"""Coupling of predictions instead of parameters: neighbours agree on a test set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.penalties.base import Penalty, check_equal_dims
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeTerm
from gtvmin.penalties.squared_norm import SquaredNormBlocks
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen, positive_number

__all__ = ["PredictionDiscrepancy"]

# Eigenvalues of M below this share of the largest are taken for rounding, also where they are negative.
EIGENVALUE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, init=False)
class PredictionDiscrepancy(Penalty):
    """``phi(z) = (1/r) ||X_e z||_2^2``: mean squared difference of the neighbours' predictions on r test points.

    Parameters
    ----------
    X : array_like (r, dim) or mapping from (label, label) to array_like
        Test points of all edges, or of each edge.
    matrices : array_like (dim, dim) or mapping from (label, label) to array_like
        Instead of X: symmetric positive semidefinite matrices M_e of ``phi(z) = z^T M_e z``.
    scale : {"mean", "sum"}
        ``"sum"`` leaves out the factor ``1/r`` of test points.

    Raises
    ------
    TypeError
        If both or neither of X and matrices are given, or they hold anything but real numbers.
    ValueError
        For NaN and infinity, no test points, and matrices that are not symmetric positive semidefinite.  When a
        problem is declared: for other numbers of columns than a device has parameters, and pairs that are missing or
        no edges.

    Notes
    -----
    Equation (65) of A. Jung, "Federated Learning: From Theory to Practice", arXiv 2505.19183.  It enters a problem as
    the squared norm of ``R_e (w_head - w_tail)`` with ``R_e^T R_e = M_e``; flows are ``2 alpha A_e M_e (w_head -
    w_tail)``.

    Examples
    --------
    >>> from gtvmin.penalties import PredictionDiscrepancy
    >>> round(PredictionDiscrepancy([[1.0, 0.0], [1.0, 2.0]]).value([1.0, 1.0]), 12)
    5.0
    """

    X: Any
    matrices: Any
    scale: Literal["mean", "sum"]

    def __init__(self, X: Any = None, *, matrices: Any = None, scale: Literal["mean", "sum"] = "mean") -> None:
        if (X is None) == (matrices is None):
            raise TypeError("PredictionDiscrepancy takes either test points X or matrices")
        if scale not in ("mean", "sum"):
            raise ValueError(f"scale must be 'mean' or 'sum', got {scale!r}")
        object.__setattr__(self, "X", None if X is None else _each(X, _test_points, "X"))
        object.__setattr__(self, "matrices", None if matrices is None else _each(matrices, _semidefinite, "matrices"))
        object.__setattr__(self, "scale", scale)

    @property
    def is_uniform(self) -> bool:
        """Whether all edges have the same test points or matrix."""
        return isinstance(self._declared, np.ndarray)

    @property
    def _declared(self) -> Any:
        return self.matrices if self.X is None else self.X

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Put mappings in the order of the edges, and check the numbers of columns."""
        check_equal_dims(self, edges)
        name = "matrices" if self.X is None else "X"
        values = self._declared
        if isinstance(values, dict):
            values = tuple(edges.in_order(values, f"{name} of PredictionDiscrepancy")[0])
        elif isinstance(values, tuple) and len(values) != len(edges.numbers):
            raise ValueError(f"{name} of PredictionDiscrepancy holds {len(values)} for {len(edges.numbers)} edges")
        columns = np.array([X.shape[1] for X in values]) if isinstance(values, tuple) else values.shape[1]
        bad = np.flatnonzero(columns != edges.head_dim)
        if len(bad):
            tail, head = edges.pair(int(bad[0]))
            found = np.broadcast_to(columns, edges.head_dim.shape)[bad[0]]
            raise ValueError(
                f"{name} of PredictionDiscrepancy has {found} columns for the edge ({tail!r}, {head!r}), whose devices "
                f"have {edges.head_dim[bad[0]]} parameters"
            )
        bound = object.__new__(PredictionDiscrepancy)
        for key, value in {**self.arguments(), name: values}.items():
            object.__setattr__(bound, key, value)
        return bound

    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """The squared norm of ``R_e (w_head - w_tail)``, one term for every size of ``R_e``."""
        if self.is_uniform:
            roots = [self._root(self._declared)] * len(edges.numbers)
        else:
            roots = [self._root(self._declared[number]) for number in edges.numbers]
        shapes = np.array([root.shape for root in roots]).reshape(len(roots), 2)
        terms = []
        for rows, columns in np.unique(shapes, axis=0):
            chosen = np.flatnonzero((shapes == (rows, columns)).all(axis=1))
            R = np.stack([roots[k] for k in chosen])
            function = SquaredNormBlocks(strengths[chosen], int(rows))
            term = EdgeTerm(edges.numbers[chosen], function, B=R, C=R, lift=np.swapaxes(R, 1, 2))
            terms.append(term if columns == edges.dim else term.on_coordinates(np.arange(columns), edges.dim))
        return tuple(terms)

    def _root(self, declared: Array) -> Array:
        """R with ``R^T R = M`` and at most as many rows as columns."""
        if self.X is None:
            values, vectors = np.linalg.eigh(declared)
            kept = values > EIGENVALUE_TOLERANCE * values.max(initial=0.0)
            return np.asarray(np.sqrt(values[kept])[:, None] * vectors[:, kept].T)
        rows, columns = declared.shape
        root = declared if rows <= columns else np.asarray(np.linalg.qr(declared, mode="r"))
        return root / np.sqrt(rows) if self.scale == "mean" else root

    def _single_root(self, vector: ArrayLike, name: str) -> tuple[Array, Array]:
        if not self.is_uniform:
            raise ValueError("test points by edge need a network: evaluate the penalty of one edge")
        row = np.atleast_1d(finite_array(vector, name))
        root = self._root(self._declared)
        if row.shape != (root.shape[1],):
            raise ValueError(f"{name} must be a vector of {root.shape[1]} numbers, got shape {row.shape}")
        return root, row

    def value(self, z: ArrayLike) -> float:
        """``||R z||^2``."""
        root, row = self._single_root(z, "z")
        return float(np.square(root @ row).sum())

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """``(I + 2 step M)^{-1} v``."""
        root, row = self._single_root(v, "v")
        return np.asarray(np.linalg.solve(np.eye(len(row)) + 2.0 * positive_number(step, "step") * root.T @ root, row))

    def conjugate(self, u: ArrayLike) -> float:
        """``u^T M^+ u / 4`` in the range of M, ``inf`` outside."""
        root, row = self._single_root(u, "u")
        dual = np.linalg.lstsq(root.T, row)[0]
        off = np.linalg.norm(root.T @ dual - row)
        return float(0.25 * dual @ dual) if off <= 1e-9 * np.linalg.norm(row) else float("inf")

    def __repr__(self) -> str:
        name = "matrices" if self.X is None else "X"
        shown = f"shape {self._declared.shape}" if self.is_uniform else f"{len(self._declared)} edges"
        scale = ", scale='sum'" if self.X is not None and self.scale == "sum" else ""
        return f"PredictionDiscrepancy({name}=<{shown}>{scale})"


def _each(value: Any, check: Any, name: str) -> Any:
    """One checked array, or a dictionary or tuple of them."""
    if isinstance(value, Mapping):
        return {pair: check(part, f"{name} of the edge {pair!r}") for pair, part in value.items()}
    if isinstance(value, tuple) and value and np.ndim(value[0]) == 2:
        return tuple(check(part, f"{name} at position {k}") for k, part in enumerate(value))
    return check(value, name)


def _test_points(value: Any, name: str) -> Array:
    array = finite_array(value, name)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (test points, parameters), neither of them 0, got {array.shape}")
    return frozen(array)


def _semidefinite(value: Any, name: str) -> Array:
    array = finite_array(value, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} must be a square matrix, got shape {array.shape}")
    size = np.abs(array).max(initial=0.0)
    if np.abs(array - array.T).max(initial=0.0) > EIGENVALUE_TOLERANCE * size:
        raise ValueError(f"{name} must be symmetric")
    least = float(np.linalg.eigvalsh(array)[0]) if size else 0.0
    if least < -EIGENVALUE_TOLERANCE * len(array) * size:
        raise ValueError(f"{name} must be positive semidefinite, got the eigenvalue {least:g}")
    return frozen(array)
