"""FedProx: averaging of local models that are held near the server's by a proximal term.

Algorithm 10 of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.6, whose factor
``(1/eta) ||v - w||^2`` is ``mu = 2 / eta`` here; Algorithm 2 of T. Li et al., "Federated Optimization in Heterogeneous
Networks" (2020), arXiv 1812.06127, whose mu it is.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, Point, StandardForm
from .fed_avg import Aggregation, minibatch, points_per_round
from .form import Weights, aggregation_weights, per_device
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, gradient, gradient_at, local_steps
from .minibatch import Minibatch
from .participation import All, Participation, expected_and_amplification, server_average
from .proximal_map import ProximalMap
from .start import starting_model
from .step_sizes import StepSizeWarning, averaged_step_sizes, largest_smoothness, smoothness_bound
from .streams import Keys, device_keys

__all__ = ["FedProx", "FedProxSetup", "FedProxState"]

MOST_STEPS = 100_000
"""Local steps after which an inexact subproblem is given up."""


@dataclass(frozen=True, eq=False, slots=True)
class FedProxSetup:
    """What stays the same: weights p, the proximal map or step sizes, numbers of steps or accuracies, keys, counts."""

    p: Array
    prox: ProximalMap | None
    eta: Array | None
    steps: NDArray[np.int64] | None
    gamma: Array
    keys: Keys
    expected: Array | None


@dataclass(frozen=True, eq=False, slots=True)
class FedProxState:
    """Server's model, rounds done, who took part in the last one, and with how many local steps."""

    model: Array
    round: int
    counts: Array
    steps: NDArray[np.int64]
    setup: FedProxSetup


