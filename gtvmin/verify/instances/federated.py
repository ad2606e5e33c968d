"""Devices for federated algorithms: strongly convex together, of different sizes, on connected networks."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.losses import Logistic, Loss, Quadratic, SquaredError
from gtvmin.network import FLNetwork
from gtvmin.penalties import SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import network_of
from gtvmin.verify.instances.instance import instance


def heterogeneous(rng: np.random.Generator, counts: tuple[int, ...], dim: int, spread: float = 1.0) -> list[Loss]:
    """Mean squared errors of devices with different models and numbers of data points."""
    common = rng.normal(size=dim)
    losses: list[Loss] = []
    for m in counts:
        X = rng.normal(size=(m, dim)) * rng.uniform(0.7, 1.3)
        losses.append(SquaredError(X, X @ (common + spread * rng.normal(size=dim)) + 0.3 * rng.normal(size=m)))
    return losses


def chorded_ring(n: int, rng: np.random.Generator) -> FLNetwork:
    """A ring with two chords and weights from 1/2 to 2."""
    graph = nx.cycle_graph(n)
    graph.add_edges_from([(0, n // 2), (1, n - 2)])
    return network_of(graph, rng, spread=np.log10(2.0))


@instance("federated")
def federated_pair(rng: np.random.Generator) -> GTVMin:
    """Two numbers, 0 from one data point and 3 from two: consensus at 1.5, or at 2 with weights by samples."""
    losses = [0.5 * SquaredError([[1.0]], [0.0]), 0.5 * SquaredError([[1.0], [1.0]], [2.0, 4.0])]
    return GTVMin(FLNetwork.from_edges([(0, 1)]), losses, penalty=SquaredNorm(), alpha=0.5)


@instance("federated")
def federated_squares(rng: np.random.Generator) -> GTVMin:
    """Mean squared errors of eight devices with 5 to 50 data points and different models."""
    losses = heterogeneous(rng, (5, 50, 8, 12, 20, 30, 6, 40), 3)
    return GTVMin(chorded_ring(8, rng), losses, penalty=SquaredNorm(), alpha=0.5)


@instance("federated")
def federated_curvatures(rng: np.random.Generator) -> GTVMin:
    """One parameter and five devices on a path whose curvatures differ by a factor of 16."""
    losses: list[Loss] = [
        SquaredError(scale * rng.uniform(0.9, 1.1, size=(m, 1)), scale * (k + rng.normal(size=m)))
        for k, (m, scale) in enumerate(((2, 0.5), (9, 1.0), (3, 2.0), (5, 0.7), (30, 1.4)))
    ]
    return GTVMin(network_of(nx.path_graph(5)), losses, penalty=SquaredNorm(), alpha=0.3)


@instance("federated")
def federated_few_points(rng: np.random.Generator) -> GTVMin:
    """Devices with fewer data points than parameters: no device has a model of its own, all together have one."""
    losses = heterogeneous(rng, (2, 1, 2, 2, 1, 2), 3)
    return GTVMin(chorded_ring(6, rng), losses, penalty=SquaredNorm(), alpha=0.4)


@instance("federated")
def federated_unequal(rng: np.random.Generator) -> GTVMin:
    """Twelve devices around a hub, one of which has as many data points as all others together."""
    losses = heterogeneous(rng, (44, *(4 for _ in range(11))), 2)
    return GTVMin(network_of(nx.star_graph(11)), losses, penalty=SquaredNorm(), alpha=0.2)


@instance("federated")
def federated_logistic(rng: np.random.Generator) -> GTVMin:
    """Logistic losses with ``0.1 ||w||^2`` on six devices: rounds are not affine."""
    losses: list[Loss] = []
    for m in (6, 30, 10, 15, 20, 8):
        X = rng.normal(size=(m, 2))
        labels = np.where(X @ rng.normal(size=2) + rng.normal(size=m) > 0, 1.0, -1.0)
        losses.append(Logistic(X, labels) + Quadratic(0.2 * np.eye(2)))
    return GTVMin(chorded_ring(6, rng), losses, penalty=SquaredNorm(), alpha=0.3)
