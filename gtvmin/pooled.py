"""The model that devices would have in common: a minimiser of the sum of their losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gtvmin.losses.base import Loss, Sum
from gtvmin.losses.stacking import split_losses
from gtvmin.solvers.standard_form import Array, BlockFunction, Duals

__all__ = ["PooledModel", "pooled_model"]

# Eigenvalues of the unit-diagonal Gram matrix below this share count as zero.
RANK_TOLERANCE = 1e-13
REFINEMENTS = 2
# What is left of a gradient beyond this share of its parts is no rounding: the sum falls for ever that way.
UNBOUNDED = 1e-6


@dataclass(frozen=True, eq=False)
class PooledModel:
    """A minimiser of the sum of some losses.

    Attributes
    ----------
    w : array (dim,)
        The parameters; those of least norm (in units that give all coordinates the same curvature) if there are more.
    subgradients : array (n, dim)
        One of each loss at ``w``; they sum to zero.
    smooth : bool
        Whether they are gradients, and hence the only ones.
    """

    w: Array
    subgradients: Array
    smooth: bool


def pooled_model(losses: Sequence[Loss], dim: int) -> PooledModel:
    """Minimise ``sum_i L_i(w)`` over one parameter vector.

    Parameters
    ----------
    losses : sequence of Loss
        The losses.
    dim : int
        Number of parameters.

    Returns
    -------
    PooledModel
        In closed form for quadratic losses, else from CVXPY with Clarabel, to about ten digits.

    Raises
    ------
    ValueError
        If the sum of quadratic losses is unbounded below.
    RuntimeError
        If Clarabel finds no minimiser.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.pooled import pooled_model
    >>> model = pooled_model([0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 2.0, 7.0)], 1)
    >>> model.w.tolist(), model.subgradients.ravel().tolist()
    ([3.0], [3.0, 1.0, -4.0])
    """
    quadratic, rows, _ = split_losses(losses, dim)
    if rows:
        w, duals = _by_cvxpy(losses, dim)
    else:
        w, duals = _normal_equations(quadratic), ()
    W = np.tile(w, (len(losses), 1))
    S = quadratic.gradient(W)
    for term, dual in zip(rows, duals, strict=True):
        S = S + term.map.adjoint(dual)
    smooth = all("gradient" in term.function.capabilities for term in rows)
    return PooledModel(w, S - S.mean(axis=0), smooth)


def _normal_equations(quadratic: BlockFunction) -> Array:
    """Minimiser of a sum of quadratic functions; refined, since the Gram matrix has lost digits of the rows."""
    blocks, linear = quadratic.quadratic()
    Q, b = blocks.sum(axis=0), linear.sum(axis=0)
    diagonal = np.diag(Q)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    inverse = (
        scale[:, None] * np.linalg.pinv(scale[:, None] * Q * scale, RANK_TOLERANCE * len(b), hermitian=True) * scale
    )
    w = inverse @ b
    for _ in range(REFINEMENTS):
        gradient = quadratic.gradient(np.tile(w, (len(blocks), 1)))
        w = w - inverse @ gradient.sum(axis=0)
    gradient = quadratic.gradient(np.tile(w, (len(blocks), 1)))
    if (np.abs(gradient.sum(axis=0)) > UNBOUNDED * (np.abs(linear) + np.abs(gradient)).sum(axis=0)).any():
        raise ValueError("the sum of the losses is unbounded below: a linear term points where nothing is curved")
    return np.asarray(w)


def _by_cvxpy(losses: Sequence[Loss], dim: int) -> tuple[Array, Duals]:
    """The minimiser, and the duals of the rows of each kind of loss; these come device by device."""
    from gtvmin.network import FLNetwork
    from gtvmin.penalties import SquaredNorm
    from gtvmin.problem import GTVMin
    from gtvmin.reference import solve_reference

    total = Sum([term for loss in losses for term in loss.terms()])
    single = GTVMin(FLNetwork.from_edges([], nodes=[0]), [total], penalty=SquaredNorm(), alpha=0.0, dim=dim)
    result = solve_reference(single)
    return result.W[0], result.duals[len(single.lowered.form.couplings) :]
