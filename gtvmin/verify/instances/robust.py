"""Huber functions: quadratic near zero and linear beyond, for data or edges that are outliers."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.losses import Huber
from gtvmin.penalties import HuberPenalty, Norm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import network_of, regressions
from gtvmin.verify.instances.instance import instance


@instance("smoke")
def robust_outliers(rng: np.random.Generator) -> GTVMin:
    """Huber losses on a cycle: at every other device one label of six is far off."""
    X = rng.normal(size=(8, 6, 2))
    y = X @ [1.0, -1.0] + 0.2 * rng.normal(size=(8, 6))
    y[::2, 0] += 10.0
    losses = [Huber(X[i], y[i], delta=0.5) for i in range(8)]
    return GTVMin(network_of(nx.cycle_graph(8)), losses, penalty=Norm(2), alpha=0.1)


@instance("smoke")
def robust_edges(rng: np.random.Generator) -> GTVMin:
    """The Huber penalty on two groups of devices: inside of them differences are small, in between they are large."""
    W = np.where(np.arange(8)[:, None] < 4, [2.0, 0.0], [-1.0, 1.0])
    losses = regressions(rng, W, rows=4)
    return GTVMin(network_of(nx.barbell_graph(4, 0)), losses, penalty=HuberPenalty(0.2), alpha=0.4)
