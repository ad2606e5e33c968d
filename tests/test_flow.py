"""Minimum-cost flows: networkx on integers, linear programming on reals, and proofs that there is no optimum."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import gtvmin as gtv
from gtvmin.errors import InfeasibleError, UnboundedError
from gtvmin.flow import MinCostFlow


def random_graph(seed: int, *, integer: bool, directed: bool = True) -> nx.DiGraph:
    """A network with a feasible flow: capacities exceed those of a random one."""
    rng = np.random.default_rng(seed)
    graph = nx.gnp_random_graph(7, 0.4, seed=seed, directed=directed)
    graph.add_edges_from((i, i + 1) for i in range(6))
    if directed:  # networkx and gtvmin agree on to-and-fro arcs as well, whose costs are not negative
        graph.remove_edges_from([(u, v) for u, v in list(graph.edges) if u > v and rng.random() < 0.5])
    demand = np.zeros(7)
    for u, v, data in graph.edges(data=True):
        flow = rng.integers(0, 6) if integer else rng.uniform(0, 5)
        data["capacity"] = flow + (rng.integers(0, 4) if integer else rng.uniform(0, 3))
        data["weight"] = rng.integers(0, 10) if integer else rng.uniform(0, 9)
        demand[u] -= flow
        demand[v] += flow
    for node in graph:
        graph.nodes[node]["demand"] = int(demand[node]) if integer else demand[node]
    if integer:
        for *_, data in graph.edges(data=True):
            data["capacity"], data["weight"] = int(data["capacity"]), int(data["weight"])
    return graph


def program(graph: nx.DiGraph) -> float:
    """Least cost by a linear program written here."""
    arcs = list(graph.edges(data=True))
    A = np.zeros((len(graph), len(arcs)))
    for k, (u, v, _) in enumerate(arcs):
        A[u, k], A[v, k] = -1.0, 1.0
    demand = [graph.nodes[node]["demand"] for node in graph]
    bounds = [(0, data.get("capacity")) for *_, data in arcs]
    result = linprog([data["weight"] for *_, data in arcs], A_eq=A, b_eq=demand, bounds=bounds)
    return float(result.fun)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_integer_data_against_network_simplex(seed: int) -> None:
    graph = random_graph(seed, integer=True)
    cost, flows = nx.network_simplex(graph)
    solution = MinCostFlow.from_networkx(graph).solve()
    assert solution.cost == pytest.approx(cost, abs=1e-7)
    assert solution.gap <= 1e-7
    found = solution.as_dict()
    assert nx.cost_of_flow(graph, {u: {v: found[u].get(v, 0.0) for v in flows[u]} for u in flows}) == pytest.approx(
        cost
    )
    assert np.allclose(solution.flows, np.round(solution.flows), atol=1e-9)  # a vertex: an integer flow
    for node in graph:
        net = sum(found[u].get(node, 0.0) for u in graph) - sum(found[node].values())
        assert net == pytest.approx(graph.nodes[node]["demand"], abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_real_data_against_a_linear_program(seed: int) -> None:
    graph = random_graph(seed, integer=False)
    solution = MinCostFlow.from_networkx(graph).solve()
    assert solution.cost == pytest.approx(program(graph), rel=1e-8)
    assert solution.gap <= 1e-7 * max(1.0, solution.cost)
    for u, found in solution.as_dict().items():
        for v, amount in found.items():
            assert amount <= graph.edges[u, v]["capacity"] * (1 + 1e-12)


def test_the_primal_dual_method_finds_the_same() -> None:
    graph = random_graph(3, integer=False)
    problem = MinCostFlow.from_networkx(graph)
    solution = problem.solve("adaptive_primal_dual", gap=1e-6)
    assert solution.cost == pytest.approx(program(graph), rel=2e-6)


def test_potentials_are_those_of_complementary_slackness() -> None:
    graph = random_graph(11, integer=True)
    solution = MinCostFlow.from_networkx(graph).solve()
    found, pi = solution.as_dict(), solution.potentials
    for u, v, data in graph.edges(data=True):
        reduced = data["weight"] - float(pi[u][0]) + float(pi[v][0])
        amount = found[u].get(v, 0.0) - found[v].get(u, 0.0) * graph.has_edge(v, u)
        if amount > 1e-7:
            assert reduced <= 1e-7
        if reduced > 1e-7:
            assert found[u].get(v, 0.0) <= 1e-7


def test_c21_real_costs_end() -> None:
    """C21, networkx issues #1858, #609, #3480: network simplex never returns on real costs."""
    graph = nx.Graph()
    graph.add_edge("i", "j", cost=0.9)
    graph.add_edge("j", "k", cost=0.9)
    nx.set_node_attributes(graph, {"i": 1.0, "j": 1.0, "k": -2.0}, "demand")
    solution = MinCostFlow.from_networkx(graph, weight="cost").solve()
    assert solution.cost == pytest.approx(2.7, abs=1e-9)
    assert solution.gap < 1e-9
    assert solution.as_dict() == {"i": {}, "j": {"i": pytest.approx(1.0)}, "k": {"j": pytest.approx(2.0)}}


