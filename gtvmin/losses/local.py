"""Whole losses of all devices: quadratic part and rows in one block function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.ball import BallBlocks
from gtvmin.losses.proximal_point import row_duals
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.row_systems import RowSystem, gather_rows, known
from gtvmin.solvers.standard_form import Array, BlockFunction, Duals, Term

if TYPE_CHECKING:
    from gtvmin.losses.cone_program import ConeProgram

__all__ = ["LocalBlocks"]

Programs = Mapping[int, Callable[[], "ConeProgram"]]
"""The whole losses of some devices as cone programs."""


class LocalBlocks(BlockFunction):
    """``f_i(w) = q_i(w) + sum_r phi_r((K w)_r)`` over the rows of device i.

    The prox is that of the quadratic part where a device has no rows.  Otherwise the Hessian of the quadratic and
    proximal parts is the metric in which the rows are minimised, to rounding, by semismooth Newton steps; coordinates
    that meet in no row and no square are treated one by one.  The conjugate takes the same steps without the proximal
    part: see :mod:`gtvmin.losses.proximal_point`.

    Parameters
    ----------
    quadratic : QuadraticBlocks
        The least-squares and linear part.
    rows : tuple of Term
        The rest.
    programs : mapping, optional
        For each device with a part that no formula gives, a function that makes a cone program of its whole loss.
        Its prox and conjugate are then as accurate as the interior-point method that solves it.
    """

    def __init__(self, quadratic: QuadraticBlocks, rows: tuple[Term, ...], programs: Programs | None = None) -> None:
        self.quadratic_part, self.rows = quadratic, rows
        self.n_rows, self.dim = quadratic.n_rows, quadratic.dim
        self._program_makers = dict(programs or {})
        self.capabilities = frozenset({"prox", "conjugate"})  # type: ignore[misc]
        if all("gradient" in term.function.capabilities for term in rows):
            self.capabilities = self.capabilities | {"gradient"}  # type: ignore[misc]

    @property
    def strong_convexity(self) -> Array:
        """That of the quadratic part."""
        return self.quadratic_part.strong_convexity

    @property
    def smoothness(self) -> Array:
        """Largest eigenvalue of the quadratic part plus the rows' curvatures times their squared sizes."""
        return np.asarray(
            self.quadratic_part.smoothness + sum(term.map.at_nodes(term.function.smoothness) for term in self.rows)
        )

    def _at_devices(self, values: list[Array]) -> Array:
        """Sum a number per row of every term over the rows of each device."""
        total = np.zeros(self.n_rows)
        for term, part in zip(self.rows, values, strict=True):
            np.add.at(total, term.map.ends[0], part)
        return total

    def value(self, W: Array) -> Array:
        """Sum of the parts."""
        rows = self._at_devices([term.function.value(term.evaluate(W)[0]) for term in self.rows])
        return np.asarray(self.quadratic_part.value(W) + rows)

    def gradient(self, W: Array) -> Array:
        """Sum of the parts, where all are smooth."""
        total = self.quadratic_part.gradient(W)
        for term in self.rows:
            total = total + term.map.adjoint(term.function.gradient(term.map.apply(W)))
        return np.asarray(total)

    @cached_property
    def _programs(self) -> dict[int, ConeProgram]:
        return {device: make() for device, make in self._program_makers.items()}

    @cached_property
    def systems(self) -> tuple[tuple[NDArray[np.int64], RowSystem], ...]:
        """Devices with rows, as wholes or coordinate by coordinate, and the systems of their rows."""
        for term in self.rows:
            if not known(type(term.function)) and not set(term.map.ends[0].tolist()) <= self._program_makers.keys():
                raise TypeError(f"{type(term.function).__name__} has no formula here: its devices need cone programs")
        rows = gather_rows(self.rows, self.n_rows, self.dim)
        meet = np.any(self.quadratic_part.gram * (1.0 - np.eye(self.dim)), axis=(1, 2))
        meet[rows.owner[rows.entangled]] = True
        used = np.bincount(rows.owner, minlength=self.n_rows) > 0
        used[list(self._program_makers)] = False
        wholes, apart = np.flatnonzero(used & meet), np.flatnonzero(used & ~meet)
        columns = np.arange(self.dim)
        systems = []
        if len(wholes):
            systems.append((wholes, RowSystem(wholes[:, None] * self.dim + columns, rows.of(wholes), self.dim)))
        if len(apart):
            members = (apart[:, None] * self.dim + columns).reshape(-1, 1)
            systems.append((apart, RowSystem(members, rows.of(apart).by_coordinate(), self.dim)))
        return tuple(systems)

    def roots(self, devices: NDArray[np.int64], system: RowSystem, step: Array) -> Array:
        """Square roots of the inverse Hessian of the quadratic and proximal parts, for the units of a system."""
        if system.members.shape[1] == self.dim:
            return self.quadratic_part.metric_roots(step)[devices]
        curvature = np.einsum("njj->nj", self.quadratic_part.gram)[devices] + 1.0 / step[devices, None]
        return np.asarray((1.0 / np.sqrt(curvature)).reshape(-1, 1, 1))

    def push(self, devices: NDArray[np.int64], system: RowSystem, roots: Array, W: Array, slopes: Array) -> Array:
        """Roots times ``slopes`` less the gradient of the quadratic part, for the units of a system."""
        if system.members.shape[1] == self.dim:
            of_quadratic = self.quadratic_part.root_gradient(devices, W[devices], roots)
            return np.asarray(np.einsum("nkj,nj->nk", roots, slopes[devices]) - of_quadratic)
        return np.asarray(roots[:, 0] * (slopes - self.quadratic_part.gradient(W)).ravel()[system.members])

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Prox of the quadratic part, moved to where the rows are at rest too."""
        of_quadratic = self.quadratic_part.prox_operator(step)
        solvers = []
        for devices, system in self.systems:
            roots = self.roots(devices, system, step)
            solvers.append((devices, system, roots, system.solver(roots)))
        programs = [(i, program, program.prox_operator(float(step[i]))) for i, program in self._programs.items()]

        def prox(V: Array) -> Array:
            W = of_quadratic(V)
            for devices, system, roots, solve in solvers:
                duals = np.zeros(len(system.rows.owner))
                # the second time the prox of the quadratic part, which may be far away, costs no digits
                for _ in range(2):
                    g = self.push(devices, system, roots, W, (V - W) / step[:, None])
                    W, duals = solve(W, duals, g)
            self._put_into_balls(W)
            for i, program, solve_program in programs:
                W[i, : program.dim] = solve_program(V[i, : program.dim])
            return W

        return prox

    def _put_into_balls(self, W: Array) -> None:
        """Move parameters into their balls, from where rounding left them close by."""
        for term in self.rows:
            if isinstance(term.function, BallBlocks):
                W[term.map.ends[0]] = term.function.project_primal(term.map.apply(W))

    def conjugate(self, S: Array) -> Array:
        """Value of the duals of the best split of S between the parts: an upper bound, up to rounding."""
        duals, rest, inside = row_duals(self, S)
        rows = self._at_devices([t.function.conjugate(p) for t, p in zip(self.rows, duals, strict=True)])
        value = np.where(inside, self.quadratic_part.conjugate(rest) + rows, np.inf)
        for i, program in self._programs.items():
            value[i] = program.conjugate(S[i, : program.dim])
        return value

    def split(self, S: Array) -> Duals | None:
        """Duals of the rows at the best split of S between the parts; None if there is none.

        That is so if devices are cone programs, or if numbers are beyond the range in which it can be found.
        """
        if self._program_makers:
            return None
        try:
            return tuple(row_duals(self, S)[0])
        except (ArithmeticError, ValueError):  # constraints that contradict each other to rounding, overflow
            return None

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """Sum of the parts', each at least zero, at the best split of S between them."""
        duals, rest, inside = row_duals(self, S)
        rows = [term.function.fenchel_young(term.evaluate(W)[0], p) for term, p in zip(self.rows, duals, strict=True)]
        terms = self.quadratic_part.fenchel_young(W, rest) + self._at_devices(rows)
        terms = np.where(inside, terms, np.inf)
        for i, program in self._programs.items():
            pair = float(self.value(W)[i]) + program.conjugate(S[i, : program.dim]) - float(W[i] @ S[i])
            terms[i] = max(pair, 0.0)
        return terms

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Sum of the parts."""
        import cvxpy as cp

        total = self.quadratic_part.to_cvxpy(W, unit, factor)
        for term in self.rows:
            shape = (term.map.n_rows, term.map.width)
            Z = cp.reshape(term.map.matrix() @ cp.vec(W, order="C"), shape, order="C")
            total += term.function.to_cvxpy(Z, unit, factor)
        return total
