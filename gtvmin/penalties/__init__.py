"""Penalties: convex functions of the difference of neighbours' parameters."""

from gtvmin.penalties.base import Penalty
from gtvmin.penalties.norm import Norm
from gtvmin.penalties.squared_norm import SquaredNorm

__all__ = ["Norm", "Penalty", "SquaredNorm"]
