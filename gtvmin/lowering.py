"""From a declared problem to the arrays of the solvers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.contraction import Contraction, contract, uncoupled
from gtvmin.solvers.standard_form import Array, Duals, Point, StandardForm, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gtvmin.penalties.edge_terms import EdgeTerm
    from gtvmin.problem import GTVMin

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True)
class Lowered:
    """Standard forms of a problem and the way back to its devices and edges.

    Edges are counted through all families of the problem.

    Attributes
    ----------
    form : StandardForm
        The problem as it was declared, which certificates judge.
    edges : tuple of int arrays
        For each coupling of the form, the numbers of its edges; none where alpha is zero.
    n_edges, width : int
        Number of edges of all families, and of entries of a flow.
    terms : tuple of EdgeTerm
        For each coupling of the form, how it sees the parameters; none if nothing is coupled.
    padding : bool array (n_nodes, dim), optional
        Parameters that no device has.
    contraction : Contraction, optional
        Groups of devices in consensus, if there are any.
    """

    form: StandardForm
    edges: tuple[NDArray[np.int64], ...]
    n_edges: int
    width: int
    terms: tuple[EdgeTerm, ...] = ()
    padding: NDArray[np.bool_] | None = None
    contraction: Contraction | None = None

    @property
    def solver_form(self) -> StandardForm:
        """What the solvers see: devices in consensus are one."""
        return self.form if self.contraction is None else self.contraction.form

    def shrink(self, point: Point) -> Point:
        """A point of the declared form as one of the solvers' form."""
        return point if self.contraction is None else self.contraction.shrink(point)

    def expand(self, point: Point) -> Point:
        """A point of the solvers' form as one of the declared form."""
        full = point if self.contraction is None else self.contraction.expand(point)
        return full if self.padding is None else Point(np.where(self.padding, 0.0, full.W), full.U)

    def raise_flows(self, U: Duals) -> Array:
        """Flows on the declared edges from the form's duals; zero on edges that the form left out."""
        full = np.zeros((self.n_edges, self.width))
        for term, dual in zip(self.terms, U, strict=False):  # the losses' duals come after the couplings'
            term.raise_flows(dual, full)
        return full

    def lower_flows(self, U: Array) -> Duals:
        """Duals of the form's couplings."""
        if not self.terms:
            return self.form.zero_duals()[: len(self.form.couplings)]
        return tuple(term.lower_flows(U) for term in self.terms)


def lower(problem: GTVMin) -> Lowered:
    """Stack the losses and penalties of a problem."""
    n_nodes, dim, dims = problem.network.n_nodes, problem.dim, problem.dims
    couplings, terms, edges, first = [], [], [], 0
    for coupling in problem.couplings:
        network = coupling.network
        for term in coupling.edge_terms(dims):
            couplings.append(Term(term.map(network.tail, network.head, n_nodes, dim), term.function))
            terms.append(term.shifted(first))
            edges.append(terms[-1].numbers)
        first += network.n_edges
    quadratic, rows, local = problem.loss_stack.parts
    form = StandardForm(n_nodes, dim, quadratic, tuple(couplings) or (uncoupled(n_nodes, dim),), rows, local)
    return Lowered(
        form=form,
        edges=tuple(edges) or (np.empty(0, dtype=np.int64),),
        n_edges=first,
        width=problem.flow_shape[1],
        terms=tuple(terms),
        padding=None if (dims == dim).all() else np.arange(dim) >= dims[:, None],
        contraction=contract(form, problem.losses, dims),
    )
