"""gtvmin: certified convex optimisation over federated-learning networks.

Declare a weighted graph of devices, a local loss per device and a penalty across edges; solve; get a certificate that
trusts no solver.  Names are loaded when first used: importing the package loads neither CVXPY nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Affine": "gtvmin.losses",
    "Ball": "gtvmin.losses",
    "Box": "gtvmin.losses",
    "Certificate": "gtvmin.certificates",
    "Consensus": "gtvmin.penalties",
    "ConvexClustering": "gtvmin.clustering.problem",
    "CvxpyLoss": "gtvmin.losses",
    "ElasticNet": "gtvmin.losses",
    "FLNetwork": "gtvmin.network",
    "FlowCost": "gtvmin.penalties",
    "GTVMin": "gtvmin.problem",
    "Hinge": "gtvmin.losses",
    "Huber": "gtvmin.losses",
    "HuberPenalty": "gtvmin.penalties",
    "L1": "gtvmin.losses",
    "LeastAbsolute": "gtvmin.losses",
    "Linear": "gtvmin.losses",
    "Logistic": "gtvmin.losses",
    "Loss": "gtvmin.losses",
    "Mapped": "gtvmin.penalties",
    "MinCostFlow": "gtvmin.flow",
    "NetworkLasso": "gtvmin.problem",
    "NonNegative": "gtvmin.losses",
    "Norm": "gtvmin.penalties",
    "Partial": "gtvmin.penalties",
    "Penalty": "gtvmin.penalties",
    "Poisson": "gtvmin.losses",
    "PredictionDiscrepancy": "gtvmin.penalties",
    "Quadratic": "gtvmin.losses",
    "Quantile": "gtvmin.losses",
    "Ridge": "gtvmin.losses",
    "Simplex": "gtvmin.losses",
    "Softmax": "gtvmin.losses",
    "Solution": "gtvmin.solution",
    "SquaredDistance": "gtvmin.losses",
    "SquaredError": "gtvmin.losses",
    "SquaredHinge": "gtvmin.losses",
    "SquaredNorm": "gtvmin.penalties",
    "Status": "gtvmin.solvers.driver",
    "Zero": "gtvmin.losses",
    "alpha_max": "gtvmin.paths",
    "certify": "gtvmin.certificates",
    "clusterpath": "gtvmin.clustering.path",
    "federate": "gtvmin.federated.running",
    "load_certificate": "gtvmin.certificates",
    "load_problem": "gtvmin.storage",
    "losses_from_frame": "gtvmin.frames",
    "node_share": "gtvmin.shares",
    "prove_structure": "gtvmin.structure",
    "save_problem": "gtvmin.storage",
    "solve": "gtvmin.solving",
    "sum_of_shares": "gtvmin.shares",
}

__all__ = ["__version__", *sorted(_HOME)]

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate as Certificate
    from gtvmin.certificates import certify as certify
    from gtvmin.certificates import load_certificate as load_certificate
    from gtvmin.clustering.path import clusterpath as clusterpath
    from gtvmin.clustering.problem import ConvexClustering as ConvexClustering
    from gtvmin.federated.running import federate as federate
    from gtvmin.flow import MinCostFlow as MinCostFlow
    from gtvmin.frames import losses_from_frame as losses_from_frame
    from gtvmin.losses import L1 as L1
    from gtvmin.losses import Affine as Affine
    from gtvmin.losses import Ball as Ball
    from gtvmin.losses import Box as Box
    from gtvmin.losses import CvxpyLoss as CvxpyLoss
    from gtvmin.losses import ElasticNet as ElasticNet
    from gtvmin.losses import Hinge as Hinge
    from gtvmin.losses import Huber as Huber
    from gtvmin.losses import LeastAbsolute as LeastAbsolute
    from gtvmin.losses import Linear as Linear
    from gtvmin.losses import Logistic as Logistic
    from gtvmin.losses import Loss as Loss
    from gtvmin.losses import NonNegative as NonNegative
    from gtvmin.losses import Poisson as Poisson
    from gtvmin.losses import Quadratic as Quadratic
    from gtvmin.losses import Quantile as Quantile
    from gtvmin.losses import Ridge as Ridge
    from gtvmin.losses import Simplex as Simplex
    from gtvmin.losses import Softmax as Softmax
    from gtvmin.losses import SquaredDistance as SquaredDistance
    from gtvmin.losses import SquaredError as SquaredError
    from gtvmin.losses import SquaredHinge as SquaredHinge
    from gtvmin.losses import Zero as Zero
    from gtvmin.network import FLNetwork as FLNetwork
    from gtvmin.paths import alpha_max as alpha_max
    from gtvmin.penalties import Consensus as Consensus
    from gtvmin.penalties import FlowCost as FlowCost
    from gtvmin.penalties import HuberPenalty as HuberPenalty
    from gtvmin.penalties import Mapped as Mapped
    from gtvmin.penalties import Norm as Norm
    from gtvmin.penalties import Partial as Partial
    from gtvmin.penalties import Penalty as Penalty
    from gtvmin.penalties import PredictionDiscrepancy as PredictionDiscrepancy
    from gtvmin.penalties import SquaredNorm as SquaredNorm
    from gtvmin.problem import GTVMin as GTVMin
    from gtvmin.problem import NetworkLasso as NetworkLasso
    from gtvmin.shares import node_share as node_share
    from gtvmin.shares import sum_of_shares as sum_of_shares
    from gtvmin.solution import Solution as Solution
    from gtvmin.solvers.driver import Status as Status
    from gtvmin.solving import solve as solve
    from gtvmin.storage import load_problem as load_problem
    from gtvmin.storage import save_problem as save_problem
    from gtvmin.structure import prove_structure as prove_structure


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gtvmin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
