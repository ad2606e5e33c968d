"""The penalty whose dual is a minimum-cost flow: edges with costs and capacities, possibly one-way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.losses.interval import IntervalBlocks
from gtvmin.penalties.base import DifferencePenalty, Penalty
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeBlocks
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, frozen

__all__ = ["FlowCost", "FlowCostBlocks"]

NAMES = ("cost", "capacity", "back_cost", "back_capacity")
PerEdge = float | ArrayLike | Mapping[Any, float]


@dataclass(frozen=True, eq=False, init=False)
class FlowCost(DifferencePenalty):
    r"""``phi(z) = capacity * max(z - cost, 0) + back_capacity * max(-z - back_cost, 0)``, summed over coordinates.

    The dual variable of an edge is a flow u from tail to head with ``-back_capacity <= u <= capacity`` that costs
    ``cost`` per unit forwards and ``back_cost`` per unit backwards.  With losses ``L_i(w) = -demand_i w`` and alpha and
    weights one, the dual is the minimum-cost flow problem.

    Parameters
    ----------
    cost, capacity : float, array_like (n_edges,) or mapping
        From tail to head: one number for all edges, one an edge in the order of the network's edges, or by pair of
        labels.  Capacities are at least 0.
    back_cost, back_capacity : likewise, or None
        From head to tail; None for the same as forwards.  ``back_capacity=0`` makes the edges one-way.

    Raises
    ------
    TypeError
        For anything but real numbers.
    ValueError
        For numbers that are not finite, negative capacities, and ``cost < -back_cost`` on an edge that can be used in
        both directions (going to and fro would earn money).  When a problem is declared: for arrays of another length,
        and pairs that are missing, no edges or, if the directions differ, turned round.

    Notes
    -----
    alpha and the edge weights multiply the capacities.  R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows"
    (1993), Section 9.4: ``w_head - w_tail`` is the negative of their difference of potentials.

    Examples
    --------
    >>> from gtvmin.penalties import FlowCost
    >>> one_way = FlowCost(cost=1.0, capacity=3.0, back_capacity=0.0)
    >>> one_way.value([3.0]), one_way.value([-3.0])
    (6.0, 0.0)
    >>> one_way.conjugate([2.0]), one_way.conjugate([-1.0])
    (2.0, inf)
    """

    cost: Any
    capacity: Any
    back_cost: Any
    back_capacity: Any

    def __init__(
        self,
        cost: PerEdge,
        capacity: PerEdge,
        back_cost: PerEdge | None = None,
        back_capacity: PerEdge | None = None,
    ) -> None:
        for name, value in zip(NAMES, (cost, capacity, back_cost, back_capacity), strict=True):
            object.__setattr__(self, name, _parameter(value, name))
        if not self._mappings():
            self._check(lambda k: f" at position {k}")

    def _mappings(self) -> list[str]:
        return [name for name in NAMES if isinstance(getattr(self, name), dict)]

    def _both_ways(self) -> tuple[Array, Array, Array, Array]:
        """Costs and capacities forwards, then backwards, as arrays of one shape."""
        back_cost = self.cost if self.back_cost is None else self.back_cost
        back_capacity = self.capacity if self.back_capacity is None else self.back_capacity
        parts = (self.cost, self.capacity, back_cost, back_capacity)
        try:
            arrays = np.broadcast_arrays(*map(np.asarray, parts))
        except ValueError:
            shapes = ", ".join(f"{name} {np.shape(getattr(self, name))}" for name in NAMES)
            raise ValueError(f"parameters of FlowCost must have one entry per edge each, got {shapes}") from None
        return arrays[0], arrays[1], arrays[2], arrays[3]

    def _check(self, place: Callable[[int], str]) -> None:
        cost, capacity, back_cost, back_capacity = (np.atleast_1d(part) for part in self._both_ways())
        for name, values in (("capacity", capacity), ("back_capacity", back_capacity)):
            if (values < 0).any():
                k = int((values < 0).argmax())
                raise ValueError(f"{name} must be >= 0, got {values[k]:g}{place(k) if len(values) > 1 else ''}")
        earns = (cost < -back_cost) & (capacity > 0) & (back_capacity > 0)
        if earns.any():
            k = int(earns.argmax())
            raise ValueError(
                f"cost {cost[k]:g} and back_cost {back_cost[k]:g}{place(k) if len(cost) > 1 else ''} add up to less "
                "than 0: a flow to and fro would earn money (back_capacity=0 makes an edge one-way)"
            )

    @property
    def is_uniform(self) -> bool:
        """Whether all parameters are single numbers."""
        return all(isinstance(getattr(self, name), float | None) for name in NAMES)

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Put mappings in the order of the edges, and check that arrays have their length."""
        super().bind(edges)
        values = {name: getattr(self, name) for name in NAMES}
        directed = self.back_cost is not None or self.back_capacity is not None
        for name in self._mappings():
            found, flipped = edges.in_order(values[name], f"{name} of FlowCost")
            if directed and flipped.any():
                tail, head = edges.pair(int(flipped.argmax()))
                raise ValueError(
                    f"{name} of FlowCost names the edge ({tail!r}, {head!r}) from {head!r} to {tail!r}, but it runs in "
                    "node order: turn the pair round and exchange what is forwards and backwards"
                )
            values[name] = finite_array(np.array(found), f"{name} of FlowCost")
        for name, value in values.items():
            if isinstance(value, np.ndarray) and value.shape != (len(edges.numbers),):
                raise ValueError(
                    f"{name} of FlowCost must have one entry for each of the {len(edges.numbers)} edges, "
                    f"got shape {value.shape}"
                )
        bound = object.__new__(FlowCost)
        for name, value in values.items():
            object.__setattr__(bound, name, frozen(value) if isinstance(value, np.ndarray) else value)
        bound._check(lambda k: " on the edge ({!r}, {!r})".format(*edges.pair(k)))
        return bound

    def pick(self, numbers: Any) -> FlowCost:
        """The parameters of some edges."""
        if self.is_uniform:
            return self
        parts = (getattr(self, name) for name in NAMES)
        return FlowCost(*(part[numbers] if isinstance(part, np.ndarray) else part for part in parts))

    def reversed(self) -> FlowCost:
        """Forwards and backwards exchanged."""
        cost, capacity, back_cost, back_capacity = (part.copy() for part in self._both_ways())
        return FlowCost(back_cost, back_capacity, cost, capacity)

    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """Capacities times strengths, for every coordinate."""
        if self._mappings():
            raise ValueError("parameters by pair of labels need a network: evaluate the penalty of one edge")
        cost, capacity, back_cost, back_capacity = self._both_ways()
        if cost.ndim and cost.shape != strengths.shape:
            raise ValueError(
                f"parameters of {cost.size} edges do not fit {len(strengths)}: evaluate the penalty of one edge"
            )
        # where a direction is closed its cost has no effect; the other one's keeps the interval from being empty
        left = np.where(back_capacity > 0, -back_cost, np.minimum(-back_cost, cost))
        right = np.where(capacity > 0, cost, np.maximum(cost, left))
        columns = (-strengths * back_capacity, strengths * capacity, left, right)
        return FlowCostBlocks(*(np.array(np.broadcast_to(part[..., None], (len(strengths), dim))) for part in columns))

    def __repr__(self) -> str:
        shown = (
            f"{name}={value if isinstance(value, float) else f'<{len(value)} edges>'}"
            for name in NAMES
            if (value := getattr(self, name)) is not None
        )
        return f"FlowCost({', '.join(shown)})"


