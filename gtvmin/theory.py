r"""How far the solutions of GTV minimisation with the squared norm spread: bounds from the losses and the network.

They are those of A. Jung, "Federated Learning: From Theory to Practice" (2025), arXiv 2505.19183, and of "Analysis of
Total Variation Minimization for Clustered Federated Learning" (2024), arXiv 2403.06298, in the scaling of this package:
``P(W) = sum_i L_i(w_i) + alpha sum_e A_e ||w_head - w_tail||^2``, for any convex losses.  Each is proved where it
stands; what ``sharper`` adds is ours.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.errors import CapabilityError
from gtvmin.losses.base import Loss
from gtvmin.losses.stacking import split_losses
from gtvmin.penalties import SquaredNorm
from gtvmin.pooled import pooled_model
from gtvmin.validation import finite_array, nonnegative_number

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["cluster_deviation_bound", "deviation", "deviation_bound"]

# Rounding may make the computed infimum of a loss that is at least 0 a little negative.
ROUNDING = 1e-9


def deviation(W: ArrayLike) -> float:
    """Sum of squared distances of parameters (n, dim) from their mean: ``sum_i ||w_i - mean(w)||^2``."""
    array = finite_array(W, "W")
    return float(((array - array.mean(axis=0)) ** 2).sum())


def deviation_bound(problem: GTVMin, w: ArrayLike | None = None, *, gap: float = 0.0, sharper: bool = True) -> float:
    r"""Proposition 3.1: bound on how far the devices' solutions spread around their mean.

    .. math::
        \sum_i \|\hat w_i - \operatorname{mean}(\hat w)\|^2 \le
        \frac{1}{\alpha \lambda_2(L)} \sum_i L_i(w) \quad \text{for every } w \in \mathbb{R}^d

    Parameters
    ----------
    problem : GTVMin
        With the penalty ``SquaredNorm()`` and alpha > 0.
    w : array_like (dim,), optional
        Common parameters to compare with, such as the true ones.  Default: those of least total loss, which give the
        least bound.
    gap : float
        Certified suboptimality of the parameters that the bound is for: 0 for exact solutions.
    sharper : bool
        Whether the infima of the losses are subtracted and the bound is halved, see the notes.  The book has losses
        >= 0 and neither; with linear models ``y_i = X_i w + noise_i`` and mean squared errors its right-hand side is
        ``sum_i ||noise_i||^2 / m_i / (alpha lambda_2)``.

    Returns
    -------
    float
        The bound; ``inf`` for a disconnected network, 0 for a single device.

    Raises
    ------
    CapabilityError
        For other penalties, or alpha = 0.
    ValueError
        If ``sharper`` is False and the losses may be negative.

    Notes
    -----
    Proof.  All devices at w have no variation, so :math:`P(\hat W) \le \text{gap} + \sum_i L_i(w)`.  By Courant and
    Fischer, :math:`\alpha \sum_e A_e \|\hat w_i - \hat w_j\|^2 \ge \alpha \lambda_2(L) \cdot` (the left-hand side),
    and the losses at :math:`\hat W` are at least 0.

    Sharper (ours): go from :math:`\hat W` a share t of the way to w.  The losses are convex and the variation V shrinks
    by :math:`(1 - t)^2`, so that :math:`(2 - t) \alpha V \le \sum_i (L_i(w) - \inf L_i) + \text{gap} / t`; for exact
    solutions let t go to 0, else take the best t.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.theory import deviation, deviation_bound
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 2.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> round(deviation(problem.solve().weights), 6), round(deviation_bound(problem), 6)
    (0.222222, 0.5)
    """
    require_squared_norm(problem)
    if problem.network.n_nodes == 1:
        return 0.0
    excess = _excess(problem.losses, _common(problem.losses, problem.dim, w), sharper)
    return _bound(excess, gap, sharper, problem.alpha * problem.network.algebraic_connectivity)


def cluster_deviation_bound(
    problem: GTVMin,
    cluster: Iterable[Hashable],
    W: Any,
    w: ArrayLike | None = None,
    *,
    gap: float = 0.0,
    sharper: bool = True,
) -> float:
    r"""Proposition 6.1: bound on how far the solutions inside a cluster spread around the cluster's mean.

    .. math::
        \sum_{i \in C} \|\hat w_i - \operatorname{mean}_C(\hat w)\|^2 \le \frac{1}{\alpha \lambda_2(L_C)}
        \Bigl( \sum_{i \in C} L_i(w) + \alpha |\partial C| \, 2 (\|w\|^2 + R^2) \Bigr)

    with :math:`L_C` the Laplacian of the cluster's own edges, :math:`|\partial C|` the total weight of the edges that
    leave it (:meth:`~gtvmin.FLNetwork.cut_weight`) and R the largest norm of a solution outside.

    Parameters
    ----------
    problem : GTVMin
        With the penalty ``SquaredNorm()`` and alpha > 0.
    cluster : iterable of labels
        The nodes C.
    W : Solution, array_like (n_nodes, dim), mapping or DataFrame
        Solutions, of which those outside the cluster are used.
    w : array_like (dim,), optional
        Common parameters of the cluster to compare with.  Default: those of least total loss on it.
    gap : float
        Certified suboptimality of W.
    sharper : bool
        As for :func:`deviation_bound`, and with the variation across the cluster's boundary at w, less that at W, in
        place of :math:`|\partial C| \, 2 (\|w\|^2 + R^2)`.

    Returns
    -------
    float
        The bound; ``inf`` for a cluster that is not connected, 0 for a single node.

    Raises
    ------
    CapabilityError, ValueError
        As for :func:`deviation_bound`, and for an empty cluster or unknown nodes.

    Notes
    -----
    Proof.  Replace the solutions inside C by w: the objective falls by at most ``gap``.  What both have outside C
    cancels, and on the edges that leave C, :math:`\|w - \hat w_j\|^2 \le 2 \|w\|^2 + 2 \|\hat w_j\|^2` bounds the new
    variation, while the old one is at least 0.  Inside C argue as in Proposition 3.1 with :math:`\lambda_2(L_C)`.
    Sharper (ours): the same with a share t of the way, since the variation across the boundary is convex.

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> from gtvmin.theory import cluster_deviation_bound
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 0.2, 5.0, 5.2)]
    >>> problem = gtv.GTVMin(nx.path_graph(4), losses, penalty=gtv.SquaredNorm(), alpha=0.1)
    >>> bound = cluster_deviation_bound(problem, [0, 1], problem.solve())
    >>> bound < cluster_deviation_bound(problem, [0, 1], problem.solve(), sharper=False)
    True
    """
    require_squared_norm(problem)
    network, members, parameters = problem.network, list(cluster), problem.parameters_array(W)
    part = network.subgraph(members)
    if part.n_nodes == 1:
        return 0.0
    inside = np.zeros(network.n_nodes, dtype=bool)
    inside[[network.index(label) for label in members]] = True
    losses = [loss for loss, own in zip(problem.losses, inside, strict=True) if own]
    common = _common(losses, problem.dim, w)
    if sharper:
        moved = np.where(inside[:, None], common, parameters)
        leaving = inside[network.tail] != inside[network.head]
        tail, head, weights = network.tail[leaving], network.head[leaving], network.weights[leaving]
        squares = ((V[head] - V[tail]) ** 2 for V in (moved, parameters))
        after, before = (float((weights[:, None] * square).sum()) for square in squares)
        boundary = after - before
    else:
        radius = float(np.linalg.norm(parameters[~inside], axis=1).max(initial=0.0))
        boundary = 2.0 * network.cut_weight(members) * (float(common @ common) + radius**2)
    excess = _excess(losses, common, sharper) + problem.alpha * boundary
    return _bound(excess, gap, sharper, problem.alpha * part.algebraic_connectivity)


def require_squared_norm(problem: GTVMin) -> None:
    """An error unless the problem is the one that the theory is about."""
    if not isinstance(problem.penalty, SquaredNorm) or problem.further or not 0.0 < problem.alpha < np.inf:
        raise CapabilityError(
            f"this is for one family of edges with the penalty SquaredNorm() and a finite alpha > 0, not for "
            f"{problem.penalty!r} with alpha = {problem.alpha:g}"
        )


def _common(losses: Sequence[Loss], dim: int, w: ArrayLike | None) -> Any:
    """The given parameters, or those of least total loss."""
    if w is None:
        return pooled_model(losses, dim).w
    given = np.atleast_1d(finite_array(w, "w"))
    if given.shape != (dim,):
        raise ValueError(f"w must have shape ({dim},), got {given.shape}")
    return given


def _excess(losses: Sequence[Loss], w: Any, sharper: bool) -> float:
    """Total loss at common parameters, less lower bounds on the losses: their duals at zero, or 0."""
    quadratic, rows, local = split_losses(losses, len(w))
    total = float(local.value(np.tile(w, (len(losses), 1))).sum())
    conjugates = quadratic.conjugate(np.zeros((len(losses), len(w)))).sum()
    conjugates += sum(term.function.conjugate(np.zeros((term.map.n_rows, term.map.width))).sum() for term in rows)
    if sharper:
        return total + float(conjugates)
    if conjugates > ROUNDING * (1.0 + abs(total)):
        raise ValueError("sharper=False is for losses >= 0, and these may be negative")
    return total


def _bound(excess: float, gap: float, sharper: bool, connectivity: float) -> float:
    """From what common parameters cost to the deviation; what is disconnected is bounded by nothing."""
    if not connectivity > 0:
        return float("inf")
    gap, excess = nonnegative_number(gap, "gap"), max(excess, 0.0)
    if not sharper:
        return (excess + gap) / connectivity
    # the least of (excess + gap / t) / (2 - t) over 0 < t <= 1
    root = float(np.sqrt(gap) * np.sqrt(gap + 2.0 * excess))
    share = 2.0 * gap / (gap + root) if gap > 0 else 0.0
    return (excess + (0.5 * (gap + root) if gap > 0 else 0.0)) / (2.0 - share) / connectivity
