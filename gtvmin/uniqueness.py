"""Which devices' parameters are not unique, because some direction is seen by no loss and no coupling."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg, splu

from gtvmin.lowering import Lowered
from gtvmin.solvers.components import components
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array, StandardForm

__all__ = ["undetermined_nodes"]

# Eigenvalues of what losses and couplings see, which are of the order of one, below this are taken for zero.
TOLERANCE = 1e-9
# What a shifted inverse leaves of a random vector beside its null component, and what counts as a trace of that.
SHIFT, VISIBLE = 1e-12, 1e-3
PROBES = 2
# So many times dim devices of a component are asked first.
FEW = 2
# Larger systems are not factored but solved by conjugate gradients.
DIRECT_LIMIT, CG_TOLERANCE, CG_LIMIT = 4000, 1e-10, 5000


def undetermined_nodes(lowered: Lowered) -> NDArray[np.bool_]:
    """Devices of which a direction is free, (n_nodes,).

    Devices that plain differences couple share their directions; other couplings see some of them.
    """
    form = lowered.solver_form
    plain = [term for term in form.couplings if isinstance(term.map, EdgeDifference)]
    component = components(form.n_nodes, plain)
    full = np.bincount(component, form.quadratic.full_span) > 0
    if full.all():  # one device is enough to determine a component
        return np.zeros(lowered.form.n_nodes, dtype=bool)
    few = _first_of_each(component, FEW * form.dim)  # they are mostly enough as well
    if not _free(_seen_by_squares(form, component, few)[~full]).any():
        return np.zeros(lowered.form.n_nodes, dtype=bool)
    seen = _seen_by_squares(form, component, np.arange(form.n_nodes)) + _seen_by_rows(form, component)
    free = _free(seen)
    if free.any() and not all(isinstance(term.map, EdgeDifference) for term in form.couplings):
        free[free] = _null_blocks(form, component, seen, free)
    nodes = free[component]
    return nodes if lowered.contraction is None else nodes[lowered.contraction.position]


def _first_of_each(component: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Up to so many nodes of every component."""
    order = np.argsort(component, kind="stable")
    first = np.searchsorted(component[order], component[order])
    return order[np.arange(len(order)) - first < count]


def _free(seen: Array) -> NDArray[np.bool_]:
    return np.asarray(np.linalg.eigvalsh(seen)[:, 0] < TOLERANCE)


def _seen_by_squares(form: StandardForm, component: NDArray[np.int64], nodes: NDArray[np.int64]) -> Array:
    """For every component a positive semidefinite matrix whose null space no square of these nodes sees."""
    total = np.zeros((int(component.max()) + 1, form.dim, form.dim))
    np.add.at(total, component[nodes], form.quadratic.span_projections(nodes))
    return total


def _seen_by_rows(form: StandardForm, component: NDArray[np.int64]) -> Array:
    """For every component a positive semidefinite matrix whose null space no row of its losses sees."""
    total = np.zeros((int(component.max()) + 1, form.dim, form.dim))
    for term in form.rows:
        size = np.max(term.map.sizes(), axis=0)
        unit = 1.0 / np.where(size > 0, size, 1.0) ** 2  # whatever the units of the data are
        for k in range(form.dim):
            axis = np.zeros((form.n_nodes, form.dim))
            axis[:, k] = 1.0
            np.add.at(total[:, :, k], component, term.map.adjoint(unit[:, None] * term.map.apply(axis)))
    return total


def _null_blocks(
    form: StandardForm, component: NDArray[np.int64], seen: Array, free: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of the components that their losses leave free take part in the null space of all that is seen.

    The others' parameters are determined: no null direction moves them.
    """
    count, dim = int(free.sum()), form.dim
    columns = (np.flatnonzero(free)[:, None] * dim + np.arange(dim)).ravel()
    M = sparse.csr_array(sparse.block_diag(list(seen[free])))
    for term in form.couplings:
        if not isinstance(term.map, EdgeDifference):
            between = term.map.renumbered(component, len(seen))
            size = np.repeat(np.max(between.sizes(), axis=0), between.width)
            K = (sparse.diags_array(1.0 / np.where(size > 0, size, 1.0)) @ between.matrix()).tocsc()[:, columns]
            M = M + K.T @ K
    probes = np.random.default_rng(0).standard_normal((count * dim, PROBES))
    visible = np.abs(_null_part(M.tocsc(), probes)) > VISIBLE / np.sqrt(count * dim)
    return np.asarray(visible.reshape(count, dim * PROBES).any(axis=1))


def _null_part(M: sparse.csc_array, probes: Array) -> Array:
    """Components of vectors in the null space of a positive semidefinite matrix; zero if they cannot be found.

    ``SHIFT (M + SHIFT)^{-1}`` is close to the projection; the range component solves ``M x = M probe``.
    """
    if len(probes) <= DIRECT_LIMIT:
        return np.asarray(SHIFT * splu(M + SHIFT * sparse.eye_array(len(probes), format="csc")).solve(probes))
    null = np.zeros_like(probes)
    for k, probe in enumerate(probes.T):
        found, failed = cg(M, M @ probe, rtol=CG_TOLERANCE, maxiter=CG_LIMIT)
        if not failed:
            null[:, k] = probe - found
    return null
