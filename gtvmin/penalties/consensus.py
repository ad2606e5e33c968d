"""Consensus: devices that an edge joins have the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from gtvmin.penalties.base import DifferencePenalty
from gtvmin.penalties.edge_terms import EdgeBlocks
from gtvmin.solvers.standard_form import Array

__all__ = ["Consensus", "ConsensusBlocks"]


@dataclass(frozen=True, eq=False)
class Consensus(DifferencePenalty):
    """``phi(z) = 0`` for ``z = 0`` and infinity elsewhere: all devices that edges join agree.

    It is what every norm becomes as alpha grows without bound; weights and alpha (unless it is 0) have no effect.

    Notes
    -----
    The conjugate is zero: flows are free.  Devices in consensus are solved for as one whose loss is the sum of
    theirs, so that their parameters agree to the bit; the flows between them follow from their gradients.  Parameters
    from elsewhere must agree to the bit too, or their objective is infinite: average them first.

    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed Optimization and Statistical Learning via the
    Alternating Direction Method of Multipliers" (2011), DOI 10.1561/2200000016, Section 7.1.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> net = gtv.FLNetwork.from_edges([(0, 1)])
    >>> gtv.GTVMin(net, losses, penalty=gtv.Consensus(), alpha=1.0).solve().weights.tolist()
    [[1.5], [1.5]]
    """

    def stack(self, strengths: Array, dim: int) -> EdgeBlocks:
        """The indicator of zero, whatever the strengths."""
        return ConsensusBlocks(strengths, dim)

    def at_infinity(self) -> Consensus:
        """Itself."""
        return self


class ConsensusBlocks(EdgeBlocks):
    """0 where ``z_e = 0``, infinity elsewhere; the strengths only count the rows."""

    PER_ROW = ("strengths",)
    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})
    restricted = True

    def __init__(self, strengths: Array, dim: int) -> None:
        self.n_rows, self.dim = len(strengths), dim
        self.strengths = strengths

    @property
    def strong_convexity(self) -> Array:
        """Infinite."""
        return np.full(self.n_rows, np.inf)

    def value(self, W: Array) -> Array:
        """0 or ``inf``."""
        return np.where((W == 0).all(axis=1), 0.0, np.inf)

    def project_primal(self, W: Array) -> Array:
        """Zero."""
        return np.zeros_like(W)

    def subgradient(self, W: Array) -> Array:
        """Zero, one of all vectors."""
        return np.zeros_like(W)

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """Zero."""
        return np.zeros_like

    def conjugate(self, S: Array) -> Array:
        """Zero."""
        return np.zeros(self.n_rows)

    def conjugate_prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """The identity."""
        return lambda V: V

    def fenchel_young(self, W: Array, S: Array) -> Array:
        """The value: ``<u, 0>`` is zero."""
        return self.value(W)

    def rounding(self, W: Array, S: Array) -> Array:
        """None: comparisons are exact."""
        return np.zeros(self.n_rows)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """The constraint ``z_e = 0``."""
        import cvxpy as cp

        return cp.transforms.indicator([W == 0])

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Zero, without constraints."""
        import cvxpy as cp

        return cp.Constant(0.0), []
