"""Edges in groups that share no device: an edge colouring with at most one colour more than the largest degree.

J. Misra, D. Gries, "A constructive proof of Vizing's theorem" (1992), DOI 10.1016/0020-0190(92)90041-S.
"""

from __future__ import annotations

from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["edge_colours"]

IntArray = NDArray[np.int64]


def edge_colours(tail: IntArray, head: IntArray, n_nodes: int) -> IntArray:
    """Colour of every edge of a simple graph, different where edges meet, (n_edges,).

    Examples
    --------
    >>> import numpy as np
    >>> from gtvmin.solvers.federated.matchings import edge_colours
    >>> edge_colours(np.array([0, 1, 2]), np.array([1, 2, 3]), 4).tolist()
    [0, 1, 0]
    """
    most = int(np.bincount(np.append(tail, head), minlength=1).max())
    colouring = _Colouring(n_nodes, most + 1)
    for u, v in zip(tail.tolist(), head.tolist(), strict=True):
        colouring.add(u, v)
    return np.array([colouring.of[u, v] for u, v in zip(tail.tolist(), head.tolist(), strict=True)], dtype=np.int64)


class _Colouring:
    """A proper colouring of the edges so far."""

    def __init__(self, n_nodes: int, n_colours: int) -> None:
        self.n_colours = n_colours
        self.at: list[dict[int, int]] = [{} for _ in range(n_nodes)]  # colour -> neighbour, of every node
        self.of: dict[tuple[int, int], int] = {}

    def add(self, u: int, v: int) -> None:
        """Colour one more edge, if it has to be by changing others."""
        both = self.at[u].keys() | self.at[v].keys()
        common = next((colour for colour in range(self.n_colours) if colour not in both), None)
        if common is not None:
            self._set(u, v, common)
            return
        fan = self._fan(u, v)
        c, d = self._free(u), self._free(fan[-1])
        if c != d:
            self._invert(u, c, d)
        # d is now free at u, and at some member of the fan up to which it still is one
        end = next(i for i in range(len(fan)) if d not in self.at[fan[i]] and self._is_fan(u, fan[: i + 1]))
        for here, following in pairwise(fan[: end + 1]):
            colour = self.of[u, following]
            self._clear(u, following)
            self._set(u, here, colour)
        self._set(u, fan[end], d)

    def _fan(self, u: int, v: int) -> list[int]:
        """Neighbours of u from v on, each by an edge whose colour is free at the one before: as many as there are."""
        fan, rest = [v], set(self.at[u].values())
        while True:
            following = next((w for w in sorted(rest) if self.of[u, w] not in self.at[fan[-1]]), None)
            if following is None:
                return fan
            fan.append(following)
            rest.remove(following)

    def _is_fan(self, u: int, fan: list[int]) -> bool:
        return all(self.of[u, following] not in self.at[here] for here, following in pairwise(fan))

    def _free(self, u: int) -> int:
        return next(colour for colour in count() if colour not in self.at[u])

    def _invert(self, u: int, c: int, d: int) -> None:
        """Exchange c and d along the path of these colours from u, at which c is free."""
        path, colour = [], d
        while colour in self.at[u]:
            path.append((u, self.at[u][colour], c if colour == d else d))
            u, colour = self.at[u][colour], c if colour == d else d
        for a, b, _ in path:
            self._clear(a, b)
        for a, b, exchanged in path:
            self._set(a, b, exchanged)

    def _set(self, u: int, v: int, colour: int) -> None:
        self.of[u, v] = self.of[v, u] = colour
        self.at[u][colour], self.at[v][colour] = v, u

    def _clear(self, u: int, v: int) -> None:
        colour = self.of.pop((u, v))
        del self.of[v, u], self.at[u][colour], self.at[v][colour]
