"""Couplings against models written here device by device and edge by edge, closed forms and symmetries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import NotUniqueWarning
from gtvmin.penalties import Penalty, PerEdge
from gtvmin.registry import make_solver, solver_names
from gtvmin.solvers.driver import missing_capabilities
from gtvmin.solvers.standard_form import Point
from models import penalty_expression

Array = np.ndarray[Any, np.dtype[np.float64]]
Pair = tuple[Hashable, Hashable]
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
EDGES = [("a", "b", 1.0), ("b", "c", 0.5), ("a", "c", 2.0), ("c", "d", 1.0), ("d", "e", 1.0), ("e", "f", 3.0)]
NODES = list("abcdef")
NET = gtv.FLNetwork.from_edges(EDGES, nodes=NODES)
PAIRS = [(tail, head) for tail, head, _ in EDGES]
rng = np.random.default_rng(7)
POINTS = {pair: rng.standard_normal((r, 3)) for pair, r in zip(PAIRS, (5, 2, 1, 4, 3, 3), strict=True)}
MATRIX = POINTS["a", "b"].T @ POINTS["a", "b"] / 5
NEAR = {pair: tuple(np.eye(3) + 0.3 * rng.standard_normal((2, 3, 3))) for pair in PAIRS}
TALL = tuple(np.eye(2, 3) + 0.3 * rng.standard_normal((2, 2, 3)))
FEATURES = rng.standard_normal((6, 4, 3))
LABELS = rng.standard_normal((6, 4))
WIDE = rng.standard_normal((4, 5))
FLOW = gtv.FlowCost(0.1, 0.4, 0.3, 0.6)

LOSSES: dict[str, Callable[[int], gtv.Loss]] = {
    "full_rank": lambda i: gtv.SquaredError(FEATURES[i], LABELS[i]),
    "rank_deficient": lambda i: gtv.SquaredError(FEATURES[i, :2], LABELS[i, :2]),
    "unlabelled": lambda i: gtv.Zero(3) if i in (1, 4) else gtv.SquaredError(FEATURES[i], LABELS[i]),
}
PENALTIES: dict[str, Any] = {
    "huber": gtv.HuberPenalty(0.3),
    "flow": gtv.FlowCost(0.1, 0.4),
    "two_way_flow": FLOW,
    "one_way_flow": gtv.FlowCost(0.1, 0.4, back_capacity=0.0),
    "flow_by_edge": gtv.FlowCost(np.arange(6) / 10, {pair: 1.0 + k for k, pair in enumerate(PAIRS)}),
    "test_points": gtv.PredictionDiscrepancy(POINTS["a", "b"]),
    "test_points_by_edge": gtv.PredictionDiscrepancy(POINTS, scale="sum"),
    "matrix": gtv.PredictionDiscrepancy(matrices=MATRIX),
    "partial": gtv.Partial(gtv.Norm(2), [2, 0]),
    "partial_points": gtv.Partial(gtv.PredictionDiscrepancy(POINTS["b", "c"][:, :2]), [0, 2]),
    "maps": gtv.Mapped(gtv.Norm(1), TALL),
    "maps_by_edge": gtv.Mapped(gtv.SquaredNorm(), NEAR),
    "consensus": gtv.Consensus(),
    "partial_consensus": gtv.Partial(gtv.Consensus(), [1, 2]),
    "mixed": {
        ("a", "b"): gtv.Norm(2),
        ("c", "b"): FLOW,
        ("a", "c"): gtv.HuberPenalty(0.1),
        ("c", "d"): gtv.Consensus(),
        ("d", "e"): gtv.HuberPenalty(0.4),
        ("e", "f"): gtv.Mapped(gtv.SquaredNorm(), TALL),
    },
}


def on_edges(declared: Any, pairs: list[Pair]) -> Iterator[tuple[Any, Pair]]:
    """What was declared for every edge, and the pair of labels that it was declared for."""
    for k, (tail, head) in enumerate(pairs):
        if isinstance(declared, Mapping):
            key = (tail, head) if (tail, head) in declared else (head, tail)
            yield declared[key], key
        elif isinstance(declared, gtv.FlowCost):
            parts = (declared.cost, declared.capacity, declared.back_cost, declared.back_capacity)
            own = (p[tail, head] if isinstance(p, dict) else p[k] if isinstance(p, np.ndarray) else p for p in parts)
            yield gtv.FlowCost(*own), (tail, head)
        elif isinstance(declared, gtv.PredictionDiscrepancy) and isinstance(declared.X, dict):
            yield gtv.PredictionDiscrepancy(declared.X[tail, head], scale=declared.scale), (tail, head)
        elif isinstance(declared, gtv.Mapped) and isinstance(declared.maps, dict):
            yield gtv.Mapped(declared.penalty, declared.maps[tail, head]), (tail, head)
        else:
            yield declared, (tail, head)


def optimum(losses: Mapping[Any, gtv.Loss], families: list[tuple[Any, Any, float]]) -> tuple[float, dict[Any, Array]]:
    """Optimal value and parameters; families are (edges with weights, what was declared, alpha)."""
    w = {node: cp.Variable(loss.dim) for node, loss in losses.items()}
    value: Any = 0.0
    for node, loss in losses.items():
        if isinstance(loss, gtv.SquaredError):
            value += cp.sum_squares(loss.X @ w[node] - loss.y) / len(loss.y)
        else:
            value += 0.0 * cp.sum(w[node])
    for edges, declared, alpha in families:
        pairs = [edge[:2] for edge in edges]
        for (penalty, (source, target)), (_, _, weight) in zip(on_edges(declared, pairs), edges, strict=True):
            if isinstance(penalty, gtv.Mapped):
                B, C = penalty.maps
                value += alpha * weight * penalty_expression(penalty.penalty, B @ w[target] - C @ w[source])
            else:
                value += alpha * weight * penalty_expression(penalty, w[target] - w[source])
    model = cp.Problem(cp.Minimize(value))
    model.solve(**TIGHT)
    assert model.status in ("optimal", "optimal_inaccurate")
    return float(model.value), {node: variable.value for node, variable in w.items()}


def problem_of(kind: str, penalty: Any, alpha: float = 0.3) -> gtv.GTVMin:
    losses = {node: LOSSES[kind](i) for i, node in enumerate(NODES)}
    return gtv.GTVMin(NET, losses, penalty=penalty, alpha=alpha)


def solved(problem: gtv.GTVMin, method: str = "auto", **options: Any) -> gtv.Solution:
    """A certified solution; some of the problems here have more than one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotUniqueWarning)
        solution = problem.solve(method, **options)
    assert solution.is_certified
    return solution


