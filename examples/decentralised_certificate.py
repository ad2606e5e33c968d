"""Sensors prove together how good their models are, and none of them shows its data.

Every device sends its parameters and its copies of the flows to its neighbours, computes its own share of the duality
gap, and reports a few numbers.  Their sum bounds the suboptimality of all models together.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

import gtvmin as gtv
from gtvmin.errors import CertificateError
from gtvmin.shares import Message, device_states, local_problem, node_share, sum_of_shares


class Device:
    """A sensor: it knows its data, its edges and what its neighbours send, and nothing else."""

    def __init__(self, name: str, part: gtv.GTVMin, state: Any) -> None:
        self.name, self.part, self.state = name, part, state
        self.inbox: dict[str, Message] = {}

    def send(self, network: dict[str, Device]) -> int:
        """Send every neighbour what it needs, and count the numbers sent."""
        for neighbour in self.state.flows:
            network[neighbour].inbox[self.name] = self.state.message_to(neighbour)
        return sum(self.state.parameters.size + flow.size for flow in self.state.flows.values())

    def report(self) -> Any:
        """The device's share of the gap."""
        return node_share(self.part, self.name, self.state.parameters, self.state.flows, self.inbox)


def main() -> None:
    rng = np.random.default_rng(0)
    graph = nx.relabel_nodes(nx.random_geometric_graph(30, 0.35, seed=4), lambda i: f"sensor {i}")
    X = {node: rng.normal(size=(40, 2)) for node in graph}
    y = {node: X[node] @ [1.0, -1.0] + 0.3 * rng.normal(size=40) for node in graph}
    losses = {node: gtv.SquaredError(X[node], y[node]) for node in graph}
    problem = gtv.NetworkLasso(graph, losses, lam=0.02)

    solution = problem.solve(gap=1e-6)
    states = device_states(problem, solution.certificate)
    devices = {node: Device(node, local_problem(problem, node), states[node]) for node in graph}

    sent = sum(device.send(devices) for device in devices.values())
    reports = [device.report() for device in devices.values()]
    total = sum_of_shares(reports)
    print(f"sum of the reports of {len(reports)} devices: {total:.6e}")
    print(f"gap of the certificate that sees all data:  {solution.gap:.6e}")
    raw = sum(x.size for x in X.values()) + sum(v.size for v in y.values())
    print(
        f"numbers sent to neighbours: {sent}; reported: {sum(1 + len(r.halves) for r in reports)}; raw data: 0 of {raw}"
    )

    # one device tells its neighbour another flow than it uses itself
    liar = devices["sensor 7"]
    deceived = devices[next(iter(liar.state.flows))]
    honest = deceived.inbox[liar.name]
    deceived.inbox[liar.name] = Message(honest.parameters, 0.9 * honest.flow)
    try:
        deceived.report()
    except CertificateError as error:
        print(f"found out: {error}")

    # one device hides its own loss: nobody can see that, and the sum is no proof any more
    hidden = [type(r)(r.node, 0.0, r.halves) if r.node == liar.name else r for r in reports]
    print(f"with the term of {liar.name} hidden the sum is {sum_of_shares(hidden):.6e}: honest reports are a premise")


if __name__ == "__main__":
    main()
