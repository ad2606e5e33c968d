"""Textbook methods in plain NumPy and SciPy for quadratic losses and norms: nothing of the package's solvers.

They are timed without their certificates, which are computed while the watch stands still.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import gtvmin as gtv
from benchmarks.answers import Answer, Array, DoesNotFit, Measure, Proof, Stopwatch, judge, now

__all__ = ["PlainADMM", "PlainPrimalDual", "trajectory"]

FIRST_CHECK, CHECK_GROWTH = 10, 1.25
PATH_CHECK = 20


class Method(Protocol):
    """An iteration for one problem."""

    def __init__(self, problem: gtv.GTVMin) -> None: ...

    def retune(self, alpha: float) -> None:
        """Go on with another strength, from where it is."""

    def step(self) -> None:
        """One iteration."""

    def point(self) -> tuple[Array, Array]:
        """Parameters and flows."""


def quadratic_with_norm(problem: gtv.GTVMin) -> tuple[Array, Array, float]:
    """``Q, b`` of the losses ``1/2 w'Q w - b'w`` and p of the norm, if these are all there is."""
    form, penalty = problem.lowered.form, problem.penalty
    if problem.further or not isinstance(penalty, gtv.Norm) or penalty.p not in (1, 2):
        raise DoesNotFit("the plain methods take one family of edges with the norm l1 or l2")
    if len(form.terms) > len(form.couplings):
        raise DoesNotFit("the plain methods take quadratic losses")
    Q, b = form.quadratic.quadratic()
    return Q, b, penalty.p


def project(U: Array, radius: Array, p: float) -> Array:
    """Onto the balls of the dual norm."""
    if p == 1:
        return np.asarray(np.clip(U, -radius, radius))
    return np.asarray(U / np.maximum(np.linalg.norm(U, axis=1, keepdims=True) / radius, 1.0))


class PlainPrimalDual:
    """Algorithm 1 of arXiv 2010.14159, with its step sizes 1/degree and 1/2."""

    def __init__(self, problem: gtv.GTVMin) -> None:
        Q, self.b, self.p = quadratic_with_norm(problem)
        self.weights = problem.network.weights[:, None]
        self.D = problem.network.incidence()
        self.Dt = self.D.T.tocsr()
        self.degree = np.maximum(problem.network.neighbour_counts, 1)[:, None].astype(float)
        self.inverse = np.linalg.inv(Q + self.degree[:, :, None] * np.eye(problem.dim))
        self.W, self.U = np.zeros_like(self.b), np.zeros((self.D.shape[0], problem.dim))
        self.retune(problem.alpha)

    def retune(self, alpha: float) -> None:
        self.radius = alpha * self.weights

    def step(self) -> None:
        new = np.einsum("ijk,ik->ij", self.inverse, self.degree * self.W - self.Dt @ self.U + self.b)
        self.U = project(self.U + 0.5 * (self.D @ (2 * new - self.W)), self.radius, self.p)
        self.W = new

    def point(self) -> tuple[Array, Array]:
        return self.W, self.U


class PlainADMM:
    """ADMM on ``Z = D W`` with a sparse factor: over-relaxation 1.6, residual balancing at iterations 10, 20, 40, ...

    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed Optimization and Statistical Learning via the
    Alternating Direction Method of Multipliers" (2011), sections 3.1.1, 3.4.1 and 3.4.3.
    """

    def __init__(self, problem: gtv.GTVMin) -> None:
        self.Q, self.b, self.p = quadratic_with_norm(problem)
        self.weights = problem.network.weights[:, None]
        self.D = problem.network.incidence()
        self.Dt = self.D.T.tocsr()
        self.laplacian = (self.Dt @ self.D).tocsc()
        self.rho, self.iteration, self.next_balance = 1.0, 0, 10
        self.W = np.zeros_like(self.b)
        self.Z = np.zeros((self.D.shape[0], problem.dim))
        self.V = np.zeros_like(self.Z)
        self.retune(problem.alpha)
        self.factorise()

    def retune(self, alpha: float) -> None:
        self.radius = alpha * self.weights

    def factorise(self) -> None:
        """One factor for all columns where every Q_i is the same multiple of the identity."""
        dim, first = self.b.shape[1], self.Q[0, 0, 0]
        if np.array_equal(self.Q, np.broadcast_to(first * np.eye(dim), self.Q.shape)):
            self.solve = sparse_factor(self.laplacian * self.rho + first * sparse.identity(len(self.b), format="csc"))
            return
        blocks = sparse.block_diag(list(self.Q), format="csc")
        solve = sparse_factor(blocks + self.rho * sparse.kron(self.laplacian, np.eye(dim), format="csc"))
        self.solve = lambda right: solve(right.ravel()).reshape(right.shape)

    def step(self) -> None:
        self.W = self.solve(self.b + self.rho * (self.Dt @ (self.Z - self.V)))
        before, difference = self.Z, self.D @ self.W
        relaxed = 1.6 * difference - 0.6 * self.Z
        total = relaxed + self.V
        self.V = project(total, self.radius / self.rho, self.p)
        self.Z = total - self.V
        self.iteration += 1
        if self.iteration == self.next_balance:
            self.next_balance *= 2
            dual = self.rho * np.linalg.norm(self.Dt @ (self.Z - before))
            self.balance(float(np.linalg.norm(difference - self.Z)), float(dual))

    def balance(self, primal: float, dual: float) -> None:
        if primal > 10 * dual or dual > 10 * primal:
            factor = float(np.clip(np.sqrt(primal / max(dual, 1e-300)), 0.1, 10.0))
            self.rho, self.V = self.rho * factor, self.V / factor
            self.factorise()

    def point(self) -> tuple[Array, Array]:
        return self.W, self.rho * self.V


def sparse_factor(matrix: Any) -> Callable[[Array], Array]:
    """Solver of a symmetric positive definite system: CHOLMOD by scikit-sparse 0.5 or later, else SuperLU."""
    try:
        from sksparse.cholmod import cho_factor
    except ImportError:
        factor = splu(sparse.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True})
        return lambda right: factor.solve(np.ascontiguousarray(right))
    solve: Callable[[Array], Array] = cho_factor(sparse.csc_matrix(matrix)).solve
    return solve


def trajectory(method: type[Method]) -> Measure:
    """Answers along one run of an iteration; on paths one answer per gap."""

    def measure(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
        if lams is not None:
            yield from along_path(method, problem, lams, gaps, limit)
            return
        watch, check, done = Stopwatch(), FIRST_CHECK, 0
        with watch:
            iteration = method(problem)
        while watch.seconds < limit:
            with watch:
                done += steps(iteration, check - done, limit - watch.seconds)
            W, U = iteration.point()
            yield Answer(watch.seconds, 0.0, (Proof(problem, W, (U,)),))
            check = math.ceil(CHECK_GROWTH * check)

    return measure


def steps(iteration: Method, count: int, limit: float) -> int:
    """As many steps as the time allows; how many those were."""
    began = now()
    for k in range(count):
        iteration.step()
        if now() - began > limit:
            return k + 1
    return count


def along_path(
    method: type[Method], problem: gtv.GTVMin, lams: Array, gaps: tuple[float, ...], limit: float
) -> Iterator[Answer]:
    """Each strength from where the last one ended, until it is certified."""
    for gap in gaps:
        watch, proofs = Stopwatch(), []
        with watch:
            iteration = method(problem.with_alpha(float(lams[0])))
        for lam in lams:
            current, found = problem.with_alpha(float(lam)), False
            iteration.retune(float(lam))
            count = PATH_CHECK
            while not found and watch.seconds < limit:
                with watch:
                    steps(iteration, count, limit - watch.seconds)
                W, U = iteration.point()
                proof = Proof(current, W, (U,))
                found = judge(Answer(0.0, 0.0, (proof,))).gap <= gap
                count = math.ceil((CHECK_GROWTH - 1.0) * count) + PATH_CHECK
            if not found:
                return
            proofs.append(proof)
        yield Answer(watch.seconds, 0.0, tuple(proofs))
