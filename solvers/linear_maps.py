"""Linear maps from the devices' parameters to rows: differences across edges, predictions of data points.

A map K takes W (n_nodes, dim) to an array (n_rows, width).  Row r reads one device or two; ``sizes()`` bounds how
strongly, which is all that a solver needs for its step sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["ClassRows", "CoordinateDifference", "EdgeDifference", "EdgeMaps", "LinearMap", "NodeRows", "NodeSelection"]

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]


class LinearMap:
    """``K: W (n_nodes, dim) -> (n_rows, width)``.

    Attributes
    ----------
    n_nodes, dim, n_rows, width : int
        Shapes.
    ends : tuple of int arrays (n_rows,)
        The devices that a row reads: one array, or two (tail and head).
    """

    n_nodes: int
    dim: int
    n_rows: int
    width: int
    ends: tuple[IntArray, ...]

    def apply(self, W: Array) -> Array:
        """``K W``, shape (n_rows, width)."""
        raise NotImplementedError

    def adjoint(self, V: Array) -> Array:
        """``K^T V``, shape (n_nodes, dim)."""
        raise NotImplementedError

    def sizes(self) -> tuple[Array, ...]:
        """Norm of each row's block at each of its ends, one array (n_rows,) per end."""
        raise NotImplementedError

    def matrix(self) -> sparse.csr_array:
        """K as a sparse matrix from ``W.ravel()`` to ``(K W).ravel()``."""
        raise NotImplementedError

    def absolute_adjoint(self, V: Array) -> Array:
        """``|K|^T V``, with the sizes of K's entries in their place, shape (n_nodes, dim)."""
        return np.asarray(abs(self.matrix()).T @ V.ravel()).reshape(self.n_nodes, self.dim)

    def renumbered(self, position: IntArray, n_nodes: int) -> LinearMap:
        """The same rows of other devices: what a row read at device i it reads at ``position[i]``."""
        raise NotImplementedError

    def padded(self, dim: int) -> LinearMap:
        """The same rows of devices with more parameters, of which those beyond play no part."""
        raise NotImplementedError

    def rounding(self, W: Array) -> Array:
        """Bound on the rounding of each row of ``K W`` and of W's own last digits; zero where K copies numbers."""
        return np.zeros(self.n_rows)

    def at_nodes(self, rows: Array) -> Array:
        """Sum a number per row (n_rows,) over the rows that read each device, weighted by the squared sizes."""
        total = np.zeros(self.n_nodes)
        for end, size in zip(self.ends, self.sizes(), strict=True):
            total += np.bincount(end, rows * size**2, self.n_nodes)
        return total


class EdgeDifference(LinearMap):
    """``(D W)_e = w_head(e) - w_tail(e)``."""

    def __init__(self, tail: IntArray, head: IntArray, n_nodes: int, dim: int) -> None:
        self.tail, self.head, self.ends = tail, head, (tail, head)
        self.n_nodes, self.dim, self.n_rows, self.width = n_nodes, dim, len(tail), dim
        m = len(tail)
        columns = np.column_stack([tail, head]).ravel()
        data = np.tile(np.array([-1.0, 1.0]), m)
        self.incidence = sparse.csr_array((data, columns, 2 * np.arange(m + 1)), shape=(m, n_nodes))
        self._transposed = self.incidence.T.tocsr()

    def apply(self, W: Array) -> Array:
        """``w_head - w_tail``."""
        return np.asarray(self.incidence @ W)  # several times faster than fancy indexing

    def adjoint(self, V: Array) -> Array:
        """What flows into each device less what flows out."""
        return np.asarray(self._transposed @ V)

    def absolute_adjoint(self, V: Array) -> Array:
        """Sum over the edges at each device."""
        return np.asarray(abs(self._transposed) @ V)

    def sizes(self) -> tuple[Array, ...]:
        """One at both ends."""
        one = np.ones(self.n_rows)
        return one, one

    def matrix(self) -> sparse.csr_array:
        """``D`` times the identity of the parameters."""
        return sparse.csr_array(sparse.kron(self.incidence, sparse.eye_array(self.dim)))

    def take(self, rows: IntArray) -> EdgeDifference:
        """Some of the edges."""
        return EdgeDifference(self.tail[rows], self.head[rows], self.n_nodes, self.dim)

    def renumbered(self, position: IntArray, n_nodes: int) -> EdgeDifference:
        """Edges between other devices."""
        return EdgeDifference(position[self.tail], position[self.head], n_nodes, self.dim)


