"""What a solve returns, keyed by the user's labels."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.certificates import Certificate
from gtvmin.errors import GtvminWarning
from gtvmin.fusion import close_edges, fused_edges, join
from gtvmin.solvers.driver import Record, Status
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import nonnegative_number

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.structure import Structure

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
        """Dual flows (n_edges, dim) from tail to head, in edge order; those of all families, the first's first."""
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
        i = self.problem.network.index(node)
        row: Array = self.weights[i, : self.problem.dims[i]]
        return row

    def flow(self, source: Hashable, target: Hashable, family: int = 0) -> Array:
        """Dual flow over an edge in the direction asked for; ``family`` counts the problem's families of edges."""
        families = self.problem.couplings
        if not 0 <= family < len(families):
            raise ValueError(f"family must be between 0 and {len(families) - 1}, got {family}")
        net = families[family].network
        i, j = net.index(source), net.index(target)
        found = np.flatnonzero((net.tail == min(i, j)) & (net.head == max(i, j)))
        if not len(found):
            raise ValueError(f"({source!r}, {target!r}) is not an edge of the network")
        edge = sum(earlier.network.n_edges for earlier in families[:family]) + int(found[0])
        flow: Array = self.flows[edge, : self.problem.flow_dims[edge]]
        return flow if i < j else -flow

    def as_dict(self) -> dict[Hashable, Array]:
        """Parameters by node label."""
        return {node: self[node] for node in self.problem.network.nodes}

    def predict(self, X: Any, node: Hashable) -> Array:
        """What the model of one device predicts for new rows X; see :func:`gtvmin.prediction.predict`.

        Examples
        --------
        >>> import gtvmin as gtv
        >>> losses = {name: gtv.SquaredError([[1.0], [2.0]], [2.0, y]) for name, y in (("a", 4.0), ("b", 4.0))}
        >>> solution = gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=0.1).solve()
        >>> solution.predict([[3.0], [4.0]], "a").round(3).tolist()
        [6.0, 8.0]
        """
        from gtvmin.prediction import predict

        return predict(self.problem, self.weights, X, node)

    def to_frame(self, columns: Sequence[str] | None = None) -> Any:
        """Parameters as a pandas DataFrame, one row a device, NaN beyond its own parameters; needs pandas.

        The columns are named as asked for, by default like those of the table that the losses were made from
        (:func:`gtvmin.losses_from_frame`), else w0, w1, ...
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame() needs pandas: pip install pandas") from error
        names = self.problem.parameter_names if columns is None else tuple(columns)
        if names is None or (columns is None and len(names) != self.problem.dim):  # a softmax has more parameters
            names = tuple(f"w{k}" for k in range(self.problem.dim))
        if isinstance(columns, str) or len(names) != self.problem.dim:
            raise ValueError(f"columns must be {self.problem.dim} names, one for each parameter, got {columns!r}")
        index = pd.Index(list(self.problem.network.nodes), name="node", tupleize_cols=False)
        own = np.arange(self.problem.dim) < self.problem.dims[:, None]
        return pd.DataFrame(np.where(own, self.weights, np.nan), index=index, columns=list(names))

    def structure(self) -> Structure:
        """Neighbours proved equal or different at the optimum; see :func:`gtvmin.structure.prove_structure`."""
        from gtvmin.structure import prove_structure

        return prove_structure(self.problem, self.certificate)

    def clusters(self, tolerance: float | None = None, *, proved: bool = False) -> dict[Hashable, int]:
        """Group of each device: neighbours whose parameters agree, joined.

        Parameters
        ----------
        tolerance : float, optional
            Neighbours agree if ``||w_i - w_j||_2`` is at most this times the largest distance of any device's
            parameters from their mean.  By default the certificate sets the scale, see the notes.
        proved : bool
            Join only neighbours that the certificate proves equal at the optimum (:meth:`structure`); a
            :class:`~gtvmin.errors.GtvminWarning` names edges about which it proves nothing.

        Returns
        -------
        dict
            Node label to cluster number; numbers count from 0 in node order.

        Notes
        -----
        By default neighbours are joined if their parameters differ by a small share of what the certified gap leaves
        open for a typical device, or if the flow between them is clearly inside its ball and the certificate does not
        prove them apart: :func:`gtvmin.fusion.fused_edges` states the rule.  A smaller gap gives finer clusters: the
        ones that are found at a gap of 1e-6 may be up to a few per cent too few or too many where clusters lie close
        together.

        Examples
        --------
        >>> import gtvmin as gtv
        >>> losses = [gtv.SquaredError([[1.0]], [y]) for y in (0.0, 0.1, 3.0)]
        >>> solution = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, lam=0.2).solve()
        >>> solution.clusters()
        {0: 0, 1: 0, 2: 1}
        """
        if proved:
            structure = self.structure()
            if structure.undecided.any():
                warnings.warn(
                    f"{structure.undecided.sum()} of {len(structure.edges)} edges are undecided, the first is "
                    f"{structure.undecided_edges[0]!r}: solve to a smaller gap to decide more",
                    GtvminWarning,
                    stacklevel=2,
                )
            return structure.clusters()
        if tolerance is None:
            kept = fused_edges(self.problem, self.certificate)
        else:
            kept = close_edges(self.problem, self.weights, nonnegative_number(tolerance, "tolerance"))
        return dict(zip(self.problem.network.nodes, join(self.problem, kept).tolist(), strict=True))

    def __repr__(self) -> str:
        return (
            f"<Solution {self.status.name}: objective {self.objective:.9g}, relative gap {self.relative_gap:.1e}, "
            f"{self.method}, {self.iterations} iterations, {self.seconds:.3g} s>"
        )
