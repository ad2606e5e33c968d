"""Small graphs of cities for tests of networks."""

from __future__ import annotations

import networkx as nx

CITIES = ("Oulu", "Turku", "Vaasa", "Inari")


def weighted_graph() -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(CITIES)
    graph.add_weighted_edges_from([("Turku", "Oulu", 2.0), ("Vaasa", "Turku", 0.5)])
    return graph
