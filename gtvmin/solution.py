"""What a solve returns, keyed by the user's labels."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from gtvmin.certificates import Certificate
from gtvmin.solvers.driver import Record, Status
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Solution"]


@dataclass(frozen=True, eq=False)
class Solution:
    """Parameters of every device, with their certificate.

    Attributes
    ----------
    problem : GTVMin
        What was solved.
    certificate : Certificate
        Proof of how good the parameters are.
    status : Status
        How the run ended; ``status.value`` explains it.
    method : str
        What solved it.
    iterations : int
        Steps taken.
    seconds : float
        Time of the run, certification included.
    history : tuple of Record
        Assessments during the run: iteration, seconds, primal, dual, gap, relative_gap.
    undetermined : tuple
        Nodes whose parameters are not unique because no loss of their component pins them down.
    """

    problem: GTVMin
    certificate: Certificate
    status: Status
    method: str
    iterations: int
    seconds: float
    history: tuple[Record, ...]
    undetermined: tuple[Hashable, ...]

    @property
    def weights(self) -> Array:
        """Parameters (n_nodes, dim) in node order."""
        return self.certificate.W

    @property
    def flows(self) -> Array:
        """Dual flows (n_edges, dim) from tail to head, in edge order."""
        return self.certificate.U

    @property
    def objective(self) -> float:
        """``P(W)``."""
        return self.certificate.primal

    @property
    def gap(self) -> float:
        """Certified bound on the suboptimality."""
        return self.certificate.gap

    @property
    def relative_gap(self) -> float:
        """Certified gap relative to the objective."""
        return self.certificate.relative_gap

    @property
    def is_certified(self) -> bool:
        """Whether the run ended with the gap that was asked for."""
        return self.status is Status.CERTIFIED

    def __getitem__(self, node: Hashable) -> Array:
        row: Array = self.weights[self.problem.network.index(node)]
        return row

    def flow(self, source: Hashable, target: Hashable) -> Array:
        """Dual flow (dim,) over an edge in the direction asked for."""
        net = self.problem.network
        i, j = net.index(source), net.index(target)
        found = np.flatnonzero((net.tail == min(i, j)) & (net.head == max(i, j)))
        if not len(found):
            raise ValueError(f"({source!r}, {target!r}) is not an edge of the network")
        flow: Array = self.flows[found[0]]
        return flow if i < j else -flow

    def as_dict(self) -> dict[Hashable, Array]:
        """Parameters by node label."""
        return dict(zip(self.problem.network.nodes, self.weights, strict=True))

    def to_frame(self) -> Any:
        """Parameters as a pandas DataFrame, one row a device; needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        columns = [f"w{k}" for k in range(self.problem.dim)]
        index = pd.Index(list(self.problem.network.nodes), name="node", tupleize_cols=False)
        return pd.DataFrame(self.weights, index=index, columns=columns)

    def clusters(self, tolerance: float = 1e-4) -> Mapping[Hashable, int]:
        """Group of each device: neighbours whose parameters agree, joined.

        Parameters
        ----------
        tolerance : float
            Neighbours agree if ``||w_i - w_j||_2`` is at most this times the largest distance of any device's
            parameters from their mean.

        Returns
        -------
        dict
            Node label to cluster number; numbers count from 0 in node order.
        """
        net, W = self.problem.network, self.weights
        spread = float(np.linalg.norm(W - W.mean(axis=0), axis=1).max())
        jump = np.linalg.norm(W[net.head] - W[net.tail], axis=1)
        kept = jump <= tolerance * spread if spread > 0 else np.ones(net.n_edges, dtype=bool)
        links = (np.ones(int(kept.sum())), (net.tail[kept], net.head[kept]))
        labels = connected_components(sparse.coo_array(links, shape=(net.n_nodes, net.n_nodes)), directed=False)[1]
        return dict(zip(net.nodes, labels.tolist(), strict=True))

    def __repr__(self) -> str:
        return (
            f"<Solution {self.status.name}: objective {self.objective:.9g}, relative gap {self.relative_gap:.1e}, "
            f"{self.method}, {self.iterations} iterations, {self.seconds:.3g} s>"
        )
