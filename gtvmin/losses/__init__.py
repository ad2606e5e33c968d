"""Local losses: convex functions of one device's parameters."""

from gtvmin.losses.base import Loss
from gtvmin.losses.logistic import Logistic
from gtvmin.losses.ridge import Ridge
from gtvmin.losses.squared_error import SquaredError
from gtvmin.losses.zero import Zero

__all__ = ["Logistic", "Loss", "Ridge", "SquaredError", "Zero"]
