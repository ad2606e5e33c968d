"""Instances on which methods slow down, stall or lose digits."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.clustering.problem import ConvexClustering
from gtvmin.datasets import make_sbm
from gtvmin.losses import LeastAbsolute, Logistic, Quantile, SquaredDistance, SquaredError, Zero
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm, SquaredNorm
from gtvmin.problem import GTVMin, NetworkLasso
from gtvmin.verify.instances.graphs import conditioned, network_of, pieces, regressions
from gtvmin.verify.instances.instance import instance


@instance("hard")
def hard_long_path(rng: np.random.Generator) -> GTVMin:
    """A path of 500 devices of which five have labels: news travel slowly along it."""
    labels = dict(zip((0, 120, 250, 380, 499), (1.0, -2.0, 3.0, 0.0, 2.0), strict=True))
    losses = [SquaredError([[1.0]], [labels[i]]) if i in labels else Zero(1) for i in range(500)]
    return NetworkLasso(network_of(nx.path_graph(500)), losses, lam=0.3)


@instance("hard")
def hard_paper_sbm(rng: np.random.Generator) -> GTVMin:
    """The stochastic block model of arXiv 2010.14159: 300 devices, 30 of them labelled, 11,000 edges."""
    return make_sbm(seed=0).problem()


@instance("hard")
def hard_ill_conditioned(rng: np.random.Generator) -> GTVMin:
    """Features with a condition number of a million."""
    losses = [SquaredError(conditioned(rng, 6, 3, 1e6), rng.normal(size=6), scale="sum") for _ in range(10)]
    return NetworkLasso(network_of(nx.cycle_graph(10)), losses, lam=1e-2)


@instance("hard")
def hard_mixed_units(rng: np.random.Generator) -> GTVMin:
    """Devices whose losses differ by factors from 1e-8 to 1e8."""
    losses = regressions(rng, rng.normal(size=(9, 2)), rows=4)
    scaled = [factor * loss for factor, loss in zip(np.logspace(-8, 8, 9), losses, strict=True)]
    return GTVMin(network_of(nx.cycle_graph(9)), scaled, penalty=SquaredNorm(), alpha=1.0)


@instance("hard")
def hard_many_mergers(rng: np.random.Generator) -> GTVMin:
    """Clustering at a strength at which several pairs of clusters are about to merge at once."""
    points = np.stack(np.meshgrid([0.0, 1.0, 4.0, 5.0], [0.0, 1.0, 4.0, 5.0]), axis=-1).reshape(-1, 2)
    return ConvexClustering(points, weights=network_of(nx.grid_2d_graph(4, 4)), lam=0.499)


@instance("hard")
def hard_weak_bridge(rng: np.random.Generator) -> GTVMin:
    """Two grids joined by one edge a million times weaker than theirs."""
    graph = nx.disjoint_union(nx.grid_2d_graph(4, 4), nx.grid_2d_graph(4, 4))
    edges = [(u, v, 1.0) for u, v in sorted(graph.edges)] + [(15, 16, 1e-6)]
    losses = regressions(rng, np.repeat([[1.0, 0.0], [0.0, 1.0]], 16, axis=0), rows=3)
    return NetworkLasso(FLNetwork.from_edges(edges, nodes=range(32)), losses, lam=0.5)


@instance("hard")
def hard_piecewise_linear(rng: np.random.Generator) -> GTVMin:
    """Least absolute deviations with the 1-norm: a linear program, with corners everywhere."""
    signal = pieces(30, (0, 3, -1)) + 0.3 * rng.normal(size=30)
    losses = [LeastAbsolute([[1.0]], [value]) for value in signal]
    return GTVMin(network_of(nx.path_graph(30)), losses, penalty=Norm(1), alpha=0.4)


@instance("hard")
def hard_quantiles(rng: np.random.Generator) -> GTVMin:
    """The 90 per cent quantile of every device's readings, neighbours coupled by the 2-norm."""
    X = np.dstack([np.ones((9, 8)), rng.normal(size=(9, 8))])
    losses = [Quantile(X[i], rng.normal(size=8) + i, tau=0.9) for i in range(9)]
    return GTVMin(network_of(nx.grid_2d_graph(3, 3)), losses, penalty=Norm(2), alpha=0.1)


@instance("hard")
def hard_nearly_separable(rng: np.random.Generator) -> GTVMin:
    """Logistic losses of separable data with a ridge of 1e-6: the parameters are large."""
    X = rng.normal(size=(6, 8, 2))
    losses = [Logistic(x, np.where(x @ [2.0, 1.0] > 0, 1, -1)) + 1e-6 * SquaredDistance(0.0) for x in X]
    return GTVMin(network_of(nx.cycle_graph(6)), losses, penalty=Norm(2), alpha=0.01)