class CoordinateDifference(LinearMap):
    """``(w_head(e) - w_tail(e))[coordinates]``."""

    def __init__(self, tail: IntArray, head: IntArray, coordinates: IntArray, n_nodes: int, dim: int) -> None:
        self.tail, self.head, self.ends = tail, head, (tail, head)
        self.coordinates, self.n_nodes, self.dim = coordinates, n_nodes, dim
        self.n_rows, self.width = len(tail), len(coordinates)
        self._whole = EdgeDifference(tail, head, n_nodes, self.width)

    def apply(self, W: Array) -> Array:
        """``w_head - w_tail``, some of its coordinates."""
        return self._whole.apply(W[:, self.coordinates])

    def adjoint(self, V: Array) -> Array:
        """What flows into each device less what flows out; zero in the other coordinates."""
        out = np.zeros((self.n_nodes, self.dim))
        out[:, self.coordinates] = self._whole.adjoint(V)
        return out

    def sizes(self) -> tuple[Array, ...]:
        """One at both ends."""
        return self._whole.sizes()

    def matrix(self) -> sparse.csr_array:
        """``D`` times the rows of the identity that belong to the coordinates."""
        selection = sparse.eye_array(self.dim, format="csr")[self.coordinates]
        return sparse.csr_array(sparse.kron(self._whole.incidence, selection))

    def take(self, rows: IntArray) -> CoordinateDifference:
        """Some of the edges."""
        return CoordinateDifference(self.tail[rows], self.head[rows], self.coordinates, self.n_nodes, self.dim)

    def renumbered(self, position: IntArray, n_nodes: int) -> CoordinateDifference:
        """Edges between other devices."""
        return CoordinateDifference(position[self.tail], position[self.head], self.coordinates, n_nodes, self.dim)


class EdgeMaps(LinearMap):
    """``(K W)_e = B_e w_head(e) - C_e w_tail(e)`` with matrices B, C of shape (n_rows, width, dim)."""

    def __init__(self, tail: IntArray, head: IntArray, B: Array, C: Array, n_nodes: int) -> None:
        self.tail, self.head, self.ends = tail, head, (tail, head)
        self.B, self.C = B, C
        self.n_rows, self.width, self.dim = B.shape
        self.n_nodes = n_nodes
        rows, one = np.arange(self.n_rows), np.ones(self.n_rows)
        self._at_head, self._at_tail = (
            sparse.csr_array((one, (end, rows)), shape=(n_nodes, self.n_rows)) for end in (head, tail)
        )
        spectral = (np.linalg.norm(M, ord=2, axis=(1, 2)) if self.n_rows else one for M in (C, B))
        self._sizes = tuple(spectral)

    def apply(self, W: Array) -> Array:
        """``B w_head - C w_tail``."""
        at_head = np.einsum("ekd,ed->ek", self.B, W[self.head])
        return np.asarray(at_head - np.einsum("ekd,ed->ek", self.C, W[self.tail]))

    def adjoint(self, V: Array) -> Array:
        """``sum B^T v`` over edges that end in a device, less ``sum C^T v`` over those that start there."""
        at_head = self._at_head @ np.einsum("ekd,ek->ed", self.B, V)
        return np.asarray(at_head - self._at_tail @ np.einsum("ekd,ek->ed", self.C, V))

    def sizes(self) -> tuple[Array, ...]:
        """Spectral norms of C and B."""
        return self._sizes

    def matrix(self) -> sparse.csr_array:
        """B blocks at the heads, minus C blocks at the tails."""
        at_head = _blocks(self.head, self.B, self.n_nodes)
        return sparse.csr_array(at_head - _blocks(self.tail, self.C, self.n_nodes))

    def take(self, rows: IntArray) -> EdgeMaps:
        """Some of the edges."""
        return EdgeMaps(self.tail[rows], self.head[rows], self.B[rows], self.C[rows], self.n_nodes)

    def renumbered(self, position: IntArray, n_nodes: int) -> EdgeMaps:
        """Edges between other devices."""
        return EdgeMaps(position[self.tail], position[self.head], self.B, self.C, n_nodes)


