"""Network Lasso: squared errors coupled by a norm, which makes neighbours agree exactly."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.datasets import make_sbm
from gtvmin.losses import SquaredError, Zero
from gtvmin.network import FLNetwork
from gtvmin.problem import GTVMin, NetworkLasso
from gtvmin.verify.instances.graphs import conditioned, network_of, pieces, regressions
from gtvmin.verify.instances.instance import instance


@instance("smoke", "network_lasso")
def lasso_two_nodes(rng: np.random.Generator) -> GTVMin:
    """Two numbers, 0 and 3, one unit of flow between them: the optimum is (1, 2), of value 2."""
    losses = [0.5 * SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return NetworkLasso(FLNetwork.from_edges([(0, 1)]), losses, lam=1.0, p=1)


@instance("smoke", "network_lasso")
def lasso_path(rng: np.random.Generator) -> GTVMin:
    """Denoising of a piecewise constant signal along a path of 30 devices."""
    signal = pieces(30, (0, 3, -1)) + 0.3 * rng.normal(size=30)
    losses = [0.5 * SquaredError([[1.0]], [value]) for value in signal]
    return NetworkLasso(network_of(nx.path_graph(30)), losses, lam=0.8)


@instance("smoke", "network_lasso")
def lasso_weighted_grid(rng: np.random.Generator) -> GTVMin:
    """A grid of 5 x 5 devices with two parameters and edge weights from 0.1 to 10."""
    W = np.where(np.arange(25)[:, None] % 5 < 2, [1.0, 2.0], [-1.0, 0.5])
    return NetworkLasso(network_of(nx.grid_2d_graph(5, 5), rng), regressions(rng, W, rows=3), lam=0.1)


@instance("smoke", "network_lasso")
def lasso_star(rng: np.random.Generator) -> GTVMin:
    """A hub without labels and eight leaves of which half agree."""
    W = np.where(np.arange(8)[:, None] < 4, [2.0, 0.0], [-1.0, 1.0])
    return NetworkLasso(network_of(nx.star_graph(8)), [Zero(), *regressions(rng, W, rows=4)], lam=0.3)


@instance("network_lasso")
def lasso_complete(rng: np.random.Generator) -> GTVMin:
    """Twelve devices, each joined to each: most fuse."""
    W = np.where(np.arange(12)[:, None] < 6, [1.0, 1.0], [-1.0, 1.0])
    return NetworkLasso(network_of(nx.complete_graph(12)), regressions(rng, W, rows=3), lam=0.05)


@instance("network_lasso")
def lasso_unlabelled(rng: np.random.Generator) -> GTVMin:
    """Two cliques with a bridge, and labels at every other device only."""
    W = np.where(np.arange(12)[:, None] < 6, [2.0, 2.0], [-2.0, 2.0])
    losses = [loss if i % 2 else Zero() for i, loss in enumerate(regressions(rng, W, rows=5))]
    return NetworkLasso(network_of(nx.barbell_graph(6, 0)), losses, lam=0.1)


@instance("smoke", "network_lasso")
def lasso_rank_deficient(rng: np.random.Generator) -> GTVMin:
    """Devices with one data point for two parameters."""
    losses = regressions(rng, np.tile([1.0, -1.0], (10, 1)), rows=1)
    return NetworkLasso(network_of(nx.circulant_graph(10, [1, 2])), losses, lam=0.1)


@instance("smoke", "network_lasso")
def lasso_duplicate_rows(rng: np.random.Generator) -> GTVMin:
    """Devices whose data points occur three times, and one whose features are all the same."""
    X, y = rng.normal(size=(8, 2, 2)), rng.normal(size=(8, 2))
    losses = [SquaredError(np.tile(X[i], (3, 1)), np.tile(y[i], 3)) for i in range(7)]
    losses.append(SquaredError(np.ones((6, 2)), np.tile(y[7], 3)))
    return NetworkLasso(network_of(nx.cycle_graph(8)), losses, lam=0.2)


@instance("smoke", "network_lasso")
def lasso_disconnected(rng: np.random.Generator) -> GTVMin:
    """Three components, of which one has no labels: its answer is not unique."""
    graph = nx.disjoint_union_all([nx.path_graph(4), nx.cycle_graph(4), nx.path_graph(3)])
    losses = [*regressions(rng, rng.normal(size=(8, 2)), rows=3), *[Zero()] * 3]
    return NetworkLasso(network_of(graph), losses, lam=0.2)


@instance("smoke", "network_lasso")
def lasso_edgeless(rng: np.random.Generator) -> GTVMin:
    """Five devices and no edge, one of them without labels."""
    losses = [*regressions(rng, rng.normal(size=(4, 2)), rows=4), Zero()]
    return NetworkLasso(network_of(nx.empty_graph(5)), losses, lam=1.0)


@instance("smoke", "network_lasso")
def lasso_l1(rng: np.random.Generator) -> GTVMin:
    """The 1-norm: coordinates fuse one by one."""
    losses = regressions(rng, rng.normal(size=(12, 3)).round(), rows=4)
    return NetworkLasso(network_of(nx.circulant_graph(12, [1, 3])), losses, lam=0.15, p=1)


@instance("network_lasso")
def lasso_linf(rng: np.random.Generator) -> GTVMin:
    """The maximum norm: coordinates move together."""
    losses = regressions(rng, rng.normal(size=(12, 3)), rows=4)
    return NetworkLasso(network_of(nx.circulant_graph(12, [1, 3])), losses, lam=0.3, p=np.inf)


@instance("network_lasso")
def lasso_sbm(rng: np.random.Generator) -> GTVMin:
    """A stochastic block model: two clusters of 30 devices, a quarter with noisy labels."""
    drawn = make_sbm(sizes=(30, 30), p_in=0.3, p_out=0.02, n_labelled=15, noise=0.2, lam=0.02, seed=2)
    return drawn.problem()


@instance("network_lasso")
def lasso_power_law(rng: np.random.Generator) -> GTVMin:
    """A network of 60 devices with a few hubs of many neighbours."""
    losses = regressions(rng, rng.normal(size=(60, 2)), rows=4)
    return NetworkLasso(network_of(nx.barabasi_albert_graph(60, 2, seed=1)), losses, lam=0.1)


@instance("network_lasso")
def lasso_ill_conditioned(rng: np.random.Generator) -> GTVMin:
    """Features with a condition number of 1,000."""
    losses = [SquaredError(conditioned(rng, 6, 3, 1e3), rng.normal(size=6), scale="sum") for _ in range(10)]
    return NetworkLasso(network_of(nx.cycle_graph(10)), losses, lam=1e-2)


@instance("network_lasso")
def lasso_mixed_units(rng: np.random.Generator) -> GTVMin:
    """Devices whose losses differ by factors from 0.001 to 1000, and edge weights alike."""
    losses = regressions(rng, rng.normal(size=(12, 2)), rows=4)
    scaled = [factor * loss for factor, loss in zip(np.logspace(-3, 3, 12), losses, strict=True)]
    return NetworkLasso(network_of(nx.cycle_graph(12), rng, spread=3.0), scaled, lam=0.1)


@instance("network_lasso")
def lasso_near_merge(rng: np.random.Generator) -> GTVMin:
    """Two devices at 1 - 1e-6 of the strength at which they merge."""
    losses = [0.5 * SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return NetworkLasso(FLNetwork.from_edges([(0, 1)]), losses, lam=1.5 * (1 - 1e-6))


@instance("network_lasso")
def lasso_merged(rng: np.random.Generator) -> GTVMin:
    """A strength far above that at which all devices agree."""
    losses = regressions(rng, rng.normal(size=(10, 2)), rows=4)
    return NetworkLasso(network_of(nx.path_graph(10)), losses, lam=1e4)
