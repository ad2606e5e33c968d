"""Example data: house sales, the stochastic block model of the network Lasso, classes at devices that differ."""

from __future__ import annotations

from .sacramento import Sacramento, load_sacramento, sacramento_csv
from .sbm import SBM, make_sbm
from .synthetic import Synthetic, make_synthetic

__all__ = ["SBM", "Sacramento", "Synthetic", "load_sacramento", "make_sbm", "make_synthetic", "sacramento_csv"]
