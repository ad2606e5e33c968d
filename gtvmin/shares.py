"""Certificates without a centre: every device computes its share of the gap from what it and its neighbours know.

The gap is a sum of one term per device and one per edge, each at least zero.  A device needs its own loss, its own
parameters, and from every neighbour the neighbour's parameters and its copy of the flow on their edge; it reports a few
numbers, and no data.  The sum of the reports is the gap of the whole network.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.dual_repair import complete_duals
from gtvmin.errors import CapabilityError, CertificateError
from gtvmin.linear_conditions import SPAN_TOLERANCE, span_residual
from gtvmin.losses.zero import Zero
from gtvmin.network import FLNetwork
from gtvmin.penalties.edge_terms import IntArray
from gtvmin.penalties.per_edge import PerEdge
from gtvmin.solvers.standard_form import Array, Duals

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.penalties.base import Penalty
    from gtvmin.problem import GTVMin

__all__ = ["DeviceState", "Message", "NodeShare", "device_states", "local_problem", "node_share", "sum_of_shares"]


@dataclass(frozen=True, eq=False)
class Message:
    """What a device sends to a neighbour: its parameters, and its copy of the flow from it to the neighbour."""

    parameters: Array
    flow: Array


@dataclass(frozen=True, eq=False)
class DeviceState:
    """What a device holds after a run: parameters, flows to its neighbours by label, duals of its own data points."""

    parameters: Array
    flows: dict[Hashable, Array]
    row_duals: Duals

    def message_to(self, neighbour: Hashable) -> Message:
        """The message for a neighbour."""
        return Message(self.parameters, self.flows[neighbour])


@dataclass(frozen=True, slots=True)
class NodeShare:
    """What a device reports.

    Attributes
    ----------
    node : label
        The device.
    term : float
        ``L_i(w_i) + L_i^*(s_i) - <s_i, w_i>``; ``inf`` if its flows violate a linear condition of its loss.
    halves : dict
        Neighbour's label to half of the term of their edge, of which the neighbour reports the other half.
    """

    node: Hashable
    term: float
    halves: dict[Hashable, float]

    @property
    def total(self) -> float:
        """The device's share of the gap."""
        return self.term + sum(self.halves.values())


def local_problem(problem: GTVMin, node: Hashable) -> GTVMin:
    """The part of a problem that a device knows: its loss, and the penalties on its edges; its neighbours have none.

    Raises
    ------
    CapabilityError
        If the problem has several families of edges, or a penalty with parameters by edge.
    """
    from gtvmin.problem import GTVMin

    net, whole = problem.network, problem.penalty
    if problem.further:
        raise CapabilityError("shares are for problems with one family of edges")
    if not whole.is_uniform and not isinstance(whole, PerEdge):
        raise CapabilityError(f"shares need a penalty that is declared edge by edge, not {whole!r}")
    i = net.index(node)
    mine = np.flatnonzero((net.tail == i) | (net.head == i)).tolist()
    pairs = {net.edges[e]: float(net.weights[e]) for e in mine}
    members = [label for label in net.nodes if label == node or any(label in pair for pair in pairs)]
    dims = dict(zip(net.nodes, problem.dims.tolist(), strict=True))
    penalty: Penalty | dict[tuple[Hashable, Hashable], Penalty] = whole
    if isinstance(whole, PerEdge):
        penalty = {net.edges[e]: whole.kinds[whole.which[e]] for e in mine}
    return GTVMin(
        FLNetwork.from_edges(list(pairs), weights=list(pairs.values()), nodes=members),
        [problem.losses[i] if label == node else Zero(dims[label]) for label in members],
        penalty=penalty,
        alpha=problem.alpha,
        dim={label: dims[label] for label in members},
    )


