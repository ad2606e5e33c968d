"""Which devices hang together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from .linear_maps import IntArray
from .standard_form import Term

__all__ = ["components"]


def components(n_nodes: int, couplings: Iterable[Term]) -> IntArray:
    """Number of the component of every device under some couplings, (n_nodes,)."""
    ends = [term.map.ends for term in couplings]
    tail, head = (np.concatenate([np.empty(0, dtype=np.int64), *(pair[k] for pair in ends)]) for k in (0, 1))
    links = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(n_nodes, n_nodes))
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)
