"""The network Lasso experiment on a stochastic block model (SBM): clusters of devices that share a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.validation import finite_array, frozen, nonnegative_number, positive_integer

if TYPE_CHECKING:
    from gtvmin.network import FLNetwork
    from gtvmin.problem import GTVMin

__all__ = ["SBM", "make_sbm"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SBM:
    """A drawn stochastic block model with local data sets; made by `make_sbm`. All arrays are read-only.

    Attributes
    ----------
    network : FLNetwork
        Nodes ``0..n-1``, cluster by cluster; unit edge weights.
    features : ndarray, shape (n, rows, dim)
        The feature matrix ``X_i`` of every node.
    labels : ndarray, shape (n, rows)
        ``y_i = X_i w_i`` plus noise, of every node: those outside `labelled` are there to test predictions.
    true_weights : ndarray, shape (n, dim)
        The parameters ``w_i`` of the node's cluster.
    clusters : ndarray of int, shape (n,)
        Cluster of every node.
    labelled : ndarray of int, shape (n_labelled,)
        The nodes whose labels the learner sees, ascending.
    lam : float
        Strength of the total variation term.
    """

    network: FLNetwork
    features: NDArray[np.float64]
    labels: NDArray[np.float64]
    true_weights: NDArray[np.float64]
    clusters: NDArray[np.intp]
    labelled: NDArray[np.intp]
    lam: float

    def problem(self) -> GTVMin:
        """Declare the network Lasso: mean squared error at the labelled nodes, loss Zero at the others."""
        from gtvmin.losses import SquaredError, Zero
        from gtvmin.problem import NetworkLasso

        seen = set(self.labelled.tolist())
        losses = {
            i: SquaredError(self.features[i], self.labels[i]) if i in seen else Zero()
            for i in range(len(self.clusters))
        }
        return NetworkLasso(self.network, losses, lam=self.lam)

    def __repr__(self) -> str:
        n, rows, dim = self.features.shape
        return (
            f"SBM({n} nodes in {self.clusters[-1] + 1} clusters, {len(self.labelled)} labelled, "
            f"{rows} rows in R^{dim} per node, lam={self.lam:g})"
        )


def make_sbm(
    *,
    sizes: Sequence[int] = (150, 150),
    cluster_weights: ArrayLike = ((2.0, 2.0), (-2.0, 2.0)),
    p_in: float = 0.5,
    p_out: float = 1e-3,
    rows: int = 5,
    n_labelled: int = 30,
    noise: float = 0.0,
    lam: float = 1e-3,
    seed: int = 0,
) -> SBM:
    """Draw a stochastic block model whose clusters share a linear model; the defaults are those of [1]_.

    Every pair of nodes is joined independently, with probability `p_in` inside a cluster and `p_out` between
    clusters, by an edge of weight 1. Node i holds `rows` feature vectors drawn from N(0, I) and the labels
    ``y_i = X_i w_i + noise * e_i``, ``e_i`` drawn from N(0, I), where ``w_i`` is the weight vector of its
    cluster. The labelled nodes are drawn uniformly, without replacement, from all nodes: a cluster may get
    fewer than its share, or none.

    Parameters
    ----------
    sizes : sequence of int
        Number of nodes of each cluster, each at least 1.
    cluster_weights : array_like, shape (len(sizes), dim)
        True parameters of each cluster.
    p_in, p_out : float
        Edge probabilities inside and between clusters.
    rows : int
        Data rows per node, at least 1.
    n_labelled : int
        Number of labelled nodes, from 1 to ``sum(sizes)``.
    noise : float
        Standard deviation of the label noise.
    lam : float
        Strength of the total variation term in `SBM.problem`, not negative.
    seed : int
        Seed of the random numbers, not negative. Edges, features, labelled nodes and noise have a stream of
        their own each, so that changing `p_out`, say, leaves the data as they are. NumPy's global random
        state is neither read nor changed.

    Returns
    -------
    SBM
        The network, the local data sets and the truth; `SBM.problem` declares the optimisation problem.

    Raises
    ------
    TypeError
        If a number is not one, or a count is not an integer.
    ValueError
        If an argument is outside its range, or `cluster_weights` does not fit `sizes`.

    References
    ----------
    .. [1] Y. Sarcheshmehpour, M. Leinonen, A. Jung, Federated Learning from Big Data Over Networks,
       ICASSP 2021, https://doi.org/10.1109/ICASSP39728.2021.9414903, arXiv:2010.14159.

    Examples
    --------
    >>> from gtvmin.datasets import make_sbm
    >>> make_sbm(seed=1)
    SBM(300 nodes in 2 clusters, 30 labelled, 5 rows in R^2 per node, lam=0.001)
    """
    from gtvmin.network import FLNetwork

    counts = np.array([positive_integer(size, f"sizes[{k}]") for k, size in enumerate(sizes)], dtype=np.intp)
    if not counts.size:
        raise ValueError("sizes must name at least one cluster, got none")
    n = int(counts.sum())
    W = finite_array(cluster_weights, "cluster_weights")
    if W.ndim != 2 or W.shape[0] != len(counts) or W.shape[1] == 0:
        raise ValueError(
            f"cluster_weights must have one row of parameters per cluster, shape ({len(counts)}, dim) for "
            f"these sizes, got shape {W.shape}"
        )
    for name, probability in (("p_in", p_in), ("p_out", p_out)):
        if nonnegative_number(probability, name) > 1:
            raise ValueError(f"{name} must be a probability in [0, 1], got {probability}")
    rows = positive_integer(rows, "rows")
    if positive_integer(n_labelled, "n_labelled") > n:
        raise ValueError(f"n_labelled must be at most the number of nodes, sum(sizes) = {n}, got {n_labelled}")
    noise = nonnegative_number(noise, "noise")
    lam = nonnegative_number(lam, "lam")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, got {seed!r}")
    graph_rng, feature_rng, label_rng, noise_rng = np.random.default_rng(int(seed)).spawn(4)

    clusters = np.repeat(np.arange(len(counts)), counts)
    true_weights = W[clusters]
    features = feature_rng.standard_normal((n, rows, W.shape[1]))
    labels = (features @ true_weights[:, :, None])[:, :, 0] + noise * noise_rng.standard_normal((n, rows))
    labelled = np.sort(label_rng.choice(n, size=n_labelled, replace=False))
    return SBM(
        network=FLNetwork.from_edges(_sample_edges(graph_rng, counts, p_in, p_out), nodes=range(n)),
        features=frozen(features),
        labels=frozen(labels),
        true_weights=frozen(true_weights),
        clusters=frozen(clusters),
        labelled=frozen(labelled),
        lam=lam,
    )


def _sample_edges(rng: np.random.Generator, counts: NDArray[np.intp], p_in: float, p_out: float) -> NDArray[np.int64]:
    """Draw the edges ``(i, j)``, ``i < j``, of a stochastic block model, in lexicographic order."""
    clusters = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    inside = [start + _sample_pairs(rng, int(size), p_in) for start, size in zip(starts, counts, strict=True)]
    # Every pair is drawn with p_out and those inside a cluster are dropped: the pairs are independent.
    across = _sample_pairs(rng, len(clusters), p_out)
    across = across[clusters[across[:, 0]] != clusters[across[:, 1]]]
    edges = np.concatenate([*inside, across])
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def _sample_pairs(rng: np.random.Generator, n: int, probability: float) -> NDArray[np.int64]:
    """Draw each pair ``i < j`` of ``0..n-1`` independently, without listing the pairs that are not drawn."""
    n_pairs = n * (n - 1) // 2
    # A binomial number of pairs, then a uniform subset of that size, are independent trials.
    pairs = rng.choice(n_pairs, size=rng.binomial(n_pairs, probability), replace=False, shuffle=False)
    # Pair number j (j - 1) / 2 + i is (i, j). The root is exact to well below 1/j for n up to 10^7.
    j = ((1 + np.sqrt(1 + 8 * pairs)) // 2).astype(np.int64)
    return np.column_stack([pairs - j * (j - 1) // 2, j])