def node_share(
    problem: GTVMin,
    node: Hashable,
    w: ArrayLike,
    flows: Mapping[Hashable, ArrayLike],
    messages: Mapping[Hashable, Message],
    *,
    row_duals: Duals | None = None,
) -> NodeShare:
    """A device's share of the duality gap, from its own loss and its neighbours' messages.

    Parameters
    ----------
    problem : GTVMin
        The problem, or the device's :func:`local_problem`: nothing else of it is read.
    node : label
        The device.
    w : array_like (dim,)
        Its parameters.
    flows : mapping from label to array_like
        Its copies of the flows to its neighbours.
    messages : mapping from label to Message
        What its neighbours sent.
    row_duals : tuple of arrays, optional
        Its duals for the parts of its loss that are not quadratic; subgradients at w by default.

    Returns
    -------
    NodeShare

    Raises
    ------
    CertificateError
        If a neighbour sent nothing, or holds another flow for their edge: a bound needs one flow per edge.
    CapabilityError
        See :func:`local_problem`.

    Notes
    -----
    A false flow that both ends hold proves less, but nothing false.  A device that sends different parameters to
    different neighbours is seen by :func:`sum_of_shares`, to which both ends report the term of an edge.  A device that
    reports a false term of its own voids the proof: nobody else can compute it.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> net = gtv.FLNetwork.from_edges([("a", "b")])
    >>> losses = {"a": 0.5 * gtv.SquaredDistance([0.0]), "b": 0.5 * gtv.SquaredDistance([3.0])}
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> at_a = node_share(problem, "a", [1.1], {"b": [1.0]}, {"b": Message([1.9], [-1.0])})
    >>> at_b = node_share(problem, "b", [1.9], {"a": [-1.0]}, {"a": Message([1.1], [1.0])})
    >>> round(at_a.total, 6), round(sum_of_shares([at_a, at_b]), 6)
    (0.005, 0.01)
    """
    local = local_problem(problem, node)
    net = local.network
    neighbours = [label for label in net.nodes if label != node]
    own = {k: np.atleast_1d(np.asarray(flow, dtype=float)) for k, flow in flows.items()}
    for k in neighbours:
        if k not in messages or k not in own:
            missing = "message" if k not in messages else "flow"
            raise CertificateError(f"node {node!r} has no {missing} for its neighbour {k!r}")
        if not np.array_equal(own[k], -np.atleast_1d(np.asarray(messages[k].flow, dtype=float))):
            raise CertificateError(
                f"nodes {node!r} and {k!r} hold different copies of the flow on their edge: a bound needs one"
            )
    form = local.lowered.form
    W = local.parameters_array({node: w, **{k: messages[k].parameters for k in neighbours}})
    U = local.lowered.lower_flows(local.flows_array({(node, k): own[k] for k in neighbours}))
    duals = complete_duals(form, W, U + (() if row_duals is None else row_duals))
    inside, off, throughput = span_residual(form, duals)
    i = net.index(node)
    term = float(form.quadratic.fenchel_young(W, inside)[i]) if off[i] <= SPAN_TOLERANCE * throughput[i] else np.inf
    per_edge = np.zeros(net.n_edges)
    for k, (part, dual) in enumerate(zip(form.terms, duals, strict=True)):
        values = part.function.fenchel_young(part.evaluate(W)[0], dual)
        if k < len(form.couplings):
            per_edge[local.lowered.edges[k]] = values
        else:
            term += float(values.sum())
    others = [head if tail == node else tail for tail, head in net.edges]
    return NodeShare(node, term, {k: 0.5 * float(value) for k, value in zip(others, per_edge, strict=True)})


def sum_of_shares(shares: Iterable[NodeShare]) -> float:
    """The gap of the whole network from all devices' reports.

    Raises
    ------
    CertificateError
        If the two ends of an edge report different terms, or one of them reports nothing.
    """
    by_node = {share.node: share for share in shares}
    for share in by_node.values():
        for neighbour, half in share.halves.items():
            other = by_node[neighbour].halves.get(share.node) if neighbour in by_node else None
            if other is None:
                raise CertificateError(f"node {neighbour!r} has reported nothing about its edge to node {share.node!r}")
            if other != half:
                raise CertificateError(
                    f"nodes {share.node!r} and {neighbour!r} report different terms of their edge ({half:.6g} and "
                    f"{other:.6g}): they have not used the same parameters"
                )
    return float(sum(share.total for share in by_node.values()))


def device_states(problem: GTVMin, certificate: Certificate) -> dict[Hashable, DeviceState]:
    """What every device of a network would hold if it had found the parameters and flows of a certificate."""
    net, form = problem.network, problem.lowered.form
    states: dict[Hashable, DeviceState] = {}
    rows = list(zip(form.rows, certificate.duals[len(form.couplings) :], strict=True))
    for i, node in enumerate(net.nodes):
        flows = {net.nodes[h]: certificate.U[e] for e, h in zip(*_at(net.tail, net.head, i), strict=True)}
        flows |= {net.nodes[t]: -certificate.U[e] for e, t in zip(*_at(net.head, net.tail, i), strict=True)}
        duals = []
        for mine in local_problem(problem, node).lowered.form.rows:
            found = (
                dual[term.map.ends[0] == i]
                for term, dual in rows
                if type(term.function) is type(mine.function) and term.map.width == mine.map.width
            )
            duals.append(next(dual for dual in found if len(dual) == mine.map.n_rows))
        states[node] = DeviceState(certificate.W[i], flows, tuple(duals))
    return states


def _at(end: IntArray, other: IntArray, i: int) -> tuple[list[int], list[int]]:
    """Edges with one end at a device, and their other ends."""
    edges = np.flatnonzero(end == i)
    return edges.tolist(), other[edges].tolist()
