"""Convex functions as cone programs: prox, conjugate and domain of whatever CVXPY can express."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from gtvmin.solvers.standard_form import Array

__all__ = ["Cone", "ConeProgram"]

Cone = tuple[str, Any]
"""Name of a cone in Clarabel and its size or exponents, ``None`` if it has neither."""

# Tried in turn: asked for more than it can reach, the solver may stall far from what it reaches when asked for less.
TOLERANCES = (1e-13, 1e-11, 1e-9)
RANK_TOLERANCE = 1e-10
# Ends of the solver that leave a point; how good it is, its residuals tell.
WITH_POINT = {"Solved", "AlmostSolved", "InsufficientProgress"}
IMPOSSIBLE = {"DualInfeasible", "PrimalInfeasible"}


@dataclass(frozen=True, eq=False)
class ConeProgram:
    """``f(w) = min_x x^T P x / 2 + q^T x + offset`` with ``b - A x`` in a product of cones, where w is a part of x.

    Attributes
    ----------
    P, A : sparse arrays (k, k), (rows, k)
        Quadratic objective, and the cones' argument.
    q, b : arrays (k,), (rows,)
        Linear objective, and the cones' argument at zero.
    cones : tuple of Cone
        The cones, in the order of the rows.
    columns : int array (dim,)
        Where w stands in x.
    offset : float
        A constant.
    """

    P: sparse.csc_array
    A: sparse.csc_array
    q: Array
    b: Array
    cones: tuple[Cone, ...]
    columns: NDArray[np.int64]
    offset: float

    @classmethod
    def of(cls, objective: Any, constraints: list[Any], w: Any) -> ConeProgram:
        """The program to which CVXPY brings ``objective`` under ``constraints``, a function of the variable w."""
        import cvxpy as cp

        data, _, inverse = cp.Problem(cp.Minimize(objective), constraints).get_problem_data(cp.CLARABEL)
        k = len(data["c"])
        P = sparse.csc_array(data["P"]) if data.get("P") is not None else sparse.csc_array((k, k))
        first = int(data["param_prob"].var_id_to_col[w.id])
        columns = np.arange(first, first + w.size)
        offset = float(inverse[-1][cp.settings.OFFSET])
        return cls(P, sparse.csc_array(data["A"]), data["c"], data["b"], _cones(data["dims"]), columns, offset)

    @property
    def dim(self) -> int:
        """Length of w."""
        return len(self.columns)

    @cached_property
    def _upper(self) -> sparse.csc_array:
        return _upper(self.P)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all numbers."""
        digest = hashlib.sha256(repr((self.cones, self.columns.tolist(), self.offset)).encode())
        for matrix in (self.P, self.A):
            ordered = sparse.coo_array(matrix)
            ordered.sum_duplicates()
            for part in (ordered.row, ordered.col, ordered.data):
                digest.update(np.asarray(part, dtype="<f8").tobytes())
        for vector in (self.q, self.b):
            digest.update(np.asarray(vector, dtype="<f8").tobytes())
        return digest.hexdigest()

    def _solve(self, P: sparse.csc_array, q: Array) -> Any:
        """Clarabel's solution with another objective, of whose P the upper triangle is given."""
        import clarabel

        kinds = [getattr(clarabel, name) for name, _ in self.cones]
        cones = [kind() if size is None else kind(*size) for kind, (_, size) in zip(kinds, self.cones, strict=True)]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        for tolerance in TOLERANCES:
            settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
            solution = clarabel.DefaultSolver(P, q, self.A, self.b, cones, settings).solve()
            if str(solution.status) in {"Solved", *IMPOSSIBLE}:
                break
        return solution

    def prox(self, v: Array, step: float) -> Array:
        """``argmin_w f(w) + ||w - v||^2 / (2 step)``; see :meth:`prox_operator`."""
        return self.prox_operator(step)(v)

    def prox_operator(self, step: float) -> Callable[[Array], Array]:
        """Return ``v -> prox(v, step)``, which raises a ValueError if f is infinite everywhere."""
        factor = min(1.0, step)  # so that neither part of the objective is large
        pull = factor / step
        diagonal = np.zeros(len(self.q))
        diagonal[self.columns] = pull
        P = _upper(factor * self.P + sparse.diags_array(diagonal))

        def prox(v: Array) -> Array:
            q = factor * self.q
            q[self.columns] -= pull * v
            solution = self._solve(P, q)
            if str(solution.status) not in WITH_POINT:
                raise ValueError(f"no minimiser was found: the solver ended with the status {solution.status}")
            return np.asarray(solution.x)[self.columns]

        return prox

    def conjugate(self, s: Array) -> float:
        """Upper estimate of ``sup_w <s, w> - f(w)``: minus the objective of the solver's dual point.

        What this point misses of the dual's equations is charged by the size of the primal point.
        """
        q = self.q.copy()
        q[self.columns] -= s
        solution = self._solve(self._upper, q)
        if str(solution.status) not in WITH_POINT:
            return np.inf
        x, z = np.asarray(solution.x), np.asarray(solution.z)
        curved = self.P @ x
        residual = curved + self.A.T @ z + q
        bound = 0.5 * float(x @ curved) + float(self.b @ z) + float(np.linalg.norm(residual) * np.linalg.norm(x))
        return max(bound, -float(0.5 * x @ curved + q @ x)) - self.offset

    @cached_property
    def recession(self) -> ConeProgram:
        """The recession function ``lim f(t w) / t``: the support function of the conjugate's domain."""
        used = sparse.csr_array(self.P)[np.flatnonzero(np.diff(sparse.csr_array(self.P).indptr))]
        A = sparse.csc_array(sparse.vstack([self.A, used]))
        cones = (*self.cones, ("ZeroConeT", (used.shape[0],))) if used.shape[0] else self.cones
        none = sparse.csc_array(self.P.shape)
        return ConeProgram(none, A, self.q, np.zeros(A.shape[0]), cones, self.columns, 0.0)

    @cached_property
    def domain(self) -> ConeProgram:
        """The indicator of where f is finite."""
        none = sparse.csc_array(self.P.shape)
        return ConeProgram(none, self.A, np.zeros_like(self.q), self.b, self.cones, self.columns, 0.0)

    def gauge(self, s: Array) -> float:
        """Least ``t >= 0`` with s in t times the closure of the conjugate's domain, if that contains zero.

        The polar's support function: ``sup <s, w>`` over the w at which the recession function is at most one.
        """
        size = float(np.linalg.norm(s))
        if size == 0:
            return 0.0
        ray = self.recession
        level = sparse.csc_array(sparse.vstack([ray.A, sparse.csc_array(ray.q[None, :])]))
        cones = (*ray.cones, ("NonnegativeConeT", (1,)))
        unit = ConeProgram(ray.P, level, ray.q, np.append(ray.b, 1.0), cones, self.columns, 0.0)
        q = np.zeros_like(self.q)
        q[self.columns] = -s / size
        solution = unit._solve(unit._upper, q)
        return max(-float(solution.obj_val), 0.0) * size if str(solution.status) in WITH_POINT else np.inf

    def nearest_slope(self, s: Array) -> Array:
        """Projection of s onto the closure of the conjugate's domain: s less the prox of its support function."""
        return np.asarray(s - self.recession.prox(s, 1.0))

    @cached_property
    def flat(self) -> tuple[Array, Array]:
        """Orthonormal directions (dim, k) along which f is affine, and its slopes (k,)."""
        system = sparse.vstack([self.A, self.P]).toarray()
        null = linalg.null_space(system, rcond=RANK_TOLERANCE)
        left, sizes, right = np.linalg.svd(null[self.columns], full_matrices=False)
        kept = sizes > RANK_TOLERANCE
        return left[:, kept], (self.q @ null @ right[kept].T) / sizes[kept]


def _upper(P: sparse.sparray) -> sparse.csc_array:
    return sparse.csc_array(sparse.triu(P))


def _cones(dims: Any) -> tuple[Cone, ...]:
    """CVXPY's list of cones in the names of Clarabel."""
    cones: list[Cone] = [("ZeroConeT", (dims.zero,))] if dims.zero else []
    cones += [("NonnegativeConeT", (dims.nonneg,))] if dims.nonneg else []
    cones += [("SecondOrderConeT", (size,)) for size in dims.soc]
    cones += [("PSDTriangleConeT", (size,)) for size in dims.psd]
    cones += [("ExponentialConeT", None)] * dims.exp
    cones += [("PowerConeT", (exponent,)) for exponent in dims.p3d]
    cones += [("GenPowerConeT", (exponents, 1)) for exponents in getattr(dims, "pnd", [])]
    return tuple((name, None if size is None else tuple(_plain(part) for part in size)) for name, size in cones)


def _plain(value: Any) -> Any:
    """Numbers and lists without NumPy's types, which print differently from version to version."""
    return np.asarray(value).tolist()