def fitting(problem: gtv.GTVMin) -> list[str]:
    names = [n for n in solver_names() if not missing_capabilities(make_solver(n), problem.lowered.solver_form)]
    return [name for name in ("primal_dual", "adaptive_primal_dual", "linear_system") if name in names]


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


# Several families of edges


def scalars(*targets: float) -> list[gtv.Loss]:
    return [0.5 * gtv.SquaredError([[1.0]], [y]) for y in targets]


def c03() -> gtv.GTVMin:
    near = gtv.FLNetwork.from_edges([(0, 2, 0.25), (1, 0, 0.25)])
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges([(0, 1, 0.5), (1, 2, 0.5)]), scalars(0, 1, 5), penalty=gtv.Norm(1), alpha=1.0
    )
    return problem.couple(near, gtv.SquaredNorm(), 1.0)


def test_c03_families_of_edges_add() -> None:
    """C03, snapvx issue #19: a pair that is in both families has both penalties."""
    problem = c03()
    for method in ("primal_dual", "adaptive_primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-10)
        np.testing.assert_allclose(solution.weights[:, 0], [9 / 7, 9 / 7, 24 / 7], atol=1e-5)
        assert solution.objective == pytest.approx(4.321428571, abs=1e-8)
    assert problem.edges == ((0, 1), (1, 2), (0, 2), (0, 1))
    assert solution.flows.shape == (4, 1)
    assert solution.certificate.per_edge.shape == (4,)
    # the squared family's flows are 2 alpha A_e z_e
    assert solution.flow(2, 0, family=1)[0] == pytest.approx(0.5 * (9 / 7 - 24 / 7), abs=1e-5)
    assert solution.flow(1, 0, family=1)[0] == pytest.approx(0.0, abs=1e-5)
    assert solution.flow(1, 2)[0] == pytest.approx(0.5, abs=1e-9)
    with pytest.raises(ValueError, match="family must be between 0 and 1"):
        solution.flow(0, 1, family=2)
    with pytest.raises(ValueError, match="not an edge"):
        solution.flow(1, 2, family=1)


def test_flows_of_families_can_be_given_by_pairs() -> None:
    problem = c03()
    solution = solved(problem, gap=1e-9)
    by_pair = [
        {(1, 0): solution.flow(1, 0), (1, 2): solution.flow(1, 2)},
        {(2, 0): solution.flow(2, 0, family=1), (0, 1): solution.flow(0, 1, family=1)},
    ]
    np.testing.assert_array_equal(problem.flows_array(by_pair), solution.flows)
    with pytest.raises(ValueError, match="1 families of edges, the problem has 2"):
        problem.flows_array(by_pair[0])
    with pytest.raises(ValueError, match=r"no flow for edge \(0, 2\)"):
        problem.flows_array([by_pair[0], {(0, 1): 1.0}])


def test_families_with_the_same_penalty_are_edges_of_the_added_weight() -> None:
    """C24, networkx issue #598: parallel edges with the same penalty add; y = (0, 10), weights 1 and 3."""
    one, three = (gtv.FLNetwork.from_edges([(0, 1, weight)]) for weight in (1.0, 3.0))
    for penalty, objective, W in (
        (gtv.Norm(1), 24.0, (4.0, 6.0)),
        (gtv.SquaredNorm(), 200 / 8.5, (40 / 8.5, 45 / 8.5)),
    ):
        problem = gtv.GTVMin(one, scalars(0, 10), penalty=penalty, alpha=1.0).couple(three, penalty, 1.0)
        solution = solved(problem, gap=1e-10)
        if isinstance(penalty, gtv.Norm):
            assert solution.objective == pytest.approx(objective, rel=1e-8)
            np.testing.assert_allclose(solution.weights[:, 0], W, atol=1e-4)
        single = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1, 4.0)]), scalars(0, 10), penalty=penalty, alpha=1.0)
        assert solution.objective == pytest.approx(solved(single, gap=1e-10).objective, rel=1e-8)


