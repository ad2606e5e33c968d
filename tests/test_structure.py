"""Proved structure: no claim contradicts a much more accurate solution, and much is decided at small gaps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gtvmin as gtv
import gtvmin.structure
from gtvmin import fusion_proof
from gtvmin.errors import ConvergenceWarning, GtvminWarning, NotUniqueWarning
from gtvmin.structure import prove_structure


def block_model(seed: int, *, lam: float = 0.08, labelled: float = 1.0, rows: int = 12, p: float = 2) -> gtv.GTVMin:
    """Three clusters of devices that share a linear model, densely joined inside and sparsely between."""
    rng = np.random.default_rng(seed)
    block = np.arange(90) // 30
    tail, head = np.triu_indices(90, 1)
    kept = rng.random(len(tail)) < np.where(block[tail] == block[head], 0.3, 0.01)
    net = gtv.FLNetwork.from_edges(list(zip(tail[kept].tolist(), head[kept].tolist(), strict=True)), nodes=range(90))
    truth = 2.0 * rng.normal(size=(3, 3))
    losses: list[gtv.Loss] = []
    for i in range(90):
        X = rng.normal(size=(rows, 3))
        y = X @ truth[block[i]] + 0.1 * rng.normal(size=rows)
        losses.append(gtv.SquaredError(X, y) if rng.random() < labelled else gtv.Zero(3))
    return gtv.NetworkLasso(net, losses, lam=lam, p=p)


def planted_points(seed: int, lam: float = 0.05) -> gtv.GTVMin:
    """Convex clustering of three groups of points in the plane, with all pairs of each group and some others joined."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
    points = np.repeat(centres, 12, axis=0) + 0.1 * rng.normal(size=(36, 2))
    edges = [(i, j) for i in range(36) for j in range(i) if i // 12 == j // 12 or rng.random() < 0.05]
    losses = [0.5 * gtv.SquaredDistance(point) for point in points]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges(edges, nodes=range(36)), losses, lam=lam)


def jumps_at_the_optimum(problem: gtv.GTVMin) -> tuple[np.ndarray, float]:
    """Differences across edges of a much more accurate solution, and what is still open about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        accurate = problem.solve(gap=1e-14, max_iter=60_000)
    net = problem.network
    jump = np.linalg.norm(accurate.weights[net.head] - accurate.weights[net.tail], axis=1)
    scale = float(np.abs(accurate.weights).max())
    return jump, max(1e-5 * scale, 1e-12)


def contradictions(problem: gtv.GTVMin, structure: gtvmin.structure.Structure, jump: np.ndarray, open_: float) -> int:
    """Edges that are proved fused but clearly apart, or proved split but closer than the solution's own error."""
    fused_wrongly = structure.fused & (jump > open_)
    split_wrongly = structure.split & (jump < 1e-10 * max(1.0, float(jump.max(initial=0.0))))
    return int(fused_wrongly.sum() + split_wrongly.sum())