@dataclass(frozen=True)
class FedProx:
    """Each device minimises ``h_i(v) = L_i(v) + (mu/2) ||v - w||^2`` at the server's model w, the server averages.

    Parameters
    ----------
    weights : {"uniform", "samples"} or array_like (n_nodes,)
        Weights p of the devices.
    mu : float
        Strength of the proximal term, at least 0; 0, with local steps, is FedAvg.
    local_steps : int or sequence of int, optional
        Gradient steps on h_i instead of its minimisation.
    gamma : float or array_like (n_nodes,), optional
        Gradient steps until ``||grad h_i(v)|| <= gamma ||grad L_i(w)||`` instead, at least one; above 0 and below 1.
    eta : float or array_like (n_nodes,), optional
        Step of the gradient steps.  Default: ``0.95 / (max_i L_i + mu)``, less with partial participation as
        in FedAvg.
    batch : Minibatch or int, optional
        Data points of a gradient step, with ``local_steps``.
    participation, aggregation, seed
        As for :class:`~gtvmin.solvers.federated.fed_avg.FedAvg`.

    Notes
    -----
    With exact minimisation and all devices, this is gradient descent with step 1/mu on
    ``sum_i p_i min_v L_i(v) + (mu/2) ||v - w||^2``, for any mu > 0: GTV minimisation on a star whose centre, the
    server, has no loss, with ``alpha A_i = p_i mu / 2``.  Inexact minimisation with a fixed accuracy tends neither
    there nor to the minimiser of ``sum_i p_i L_i``, since ``grad L_i(w)`` does not vanish; a single gradient step tends
    to the latter whatever mu is.

    Use it where devices differ in data or in time for local work, and a model that is stable matters more than the
    exact minimiser.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> gtv.federate(losses, "fedprox", rounds=80, weights=[1, 2], mu=1.0).model.round(6).tolist()
    [2.0]
    """

    weights: Weights
    mu: float
    local_steps: LocalSteps | None = None
    gamma: ArrayLike | None = None
    eta: ArrayLike | None = None
    batch: Minibatch | int | None = None
    participation: Participation = field(default_factory=All)
    aggregation: Aggregation = "unbiased"
    seed: int = 0
    variables: ClassVar[tuple[str, ...]] = ("model",)

    def __post_init__(self) -> None:
        if not 0 <= self.mu < np.inf:
            raise ValueError(f"mu must be a finite number >= 0, got {self.mu!r}")
        if self.mu == 0 and self.local_steps is None:
            raise ValueError("mu must be > 0: without a proximal term each device would find its own minimiser")
        if self.gamma is not None and (self.local_steps is not None or self.batch is not None):
            raise ValueError("gamma sets the number of local steps: give neither local_steps nor batch with it")
        if self.gamma is not None and not ((np.asarray(self.gamma) > 0) & (np.asarray(self.gamma) < 1)).all():
            raise ValueError(f"gamma must be above 0 and below 1, got {self.gamma!r}")
        if self.batch is not None and self.local_steps is None:
            raise ValueError("batch needs local_steps: exact minimisation looks at all data points")
        if self.aggregation not in ("unbiased", "renormalised"):
            raise ValueError(f"aggregation must be 'unbiased' or 'renormalised', got {self.aggregation!r}")

    @property
    def exact(self) -> bool:
        """Whether the devices minimise exactly."""
        return self.local_steps is None and self.gamma is None

    @property
    def requires(self) -> frozenset[str]:
        """The proximal map, or gradients."""
        return frozenset({"local.prox"} if self.exact else {"local.gradient"})

    def init(self, form: StandardForm, start: Point | None) -> FedProxState:
        """Mean of the start's models, or zero."""
        p, n = aggregation_weights(form, self.weights), form.n_nodes
        prox, eta, steps = None, None, None
        expected, c = expected_and_amplification(self.participation, p, unbiased=self.aggregation == "unbiased")
        if self.exact:
            self._check_moves(form, c)
            prox = ProximalMap(form.local, np.full(n, 1.0 / self.mu))
        else:
            steps = None if self.local_steps is None else local_steps(form, self.local_steps)
            bound, k = smoothness_bound(form, self.mu), 1 if steps is None else steps
            eta = averaged_step_sizes(self.eta, bound, "2 / (L_i + mu)", form, steps=k, amplification=c)
        gamma = per_device("gamma", 0.0 if self.gamma is None else self.gamma, n)
        setup = FedProxSetup(p, prox, eta, steps, gamma, device_keys(form, self.seed), expected)
        nobody = np.zeros(n)
        return FedProxState(starting_model(form, start, p), 0, nobody, nobody.astype(np.int64), setup)

    def _check_moves(self, form: StandardForm, c: float) -> None:
        """Moves to minimisers have ``||d||^2 <= r <d, u>`` with ``r = L / (L + mu)``; ``c r < 2`` is needed."""
        least = largest_smoothness(form) * (0.5 * c - 1.0) if c > 2.0 else 0.0
        if c > 2.0 and not self.mu > least:
            known = f"is not above {least:.6g} = max L_i ({c:.4g} / 2 - 1)" if least < np.inf else "may be too small"
            warnings.warn(
                f"mu = {self.mu:.6g} {known}, for the updates' weights in rounds of few devices: the iteration may "
                "diverge; take a larger mu, more devices a round or aggregation='renormalised'",
                StepSizeWarning,
                stacklevel=3,
            )

    def step(self, form: StandardForm, state: FedProxState) -> FedProxState:
        """One round."""
        setup = state.setup
        # Algorithm 2 (Li et al.), lines 3-4: choose the devices, send them the model
        counts = self.participation.counts(setup.keys, setup.p, state.round)
        # lines 5-6: each of them minimises h_i, exactly or not
        local, steps = self._minimise(form, state, counts > 0)
        # line 7: average
        model = server_average(state.model, local, setup.p, counts, setup.expected)
        return FedProxState(model, state.round + 1, counts, steps, setup)

    def _minimise(
        self, form: StandardForm, state: FedProxState, active: NDArray[np.bool_]
    ) -> tuple[Array, NDArray[np.int64]]:
        """Local models, and gradient steps that they took."""
        setup = state.setup
        sent = np.tile(state.model, (form.n_nodes, 1))
        none = np.zeros(form.n_nodes, dtype=np.int64)
        if setup.prox is not None:
            return setup.prox(sent), none
        if setup.eta is None:
            raise ValueError("a state of exact minimisation cannot be continued with gradient steps")
        if setup.steps is not None:
            steps = np.where(active, setup.steps, 0)
            batch = minibatch(self.batch)
            local = descend(
                form, sent, steps, setup.eta, mu=self.mu, anchor=sent, batch=batch, keys=setup.keys, round=state.round
            )
            return local, steps
        # ||grad h_i(v)|| <= gamma ||grad h_i(w)||, and grad h_i(w) = grad L_i(w)
        allowed = setup.gamma * np.linalg.norm(gradient_at(form, state.model), axis=1)
        local, steps, busy = sent, none, active
        while busy.any():
            local = descend(form, local, busy.astype(np.int64), setup.eta, mu=self.mu, anchor=sent)
            steps = steps + busy
            residual = gradient(form, local) + self.mu * (local - sent)
            busy = busy & (np.linalg.norm(residual, axis=1) > allowed)
            if int(steps.max()) >= MOST_STEPS:
                raise ValueError(
                    f"gamma={self.gamma!r} is not reached within {MOST_STEPS} local steps: take a larger eta"
                )
        return local, steps

    def point(self, form: StandardForm, state: FedProxState) -> Point:
        """The server's model at every device."""
        return Point(np.tile(state.model, (form.n_nodes, 1)))

    def traffic(self, form: StandardForm, state: FedProxState) -> Traffic:
        """One model down and one up for each device that takes part."""
        taken = state.steps.astype(float)
        gradients = taken if self.gamma is None else 2.0 * taken + 1.0  # the test of the accuracy needs its own
        points = points_per_round(form, gradients, minibatch(self.batch))
        return server_traffic(form, state.counts, gradients=gradients, points=points, proxes=float(self.exact))
