"""The alternating direction method of multipliers on the copies ``Z_k = K_k W`` of all rows.

S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed optimization and statistical learning via the
alternating direction method of multipliers" (2011), DOI 10.1561/2200000016: Section 3.1.1 (the iteration in its
unscaled form), 3.4.1 (changing rho), 3.4.3 (over-relaxation).  Its use for the network Lasso: D. Hallac, J. Leskovec,
S. Boyd (2015), DOI 10.1145/2783258.2783313, Section 3; here the devices' step is one linear system over all of them,
where theirs splits it by two copies an edge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .adaptive_primal_dual import estimate_scale
from .driver import starting_arrays
from .quadratic_systems import RowSystem
from .standard_form import Array, Duals, Point, StandardForm

__all__ = ["ADMM"]

FIRST_LOOK = 20
LOOK_GROWTH = 1.6
FACTOR_RANGE = (0.1, 10.0)
SMALLEST_FACTOR = 1.5


@dataclass(slots=True)
class ADMMState:
    """Parameters W, copies Z, multipliers U, the penalty rho, and what belongs to it.

    ``balanced`` holds Z and U at the last look at rho.
    """

    W: Array
    Z: Duals
    U: Duals
    rho: float
    system: RowSystem
    dual_prox: tuple[Callable[[Array], Array], ...]
    ascend: tuple[Callable[[Array, Array, Array], Array], ...]
    descend: tuple[Callable[[Array], Array], ...]
    balanced: tuple[Duals, Duals]
    iteration: int = 0
    next_look: int = FIRST_LOOK


@dataclass(frozen=True)
class ADMM:
    """Over-relaxed ADMM for ``minimise q(W) + sum_k g_k(Z_k)`` subject to ``Z_k = K_k W``.

    Each step::

        W <- argmin q(W) + sum_k <U_k, K_k W - Z_k> + rho/2 ||K_k W - Z_k||^2      one linear system
        H <- relaxation * K W + (1 - relaxation) * Z
        Z <- argmin g(Z) - <U, Z> + rho/2 ||H - Z||^2                              row by row
        U <- U + rho (H - Z)

    The last two are one: ``U <- prox of rho g^* at U + rho H``, and Z is what Moreau's identity leaves.

    Parameters
    ----------
    rho : float, optional
        First penalty parameter.  Default: from the spread of the devices' own fits and the size of the duals that hold
        them together.
    relaxation : float
        Over-relaxation in (0, 2).

    Raises
    ------
    ValueError
        If rho or relaxation is out of range.

    Notes
    -----
    Converges for any convex losses and any rho > 0.  Rho follows the iterates, ever more rarely: each change needs a
    new factor of ``Q + rho K^T K``.  That matrix is one for all parameters where the quadratic parts of the losses are
    ``q_i ||w||^2 / 2`` and the rows are differences across edges, as in convex clustering; elsewhere the system is
    factored as a whole if it is small, and solved by conjugate gradients if it is not
    (:class:`~gtvmin.solvers.quadratic_systems.RowSystem`).
    """

    rho: float | None = None
    relaxation: float = 1.8
    requires: ClassVar[frozenset[str]] = frozenset({"terms.prox"})

    def __post_init__(self) -> None:
        if self.rho is not None and not 0 < self.rho < np.inf:
            raise ValueError(f"rho must be a finite number > 0, got {self.rho!r}")
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation must be between 0 and 2, got {self.relaxation!r}: beyond, iterates diverge")

    def init(self, form: StandardForm, start: Point | None) -> ADMMState:
        """Factor the system; the copies start at the rows of W."""
        from .operators import compiled

        W, U = starting_arrays(form, start)
        Z = tuple(term.map.apply(W) for term in form.terms)
        rho = 1.0 / (np.sqrt(2.0) * estimate_scale(form)) if self.rho is None else self.rho
        ascend, descend = zip(*(compiled(term.map) for term in form.terms), strict=True) if form.terms else ((), ())
        system = RowSystem.of(form)
        state = ADMMState(W, Z, U, rho, system, (), ascend, descend, (Z, U))
        _set_rho(form, state, rho)
        return state

    def step(self, form: StandardForm, state: ADMMState) -> ADMMState:
        """One update of W, Z and U, in that order."""
        right = np.zeros_like(state.W)
        for descend, Z, U, penalty in zip(state.descend, state.Z, state.U, state.system.penalties, strict=True):
            right += descend(penalty[:, None] * Z - U)
        state.W = state.system.solve(right, state.W)
        copies, duals = [], []
        for k, prox in enumerate(state.dual_prox):
            penalty, U, Z = state.system.penalties[k], state.U[k], state.Z[k]
            scale = penalty[:, None]
            moved = state.ascend[k](U + (1.0 - self.relaxation) * scale * Z, state.W, self.relaxation * penalty)
            duals.append(prox(moved))
            copies.append((moved - duals[-1]) / scale)
        state.Z, state.U = tuple(copies), tuple(duals)
        state.iteration += 1
        if state.iteration == state.next_look:
            self._look(form, state)
        return state

    def _look(self, form: StandardForm, state: ADMMState) -> None:
        """Move rho by the root of the ratio of dual to primal movement since the last look."""
        primal, dual = 0.0, 0.0
        for k, weight in enumerate(state.system.weights):
            primal += float((weight[:, None] * (state.Z[k] - state.balanced[0][k]) ** 2).sum())
            dual += float(((state.U[k] - state.balanced[1][k]) ** 2 / weight[:, None]).sum())
        state.next_look = int(np.ceil(LOOK_GROWTH * state.iteration))
        state.balanced = state.Z, state.U
        if primal <= 0 or dual <= 0:
            return
        factor = float(np.clip(np.sqrt(np.sqrt(dual / primal) / state.rho), *FACTOR_RANGE))
        if max(factor, 1.0 / factor) >= SMALLEST_FACTOR:
            _set_rho(form, state, factor * state.rho)

    def point(self, form: StandardForm, state: ADMMState) -> Point:
        """Parameters and multipliers: these are in the domains of the conjugates."""
        return Point(state.W, state.U)


def _set_rho(form: StandardForm, state: ADMMState, rho: float) -> None:
    state.rho = rho
    state.system.set_rho(rho)
    state.dual_prox = tuple(
        term.function.conjugate_prox_operator(penalty)
        for term, penalty in zip(form.terms, state.system.penalties, strict=True)
    )