INSTANCES = {
    "block model": lambda: block_model(0),
    "half of it labelled": lambda: block_model(1, labelled=0.5),
    "no device of full rank": lambda: block_model(3, labelled=0.7, rows=2, lam=0.3),
    "p = 1": lambda: block_model(2, p=1, lam=0.05),
    "convex clustering": lambda: planted_points(0),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_claims_hold_and_almost_everything_is_decided(name: str) -> None:
    problem = INSTANCES[name]()
    jump, open_ = jumps_at_the_optimum(problem)
    decided = []
    for gap in (1e-4, 1e-6, 1e-9, 1e-11):
        structure = problem.solve(gap=gap, max_iter=60_000).structure()
        assert contradictions(problem, structure, jump, open_) == 0
        assert not (structure.split & structure.fused).any()
        decided.append(1.0 - structure.undecided.mean())
    assert decided[-1] == 1.0
    assert decided == sorted(decided)
    assert structure.fused.sum() == (jump <= open_).sum()


@pytest.mark.parametrize("rigorous", [False, True])
def test_planted_clusters_are_proved(rigorous: bool) -> None:
    problem = planted_points(1)
    solution = problem.solve(gap=1e-9)
    certificate = gtv.certify(problem, solution.weights, solution.flows, rigorous=rigorous)
    structure = prove_structure(problem, certificate)
    assert structure.rigorous == rigorous
    assert structure.clusters() == {i: i // 12 for i in range(36)}
    assert solution.clusters(proved=True) == {i: i // 12 for i in range(36)}
    net = problem.network
    assert structure.counts == {
        "fused": int((net.tail // 12 == net.head // 12).sum()),
        "split": int((net.tail // 12 != net.head // 12).sum()),
        "undecided": 0,
    }
    assert structure.undecided_edges == ()


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(3, 7),
    dim=st.integers(1, 2),
    p=st.sampled_from([1, 2, np.inf]),
    lam=st.sampled_from([0.01, 0.1, 0.5]),
    gap=st.sampled_from([1e-2, 1e-4, 1e-8]),
)
def test_no_false_claim_on_small_problems(seed: int, n: int, dim: int, p: float, lam: float, gap: float) -> None:
    """Groups of equal, close and far targets, some devices without data, any connected graph."""
    rng = np.random.default_rng(seed)
    edges = [(int(rng.integers(i)), i) for i in range(1, n)]
    edges += [(i, j) for i in range(n) for j in range(i + 1, n) if (i, j) not in edges and rng.random() < 0.3]
    net = gtv.FLNetwork.from_edges(edges, nodes=range(n), weights=rng.uniform(0.3, 2.0, size=len(edges)))
    centres = rng.choice([0.0, 0.05, 1.0, 3.0], size=(n, dim))
    losses: list[gtv.Loss] = [
        gtv.Zero(dim) if i and rng.random() < 0.2 else 0.5 * gtv.SquaredDistance(c) for i, c in enumerate(centres)
    ]
    problem = gtv.NetworkLasso(net, losses, lam=lam, p=p)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotUniqueWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)  # what is claimed must be true at whatever gap was reached
        structure = problem.solve(gap=gap, max_iter=20_000).structure()
        jump, open_ = jumps_at_the_optimum(problem)
    assert not (structure.fused & (jump > open_)).any()
    # a solution to 1e-14 is off by 1e-7: a split that it cannot tell from equality would be a coincidence
    assert not (structure.split & (jump == 0.0)).any()


def test_two_devices_by_hand() -> None:
    """``(w - a)^2 / 2`` each, at distance 1: fused exactly if lam >= 1/2, and the gap decides close to that."""
    net = gtv.FLNetwork.from_edges([("a", "b")])
    losses = {"a": 0.5 * gtv.SquaredDistance([0.0]), "b": 0.5 * gtv.SquaredDistance([1.0])}
    for lam, W, flow in ((0.4, (0.4, 0.6), 0.4), (0.6, (0.5, 0.5), 0.5)):
        problem = gtv.NetworkLasso(net, losses, lam=lam)
        certificate = gtv.certify(problem, np.array(W)[:, None], [[flow]])
        structure = prove_structure(problem, certificate)
        assert structure.counts == {"fused": int(lam > 0.5), "split": int(lam < 0.5), "undecided": 0}
    # slack 0.1, both losses 1-smooth, lambda_2 = 2: fused is proved while 2 g / 2 < 0.1^2, that is g < 0.01
    problem = gtv.NetworkLasso(net, losses, lam=0.6)
    for error, fused in ((0.09, True), (0.11, False)):
        certificate = gtv.certify(problem, [[0.5 + error], [0.5 + error]], [[0.5]])
        assert certificate.gap == pytest.approx(error**2)
        assert prove_structure(problem, certificate).fused.all() == fused
    # radii: the distance 0.2 is more than sqrt(2 g (1 + 1)) = 2 sqrt(g) while g < 0.01
    problem = gtv.NetworkLasso(net, losses, lam=0.4)
    for error, split in ((0.09, True), (0.11, False)):
        certificate = gtv.certify(problem, [[0.4 + error], [0.6 + error]], [[0.4]])
        assert certificate.gap == pytest.approx(error**2)
        assert prove_structure(problem, certificate).split.all() == split


def test_other_penalties_and_losses_are_undecided_at_most() -> None:
    rng = np.random.default_rng(0)
    net = gtv.FLNetwork.from_edges([(0, 1), (1, 2)])
    squares = [gtv.SquaredDistance([float(v)]) for v in (0, 0, 5)]
    smooth = gtv.GTVMin(net, squares, penalty=gtv.SquaredNorm(), alpha=0.1).solve(gap=1e-10).structure()
    assert smooth.split.tolist() == [True, True]  # 0 and 0 are pulled to different sides, by 5
    rough = [loss + 0.01 * gtv.LeastAbsolute(rng.normal(size=(2, 1)), rng.normal(size=2)) for loss in squares]
    structure = gtv.NetworkLasso(net, rough, lam=0.3).solve(gap=1e-10).structure()
    assert not structure.fused.any()
    assert structure.split[1]


def test_no_gap_proves_nothing() -> None:
    problem = planted_points(0)
    worst = gtv.certify(problem, 100.0 * np.ones((36, 2)), np.zeros(problem.flow_shape))
    structure = prove_structure(problem, worst)
    assert structure.undecided.all()
    assert len(structure.undecided_edges) == problem.network.n_edges
    assert structure.cluster.tolist() == list(range(36))


def test_undecided_edges_are_named() -> None:
    problem = block_model(0)
    solution = problem.solve("newton_multipliers", gap=1e-2)  # others end far below the gap that is asked for
    structure = solution.structure()
    assert structure.undecided.any()
    with pytest.warns(GtvminWarning, match=r"edges are undecided, the first is \("):
        clusters = solution.clusters(proved=True)
    assert clusters == structure.clusters()
    assert repr(structure).startswith("<Structure of ")


def test_two_families_count_together() -> None:
    """Each family alone would leave the pair apart; the proof must see both."""
    net = gtv.FLNetwork.from_edges([(0, 1)])
    losses = [0.5 * gtv.SquaredDistance([v]) for v in (0.0, 1.0)]
    problem = gtv.NetworkLasso(net, losses, lam=0.3).couple(net, gtv.Norm(2), 0.3)
    structure = problem.solve(gap=1e-10).structure()
    assert structure.counts == {"fused": 2, "split": 0, "undecided": 0}
    mixed = gtv.NetworkLasso(net, losses, lam=0.3).couple(net, gtv.SquaredNorm(), 0.3).solve(gap=1e-10).structure()
    assert not mixed.fused.any()


def rougher(layer: object, ends: object, apart: np.ndarray, smoothness: np.ndarray, gap: float) -> np.ndarray:
    return fusion_proof.proved_equal(layer, ends, apart, 0.1 * smoothness, gap)


def half_the_gap(layer: object, ends: object, curvature: np.ndarray, gap: float) -> np.ndarray:
    return fusion_proof.least_distance(layer, ends, curvature, 0.5 * gap)


FAULTS = {"smoother losses": ("proved_equal", rougher), "half the gap": ("least_distance", half_the_gap)}


def false_claims() -> int:
    """Pairs near the point where they fuse, with parameters and flows at all distances from the optimal ones."""
    net = gtv.FLNetwork.from_edges([(0, 1)])
    losses = [0.5 * gtv.SquaredDistance([v]) for v in (0.0, 1.0)]
    false = 0
    for lam in (0.4, 0.49, 0.51, 0.6):
        problem = gtv.NetworkLasso(net, losses, lam=lam)
        for error in np.linspace(-0.3, 0.3, 7):
            for flow in (0.3, 0.4, 0.48, 0.5):
                certificate = gtv.certify(problem, [[0.5 - error], [0.5 + error]], [[min(flow, lam)]])
                structure = prove_structure(problem, certificate)
                false += bool(structure.fused[0]) and lam < 0.5
                false += bool(structure.split[0]) and lam > 0.5
    return false


def test_pairs_near_the_point_where_they_fuse() -> None:
    assert false_claims() == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_makes_false_claims(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gtvmin.structure, *FAULTS[fault])
    assert false_claims() > 0