class NodeRows(LinearMap):
    """Predictions ``x_r^T w_owner(r)`` of the data points of all devices: width one."""

    def __init__(self, owner: IntArray, X: Array, n_nodes: int) -> None:
        self.owner, self.X, self.ends = owner, X, (owner,)
        self.n_rows, self.dim = X.shape
        self.n_nodes, self.width = n_nodes, 1
        columns = (owner[:, None] * self.dim + np.arange(self.dim)).ravel()
        pointer = self.dim * np.arange(self.n_rows + 1)
        self._matrix = sparse.csr_array((X.ravel(), columns, pointer), shape=(self.n_rows, n_nodes * self.dim))
        self._transposed = self._matrix.T.tocsr()

    def apply(self, W: Array) -> Array:
        """``x_r^T w``."""
        return np.asarray(np.einsum("rj,rj->r", self.X, W[self.owner])[:, None])

    def adjoint(self, V: Array) -> Array:
        """``sum_r v_r x_r`` at every device."""
        return np.asarray(self._transposed @ V[:, 0]).reshape(self.n_nodes, self.dim)

    def sizes(self) -> tuple[Array, ...]:
        """Norms of the rows."""
        return (np.asarray(np.linalg.norm(self.X, axis=1)),)

    def matrix(self) -> sparse.csr_array:
        """The rows, each at its device."""
        return self._matrix

    def rounding(self, W: Array) -> Array:
        """``(k + 2) eps |x_r|^T |w|`` for k features that are not zero; none for a single coordinate."""
        used = np.count_nonzero(self.X, axis=1)
        copied = (used == 1) & (np.abs(self.X).sum(axis=1) == 1.0)
        units = np.where(copied, 0.0, np.finfo(float).eps * (used + 2.0))
        return np.asarray(units * np.einsum("rj,rj->r", np.abs(self.X), np.abs(W[self.owner])))

    def renumbered(self, position: IntArray, n_nodes: int) -> NodeRows:
        """Data points of other devices."""
        return NodeRows(position[self.owner], self.X, n_nodes)

    def padded(self, dim: int) -> NodeRows:
        """Zeros for the further parameters."""
        return NodeRows(self.owner, np.pad(self.X, ((0, 0), (0, dim - self.dim))), self.n_nodes)