@pytest.mark.parametrize("kind", LOSSES)
def test_three_families_agree_with_the_model(kind: str) -> None:
    more = [("f", "a", 1.5), ("b", "e", 0.5), ("a", "b", 0.7)]
    chain = [("d", "c", 1.0), ("c", "f", 2.0)]
    problem = problem_of(kind, gtv.Norm(2), 0.1)
    problem = problem.couple(gtv.FLNetwork.from_edges(more), PENALTIES["partial"], 0.5)
    problem = problem.couple(nx.Graph([("d", "c"), ("c", "f")]), gtv.HuberPenalty(0.2), 0.4)
    losses = dict(zip(NODES, problem.losses, strict=True))
    families = [
        (EDGES, gtv.Norm(2), 0.1),
        (more, PENALTIES["partial"], 0.5),
        ([(t, h, 1.0) for t, h, _ in chain], gtv.HuberPenalty(0.2), 0.4),
    ]
    best, _ = optimum(losses, families)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert solution.flows.shape == (11, 3)
    weaker = problem.with_alpha(0.02)
    assert [c.alpha for c in weaker.couplings] == [0.02, 0.5, 0.4]
    assert problem.alpha == 0.1


def test_a_family_reaches_nodes_of_the_problem_only() -> None:
    with pytest.raises(ValueError, match="node 'x', which is not a node of the problem"):
        problem_of("full_rank", gtv.Norm(2)).couple(nx.Graph([("a", "x")]), gtv.Norm(2), 1.0)


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


# Devices with different numbers of parameters


DIMS = (2, 3, 1, 3)


def mixed_losses(kind: str) -> dict[str, gtv.Loss]:
    losses: dict[str, gtv.Loss] = {}
    for i, (node, dim) in enumerate(zip("pqrs", DIMS, strict=True)):
        rows = dim if kind == "full_rank" else max(dim - 1, 1)
        losses[node] = gtv.SquaredError(FEATURES[i, :rows, :dim], LABELS[i, :rows])
    if kind == "unlabelled":
        losses["q"] = gtv.Zero(3)
    return losses


