"""What a run of a federated algorithm returns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from gtvmin.certificates import Certificate
from gtvmin.federated.program import Program
from gtvmin.solvers.driver import Status
from gtvmin.solvers.federated.ledger import Traffic
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["FederatedSolution", "RoundRecord"]


@dataclass(frozen=True, slots=True)
class RoundRecord:
    """One assessment during a run, with what the rounds so far cost all devices together.

    Attributes
    ----------
    round : int
        Rounds done.
    seconds : float
        Since the start, assessments included.
    objective, bound, gap, relative_gap : float
        Of the current models on the declared program; NaN if there is none.
    bytes_up, bytes_down : float
        Bytes that the devices sent and received.
    messages : float
        Messages that they sent and received.
    gradients, points, proxes : float
        Evaluations of local gradients, data points looked at for them, and proximal maps.
    """

    round: int
    seconds: float
    objective: float
    bound: float
    gap: float
    relative_gap: float
    bytes_up: float
    bytes_down: float
    messages: float
    gradients: float
    points: float
    proxes: float


@dataclass(frozen=True, eq=False)
class FederatedSolution:
    """Models after some rounds of an algorithm, certified on the program that it declares.

    Attributes
    ----------
    problem : GTVMin
        Devices, losses and network.
    algorithm : object
        What ran.
    name : str
        Its name.
    program : Program
        The convex program of its limit.
    certificate : Certificate, optional
        How good the models are for that program; None if it has none.
    status : Status
        How the run ended; ``status.value`` explains it.
    reason : str
        Which part of the state diverged, if one did.
    rounds : int
        Rounds done.
    seconds : float
        Time of the run.
    history : tuple of RoundRecord
        Assessments during the run.
    traffic : Traffic
        What the rounds cost, per device.
    weights : array (n_nodes, dim)
        The model that each device would use, in node order.
    model : array (dim,), optional
        The server's model, if there is a server.
    state : object
        The algorithm's state after the last round.
    """

    problem: GTVMin
    algorithm: Any
    name: str
    program: Program
    certificate: Certificate | None
    status: Status
    reason: str
    rounds: int
    seconds: float
    history: tuple[RoundRecord, ...]
    traffic: Traffic
    weights: Array
    model: Array | None
    state: Any

    def __getitem__(self, node: Hashable) -> Array:
        i = self.problem.network.index(node)
        row: Array = self.weights[i, : self.problem.dims[i]]
        return row

    def predict(self, X: Any, node: Hashable) -> Array:
        """What the model of one device predicts for new rows X; see :func:`gtvmin.prediction.predict`."""
        from gtvmin.prediction import predict

        return predict(self.problem, self.weights, X, node)

    @property
    def relative_gap(self) -> float:
        """Certified relative gap on the declared program; infinite if there is none."""
        return float("inf") if self.certificate is None else self.certificate.relative_gap

    def history_frame(self) -> Any:
        """The history as a pandas DataFrame; needs pandas."""
        import pandas as pd

        return pd.DataFrame([asdict(record) for record in self.history], columns=[f.name for f in fields(RoundRecord)])

    def traffic_frame(self) -> Any:
        """Costs as a pandas DataFrame, one row a device; needs pandas."""
        import pandas as pd

        columns = {f.name: getattr(self.traffic, f.name) for f in fields(Traffic)}
        index = pd.Index(list(self.problem.network.nodes), name="node", tupleize_cols=False)
        return pd.DataFrame(columns, index=index)

    def plot(self, **options: Any) -> Any:
        """Certified gap against rounds or bytes; see :func:`gtvmin.federated.plots.plot_federated`."""
        from gtvmin.federated.plots import plot_federated

        return plot_federated([self], **options)

    def __repr__(self) -> str:
        gap = "no program" if self.certificate is None else f"relative gap {self.relative_gap:.1e}"
        return f"<FederatedSolution {self.status.name}: {self.name}, {self.rounds} rounds, {gap}>"
