r"""Eigenvalues of GTV minimisation with the squared norm, and how fast gradient steps and FedRelax converge.

For quadratic losses ``L_i(w) = w^T Q_i w - 2 b_i^T w + const`` the objective is ``W^T Q W - ...`` with

.. math::
    Q = \operatorname{blockdiag}(Q_1, \dots, Q_n) + \alpha L \otimes I,

L the Laplacian: half of the Hessian.  The bounds on its eigenvalues are those of A. Jung, "Federated Learning: From
Theory to Practice" (2025), arXiv 2505.19183, chapter 5, where ``Q_i = X_i^T X_i / m_i``.  Each is proved where it
stands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from gtvmin.errors import CapabilityError
from gtvmin.solvers.standard_form import Array
from gtvmin.theory import require_squared_norm
from gtvmin.validation import nonnegative_number, positive_number

if TYPE_CHECKING:
    from gtvmin.network import FLNetwork
    from gtvmin.problem import GTVMin

__all__ = [
    "EigenvalueBounds",
    "FedRelaxContraction",
    "best_step",
    "eigenvalue_bounds",
    "fedrelax_contraction",
    "gradient_contraction",
    "gtvmin_matrix",
    "laplacian_spectrum",
]

# Up to this size all eigenvalues of a dense matrix are cheap.
DENSE_SIZE = 500


def laplacian_spectrum(network: FLNetwork) -> Array:
    r"""All eigenvalues of the Laplacian in ascending order, shape (n_nodes,).

    As many are zero as the network has components, and none is above :math:`2 \max_i d_i`, with :math:`d_i` the
    weighted degrees: :math:`w^T L w = \sum_e A_e (w_i - w_j)^2 \le \sum_e 2 A_e (w_i^2 + w_j^2) = 2 \sum_i d_i w_i^2`.

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> from gtvmin.rates import laplacian_spectrum
    >>> laplacian_spectrum(gtv.FLNetwork(nx.complete_graph(4))).round(9).tolist()
    [0.0, 4.0, 4.0, 4.0]
    """
    return np.asarray(np.maximum(eigh(network.laplacian().toarray(), eigvals_only=True), 0.0))


def gtvmin_matrix(problem: GTVMin) -> sparse.csr_array:
    """The matrix Q over ``W.ravel()``, half of the Hessian of the objective, shape (n_nodes dim, n_nodes dim).

    Raises
    ------
    CapabilityError
        If the penalty is not ``SquaredNorm()``, alpha is 0, or a loss is not quadratic.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.rates import gtvmin_matrix
    >>> losses = [gtv.SquaredError([[x]], [1.0]) for x in (2.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    >>> gtvmin_matrix(problem).toarray().tolist()
    [[4.5, -0.5], [-0.5, 9.5]]
    """
    blocks = _half_hessians(problem)
    n, dim = blocks.shape[:2]
    diagonal = sparse.bsr_array((blocks, np.arange(n), np.arange(n + 1)), shape=(n * dim, n * dim))
    coupling = sparse.kron(problem.alpha * problem.network.laplacian(), sparse.eye_array(dim))
    return sparse.csr_array(diagonal + coupling)


@dataclass(frozen=True, slots=True)
class EigenvalueBounds:
    """Bounds on the eigenvalues of the matrix Q.

    Attributes
    ----------
    lower : float
        Proposition 5.2: no eigenvalue is below.
    sharper_lower : float
        A larger one, ours.
    upper : float
        Proposition 5.1: no eigenvalue is above.
    """

    lower: float
    sharper_lower: float
    upper: float


def eigenvalue_bounds(problem: GTVMin) -> EigenvalueBounds:
    r"""Propositions 5.1 and 5.2: bounds on the eigenvalues of Q from the local matrices and the network alone.

    With :math:`\lambda_{\max}` the largest eigenvalue of all :math:`Q_i`, :math:`\bar\lambda` the smallest of their
    mean, :math:`d_i` the weighted degrees and :math:`\rho = \bar\lambda / (4 \lambda_{\max})`,

    .. math::
        \frac{1}{1 + \rho^2} \min\{\alpha \lambda_2(L) \rho^2, \; \bar\lambda / 2\} \le \lambda(Q)
        \le \lambda_{\max} + 2 \alpha \max_i d_i .

    So Q is invertible if the network is connected and the mean of the :math:`Q_i` is, however few data a device has.

    Returns
    -------
    EigenvalueBounds
        The lower bound is 0 for a disconnected network, and :math:`\bar\lambda` for a single device.

    Raises
    ------
    CapabilityError
        If the penalty is not ``SquaredNorm()``, alpha is 0, or a loss is not quadratic.

    Notes
    -----
    Proof.  Upper bound: :func:`laplacian_spectrum`.  Lower: split ``W = M + V``, M with the mean in every row.  Then
    :math:`W^T Q W \ge \alpha \lambda_2 \|V\|^2`, which does if :math:`\|V\| \ge \rho \|M\|`.  Else the losses' part is
    at least :math:`\bar\lambda \|M\|^2 - 2 \lambda_{\max} \|M\| \|V\| \ge \bar\lambda \|M\|^2 / 2`.

    Sharper (ours): by Cauchy and Schwarz the losses' part is at least
    :math:`(\sqrt{\bar\lambda} \|M\| - \sqrt{\lambda_{\max}} \|V\|)^2` if that difference is positive, so that the
    smallest eigenvalue of

    .. math::
        \begin{pmatrix} \bar\lambda & -\sqrt{\bar\lambda \lambda_{\max}} \\
        -\sqrt{\bar\lambda \lambda_{\max}} & \lambda_{\max} + \alpha \lambda_2(L) \end{pmatrix}

    is a bound; where the difference is negative, :math:`\alpha \lambda_2 \|V\|^2` alone is at least as large.

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> from gtvmin.rates import eigenvalue_bounds
    >>> losses = [gtv.SquaredError([[1.0]], [0.0]), gtv.Zero(), gtv.SquaredError([[1.0]], [1.0])]
    >>> bounds = eigenvalue_bounds(gtv.GTVMin(nx.path_graph(3), losses, penalty=gtv.SquaredNorm(), alpha=1.0))
    >>> 0 < bounds.lower < bounds.sharper_lower < bounds.upper == 5.0
    True
    """
    blocks = _half_hessians(problem)
    highest = float(np.linalg.eigvalsh(blocks)[:, -1].max())
    mean = max(float(np.linalg.eigvalsh(blocks.mean(axis=0))[0]), 0.0)
    coupled = problem.alpha * problem.network.algebraic_connectivity
    upper = highest + 2.0 * problem.alpha * float(problem.network.degrees.max())
    if len(blocks) == 1 or mean == 0.0:
        return EigenvalueBounds(mean, mean, upper)
    rho = mean / (4.0 * highest)
    lower = min(coupled * rho**2, mean / 2.0) / (1.0 + rho**2)
    # the smaller root of t^2 - (a + b) t + mean * coupled, without cancellation
    trace = mean + highest + coupled
    sharper = 2.0 * mean * coupled / (trace + np.sqrt(trace**2 - 4.0 * mean * coupled))
    return EigenvalueBounds(lower, float(sharper), upper)


def gradient_contraction(low: float, high: float, step: float) -> float:
    """Factor by which a gradient step shrinks the distance to the minimiser: ``max(|1 - step low|, |1 - step high|)``.

    Parameters
    ----------
    low, high : float
        Strong convexity and smoothness of the objective: for GTV minimisation twice the extreme eigenvalues of Q, or
        twice their bounds.
    step : float
        Step size (learning rate).

    Notes
    -----
    Proof: on a quadratic the error is multiplied by ``I - step H``, whose eigenvalues lie between ``1 - step high`` and
    ``1 - step low``; in general H is the mean Hessian on the way to the minimiser.  Convergence needs
    ``step < 2 / high``.  Section 4 of the book, whose learning rate multiplies the same gradient.

    Examples
    --------
    >>> from gtvmin.rates import best_step, gradient_contraction
    >>> gradient_contraction(1.0, 3.0, step=0.25), gradient_contraction(1.0, 3.0, step=best_step(1.0, 3.0))
    (0.75, 0.5)
    """
    return max(abs(1.0 - positive_number(step, "step") * low), abs(1.0 - step * high))


def best_step(low: float, high: float) -> float:
    """Step ``2 / (low + high)`` of the least :func:`gradient_contraction`, ``(high - low) / (high + low)``."""
    return 2.0 / positive_number(nonnegative_number(low, "low") + positive_number(high, "high"), "low + high")


@dataclass(frozen=True, slots=True)
class FedRelaxContraction:
    """Factors by which a round of FedRelax shrinks the distance to the solution.

    Attributes
    ----------
    largest : float
        In every round, for the largest distance of any device.
    asymptotic : float
        At most this per round in the long run (in every round, in a weighted maximum norm); at most ``largest``.
    """

    largest: float
    asymptotic: float


def fedrelax_contraction(problem: GTVMin) -> FedRelaxContraction:
    r"""Contraction factors of FedRelax, in which all devices at once solve their own problem given their neighbours'.

    .. math::
        w_i \leftarrow \arg\min_w L_i(w) + \alpha \sum_j A_{ij} \|w - w_j\|^2

    Parameters
    ----------
    problem : GTVMin
        With the penalty ``SquaredNorm()`` and alpha > 0; any convex losses.

    Returns
    -------
    FedRelaxContraction
        ``largest`` is 1 if a device whose loss is not strongly convex has neighbours; ``asymptotic`` is below 1 if
        each component has a strongly convex loss.

    Notes
    -----
    Ours.  The update is the prox with step :math:`1/(2 \alpha d_i)` at the mean of the neighbours, and the prox of a
    :math:`\mu_i`-strongly convex function is Lipschitz with
    :math:`\kappa_i = 2 \alpha d_i / (\mu_i + 2 \alpha d_i)`.  So
    :math:`\|\Delta w_i\| \le \sum_j B_{ij} \|\Delta w_j\|` with :math:`B_{ij} = \kappa_i A_{ij} / d_i`: its row
    sums are :math:`\kappa_i`, and its largest eigenvalue is the factor in the maximum norm weighted by the Perron
    vector.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.rates import fedrelax_contraction
    >>> losses = [gtv.SquaredError([[1.0]], [0.0]), gtv.Zero()]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    >>> factors = fedrelax_contraction(problem)
    >>> round(factors.largest, 9), round(factors.asymptotic, 9)
    (1.0, 0.707106781)
    """
    require_squared_norm(problem)
    degrees = problem.network.degrees
    pull = 2.0 * problem.alpha * degrees
    mu = problem.lowered.form.local.strong_convexity
    kappa = np.where(degrees > 0, pull / np.where(degrees > 0, mu + pull, 1.0), 0.0)
    # similar to B, and symmetric
    root = sparse.diags_array(np.sqrt(kappa / np.where(degrees > 0, degrees, 1.0)))
    adjacency = sparse.diags_array(degrees) - problem.network.laplacian()
    return FedRelaxContraction(float(kappa.max()), _largest_eigenvalue(root @ adjacency @ root))


def _largest_eigenvalue(matrix: sparse.csr_array) -> float:
    n = matrix.shape[0]
    if n <= DENSE_SIZE:
        return float(eigh(matrix.toarray(), eigvals_only=True, subset_by_index=(n - 1, n - 1))[0])
    start = np.ones(n)
    return float(eigsh(matrix, k=1, which="LA", v0=start, return_eigenvectors=False)[0])


def _half_hessians(problem: GTVMin) -> Array:
    """The matrices Q_i, (n_nodes, dim, dim)."""
    require_squared_norm(problem)
    form = problem.lowered.form
    if form.rows:
        raise CapabilityError("the matrix of GTV minimisation is for quadratic losses: these have other terms")
    return 0.5 * form.quadratic.quadratic()[0]
