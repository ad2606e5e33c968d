"""From a declared problem to the arrays of the solvers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.losses.stacking import split_losses
from gtvmin.penalties import SquaredNorm
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.solvers.standard_form import Array, Duals, StandardForm, Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gtvmin.problem import GTVMin

__all__ = ["Lowered", "lower"]


@dataclass(frozen=True)
class Lowered:
    """A standard form and the way back to the declared problem's edges.

    Attributes
    ----------
    form : StandardForm
        What the solvers see.
    edges : tuple of int arrays
        For each coupling of the form, the numbers of its edges in the declared network; none where alpha is zero.
    n_edges, width : int
        Number of edges of the declared network and entries of a flow.
    """

    form: StandardForm
    edges: tuple[NDArray[np.int64], ...]
    n_edges: int
    width: int

    def raise_flows(self, U: Duals) -> Array:
        """Flows on the declared edges from the form's duals; zero on edges that the form left out."""
        full = np.zeros((self.n_edges, self.width))
        for edges, dual in zip(self.edges, U, strict=False):  # the losses' duals come after the couplings'
            full[edges, : dual.shape[1]] = dual
        return full

    def lower_flows(self, U: Array) -> Duals:
        """Duals of the form's couplings."""
        widths = (term.map.width for term in self.form.couplings)
        return tuple(U[edges, :width] for edges, width in zip(self.edges, widths, strict=True))


def lower(problem: GTVMin) -> Lowered:
    """Stack the losses and penalties of a problem.

    With alpha = 0 the devices are on their own: no edge is left, so that no solver meets a ball of radius zero.  Where
    there is no edge any penalty will do, and the quadratic one suits every solver.
    """
    network, dim = problem.network, problem.dim
    edges = np.arange(network.n_edges if problem.alpha > 0 else 0)
    difference = EdgeDifference(network.tail[edges], network.head[edges], network.n_nodes, dim)
    penalty = problem.penalty if len(edges) else SquaredNorm()
    coupling = penalty.stack(problem.alpha * network.weights[edges], dim)
    quadratic, rows, local = split_losses(problem.losses, dim)
    form = StandardForm(network.n_nodes, dim, quadratic, (Term(difference, coupling),), rows, local)
    return Lowered(form, (edges,), network.n_edges, dim)
