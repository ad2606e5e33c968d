"""Devices in consensus solved for as one: a smaller form, and the way back to every device and every flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from gtvmin.dual_repair import complete_duals
from gtvmin.losses.base import Loss, Sum
from gtvmin.losses.local import LocalBlocks
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.stacking import split_losses
from gtvmin.penalties.consensus import ConsensusBlocks
from gtvmin.penalties.edge_terms import EdgeBlocks
from gtvmin.penalties.squared_norm import SquaredNormBlocks
from gtvmin.solvers.linear_maps import CoordinateDifference, EdgeDifference, EdgeMaps
from gtvmin.solvers.standard_form import Array, BlockFunction, Duals, Point, StandardForm, Term

__all__ = ["Contraction", "contract", "uncoupled"]

IntArray = NDArray[np.int64]
# Eigenvalues of a group's curvature, scaled to a unit diagonal, that are taken for zero.
RANK_TOLERANCE = 1e-13
# As a step of the conjugate's proximal map it leads from zero to the conjugate's minimiser.
LONG_STEP = 1e8


def uncoupled(n_nodes: int, dim: int) -> Term:
    """A coupling without edges: any penalty would do, and the quadratic one suits every solver."""
    none = np.empty(0, dtype=np.int64)
    return Term(EdgeDifference(none, none, n_nodes, dim), SquaredNormBlocks(np.empty(0), dim))


@dataclass(frozen=True, eq=False)
class Contraction:
    """A form whose nodes are the groups of devices that consensus edges join.

    A group's loss is the sum of its devices'.  Other edges run between groups; those inside one vanish.

    Attributes
    ----------
    full, form : StandardForm
        Before and after.
    position : int array (n_nodes,)
        Group of every device.
    contracted : tuple of bool
        For each coupling of the full form, whether it is a consensus that was contracted.
    kept : tuple of int arrays
        For each coupling of the full form, the rows that are left.
    """

    full: StandardForm
    form: StandardForm
    position: IntArray
    contracted: tuple[bool, ...]
    kept: tuple[IntArray, ...]

    def shrink(self, point: Point) -> Point:
        """Mean parameters of every group, and the duals of the rows that are left."""
        counts = np.bincount(self.position, minlength=self.form.n_nodes)
        W = np.zeros((self.form.n_nodes, self.form.dim))
        np.add.at(W, self.position, point.W)
        W /= counts[:, None]
        if point.U is None or len(point.U) < len(self.full.terms):
            return Point(W)
        couplings = tuple(dual[rows] for dual, rows in zip(point.U, self.kept, strict=False) if len(rows))
        rows = point.U[len(self.full.couplings) :]
        return Point(W, (couplings or self.form.zero_duals()[:1]) + rows)

    def expand(self, point: Point) -> Point:
        """Parameters of every device, equal to the bit within a group, and all duals."""
        W = point.W[self.position]
        if point.U is None:
            return Point(W)
        return Point(W, self._expand_duals(point.W, complete_duals(self.form, point.W, point.U)))

    def _expand_duals(self, W: Array, U: Duals) -> Duals:
        couplings: list[Array] = []
        own = iter(U)
        for term, rows in zip(self.full.couplings, self.kept, strict=True):
            # at a difference of zero the best flow minimises the conjugate
            steps = np.full(term.map.n_rows, LONG_STEP)
            dual = term.function.conjugate_prox_operator(steps)(np.zeros((term.map.n_rows, term.map.width)))
            if len(rows):
                dual[rows] = next(own)
            couplings.append(dual)
        duals = (*couplings, *U[len(self.form.couplings) :])
        return self._with_consensus_flows(W, U, duals)

    def _with_consensus_flows(self, W: Array, U: Duals, duals: Duals) -> Duals:
        """Fill in the flows that give every device the share of its group's net dual that its loss asks for.

        The net dual s of a group is the gradient of its quadratic part at some w'; the devices' gradients at w' add up
        to s, and no other shares prove more.  Flows that bring them about exist within a group; the least ones are
        differences of the solution of a Laplacian system.
        """
        goal = self.form.quadratic.project_dual(-self.form.adjoint(U))
        shifted = W + self._step_to_gradient(goal - self.form.quadratic.gradient(W))
        wanted = self.full.quadratic.gradient(shifted[self.position])
        missing = -wanted - self.full.adjoint(duals)
        missing[np.bincount(self.position)[self.position] == 1] = 0.0
        flows = self._differences @ self._potentials(missing)
        out, start = list(duals), 0
        for k, term in enumerate(self.full.couplings):
            if self.contracted[k]:
                rows = slice(start, start + term.map.n_rows)
                coordinates = getattr(term.map, "coordinates", slice(None))
                out[k], start = flows[rows][:, coordinates], rows.stop
        return tuple(out)

    def _step_to_gradient(self, residual: Array) -> Array:
        """Least move of every group's parameters that changes the gradient of its quadratic part by the residual."""
        Q = self.form.quadratic.quadratic()[0]
        diagonal = np.einsum("ijj->ij", Q)
        scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        values, vectors = np.linalg.eigh(Q * scale[:, :, None] * scale[:, None, :])
        positive = values > RANK_TOLERANCE * self.form.dim
        inverse = np.where(positive, 1.0 / np.where(positive, values, 1.0), 0.0)
        rotated = inverse * np.einsum("ijk,ij->ik", vectors, scale * residual)
        return np.asarray(scale * np.einsum("ijk,ik->ij", vectors, rotated))

    @cached_property
    def _differences(self) -> sparse.csr_array:
        """Incidence matrix of all consensus edges, in the order of the terms."""
        maps = [term.map for term, joined in zip(self.full.couplings, self.contracted, strict=True) if joined]
        tail, head = (np.concatenate([map.ends[k] for map in maps]) for k in (0, 1))
        return EdgeDifference(tail, head, self.full.n_nodes, 1).incidence

    @cached_property
    def _potentials(self) -> Callable[[Array], Array]:
        """Solve ``D^T D x = b`` for a b that adds up to zero in every group; x is zero at a group's first device."""
        free = np.ones(self.full.n_nodes, dtype=bool)
        free[np.unique(self.position, return_index=True)[1]] = False
        D = self._differences[:, np.flatnonzero(free)]
        factor = splu((D.T @ D).tocsc())

        def solve(b: Array) -> Array:
            x = np.zeros_like(b)
            x[free] = factor.solve(b[free])
            x[free] += factor.solve(b[free] - D.T @ (D @ x[free]))
            return x

        return solve


