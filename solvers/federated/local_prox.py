"""Proximal maps of the devices' losses: exact, or by some gradient steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, StandardForm
from .fed_avg import points_per_round
from .ledger import Traffic, server_traffic
from .local_steps import LocalSteps, descend, local_steps
from .proximal_map import ProximalMap
from .step_sizes import smoothness_bound, step_sizes

__all__ = ["LocalProx", "prox_capability", "proximal_strength"]


def prox_capability(steps: LocalSteps | None) -> frozenset[str]:
    """What a form has to offer: the proximal map, or gradients for steps towards it."""
    return frozenset({"local.prox"} if steps is None else {"local.gradient"})


def proximal_strength(form: StandardForm, mu: float | None) -> float:
    """The given strength, or the geometric mean of the least curvature of a loss and the largest.

    Raises
    ------
    ValueError
        If it is not a finite number above 0, or not given where the losses are not both smooth and strongly convex.
    """
    if mu is None:
        mu = float(np.sqrt(form.local.strong_convexity.min() * form.local.smoothness.max()))
        if not 0 < mu < np.inf:
            raise ValueError("mu must be given: some loss is not smooth or not strongly convex")
    if not 0 < mu < np.inf:
        raise ValueError(f"mu must be a finite number > 0, got {mu!r}")
    return float(mu)


@dataclass(frozen=True, eq=False, slots=True)
class LocalProx:
    """``v_i -> argmin_x L_i(x) + (mu/2) ||x - v_i||^2`` at every device, or ``steps`` gradient steps towards it."""

    mu: float
    exact: ProximalMap | None
    eta: Array
    steps: NDArray[np.int64]

    @classmethod
    def of(cls, form: StandardForm, mu: float, steps: LocalSteps | None, eta: ArrayLike | None) -> LocalProx:
        """Exact without ``steps``, else with a step that defaults to ``0.95 / (max_i L_i + mu)``."""
        n = form.n_nodes
        if steps is None:
            prox = ProximalMap(form.local, np.full(n, 1.0 / mu))
            return cls(mu, prox, np.zeros(n), np.zeros(n, dtype=np.int64))
        rate = step_sizes("eta", eta, smoothness_bound(form, mu), "2 / (L_i + mu)", form)
        if eta is None:
            rate = np.full(n, 0.5 * rate.min())
        return cls(mu, None, rate, local_steps(form, steps, least=1))

    def __call__(self, form: StandardForm, V: Array, start: Array) -> Array:
        """The maps at the rows of V; gradient steps start at those of ``start``."""
        if self.exact is not None:
            return self.exact(V)
        return descend(form, start, self.steps, self.eta, mu=self.mu, anchor=V)

    def traffic(self, form: StandardForm, counts: Array) -> Traffic:
        """One vector down, one map, and one vector up for each device that takes part."""
        steps = self.steps.astype(float)
        points = points_per_round(form, steps, None)
        return server_traffic(form, counts, gradients=steps, points=points, proxes=float(self.exact is not None))
