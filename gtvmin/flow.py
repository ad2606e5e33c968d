"""The dual of GTV minimisation as an object of its own: vector minimum-cost flow."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import NotUniqueWarning
from gtvmin.flow_lp import Arcs, check_bounded, solve_arcs
from gtvmin.losses import Linear
from gtvmin.network import FLNetwork
from gtvmin.penalties.flow_cost import FlowCost, FlowCostBlocks
from gtvmin.penalties.norm import NormBlocks
from gtvmin.problem import GTVMin
from gtvmin.solvers.linear_maps import EdgeDifference
from gtvmin.validation import finite_array

if TYPE_CHECKING:
    import networkx as nx

    from gtvmin.certificates import Certificate
    from gtvmin.solvers.standard_form import Array

__all__ = ["FlowSolution", "MinCostFlow"]


@dataclass(frozen=True, eq=False)
class MinCostFlow:
    r"""Vector minimum-cost flow: the dual of a GTV minimisation problem.

    .. math::
        \min_U \; \sum_i L_i^*\bigl(-(D^\top U)_i\bigr) + \sum_e \alpha A_e \, \phi^*(u_e / (\alpha A_e))

    Each edge carries a flow :math:`u_e \in \mathbb{R}^d` from tail to head, at a cost or within a capacity that the
    penalty's conjugate states; each device pays ``L_i^*`` for what leaves it net.  Its optimal value is minus that of
    the problem.

    Parameters
    ----------
    problem : GTVMin
        The problem whose dual this is; ``problem.dual()`` makes it.

    Notes
    -----
    A. Jung, arXiv 2010.14159, Section III.  With the losses ``Linear(-demand_i)`` and the penalty
    :class:`~gtvmin.penalties.FlowCost` it is exactly the minimum-cost flow problem of networkx: inflow minus outflow
    equals demand, and the potentials are -w.

    Examples
    --------
    >>> import networkx as nx
    >>> from gtvmin.flow import MinCostFlow
    >>> graph = nx.Graph([("i", "j", {"weight": 0.9}), ("j", "k", {"weight": 0.9})])
    >>> nx.set_node_attributes(graph, {"i": 1.0, "j": 1.0, "k": -2.0}, "demand")
    >>> flow = MinCostFlow.from_networkx(graph).solve()
    >>> round(flow.cost, 9), flow.as_dict()["k"]
    (2.7, {'j': 2.0})
    """

    problem: GTVMin

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, *, demand: str = "demand", capacity: str = "capacity", weight: str = "weight"
    ) -> MinCostFlow:
        """Scalar flow problem from networkx's attributes: integers and real numbers alike.

        Parameters
        ----------
        graph : nx.DiGraph or nx.Graph
            Arcs; an edge of an undirected graph is an arc in either direction.
        demand, capacity, weight : str
            Names of the attributes: what a node wants to receive net (missing: 0), the most an arc carries (missing: no
            limit), and the cost per unit (missing: 0).

        Raises
        ------
        ValueError
            For multigraphs, self-loops, an empty graph, NaN, infinite demands or costs, negative capacities.
        """
        arcs, network = _read_arcs(graph, demand, capacity, weight)
        unlimited = np.isinf(arcs.capacity)
        if (arcs.cost[unlimited] < 0).any():
            check_bounded(arcs)
        # no optimal flow without cycles exceeds this on any arc, so that it limits nothing
        most = float(np.abs(arcs.demand).sum() + arcs.capacity[~unlimited].sum())
        edges = {pair: e for e, pair in enumerate(zip(network.tail.tolist(), network.head.tolist(), strict=True))}
        cost, limit = np.zeros((2, network.n_edges)), np.zeros((2, network.n_edges))
        for u, v, price, most_here in zip(arcs.source, arcs.target, arcs.cost, arcs.capacity, strict=True):
            back = int(u > v)
            e = edges[(v, u) if back else (u, v)]
            cost[back, e], limit[back, e] = price, min(most_here, most)
        penalty = FlowCost(cost[0], limit[0], cost[1], limit[1])
        losses = [Linear([-wanted]) for wanted in arcs.demand]
        return cls(GTVMin(network, losses, penalty=penalty, alpha=1.0, dim=1))

    @property
    def arcs(self) -> Arcs:
        """Arcs and demands of a scalar flow with linear costs.

        Raises
        ------
        ValueError
            If the problem is another: it says in what respect.
        """
        form = self.problem.lowered.form
        if form.dim != 1:
            raise ValueError(f"flows have {form.dim} entries an edge: only scalar flows have arcs with a capacity each")
        gram, slope = form.quadratic.quadratic()
        if gram.any() or form.rows:
            raise ValueError("some device has a loss that is not linear: it has no fixed demand")
        parts: list[tuple[Any, ...]] = []
        for term in form.couplings:
            block, difference = term.function, term.map
            if not isinstance(difference, EdgeDifference):
                raise ValueError("a coupling has matrices: its flow is not that of an edge")
            if isinstance(block, FlowCostBlocks):
                forward, back = (block.right, block.high), (-block.left, -block.low)
            elif isinstance(block, NormBlocks):
                forward = back = (np.zeros((block.n_rows, 1)), block.capacity[:, None])
            else:
                raise ValueError(f"the penalty {self.problem.penalty!r} has no linear cost: use FlowCost or Norm")
            for (price, limit), ends in ((forward, (0, 1)), (back, (1, 0))):
                kept = limit[:, 0] > 0
                source, target = (difference.ends[k][kept] for k in ends)
                parts.append((source, target, price[kept, 0], limit[kept, 0]))
        source, target, price, limit = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Arcs(self.problem.network.nodes, source.astype(int), target.astype(int), price, limit, slope[:, 0])

    def solve(self, method: str = "auto", **options: Any) -> FlowSolution:
        """Solve and certify.

        Parameters
        ----------
        method : str
            ``"highs"`` for scalar flows with linear costs, or any method of :func:`gtvmin.solve`; ``"auto"`` takes
            HiGHS where it fits.
        **options
            As for :func:`gtvmin.solve`.

        Returns
        -------
        FlowSolution
            Flows with a proof of how close their cost is to the least.

        Raises
        ------
        InfeasibleError
            If no flow meets the demands; it carries the nodes that prove it.
        """
        if method == "auto" and self._is_linear():
            method = "highs"
        if method != "highs":
            with warnings.catch_warnings():
                # node values of a flow problem are differences of potentials: never unique, and not what is asked for
                warnings.simplefilter("ignore", NotUniqueWarning)
                solution = self.problem.solve(method, **options)
            return FlowSolution(self, solution.certificate)
        flows, potentials = solve_arcs(self.arcs)
        arcs, net = self.arcs, self.problem.network
        edges = {pair: e for e, pair in enumerate(zip(net.tail.tolist(), net.head.tolist(), strict=True))}
        U = np.zeros((net.n_edges, 1))
        for u, v, amount in zip(arcs.source.tolist(), arcs.target.tolist(), flows, strict=True):
            if u < v:
                U[edges[u, v], 0] += amount
            else:
                U[edges[v, u], 0] -= amount
        return FlowSolution(self, self.problem.certify(potentials[:, None], U))

    def _is_linear(self) -> bool:
        try:
            return bool(len(self.arcs.source))
        except ValueError:
            return False

    def to_networkx(self) -> nx.DiGraph:
        """Arcs with ``capacity`` and ``weight``, nodes with ``demand``: a scalar flow with linear costs."""
        import networkx as nx

        arcs, nodes = self.arcs, self.problem.network.nodes
        graph = nx.DiGraph()
        for node, wanted in zip(nodes, arcs.demand.tolist(), strict=True):
            graph.add_node(node, demand=wanted)
        ends = zip(arcs.source.tolist(), arcs.target.tolist(), strict=True)
        for (u, v), price, most in zip(ends, arcs.cost.tolist(), arcs.capacity.tolist(), strict=True):
            graph.add_edge(nodes[u], nodes[v], capacity=most, weight=price)
        return graph

    def __str__(self) -> str:
        net, d = self.problem.network, self.problem.dim
        return (
            "minimise sum_i L_i^*(-(D'U)_i) + sum_e alpha A_e phi^*(u_e / (alpha A_e))\n"
            f"  over flows u_e in R^{d} on {net.n_edges} edges between {net.n_nodes} devices,\n"
            f"  the dual of: {str(self.problem).replace(chr(10), chr(10) + '  ')}"
        )


@dataclass(frozen=True, eq=False)
class FlowSolution:
    """Flows with a proof of how close their cost is to the least.

    Attributes
    ----------
    problem : MinCostFlow
        What was solved.
    certificate : Certificate
        The same certificate as for the parameters: the gap bounds both.
    """

    problem: MinCostFlow
    certificate: Certificate

    @property
    def flows(self) -> Array:
        """Flows (n_edges, dim) from tail to head."""
        return self.certificate.U

    @property
    def cost(self) -> float:
        """Cost of the flows, rounding included."""
        return -self.certificate.dual

    @property
    def bound(self) -> float:
        """No flows cost less than this: minus the objective at the node values."""
        return -self.certificate.primal

    @property
    def gap(self) -> float:
        """Cost minus bound."""
        return self.certificate.gap

    @property
    def potentials(self) -> dict[Hashable, Array]:
        """Minus the node values w, by label."""
        return dict(zip(self.problem.problem.network.nodes, -self.certificate.W, strict=True))

    def as_dict(self) -> dict[Hashable, dict[Hashable, float]]:
        """Scalar flows as networkx gives them: source to target to amount, positive amounts only."""
        net = self.problem.problem.network
        if self.problem.problem.dim != 1:
            raise ValueError("flows have several entries an edge: use .flows")
        out: dict[Hashable, dict[Hashable, float]] = {node: {} for node in net.nodes}
        for (tail, head), amount in zip(net.edges, self.flows[:, 0].tolist(), strict=True):
            if amount > 0:
                out[tail][head] = amount
            elif amount < 0:
                out[head][tail] = -amount
        return out

    def __repr__(self) -> str:
        return f"<FlowSolution cost={self.cost:.9g} gap={self.gap:.1e}>"


def _read_arcs(graph: nx.Graph, demand: str, capacity: str, weight: str) -> tuple[Arcs, FLNetwork]:
    if graph.is_multigraph():
        raise ValueError("graph is a multigraph: join parallel arcs, or put a node into the middle of one")
    if graph.number_of_nodes() == 0:
        raise ValueError("graph has no nodes")
    nodes = list(graph)
    index = {node: i for i, node in enumerate(nodes)}
    wanted = np.array([_number(graph.nodes[node].get(demand, 0.0), f"{demand} of node {node!r}") for node in nodes])
    source, target, price, most = [], [], [], []
    for u, v, data in graph.edges(data=True):
        if u == v:
            raise ValueError(f"node {u!r} has an arc to itself: remove it")
        limit = data.get(capacity, np.inf)
        limit = np.inf if limit == np.inf else _number(limit, f"{capacity} of arc ({u!r}, {v!r})")
        if limit < 0:
            raise ValueError(f"{capacity} of arc ({u!r}, {v!r}) must be >= 0, got {limit:g}")
        cost = _number(data.get(weight, 0.0), f"{weight} of arc ({u!r}, {v!r})")
        for a, b in ((u, v),) if graph.is_directed() else ((u, v), (v, u)):
            source.append(index[a])
            target.append(index[b])
            price.append(cost)
            most.append(limit)
    ends = zip(source, target, strict=True)
    pairs = list(dict.fromkeys((min(pair), max(pair)) for pair in ends))
    network = FLNetwork.from_edges([(nodes[i], nodes[j]) for i, j in pairs], nodes=nodes)
    columns = (np.array(source, dtype=int), np.array(target, dtype=int), np.array(price), np.array(most))
    return Arcs(nodes, *columns, wanted), network


def _number(value: Any, name: str) -> float:
    return float(finite_array(value, name))
