"""Local losses: convex functions of one device's parameters."""

from gtvmin.losses.ball import Ball
from gtvmin.losses.base import Loss
from gtvmin.losses.logistic import Logistic
from gtvmin.losses.poisson import Poisson
from gtvmin.losses.ridge import Ridge
from gtvmin.losses.softmax import Softmax
from gtvmin.losses.squared_error import SquaredError
from gtvmin.losses.zero import Zero

__all__ = ["Ball", "Logistic", "Loss", "Poisson", "Ridge", "Softmax", "SquaredError", "Zero"]
