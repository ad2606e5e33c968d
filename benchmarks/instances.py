"""Instances of the benchmarks: seeded generators, by name.

    from benchmarks.instances import INSTANCES, make_instance

    problem = make_instance("A1", seed=0)

Letters group them: A network Lasso on stochastic block models (SBM), B convex clustering, C squared norm, D total
variation of an image, E logistic regression.  Each generator takes its sizes as arguments; ``small`` has the ones of a
tiny version for tests.  Strengths were chosen once, at seed 0: 88% of A2's edges are fused, 94% of E's; B-moons-5k has
6 clusters, B-blobs-5k about 430, B-blobs-20k 22.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import gtvmin as gtv
from gtvmin.datasets import SBM, make_sbm
from gtvmin.errors import DisconnectedWarning

__all__ = ["INSTANCES", "Instance", "make_instance"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Instance:
    """A named generator.

    Attributes
    ----------
    description : str
        What it is, in one line.
    make : callable
        ``make(seed=0, **sizes) -> GTVMin``.
    small : dict
        Sizes of the tiny version.
    lams : callable, optional
        Strengths of a path over the problem, for instances that are paths.
    """

    description: str
    make: Callable[..., gtv.GTVMin]
    small: dict[str, Any] = field(default_factory=dict)
    lams: Callable[[gtv.GTVMin], Array] | None = None


def make_instance(name: str, seed: int = 0, *, small: bool = False) -> gtv.GTVMin:
    """The problem of that name; ``small`` for its tiny version."""
    if name not in INSTANCES:
        raise ValueError(f"instance {name!r} is unknown: choose of {', '.join(INSTANCES)}")
    instance = INSTANCES[name]
    return instance.make(seed=seed, **(instance.small if small else {}))


def nlasso_paper(seed: int = 0, p: float = 2, n: int = 300) -> gtv.GTVMin:
    """Section 5 of arXiv 2010.14159: two clusters, 5 rows in R^2 at 10% of the nodes, no noise, lambda 1e-3."""
    sbm = make_sbm(sizes=(n // 2, n // 2), n_labelled=n // 10, seed=seed)
    return gtv.NetworkLasso(sbm.network, sbm.problem().losses, lam=sbm.lam, p=p, dim=2)


def ten_clusters(seed: int, n: int, dim: int, rows: int, n_labelled: int) -> SBM:
    """Ten equal clusters with Gaussian parameters, 5 edges a node, 3% of them between clusters, noise 0.5."""
    size = n // 10
    inside, across = 10 * size * (size - 1) / 2, 45 * size**2
    truth = np.random.default_rng([seed, 10]).normal(size=(10, dim))
    return make_sbm(
        sizes=(size,) * 10,
        cluster_weights=truth,
        p_in=min(1.0, 0.97 * 5 * n / inside),
        p_out=min(1.0, 0.03 * 5 * n / across),
        rows=rows,
        n_labelled=n_labelled,
        noise=0.5,
        seed=seed,
    )


def block_model(
    seed: int = 0, n: int = 2000, dim: int = 10, rows: int = 20, labelled: float = 1.0, lam: float = 0.14
) -> gtv.GTVMin:
    """Squared errors on ten clusters."""
    sbm = ten_clusters(seed, n, dim, rows, round(labelled * n))
    return gtv.NetworkLasso(sbm.network, sbm.problem().losses, lam=lam, dim=dim)


def mixed_losses(seed: int = 0, n: int = 20_000, dim: int = 10, rows: int = 20, lam: float = 0.14) -> gtv.GTVMin:
    """Squared, Huber (1% gross outliers) and logistic losses in turn on ten clusters."""
    sbm = ten_clusters(seed, n, dim, rows, n)
    rng = np.random.default_rng([seed, 11])
    gross = np.where(rng.random(sbm.labels.shape) < 0.01, 20.0 * rng.normal(size=sbm.labels.shape), 0.0)
    makers = (
        lambda i: gtv.SquaredError(sbm.features[i], sbm.labels[i]),
        lambda i: gtv.Huber(sbm.features[i], sbm.labels[i] + gross[i], delta=1.0),
        lambda i: gtv.Logistic(sbm.features[i], np.where(sbm.labels[i] > 0, 1.0, -1.0)),
    )
    losses = [makers[i % 3](i) for i in range(n)]
    return gtv.NetworkLasso(sbm.network, losses, lam=lam, dim=dim)


def logistic(seed: int = 0, n: int = 500, dim: int = 5, rows: int = 20, lam: float = 0.03) -> gtv.GTVMin:
    """Logistic losses on ten clusters."""
    sbm = ten_clusters(seed, n, dim, rows, n)
    losses = [gtv.Logistic(X, np.where(y > 0, 1.0, -1.0)) for X, y in zip(sbm.features, sbm.labels, strict=True)]
    return gtv.NetworkLasso(sbm.network, losses, lam=lam, dim=dim)


def moons(seed: int = 0, n: int = 5000, lam: float = 100.0, noise: float = 0.05) -> gtv.GTVMin:
    """Two interlocking half circles of radius 1, Gaussian weights on the 10-nearest-neighbour graph."""
    rng = np.random.default_rng(seed)
    angle, lower = np.pi * rng.random(n), np.arange(n) % 2
    arcs = np.column_stack([np.cos(angle) * (1 - 2 * lower) + lower, np.sin(angle) * (1 - 2 * lower) + 0.5 * lower])
    return clustering(arcs + noise * rng.normal(size=arcs.shape), lam)


def blobs(seed: int = 0, n: int = 5000, dim: int = 2, centres: int = 10, spread: float = 0.1, lam: float = 1.0) -> Any:
    """Gaussian clouds around uniform centres of the unit cube, Gaussian weights on the 10-nearest-neighbour graph."""
    rng = np.random.default_rng(seed)
    places = rng.random((centres, dim))
    return clustering(places[np.arange(n) % centres] + spread * rng.normal(size=(n, dim)), lam)


def clustering(points: Array, lam: float) -> gtv.GTVMin:
    """Convex clustering with Gaussian weights; several components are no surprise here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DisconnectedWarning)
        return gtv.ConvexClustering(points, lam=lam, k=min(10, len(points) - 1))


