"""Mixing matrices by their definitions, and where runs on them start."""

from __future__ import annotations

from functools import cache

import numpy as np

from federated_problems import (
    DIM,
    NAMES,
    N,
    network,
)
from gtvmin.solvers.standard_form import Point

START = Point(np.random.default_rng(1).normal(size=(N, DIM)))


@cache
def metropolis() -> np.ndarray:
    """Written out from the edges."""
    graph, M = network().to_networkx(), np.zeros((N, N))
    for a, b in graph.edges:
        i, j = NAMES.index(a), NAMES.index(b)
        M[i, j] = M[j, i] = 1.0 / (1.0 + max(graph.degree(a), graph.degree(b)))
    return M + np.diag(1.0 - M.sum(axis=1))


@cache
def lazy() -> np.ndarray:
    return 0.5 * (np.eye(N) + metropolis())
