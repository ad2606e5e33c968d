"""Shares of the gap that devices compute by themselves: their sum, what they need, and what a lie does."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError, CertificateError
from gtvmin.shares import DeviceState, Message, device_states, local_problem, node_share, sum_of_shares

EXAMPLE = Path(__file__).parents[1] / "examples" / "decentralised_certificate.py"
PENALTIES = [gtv.SquaredNorm(), gtv.Norm(1), gtv.Norm(2), gtv.Norm(np.inf)]


def make_problem(penalty: Any, *, rough: bool = False) -> gtv.GTVMin:
    rng = np.random.default_rng(3)
    losses: list[gtv.Loss] = []
    for i in range(8):
        rows = (0, 2, 6)[i % 3]
        X = rng.normal(size=(rows, 3))
        loss: gtv.Loss = gtv.SquaredError(X, rng.normal(size=rows)) if rows else gtv.Zero(3)
        losses.append(
            loss + 0.05 * gtv.L1() + 0.1 * gtv.Logistic(rng.normal(size=(4, 3)), [1, 0, 1, 0]) if rough else loss
        )
    graph = nx.relabel_nodes(nx.connected_watts_strogatz_graph(8, 4, 0.3, seed=1), {i: f"d{i}" for i in range(8)})
    for k, edge in enumerate(graph.edges.values()):
        edge["weight"] = 0.5 + 0.1 * k
    order = list(graph.nodes)
    return gtv.GTVMin(graph, dict(zip(order, losses, strict=True)), penalty=penalty, alpha=0.2)


def reports(problem: gtv.GTVMin, states: dict[Any, DeviceState], local: bool = True) -> list[Any]:
    """Every device's report, each computed from its local problem and its neighbours' messages alone."""
    return [
        node_share(
            local_problem(problem, node) if local else problem,
            node,
            state.parameters,
            state.flows,
            {k: states[k].message_to(node) for k in state.flows},
            row_duals=state.row_duals,
        )
        for node, state in states.items()
    ]


@pytest.mark.parametrize("rough", [False, True], ids=["squares", "with L1 and logistic parts"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("gap", [1e-2, 1e-7])
def test_shares_sum_to_the_certified_gap(penalty: gtv.Penalty, rough: bool, gap: float) -> None:
    problem = make_problem(penalty, rough=rough)
    certificate = problem.solve(gap=gap).certificate
    states = device_states(problem, certificate)
    shares = reports(problem, states)
    assert sum_of_shares(shares) == pytest.approx(certificate.gap - certificate.rounding, rel=1e-9, abs=1e-14)
    assert [share.term for share in shares] == pytest.approx(certificate.per_node.tolist(), rel=1e-9, abs=1e-15)
    assert all(share.term >= 0 and min(share.halves.values()) >= 0 for share in shares)
    whole = reports(problem, states, local=False)
    assert [share.total for share in whole] == [share.total for share in shares]


def test_two_devices_by_hand() -> None:
    """At (1.1, 1.9) with flow 1: each device is off by (0.1)^2 / 2, and the edge's term is zero."""
    net = gtv.FLNetwork.from_edges([("a", "b")])
    losses = {"a": 0.5 * gtv.SquaredDistance([0.0]), "b": 0.5 * gtv.SquaredDistance([3.0])}
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(1), alpha=1.0)
    a = node_share(problem, "a", [1.1], {"b": [1.0]}, {"b": Message(np.array([1.9]), np.array([-1.0]))})
    b = node_share(problem, "b", [1.9], {"a": [-1.0]}, {"a": Message(np.array([1.1]), np.array([1.0]))})
    assert (a.term, b.term) == pytest.approx((0.005, 0.005))
    # with flow 1/2 the edge's term is |0.8| - 0.5 * 0.8
    a = node_share(problem, "a", [1.1], {"b": [0.5]}, {"b": Message(np.array([1.9]), np.array([-0.5]))})
    assert a.halves == {"b": pytest.approx(0.2)}
    assert a.term == pytest.approx(0.6**2 / 2)


def test_a_local_problem_holds_no_data_of_others() -> None:
    problem = make_problem(gtv.Norm(2))
    net = problem.network
    for i, node in enumerate(net.nodes):
        local = local_problem(problem, node)
        assert local.losses[local.network.index(node)] is problem.losses[i]
        assert all(
            isinstance(loss, gtv.Zero) for k, loss in zip(local.network.nodes, local.losses, strict=True) if k != node
        )
        assert local.network.n_edges == int(((net.tail == i) | (net.head == i)).sum())


def test_what_others_have_does_not_matter() -> None:
    problem = make_problem(gtv.Norm(2))
    certificate = problem.solve(gap=1e-4).certificate
    states = device_states(problem, certificate)
    other = gtv.GTVMin(
        problem.network,
        [loss if i == 4 else gtv.SquaredDistance(100.0 + i) for i, loss in enumerate(problem.losses)],
        penalty=gtv.Norm(2),
        alpha=problem.alpha,
        dim=3,
    )
    node = problem.network.nodes[4]
    messages = {k: states[k].message_to(node) for k in states[node].flows}
    one, two = (node_share(p, node, states[node].parameters, states[node].flows, messages) for p in (problem, other))
    assert one == two


