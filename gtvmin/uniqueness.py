"""Which devices' parameters are not unique, because some direction is seen by no loss and no coupling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from gtvmin.lowering import Lowered
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array, StandardForm

__all__ = ["undetermined_nodes"]

# Eigenvalues of what losses and couplings see, which are of the order of one, below this are taken for zero.
TOLERANCE = 1e-9
# What a shifted inverse leaves of a vector beside its null component, and the smallest entry of that which counts.
SHIFT, VISIBLE = 1e-12, 1e-3
PROBES = 2


def undetermined_nodes(lowered: Lowered) -> NDArray[np.bool_]:
    """Devices of which a direction is free, (n_nodes,).

    Devices that plain differences couple share their directions; other couplings see some of them.
    """
    form = lowered.solver_form
    component = _components(form)
    seen = _seen_by_losses(form, component)
    partial = [term for term in form.couplings if not isinstance(term.map, EdgeDifference)]
    free = _null_blocks(form, component, seen) if partial else np.linalg.eigvalsh(seen)[:, 0] < TOLERANCE
    nodes = free[component]
    return nodes if lowered.contraction is None else nodes[lowered.contraction.position]


def _components(form: StandardForm) -> NDArray[np.int64]:
    """Number of the component of every node under the plain couplings."""
    maps = [term.map for term in form.couplings if isinstance(term.map, EdgeDifference)]
    tail, head = (np.concatenate([np.empty(0, dtype=np.int64), *(map.ends[k] for map in maps)]) for k in (0, 1))
    links = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(form.n_nodes, form.n_nodes))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)


def _seen_by_losses(form: StandardForm, component: NDArray[np.int64]) -> Array:
    """For every component a positive semidefinite matrix whose null space is what no loss of it sees."""
    spans = np.zeros((form.n_nodes, form.dim, form.dim))
    for k in range(form.dim):
        axis = np.zeros((form.n_nodes, form.dim))
        axis[:, k] = 1.0
        spans[:, :, k] = axis - form.quadratic.complement(axis)
        for term in form.rows:
            spans[:, :, k] += term.map.adjoint(term.map.apply(axis))
    total = np.zeros((int(component.max()) + 1, form.dim, form.dim))
    np.add.at(total, component, spans)
    return total


def _null_blocks(form: StandardForm, component: NDArray[np.int64], seen: Array) -> NDArray[np.bool_]:
    """Components that take part in the null space of what losses and the other couplings see.

    ``SHIFT (M + SHIFT)^{-1}`` is close to the projection onto the null space of M; the images of random vectors show
    where that is not zero.
    """
    count, dim = len(seen), form.dim
    M = sparse.csr_array(sparse.block_diag(list(seen)))
    for term in form.couplings:
        if not isinstance(term.map, EdgeDifference):
            between = term.map.renumbered(component, count)
            size = np.repeat(np.max(between.sizes(), axis=0), between.width)
            K = sparse.diags_array(1.0 / np.where(size > 0, size, 1.0)) @ between.matrix()
            M = M + K.T @ K
    shift = SHIFT * sparse.eye_array(count * dim)
    probes = np.random.default_rng(0).standard_normal((count * dim, PROBES))
    image = SHIFT * splu((M + shift).tocsc()).solve(probes)
    visible = np.abs(image) > VISIBLE / np.sqrt(count * dim)
    return np.asarray(visible.reshape(count, dim * PROBES).any(axis=1))
