"""Example data: house sales as a table, and the stochastic block model of the network Lasso literature."""

from __future__ import annotations

from .sacramento import Sacramento, load_sacramento, sacramento_csv
from .sbm import SBM, make_sbm

__all__ = ["SBM", "Sacramento", "load_sacramento", "make_sbm", "sacramento_csv"]
