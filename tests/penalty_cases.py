"""Penalties of every kind."""

from __future__ import annotations

import numpy as np

from gtvmin.penalties import (
    Consensus,
    DifferencePenalty,
    FlowCost,
    HuberPenalty,
    Norm,
    Partial,
    Penalty,
    PredictionDiscrepancy,
    SquaredNorm,
)

DIFFERENCES: list[DifferencePenalty] = [
    SquaredNorm(),
    Norm(1),
    Norm(2),
    Norm(np.inf),
    HuberPenalty(0.5),
    HuberPenalty(4.0),
    FlowCost(0.3, 1.2),
    FlowCost(0.3, 1.2, -0.1, 0.7),
    FlowCost(-0.3, 2.0, back_capacity=0.0),
    FlowCost(-1.0, 0.0, 0.4, 1.0),
    Consensus(),
]
"""Penalties of the plain difference, which stack over edges."""
X = np.array([[1.0, -2.0, 0.5], [0.3, 0.0, 1.0]])

COMPOSED: list[Penalty] = [
    PredictionDiscrepancy(X),
    PredictionDiscrepancy(X, scale="sum"),
    PredictionDiscrepancy(matrices=X.T @ X + np.eye(3)),
    Partial(Norm(2), [2, 0]),
    Partial(FlowCost(0.1, 1.0), [1]),
    Partial(PredictionDiscrepancy(X[:, :2]), [0, 2]),
]
PENALTIES: list[Penalty] = [*DIFFERENCES, *COMPOSED]
