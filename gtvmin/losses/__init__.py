"""Local losses: convex functions of one device's parameters."""

from gtvmin.losses.affine import Affine
from gtvmin.losses.ball import Ball
from gtvmin.losses.base import Loss
from gtvmin.losses.box import Box
from gtvmin.losses.cvxpy_loss import CvxpyLoss
from gtvmin.losses.elastic_net import ElasticNet
from gtvmin.losses.hinge import Hinge
from gtvmin.losses.huber import Huber
from gtvmin.losses.l1 import L1
from gtvmin.losses.least_absolute import LeastAbsolute
from gtvmin.losses.linear import Linear
from gtvmin.losses.logistic import Logistic
from gtvmin.losses.non_negative import NonNegative
from gtvmin.losses.poisson import Poisson
from gtvmin.losses.quadratic_form import Quadratic
from gtvmin.losses.quantile import Quantile
from gtvmin.losses.ridge import Ridge
from gtvmin.losses.simplex import Simplex
from gtvmin.losses.softmax import Softmax
from gtvmin.losses.squared_distance import SquaredDistance
from gtvmin.losses.squared_error import SquaredError
from gtvmin.losses.squared_hinge import SquaredHinge
from gtvmin.losses.zero import Zero

__all__ = [
    "L1",
    "Affine",
    "Ball",
    "Box",
    "CvxpyLoss",
    "ElasticNet",
    "Hinge",
    "Huber",
    "LeastAbsolute",
    "Linear",
    "Logistic",
    "Loss",
    "NonNegative",
    "Poisson",
    "Quadratic",
    "Quantile",
    "Ridge",
    "Simplex",
    "Softmax",
    "SquaredDistance",
    "SquaredError",
    "SquaredHinge",
    "Zero",
]
