"""What a user writes for losses, penalties and dimensions, in node order."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FrameType
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gtvmin.errors import MissingLossWarning
from gtvmin.losses.base import Loss
from gtvmin.losses.zero import Zero
from gtvmin.network import FLNetwork
from gtvmin.validation import positive_integer

__all__ = ["Losses", "losses_in_order", "parameter_counts", "penalties_of_attribute"]

Losses = Mapping[Any, Loss] | Sequence[Loss] | Callable[[Any], Loss]


def losses_in_order(network: FLNetwork, losses: Losses) -> tuple[Loss, ...]:
    """One loss per node in node order, from a mapping, a sequence or a function of the label."""
    if isinstance(losses, Loss):
        raise TypeError("losses must give one loss per node: a dict {label: loss}, a list, or a function of the label")
    if isinstance(losses, Mapping):
        known = set(network.nodes)
        for label in losses:
            if label not in known:
                raise ValueError(
                    f"losses has a loss for {label!r}, which is not a node of the network{_twin(label, network)}"
                )
        missing = [node for node in network.nodes if node not in losses]
        if missing:
            warnings.warn(
                f"{len(missing)} of {network.n_nodes} nodes have no loss and get Zero(), the first is "
                f"{missing[0]!r}: declare Zero() for them if that is meant",
                MissingLossWarning,
                stacklevel=_level_of_caller(),
            )
        ordered = [losses.get(node, Zero()) for node in network.nodes]
    elif callable(losses):
        ordered = [_call(losses, node) for node in network.nodes]
    else:
        ordered = list(losses)
        if len(ordered) != network.n_nodes:
            raise ValueError(f"losses has {len(ordered)} entries for {network.n_nodes} nodes")
    for node, loss in zip(network.nodes, ordered, strict=True):
        if not isinstance(loss, Loss):
            raise TypeError(f"the loss of node {node!r} must be a loss such as SquaredError(X, y), got {_kind(loss)}")
    return tuple(ordered)


def _twin(label: Hashable, network: FLNetwork) -> str:
    """A hint if only the type of a label is wrong, as where 3 is read from a file as text."""
    twin = next((node for node in network.nodes if str(node) == str(label)), None)
    return "" if twin is None else f", while {twin!r} is: labels must have the same type"


def _kind(value: Any) -> str:
    """A wrong loss in a few words: arrays would fill the screen."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"


def _call(losses: Callable[[Any], Loss], node: Hashable) -> Loss:
    try:
        return losses(node)
    except Exception as error:
        error.add_note(f"in the loss of node {node!r}")
        raise


def _level_of_caller() -> int:
    """``stacklevel`` of the line outside the package that declares the problem, by whichever of its names."""
    level = 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "gtvmin":
        level, frame = level + 1, frame.f_back
    return level


def penalties_of_attribute(penalty: Any, network: Any) -> Any:
    """The penalties that an edge attribute of a networkx graph holds, by pair of labels; others as they are."""
    if isinstance(penalty, type):
        raise TypeError(f"penalty is the class {penalty.__name__}, not a penalty: write {penalty.__name__}(...)")
    if not isinstance(penalty, str):
        return penalty
    if not isinstance(network, nx.Graph):
        raise TypeError(
            f"penalty={penalty!r} names an edge attribute, but the network is no networkx graph: give a penalty such "
            "as Norm(2) or SquaredNorm(), or a dict from pairs of labels to penalties"
        )
    for tail, head, data in network.edges(data=True):
        if penalty not in data:
            raise ValueError(f"the edge ({tail!r}, {head!r}) has no attribute {penalty!r} for its penalty")
    return {(tail, head): data[penalty] for tail, head, data in network.edges(data=True)}


def parameter_counts(
    network: FLNetwork, losses: tuple[Loss, ...], dim: int | Mapping[Any, int] | list[int] | None
) -> NDArray[np.int64]:
    """Number of parameters of every device; ``dim`` may be a list of them in node order."""
    given: Sequence[int | None]
    if isinstance(dim, list):
        given = dim
    elif isinstance(dim, Mapping):
        for label in dim:
            network.index(label)
        given = [
            positive_integer(dim[node], f"dim of node {node!r}") if node in dim else None for node in network.nodes
        ]
    else:
        given = [None if dim is None else positive_integer(dim, "dim")] * network.n_nodes
    found: list[int | None] = []
    for node, loss, asked in zip(network.nodes, losses, given, strict=True):
        own = loss.dim
        if own is not None and asked is not None and own != asked:
            raise ValueError(f"node {node!r} has {own} parameters and dim has {asked}")
        found.append(asked if own is None else own)
    known = {number for number in found if number is not None}
    if not known:
        raise ValueError("no loss fixes the number of parameters: give dim=")
    if len(known) > 1 and None in found:
        node = network.nodes[found.index(None)]
        raise ValueError(
            f"the loss of node {node!r} fits any number of parameters, and other devices have "
            f"{' or '.join(map(str, sorted(known)))}: give its number by dim={{label: number}}"
        )
    fallback = next(iter(known))
    return np.array([fallback if number is None else number for number in found], dtype=np.int64)
