"""Problems whose dual is a minimum-cost flow: linear losses are demands, the penalty holds costs and capacities."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.losses import Linear, SquaredDistance
from gtvmin.network import FLNetwork
from gtvmin.penalties import FlowCost, Norm, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import Array, network_of
from gtvmin.verify.instances.instance import instance


def within_reach(net: FLNetwork, rng: np.random.Generator, largest: float) -> tuple[Array, Array]:
    """Demands (n_nodes,) that random flows of at most `largest` meet, and capacities (n_edges,) with room for these."""
    flow = rng.uniform(-largest, largest, net.n_edges)
    return net.incidence().T @ flow, np.abs(flow) + rng.uniform(0.2, 1.0, net.n_edges)


@instance("smoke", "flow")
def flow_two_routes(rng: np.random.Generator) -> GTVMin:
    """Three units from 0 to 2: two by the cheap route of capacity 2, one by the dear one; the cost is 2 * 2 + 5 = 9."""
    net = FLNetwork.from_edges([(0, 1), (1, 2), (0, 2)])
    losses = [Linear([-demand]) for demand in (-3.0, 0.0, 3.0)]
    return GTVMin(net, losses, penalty=FlowCost(cost=[1.0, 1.0, 5.0], capacity=[2.0, 2.0, 4.0]), alpha=1.0)


@instance("flow")
def flow_grid(rng: np.random.Generator) -> GTVMin:
    """A grid of 4 x 4 nodes with a cost and a capacity for every edge."""
    net = network_of(nx.grid_2d_graph(4, 4))
    demand, capacity = within_reach(net, rng, largest=2.0)
    penalty = FlowCost(cost=rng.uniform(1.0, 3.0, net.n_edges), capacity=capacity)
    return GTVMin(net, [Linear([-wanted]) for wanted in demand], penalty=penalty, alpha=1.0)


@instance("flow")
def flow_one_way(rng: np.random.Generator) -> GTVMin:
    """Arcs that can be used in one direction only."""
    net = network_of(nx.circulant_graph(8, [1, 2]))
    flow = rng.uniform(0.0, 2.0, net.n_edges)
    penalty = FlowCost(cost=rng.uniform(1.0, 3.0, net.n_edges), capacity=flow + 0.5, back_capacity=0.0)
    demand = net.incidence().T @ flow
    return GTVMin(net, [Linear([-wanted]) for wanted in demand], penalty=penalty, alpha=1.0)


@instance("flow")
def flow_price_of_shortage(rng: np.random.Generator) -> GTVMin:
    """Demands that may be missed at a quadratic price, so that any capacities will do."""
    net = network_of(nx.path_graph(12))
    losses = [Linear([-wanted]) + 0.5 * SquaredDistance(0.0) for wanted in rng.normal(size=12)]
    return GTVMin(net, losses, penalty=FlowCost(cost=0.5, capacity=0.4), alpha=1.0)


@instance("flow")
def flow_quadratic_cost(rng: np.random.Generator) -> GTVMin:
    """Electrical flow: the cost of a unit grows with the flow, and the optimum is one Laplacian system."""
    net = network_of(nx.circulant_graph(12, [1, 4]), rng, spread=0.5)
    demand = rng.normal(size=(12, 1))
    losses = [Linear(-row) for row in demand - demand.mean()]
    return GTVMin(net, losses, penalty=SquaredNorm(), alpha=0.5)


@instance("flow")
def flow_vector(rng: np.random.Generator) -> GTVMin:
    """Flows of two goods that share each edge's capacity, with a quadratic price of shortage."""
    net = network_of(nx.grid_2d_graph(3, 4))
    losses = [Linear(-row) + 0.5 * SquaredDistance(0.0) for row in rng.normal(size=(12, 2))]
    return GTVMin(net, losses, penalty=Norm(2), alpha=0.3)
