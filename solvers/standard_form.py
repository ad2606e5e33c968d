"""The arrays that every solver sees: ``minimise q(W) + sum_k g_k(K_k W)``.

Row i of a parameter matrix ``W`` (n_nodes, dim) belongs to device i.  The quadratic parts of the losses are q; every
other function acts on the rows of a linear map: the differences across edges, ``(D W)_e = w_head(e) - w_tail(e)``, or
the predictions of a device's data points.  Each row has its own dual variable.  Nothing here knows labels, losses by
name, or files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .linear_maps import Array, EdgeDifference, LinearMap

__all__ = ["Array", "Assessment", "BlockFunction", "Duals", "Point", "StandardForm", "Term", "dot"]

Duals = tuple[Array, ...]
"""Dual variables: one array per term, of the shape of its rows."""


def dot(a: Array, b: Array) -> float:
    """Inner product of two matrices, without BLAS: its threads stall where cores are busy, and vary the rounding."""
    return float(np.einsum("ij,ij->", a, b))


ALL_CAPABILITIES = frozenset({"gradient", "prox", "conjugate", "quadratic", "second_derivative", "prox_derivative"})


class BlockFunction:
    """A separable convex function ``f(W) = sum_i f_i(w_i)``, one row a block, evaluated without a loop over rows.

    A subclass implements what it can and names it in ``capabilities``; a solver names what it needs, and the
    driver refuses a pair that does not fit before any work starts.

    Attributes
    ----------
    n_rows, dim : int
        Number of blocks and length of each.
    capabilities : frozenset of str
        Subset of ``{"gradient", "prox", "conjugate", "quadratic", "second_derivative", "prox_derivative"}``.
    strong_convexity : array (n_rows,)
        ``mu_i >= 0`` such that ``f_i - mu_i/2 ||.||^2`` is convex.
    smoothness : array (n_rows,)
        Lipschitz constant of the gradient, ``inf`` where there is none.
    restricted : bool
        Whether some ``f_i`` is infinite somewhere; then ``project_primal`` must be there.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    n_rows: int
    dim: int
    restricted: bool = False

    @property
    def strong_convexity(self) -> Array:
        """Strong convexity constant of each block; zero unless a subclass knows better."""
        return np.zeros(self.n_rows)

    @property
    def smoothness(self) -> Array:
        """Smoothness constant of each block; infinite unless a subclass knows better."""
        return np.full(self.n_rows, np.inf)

    @property
    def norm(self) -> tuple[Array, float] | None:
        """Strengths ``a_i`` (n_rows,) and p in {1, 2, inf}, if ``f_i = a_i ||.||_p``; else None."""
        return None

    @property
    def full_span(self) -> NDArray[np.bool_]:
        """Whether the domain of ``f_i^*`` spans the whole space, per block (n_rows,)."""
        return np.ones(self.n_rows, dtype=bool)

    def value(self, W: Array) -> Array:
        """Values ``f_i(w_i)``, shape (n_rows,)."""
        raise NotImplementedError

    def project_primal(self, W: Array) -> Array:
        """Orthogonal projection of every row onto the domain of ``f_i``."""
        return W

    def gradient(self, W: Array) -> Array:
        """Gradients, shape (n_rows, dim)."""
        raise NotImplementedError

    def subgradient(self, W: Array) -> Array:
        """One subgradient of every block: the gradient where there is one."""
        return self.gradient(W)

    def second_derivative(self, W: Array) -> Array:
        """Second derivatives of functions of one number, one of the generalised ones at a kink of the slope."""
        raise NotImplementedError

    def majorant(self, W: Array) -> Array:
        """Curvatures for a cautious Newton step: larger ones, where second derivatives vanish too soon to trust."""
        return self.second_derivative(W)

    def prox(self, V: Array, step: Array) -> Array:
        """``argmin_w f_i(w) + ||w - v_i||^2 / (2 step_i)`` for every row."""
        return self.prox_operator(step)(V)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Return ``V -> prox(V, step)`` with what depends on the steps alone computed once."""
        raise NotImplementedError

    def affine_prox(self, step: Array) -> tuple[Array, Array] | None:
        """Matrices ``M_i`` and vectors ``o_i`` with ``prox(V, step)_i = M_i v_i + o_i``; None for any other prox."""
        return None

    def conjugate(self, S: Array) -> Array:
        """Conjugate values ``f_i^*(s_i)``, ``inf`` outside the domain, shape (n_rows,)."""
        raise NotImplementedError

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Return ``V -> prox_{step f^*}(V)``, by Moreau's identity unless a subclass has it in closed form."""
        scale = step[:, None]
        inner = self.prox_operator(1.0 / step)
        return lambda V: V - scale * inner(V / scale)

    def conjugate_prox_derivative(self, V: Array, step: Array) -> tuple[Array, Array]:
        """A generalised derivative of ``prox_{step f^*}`` at V, ``diag(a_i) - n_i n_i^T`` for every row: a and n."""
        raise NotImplementedError

    def span_conjugate(self, S: Array) -> Array:
        """:meth:`conjugate` at rows that :meth:`project_dual` has put into the span."""
        return self.conjugate(S)

    def span_fenchel_young(self, W: Array, S: Array) -> Array:
        """:meth:`fenchel_young` with rows that :meth:`project_dual` has put into the span."""
        return self.fenchel_young(W, S)

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """``f_i(w_i) + f_i^*(s_i) - <s_i, w_i>``, each at least zero.

        Subclasses override it where the sum can be had without cancellation.
        """
        inner = np.einsum("ij,ij->i", W, S)
        return np.asarray(np.maximum(self.value(W) + self.conjugate(S) - inner, 0.0))

    def rounding(self, W: Array, S: Array) -> Array:
        """Estimate of the floating-point error of ``fenchel_young(W, S)``, shape (n_rows,)."""
        size = np.abs(self.value(W)) + np.abs(W * S).sum(axis=1)
        return np.asarray(4.0 * (self.dim + 4) * np.finfo(float).eps * size)

    def value_rounding(self, W: Array) -> Array:
        """Estimate of the floating-point error of ``value(W)``, shape (n_rows,)."""
        return np.asarray(4.0 * (self.dim + 4) * np.finfo(float).eps * np.abs(self.value(W)))

    def sensitivity(self, W: Array, S: Array, error: Array) -> Array:
        """How much ``fenchel_young(W, S)`` changes if S is off by an error of the same shape; zero where unknown."""
        return np.zeros(self.n_rows)

    def linear_rounding(self, S: Array) -> Array:
        """By how much the linear part of each block may be off where S is a gradient, (n_rows,)."""
        return np.zeros(self.n_rows)

    def conjugate_gradient(self, S: Array) -> Array:
        """Parameters at which S is a gradient, and zero in directions that S does not determine."""
        return np.zeros_like(S)

    def complement(self, V: Array) -> Array:
        """Component of every row in which ``f_i`` is an affine function: off the span of the domain of ``f_i^*``."""
        return np.zeros_like(V)

    def span_projections(self, rows: NDArray[np.int64]) -> Array:
        """Matrices of the orthogonal projections onto the linear spans for some rows, (k, dim, dim)."""
        return np.broadcast_to(np.eye(self.dim), (len(rows), self.dim, self.dim))

    def split(self, S: Array) -> Duals | None:
        """For a sum of parts: duals of its rows that add up to S and at which the conjugate is reached, if known."""
        return None

    def project_dual(self, S: Array) -> Array:
        """Orthogonal projection of every row onto the affine span of the domain of ``f_i^*``."""
        return S - self.complement(S)

    def dual_gauge(self, S: Array) -> Array:
        """Least ``t >= 0`` with ``s_i`` in ``t * dom f_i^*``, shape (n_rows,); the rows lie in the span."""
        return np.zeros(self.n_rows)

    def project_domain(self, S: Array) -> Array:
        """Orthogonal projection of every row onto the domain of ``f_i^*`` within its span."""
        return S

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Return a positive definite ``M`` that lets rows on the boundary of ``dom f^*`` move along it only.

        ``M_i`` is the identity inside the domain, and shrinks moves out of it to the share of ``s_i``'s remaining
        room, at least ``floor``.
        """
        return lambda Z: Z

    def quadratic(self) -> tuple[Array, Array]:
        """``(H, b)`` with gradient ``H_i w_i - b_i``; H has shape (n_rows, dim, dim)."""
        raise NotImplementedError

    def few_rows(self) -> Array | None:
        """Matrices ``R_i`` with ``H_i = R_i^T R_i``, (n_rows, m, dim), if there are some with a small m."""
        return None

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """CVXPY expression of ``factor * sum_i f_i(unit * w_i)``, without a loop over rows.

        W is an expression of shape (n_rows, dim).  The two numbers go into the data, where they bring badly scaled
        problems into a solver's range.
        """
        raise NotImplementedError

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """CVXPY expression of ``sum_i f_i^*(s_i)`` and the constraints that go with it."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Point:
    """A primal point W (n_nodes, dim) and, where the solver has them, duals: one array per term of the form.

    A solver that treats the losses whole may give the duals of the couplings alone.
    """

    W: Array
    U: Duals | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a certified stopping test found.

    Attributes
    ----------
    point : Point
        The best parameters and the best feasible duals seen so far.
    primal, dual, gap, relative_gap : float
        Objective of these parameters, bound from these duals, and their difference.
    converged : bool
        Whether the gap is small enough.
    """

    point: Point
    primal: float
    dual: float
    gap: float
    relative_gap: float
    converged: bool


@dataclass(frozen=True, slots=True)
class Term:
    """``sum_r g_r((K W)_r)``: a linear map and a function of its rows."""

    map: LinearMap
    function: BlockFunction

    def evaluate(self, W: Array) -> tuple[Array, Array]:
        """Rows ``K W``, and by how much each may be off (n_rows,).

        Numbers cannot lie on every hyperplane: a row that is outside the function's domain by no more than the
        rounding of ``K W`` is moved into it, and what moved it is its error.
        """
        rows = self.map.apply(W)
        if not self.function.restricted:
            return rows, np.zeros(self.map.n_rows)
        inside = self.function.project_primal(rows)
        distance, rounding = np.linalg.norm(rows - inside, axis=1), self.map.rounding(W)
        moved = (distance > 0) & (distance <= rounding)
        return np.where(moved[:, None], inside, rows), np.where(moved, distance + rounding, 0.0)


@dataclass(frozen=True, eq=False)
class StandardForm:
    """``minimise q(W) + sum_k g_k(K_k W)``, with q the quadratic part of the losses.

    alpha and the edge weights are inside the couplings' functions, stated once.

    Attributes
    ----------
    n_nodes, dim : int
        Number of devices and of parameters a device.
    quadratic : BlockFunction
        ``q_i(w_i)``: what of the losses is a least-squares or linear function.
    couplings : tuple of Term
        Penalties, each with a map across edges.
    rows : tuple of Term
        What else the losses have: functions of each device's predictions or parameters.
    local : BlockFunction
        The whole loss of each device, quadratic part and rows, for solvers that take a loss in one piece.
    """

    n_nodes: int
    dim: int
    quadratic: BlockFunction
    couplings: tuple[Term, ...]
    rows: tuple[Term, ...]
    local: BlockFunction

    @property
    def terms(self) -> tuple[Term, ...]:
        """Couplings, then rows."""
        return self.couplings + self.rows

    @property
    def n_edges(self) -> int:
        """Number of coupled pairs, over all couplings."""
        return sum(term.map.n_rows for term in self.couplings)

    @property
    def coupling(self) -> BlockFunction:
        """The penalty of a form with one plain coupling ``g(D W)``."""
        return self.couplings[0].function

    @property
    def edges(self) -> EdgeDifference:
        """The differences of a form with one plain coupling."""
        found = self.couplings[0].map
        if not isinstance(found, EdgeDifference):
            raise TypeError("this coupling is not a plain difference across edges")
        return found

    @property
    def capabilities(self) -> frozenset[str]:
        """What the functions offer: ``local.prox``, ``terms.prox``, ``couplings.quadratic``, ``coupling.prox``, ...

        ``coupling.*`` is there only for one plain coupling, ``couplings.*``, ``rows.*`` and ``terms.*`` if all of them
        have it, ``quadratic.strongly_convex`` if the quadratic part of every device is,
        ``scalar`` for one parameter a device and ``rows`` if there are any.
        """
        names = {f"local.{name}" for name in self.local.capabilities}
        for prefix, group in (("terms", self.terms), ("couplings", self.couplings), ("rows", self.rows)):
            common = frozenset.intersection(ALL_CAPABILITIES, *(term.function.capabilities for term in group))
            names |= {f"{prefix}.{name}" for name in common}
        if len(self.couplings) == 1 and isinstance(self.couplings[0].map, EdgeDifference):
            names |= {f"coupling.{name}" for name in self.couplings[0].function.capabilities}
            if self.coupling.norm is not None:
                names.add("coupling.norm")
        if self.dim == 1:
            names.add("scalar")
        if self.rows:
            names.add("rows")
        if self.quadratic.full_span.all():
            names.add("quadratic.strongly_convex")
        return frozenset(names)

    def adjoint(self, U: Duals) -> Array:
        """``sum_k K_k^T U_k``, shape (n_nodes, dim)."""
        total = np.zeros((self.n_nodes, self.dim))
        for term, dual in zip(self.terms, U, strict=True):
            total += term.map.adjoint(dual)
        return total

    def zero_duals(self) -> Duals:
        """Zero for every row of every term."""
        return tuple(np.zeros((term.map.n_rows, term.map.width)) for term in self.terms)

    def objective(self, W: Array) -> float:
        """The objective at W."""
        value = float(self.quadratic.value(W).sum())
        return value + sum(float(term.function.value(term.evaluate(W)[0]).sum()) for term in self.terms)