def contract(form: StandardForm, losses: tuple[Loss, ...], dims: IntArray) -> Contraction | None:
    """Contract the devices that agree in all parameters; None if there are none."""
    contracted = tuple(_is_consensus(term, dims) for term in form.couplings)
    if not any(contracted):
        return None
    ends = [term.map.ends for term, joined in zip(form.couplings, contracted, strict=True) if joined]
    tail, head = (np.concatenate([pair[k] for pair in ends]) for k in (0, 1))
    links = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(form.n_nodes, form.n_nodes))
    n_groups, labels = connected_components(links, directed=False)
    position = labels.astype(np.int64)
    couplings, kept = [], []
    for term, joined in zip(form.couplings, contracted, strict=True):
        tail, head = (position[end] for end in term.map.ends)
        left = (tail != head) | isinstance(term.map, EdgeMaps)  # matrices may differ within a group
        rows = np.flatnonzero(left & (not joined))
        kept.append(rows)
        if len(rows):
            couplings.append(_between_groups(term, rows, position, n_groups))
    members: list[list[tuple[float, Loss]]] = [[] for _ in range(n_groups)]
    for group, loss in zip(labels.tolist(), losses, strict=True):
        members[group] += loss.terms()
    first = np.unique(position, return_index=True)[1]
    quadratic, _, _ = split_losses([Sum(terms) for terms in members], form.dim, dims[first])
    rows_terms = tuple(Term(term.map.renumbered(position, n_groups), term.function) for term in form.rows)
    local: BlockFunction = quadratic
    if rows_terms and isinstance(quadratic, QuadraticBlocks):
        local = LocalBlocks(quadratic, rows_terms)
    contracted_form = StandardForm(
        n_groups, form.dim, quadratic, tuple(couplings) or (uncoupled(n_groups, form.dim),), rows_terms, local
    )
    return Contraction(form, contracted_form, position, contracted, tuple(kept))


def _is_consensus(term: Term, dims: IntArray) -> bool:
    """Whether all parameters of the devices at both ends agree."""
    if not isinstance(term.function, ConsensusBlocks) or not term.map.n_rows:
        return False
    return all(bool((dims[end] == term.map.width).all()) for end in term.map.ends)


def _between_groups(term: Term, rows: IntArray, position: IntArray, n_groups: int) -> Term:
    map, function = term.map, term.function
    if not isinstance(map, EdgeDifference | CoordinateDifference | EdgeMaps) or not isinstance(function, EdgeBlocks):
        raise TypeError(f"{type(map).__name__} is no map across edges")
    return Term(map.take(rows).renumbered(position, n_groups), function.take(rows))
