"""Parameters that consensus edges join, made equal: each group of coordinates takes its mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.penalties.consensus import ConsensusBlocks
from gtvmin.solvers.standard_form import Array, StandardForm

__all__ = ["Agreement"]


@dataclass(frozen=True)
class Agreement:
    """``{W : (w_head)_k = (w_tail)_k}`` for all coordinates k of all consensus edges.

    Attributes
    ----------
    group : int array (n_nodes * dim,)
        Number of the group of every coordinate of every device; those that stand alone have groups of their own.
    first : int array (groups,)
        One member of every group.
    """

    group: NDArray[np.int64]
    first: NDArray[np.int64]

    @classmethod
    def of(cls, form: StandardForm) -> Agreement | None:
        """Of all consensus edges of a form; None if there are none."""
        tails, heads = [], []
        for term in form.couplings:
            if isinstance(term.function, ConsensusBlocks) and term.map.n_rows:
                coordinates = np.asarray(getattr(term.map, "coordinates", np.arange(form.dim)))
                tail, head = (end[:, None] * form.dim + coordinates for end in term.map.ends)
                tails.append(tail.ravel())
                heads.append(head.ravel())
        if not tails:
            return None
        tail, head = np.concatenate(tails), np.concatenate(heads)
        links = sparse.coo_array((np.ones(len(tail)), (tail, head)), shape=(form.n_nodes * form.dim,) * 2)
        group = connected_components(links, directed=False)[1].astype(np.int64)
        return cls(group, np.unique(group, return_index=True)[1])

    def project(self, W: Array) -> Array:
        """Means of the groups whose members differ; all other numbers to the bit."""
        flat = W.ravel()
        differs = np.bincount(self.group, flat != flat[self.first][self.group]) > 0
        means = np.bincount(self.group, flat) / np.bincount(self.group)
        return np.where(differs[self.group], means[self.group], flat).reshape(W.shape)
