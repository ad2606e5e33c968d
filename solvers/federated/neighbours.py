"""Messages between neighbours: every edge in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from ..linear_maps import EdgeDifference
from ..standard_form import Array, StandardForm, Term

__all__ = ["Neighbourhood", "coupling_curvature", "directed_edges", "largest_eigenvalue"]

IntArray = NDArray[np.int64]
DENSE_LIMIT = 200


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """Coupling ``sum_e a_e ||w_head - w_tail||^2`` as what each device hears of its neighbours.

    Directed edge k carries the parameters of ``source[k]`` to ``target[k]``; those of edge e are k = e (tail to head)
    and k = e + n_edges.

    Attributes
    ----------
    source, target : int arrays (2 n_edges,)
        Ends of the directed edges.
    strength : array (2 n_edges,)
        ``2 a_e``, the curvature of an edge's penalty: 2 alpha A_e.
    degree : array (n_nodes,)
        Sum of the strengths into each device: 2 alpha d_i.
    gather, laplacian : sparse matrices
        From what is heard to its weighted sum; from parameters to the coupling's gradient.
    """

    source: IntArray
    target: IntArray
    strength: Array
    degree: Array
    gather: sparse.csr_array
    laplacian: sparse.csr_array

    @staticmethod
    def fits(form: StandardForm) -> bool:
        """Whether all couplings are quadratic and plain differences across edges."""
        return all(isinstance(t.map, EdgeDifference) and _quadratic(t) for t in form.couplings)

    @classmethod
    def of(cls, form: StandardForm) -> Neighbourhood:
        """That of a form with quadratic couplings which are plain differences across edges."""
        tails: list[IntArray] = []
        heads: list[IntArray] = []
        strengths: list[Array] = []
        for term in form.couplings:
            if not isinstance(term.map, EdgeDifference) or not _quadratic(term):
                raise ValueError("this algorithm needs the coupling SquaredNorm() of whole parameter vectors")
            tails.append(term.map.tail)
            heads.append(term.map.head)
            strengths.append(term.function.quadratic()[0][:, 0, 0])
        tail, head, once = np.concatenate(tails), np.concatenate(heads), np.concatenate(strengths)
        source, target, strength = np.append(tail, head), np.append(head, tail), np.append(once, once)
        edges = np.arange(len(source))
        gather = sparse.csr_array((strength, (target, edges)), shape=(form.n_nodes, len(source)))
        degree = np.asarray(np.bincount(target, strength, form.n_nodes), dtype=float)
        adjacency = sparse.csr_array((strength, (target, source)), shape=(form.n_nodes, form.n_nodes))
        laplacian = sparse.csr_array(sparse.diags_array(degree) - adjacency)
        return cls(source, target, strength, degree, gather, laplacian)

    def weighted_sum(self, heard: Array) -> Array:
        """``sum_j strength_ij heard_ij`` at every device, of what came over the directed edges (2 n_edges, dim)."""
        return np.asarray(self.gather @ heard)


def _quadratic(term: Term) -> bool:
    return "quadratic" in term.function.capabilities


def directed_edges(form: StandardForm) -> tuple[IntArray, IntArray]:
    """Source and target of each message if the ends of every row of every coupling send to one another."""
    pairs = [term.map.ends for term in form.couplings]
    tail, head = (np.concatenate([ends[k] for ends in pairs]) for k in (0, 1))
    return np.append(tail, head), np.append(head, tail)


def coupling_curvature(form: StandardForm) -> Array:
    """``2 alpha d_i``: smoothness of the couplings' functions summed over the edges of each device, (n_nodes,)."""
    total = np.zeros(form.n_nodes)
    for term in form.couplings:
        total += term.map.at_nodes(term.function.smoothness)
    return total


def largest_eigenvalue(form: StandardForm) -> float:
    """Largest eigenvalue of the couplings' Hessian, or of a bound on it: 2 alpha times the Laplacian's.

    Above 200 unknowns it is computed to a per cent, and that is added.
    """
    plain = all(isinstance(term.map, EdgeDifference) for term in form.couplings)
    size = form.n_nodes * (1 if plain else form.dim)
    H = sparse.csr_array((size, size))
    for term in form.couplings:
        # a plain difference is the same for every parameter
        K = term.map.incidence if plain and isinstance(term.map, EdgeDifference) else term.map.matrix()
        width = 1 if plain else term.map.width
        H = H + K.T @ sparse.diags_array(np.repeat(term.function.smoothness, width)) @ K
    if not H.nnz:
        return 0.0
    if size <= DENSE_LIMIT:
        return float(np.linalg.eigvalsh(H.toarray())[-1])
    start = np.cos(np.arange(size) ** 2.0)
    return 1.01 * float(eigsh(H, k=1, which="LA", return_eigenvectors=False, tol=0.01, v0=start)[0])