def altered(states: dict[Any, DeviceState], node: str, **changes: Any) -> dict[Any, DeviceState]:
    old = states[node]
    values = {"parameters": old.parameters, "flows": old.flows, "row_duals": old.row_duals, **changes}
    return {**states, node: DeviceState(**values)}


def test_a_false_copy_of_a_flow_is_found() -> None:
    problem = make_problem(gtv.Norm(2))
    states = device_states(problem, problem.solve(gap=1e-6).certificate)
    liar = "d2"
    victim = next(iter(states[liar].flows))
    lie = altered(states, liar, flows={**states[liar].flows, victim: states[liar].flows[victim] * (1 + 1e-15) + 1e-15})
    with pytest.raises(CertificateError, match=rf"'{liar}'.*different copies of the flow|different copies.*'{liar}'"):
        reports(problem, lie)


def test_different_parameters_for_different_neighbours_are_found() -> None:
    """The liar shows one neighbour other parameters than it uses itself: the two halves of the edge differ."""
    problem = make_problem(gtv.Norm(2))
    states = device_states(problem, problem.solve(gap=1e-2).certificate)
    liar = "d2"
    victim = next(iter(states[liar].flows))
    shares = reports(problem, states)
    messages = {k: states[k].message_to(victim) for k in states[victim].flows}
    messages[liar] = Message(states[liar].parameters + 0.1, messages[liar].flow)
    deceived = node_share(problem, victim, states[victim].parameters, states[victim].flows, messages)
    with pytest.raises(CertificateError, match="report different terms of their edge"):
        sum_of_shares([deceived if share.node == victim else share for share in shares])


@pytest.mark.parametrize("size", [1e-3, 1.0, 100.0])
def test_a_false_flow_that_both_ends_hold_proves_nothing_false(size: float) -> None:
    problem = make_problem(gtv.Norm(2))
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights + 0.01, solution.flows)
    states = device_states(problem, certificate)
    liar = "d2"
    victim = next(iter(states[liar].flows))
    flow = states[liar].flows[victim] + size
    lie = altered(states, liar, flows={**states[liar].flows, victim: flow})
    lie = altered(lie, victim, flows={**states[victim].flows, liar: -flow})
    claimed = sum_of_shares(reports(problem, lie))
    assert claimed >= problem.objective(certificate.W) - solution.objective
    assert np.isinf(claimed)  # devices without full rank notice at once


def test_a_false_term_of_its_own_voids_the_proof() -> None:
    """Nobody can know a device's data: the sum is then smaller than what is true."""
    problem = make_problem(gtv.SquaredNorm())
    solution = problem.solve(gap=1e-10)
    W = solution.weights.copy()
    W[2] += 1.0
    certificate = gtv.certify(problem, W, solution.flows)
    shares = reports(problem, device_states(problem, certificate))
    true = problem.objective(W) - solution.objective
    assert sum_of_shares(shares) >= true * (1 - 1e-9)
    worst = max(shares, key=lambda share: share.term)
    lying = [type(share)(share.node, 0.0, share.halves) if share is worst else share for share in shares]
    assert sum_of_shares(lying) < true


def test_missing_messages_and_reports_are_named() -> None:
    problem = make_problem(gtv.Norm(1))
    states = device_states(problem, problem.solve(gap=1e-3).certificate)
    state = states["d0"]
    messages = {k: states[k].message_to("d0") for k in state.flows}
    silent = next(iter(messages))
    incomplete = {k: m for k, m in messages.items() if k != silent}
    with pytest.raises(CertificateError, match=rf"'d0' has no message for its neighbour '{silent}'"):
        node_share(problem, "d0", state.parameters, state.flows, incomplete)
    with pytest.raises(CertificateError, match=rf"'d0' has no flow for its neighbour '{silent}'"):
        node_share(problem, "d0", state.parameters, {k: state.flows[k] for k in incomplete}, messages)
    with pytest.raises(CertificateError, match="node 'd0' has reported nothing"):
        sum_of_shares(share for share in reports(problem, states) if share.node != "d0")


def test_penalties_by_edge_and_families() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    losses = [gtv.SquaredDistance([float(v)]) for v in (0, 1, 5)]
    mixed = gtv.GTVMin(net, losses, penalty={(0, 1): gtv.Norm(1), (1, 2): gtv.SquaredNorm()}, alpha=0.3)
    certificate = mixed.solve(gap=1e-3).certificate
    total = sum_of_shares(reports(mixed, device_states(mixed, certificate)))
    assert total == pytest.approx(certificate.gap - certificate.rounding, rel=1e-9, abs=1e-15)
    with pytest.raises(CapabilityError, match="one family of edges"):
        local_problem(mixed.couple(net, gtv.Norm(1), 0.1), 1)


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(EXAMPLE.read_text(encoding="utf-8"), str(EXAMPLE), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "sum of the reports" in printed
    assert "different copies of the flow" in printed
    assert "raw data" in printed
