"""The primal-dual method with over-relaxation and a step balance that adapts to the problem's units.

Relaxation: L. Condat, "A primal-dual splitting method for convex optimization involving Lipschitzian, proximable and
linear composite terms", JOTA 158 (2013), DOI 10.1007/s10957-012-0245-9, Algorithm 3.1.
Balance: the ratio of the primal to the dual movement, the primal weight of D. Applegate et al., "Practical
large-scale linear programming using primal-dual hybrid gradient" (PDLP, 2021), arXiv 2106.04756, Section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .primal_dual import PrimalDual, PrimalDualState, Steps
from .standard_form import Array, Duals, Point, StandardForm

__all__ = ["AdaptivePrimalDual"]

FIRST_ADAPTATION = 40
ADAPTATION_GROWTH = 1.6
FACTOR_RANGE = (0.1, 10.0)
SMALLEST_FACTOR = 1.3
START_SHARE = 0.1
FIT_RIDGE = 1e-3


@dataclass(slots=True)
class AdaptiveState:
    """The relaxed iterate, its steps' scale, where the last adaptation took place, and the last proximal point."""

    inner: PrimalDualState
    scale: float
    iteration: int
    next_adaptation: int
    balanced: tuple[Array, Duals]
    proximal: Point


@dataclass(frozen=True)
class AdaptivePrimalDual:
    """Over-relaxed primal-dual iteration whose primal-dual balance follows the movement of the iterates.

    Parameters
    ----------
    relaxation : float
        Over-relaxation in (0, 2); the iterates move that many times the plain step.
    scale : float, optional
        First balance ``tau_i = scale / degree_i``, ``sigma_e = 1 / (2 scale)``.  Default: estimated from the spread of
        the local fits and the size of the flows that would hold them together.

    Raises
    ------
    ValueError
        If relaxation or scale is out of range.

    Notes
    -----
    The balance changes ever more rarely (at iteration 40, then each time 1.6 times as many are done), so that the
    method has the plain method's guarantee between changes.
    """

    relaxation: float = 1.8
    scale: float | None = None
    requires: ClassVar[frozenset[str]] = PrimalDual.requires

    def __post_init__(self) -> None:
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation must be between 0 and 2, got {self.relaxation!r}: beyond, iterates diverge")
        if self.scale is not None and not 0 < self.scale < np.inf:
            raise ValueError(f"scale must be a finite number > 0, got {self.scale!r}")

    def init(self, form: StandardForm, start: Point | None) -> AdaptiveState:
        """Estimate the balance and start from the given point, or zero."""
        scale = estimate_scale(form) if self.scale is None else self.scale
        inner = PrimalDual(scale).init(form, start)
        return AdaptiveState(inner, scale, 0, FIRST_ADAPTATION, (inner.W, inner.U), Point(inner.W, inner.U))

    def step(self, form: StandardForm, state: AdaptiveState) -> AdaptiveState:
        """One relaxed step; now and then, a new balance."""
        inner = state.inner
        W, U = inner.W, inner.U
        inner = PrimalDual(state.scale).step(form, inner)
        state.proximal = Point(inner.W, inner.U)
        inner.W = W + self.relaxation * (inner.W - W)
        inner.U = tuple(old + self.relaxation * (new - old) for old, new in zip(U, inner.U, strict=True))
        state.iteration += 1
        if state.iteration >= state.next_adaptation:
            self._adapt(form, state)
        return state

    def _adapt(self, form: StandardForm, state: AdaptiveState) -> None:
        """Move the scale by the root of the ratio of primal to dual movement."""
        W, U = state.balanced
        steps = state.inner.steps
        # in the steps' own norms, brought to scale one
        primal = state.scale * float(((state.inner.W - W) ** 2 / steps.tau[:, None]).sum())
        dual = sum(
            float(((new - old) ** 2 / sigma[:, None]).sum()) / state.scale
            for new, old, sigma in zip(state.inner.U, U, steps.sigma, strict=True)
        )
        state.next_adaptation = int(np.ceil(ADAPTATION_GROWTH * state.iteration))
        state.balanced = (state.inner.W, state.inner.U)
        if primal <= 0 or dual <= 0:
            return
        factor = float(np.clip(np.sqrt(np.sqrt(primal / dual) / state.scale), *FACTOR_RANGE))
        if max(factor, 1.0 / factor) < SMALLEST_FACTOR:
            return
        state.scale *= factor
        state.inner.steps = Steps.of(form, state.scale)

    def point(self, form: StandardForm, state: AdaptiveState) -> Point:
        """The last proximal point: unlike the relaxed iterate, its flows are inside their balls."""
        return state.proximal


def estimate_scale(form: StandardForm) -> float:
    """Spread of the devices' own fits over the size of the duals that belong to them."""
    curvature = form.quadratic.smoothness
    labelled = curvature > 0
    if not form.terms or not labelled.any():
        return 1.0
    step = np.where(labelled, 1.0 / (FIT_RIDGE * np.where(labelled, curvature, 1.0)), 1.0)
    fits = form.quadratic.prox(np.zeros((form.n_nodes, form.dim)), step)
    fits[~labelled] = fits[labelled].mean(axis=0)
    unit = Steps.of(form, 1.0)
    spread = float(((fits - fits[labelled].mean(axis=0)) ** 2 / unit.tau[:, None]).sum())
    size = 0.0
    for term, sigma in zip(form.terms, unit.sigma, strict=True):
        # sigma -> infinity turns the dual update into a subgradient at the fits
        big = np.full(term.map.n_rows, 1e8)
        # outside the domain of a function there is none, and the duals would be as large as sigma
        rows = term.function.project_primal(term.map.apply(fits))
        duals = term.function.conjugate_prox_operator(big)(big[:, None] * rows)
        size += float(((0.5 * duals) ** 2 / sigma[:, None]).sum())
    if not (0 < spread < np.inf and 0 < size < np.inf):
        return 1.0
    return START_SHARE * float(np.sqrt(spread / size))