class ClassRows(LinearMap):
    """Scores ``x_r^T W_owner(r)`` of the data points, one a class; a device's parameters are features x classes.

    Parameters that devices have beyond those, up to ``dim``, play no part.
    """

    def __init__(self, owner: IntArray, X: Array, classes: int, n_nodes: int, dim: int | None = None) -> None:
        self.owner, self.X, self.ends = owner, X, (owner,)
        self.n_rows, self.features = X.shape
        self.width, self.used, self.n_nodes = classes, self.features * classes, n_nodes
        self.dim = self.used if dim is None else dim

    def apply(self, W: Array) -> Array:
        """Scores (n_rows, classes)."""
        shaped = W[:, : self.used].reshape(self.n_nodes, self.features, self.width)
        return np.asarray(np.einsum("rf,rfc->rc", self.X, shaped[self.owner]))

    def adjoint(self, V: Array) -> Array:
        """``sum_r x_r v_r^T`` at every device."""
        out = np.zeros((self.n_nodes, self.features, self.width))
        np.add.at(out, self.owner, self.X[:, :, None] * V[:, None, :])
        return np.pad(out.reshape(self.n_nodes, self.used), ((0, 0), (0, self.dim - self.used)))

    def sizes(self) -> tuple[Array, ...]:
        """Norms of the rows."""
        return (np.asarray(np.linalg.norm(self.X, axis=1)),)

    def matrix(self) -> sparse.csr_array:
        """Each row once per class."""
        blocks = np.einsum("rf,ck->rcfk", self.X, np.eye(self.width)).reshape(self.n_rows, self.width, self.used)
        return _blocks(self.owner, np.pad(blocks, ((0, 0), (0, 0), (0, self.dim - self.used))), self.n_nodes)

    def rounding(self, W: Array) -> Array:
        """Of all scores together: ``(k + 2) eps`` times the norm of ``|x_r|^T |W|``, for k features beside zeros."""
        units = np.finfo(float).eps * (np.count_nonzero(self.X, axis=1) + 2.0)
        shaped = np.abs(W[:, : self.used].reshape(self.n_nodes, self.features, self.width))
        sizes = np.einsum("rf,rfc->rc", np.abs(self.X), shaped[self.owner])
        return np.asarray(units * np.linalg.norm(sizes, axis=1))

    def renumbered(self, position: IntArray, n_nodes: int) -> ClassRows:
        """Data points of other devices."""
        return ClassRows(position[self.owner], self.X, self.width, n_nodes, self.dim)

    def padded(self, dim: int) -> ClassRows:
        """The same scores."""
        return ClassRows(self.owner, self.X, self.width, self.n_nodes, dim)


class NodeSelection(LinearMap):
    """The first ``width`` parameters, by default all, of some devices: row r is ``w_owner(r)``."""

    def __init__(self, owner: IntArray, n_nodes: int, dim: int, width: int | None = None) -> None:
        self.owner, self.ends = owner, (owner,)
        self.n_nodes, self.dim, self.n_rows = n_nodes, dim, len(owner)
        self.width = dim if width is None else width

    def apply(self, W: Array) -> Array:
        """``w_owner``."""
        return W[self.owner, : self.width]

    def adjoint(self, V: Array) -> Array:
        """Rows put back, added where a device is selected more than once."""
        out = np.zeros((self.n_nodes, self.dim))
        np.add.at(out[:, : self.width], self.owner, V)
        return out

    def sizes(self) -> tuple[Array, ...]:
        """Ones."""
        return (np.ones(self.n_rows),)

    def matrix(self) -> sparse.csr_array:
        """Rows of the identity."""
        blocks: Any = np.broadcast_to(np.eye(self.width, self.dim), (self.n_rows, self.width, self.dim))
        return _blocks(self.owner, blocks, self.n_nodes)

    def renumbered(self, position: IntArray, n_nodes: int) -> NodeSelection:
        """Parameters of other devices."""
        return NodeSelection(position[self.owner], n_nodes, self.dim, self.width)

    def padded(self, dim: int) -> NodeSelection:
        """The same parameters."""
        return NodeSelection(self.owner, self.n_nodes, dim, self.width)


def _blocks(owner: IntArray, blocks: Array, n_nodes: int) -> sparse.csr_array:
    """Sparse matrix with the block (width, dim) of row r at the columns of its device."""
    rows, width, dim = blocks.shape
    columns = np.broadcast_to(owner[:, None, None] * dim + np.arange(dim), blocks.shape).ravel()
    pointer = dim * np.arange(rows * width + 1)
    return sparse.csr_array(
        (np.ascontiguousarray(blocks).ravel(), columns, pointer), shape=(rows * width, n_nodes * dim)
    )
