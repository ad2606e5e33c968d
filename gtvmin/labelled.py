"""Parameters and flows by labels as arrays in the order of the network."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.solvers.standard_form import Array
from gtvmin.validation import finite_array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["flows_array", "parameters_array"]


def parameters_array(problem: GTVMin, W: Any) -> Array:
    """Parameters as an array (n_nodes, dim) in node order, from an array, a mapping, a DataFrame or a Solution."""
    nodes = problem.network.nodes
    if hasattr(W, "weights") and hasattr(W, "certificate"):
        W = W.weights
    if hasattr(W, "reindex") and hasattr(W, "index"):  # a DataFrame
        W = dict(zip(W.index, W.to_numpy(), strict=True))
    if isinstance(W, Mapping):
        missing = [node for node in nodes if node not in W]
        if missing:
            raise ValueError(f"W has no parameters for node {missing[0]!r}")
        unknown = [key for key in W if key not in set(nodes)]
        if unknown:
            raise ValueError(f"W has parameters for {unknown[0]!r}, which is not a node of the network")
        W = _padded(problem, [np.atleast_1d(np.asarray(W[node])) for node in nodes])
    array = finite_array(W, "W")
    if array.shape == (len(nodes),) and problem.dim == 1:
        array = array[:, None]
    if array.shape != (len(nodes), problem.dim):
        raise ValueError(f"W must have shape {(len(nodes), problem.dim)}, got {array.shape}")
    beyond = (array != 0) & (np.arange(problem.dim) >= problem.dims[:, None])
    if beyond.any():
        i = int(beyond.any(axis=1).argmax())
        raise ValueError(f"W must be zero beyond the {problem.dims[i]} parameters of node {nodes[i]!r}")
    return array


def _padded(problem: GTVMin, rows: list[Any]) -> list[Any]:
    """Rows of each device's own length, or with NaN beyond it, with zeros instead; shapes are checked later."""
    out = []
    for node, row, dim in zip(problem.network.nodes, rows, problem.dims.tolist(), strict=True):
        if row.ndim == 1 and len(row) not in (dim, problem.dim):
            raise ValueError(f"W has {len(row)} parameters for node {node!r}, which has {dim}")
        own = row[:dim] if row.dtype.kind == "f" and np.isnan(row[dim:]).all() else row
        out.append(np.pad(own, (0, problem.dim - len(own))) if row.ndim == 1 else row)
    return out


def flows_array(problem: GTVMin, U: Any) -> Array:
    """Flows as an array (n_edges, dim) over the edges of all families.

    Parameters
    ----------
    U : array_like, mapping from (label, label) to the flow that way, or list of such mappings
        A mapping for a problem with one family of edges, a list with one mapping per family for others.
    """
    shape = problem.flow_shape
    if isinstance(U, Mapping):
        U = [U]
    if isinstance(U, Sequence) and U and all(isinstance(part, Mapping) for part in U):
        if len(U) != len(problem.couplings):
            raise ValueError(f"U has flows for {len(U)} families of edges, the problem has {len(problem.couplings)}")
        flows = [
            _flow_of(part, *pair) for part, c in zip(U, problem.couplings, strict=True) for pair in c.network.edges
        ]
        for pair, flow in zip(problem.edges, flows, strict=True):
            if flow.ndim != 1 or len(flow) > shape[1]:
                raise ValueError(f"the flow of the edge {pair!r} must have {shape[1]} entries, got {flow.shape}")
        U = np.array([np.pad(flow, (0, shape[1] - len(flow))) for flow in flows]).reshape(shape)
    array = finite_array(U, "U")
    if array.shape == shape[:1] and shape[1] == 1:
        array = array[:, None]
    if array.shape != shape:
        raise ValueError(f"U must have shape {shape}, got {array.shape}")
    return array


def _flow_of(flows: Mapping[Any, Any], tail: Hashable, head: Hashable) -> Array:
    if (tail, head) in flows:
        return np.atleast_1d(np.asarray(flows[tail, head]))
    if (head, tail) in flows:
        return -np.atleast_1d(np.asarray(flows[head, tail], dtype=float))
    raise ValueError(f"U has no flow for edge ({tail!r}, {head!r})")
