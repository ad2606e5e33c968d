"""Federated gradient descent on GTV minimisation.

Algorithm 5.1 (FedGD) of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.4: the book's
Algorithm 4, in the scaling of this package (its equation (130) has the factor alpha in the sum, where it belongs).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, Point, StandardForm
from .ledger import Traffic, edge_traffic
from .local_steps import data_points, gradient
from .neighbours import Neighbourhood, coupling_curvature, directed_edges, largest_eigenvalue
from .start import starting_models
from .step_sizes import bound_by, largest_smoothness, step_sizes

__all__ = ["FedGD", "FedGDState", "network_step_bound"]


@dataclass(frozen=True, eq=False, slots=True)
class FedGDState:
    """Parameters of all devices, their steps, and the neighbours where the coupling is quadratic."""

    W: Array
    eta: Array
    neighbours: Neighbourhood | None


@dataclass(frozen=True)
class FedGD:
    """Each device moves along its own gradient and towards its neighbours.

    Parameters
    ----------
    eta : float or array_like (n_nodes,), optional
        Learning rate.  Default: 0.95 of the bound for one rate of all devices.

    Notes
    -----
    The fixed point is GTV minimisation's, for any rates.  One rate converges below ``2 / (max_i L_i + lambda)`` with
    lambda the largest eigenvalue of the coupling's Hessian, ``2 alpha`` times that of the Laplacian, and for different
    ones ``eta_i < 2 / (L_i + 4 alpha d_i)``.  Each device sends its parameters to its neighbours.

    Use it for smooth losses with a smooth coupling: the cheapest round on a network, to be run for many rounds.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> net = gtv.FLNetwork.from_edges([(0, 1)])
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    >>> gtv.federate(problem, "fedgd", rounds=200).weights.round(6).tolist()
    [[1.0], [2.0]]
    """

    eta: ArrayLike | None = None
    requires: ClassVar[frozenset[str]] = frozenset({"local.gradient", "couplings.gradient"})
    variables: ClassVar[tuple[str, ...]] = ("W",)

    def init(self, form: StandardForm, start: Point | None) -> FedGDState:
        """Line 1: parameters of the start, or zero."""
        hood = Neighbourhood.of(form) if Neighbourhood.fits(form) else None
        return FedGDState(starting_models(form, start), network_step_bound(form, self.eta), hood)

    def step(self, form: StandardForm, state: FedGDState) -> FedGDState:
        """Lines 3-5: share with the neighbours, then ``w_i -= eta (g_i + 2 alpha sum_j A_ij (w_i - w_j))``."""
        W, hood = state.W, state.neighbours
        pull = coupling_gradient(form, W) if hood is None else hood.laplacian @ W
        return replace(state, W=W - state.eta[:, None] * (gradient(form, W) + pull))

    def update(self, form: StandardForm, state: FedGDState, W: Array, heard: Array) -> Array:
        """New parameters of every device from its own and what came over the directed edges, fresh or stale.

        W (n_nodes, dim) and ``heard`` (2 n_edges, dim), in the order of the neighbourhood's edges.
        """
        hood = state.neighbours
        if hood is None:
            raise ValueError("messages of different ages need the coupling SquaredNorm() of whole parameter vectors")
        pull = hood.degree[:, None] * W - hood.weighted_sum(heard)
        return np.asarray(W - state.eta[:, None] * (gradient(form, W) + pull))

    def point(self, form: StandardForm, state: FedGDState) -> Point:
        """The iterate; the couplings' gradients are its flows."""
        return Point(state.W, tuple(t.function.gradient(t.map.apply(state.W)) for t in form.couplings))

    def traffic(self, form: StandardForm, state: FedGDState) -> Traffic:
        """One vector over each edge, each way, and one gradient a device."""
        data = data_points(form)
        return edge_traffic(form, *directed_edges(form), gradients=1.0, points=0.0 if data is None else data.counts)


def coupling_gradient(form: StandardForm, W: Array) -> Array:
    """Gradient of all couplings."""
    pull = np.zeros_like(W)
    for term in form.couplings:
        pull += term.map.adjoint(term.function.gradient(term.map.apply(W)))
    return pull


def network_step_bound(form: StandardForm, eta: ArrayLike | None) -> Array:
    """Steps of gradient descent on the whole objective, one a device."""
    L = form.local.smoothness
    if eta is None or np.ndim(eta) == 0:
        bound = bound_by(2.0, largest_smoothness(form) + largest_eigenvalue(form))
        return step_sizes("eta", eta, bound, "2 / (max L_i + lambda_max(coupling))", form)
    each = bound_by(2.0, L + 2.0 * coupling_curvature(form))
    return step_sizes("eta", eta, each, "2 / (L_i + 4 alpha d_i)", form)
