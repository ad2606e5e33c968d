"""Matchings of the network that are drawn anew each round: random mixing matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import eigsh

from ..linear_maps import EdgeDifference
from ..standard_form import Array, StandardForm
from .matchings import edge_colours
from .mixing import DENSE_LIMIT, coupled_pairs
from .streams import COINS, Keys, server_key, uniforms

__all__ = ["DrawnMatchings", "RandomMatchings"]


@dataclass(frozen=True)
class RandomMatchings:
    """``M_k = I - a sum_j B_j L_j``: each matching j of the network, with Laplacian L_j, is used if its coin says so.

    Parameters
    ----------
    probability : float or sequence of float
        Of each matching, or of all, above 0 and at most 1: the share of the messages that are sent.
    strength : float, optional
        The factor a.  Default: ``1 / lambda_max(L)`` with the Laplacian L of all edges, the largest for which no M_k
        has a negative eigenvalue.
    seed : int
        Of the coins, which all devices share.
    """

    probability: float | Sequence[float] = 0.5
    strength: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        q = np.asarray(self.probability, dtype=float)
        if not ((q > 0) & (q <= 1)).all():
            raise ValueError(f"probability must be above 0 and at most 1, got {self.probability!r}")
        if self.strength is not None and not 0 < self.strength < np.inf:
            raise ValueError(f"strength must be a finite number > 0, got {self.strength!r}")

    def on(self, form: StandardForm) -> DrawnMatchings:
        """Those of a form's network: the colours of an edge colouring."""
        tail, head = coupled_pairs(form)
        matching = edge_colours(tail, head, form.n_nodes)
        count = int(matching.max(initial=-1)) + 1
        q = np.asarray(self.probability, dtype=float)
        if q.shape not in ((), (count,)):
            raise ValueError(f"probability must be one number or {count} of them, one a matching of this network")
        edges = EdgeDifference(tail, head, form.n_nodes, form.dim)
        largest = _largest_eigenvalue(edges)
        a = (1.0 / largest if largest > 0 else 1.0) if self.strength is None else self.strength
        return DrawnMatchings(
            edges, matching, np.array(np.broadcast_to(q, (count,))), a, 1.0 - a * largest, server_key(self.seed)
        )


@dataclass(frozen=True, eq=False, slots=True)
class DrawnMatchings:
    """The matchings of a network.

    Attributes
    ----------
    edges : EdgeDifference
        Pairs of neighbours.
    matching : int array (n_edges,)
        The matching of each.
    probability : array (n_matchings,)
    strength : float
    least_eigenvalue : float
        The least that an M_k can have.
    key : Keys
        Of the coins.
    """

    edges: EdgeDifference
    matching: NDArray[np.int64]
    probability: Array
    strength: float
    least_eigenvalue: float
    key: Keys

    def used(self, round: int) -> NDArray[np.bool_]:
        """The edges that a round uses, (n_edges,)."""
        coins = uniforms(self.key, round, COINS, np.arange(len(self.probability))) < self.probability
        return np.asarray(coins[self.matching], dtype=bool)

    def mix(self, W: Array, used: NDArray[np.bool_]) -> Array:
        """``M_k W``."""
        return W - self.strength * self.edges.adjoint(used[:, None] * self.edges.apply(W))

    def messages(self, used: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Source and target of what is sent over these edges, each way."""
        tail, head = self.edges.tail[used], self.edges.head[used]
        return np.append(tail, head), np.append(head, tail)

    @property
    def expected(self) -> sparse.csr_array:
        """The mean of M_k, (n_nodes, n_nodes)."""
        mean = _laplacian(self.edges, self.probability[self.matching])
        return sparse.csr_array(sparse.eye_array(self.edges.n_nodes) - self.strength * mean)

    @property
    def second_moment_radius(self) -> float:
        """``lambda_max(E[M_k^2] - J)``, by which squared disagreement shrinks; below one on a connected network.

        As ``L_j^2 = 2 L_j``, E is ``E[M_k]^2 + 2 a^2 sum_j q_j (1 - q_j) L_j``.
        """
        n, q = self.edges.n_nodes, self.probability
        spread = _laplacian(self.edges, (q * (1.0 - q))[self.matching])
        second = self.expected @ self.expected + 2.0 * self.strength**2 * spread
        return float(np.linalg.eigvalsh(second.toarray() - np.full((n, n), 1.0 / n))[-1])


def _largest_eigenvalue(edges: EdgeDifference) -> float:
    """That of the Laplacian of all edges; of many devices to a per cent, which is added."""
    L = _laplacian(edges, np.ones(edges.n_rows))
    if edges.n_nodes <= DENSE_LIMIT:
        return float(np.linalg.eigvalsh(L.toarray())[-1])
    start = np.cos(np.arange(edges.n_nodes) ** 2.0)
    return 1.01 * float(eigsh(L, k=1, which="LA", return_eigenvectors=False, tol=0.01, v0=start)[0])


def _laplacian(edges: EdgeDifference, weight: Array) -> sparse.csr_array:
    D = edges.incidence
    return sparse.csr_array(D.T @ sparse.diags_array(weight) @ D)
