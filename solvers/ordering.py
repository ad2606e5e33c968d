"""An order of devices and edges in which neighbours are near in memory.

Reverse Cuthill-McKee: E. Cuthill, J. McKee, "Reducing the bandwidth of sparse symmetric matrices" (1969),
DOI 10.1145/800195.805928, in SciPy's implementation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .linear_maps import Array, EdgeDifference, IntArray
from .standard_form import Duals

__all__ = ["Ordering"]

# Parameters of all devices that a processor's cache holds in any order.
CACHED = 200_000
# The order is worth its copies if it brings the ends of edges nearer by this factor.
WORTHWHILE = 0.5


@dataclass(frozen=True, eq=False)
class Ordering:
    """Devices and edges as they stand in the new order, by their old numbers.

    Attributes
    ----------
    nodes, edges : int arrays (n_nodes,), (n_edges,)
        Old number of the device, and of the edge, at each place.
    map : EdgeDifference
        The edges between places of devices.
    """

    nodes: IntArray
    edges: IntArray
    map: EdgeDifference

    @classmethod
    def of(cls, map: EdgeDifference) -> Ordering | None:
        """An order for large graphs whose neighbours are far apart; None for others."""
        n, tail, head = map.n_nodes, map.tail, map.head
        if n * map.dim <= CACHED or not map.n_rows:
            return None
        links = sparse.coo_array((np.ones(len(tail), dtype=np.int8), (tail, head)), shape=(n, n))
        nodes = reverse_cuthill_mckee(sparse.csr_array(links + links.T), symmetric_mode=True).astype(np.int64)
        place = np.empty(n, dtype=np.int64)
        place[nodes] = np.arange(n)
        first, second = place[tail], place[head]
        if np.abs(first - second).mean() > WORTHWHILE * np.abs(tail - head).mean():
            return None
        edges = np.lexsort((np.maximum(first, second), np.minimum(first, second)))
        return cls(nodes, edges, EdgeDifference(first[edges], second[edges], n, map.dim))

    def arranged(self, W: Array, U: Duals) -> tuple[Array, Duals]:
        """Parameters and the edges' duals in the new order."""
        return W[self.nodes], (U[0][self.edges],)

    def restored(self, W: Array, U: Duals) -> tuple[Array, Duals]:
        """Parameters and the edges' duals in the old order."""
        old_W, old_U = np.empty_like(W), np.empty_like(U[0])
        old_W[self.nodes], old_U[self.edges] = W, U[0]
        return old_W, (old_U,)