MIXED_EDGES = [("p", "q", 1.0), ("q", "r", 2.0), ("q", "s", 0.5), ("p", "s", 1.0)]
MIXED_MAPS = {
    ("p", "q"): (np.eye(2, 3), np.eye(2)),
    ("r", "q"): (np.array([[1.0, 0.0, 1.0]]), np.array([[2.0]])),
    ("q", "s"): (np.eye(3), np.eye(3)),
    ("s", "p"): (np.array([[1.0, 1.0]]), np.array([[0.0, 1.0, 0.5]])),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("inner", [gtv.Norm(2), gtv.SquaredNorm(), gtv.FlowCost(-0.2, 1.0, 0.5)], ids=repr)
def test_devices_of_different_dimensions(kind: str, inner: Any) -> None:
    losses, net = mixed_losses(kind), gtv.FLNetwork.from_edges(MIXED_EDGES)
    maps = MIXED_MAPS
    if isinstance(inner, gtv.FlowCost):  # not symmetric: pairs in node order
        maps = {(a, b) if (a, b) in net.edges else (b, a): pair for (a, b), pair in MIXED_MAPS.items()}
        maps = {(a, b): (B, C) if (a, b) in MIXED_MAPS else (C, B) for (a, b), (B, C) in maps.items()}
    problem = gtv.GTVMin(net, losses, penalty=gtv.Mapped(inner, maps), alpha=0.3)
    best, _ = optimum(losses, [(MIXED_EDGES, {pair: gtv.Mapped(inner, maps[pair]) for pair in maps}, 0.3)])
    assert problem.dims.tolist() == list(DIMS)
    assert problem.dim == 3
    for method in [*fitting(problem), "cvxpy"]:
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6, abs=1e-9)
        assert [solution[node].shape for node in "pqrs"] == [(dim,) for dim in DIMS]
        assert not solution.weights[np.arange(3) >= problem.dims[:, None]].any()
    assert problem.objective({node: solution[node] for node in "pqrs"}) == solution.objective
    assert problem.flow_dims.tolist() == [2, 1, 3, 1]
    assert solution.flow("q", "p").shape == (2,)
    assert gtv.certify(problem, solution.as_dict()).relative_gap < 1e-5


def test_equal_dimensions_within_components_need_no_maps() -> None:
    """Two problems in one: devices of two parameters and devices of three, which nothing couples."""
    losses = {"a": LOSSES["full_rank"](0), "b": LOSSES["full_rank"](1)}
    small = {node: gtv.SquaredError(FEATURES[i, :, :2], LABELS[i]) for i, node in ((2, "c"), (3, "d"))}
    edges = [("a", "b", 1.0), ("c", "d", 1.0)]
    for penalty in (
        gtv.Norm(2),
        FLOW,
        gtv.FlowCost(-0.1, 1.0, 0.3),
        gtv.PredictionDiscrepancy({("a", "b"): POINTS["a", "b"], ("c", "d"): POINTS["b", "c"][:, :2]}),
        gtv.Consensus(),
    ):
        both = gtv.GTVMin(gtv.FLNetwork.from_edges(edges), losses | small, penalty=penalty, alpha=0.4)
        apart = [optimum(part, [(edge, penalty, 0.4)])[0] for part, edge in ((losses, edges[:1]), (small, edges[1:]))]
        solution = solved(both, gap=1e-8)
        assert solution.objective == pytest.approx(sum(apart), rel=1e-6)
        assert solution["c"].shape == (2,)
        assert not solution.weights[2:, 2].any()


