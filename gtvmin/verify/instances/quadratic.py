"""Quadratic losses coupled by the squared norm: each is one linear system."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.losses import Ridge, SquaredDistance, SquaredError, Zero
from gtvmin.network import FLNetwork
from gtvmin.penalties import SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import conditioned, network_of, pieces, regressions
from gtvmin.verify.instances.instance import instance

SMOOTH = SquaredNorm()


@instance("smoke", "quadratic")
def quadratic_two_nodes(rng: np.random.Generator) -> GTVMin:
    """Two numbers, 0 and 3, halfway drawn together: the optimum is (1, 2), of value 1.5."""
    losses = [0.5 * SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    return GTVMin(FLNetwork.from_edges([(0, 1)]), losses, penalty=SMOOTH, alpha=0.5)


@instance("quadratic")
def quadratic_path(rng: np.random.Generator) -> GTVMin:
    """A path of 40 devices of which three have labels: the others interpolate."""
    losses = [SquaredError([[1.0]], [y]) if i in (0, 13, 39) else Zero() for i, y in enumerate(pieces(40, (1, -2, 4)))]
    return GTVMin(network_of(nx.path_graph(40)), losses, penalty=SMOOTH, alpha=0.5)


@instance("smoke", "quadratic")
def quadratic_weighted_grid(rng: np.random.Generator) -> GTVMin:
    """A grid of 6 x 6 devices with two parameters and edge weights from 0.1 to 10."""
    losses = regressions(rng, rng.normal(size=(36, 2)), rows=3)
    return GTVMin(network_of(nx.grid_2d_graph(6, 6), rng), losses, penalty=SMOOTH, alpha=0.3)


@instance("quadratic")
def quadratic_star(rng: np.random.Generator) -> GTVMin:
    """A hub without labels and twelve leaves."""
    losses = [Zero(), *regressions(rng, rng.normal(size=(12, 2)), rows=4)]
    return GTVMin(network_of(nx.star_graph(12)), losses, penalty=SMOOTH, alpha=1.0)


@instance("quadratic")
def quadratic_complete(rng: np.random.Generator) -> GTVMin:
    """Ten devices, each joined to each, with ridge losses that leave the intercept free."""
    X = np.dstack([rng.normal(size=(10, 5)), np.ones((10, 5))])
    losses = [Ridge(X[i], rng.normal(size=5) + i, lam=0.1, penalise=[1, 0]) for i in range(10)]
    return GTVMin(network_of(nx.complete_graph(10)), losses, penalty=SMOOTH, alpha=0.05)


@instance("quadratic")
def quadratic_power_law(rng: np.random.Generator) -> GTVMin:
    """A network of 80 devices with a few hubs of many neighbours."""
    losses = regressions(rng, rng.normal(size=(80, 3)), rows=5)
    return GTVMin(network_of(nx.barabasi_albert_graph(80, 2, seed=1)), losses, penalty=SMOOTH, alpha=0.2)


@instance("quadratic")
def quadratic_rank_deficient(rng: np.random.Generator) -> GTVMin:
    """Devices with one data point for three parameters: no device can be fitted alone."""
    losses = regressions(rng, np.tile(rng.normal(size=3), (15, 1)), rows=1)
    return GTVMin(network_of(nx.cycle_graph(15)), losses, penalty=SMOOTH, alpha=0.2)


@instance("quadratic")
def quadratic_ill_conditioned(rng: np.random.Generator) -> GTVMin:
    """Features with a condition number of 10,000."""
    losses = [SquaredError(conditioned(rng, 6, 3, 1e4), rng.normal(size=6), scale="sum") for _ in range(12)]
    return GTVMin(network_of(nx.cycle_graph(12)), losses, penalty=SMOOTH, alpha=1e-3)


@instance("quadratic")
def quadratic_weak_coupling(rng: np.random.Generator) -> GTVMin:
    """With alpha = 1e-8 the devices are almost on their own."""
    losses = regressions(rng, rng.normal(size=(10, 2)), rows=4)
    return GTVMin(network_of(nx.path_graph(10)), losses, penalty=SMOOTH, alpha=1e-8)


@instance("quadratic")
def quadratic_strong_coupling(rng: np.random.Generator) -> GTVMin:
    """With alpha = 1e6 the devices almost agree."""
    losses = regressions(rng, rng.normal(size=(10, 2)), rows=4)
    return GTVMin(network_of(nx.path_graph(10)), losses, penalty=SMOOTH, alpha=1e6)


@instance("smoke", "quadratic")
def quadratic_disconnected(rng: np.random.Generator) -> GTVMin:
    """Two triangles that no edge joins, and a device without neighbours."""
    graph = nx.disjoint_union_all([nx.cycle_graph(3), nx.cycle_graph(3), nx.empty_graph(1)])
    losses = regressions(rng, rng.normal(size=(7, 2)), rows=3)
    return GTVMin(network_of(graph), losses, penalty=SMOOTH, alpha=0.5)


@instance("quadratic")
def quadratic_edgeless(rng: np.random.Generator) -> GTVMin:
    """Six devices and no edge."""
    losses = regressions(rng, rng.normal(size=(6, 2)), rows=4)
    return GTVMin(network_of(nx.empty_graph(6)), losses, penalty=SMOOTH, alpha=1.0)


@instance("quadratic")
def quadratic_large_units(rng: np.random.Generator) -> GTVMin:
    """Graph signal denoising in units in which the signal is of size 1e8."""
    losses = [SquaredDistance([1e8 * value + 1e7 * rng.normal()]) for value in pieces(30, (1, -1, 2))]
    return GTVMin(network_of(nx.path_graph(30)), losses, penalty=SMOOTH, alpha=2.0)


@instance("quadratic")
def quadratic_small_units(rng: np.random.Generator) -> GTVMin:
    """Graph signal denoising in units in which the signal is of size 1e-8."""
    losses = [SquaredDistance([1e-8 * value + 1e-9 * rng.normal()]) for value in pieces(30, (1, -1, 2))]
    return GTVMin(network_of(nx.path_graph(30)), losses, penalty=SMOOTH, alpha=2.0)