def test_c23_demands_that_no_arc_can_meet() -> None:
    """C23, networkx issue #2906: supply and demand in different components."""
    graph = nx.DiGraph()
    graph.add_nodes_from(range(5))
    graph.add_edges_from([(0, 2), (0, 3), (2, 1)], capacity=20, weight=0.1)
    graph.nodes[3]["demand"], graph.nodes[4]["demand"] = 13, -13
    with pytest.raises(InfeasibleError, match="component") as caught:
        MinCostFlow.from_networkx(graph).solve()
    assert set(caught.value.nodes) == {0, 1, 2, 3}
    assert caught.value.demand == 13


def test_infeasible_by_a_cut() -> None:
    graph = nx.DiGraph()
    graph.add_edge("s", "a", capacity=2.5, weight=1.0)
    graph.add_edge("s", "b", capacity=1.0, weight=1.0)
    graph.add_edge("a", "t", capacity=9.0, weight=1.0)
    graph.add_edge("b", "t", capacity=9.0, weight=1.0)
    nx.set_node_attributes(graph, {"s": -4.0, "t": 4.0}, "demand")
    with pytest.raises(InfeasibleError, match=r"demand 4 in all, .* carry at most 3\.5") as caught:
        MinCostFlow.from_networkx(graph).solve()
    inside = set(caught.value.nodes)
    crossing = sum(data["capacity"] for u, v, data in graph.edges(data=True) if v in inside and u not in inside)
    wanted = sum(graph.nodes[node].get("demand", 0.0) for node in inside)
    assert (wanted, crossing) == (caught.value.demand, caught.value.capacity)
    assert wanted > crossing


def test_unbounded_by_a_cycle() -> None:
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=1.0)
    graph.add_edge("b", "c", weight=-3.0)
    graph.add_edge("c", "a", weight=1.5)
    with pytest.raises(UnboundedError, match=r"no capacity limit and cost -0\.5") as caught:
        MinCostFlow.from_networkx(graph)
    cycle = caught.value.cycle
    assert sum(graph.edges[u, v]["weight"] for u, v in zip(cycle, cycle[1:] + cycle[:1], strict=True)) == -0.5
    graph.edges["b", "c"]["capacity"] = 2.0
    assert MinCostFlow.from_networkx(graph).solve().cost == pytest.approx(-1.0, abs=1e-9)


def test_to_networkx_and_back() -> None:
    graph = random_graph(5, integer=True)
    back = MinCostFlow.from_networkx(graph).to_networkx()
    used = {(u, v): (d["capacity"], d["weight"]) for u, v, d in graph.edges(data=True) if d["capacity"] > 0}
    assert {(u, v): (d["capacity"], d["weight"]) for u, v, d in back.edges(data=True)} == used
    assert dict(back.nodes(data="demand")) == dict(graph.nodes(data="demand"))


@pytest.mark.parametrize("penalty", [gtv.Norm(1), gtv.Norm(2), gtv.SquaredNorm()], ids=repr)
def test_the_dual_of_any_problem(penalty: gtv.Penalty) -> None:
    """Cost of the flows is minus the optimal value of the problem, here known through CVXPY."""
    rng = np.random.default_rng(0)
    losses = [gtv.SquaredError(rng.normal(size=(4, 2)), rng.normal(size=4)) for _ in range(5)]
    problem = gtv.GTVMin(nx.cycle_graph(5), losses, penalty=penalty, alpha=0.2)
    flow = problem.dual()
    solution = flow.solve(gap=1e-9)
    assert solution.cost == pytest.approx(-problem.solve(method="cvxpy", gap=1e-7).objective, rel=1e-7)
    assert solution.bound <= solution.cost
    assert "over flows u_e in R^2 on 5 edges" in str(flow)
    with pytest.raises(ValueError, match="only scalar flows have arcs"):
        flow.to_networkx()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda g: g.add_edge(0, 0), "arc to itself"),
        (lambda g: g.edges[0, 1].update(capacity=-1), r"capacity of arc \(0, 1\) must be >= 0"),
        (lambda g: g.edges[0, 1].update(weight=float("nan")), r"weight of arc \(0, 1\)"),
        (lambda g: g.nodes[1].update(demand=float("inf")), "demand of node 1"),
    ],
)
def test_errors_name_the_arc(change, match: str) -> None:
    graph = random_graph(0, integer=True)
    change(graph)
    with pytest.raises(ValueError, match=match):
        MinCostFlow.from_networkx(graph)
    with pytest.raises(ValueError, match="multigraph"):
        MinCostFlow.from_networkx(nx.MultiDiGraph(graph))
