"""Block coordinate descent, a Gauss-Seidel iteration over the devices, colour by colour.

P. Tseng, "Convergence of a block coordinate descent method for nondifferentiable minimization", JOTA 109 (2001), DOI
10.1023/A:1017501703105, Section 1 (the cyclic rule).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .driver import starting_arrays
from .proximal_gradient import coupled_steps
from .smooth_duals import gradient_duals
from .standard_form import Array, Point, StandardForm

__all__ = ["BlockCoordinate", "greedy_colours"]


@dataclass(slots=True)
class BlockCoordinateState:
    """Parameters W, the devices of each colour, ``2 sum_e a_e`` and the steps of the devices, and the proximal map."""

    W: Array
    colours: tuple[NDArray[np.int64], ...]
    curvature: Array
    steps: Array
    local_prox: Callable[[Array], Array]


@dataclass(frozen=True)
class BlockCoordinate:
    """Each device solves its own problem, given its neighbours' present parameters.

    With the penalty ``a_e ||w_i - w_j||^2`` that is a proximal step on its loss at the mean of its neighbours::

        for each colour, all its devices i at once:
            w_i <- argmin L_i(w) + sum_e a_e ||w - w_j||^2 = prox of L_i with step 1 / (2 sum_e a_e) at mean_i

    Neighbours have different colours, so that the devices of a colour do not wait for one another.

    Notes
    -----
    Exact and monotone.  It converges because the coupling is smooth: at the kink of a norm, where neighbours agree,
    none of them can move alone, however much the loss of all falls when they move together.  At zero no single change
    lowers ``(w_1 - 1)^2 + (w_2 - 1)^2 + 3 |w_1 - w_2|``, yet the minimum is at one.  Norms are refused therefore.
    Information travels one edge a step: on long paths use ``linear_system`` or ``proximal_gradient``.
    """

    requires: ClassVar[frozenset[str]] = frozenset({"local.prox", "coupling.quadratic"})

    def init(self, form: StandardForm, start: Point | None) -> BlockCoordinateState:
        """Colour the devices; start from the given parameters, or zero."""
        W, _ = starting_arrays(form, start)
        strength = form.coupling.quadratic()[0][:, 0, 0]  # 2 a_e
        curvature = form.edges.at_nodes(strength)
        steps = coupled_steps(form, curvature)
        colour = greedy_colours(form.edges.tail, form.edges.head, form.n_nodes)
        colours = tuple(np.flatnonzero(colour == c) for c in range(int(colour.max()) + 1))
        return BlockCoordinateState(W, colours, curvature, steps, form.local.prox_operator(steps))

    def step(self, form: StandardForm, state: BlockCoordinateState) -> BlockCoordinateState:
        """One sweep over the colours."""
        weight = np.where(state.curvature > 0, state.curvature, 1.0)[:, None]
        W = state.W.copy()
        for devices in state.colours:
            pull = form.edges.adjoint(form.coupling.gradient(form.edges.apply(W)))
            W[devices] = state.local_prox(W - pull / weight)[devices]
        state.W = W
        return state

    def point(self, form: StandardForm, state: BlockCoordinateState) -> Point:
        """Parameters, and the gradients there as duals."""
        return Point(state.W, gradient_duals(form, state.W))


def greedy_colours(tail: NDArray[np.int64], head: NDArray[np.int64], n_nodes: int) -> NDArray[np.int64]:
    """A colour for every node, the first that none of its neighbours has yet; nodes of many edges come first."""
    neighbours: list[list[int]] = [[] for _ in range(n_nodes)]
    for i, j in zip(tail.tolist(), head.tolist(), strict=True):
        neighbours[i].append(j)
        neighbours[j].append(i)
    colour = np.full(n_nodes, -1, dtype=np.int64)
    for i in sorted(range(n_nodes), key=lambda node: -len(neighbours[node])):
        taken = {int(colour[j]) for j in neighbours[i]}
        colour[i] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colour
