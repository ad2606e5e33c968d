"""Penalties on how much the models at the two ends of an edge differ."""

from gtvmin.penalties.base import DifferencePenalty, Penalty
from gtvmin.penalties.consensus import Consensus
from gtvmin.penalties.flow_cost import FlowCost
from gtvmin.penalties.huber import HuberPenalty
from gtvmin.penalties.mapped import Mapped
from gtvmin.penalties.norm import Norm
from gtvmin.penalties.partial import Partial
from gtvmin.penalties.per_edge import PerEdge
from gtvmin.penalties.prediction_discrepancy import PredictionDiscrepancy
from gtvmin.penalties.squared_norm import SquaredNorm

__all__ = [
    "Consensus",
    "DifferencePenalty",
    "FlowCost",
    "HuberPenalty",
    "Mapped",
    "Norm",
    "Partial",
    "Penalty",
    "PerEdge",
    "PredictionDiscrepancy",
    "SquaredNorm",
]
