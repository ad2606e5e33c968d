"""Duals of the data points of smooth losses, from the flows of the couplings.

Given ``s_i = -(D^T U)_i``, the conjugate ``L_i^*(s_i) = max_w <s_i, w> - L_i(w)`` is reached where ``grad L_i(w) =
s_i``; the slopes ``phi_r'(x_r^T w)`` there are duals that meet the linear conditions of every device.  Newton's method
finds them for all devices at once, from parameters that are nearly there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .linear_maps import Array, NodeRows
from .standard_form import Duals, StandardForm

__all__ = ["Expansion", "gradient_duals", "hessians", "nearly_reachable_duals", "reachable_duals", "row_duals"]

ROUNDS = 8
HALVINGS = 5
# What is added to the Hessians, relative to their traces, for directions in which a loss is flat.
RIDGE = 1e-9
SUFFICIENT_DECREASE = 1e-4
# Newton's method ends once a step would lower the values by less than this share of them: what the linear model of the
# slopes then misses is far smaller.
ACCURACY = 1e-6
ROUNDING = 1e-13
# What may be left of a device's linear conditions, relative to the flows and slopes that they balance.
BALANCE = 5e-13
REFINEMENTS = 2
# Where flows ask for too much, they are made smaller by these factors in turn.
SHRINKING = (0.7, 0.0)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Losses to second order around parameters: their gradients (n_nodes, dim), and per term slopes and curvatures.

    ``quadratic`` is the gradient of the quadratic part alone.
    """

    form: StandardForm
    quadratic: Array
    gradient: Array
    slopes: tuple[Array, ...]
    bends: tuple[Array, ...]

    @classmethod
    def at(cls, form: StandardForm, W: Array, *, majorant: bool = False) -> Expansion:
        """Second derivatives, or curvatures of quadratic functions above the losses."""
        quadratic = form.quadratic.gradient(W)
        gradient, slopes, bends = quadratic, [], []
        for term in form.rows:
            if not isinstance(term.map, NodeRows):
                raise TypeError(f"rows of {type(term.map).__name__} have no second derivatives here")
            rows = term.map.apply(W)
            slopes.append(term.function.gradient(rows))
            bends.append((term.function.majorant if majorant else term.function.second_derivative)(rows))
            gradient = gradient + term.map.adjoint(slopes[-1])
        return cls(form, quadratic, gradient, tuple(slopes), tuple(bends))

    def hessians(self) -> Array:
        """Second derivatives of every device's loss, (n_nodes, dim, dim)."""
        from .newton_systems import add_weighted_squares

        H = self.form.quadratic.quadratic()[0].copy()
        for term, bend in zip(self.form.rows, self.bends, strict=True):
            assert isinstance(term.map, NodeRows)
            add_weighted_squares(H, term.map.owner, term.map.X, bend[:, 0])
        return H

    def slopes_after(self, move: Array) -> Duals:
        """Slopes at ``W - move`` by their linear model: where it is a Newton step, they meet the linear conditions."""
        return tuple(
            slope - bend * term.map.apply(move)
            for term, slope, bend in zip(self.form.rows, self.slopes, self.bends, strict=True)
        )


def hessians(form: StandardForm, W: Array, *, majorant: bool = False) -> Array:
    """Second derivatives of the devices' losses, or of quadratic functions above them, shape (n_nodes, dim, dim)."""
    return Expansion.at(form, W, majorant=majorant).hessians()


def row_duals(form: StandardForm, W: Array, U: Duals) -> Duals | None:
    """Duals of the rows for given duals of the couplings; None if they are too far to find.

    Parameters
    ----------
    form : StandardForm
        The problem; its rows have second derivatives.
    W : array (n_nodes, dim)
        Parameters to start from.
    U : tuple of arrays
        Duals of the couplings.
    """
    duals, found = _slopes(form, W, U)
    return duals if found.all() else None


def reachable_duals(form: StandardForm, W: Array, U: Duals, slack: float = 0.0, *, shrink: bool = True) -> Duals | None:
    """Duals of all terms, with flows shrunk where they ask devices for more than any parameters can give.

    Slopes of Huber and logistic losses are bounded.  Where a device has no row duals, the flows of its edges are made
    smaller, at last zero: if the loss is bounded below, zero duals will do.  None if not even these are found, or if
    flows must not shrink.  Duals are good enough once a Newton step would raise the bound by no more than the slack.
    """
    for share in (*SHRINKING, None):
        duals, found = _slopes(form, W, U, slack)
        found |= ~_net(form, U).any(axis=1)
        if found.all():
            return (*U, *duals)
        if share is None or not shrink:
            break
        U = tuple(
            np.where(np.all([found[end] for end in term.map.ends], axis=0)[:, None], dual, share * dual)
            for term, dual in zip(form.couplings, U, strict=True)
        )
    return None


def nearly_reachable_duals(form: StandardForm, W: Array, U: Duals) -> Duals:
    """Duals of all terms that meet the linear conditions of most devices; slopes at W at the others, for a repair."""
    duals, found = _slopes(form, W, U)
    at_W = Expansion.at(form, W).slopes
    rows = zip(form.rows, duals, at_W, strict=True)
    return *U, *(np.where(found[term.map.ends[0]][:, None], dual, slope) for term, dual, slope in rows)


