"""The preconditioned primal-dual method for GTV minimisation.

Algorithm 1 of A. Jung, "Networked Exponential Families for Big Data over Networks" / "Networked Federated Learning",
arXiv 2010.14159, which is the method of A. Chambolle and T. Pock with the diagonal preconditioners of T. Pock and
A. Chambolle, "Diagonal preconditioning for first order primal-dual algorithms in convex optimization" (ICCV 2011),
DOI 10.1109/ICCV.2011.6126441.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .driver import starting_arrays
from .standard_form import Array, Duals, Point, StandardForm

__all__ = ["PrimalDual", "PrimalDualState", "Steps", "curvature", "step_sizes"]


@dataclass(frozen=True, slots=True)
class Steps:
    """Step sizes and the proximal maps that belong to them."""

    tau: Array
    sigma: Duals
    local_prox: Callable[[Array], Array]
    dual_prox: tuple[Callable[[Array], Array], ...]

    @classmethod
    def of(cls, form: StandardForm, scale: float) -> Steps:
        """Steps of that scale."""
        tau, sigma = step_sizes(form, scale)
        dual_prox = tuple(
            term.function.conjugate_prox_operator(step) for term, step in zip(form.terms, sigma, strict=True)
        )
        return cls(tau, sigma, form.quadratic.prox_operator(tau), dual_prox)


def step_sizes(form: StandardForm, scale: float) -> tuple[Array, Duals]:
    """``tau_i = scale / sum of sizes at i``, ``sigma_r = 1 / (scale * sum of sizes in row r)``.

    For a graph the sizes are one: ``tau_i = scale / degree_i`` and ``sigma_e = 1 / (2 scale)``.  A device that no row
    reads is coupled to nothing: any step is allowed, and a huge one minimises its loss at once.
    """
    pull = np.zeros(form.n_nodes)
    sigma = []
    for term in form.terms:
        sizes = term.map.sizes()
        for end, size in zip(term.map.ends, sizes, strict=True):
            pull += np.bincount(end, size, form.n_nodes)
        total = np.sum(sizes, axis=0)
        sigma.append(1.0 / (scale * np.where(total > 0, total, 1.0)))
    tau = scale / np.where(pull > 0, pull, 1.0)
    alone = pull == 0
    if alone.any():
        size = curvature(form)[alone]
        tau[alone] = 1e8 / np.where(size > 0, size, 1.0)
    return tau, tuple(sigma)


def curvature(form: StandardForm) -> Array:
    """Trace of the Hessian of every device's quadratic part: no less than its largest eigenvalue, and cheaper."""
    return np.asarray(np.einsum("ijj->i", form.quadratic.quadratic()[0]))


@dataclass(slots=True)
class PrimalDualState:
    """Parameters W, one array of duals per term, the steps, and the compiled maps."""

    W: Array
    U: Duals
    steps: Steps
    ascend: tuple[Callable[[Array, Array, Array], Array], ...]
    descend: tuple[Callable[[Array], Array], ...]


@dataclass(frozen=True)
class PrimalDual:
    """Preconditioned primal-dual iteration with ``tau_i = scale / degree_i`` and ``sigma_e = 1 / (2 scale)``.

    Each step, with all devices and edges at once::

        w_i <- prox of L_i with step tau_i at w_i - tau_i (D^T U)_i                      (lines 3-7)
        U_e <- U_e + sigma_e (D (2 w_new - w_old))_e, then back into its ball          (lines 8-11)

    What of a loss is not quadratic is treated as the penalty is: each data point has a dual variable, and its row of
    features stands beside the rows of D.

    Parameters
    ----------
    scale : float
        Balance of the steps; 1 gives the paper's ``tau_i = 1/degree_i``, ``sigma_e = 1/2``.

    Raises
    ------
    ValueError
        If scale is not positive.

    Notes
    -----
    Converges for any convex losses and any scale > 0, since ``||Sigma^(1/2) K T^(1/2)|| <= 1``.
    """

    scale: float = 1.0
    requires: ClassVar[frozenset[str]] = frozenset({"terms.prox"})

    def __post_init__(self) -> None:
        if not 0 < self.scale < np.inf:
            raise ValueError(f"scale must be a finite number > 0, got {self.scale!r}")

    def init(self, form: StandardForm, start: Point | None) -> PrimalDualState:
        """Start from the given point, or zero."""
        from .operators import compiled

        W, U = starting_arrays(form, start)
        ascend, descend = zip(*(compiled(term.map) for term in form.terms), strict=True) if form.terms else ((), ())
        return PrimalDualState(W, U, Steps.of(form, self.scale), ascend, descend)

    def step(self, form: StandardForm, state: PrimalDualState) -> PrimalDualState:
        """One primal and one dual update."""
        steps = state.steps
        pull = np.zeros_like(state.W)
        for descend, dual in zip(state.descend, state.U, strict=True):
            pull += descend(dual)
        W = steps.local_prox(state.W - steps.tau[:, None] * pull)
        ahead = 2.0 * W - state.W
        state.U = tuple(
            prox(ascend(dual, ahead, sigma))
            for prox, ascend, dual, sigma in zip(steps.dual_prox, state.ascend, state.U, steps.sigma, strict=True)
        )
        state.W = W
        return state

    def point(self, form: StandardForm, state: PrimalDualState) -> Point:
        """The iterate itself."""
        return Point(state.W, state.U)
