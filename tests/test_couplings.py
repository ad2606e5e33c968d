"""Couplings against models written here device by device and edge by edge, closed forms and symmetries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from coupling_problems import (
    EDGES,
    FEATURES,
    FLOW,
    LOSSES,
    NEAR,
    NET,
    NODES,
    PAIRS,
    PENALTIES,
    POINTS,
    TALL,
    fitting,
    on_edges,
    optimum,
    problem_of,
    scalars,
    solved,
)
from gtvmin.penalties import PerEdge


# Every penalty with every kind of loss
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("kind", LOSSES)
def test_solvers_and_models_agree(kind: str, name: str) -> None:
    problem = problem_of(kind, PENALTIES[name])
    best, _ = optimum(dict(zip(NODES, problem.losses, strict=True)), [(EDGES, PENALTIES[name], 0.3)])
    reference = solved(problem, "cvxpy", gap=1e-7)
    assert reference.objective == pytest.approx(best, rel=1e-6, abs=1e-9)
    methods = fitting(problem)
    assert len(methods) == (3 if name in QUADRATIC else 2)
    for method in methods:
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6, abs=1e-9)
        assert best >= solution.certificate.dual - 1e-9


QUADRATIC = {"test_points", "test_points_by_edge", "matrix", "partial_points", "maps_by_edge", "consensus"}


@pytest.mark.parametrize("name", PENALTIES)
def test_flows_alone_prove_the_optimum_and_obey_the_optimality_condition(name: str) -> None:
    """``U_e`` is a subgradient of ``alpha A_e phi_e`` at ``z_e``: their Fenchel-Young sum vanishes."""
    problem = problem_of("full_rank", PENALTIES[name])
    solution = solved(problem, gap=1e-10)
    again = gtv.certify(problem, solution.weights, solution.flows)
    assert again.relative_gap < 1e-9
    assert again.per_edge.shape == (6,)
    for (penalty, (source, target)), (_, _, weight) in zip(on_edges(PENALTIES[name], PAIRS), EDGES, strict=True):
        flow = solution.flow(source, target) / (0.3 * weight)
        if isinstance(penalty, gtv.Mapped):
            z = penalty.maps[0] @ solution[target] - penalty.maps[1] @ solution[source]
        else:
            z = solution[target] - solution[source]
        assert flow.shape == z.shape
        if "consensus" in name or isinstance(penalty, gtv.Consensus):
            continue
        scale = 1.0 - 1e-9  # rounding may have put the flow outside its ball
        assert penalty.value(z) + penalty.conjugate(scale * flow) == pytest.approx(scale * flow @ z, abs=1e-5)


# Penalties that differ from edge to edge
def test_penalties_by_mapping_function_and_attribute_are_the_same() -> None:
    kinds = {("a", "b"): gtv.Norm(2), ("b", "c"): gtv.Norm(2), ("a", "c"): gtv.HuberPenalty(0.1)}
    graph = nx.Graph([(*pair, {"kind": penalty}) for pair, penalty in kinds.items()])
    losses = {node: LOSSES["full_rank"](i) for i, node in enumerate("abc")}
    by_mapping = gtv.GTVMin(graph, losses, penalty=kinds, alpha=0.2)
    by_function = gtv.GTVMin(graph, losses, penalty=lambda a, b: kinds[a, b], alpha=0.2)
    by_name = gtv.GTVMin(graph, losses, penalty="kind", alpha=0.2)
    assert by_mapping.hash == by_function.hash == by_name.hash
    assert isinstance(by_mapping.penalty, PerEdge)
    assert by_mapping.penalty.kinds == (gtv.Norm(2), gtv.HuberPenalty(0.1))
    assert len(by_mapping.lowered.form.couplings) == 2
    same = gtv.GTVMin(graph, losses, penalty=dict.fromkeys(kinds, gtv.Norm(2)), alpha=0.2)
    assert same.hash == gtv.GTVMin(graph, losses, penalty=gtv.Norm(2), alpha=0.2).hash


def test_penalties_of_one_kind_are_one_term() -> None:
    deltas = {pair: gtv.HuberPenalty(0.1 * (k + 1)) for k, pair in enumerate(PAIRS)}
    costs = {pair: gtv.FlowCost(0.1 * k, 1.0 + k) for k, pair in enumerate(PAIRS)}
    for kinds in (deltas, costs):
        problem = problem_of("full_rank", kinds)
        assert len(problem.lowered.form.couplings) == 1
        best, _ = optimum(dict(zip(NODES, problem.losses, strict=True)), [(EDGES, kinds, 0.3)])
        assert solved(problem, gap=1e-7).objective == pytest.approx(best, rel=1e-6)
    by_array = problem_of("full_rank", gtv.FlowCost(0.1 * np.arange(6), 1.0 + np.arange(6)))
    assert solved(by_array, gap=1e-9).objective == pytest.approx(solved(problem, gap=1e-9).objective, rel=1e-8)


def test_a_pair_that_is_turned_round_turns_its_penalty_round() -> None:
    """An arc from 1 to 0 with cost 1: only ``w_0 - w_1 > 1`` is penalised."""
    net = gtv.FLNetwork.from_edges([(0, 1)])
    arc = gtv.FlowCost(1.0, 10.0, back_capacity=0.0)
    down = solved(gtv.GTVMin(net, scalars(0, 5), penalty={(1, 0): arc}, alpha=1.0), gap=1e-9)
    assert down.objective == pytest.approx(0.0, abs=1e-9)
    up = solved(gtv.GTVMin(net, scalars(5, 0), penalty={(1, 0): arc}, alpha=1.0), gap=1e-10)
    np.testing.assert_allclose(up.weights[:, 0], [3.0, 2.0], atol=1e-5)
    assert up.flow(1, 0)[0] == pytest.approx(2.0, abs=1e-5)


# Symmetries
def test_reversing_edges_with_their_matrices_exchanged_changes_nothing() -> None:
    turned = {(b, a): (C, B) for (a, b), (B, C) in NEAR.items()}
    for inner in (gtv.Norm(2), gtv.SquaredNorm(), gtv.HuberPenalty(0.2)):
        forward = solved(problem_of("full_rank", gtv.Mapped(inner, NEAR)), gap=1e-9)
        backward = solved(problem_of("full_rank", gtv.Mapped(inner, turned)), gap=1e-9)
        np.testing.assert_array_equal(forward.weights, backward.weights)
        mapping = {pair: gtv.Mapped(inner, maps) for pair, maps in turned.items()}
        by_edge = solved(problem_of("full_rank", mapping), gap=1e-9)
        np.testing.assert_allclose(by_edge.weights, forward.weights, atol=1e-7)
        np.testing.assert_allclose(by_edge.flow("b", "a"), -forward.flow("a", "b"), atol=1e-6)


@pytest.mark.parametrize("name", ["huber", "two_way_flow", "test_points_by_edge", "partial", "maps_by_edge", "mixed"])
def test_the_order_of_nodes_does_not_matter(name: str) -> None:
    """Nodes in reverse order turn every edge round: what is declared by pairs keeps its meaning."""
    declared = PENALTIES[name]
    if isinstance(declared, gtv.FlowCost):
        declared = dict.fromkeys(PAIRS, declared)
    losses = {node: LOSSES["full_rank"](i) for i, node in enumerate(NODES)}
    reverse = gtv.FLNetwork.from_edges(EDGES[::-1], nodes=NODES[::-1])
    here = solved(gtv.GTVMin(NET, losses, penalty=declared, alpha=0.3), gap=1e-9)
    there = solved(gtv.GTVMin(reverse, losses, penalty=declared, alpha=0.3), gap=1e-9)
    assert there.objective == pytest.approx(here.objective, rel=1e-8)
    for node in NODES:
        np.testing.assert_allclose(there[node], here[node], atol=2e-4)
    relabelled = {node: LOSSES["full_rank"](i) for i, node in enumerate(NODES)}
    names = {node: (node, 1) for node in NODES}
    network = gtv.FLNetwork.from_edges([(names[a], names[b], c) for a, b, c in EDGES], nodes=names.values())
    if not isinstance(declared, Mapping) and name not in ("test_points_by_edge", "maps_by_edge"):
        problem = gtv.GTVMin(network, {names[n]: loss for n, loss in relabelled.items()}, penalty=declared, alpha=0.3)
        np.testing.assert_array_equal(solved(problem, gap=1e-9).weights, here.weights)


def test_permuting_a_vertical_pair_of_maps_and_scaling_them() -> None:
    """``Norm(2)`` of maps c B and c C is c times that of B and C."""
    scaled = tuple(2.0 * M for M in TALL)
    one = solved(problem_of("full_rank", gtv.Mapped(gtv.Norm(2), scaled), 0.1), gap=1e-9)
    two = solved(problem_of("full_rank", gtv.Mapped(gtv.Norm(2), TALL), 0.2), gap=1e-9)
    assert one.objective == pytest.approx(two.objective, rel=1e-8)
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-4)


def test_identity_maps_are_the_plain_penalty() -> None:
    identity = (np.eye(3), np.eye(3))
    for inner in (gtv.Norm(2), FLOW):
        mapped = solved(problem_of("unlabelled", gtv.Mapped(inner, identity)), gap=1e-8)
        plain = solved(problem_of("unlabelled", inner), gap=1e-8)
        assert mapped.objective == pytest.approx(plain.objective, rel=2e-8)


# What is not unique
def test_directions_that_no_coupling_carries_are_undetermined() -> None:
    """``b`` and ``e`` have no data: a partial coupling leaves their other coordinate free."""
    assert problem_of("unlabelled", gtv.Norm(2)).undetermined() == ()
    assert problem_of("unlabelled", gtv.Partial(gtv.Norm(2), [0, 1])).undetermined() == ("b", "e")
    assert problem_of("unlabelled", gtv.Partial(gtv.Norm(2), [2, 0, 1])).undetermined() == ()
    assert problem_of("unlabelled", gtv.Consensus()).undetermined() == ()
    assert problem_of("unlabelled", gtv.Mapped(gtv.Norm(2), TALL)).undetermined() == ()
    leaf = {node: gtv.Zero(3) if node == "f" else LOSSES["full_rank"](i) for i, node in enumerate(NODES)}
    tall = gtv.Mapped(gtv.Norm(2), TALL)  # two conditions on three parameters
    assert gtv.GTVMin(NET, leaf, penalty=tall, alpha=1.0).undetermined() == ("f",)
    low_rank = gtv.PredictionDiscrepancy(POINTS["b", "c"])
    assert problem_of("unlabelled", low_rank).undetermined() == ("b", "e")
    assert problem_of("full_rank", low_rank).undetermined() == ()
    both = problem_of("unlabelled", gtv.Partial(gtv.Norm(2), [0])).couple(NET, gtv.Partial(gtv.Norm(1), [1, 2]), 1.0)
    assert both.undetermined() == ()
    assert both.with_alpha(0.0).undetermined() == ("b", "e")


# Files and fingerprints
@pytest.mark.parametrize("name", PENALTIES)
def test_problems_survive_a_file(name: str, tmp_path: Path) -> None:
    problem = problem_of("full_rank", PENALTIES[name])
    again = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert again.hash == problem.hash
    assert again.penalty == problem.penalty
    W = np.tile(FEATURES[0, 0], (6, 1))
    assert again.objective(W) == problem.objective(W)


def test_every_part_of_a_coupling_counts_for_the_hash() -> None:
    base = problem_of("full_rank", gtv.Norm(2))
    other = gtv.FLNetwork.from_edges([("a", "f", 2.0)])
    variants = [
        base,
        base.with_alpha(np.inf),
        base.couple(other, gtv.Norm(2), 1.0),
        base.couple(other, gtv.Norm(2), 2.0),
        base.couple(other, gtv.Norm(1), 1.0),
        base.couple(gtv.FLNetwork.from_edges([("a", "f", 1.0)]), gtv.Norm(2), 1.0),
        problem_of("full_rank", gtv.Partial(gtv.Norm(2), [0])),
        problem_of("full_rank", gtv.Partial(gtv.Norm(2), [1])),
        problem_of("full_rank", {**dict.fromkeys(PAIRS, gtv.Norm(2)), PAIRS[0]: gtv.Norm(1)}),
        problem_of("full_rank", {**dict.fromkeys(PAIRS, gtv.Norm(2)), PAIRS[1]: gtv.Norm(1)}),
        problem_of("full_rank", PENALTIES["maps"]),
        problem_of("full_rank", gtv.Mapped(gtv.Norm(1), TALL[::-1])),
    ]
    assert len({problem.hash for problem in variants}) == len(variants)


# What does not fit is refused at declaration, by the name of the edge
EDGE_AB = r"\('a', 'b'\)"

BAD: list[tuple[Any, str]] = [
    ({("a", "b"): gtv.Norm(2)}, r"penalty has nothing for the edge \('b', 'c'\)"),
    ({**dict.fromkeys(PAIRS, gtv.Norm(2)), ("a", "f"): gtv.Norm(2)}, r"\('a', 'f'\), which is not an edge"),
    ({**dict.fromkeys(PAIRS, gtv.Norm(2)), ("b", "a"): gtv.Norm(2)}, rf"has both {EDGE_AB} and \('b', 'a'\)"),
    (gtv.FlowCost([1.0, 2.0], 1.0), r"cost of FlowCost must have one entry for each of the 6 edges, got shape \(2,\)"),
    (gtv.FlowCost({("a", "b"): 1.0}, 1.0), r"cost of FlowCost has nothing for the edge \('b', 'c'\)"),
    (
        gtv.FlowCost({pair: -float(k) for k, pair in enumerate(PAIRS)}, 1.0),
        r"cost -1 and back_cost -1 on the edge \('b', 'c'\) add up to less than 0",
    ),
    (
        gtv.FlowCost({(b, a): 1.0 for a, b in PAIRS}, 1.0, back_capacity=0.0),
        rf"names the edge {EDGE_AB} from 'b' to 'a', but it runs in node order",
    ),
    (gtv.FlowCost(1.0, {**dict.fromkeys(PAIRS, 1.0), PAIRS[3]: -2.0}), r"capacity must be >= 0, got -2 on .*'c', 'd'"),
    (gtv.PredictionDiscrepancy(np.ones((4, 2))), rf"X of .* has 2 columns for the edge {EDGE_AB}, whose .* 3"),
    (gtv.PredictionDiscrepancy({**POINTS, PAIRS[4]: np.ones((1, 1))}), r"1 columns for the edge \('d', 'e'\)"),
    (gtv.PredictionDiscrepancy(matrices={PAIRS[0]: np.eye(3)}), r"matrices of .* nothing for the edge \('b', 'c'\)"),
    (gtv.Partial(gtv.Norm(2), [0, 3]), rf"the edge {EDGE_AB} couples the coordinate 3, but node 'a' has only 3"),
    (gtv.Mapped(gtv.Norm(2), (np.eye(3), np.eye(3, 2))), rf"edge {EDGE_AB} has a matrix of 2 columns for node 'a'"),
    (gtv.Mapped(gtv.Norm(2), {PAIRS[0]: TALL}), r"maps of Mapped has nothing for the edge \('b', 'c'\)"),
    (gtv.Mapped(FLOW, {(b, a): TALL for a, b in PAIRS}), rf"names the edge {EDGE_AB} from 'b' to 'a', but FlowCost"),
    (PerEdge([gtv.Norm(2)], [0, 0]), "which has 2 entries for 6 edges"),
]


@pytest.mark.parametrize(("penalty", "message"), BAD, ids=range(len(BAD)))
def test_misfits_are_refused(penalty: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem_of("full_rank", penalty)


def test_other_things_are_no_penalties() -> None:
    with pytest.raises(TypeError, match="penalty must be a penalty such as"):
        problem_of("full_rank", 3.0)
    with pytest.raises(TypeError, match=r"penalty of edge \('a', 'b'\) must be a penalty such as Norm\(2\), got 1"):
        problem_of("full_rank", dict.fromkeys(PAIRS, 1))
    with pytest.raises(TypeError, match="the network is no networkx graph"):
        problem_of("full_rank", "kind")
    graph = nx.Graph([("a", "b")])
    with pytest.raises(ValueError, match=r"edge \('a', 'b'\) has no attribute 'kind'"):
        gtv.GTVMin(graph, lambda _: gtv.Zero(2), penalty="kind", alpha=1.0)
    by_edge = gtv.FlowCost([1.0] * 6, 1.0)
    with pytest.raises(ValueError, match="in a mapping every edge needs a penalty of its own"):
        problem_of("full_rank", dict.fromkeys(PAIRS, by_edge))


# Problems of other fields
def test_one_way_arcs_are_a_minimum_cost_flow() -> None:
    """Losses ``-demand_i w`` and one-way flow costs: the dual is networkx's problem, and integral."""
    arcs = [("s", "a", 4, 2), ("s", "b", 3, 3), ("a", "b", 2, 1), ("a", "t", 2, 5), ("b", "t", 5, 2), ("t", "s", 1, 9)]
    demand = {"s": -5, "a": 1, "b": 0, "t": 4}
    graph = nx.DiGraph()
    graph.add_nodes_from((node, {"demand": d}) for node, d in demand.items())
    graph.add_edges_from((a, b, {"capacity": capacity, "weight": cost}) for a, b, capacity, cost in arcs)
    penalty = {(a, b): gtv.FlowCost(cost, capacity, back_capacity=0.0) for a, b, capacity, cost in arcs}
    losses = {node: gtv.Linear([-float(d)]) for node, d in demand.items()}
    net = gtv.FLNetwork.from_edges([(a, b) for a, b, _, _ in arcs])
    problem = gtv.GTVMin(net, losses, penalty=penalty, alpha=1.0)
    cheapest = nx.min_cost_flow_cost(graph)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-9)
        assert solution.objective == pytest.approx(-cheapest, rel=1e-8)
        shipped = {(a, b): float(solution.flow(a, b)[0]) for a, b, _, _ in arcs}
        assert sum(cost * shipped[a, b] for a, b, _, cost in arcs) == pytest.approx(cheapest, rel=1e-7)
        for node, d in demand.items():
            balance = sum(u for (_, b), u in shipped.items() if b == node) - sum(
                u for (a, _), u in shipped.items() if a == node
            )
            assert balance == pytest.approx(d, abs=1e-6)
