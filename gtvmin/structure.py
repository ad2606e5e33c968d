"""Which neighbours have, and which have not, the same parameters at every optimum: proved from a certificate."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.fusion_proof import Layer, layers_of, least_distance, proved_equal
from gtvmin.solvers.standard_form import Array, StandardForm
from gtvmin.validation import frozen

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.problem import GTVMin

__all__ = ["Structure", "prove_structure"]

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """What a certificate proves about equality across edges.

    Attributes
    ----------
    edges : tuple of pairs of labels
        Tail and head of every edge, in the order of the rows of flows.
    split, fused : bool arrays (n_edges,)
        Edges whose ends have different, or the same, parameters at every optimum.
    radius : array (n_nodes,)
        How far each device's parameters may be from the optimal ones.
    cluster : int array (n_nodes,)
        Number of the component of proved-fused edges that each device is in, counted in node order.
    nodes : tuple
        Labels of the devices.
    gap : float
        The gap that all of this follows from.
    rigorous : bool
        Whether this gap is a theorem about floating-point numbers.
    """

    edges: tuple[tuple[Hashable, Hashable], ...]
    split: Mask
    fused: Mask
    radius: Array
    cluster: NDArray[np.int64]
    nodes: tuple[Hashable, ...]
    gap: float
    rigorous: bool

    @property
    def undecided(self) -> Mask:
        """Edges about which nothing is proved (n_edges,)."""
        return ~(self.split | self.fused)

    @property
    def counts(self) -> dict[str, int]:
        """Number of edges that are fused, split and undecided."""
        return {name: int(getattr(self, name).sum()) for name in ("fused", "split", "undecided")}

    @property
    def undecided_edges(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Labels of the ends of the edges about which nothing is proved."""
        return tuple(self.edges[e] for e in np.flatnonzero(self.undecided).tolist())

    def clusters(self) -> dict[Hashable, int]:
        """Device label to number of its component of proved-fused edges: devices with one number are equal."""
        return dict(zip(self.nodes, self.cluster.tolist(), strict=True))

    def __repr__(self) -> str:
        found = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"<Structure of {len(self.edges)} edges: {found}, gap {self.gap:.2e}>"