def test_losses_that_fit_any_number_of_parameters_take_it_from_dim() -> None:
    losses = {"p": LOSSES["full_rank"](0), "q": gtv.Zero(), "r": gtv.SquaredError([[1.0]], [2.0])}
    net = gtv.FLNetwork.from_edges([("p", "q"), ("q", "r")])
    shared = gtv.Partial(gtv.SquaredNorm(), [0])
    with pytest.raises(ValueError, match=r"loss of node 'q' fits any number .* other devices have 1 or 3"):
        gtv.GTVMin(net, losses, penalty=shared, alpha=1.0)
    problem = gtv.GTVMin(net, losses, penalty=shared, alpha=1.0, dim={"q": 2})
    assert problem.dims.tolist() == [3, 2, 1]
    assert problem.undetermined() == ("q",)
    with pytest.raises(ValueError, match="node 'p' has 3 parameters and dim has 2"):
        gtv.GTVMin(net, losses, penalty=shared, alpha=1.0, dim={"p": 2, "q": 2})
    with pytest.raises(ValueError, match="node 'x' is not in the network"):
        gtv.GTVMin(net, losses, penalty=shared, alpha=1.0, dim={"x": 2})


def test_rows_losses_of_different_dimensions() -> None:
    """Losses that are not quadratic act on the device's own parameters: the padding is no part of a simplex."""
    losses = {
        "p": gtv.SquaredError(FEATURES[0], LABELS[0]) + gtv.Simplex(),
        "q": gtv.Logistic(FEATURES[1, :, :2], [1, -1, 1, -1]) + 0.1 * gtv.L1(),
        "r": gtv.SquaredError(FEATURES[2, :, :2], LABELS[2]) + gtv.Box(1.0, 2.0),
        "s": gtv.Softmax(FEATURES[3, :, :2], [0, 1, 1, 0]) + 0.1 * gtv.SquaredDistance(np.zeros(4)),
        "t": gtv.SquaredError(WIDE, LABELS[4]) + 0.1 * gtv.SquaredDistance(np.zeros(5)),
        "u": gtv.SquaredError(FEATURES[5], LABELS[5]) + gtv.Ball(0.3),
    }
    edges = [("p", "q", 1.0), ("q", "r", 1.0), ("r", "s", 2.0), ("s", "t", 1.0), ("t", "u", 1.0)]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges(edges), losses, penalty=gtv.Partial(gtv.Norm(2), [0, 1]), alpha=0.2)
    w = [cp.Variable(dim) for dim in (3, 2, 2, 4, 5, 3)]
    value = sum(cp.sum_squares(FEATURES[i, :, : w[i].size] @ w[i] - LABELS[i]) / 4 for i in (0, 2))
    signs = np.array([1, -1, 1, -1])
    value += cp.sum(cp.logistic(-cp.multiply(signs, FEATURES[1, :, :2] @ w[1]))) / 4 + 0.1 * cp.norm(w[1], 1)
    scores = FEATURES[3, :, :2] @ cp.reshape(w[3], (2, 2), order="C")
    own = sum(scores[r, c] for r, c in enumerate((0, 1, 1, 0)))
    value += (cp.sum(cp.log_sum_exp(scores, axis=1)) - own) / 4 + 0.1 * cp.sum_squares(w[3])
    value += cp.sum_squares(WIDE @ w[4] - LABELS[4]) / 4 + 0.1 * cp.sum_squares(w[4])
    value += cp.sum_squares(FEATURES[5] @ w[5] - LABELS[5]) / 4
    for k, (_, _, weight) in enumerate(edges):
        value += 0.2 * weight * cp.norm(w[k + 1][:2] - w[k][:2], 2)
    model = cp.Problem(
        cp.Minimize(value), [w[0] >= 0, cp.sum(w[0]) == 1, w[2] >= 1, w[2] <= 2, cp.norm(w[5], 2) <= 0.3]
    )
    best = model.solve(**TIGHT)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert solution["p"].sum() == pytest.approx(1.0, abs=1e-12)
    expanded = problem.lowered.expand(Point(np.ones((6, 5)))).W
    np.testing.assert_array_equal(expanded.sum(axis=1), [3, 2, 2, 4, 5, 3])


# Consensus