class FlowCostBlocks(EdgeBlocks):
    """``high_ek max(z_ek - right_ek, 0) - low_ek max(left_ek - z_ek, 0)`` summed over the coordinates k.

    Every coordinate of every edge is a row of an :class:`~gtvmin.losses.interval.IntervalBlocks`.
    """

    PER_ROW = ("low", "high", "left", "right")
    SHARED = ()
    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})

    def __init__(self, low: Array, high: Array, left: Array, right: Array) -> None:
        self.n_rows, self.dim = low.shape
        self.low, self.high, self.left, self.right = low, high, left, right
        self._coordinates = IntervalBlocks(low.ravel(), high.ravel(), left.ravel(), right.ravel(), np.zeros(low.size))

    def _sum(self, per_coordinate: Array) -> Array:
        return np.asarray(per_coordinate.reshape(self.n_rows, self.dim).sum(axis=1))

    def _apply(self, operator: Callable[[Array], Array]) -> Callable[[Array], Array]:
        return lambda V: operator(V.reshape(-1, 1)).reshape(self.n_rows, self.dim)

    def value(self, W: Array) -> Array:
        """Sum over the coordinates."""
        return self._sum(self._coordinates.value(W.reshape(-1, 1)))

    def subgradient(self, W: Array) -> Array:
        """One for every coordinate."""
        return self._apply(self._coordinates.subgradient)(W)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Every coordinate by itself."""
        return self._apply(self._coordinates.prox_operator(np.repeat(step, self.dim)))

    def conjugate(self, S: Array) -> Array:
        """Cost of the flow, ``inf`` beyond the capacities."""
        return self._sum(self._coordinates.conjugate(S.reshape(-1, 1)))

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Every coordinate by itself."""
        return self._apply(self._coordinates.conjugate_prox_operator(np.repeat(step, self.dim)))

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """Sum over the coordinates."""
        return self._sum(self._coordinates.fenchel_young(W.reshape(-1, 1), S.reshape(-1, 1)))

    def rounding(self, W: Array, S: Array) -> Array:
        """Sum over the coordinates."""
        return self._sum(self._coordinates.rounding(W.reshape(-1, 1), S.reshape(-1, 1)))

    def dual_gauge(self, S: Array) -> Array:
        """The largest share of a capacity."""
        gauge = self._coordinates.dual_gauge(S.reshape(-1, 1))
        return np.asarray(gauge.reshape(self.n_rows, self.dim).max(axis=1))

    def project_domain(self, S: Array) -> Array:
        """Clip to the capacities."""
        return self._apply(self._coordinates.project_domain)(S)

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Room to the nearer capacity."""
        return self._apply(self._coordinates.dual_metric(S.reshape(-1, 1), floor))

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """Sum over all coordinates."""
        import cvxpy as cp

        return self._coordinates.to_cvxpy(cp.reshape(W, (self.n_rows * self.dim, 1), order="C"), unit, factor)

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Cost of the flow, with the capacities as constraints."""
        import cvxpy as cp

        return self._coordinates.conjugate_to_cvxpy(cp.reshape(S, (self.n_rows * self.dim, 1), order="C"))


def _parameter(value: Any, name: str) -> Any:
    """A number, a read-only array (n_edges,), a copy of a mapping, or None."""
    if value is None and name.startswith("back_"):
        return None
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, bool):
        raise TypeError(f"{name} must be a real number, got {value!r}")
    array = finite_array(value, name)
    if array.ndim > 1:
        raise ValueError(f"{name} must be one number or one per edge, got shape {array.shape}")
    return frozen(array) if array.ndim else float(array)