def prove_structure(problem: GTVMin, certificate: Certificate) -> Structure:
    r"""Prove edges split or fused from a certificate of the problem.

    Parameters
    ----------
    problem : GTVMin
        The problem.
    certificate : Certificate
        Of any parameters; the smaller its gap, the more is decided.

    Returns
    -------
    Structure

    Notes
    -----
    Let g be the gap of parameters W and feasible flows U, :math:`L_i` be :math:`\mu_i`-strongly convex with a
    :math:`\Lambda_i`-Lipschitz gradient, and :math:`c_e = \alpha A_e`.

    *Split.*  :math:`P(W) \ge P(W^*) + \sum_i \frac{\mu_i}{2} \|w_i - w_i^*\|^2`, so by Cauchy and Schwarz
    :math:`\|w_i - w_i^*\| + \|w_j - w_j^*\| \le \sqrt{2 g (1/\mu_i + 1/\mu_j)} =: \rho`, and
    :math:`\|w^*_j - w^*_i\| \ge \zeta := \|w_j - w_i\| - \rho`.  An edge with :math:`\zeta > 0` is split.  For norms as
    penalties a device need not be strongly convex itself: the gap between :math:`W^*` and U holds
    :math:`c_e \|z_e^*\| - \langle U_e, z_e^* \rangle \ge (c_e - \|U_e\|_*) \|z_e^*\|` for every edge, with
    :math:`z_e^*` its difference at the optimum, so that devices joined by paths of edges with slack t are within
    :math:`\varepsilon = g/t` of each other there.  Let such a component have losses of curvature :math:`Q_i`, with
    the sum S and its least eigenvalue :math:`\lambda`.  Then any v among its optimal parameters has
    :math:`(\sum_i \|w_i - v\|_{Q_i}^2)^{1/2} \le \sqrt{2 g} + \varepsilon \, (\sum_i \mathrm{tr} \, Q_i)^{1/2}`, and
    the left-hand side is at least :math:`\sqrt\lambda \|m - v\|` for the mean
    :math:`m = S^{-1} \sum_i Q_i w_i`.  So an edge between two components is split if their means are further apart
    than :math:`\sqrt{2 g (1/\lambda + 1/\lambda')} + \varepsilon \max (\mathrm{tr} \, S / \lambda)^{1/2}`.

    *Fused*, for norms as penalties.  Let C be the devices of a component of the edges that are not split and whose
    flows have slack t, ``||U_e||_* + t <= c_e``, and let every edge that leaves C be proved split.  Take any optimal
    flows :math:`U^*`, with :math:`s = -D^T U`, :math:`s^* = -D^T U^*`.  The gap between :math:`W^*` and U, at most g,
    is a sum of Fenchel-Young terms.  A device's is at least :math:`\|s_i - s_i^*\|^2 / (2 \Lambda_i)`, since
    :math:`L_i^*` is :math:`1/\Lambda_i`-strongly convex.  A leaving edge has
    :math:`U_e^* = c_e z^*_e / \|z^*_e\|`, so that its term is
    :math:`c_e \|z_e^*\| - \langle U_e, z_e^* \rangle \ge \|U_e - U_e^*\|^2 \|z_e^*\| / (2 c_e)`, with
    :math:`\|z_e^*\| \ge \zeta_e`.  Now build flows U': those of :math:`U^*` on edges that leave C or do not touch it,
    those of U inside C, plus the shortest F on the edges of the component with :math:`D^T U' = D^T U^*`.  What F has to
    deliver, r, sums to zero over C, and by Cauchy and Schwarz over all terms

    .. math:: \|r\|^2 \le g \, (2 \max_{i \in C} \Lambda_i + \max_e 2 c_e d_e / \zeta_e)

    with :math:`d_e` the number of leaving edges at the end of e in C.  So :math:`\|F\|^2 \le \|r\|^2 / \lambda_2`, the
    second eigenvalue of the component's (unweighted) Laplacian.  If that bound is below t, U' is feasible, hence
    optimal (its objective depends on :math:`D^T U'` alone), and strictly inside the ball on every edge of the
    component; complementary slackness then makes :math:`z_e^* = 0` for every optimal :math:`W^*`: all of C is equal,
    the edges with less slack between its devices included.  Several t are tried.

    With ``Norm(1)`` the coordinates are fused one by one by this argument, and an edge is fused if all of them are;
    with ``Norm(inf)`` and more than one parameter, flows on split edges are not unique, and only components that no
    edge leaves are proved fused.  With other penalties, losses without a Lipschitz gradient, or components of more
    than 3000 devices, edges are proved split at most.

    The constants are computed in double precision, and compared with a relative margin of 1e-9.

    On a stochastic block model of 2,000 devices with more data than parameters and 10,900 edges, 9 % of the edges are
    decided at a relative gap of 5e-7, 69 % at 2e-8, 91 % at 4e-9 and 95 % from 3e-10 on; on smaller ones all from 1e-7
    on, or from 1e-5 on where the coupling is stronger, and if half of the devices have no data.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 0.1, 3.0)]
    >>> problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, lam=0.4)
    >>> prove_structure(problem, problem.solve(gap=1e-9).certificate).counts
    {'fused': 1, 'split': 1, 'undecided': 0}
    """
    form, gap = problem.lowered.form, certificate.gap
    networks = [coupling.network for coupling in problem.couplings]
    ends = np.concatenate([net.tail for net in networks]), np.concatenate([net.head for net in networks])
    split, fused = np.zeros(len(ends[0]), dtype=bool), np.full(len(ends[0]), np.isfinite(gap))
    for layer in layers_of(problem, certificate.W, certificate.U) if np.isfinite(gap) else ():
        apart = np.max([least_distance(layer, ends, Q, gap) for Q in _curvatures(form, layer)], axis=0)
        split |= apart > 0
        fused &= proved_equal(layer, ends, apart, form.local.smoothness, gap)
    n = problem.network.n_nodes
    links = sparse.coo_array((np.ones(int(fused.sum())), (ends[0][fused], ends[1][fused])), shape=(n, n))
    return Structure(
        edges=problem.edges,
        split=frozen(split),
        fused=frozen(fused),
        radius=certificate.radius,
        cluster=frozen(connected_components(links, directed=False)[1].astype(np.int64)),
        nodes=problem.network.nodes,
        gap=gap,
        rigorous=certificate.rigorous,
    )


def _curvatures(form: StandardForm, layer: Layer) -> Iterator[Array]:
    """Curvatures of the losses in the coordinates of a layer: constants of strong convexity, Hessians of squares."""
    k = layer.W.shape[1]
    yield form.local.strong_convexity[:, None, None] * np.eye(k)
    if k == form.dim:
        yield form.quadratic.quadratic()[0]
