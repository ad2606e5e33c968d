"""FedSplit: Peaceman-Rachford splitting between the devices' losses and consensus.

Algorithm 1 of R. Pathak, M. J. Wainwright, "FedSplit: An algorithmic framework for fast federated optimization" (2020),
arXiv 2005.05238, whose step s is 1/mu here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ..standard_form import Array, Point, StandardForm
from .form import Weights, aggregation_weights
from .ledger import Traffic
from .local_prox import LocalProx, prox_capability, proximal_strength
from .local_steps import LocalSteps
from .start import starting_model

__all__ = ["FedSplit", "FedSplitState"]


@dataclass(frozen=True, eq=False, slots=True)
class FedSplitState:
    """The devices' z_i, with the weights p and the proximal map, which stay the same."""

    z: Array
    p: Array
    prox: LocalProx

    @property
    def model(self) -> Array:
        """The server's: the mean of the z_i."""
        return np.asarray(np.einsum("i,ij->j", self.p, self.z))


@dataclass(frozen=True)
class FedSplit:
    """Devices reflect: ``z_i += 2 (prox(2 x - z_i) - x)`` with the server's ``x = sum_i p_i z_i``.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    mu : float, optional
        ``prox(v) = argmin_x L_i(x) + (mu/2) ||x - v||^2``.  Default: ``sqrt(min_i mu_i max_i L_i)``, the best one.
    local_steps : int or sequence of int, optional
        Gradient steps, from the server's model, instead of minimisation.
    eta : float or array_like (n_nodes,), optional
        Their size.  Default: ``0.95 / (max_i L_i + mu)``.

    Notes
    -----
    The limit of x is the minimiser of ``sum_i p_i L_i`` for any mu > 0 if the losses are strongly convex; the z_i do
    not agree.  Gradient steps have the same limit if they start at x, and a biased one if they start at ``2 x - z_i``.
    With ``y_i = 2 x - z_i`` this is FedDR with relaxation 2.  A device receives and sends one vector a round.

    Use it where all devices take part in every round and can minimise strongly convex losses exactly: few rounds.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {"Oulu": gtv.SquaredError([[1.0]], [0.0]), "Turku": gtv.SquaredError([[2.0]], [5.0])}
    >>> gtv.federate(losses, "fedsplit", rounds=200, weights="uniform").model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    mu: float | None = None
    local_steps: LocalSteps | None = None
    eta: ArrayLike | None = None
    variables: ClassVar[tuple[str, ...]] = ("z",)

    @property
    def requires(self) -> frozenset[str]:
        """The proximal map, or gradients."""
        return prox_capability(self.local_steps)

    def init(self, form: StandardForm, start: Point | None) -> FedSplitState:
        """All z_i at the mean of the start's models, or at zero."""
        p = aggregation_weights(form, self.weights)
        prox = LocalProx.of(form, proximal_strength(form, self.mu), self.local_steps, self.eta)
        return FedSplitState(np.tile(starting_model(form, start, p), (form.n_nodes, 1)), p, prox)

    def step(self, form: StandardForm, state: FedSplitState) -> FedSplitState:
        """One round."""
        x = np.tile(state.model, (form.n_nodes, 1))
        # local prox step
        half = state.prox(form, 2.0 * x - state.z, x)
        # local centring step
        return replace(state, z=state.z + 2.0 * (half - x))

    def point(self, form: StandardForm, state: FedSplitState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedSplitState) -> Traffic:
        """One vector down and one up."""
        return state.prox.traffic(form, np.ones(form.n_nodes))
