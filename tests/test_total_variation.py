"""Total variation of one number per device by maximum flows, against SciPy's flows, CVXPY and a sum by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import maximum_flow

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.solvers.max_flow import Arcs, push_excess
from gtvmin.solvers.total_variation import TotalVariation
from gtvmin.solving import choose_method


def random_graph(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = {(int(rng.integers(0, j)), j) for j in range(1, n) if rng.random() < 0.9}
    pairs |= {(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.2}
    array = np.array(sorted(pairs) or [(0, 1)], dtype=np.int64)
    return array[:, 0], array[:, 1]


@settings(max_examples=80)
@given(seed=st.integers(0, 10_000))
def test_as_much_flows_as_in_scipy_and_the_cut_is_as_large(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    tail, head = random_graph(rng, n)
    capacity, given_excess = rng.integers(0, 9, len(tail)), rng.integers(-9, 10, n)
    flow, excess = np.zeros(len(tail)), given_excess.astype(float)
    raised = push_excess(Arcs.of(tail, head, n), capacity.astype(float), np.ones(len(tail), bool), flow, excess)

    source, sink = n, n + 1
    nodes = np.arange(n)
    rows = np.concatenate([tail, head, np.full(n, source), nodes])
    columns = np.concatenate([head, tail, nodes, np.full(n, sink)])
    data = np.concatenate([capacity, capacity, np.maximum(given_excess, 0), np.maximum(-given_excess, 0)])
    graph = sparse.csr_array((data.astype(np.int32), (rows, columns)), shape=(n + 2, n + 2))
    most = maximum_flow(graph, source, sink).flow_value

    offered = np.maximum(given_excess, 0).sum()
    assert offered - np.maximum(excess, 0.0).sum() == most
    balance = given_excess - np.bincount(head, flow, n) + np.bincount(tail, flow, n)
    assert (balance == excess).all()
    assert (np.abs(flow) <= capacity).all()
    between = raised[tail] != raised[head]
    cut = (
        capacity[between].sum()
        + np.maximum(given_excess, 0)[~raised].sum()
        + np.maximum(-given_excess, 0)[raised].sum()
    )
    assert cut == most


def instance(seed: int) -> gtv.GTVMin:
    """Devices with a few data points or none, weights and strengths of several sizes."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    tail, head = random_graph(rng, n)
    net = gtv.FLNetwork.from_edges(
        [(int(i), int(j), float(rng.exponential())) for i, j in zip(tail, head, strict=True)], nodes=range(n)
    )
    losses: list[gtv.Loss] = []
    for _ in range(n):
        y = rng.normal(size=2) if rng.random() < 0.7 else rng.integers(-1, 2, 2)
        losses.append(gtv.Zero(1) if rng.random() < 0.3 else gtv.SquaredError(rng.normal(size=(2, 1)), y))
    return gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=float(10 ** rng.uniform(-2, 1)), dim=1)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning", "ignore::gtvmin.errors.DisconnectedWarning")
@pytest.mark.parametrize("seed", range(25))
def test_the_answer_is_exact(seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = instance(seed)
        solution = problem.solve("total_variation", gap=1e-11)
        assert solution.is_certified
        reference = problem.to_cvxpy().solve(solver="CLARABEL")
    assert solution.objective == pytest.approx(reference, rel=1e-7, abs=1e-9)


def test_two_devices_by_hand() -> None:
    """Half squares of 0 and 3 with an edge of strength 1: both move by 1."""
    losses = [gtv.SquaredDistance([0.0]), gtv.SquaredDistance([3.0])]
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges([(0, 1)]), [0.5 * loss for loss in losses], penalty=gtv.Norm(1), alpha=1.0
    )
    assert choose_method(problem.lowered.solver_form) == "total_variation"
    solution = problem.solve(gap=1e-14)
    assert (solution.method, solution.weights.ravel().tolist()) == ("total_variation", [1.0, 2.0])
    assert solution.flows.ravel().tolist() == [1.0]


def test_a_set_is_split_where_no_deficit_can_be_reached() -> None:
    """A path whose second largest partial sum exceeds the strength once the largest edge is cut."""
    y = np.random.default_rng(509475).normal(size=7)
    threshold = np.abs(np.cumsum(y - y.mean())).max()
    losses = [0.5 * gtv.SquaredDistance([value]) for value in y]
    net = gtv.FLNetwork.from_edges([(i, i + 1) for i in range(6)])
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(1), alpha=0.9 * threshold)
    solution = problem.solve("total_variation", gap=1e-12)
    assert solution.is_certified
    assert solution.objective == pytest.approx(problem.to_cvxpy().solve(solver="CLARABEL"), rel=1e-8)


def test_an_image_against_another_method() -> None:
    """A noisy step on a grid of 40 by 40 pixels."""
    rng, n = np.random.default_rng(0), 40
    pixel = np.arange(n * n).reshape(n, n)
    edges = np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()], axis=1)
    edges = np.concatenate([edges, np.stack([pixel[:-1].ravel(), pixel[1:].ravel()], axis=1)])
    y = (np.arange(n * n) % n > n // 2) + 0.3 * rng.normal(size=n * n)
    losses = [0.5 * gtv.SquaredDistance([value]) for value in y]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges(edges), losses, penalty=gtv.Norm(2), alpha=0.3)
    solution = problem.solve("total_variation", gap=1e-13)
    assert solution.is_certified
    other = problem.solve("adaptive_primal_dual", gap=1e-9)
    assert -1e-13 <= (other.objective - solution.objective) / solution.objective <= 2e-9


def test_what_does_not_fit_is_refused() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1)])
    plane = gtv.GTVMin(net, [gtv.SquaredDistance([0.0, 1.0])] * 2, penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(CapabilityError, match="scalar"):
        plane.solve("total_variation")
    tilted = gtv.GTVMin(net, [gtv.SquaredDistance([0.0]), gtv.Linear([0.1])], penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(ValueError, match=r"device 1 .by position. has a linear loss without curvature"):
        tilted.solve(TotalVariation())
    assert choose_method(tilted.lowered.solver_form) != "total_variation"
    assert tilted.solve(gap=1e-9).is_certified
