"""Federated relaxation of models of any kind, coupled by their predictions on common test points.

Algorithm 12 (model-agnostic FedRelax) of A. Jung, "Federated Learning: From Theory to Practice" (2025), Section 5.7:
``minimise sum_i L_i(h_i) + alpha sum_e A_e (1/m) sum_r (h_head(x_r) - h_tail(x_r))^2`` over models h_i, with L_i the
mean squared error on the device's data points and x_r the m test points.  With its neighbours' predictions held fixed a
device has a weighted regression to solve, on its own data points and on the test points with its neighbours' mean
predictions as targets: whatever can be fitted with sample weights can take part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.network import FLNetwork
from gtvmin.solvers.federated.ledger import BYTES
from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array, nonnegative_number, positive_integer

__all__ = ["ModelRelaxation", "relax_models"]


@dataclass(frozen=True, eq=False)
class ModelRelaxation:
    """Models after some rounds.

    Attributes
    ----------
    models : dict
        Fitted model by node label.
    predictions : array (n_nodes, m)
        What they predict at the test points, in node order.
    objectives : array (rounds,)
        The objective after every round.
    changes : array (rounds,)
        Largest change of a prediction in every round.
    bytes_sent : float
        By all devices together.
    """

    models: dict[Hashable, Any]
    predictions: Array
    objectives: Array
    changes: Array
    bytes_sent: float


def relax_models(
    network: FLNetwork,
    data: Mapping[Any, tuple[ArrayLike, ArrayLike]],
    models: Mapping[Any, Any],
    test_points: ArrayLike,
    *,
    alpha: float,
    rounds: int,
    order: Literal["jacobi", "gauss-seidel"] = "gauss-seidel",
) -> ModelRelaxation:
    """Fit the models of all devices, each in turn to its own data and its neighbours' predictions.

    Parameters
    ----------
    network : FLNetwork
        Devices and weighted edges.
    data : mapping from label to (X, y)
        Data points of each device, X (m_i, features) and y (m_i,).  A device that is left out has none.
    models : mapping from label to model
        One for each device, of any kinds, with ``fit(X, y, sample_weight=...)`` and ``predict(X)`` as scikit-learn's
        regressors have them.  They are fitted in place.
    test_points : array_like (m, features)
        Points at which neighbours should predict the same.  Devices send their m predictions there, and nothing else.
    alpha : float
        Strength of the coupling, at least 0.
    rounds : int
        How often every model is fitted.
    order : {"jacobi", "gauss-seidel"}
        Whether a device uses its neighbours' predictions of the last round, or the latest ones, in node order.

    Returns
    -------
    ModelRelaxation

    Raises
    ------
    ValueError
        If a device has no model, data of wrong shapes, or neither data nor neighbours; if a number is NaN or infinite.

    Notes
    -----
    For linear models the limit is GTV minimisation with :class:`~gtvmin.penalties.PredictionDiscrepancy`, which can be
    certified.  Gauss-Seidel rounds of models that minimise their weighted squared error over a convex set of functions
    never raise the objective; those of trees and the like may, and may end in a cycle: see ``changes``.

    Examples
    --------
    >>> import numpy as np
    >>> import gtvmin as gtv
    >>> from gtvmin.federated.model_agnostic import relax_models
    >>> class Mean:
    ...     def fit(self, X, y, sample_weight):
    ...         self.value = float(np.average(y, weights=sample_weight))
    ...     def predict(self, X):
    ...         return np.full(len(X), self.value)
    >>> data = {"a": ([[0.0]], [0.0]), "b": ([[0.0]], [3.0])}
    >>> net = gtv.FLNetwork.from_edges([("a", "b")])
    >>> run = relax_models(net, data, {"a": Mean(), "b": Mean()}, [[0.0]], alpha=1.0, rounds=40)
    >>> run.predictions.round(6).ravel().tolist()
    [1.0, 2.0]
    """
    if order not in ("jacobi", "gauss-seidel"):
        raise ValueError(f"order must be 'jacobi' or 'gauss-seidel', got {order!r}")
    count, strength = positive_integer(rounds, "rounds"), nonnegative_number(alpha, "alpha")
    points = finite_array(test_points, "test_points")
    if points.ndim != 2 or not points.size:
        raise ValueError(f"test_points must have shape (points, features), got {points.shape}")
    devices = [_Device.of(network, node, data, models, points, strength) for node in network.nodes]
    predictions = np.zeros((network.n_nodes, len(points)))
    # line 1: each device fits its own data; one without data starts from zero predictions
    for i, device in enumerate(devices):
        if len(device.y):
            predictions[i] = device.fit(None)
    objectives, changes = [], []
    for _ in range(count):
        # lines 3-6: send the predictions, fit to the own data and the neighbours' mean predictions
        following = predictions.copy()
        for i, device in enumerate(devices):
            heard = predictions if order == "jacobi" else following
            following[i] = device.fit(heard)
        changes.append(float(np.abs(following - predictions).max()))
        predictions = following
        objectives.append(_objective(network, devices, predictions, strength))
    sent = float(BYTES * count * 2 * network.n_edges * len(points))
    fitted = {node: device.model for node, device in zip(network.nodes, devices, strict=True)}
    return ModelRelaxation(fitted, predictions, np.array(objectives), np.array(changes), sent)


@dataclass(frozen=True, eq=False)
class _Device:
    """A device's data points, model, neighbours and the test points."""

    X: Array
    y: Array
    model: Any
    points: Array
    neighbours: Array
    shares: Array
    pull: float

    @classmethod
    def of(
        cls,
        network: FLNetwork,
        node: Any,
        data: Mapping[Any, Any],
        models: Mapping[Any, Any],
        points: Array,
        alpha: float,
    ) -> _Device:
        if node not in models:
            raise ValueError(f"models has none for node {node!r}")
        features = points.shape[1]
        X, y = (finite_array(part, f"data of node {node!r}") for part in data.get(node, (np.empty((0, features)), [])))
        if X.shape != (len(y), features) or y.ndim != 1:
            raise ValueError(
                f"data of node {node!r} must be X (rows, {features}) and y (rows,), got shapes {X.shape} and {y.shape}"
            )
        i = network.index(node)
        mine = np.flatnonzero((network.tail == i) | (network.head == i))
        others = np.where(network.tail[mine] == i, network.head[mine], network.tail[mine])
        degree = float(network.weights[mine].sum())
        if not len(y) and not alpha * degree:
            raise ValueError(f"node {node!r} has neither data nor neighbours to learn from")
        shares = network.weights[mine] / degree if degree else network.weights[mine]
        return cls(X, y, models[node], points, others, shares, alpha * degree)

    def fit(self, heard: Array | None) -> Array:
        """Fit the model to the own data and, if anything was heard, to the neighbours; its predictions."""
        X, y, weight = self.X, self.y, np.full(len(self.y), 1.0 / max(len(self.y), 1))
        if heard is not None and self.pull > 0:
            # alpha sum_j A_ij (1/m) ||h - h_j||^2 = (alpha d_i / m) ||h - mean of the h_j||^2 + constant
            X, y = np.vstack([X, self.points]), np.append(y, self.shares @ heard[self.neighbours])
            weight = np.append(weight, np.full(len(self.points), self.pull / len(self.points)))
        self.model.fit(X, y, sample_weight=weight)
        return np.asarray(self.model.predict(self.points), dtype=float).ravel()


def _objective(network: FLNetwork, devices: list[_Device], predictions: Array, alpha: float) -> float:
    loss = 0.0
    for device in devices:
        if len(device.y):
            loss += float(np.mean((np.ravel(device.model.predict(device.X)) - device.y) ** 2))
    jumps = ((predictions[network.head] - predictions[network.tail]) ** 2).mean(axis=1)
    return loss + alpha * float(network.weights @ jumps)
