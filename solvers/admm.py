"""The alternating direction method of multipliers on the copies ``Z_k = K_k W`` of all rows.

S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed optimization and statistical learning via the
alternating direction method of multipliers" (2011), DOI 10.1561/2200000016: Section 3.1.1 (the iteration in its
unscaled form), 3.4.1 (changing rho), 3.4.3 (over-relaxation).  Its use for the network Lasso: D. Hallac, J. Leskovec,
S. Boyd (2015), DOI 10.1145/2783258.2783313, Section 3; here the devices' step is one linear system over all of them,
where theirs splits it by two copies an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from .driver import starting_arrays
from .quadratic_systems import RowSystem, isotropic_curvature
from .standard_form import Array, Duals, Point, StandardForm

if TYPE_CHECKING:
    from .admm_rows import RowStep
    from .extrapolation import Trail

__all__ = ["ADMM"]

FIRST_LOOK = 11
# Extrapolated steps need fewer looks at the penalties.
LOOK_GROWTH, SPARSE_LOOK_GROWTH = 1.5, 2.0
FACTOR_RANGE = (0.1, 10.0)
# How far the penalty of a row may be from rho times its weight, and how small weights may be against their mean.
LOCAL_RANGE = (0.1, 10.0)
SMALLEST_WEIGHT = 1e-6
# Copies of rows are smaller than differences of the devices' own fits, about by this factor.
START_SHARE = 0.15
LEAST_SPREAD = 1e-2
FIT_RIDGE = 1e-3
LONG_STEP = 1e8
# Steps that an extrapolation goes back.
EXTRAPOLATED = 7
TINY = float(np.finfo(float).tiny)


@dataclass(slots=True)
class ADMMState:
    """Parameters W, the rows' arrays V, rho and the rows' weights, penalties, and what belongs to them.

    Multipliers U and copies Z are parts of V, see :class:`~gtvmin.solvers.admm_rows.RowStep`; the trail holds the last
    W and V.  ``right`` is what V asks of the next system, ``K^T (penalty Z - U)``; ``balanced`` holds Z and U at the
    last look at the penalties.
    """

    W: Array
    rho: float
    weights: Duals
    penalties: Duals
    system: RowSystem
    row_steps: tuple[RowStep, ...]
    right: Array
    balanced: tuple[Duals, Duals]
    trail: Trail
    iteration: int = 0
    next_look: int = FIRST_LOOK

    @property
    def multipliers(self) -> Duals:
        """U of every term."""
        return tuple(rows.split(V)[0] for rows, V in zip(self.row_steps, self.trail.last, strict=True))


@dataclass(frozen=True)
class ADMM:
    """Over-relaxed ADMM for ``minimise q(W) + sum_k g_k(Z_k)`` subject to ``Z_k = K_k W``.

    Each step::

        W <- argmin q(W) + sum_r <u_r, (K W - Z)_r> + rho_r/2 ||(K W - Z)_r||^2      one linear system
        H <- relaxation * K W + (1 - relaxation) * Z
        z_r <- argmin g_r(z) - <u_r, z> + rho_r/2 ||h_r - z||^2                      row by row
        u_r <- u_r + rho_r (h_r - z_r)

    The last two are one: ``v_r = u_r + rho_r h_r``, ``u_r <- prox of rho_r g_r^* at v_r``, and z_r is what Moreau's
    identity leaves of v_r.  Where all losses are ``q_i ||w - a_i||^2 / 2`` with q_i > 0, the step after every eighth
    starts from an extrapolated V (:class:`~gtvmin.solvers.extrapolation.Trail`), unless that turns out to be worse.

    Parameters
    ----------
    rho : float
        Factor of the first penalties, which follow from the spread of the devices' own fits and the size of the duals
        that belong to them.
    relaxation : float
        Over-relaxation in (0, 2).

    Raises
    ------
    ValueError
        If rho or relaxation is out of range.

    Notes
    -----
    Each row has a penalty of its own, which suits differences across weak and strong edges: ADMM moves a row's
    multiplier by rho_r times its copy, and the right size of that is the ratio of the two.  Convex clustering of 20,000
    points with Gaussian weights takes 40 iterations to 1e-6 so, and 1,378 with one rho for all edges.  Extrapolation
    takes away a third of the iterations to 1e-8.

    The plain steps converge for any convex losses and any penalties > 0.  These follow the iterates, ever more rarely,
    since each change needs a new factor of ``Q + K^T diag(rho_r) K``.  That matrix is one for all parameters where the
    quadratic parts of the losses are ``q_i ||w||^2 / 2`` and the rows are differences across edges, as in convex
    clustering; elsewhere the system is factored as a whole if it is small, and solved by conjugate gradients if it is
    not (:class:`~gtvmin.solvers.quadratic_systems.RowSystem`).
    """

    rho: float = 1.0
    relaxation: float = 1.8
    requires: ClassVar[frozenset[str]] = frozenset({"terms.prox"})

    def __post_init__(self) -> None:
        if not 0 < self.rho < np.inf:
            raise ValueError(f"rho must be a finite number > 0, got {self.rho!r}")
        if not 0 < self.relaxation < 2:
            raise ValueError(f"relaxation must be between 0 and 2, got {self.relaxation!r}: beyond, iterates diverge")

    def init(self, form: StandardForm, start: Point | None) -> ADMMState:
        """Factor the system; the copies start at the rows of W."""
        from .extrapolation import Trail

        W, U = starting_arrays(form, start)
        Z = tuple(term.map.apply(W) for term in form.terms)
        weights = first_penalties(form)
        penalties = tuple(self.rho * weight for weight in weights)
        system = RowSystem.of(form)
        trail = Trail(form, EXTRAPOLATED, active=system.curved)
        state = ADMMState(W, self.rho, weights, penalties, system, (), W, (Z, U), trail)
        self._prepare(form, state, U, Z)
        return state

    def _prepare(self, form: StandardForm, state: ADMMState, U: Duals, Z: Duals) -> None:
        """Compute what depends on the penalties."""
        from .admm_rows import RowStep

        state.system.set_penalties(state.penalties)
        state.row_steps = tuple(
            RowStep.of(term, penalty, self.relaxation)
            for term, penalty in zip(form.terms, state.penalties, strict=True)
        )
        V = tuple(dual + p[:, None] * copy for dual, p, copy in zip(U, state.penalties, Z, strict=True))
        state.trail.restart(V)
        state.right = _demand(form, state)

    def step(self, form: StandardForm, state: ADMMState) -> ADMMState:
        """One update of W, Z and U, in that order."""
        state.W = state.system.solve(state.right, state.W)
        state.right = np.zeros_like(state.W)
        old, new = state.trail.last, state.trail.following
        for rows, V, out in zip(state.row_steps, old, new, strict=True):
            rows.advance(V, state.W, state.right, out)
        state.iteration += 1
        moved = state.trail.append(state.W)
        if state.iteration == state.next_look:
            self._look(form, state)
        elif moved:
            state.right = _demand(form, state)
        return state

    def _look(self, form: StandardForm, state: ADMMState) -> None:
        """Move rho by the root of the ratio of dual to primal movement, and each row towards the ratio of its own."""
        from .admm_rows import movement

        parts = [rows.split(V) for rows, V in zip(state.row_steps, state.trail.last, strict=True)]
        multipliers, copies = tuple(U for U, _ in parts), tuple(Z for _, Z in parts)
        pairs = zip(state.weights, copies, multipliers, *state.balanced, strict=True)
        primal, dual = np.sum([movement(weight, Z, U, Z0, U0) for weight, Z, U, Z0, U0 in pairs], axis=0)
        growth = SPARSE_LOOK_GROWTH if state.trail.active else LOOK_GROWTH
        state.next_look = int(np.ceil(growth * state.iteration))
        state.balanced = copies, multipliers
        if primal <= 0 and dual <= 0:
            return
        ratio = dual / primal if primal > 0 else np.inf
        state.rho *= float(np.clip(np.sqrt(np.sqrt(ratio) / state.rho), *FACTOR_RANGE))
        penalties = []
        for weight, Z, U in zip(state.weights, copies, multipliers, strict=True):
            low, high = (share * state.rho * weight for share in LOCAL_RANGE)
            size, own = (np.sqrt(np.einsum("ij,ij->i", part, part)) for part in (Z, U))
            least = np.maximum(own / high, TINY)  # the size at which the ratio is the highest
            penalties.append(np.maximum(own / np.maximum(size, least), low))
        state.penalties = tuple(penalties)
        self._prepare(form, state, multipliers, copies)

    def point(self, form: StandardForm, state: ADMMState) -> Point:
        """Parameters and multipliers: these are in the domains of the conjugates."""
        return Point(state.W, state.multipliers)


def _demand(form: StandardForm, state: ADMMState) -> Array:
    """``K^T (penalty Z - U)`` of all terms."""
    total = np.zeros_like(state.W)
    for rows, V in zip(state.row_steps, state.trail.last, strict=True):
        rows.demand(V, total)
    return total


def _own_fits(form: StandardForm) -> tuple[Array, NDArray[np.bool_]]:
    """``argmin q_i(w) + ridge/2 ||w||^2`` of every device, with a small ridge, and which have a loss to fit."""
    curvature = isotropic_curvature(form)
    if curvature is not None:
        labelled = curvature > 0
        scale = (1.0 + FIT_RIDGE) * np.where(labelled, curvature, 1.0)
        return form.quadratic.quadratic()[1] / scale[:, None], labelled
    smoothness = form.quadratic.smoothness
    labelled = smoothness > 0
    step = np.where(labelled, 1.0 / (FIT_RIDGE * np.where(labelled, smoothness, 1.0)), 1.0)
    return form.quadratic.prox(np.zeros((form.n_nodes, form.dim)), step), labelled


def first_penalties(form: StandardForm) -> Duals:
    """Ratio of each row's dual to its copy, about: a subgradient at the devices' own fits over a share of their spread.

    One over the square of the row's size where that tells nothing.
    """
    fits, labelled = _own_fits(form)
    centre = fits[labelled].mean(axis=0) if labelled.any() else 0.0
    fits[~labelled] = centre
    # fits that agree leave it to other terms how far devices will be from each other
    spread, reach = (float(np.sqrt(np.square(part).sum(axis=1).mean())) for part in (fits - centre, fits))
    spread = START_SHARE * max(spread, LEAST_SPREAD * reach)
    penalties = []
    for k, term in enumerate(form.terms):
        size = np.max(term.map.sizes(), axis=0)
        size = np.where(size > 0, size, 1.0)
        rows = term.map.apply(fits)
        rows[~rows.any(axis=1)] = spread  # devices that agree so far tell nothing about their edge
        rows = term.function.project_primal(rows)
        if k < len(form.couplings):
            # a long step turns the update of the duals into a subgradient
            steps = np.full(term.map.n_rows, LONG_STEP)
            dual = np.linalg.norm(term.function.conjugate_prox_operator(steps)(LONG_STEP * rows), axis=1)
        else:
            dual = np.linalg.norm(term.function.subgradient(rows), axis=1)
        usable = 0 < spread < np.inf and bool(dual.any()) and bool(np.isfinite(dual).all())
        ratio = dual / (spread * size) if usable else size**-2.0
        penalties.append(np.maximum(ratio, SMALLEST_WEIGHT * ratio.mean() if len(ratio) else 0.0))
    return tuple(penalties)