def test_consensus_is_weighted_least_squares() -> None:
    """All devices of a component share the minimiser of ``sum (1/m_i) ||y_i - X_i w||^2``, to the bit."""
    weights = [4.0, 2.0, 1.0, 3.0, 0.5, 1.0]
    losses = [
        c * gtv.SquaredError(X[:m], y[:m])
        for c, X, y, m in zip(weights, FEATURES, LABELS, (4, 2, 1, 3, 4, 2), strict=True)
    ]
    rows = np.concatenate(
        [np.sqrt(c / len(x)) * x for c, loss in zip(weights, losses, strict=True) for x in [loss.terms()[0][1].X]]
    )
    labels = np.concatenate(
        [np.sqrt(c / len(x)) * x for c, loss in zip(weights, losses, strict=True) for x in [loss.terms()[0][1].y]]
    )
    expected = np.linalg.lstsq(rows, labels)[0]
    for penalty, alpha in (
        (gtv.Consensus(), 1.0),
        (gtv.Norm(2), np.inf),
        (gtv.SquaredNorm(), np.inf),
        (gtv.HuberPenalty(1.0), np.inf),
    ):
        problem = gtv.GTVMin(NET, losses, penalty=penalty, alpha=alpha)
        for method in ("auto", "primal_dual", "adaptive_primal_dual", "linear_system", "cvxpy"):
            solution = solved(problem, method, gap=1e-9)
            assert (solution.weights == solution.weights[0]).all()
            tolerance = 1e-9 if method in ("auto", "linear_system") else 1e-6
            np.testing.assert_allclose(solution.weights[0], expected, rtol=tolerance)
            assert solution.certificate.relative_gap < tolerance
            # flows balance the gradients: -(D^T U)_i is the gradient of L_i
            net_flow = -NET.incidence().T @ solution.flows
            gradients = [loss.gradient(expected) for loss in losses]
            np.testing.assert_allclose(net_flow, gradients, atol=1e-5)


def test_consensus_is_the_limit_of_strong_coupling() -> None:
    """The distance of the solution decreases like 1 / alpha."""
    limit = solved(problem_of("full_rank", gtv.Consensus()), gap=1e-10).weights
    errors = []
    for alpha in (1e2, 1e4, 1e6):
        strong = solved(problem_of("full_rank", gtv.SquaredNorm(), alpha), "linear_system", gap=1e-9).weights
        errors.append(float(np.abs(strong - limit).max()))
    assert errors[0] > 50 * errors[1] > 2500 * errors[2] > 0
    # a norm reaches it exactly
    exact = solved(problem_of("full_rank", gtv.Norm(2), 1e3), gap=1e-10).weights
    np.testing.assert_allclose(exact, limit, atol=1e-5)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_certificate_of_a_consensus_is_as_tight_as_that_of_the_pooled_problem(kind: str) -> None:
    """At any common w the gap is ``F(w) - min F`` with F the sum of the losses, for flows from the gradients."""
    problem = problem_of(kind, gtv.Consensus())
    w = np.array([0.3, -0.2, 0.1])
    pooled = sum(problem.losses[1:], problem.losses[0])
    best = optimum({"pool": gtv.SquaredError(*stacked(problem.losses), scale="sum")}, [])
    suboptimality = pooled.value(w) - len_of_pool(problem.losses) * best[0]
    certificate = gtv.certify(problem, np.tile(w, (6, 1)))
    assert certificate.gap == pytest.approx(suboptimality, rel=1e-6)
    # whatever flows come in, those inside the group are found from the gradients
    noisy = gtv.certify(problem, np.tile(w, (6, 1)), rng.standard_normal((6, 3)))
    assert noisy.gap == pytest.approx(suboptimality, rel=1e-6)
    assert not certificate.per_edge.any()


def stacked(losses: tuple[gtv.Loss, ...]) -> tuple[Array, Array]:
    """Rows and labels of all squared errors in units in which their plain sum of squares is the sum of the losses."""
    atoms = [loss for loss in losses if isinstance(loss, gtv.SquaredError)]
    X = np.concatenate([loss.X / np.sqrt(len(loss.y)) for loss in atoms])
    return X, np.concatenate([loss.y / np.sqrt(len(loss.y)) for loss in atoms])


def len_of_pool(losses: tuple[gtv.Loss, ...]) -> int:
    """The model of ``optimum`` divides by the number of rows."""
    return len(stacked(losses)[1])


def test_parameters_that_disagree_are_infinitely_bad() -> None:
    problem = problem_of("full_rank", gtv.Consensus())
    W = np.zeros((6, 3))
    W[0, 0] = 1e-100
    certificate = gtv.certify(problem, W)
    assert certificate.primal == certificate.gap == certificate.relative_gap == np.inf
    assert certificate.violation[0] == 1e-100