def _slopes(form: StandardForm, W: Array, U: Duals, slack: float = 0.0) -> tuple[Duals, NDArray[np.bool_]]:
    """Row duals, zero where none were found, and the devices (n_nodes,) where they were found."""
    duals = tuple(np.zeros((term.map.n_rows, 1)) for term in form.rows)
    found = np.ones(form.n_nodes, dtype=bool)
    if not form.rows:
        return duals, found
    S = _net(form, U)
    size = _throughput(form, U) + np.abs(S).max(axis=1)
    sizes = [term.map.sizes()[0] for term in form.rows]
    owners = np.unique(np.concatenate([term.map.ends[0] for term in form.rows]))
    found[owners] = False
    value: Array | None = None
    system: _Blocks | None = None
    for _ in range(ROUNDS):
        losses = Expansion.at(form, W)
        residual = losses.gradient - S
        # what the last linear model missed, the last Hessians tell: no new ones are needed if that is little
        if system is not None and found[owners].all() and system.decrease(residual) <= slack:
            break
        system = _Blocks(losses.hessians())
        move = system.solve(residual)
        decrease = np.einsum("ij,ij->i", residual, move)
        trial_duals = losses.slopes_after(move)
        balanced = np.abs(system.left(residual, move)).max(axis=1)
        through = size + np.abs(losses.quadratic).max(axis=1)
        for term, dual, row_size in zip(form.rows, trial_duals, sizes, strict=True):
            through += np.bincount(term.map.ends[0], row_size * np.abs(dual[:, 0]), form.n_nodes)
        balanced = balanced <= BALANCE * through
        for term, dual in zip(form.rows, trial_duals, strict=True):
            balanced[term.map.ends[0][term.function.dual_gauge(dual) > 1.0]] = False
        for term, kept, dual in zip(form.rows, duals, trial_duals, strict=True):
            better = balanced[term.map.ends[0]]
            kept[better] = dual[better]
        found |= balanced
        done = balanced[owners].all()
        if done and decrease.sum() <= slack:
            break
        if value is None:
            value = form.local.value(W) - np.einsum("ij,ij->i", S, W)
        if done and decrease.sum() <= ACCURACY * np.abs(value).sum():
            break
        W, value = _search(form, W, S, value, move, decrease)
    return duals, found


def _search(form: StandardForm, W: Array, S: Array, value: Array, move: Array, decrease: Array) -> tuple[Array, Array]:
    """Parameters of every device some way along its move, and the values of ``L_i(w) - <s_i, w>`` there."""
    length = np.ones(form.n_nodes)
    for _ in range(HALVINGS):
        trial = W - length[:, None] * move
        there = form.local.value(trial) - np.einsum("ij,ij->i", S, trial)
        poor = there > value - SUFFICIENT_DECREASE * length * decrease + ROUNDING * np.abs(value)
        if not poor.any():
            break
        length[poor] *= 0.3
    return trial, there


def gradient_duals(form: StandardForm, W: Array) -> Duals:
    """Gradients of smooth couplings at W, and the duals of the losses' data points that go with them, if found."""
    U = tuple(term.function.gradient(term.map.apply(W)) for term in form.couplings)
    smooth = all(
        "second_derivative" in term.function.capabilities and isinstance(term.map, NodeRows) for term in form.rows
    )
    rows = row_duals(form, W, U) if smooth else form.local.split(_net(form, U))
    return (*U, *(rows or ()))


def _net(form: StandardForm, U: Duals) -> Array:
    """What the couplings' duals leave for every device's loss: ``-(sum_k K_k^T U_k)_i``."""
    net = np.zeros((form.n_nodes, form.dim))
    for term, dual in zip(form.couplings, U, strict=True):
        net -= term.map.adjoint(dual)
    return net


def _throughput(form: StandardForm, U: Duals) -> Array:
    """Size of the flows through every device, (n_nodes,)."""
    total = np.zeros(form.n_nodes)
    for term, dual in zip(form.couplings, U, strict=True):
        size = np.abs(dual).max(axis=1)
        for end in term.map.ends:
            total += np.bincount(end, size, form.n_nodes)
    return total


class _Blocks:
    """The Hessians of all devices and their factors; the ridge that flat directions need is refined away."""

    def __init__(self, H: Array) -> None:
        from .newton_systems import factor_blocks

        self.H, d = H, H.shape[1]
        trace = np.einsum("ijj->i", H)
        self.factors = H.copy()
        self.factors[:, range(d), range(d)] += np.where(trace > 0, RIDGE * trace, 1.0)[:, None]
        factor_blocks(self.factors)

    def left(self, residual: Array, move: Array) -> Array:
        """``r_i - H_i m_i``."""
        from .operators import multiply_blocks

        return residual - multiply_blocks(self.H, move, np.zeros_like(move))

    def solve(self, residual: Array) -> Array:
        """``H_i^{-1} r_i``."""
        from .newton_systems import solve_blocks

        move = solve_blocks(self.factors, residual)
        for _ in range(REFINEMENTS):
            move += solve_blocks(self.factors, self.left(residual, move))
        return np.asarray(move)

    def decrease(self, residual: Array) -> float:
        """About what a Newton step would lower the values by, if the Hessians hardly changed."""
        from .newton_systems import solve_blocks

        return float(np.einsum("ij,ij->", residual, solve_blocks(self.factors, residual)))
