"""One primal-dual step in place: a pass over the devices and one over every term's rows.

Differences across edges under a norm and affine proximal maps of the devices, the plain network Lasso, are compiled;
anything else goes through the maps and functions of the form.  Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from .feature_weights import compiled_norm
from .linear_maps import Array, EdgeDifference
from .local_models import LocalModels
from .operators import compiled
from .ordering import Ordering
from .passes import move_devices, move_in_balls, move_in_boxes, thread_count
from .primal_dual import step_sizes
from .standard_form import Duals, StandardForm, Term

__all__ = ["Sweep"]

Iterate = tuple[Array, Duals]
"""Parameters and duals."""

DevicePass = Callable[[Array, Array, float], Array]
"""``(W, pull, relaxation) -> 2 prox - W``; W moves in place, and the pull is set to zero."""

RowPass = Callable[[Array, Array, Array, float], None]
"""``(U, ahead, pull, relaxation)``: U moves in place, and ``K^T U`` is added to the pull.

The pull has one part for each thread, shape (threads, n_nodes, dim).
"""


@dataclass(frozen=True)
class Sweep:
    """The steps ``tau_ik = omega_k scale / size_i`` and ``sigma_rk = 1 / (omega_k scale size_r)`` ready to be taken.

    Attributes
    ----------
    form : StandardForm
        The problem.
    weights : array (dim,)
        ``omega_k``; all one unless :func:`~gtvmin.solvers.feature_weights.feature_weights` has others.
    ordering : Ordering, optional
        How devices and edges are arranged in iterates, if not as in the form.
    tau, sigma : arrays
        Step sizes of the devices, and of the rows of every term, as they are arranged, for weights of one.
    """

    form: StandardForm
    weights: Array
    ordering: Ordering | None
    tau: Array
    sigma: Duals
    devices: DevicePass
    rows: tuple[RowPass, ...]

    @classmethod
    def of(cls, form: StandardForm, scale: float, weights: Array | None = None) -> Sweep:
        """Find an order, and compute what depends on the scale alone."""
        return cls._make(form, scale, np.ones(form.dim) if weights is None else weights, _ordering(form))

    def rescaled(self, scale: float, weights: Array) -> Sweep:
        """The same with another scale and other weights."""
        return self._make(self.form, scale, weights, self.ordering)

    @classmethod
    def _make(cls, form: StandardForm, scale: float, weights: Array, ordering: Ordering | None) -> Sweep:
        tau, sigma = step_sizes(form, scale)
        rows = tuple(_row_pass(term, step, weights, ordering) for term, step in zip(form.terms, sigma, strict=True))
        devices = _device_pass(form, tau, weights, ordering)
        return cls(form, weights, ordering, tau if ordering is None else tau[ordering.nodes], sigma, devices, rows)

    def arranged(self, iterate: Iterate) -> Iterate:
        """An iterate as it is arranged, from one as the form has it."""
        return iterate if self.ordering is None else self.ordering.arranged(*iterate)

    def restored(self, iterate: Iterate) -> Iterate:
        """An iterate as the form has it."""
        return iterate if self.ordering is None else self.ordering.restored(*iterate)

    def pull(self, U: Duals) -> Array:
        """``sum_k K_k^T U_k``, with parts for all threads."""
        edges = max(term.map.n_rows for term in self.form.terms)
        parts = np.zeros((thread_count(edges, self.form.dim), self.form.n_nodes, self.form.dim))
        parts[0] = self.form.adjoint(U) if self.ordering is None else self.ordering.map.adjoint(U[0])
        return parts

    def advance(self, iterate: Iterate, pull: Array, relaxation: float) -> None:
        """Move an iterate, and its pull, by a multiple of the plain step."""
        W, U = iterate
        ahead = self.devices(W, pull, relaxation)
        for row_pass, dual in zip(self.rows, U, strict=True):
            row_pass(dual, ahead, pull, relaxation)

    def plain_step(self, iterate: Iterate, pull: Array) -> Iterate:
        """Where the plain step leads: a proximal point, whose duals are inside their domains."""
        moved = iterate[0].copy(), tuple(dual.copy() for dual in iterate[1])
        self.advance(moved, pull.copy(), 1.0)
        return moved

    def length(self, a: Iterate, b: Iterate) -> float:
        """Distance of two iterates in the norm of the steps."""
        primal, dual = self.squared_parts(a, b)
        return float(np.sqrt(primal + dual))

    def squared_parts(self, a: Iterate, b: Iterate) -> tuple[float, float]:
        """Squared distance of two iterates in the norm of the steps: primal and dual share."""
        primal = _weighted_distance(a[0], b[0], self.tau, 1.0 / self.weights)
        dual = 0.0
        for x, y, step in zip(a[1], b[1], self.sigma, strict=True):
            # rows of another width than the parameters have equal weights
            weights = self.weights if x.shape[1] == len(self.weights) else np.ones(x.shape[1])
            dual += _weighted_distance(x, y, step, weights)
        return primal, dual

    def parts(self, a: Iterate, b: Iterate) -> tuple[Array, Array]:
        """As :meth:`squared_parts`: of each parameter if these have their own steps, else of all together."""
        if (self.weights == 1.0).all():
            primal, dual = self.squared_parts(a, b)
            return np.array([primal]), np.array([dual])
        of_primal = (np.square(a[0] - b[0]) / self.tau[:, None]).sum(axis=0) / self.weights
        of_dual = (np.square(a[1][0] - b[1][0]) / self.sigma[0][:, None]).sum(axis=0) * self.weights
        return of_primal, of_dual


def _ordering(form: StandardForm) -> Ordering | None:
    """An order, if there is nothing but one compiled pass over edges and one over devices."""
    map = form.terms[0].map
    if len(form.terms) > 1 or compiled_norm(form.terms[0]) is None or not isinstance(map, EdgeDifference):
        return None
    return Ordering.of(map) if "quadratic" in form.quadratic.capabilities else None


def _device_pass(form: StandardForm, tau: Array, weights: Array, ordering: Ordering | None) -> DevicePass:
    affine = form.quadratic.affine_prox(tau) if (weights == 1.0).all() else _weighted_prox(form, tau, weights)
    if affine is not None:
        matrix, offset = affine
        if ordering is not None:
            tau, matrix, offset = (part[ordering.nodes] for part in (tau, matrix, offset))
        return move_devices(tau, np.ascontiguousarray(matrix), np.ascontiguousarray(offset), weights)
    prox = form.quadratic.prox_operator(tau)

    def move(W: Array, pull: Array, relaxation: float) -> Array:
        step = prox(W - tau[:, None] * pull.sum(axis=0)) - W
        ahead = W + 2.0 * step
        W += relaxation * step
        pull[:] = 0.0
        return np.asarray(ahead)

    return move


def _weighted_prox(form: StandardForm, tau: Array, weights: Array) -> tuple[Array, Array]:
    """``(I + tau_i Omega H_i)^{-1}``, and that times ``tau_i Omega b_i``, by way of symmetric matrices."""
    H, b = form.quadratic.quadratic()
    root = np.sqrt(weights)
    matrix, offset = LocalModels(root[:, None] * H * root, root * b).affine_prox(tau)
    return matrix * (root[:, None] / root), root * offset


def _row_pass(term: Term, sigma: Array, weights: Array, ordering: Ordering | None) -> RowPass:
    norm = compiled_norm(term)
    if norm is not None and isinstance(term.map, EdgeDifference):
        radius, p = norm
        map = term.map
        if ordering is not None:
            map, radius = ordering.map, radius[ordering.edges]
        step = float(sigma.max(initial=0.0)) / weights  # one for all edges, whose ends all have size one
        return (move_in_boxes if p == 1.0 else move_in_balls)(map, step, radius)
    ascend, descend = compiled(term.map)
    prox = term.function.conjugate_prox_operator(sigma)

    def move(U: Array, ahead: Array, pull: Array, relaxation: float) -> None:
        U += relaxation * (prox(ascend(U, ahead, sigma)) - U)
        pull[0] += descend(U)

    return move


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _weighted_distance(A: Array, B: Array, step: Array, weights: Array) -> float:
    total = 0.0
    for i in range(len(A)):
        row = 0.0
        for k in range(A.shape[1]):
            row += weights[k] * (A[i, k] - B[i, k]) ** 2
        total += row / step[i]
    return total