def test_groups_in_consensus_with_other_edges_between_and_within() -> None:
    """Two groups of three devices, a norm between them, and a norm inside one, which vanishes."""
    inside = [("a", "b", 1.0), ("b", "c", 1.0), ("d", "e", 1.0), ("f", "d", 2.0)]
    between = [("a", "d", 0.5), ("c", "f", 0.25), ("a", "c", 9.0)]
    losses = {node: LOSSES["rank_deficient"](i) for i, node in enumerate(NODES)}
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges(inside, nodes=NODES), losses, penalty=gtv.Consensus(), alpha=1.0)
    problem = problem.couple(gtv.FLNetwork.from_edges(between), gtv.Norm(2), 0.2)
    best, w = optimum(losses, [(inside, gtv.Consensus(), 1.0), (between, gtv.Norm(2), 0.2)])
    for method in ("auto", "primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-9)
        assert solution.objective == pytest.approx(best, rel=1e-7)
        assert (solution.weights[:3] == solution.weights[0]).all()
        assert (solution.weights[3:] == solution.weights[3]).all()
        np.testing.assert_allclose(solution.weights, [w[node] for node in NODES], atol=1e-4)
    assert problem.lowered.solver_form.n_nodes == 2
    assert len(problem.lowered.solver_form.couplings[0].map.ends[0]) == 2
    again = problem.solve(start=solution, gap=1e-9)
    assert again.iterations <= 1


def test_a_consensus_can_hold_constrained_and_other_losses() -> None:
    losses = [
        gtv.SquaredError(X, y) + gtv.NonNegative() + 0.1 * gtv.L1() for X, y in zip(FEATURES, LABELS, strict=True)
    ]
    problem = gtv.GTVMin(NET, losses, penalty=gtv.Consensus(), alpha=1.0)
    w = cp.Variable(3)
    value = sum(cp.sum_squares(X @ w - y) / 4 for X, y in zip(FEATURES, LABELS, strict=True)) + 0.6 * cp.norm(w, 1)
    best = cp.Problem(cp.Minimize(value), [w >= 0]).solve(**TIGHT)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert (solution.weights == solution.weights[0]).all()


def test_partial_consensus_agrees_to_the_bit() -> None:
    """Shared coordinates are the pooled fit's, personal ones each device's own given those: a block least squares."""
    problem = problem_of("full_rank", gtv.Partial(gtv.Consensus(), [1, 2]))
    columns = np.zeros((24, 2 + 6))
    for i, X in enumerate(FEATURES):
        columns[4 * i : 4 * i + 4, :2], columns[4 * i : 4 * i + 4, 2 + i] = X[:, 1:], X[:, 0]
    expected = np.linalg.lstsq(columns, LABELS.ravel())[0]
    for method in ("primal_dual", "adaptive_primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-10)
        assert (solution.weights[:, 1:] == solution.weights[0, 1:]).all()
        np.testing.assert_allclose(solution.weights[0, 1:], expected[:2], atol=1e-4)
        np.testing.assert_allclose(solution.weights[:, 0], expected[2:], atol=1e-4)


@pytest.mark.parametrize("penalty", [FLOW, PENALTIES["matrix"], gtv.Mapped(gtv.Norm(2), TALL)], ids=repr)
def test_penalties_that_become_no_consensus_need_a_finite_alpha(penalty: Penalty) -> None:
    with pytest.raises(ValueError, match="alpha must be finite"):
        problem_of("full_rank", penalty, np.inf)
    with pytest.raises(ValueError, match="alpha must be finite"):
        problem_of("full_rank", penalty, 1.0).with_alpha(np.inf)


def test_an_infinite_alpha_is_consensus_for_part_of_the_coordinates_and_edges_too() -> None:
    partial = problem_of("full_rank", gtv.Partial(gtv.Norm(2), [1, 2]), np.inf)
    same = problem_of("full_rank", gtv.Partial(gtv.Consensus(), [1, 2]))
    assert solved(partial, gap=1e-9).objective == pytest.approx(solved(same, gap=1e-9).objective, rel=1e-8)
    kinds = {pair: gtv.Norm(2) if k % 2 else gtv.HuberPenalty(1.0) for k, pair in enumerate(PAIRS)}
    every = solved(problem_of("full_rank", kinds, np.inf))
    assert (every.weights == every.weights[0]).all()


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


def test_a_group_in_consensus_without_enough_data_is_undetermined() -> None:
    losses = {node: gtv.SquaredError(FEATURES[i, :1], LABELS[i, :1]) for i, node in enumerate("ab")}
    net = gtv.FLNetwork.from_edges([("a", "b")])
    assert gtv.GTVMin(net, losses, penalty=gtv.Consensus(), alpha=1.0).undetermined() == ("a", "b")
    with pytest.warns(NotUniqueWarning, match="2 devices"):
        assert gtv.GTVMin(net, losses, penalty=gtv.Consensus(), alpha=1.0).solve().is_certified


# Files and fingerprints


@pytest.mark.parametrize("name", PENALTIES)
def test_problems_survive_a_file(name: str, tmp_path: Path) -> None:
    problem = problem_of("full_rank", PENALTIES[name])
    again = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert again.hash == problem.hash
    assert again.penalty == problem.penalty
    W = np.tile(FEATURES[0, 0], (6, 1))
    assert again.objective(W) == problem.objective(W)


def test_families_dimensions_and_infinite_alphas_survive_a_file(tmp_path: Path) -> None:
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges(MIXED_EDGES),
        mixed_losses("unlabelled"),
        penalty=gtv.Mapped(gtv.Norm(2), MIXED_MAPS),
        alpha=0.3,
    )
    problem = problem.couple(nx.Graph([("r", "p")]), gtv.Partial(gtv.Norm(2), [0]), np.inf)
    again = gtv.load_problem(problem.save(tmp_path / "problem.npz"))
    assert again.hash == problem.hash
    assert again.dims.tolist() == list(DIMS)
    assert again.couplings[1].alpha == np.inf
    assert again.edges == problem.edges
    solution = solved(again)
    solution.certificate.save(tmp_path / "certificate.json")
    assert gtv.load_certificate(tmp_path / "certificate.json", problem).holds(1e-6)


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


def test_parameters_beyond_a_devices_own_are_refused() -> None:
    losses = mixed_losses("full_rank")
    net = gtv.FLNetwork.from_edges(MIXED_EDGES)
    problem = gtv.GTVMin(net, losses, penalty=gtv.Mapped(gtv.Norm(2), MIXED_MAPS), alpha=0.3)
    W = np.zeros((4, 3))
    W[2, 1] = 1.0
    with pytest.raises(ValueError, match="must be zero beyond the 1 parameters of node 'r'"):
        problem.objective(W)
    with pytest.raises(ValueError, match="W has 1 parameters for node 'p', which has 2"):
        problem.objective({"p": [1.0], "q": [0, 0, 0], "r": [0], "s": [0, 0, 0]})
    assert problem.objective({"p": [0, 0], "q": [0, 0, 0], "r": [0], "s": [0, 0, 0]}) == problem.objective(0 * W)
    frame = solved(problem).to_frame()
    assert np.isnan(frame.loc["r"].to_numpy()[1:]).all()
    assert problem.objective(frame) == solved(problem).objective


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


def test_a_consensus_of_logistic_losses_is_the_pooled_fit() -> None:
    """Their quadratic parts are zero: all that flows between devices is what their data points ask for."""
    signs = np.where(LABELS > 0, 1.0, -1.0)
    losses = [gtv.Logistic(X, y) for X, y in zip(FEATURES, signs, strict=True)]
    problem = gtv.GTVMin(NET, losses, penalty=gtv.Consensus(), alpha=1.0)
    pooled = gtv.Logistic(FEATURES.reshape(24, 3), signs.ravel(), scale="sum")
    w = cp.Variable(3)
    best = cp.Problem(cp.Minimize(cp.sum(cp.logistic(-cp.multiply(pooled.y, pooled.X @ w))) / 4)).solve(**TIGHT)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert (solution.weights == solution.weights[0]).all()
    moved = gtv.certify(problem, solution.weights + 0.01)
    assert moved.gap == pytest.approx(moved.primal - best, rel=1e-2)