def smooth_grid(seed: int = 0, side: int = 141, dim: int = 10, alpha: float = 1.0) -> gtv.GTVMin:
    """Squared norm on a square grid, unit weights."""
    return smooth(gtv.FLNetwork.from_edges(grid_edges(side), nodes=range(side**2)), seed, dim, alpha)


def smooth_knn(seed: int = 0, n: int = 20_000, dim: int = 10, alpha: float = 1.0) -> gtv.GTVMin:
    """Squared norm on the 6-nearest-neighbour graph of uniform points in the unit cube, unit weights."""
    return smooth(gtv.FLNetwork.knn(np.random.default_rng([seed, 3]).random((n, 3)), 6), seed, dim, alpha)


def smooth(network: gtv.FLNetwork, seed: int, dim: int, alpha: float) -> gtv.GTVMin:
    """Squared errors of 5 rows a node, fewer than parameters: neighbours have to help."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(network.n_nodes, 5, dim))
    y = X.sum(axis=2) + 0.5 * rng.normal(size=X.shape[:2])
    losses = [gtv.SquaredError(X[i], y[i]) for i in range(network.n_nodes)]
    return gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=alpha, dim=dim)


def image(seed: int = 0, side: int = 300, lam: float = 0.2) -> gtv.GTVMin:
    """Total variation denoising of a grey image: discs and boxes of random levels, noise 0.2."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:side, :side] / side
    picture = np.zeros((side, side))
    for k in range(12):
        (a, b), size, level = rng.random(2), 0.05 + 0.15 * rng.random(), rng.random()
        far = np.hypot(row - a, column - b) if k % 2 else np.maximum(abs(row - a), abs(column - b))
        picture[far < size] = level
    noisy = (picture + 0.2 * rng.normal(size=picture.shape)).reshape(-1, 1)
    losses = [0.5 * gtv.SquaredDistance(pixel) for pixel in noisy]
    network = gtv.FLNetwork.from_edges(grid_edges(side), nodes=range(side**2))
    return gtv.NetworkLasso(network, losses, lam=lam, p=1)


