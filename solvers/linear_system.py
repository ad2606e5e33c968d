"""Quadratic coupling of quadratic losses: one linear system.

The optimality condition of ``sum_i w_i^T Q_i w_i / 2 - b_i^T w_i + sum_e a_e ||w_head - w_tail||^2`` is
``(blockdiag(Q_i) + 2 D^T diag(a) D) w = b``: equation (3.21) of A. Jung, "Federated Learning: From Theory to Practice"
(2025), in the package's scaling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from .driver import starting_arrays
from .standard_form import Array, Duals, Point, StandardForm, dot
from .system_solvers import Solve, direct_solve, iterative_solve

__all__ = ["LinearSystem"]

# A sparse factor of a system this small is cheap even where it fills in.
DIRECT_LIMIT = 3000
# Share of the residual that one correction leaves.
ACCURACY = 1e-8
# Corrections of the first step, where certificates ask for flows that obey linear conditions to the last digits.
CORRECTIONS = 4
EPS = float(np.finfo(float).eps)


@dataclass(slots=True)
class LinearSystemState:
    """Parameters W, flows U, the residual ``R = b - Q W - D^T U``, its rounding, and whether no more is left of it."""

    W: Array
    U: Duals
    R: Array
    solve: Solve
    corrections: int
    rounding: float = 0.0
    finished: bool = False


@dataclass(frozen=True)
class LinearSystem:
    """Solve the optimality condition by a sparse factor, or by conjugate gradients with multigrid where it pays.

    Parameters
    ----------
    strategy : {"auto", "direct", "cg"}
        ``"auto"`` factors systems of up to 3,000 unknowns and iterates on larger ones.  Conjugate gradients start with
        a Jacobi preconditioner and change to aggregation multigrid when their rate says that it would arrive earlier.

    Notes
    -----
    Every step is one correction: ``K Z = R`` is solved to eight digits, W moves by Z and the flows by ``2 a_e (Z_head -
    Z_tail)``.  The residual is taken from the flows, not from ``K W``: where alpha is large neighbours agree in most
    digits, and flows computed from their differences would lose as many.
    """

    strategy: Literal["auto", "direct", "cg"] = "auto"
    requires: ClassVar[frozenset[str]] = frozenset({"local.quadratic", "couplings.quadratic"})

    def __post_init__(self) -> None:
        if self.strategy not in ("auto", "direct", "cg"):
            raise ValueError(f"strategy must be 'auto', 'direct' or 'cg', got {self.strategy!r}")

    def init(self, form: StandardForm, start: Point | None) -> LinearSystemState:
        """Factor the matrix, or prepare to iterate."""
        W, _ = starting_arrays(form, start)
        strengths = [term.function.quadratic()[0][:, 0, 0] for term in form.couplings]  # 2 a_e
        direct = self.strategy == "direct" or (self.strategy == "auto" and W.size <= DIRECT_LIMIT)
        solve = (direct_solve if direct else iterative_solve)(form, form.quadratic.quadratic()[0], strengths)
        U = _flows(form, W)
        corrections = 1 if not direct and form.quadratic.full_span.all() else CORRECTIONS
        state = LinearSystemState(W, U, W, solve, corrections)
        _update_residual(form, state)
        return state

    def step(self, form: StandardForm, state: LinearSystemState) -> LinearSystemState:
        """One correction; at first several, where they are cheap or losses leave directions to the flows alone."""
        for _ in range(state.corrections):
            if not state.finished:
                size = dot(state.R, state.R)
                Z = state.solve(state.R, max(ACCURACY * np.sqrt(size), state.rounding))
                state.W = state.W + Z
                state.U = tuple(dual + move for dual, move in zip(state.U, _flows(form, Z), strict=True))
                _update_residual(form, state)
                state.finished = state.finished or dot(state.R, state.R) > 0.25 * size
        state.corrections = 1
        return state

    def point(self, form: StandardForm, state: LinearSystemState) -> Point:
        """Parameters and flows."""
        return Point(state.W, state.U)


def _flows(form: StandardForm, W: Array) -> Duals:
    """The couplings' gradients."""
    return tuple(term.function.gradient(term.map.apply(W)) for term in form.couplings)


def _update_residual(form: StandardForm, state: LinearSystemState) -> None:
    """Residual, and whether it is no more than the rounding of its parts."""
    Q, b = form.quadratic.quadratic()
    image = np.matmul(Q, state.W[:, :, None])[:, :, 0]
    # without the rounding in directions that a loss does not see
    gradient = form.quadratic.project_dual(image - b)
    state.R = -(gradient + form.adjoint(state.U))
    parts = (b, image, *state.U)
    state.rounding = EPS * float(np.sqrt(sum(dot(part, part) for part in parts)))
    state.finished = dot(state.R, state.R) <= (2.0 * state.rounding) ** 2
