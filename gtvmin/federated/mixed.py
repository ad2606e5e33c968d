"""Programs whose coupling has weights between all devices, declared as the loss of one device.

Averaging after local steps, ``W <- M (W - grad G(W))``, is a descent on
``sum_i G_i(w_i) + (1/2) <W, (M^-1 - I) W>`` over the range of M.  The coupling's weights are not those of a network:
some are negative.  In the coordinates ``Z = V^T W`` of the eigenvectors V of M with positive eigenvalues it is a
diagonal, and the whole is one loss of ``(rank of M) x dim`` parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np

from gtvmin.federated.program import Program
from gtvmin.losses import Huber, Logistic, Loss, Quadratic, SquaredError
from gtvmin.losses.base import Sum
from gtvmin.losses.squared_rows import QuadraticLoss
from gtvmin.network import FLNetwork
from gtvmin.penalties import SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.mixing import Mixing
from gtvmin.solvers.standard_form import Array, Point

__all__ = ["MOST_PARAMETERS", "after_mixing"]

# Parameters of all devices together; the loss of one device has a dense matrix of as many rows.
MOST_PARAMETERS = 2000
# Eigenvalues of M below this are taken for zeros.
RANK = 1e-9


def after_mixing(
    mixing: Mixing, losses: Iterable[Loss], dim: int, strength: float, *, exact: bool = True, note: str = ""
) -> Program | None:
    """``min sum_i G_i(w_i) + (strength / 2) <W, (M^-1 - I) W>`` over the range of M; None if it is not declared.

    Known are quadratic losses, :class:`~gtvmin.losses.Logistic`, :class:`~gtvmin.losses.Huber`, and sums of them, of up
    to :data:`MOST_PARAMETERS` parameters of all devices together.
    """
    if mixing.matrix.shape[0] * dim > MOST_PARAMETERS:
        return None
    values, vectors = np.linalg.eigh(mixing.matrix.toarray())
    kept = values > RANK
    V, spread = vectors[:, kept], np.maximum(1.0 / values[kept] - 1.0, 0.0)
    terms: list[tuple[float, Loss]] = [(1.0, Quadratic(strength * np.kron(np.diag(spread), np.eye(dim))))]
    for row, loss in zip(V, losses, strict=True):
        for coefficient, atom in loss.terms():
            moved = _in_coordinates(atom, row, dim)
            if moved is None:
                return None
            terms += [(coefficient, part) for part in moved]
    network = FLNetwork.from_edges([], nodes=["all devices"])
    problem = GTVMin(network, {"all devices": Sum(terms)}, penalty=SquaredNorm(), alpha=0.0)
    formula = f"minimise sum_i L_i(w_i) + {0.5 * strength:g} <W, (M^-1 - I) W> over W in the range of M"
    return Program(problem, partial(_coordinates, V=V), exact, note, formula)


def _coordinates(point: Point, *, V: Array) -> Array:
    """The models in the eigenvectors V of the mixing matrix, as one row."""
    return np.asarray((V.T @ point.W).reshape(1, -1))


def _in_coordinates(atom: Loss, row: Array, dim: int) -> list[Loss] | None:
    """The loss of ``sum_k row_k z_k`` as some of all z_k."""
    if isinstance(atom, QuadraticLoss):
        X, y, weight = atom.rows(dim)
        root, affine = np.sqrt(weight), atom.affine(dim)
        found: list[Loss] = []
        if len(y):
            found.append(SquaredError(np.kron(row, root[:, None] * X), root * y, scale="sum"))
        if affine is not None:
            found.append(Quadratic(np.zeros((len(row) * dim,) * 2), np.kron(row, affine[0]), affine[1]))
        return found
    if isinstance(atom, Logistic | Huber):
        return [type(atom)(**{**atom.arguments(), "X": np.kron(row, atom.X)})]
    return None
