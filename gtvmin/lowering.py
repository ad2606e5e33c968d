"""From a declared problem to the arrays of the solvers, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.losses.stacking import stack_losses
from gtvmin.penalties import SquaredNorm
from gtvmin.solvers.standard_form import Array, Point, StandardForm

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
    edges : int array
        For each edge of the form its number in the declared network: all of them, or none where alpha is zero.
    n_edges : int
        Number of edges of the declared network.
    """

    form: StandardForm
    edges: NDArray[np.int64]
    n_edges: int

    def raise_flows(self, U: Array) -> Array:
        """Flows on the declared edges; zero on those that the form left out."""
        full = np.zeros((self.n_edges, self.form.dim))
        full[self.edges] = U
        return full

    def lower_flows(self, U: Array) -> Array:
        """Flows on the form's edges."""
        return U[self.edges]

    def lower_point(self, point: Point) -> Point:
        """A point of the declared problem as one of the form."""
        return Point(point.W, None if point.U is None else self.lower_flows(point.U))


def lower(problem: GTVMin) -> Lowered:
    """Stack the losses and penalties of a problem.

    With alpha = 0 the devices are on their own: no edge is left, so that no solver meets a ball of radius zero.  Where
    there is no edge any penalty will do, and the quadratic one suits every solver.
    """
    network = problem.network
    edges = np.arange(network.n_edges if problem.alpha > 0 else 0)
    form = StandardForm(
        tail=network.tail[edges],
        head=network.head[edges],
        n_nodes=network.n_nodes,
        dim=problem.dim,
        local=stack_losses(problem.losses, problem.dim),
        coupling=(problem.penalty if len(edges) else SquaredNorm()).stack(
            problem.alpha * network.weights[edges], problem.dim
        ),
    )
    return Lowered(form, edges, network.n_edges)
