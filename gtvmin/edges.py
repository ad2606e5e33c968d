"""The checked form of a graph: labels in node order, positions ``tail < head`` of each edge, weights > 0."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from numbers import Real
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "EdgeList",
    "FloatArray",
    "IntArray",
    "is_data_frame",
    "is_hashable",
    "is_missing",
    "locate_ends",
    "node_labels",
    "orient",
    "pair",
    "positive_weights",
    "raise_self_loop",
    "real_numbers",
]

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


class EdgeList(NamedTuple):
    """Nodes and oriented edges; `tail`, `head` and `weights` have one entry an edge."""

    nodes: tuple[Hashable, ...]
    tail: IntArray
    head: IntArray
    weights: FloatArray


def is_data_frame(table: Any) -> bool:
    """Whether `table` is a pandas DataFrame, told without importing pandas."""
    return hasattr(table, "iloc") and hasattr(table, "columns")


def is_hashable(label: Any) -> bool:
    """Whether `label` can be a key; a tuple that holds a list cannot."""
    try:
        hash(label)
    except TypeError:
        return False
    return True


def is_missing(label: Any) -> bool:
    """None, NaN, NaT (both unequal to themselves) or pandas.NA (which has no truth value)."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def _plain(label: Any) -> Any:
    """Numpy scalar as a Python one, except dates: .item() turns those in nanoseconds into bare integers."""
    keep = not isinstance(label, np.generic) or label.dtype.kind in "mM"
    return label if keep else label.item()


def node_labels(labels: Iterable[Any]) -> tuple[Hashable, ...]:
    """Labels as a tuple, numpy scalars as Python ones; a missing, unhashable or repeated label is an error."""
    if isinstance(labels, (str, bytes)):
        raise TypeError(f"nodes must be a list of labels, got the single text {labels!r}")
    plain = tuple(_plain(label) for label in labels)
    first: dict[Hashable, int] = {}
    for position, label in enumerate(plain):
        if not is_hashable(label):
            raise TypeError(f"nodes: label {label!r} is not hashable: use a text, a number or a tuple")
        if is_missing(label):
            raise ValueError(f"nodes: the label at position {position} is missing ({label!r}): give every node one")
        if first.setdefault(label, position) != position:
            raise ValueError(
                f"nodes: {label!r} stands at positions {first[label]} and {position}: labels must be unique"
            )
    if not plain:
        raise ValueError("the graph is empty: a network needs at least one node")
    return plain


def locate_ends(ends: Sequence[Any], labels: Sequence[Hashable]) -> tuple[IntArray, IntArray]:
    """Positions in `labels` of the first and of the second ends in u0, v0, u1, v1, ..."""
    index = {label: position for position, label in enumerate(labels)}
    try:
        positions = np.array([index[end] for end in ends], dtype=np.int64)
    except KeyError:
        k = next(k for k, end in enumerate(ends) if end not in index)
        u, v = (_plain(end) for end in ends[k - k % 2 : k - k % 2 + 2])
        raise ValueError(f"edge ({u!r}, {v!r}): {_plain(ends[k])!r} is missing from nodes: add it there") from None
    return positions[0::2], positions[1::2]


def orient(labels: tuple[Hashable, ...], first: IntArray, second: IntArray, values: Any) -> EdgeList:
    """Check the weights and self-loops of given edges and turn each so that its tail comes first in node order."""
    loops = np.flatnonzero(first == second)
    if loops.size:
        raise_self_loop(labels[first[loops[0]]])
    weights = positive_weights(values, lambda k: f"edge {pair(labels, first[k], second[k])}")
    return EdgeList(labels, np.minimum(first, second), np.maximum(first, second), weights)


def positive_weights(
    values: Any, name: Callable[[int], str], if_zero: str = "leave the edge out, since it couples nothing"
) -> FloatArray:
    """Weights as float64; one that is no finite number > 0 is an error that names its edge by `name`."""
    weights = real_numbers(values, name)
    bad = np.flatnonzero(~((weights > 0) & (weights < np.inf)))
    if bad.size:
        weight = weights[bad[0]]
        if weight == 0:
            fix = if_zero
        elif weight < 0:
            fix = "a negative weight rewards disagreement, and the problem would not be convex"
        else:
            fix = "mend the data or leave the edge out"
        raise ValueError(f"{name(int(bad[0]))} has weight {weight:g}, not a finite number > 0: {fix}")
    return weights


def real_numbers(values: Any, name: Callable[[int], str]) -> FloatArray:
    """Copy of a flat list of numbers as float64; a boolean, text or complex one is a TypeError."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        return values.astype(np.float64)
    listed = list(values)
    wrong = {kind for kind in set(map(type, listed)) if issubclass(kind, bool) or not issubclass(kind, Real)}
    if wrong:
        position = next(k for k, value in enumerate(listed) if type(value) in wrong)
        value = listed[position]
        raise TypeError(f"{name(position)} has weight {value!r} of type {type(value).__name__}: give a real number")
    return np.array(listed, dtype=np.float64)


def raise_self_loop(label: Hashable) -> NoReturn:
    """Say that a node is joined to itself."""
    raise ValueError(
        f"node {label!r} has an edge to itself: remove self-loops and diagonal entries, they couple nothing"
    )


def pair(labels: Sequence[Hashable], i: Any, j: Any) -> str:
    """Two nodes as they are named in messages."""
    return f"({labels[i]!r}, {labels[j]!r})"
