"""Penalties that differ from edge to edge."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.penalties.base import Penalty
from gtvmin.penalties.edge_terms import CoupledEdges, EdgeTerm, IntArray
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import frozen

__all__ = ["PerEdge", "penalty_of_edges"]


@dataclass(frozen=True, eq=False, init=False)
class PerEdge(Penalty):
    """One of several penalties for every edge; a mapping or a function given to a problem becomes one.

    Parameters
    ----------
    kinds : sequence of Penalty
        The penalties, each the same for all of its edges.
    which : array_like of int (n_edges,)
        Position in `kinds` of each edge's penalty, edges in the network's order.

    Raises
    ------
    TypeError
        If one of the kinds is no penalty.
    ValueError
        If one of the kinds has parameters by edge itself, a position is out of range, or their number is not that of
        the network's edges.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0, 9.0)]
    >>> kinds = {(0, 1): gtv.Norm(1), (1, 2): gtv.SquaredNorm()}
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, penalty=kinds, alpha=1.0)
    >>> problem.penalty
    PerEdge(Norm(p=1.0): 1 edge, SquaredNorm(): 1 edge)
    """

    kinds: tuple[Penalty, ...]
    which: Any

    def __init__(self, kinds: Sequence[Penalty], which: ArrayLike) -> None:
        numbers = np.array(which)
        for kind in kinds:
            if not isinstance(kind, Penalty):
                raise TypeError(f"an edge's penalty must be a penalty such as Norm(2), got {kind!r}")
            if not kind.is_uniform or isinstance(kind, PerEdge):
                raise ValueError(f"{kind!r} has parameters by edge: in a mapping every edge needs a penalty of its own")
        if numbers.ndim != 1 or (numbers != np.floor(numbers)).any():
            raise ValueError("which must hold one integer per edge")
        if len(numbers) and not (numbers.min() >= 0 and numbers.max() < len(kinds)):
            raise ValueError(f"which must be positions among the {len(kinds)} kinds")
        object.__setattr__(self, "kinds", tuple(kinds))
        object.__setattr__(self, "which", frozen(numbers.astype(np.int64)))

    @property
    def is_uniform(self) -> bool:
        """No."""
        return False

    def bind(self, edges: CoupledEdges) -> Penalty:
        """Bind every kind to its edges."""
        if len(self.which) != len(edges.numbers):
            raise ValueError(f"which has {len(self.which)} entries for {len(edges.numbers)} edges")
        kinds = [kind.bind(edges.take(self.which == k)) for k, kind in enumerate(self.kinds)]
        return PerEdge(kinds, self.which)

    def edge_terms(self, edges: CoupledEdges, strengths: Array) -> tuple[EdgeTerm, ...]:
        """Terms of all kinds, of which those that fit together are joined."""
        groups: dict[tuple[Hashable, ...], list[EdgeTerm]] = {}
        own = self.which[edges.numbers]
        for k, kind in enumerate(self.kinds):
            chosen = own == k
            for term in kind.edge_terms(edges.take(chosen), strengths[chosen]):
                groups.setdefault(term.kind(), []).append(term)
        return tuple(first.join(others) if others else first for first, *others in groups.values())

    def flow_dims(self, edges: CoupledEdges) -> IntArray:
        """Those of every edge's own penalty."""
        dims, own = np.zeros(len(edges.numbers), dtype=np.int64), self.which[edges.numbers]
        for k, kind in enumerate(self.kinds):
            dims[own == k] = kind.flow_dims(edges.take(own == k))
        return dims

    def at_infinity(self) -> Penalty:
        """That of every kind."""
        return PerEdge([kind.at_infinity() for kind in self.kinds], self.which)

    def _refuse(self) -> ValueError:
        return ValueError("penalties differ by edge: evaluate one of PerEdge.kinds")

    def value(self, z: ArrayLike) -> float:
        """An error: it depends on the edge."""
        raise self._refuse()

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """An error: it depends on the edge."""
        raise self._refuse()

    def conjugate(self, u: ArrayLike) -> float:
        """An error: it depends on the edge."""
        raise self._refuse()

    def __repr__(self) -> str:
        counts = np.bincount(self.which, minlength=len(self.kinds)).tolist()
        shown = (f"{kind!r}: {n} edge{'s' if n != 1 else ''}" for kind, n in zip(self.kinds[:4], counts, strict=False))
        more = f", {len(self.kinds) - 4} more kinds" if len(self.kinds) > 4 else ""
        return f"PerEdge({', '.join(shown)}{more})"


def penalty_of_edges(
    declared: Penalty | Mapping[Any, Penalty] | Callable[[Any, Any], Penalty], edges: CoupledEdges
) -> Penalty:
    """The penalty of a problem from what was declared, bound to its edges.

    Parameters
    ----------
    declared : Penalty, mapping or callable
        One penalty; or each edge's, by pair of labels or as a function of them.  A pair (b, a) of an edge that runs
        from a to b means the penalty of ``w_a - w_b``.
    edges : CoupledEdges
        The edges.

    Raises
    ------
    TypeError, ValueError
        For anything else, edges without a penalty, and pairs that are no edges.
    """
    if isinstance(declared, Penalty):
        return declared.bind(edges)
    if isinstance(declared, Mapping):
        found, flipped = edges.in_order(declared, "penalty")
    elif callable(declared):
        found = [declared(*edges.pair(k)) for k in range(len(edges.numbers))]
        flipped = np.zeros(len(found), dtype=bool)
    else:
        raise TypeError(f"penalty must be a penalty such as Norm(2) or SquaredNorm(), got {declared!r}")
    places: dict[Penalty, int] = {}
    which = np.zeros(len(found), dtype=np.int64)
    for k, (penalty, turned) in enumerate(zip(found, flipped, strict=True)):
        if not isinstance(penalty, Penalty):
            raise TypeError(f"the penalty of edge {edges.pair(k)!r} must be a penalty such as Norm(2), got {penalty!r}")
        if turned and penalty.is_uniform:
            penalty = penalty.reversed()
        which[k] = places.setdefault(penalty, len(places))
    if len(places) == 1 and next(iter(places)).is_uniform:
        return next(iter(places)).bind(edges)
    return PerEdge(list(places), which).bind(edges)