def grid_edges(side: int) -> NDArray[np.int64]:
    """Edges of a square grid whose nodes count row by row."""
    node = np.arange(side**2).reshape(side, side)
    across = np.column_stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    return np.concatenate([across, np.column_stack([node[:-1].ravel(), node[1:].ravel()])])


def hundred(problem: gtv.GTVMin) -> Array:
    """A hundred strengths, geometric over three decades up to three times the problem's own."""
    return np.geomspace(3e-3, 3.0, 100) * problem.alpha


EDGES_PER_NODE = "10 clusters, 5 edges a node, d 10, l2"
HARD_BLOBS = functools.partial(blobs, lam=0.35)
TINY_SBM = {"n": 60, "dim": 3, "rows": 5}

INSTANCES: dict[str, Instance] = {
    "A1": Instance("SBM of arXiv 2010.14159: 300 nodes, d 2, 10% labelled, l2", nlasso_paper, {"n": 40}),
    "A1-l1": Instance("A1 with the l1 norm", functools.partial(nlasso_paper, p=1), {"n": 40}),
    "A2": Instance(f"SBM, 2,000 nodes, {EDGES_PER_NODE}, 20 rows a node", block_model, TINY_SBM),
    "A2u": Instance(
        "A2 with 5 rows at 20% of the nodes, none at the others",
        functools.partial(block_model, rows=5, labelled=0.2),
        TINY_SBM,
    ),
    "A3": Instance(f"SBM, 20,000 nodes, {EDGES_PER_NODE}", functools.partial(block_model, n=20_000), TINY_SBM),
    "A3-mixed": Instance("A3 with squared, Huber and logistic losses in turn", mixed_losses, TINY_SBM),
    "B-moons-5k": Instance("convex clustering of two moons, 5,000 points", moons, {"n": 100}),
    "B-moons-20k": Instance(
        "convex clustering of two moons, 20,000 points", functools.partial(moons, n=20_000, lam=500.0), {"n": 100}
    ),
    "B-blobs-5k": Instance("convex clustering of 5,000 points in clouds, many clusters (hard)", HARD_BLOBS, {"n": 100}),
    "B-blobs-20k": Instance(
        "convex clustering of 20,000 points in clouds, d 10",
        functools.partial(blobs, n=20_000, dim=10, centres=20),
        {"n": 100, "dim": 3, "centres": 4},
    ),
}
GRAPHS = {
    "grid": ("141 x 141 grid", smooth_grid, {"side": 8, "dim": 3}),
    "knn": ("3-d 6-NN graph, 20,000 nodes", smooth_knn, {"n": 60, "dim": 3}),
}
INSTANCES |= {
    f"C-{label}-{alpha:g}": Instance(
        f"squared norm on a {graph}, d 10, alpha {alpha:g}", functools.partial(maker, alpha=alpha), tiny
    )
    for label, (graph, maker, tiny) in GRAPHS.items()
    for alpha in (1e-3, 1.0, 1e2, 1e4)
}
INSTANCES |= {
    "D": Instance("total variation denoising, 300 x 300 image", image, {"side": 12}),
    "E": Instance("logistic, SBM, 500 nodes, 2,500 edges, d 5, l2", logistic, TINY_SBM),
    "path-moons-5k": Instance("B-moons-5k for 100 strengths", moons, {"n": 60}, hundred),
    "path-blobs-5k": Instance("B-blobs-5k for 100 strengths", HARD_BLOBS, {"n": 60}, hundred),
}
