"""Networks and data that the instances are made of."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gtvmin.losses import Loss, SquaredError
from gtvmin.network import FLNetwork

__all__ = ["conditioned", "network_of", "pieces", "regressions"]

Array = NDArray[np.float64]


def network_of(graph: nx.Graph, rng: np.random.Generator | None = None, spread: float = 1.0) -> FLNetwork:
    """Network of a graph with nodes 0..n-1, its edges sorted.

    Weights are one, or with `rng` between ``10**-spread`` and ``10**spread``, evenly by their logarithm.
    """
    plain = nx.convert_node_labels_to_integers(graph, ordering="sorted")
    edges = sorted((min(edge), max(edge)) for edge in plain.edges)
    weights = np.ones(len(edges)) if rng is None else 10.0 ** rng.uniform(-spread, spread, len(edges))
    return FLNetwork.from_edges(edges, weights=weights, nodes=range(plain.number_of_nodes()))


def pieces(n: int, levels: Sequence[float]) -> Array:
    """A signal (n,) that is constant on as many equal pieces as there are levels."""
    return np.repeat(np.asarray(levels, dtype=float), -(-n // len(levels)))[:n]


def conditioned(rng: np.random.Generator, rows: int, dim: int, condition: float) -> Array:
    """Matrix (rows, dim) whose singular values fall from 1 to 1 / condition, evenly by their logarithm."""
    U, _ = np.linalg.qr(rng.normal(size=(rows, dim)))
    V, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    return np.asarray((U * np.logspace(0.0, -np.log10(condition), dim)) @ V)


def regressions(rng: np.random.Generator, W: Array, rows: int, noise: float = 0.1) -> list[Loss]:
    """Mean squared errors of devices with true parameters W (n, dim): Gaussian features, noisy labels."""
    X = rng.normal(size=(len(W), rows, W.shape[1]))
    y = np.einsum("irk,ik->ir", X, W) + noise * rng.normal(size=(len(W), rows))
    return [SquaredError(features, labels) for features, labels in zip(X, y, strict=True)]
