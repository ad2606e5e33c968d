"""The arrays that every solver sees: ``minimise sum_i f_i(w_i) + sum_e g_e((D W)_e)``.

Row i of a parameter matrix ``W`` (n_nodes, dim) belongs to device i, row e of a flow matrix ``U`` (n_edges, dim)
to edge e, and ``(D W)_e = w_head(e) - w_tail(e)``.  Nothing here knows labels, losses by name, or files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Array", "Assessment", "BlockFunction", "Point", "StandardForm"]

Array = NDArray[np.float64]


class BlockFunction:
    """A separable convex function ``f(W) = sum_i f_i(w_i)``, one row a block, evaluated without a loop over rows.

    A subclass implements what it can and names it in ``capabilities``; a solver names what it needs, and the
    driver refuses a pair that does not fit before any work starts.

    Attributes
    ----------
    n_rows, dim : int
        Number of blocks and length of each.
    capabilities : frozenset of str
        Subset of ``{"gradient", "prox", "conjugate", "quadratic"}``.
    strong_convexity : array (n_rows,)
        ``mu_i >= 0`` such that ``f_i - mu_i/2 ||.||^2`` is convex.
    smoothness : array (n_rows,)
        Lipschitz constant of the gradient, ``inf`` where there is none.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset()
    n_rows: int
    dim: int

    @property
    def strong_convexity(self) -> Array:
        """Strong convexity constant of each block; zero unless a subclass knows better."""
        return np.zeros(self.n_rows)

    @property
    def smoothness(self) -> Array:
        """Smoothness constant of each block; infinite unless a subclass knows better."""
        return np.full(self.n_rows, np.inf)

    @property
    def full_span(self) -> NDArray[np.bool_]:
        """Whether the domain of ``f_i^*`` spans the whole space, per block (n_rows,)."""
        return np.ones(self.n_rows, dtype=bool)

    def value(self, W: Array) -> Array:
        """Values ``f_i(w_i)``, shape (n_rows,)."""
        raise NotImplementedError

    def gradient(self, W: Array) -> Array:
        """Gradients, shape (n_rows, dim)."""
        raise NotImplementedError

    def prox(self, V: Array, step: Array) -> Array:
        """``argmin_w f_i(w) + ||w - v_i||^2 / (2 step_i)`` for every row."""
        return self.prox_operator(step)(V)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Return ``V -> prox(V, step)`` with what depends on the steps alone computed once."""
        raise NotImplementedError

    def conjugate(self, S: Array) -> Array:
        """Conjugate values ``f_i^*(s_i)``, ``inf`` outside the domain, shape (n_rows,)."""
        raise NotImplementedError

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Return ``V -> prox_{step f^*}(V)``, by Moreau's identity unless a subclass has it in closed form."""
        scale = step[:, None]
        inner = self.prox_operator(1.0 / step)
        return lambda V: V - scale * inner(V / scale)

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

    def project_dual(self, S: Array) -> Array:
        """Orthogonal projection of every row onto the span of the domain of ``f_i^*``."""
        return S

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
    """A primal point W (n_nodes, dim) and, where the solver has one, flows U (n_edges, dim)."""

    W: Array
    U: Array | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a certified stopping test found.

    Attributes
    ----------
    point : Point
        The best parameters and the best feasible flows seen so far.
    primal, dual, gap, relative_gap : float
        Objective of these parameters, bound from these flows, and their difference.
    converged : bool
        Whether the gap is small enough.
    """

    point: Point
    primal: float
    dual: float
    gap: float
    relative_gap: float
    converged: bool


@dataclass(frozen=True, eq=False)
class StandardForm:
    """``minimise sum_i f_i(w_i) + sum_e g_e(w_head(e) - w_tail(e))``.

    alpha and the edge weights are inside ``coupling``, stated once.

    Attributes
    ----------
    tail, head : int arrays (n_edges,)
        ``tail < head``.
    n_nodes, dim : int
        Number of devices and of parameters a device.
    local, coupling : BlockFunction
        The losses (n_nodes rows) and the penalties (n_edges rows).
    """

    tail: NDArray[np.int64]
    head: NDArray[np.int64]
    n_nodes: int
    dim: int
    local: BlockFunction
    coupling: BlockFunction
    incidence: sparse.csr_array = field(init=False, repr=False)
    _incidence_t: sparse.csr_array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        m = len(self.tail)
        data = np.tile(np.array([-1.0, 1.0]), m)
        columns = np.column_stack([self.tail, self.head]).ravel()
        D = sparse.csr_array((data, columns, 2 * np.arange(m + 1)), shape=(m, self.n_nodes))
        object.__setattr__(self, "incidence", D)
        object.__setattr__(self, "_incidence_t", D.T.tocsr())

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.tail)

    @property
    def capabilities(self) -> frozenset[str]:
        """What the two functions offer, as ``local.prox``, ``coupling.quadratic``, ..."""
        local = {f"local.{name}" for name in self.local.capabilities}
        return frozenset(local | {f"coupling.{name}" for name in self.coupling.capabilities})

    @property
    def neighbour_counts(self) -> NDArray[np.int64]:
        """Number of edges at each node, shape (n_nodes,)."""
        ends = np.concatenate([self.tail, self.head])
        return np.bincount(ends, minlength=self.n_nodes)

    def difference(self, W: Array) -> Array:
        """``D W``, shape (n_edges, dim)."""
        return W[self.head] - W[self.tail]

    def divergence(self, U: Array) -> Array:
        """``D^T U``: what flows into each node minus what leaves it, shape (n_nodes, dim)."""
        return np.asarray(self._incidence_t @ U)

    def objective(self, W: Array) -> float:
        """The objective at W."""
        return float(self.local.value(W).sum() + self.coupling.value(self.difference(W)).sum())
