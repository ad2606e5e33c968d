"""Devices with different numbers of parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from coupling_problems import FEATURES, FLOW, LABELS, LOSSES, POINTS, TIGHT, fitting, optimum, rng, solved
from gtvmin.solvers.standard_form import Point

WIDE = rng.standard_normal((4, 5))

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
