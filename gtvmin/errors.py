"""Warning and error categories of the package."""

from __future__ import annotations

__all__ = [
    "CapabilityError",
    "CertificateError",
    "ConvergenceWarning",
    "DisconnectedWarning",
    "GtvminWarning",
    "HierarchyError",
    "InfeasibleError",
    "MissingLossWarning",
    "NotAttainedWarning",
    "NotUniqueWarning",
    "UnboundedError",
]


class GtvminWarning(UserWarning):
    """Base of every warning that gtvmin issues."""


class ConvergenceWarning(GtvminWarning):
    """A solver stopped before the certified gap reached the asked tolerance."""


class DisconnectedWarning(GtvminWarning):
    """The weights of a clustering leave several components, which no strength of the coupling merges."""


class MissingLossWarning(GtvminWarning):
    """Nodes without a declared loss were given the loss Zero."""


class NotAttainedWarning(GtvminWarning):
    """The problem has no minimiser: the objective falls for ever as some devices' parameters grow."""


class NotUniqueWarning(GtvminWarning):
    """The problem has more than one minimiser; the returned one is not special."""


class CapabilityError(TypeError):
    """A solver, loss and penalty do not fit together; the message names what is missing."""


class CertificateError(ValueError):
    """A stored certificate does not belong to this problem or does not re-check."""


class HierarchyError(ValueError):
    """The clusters of a path split as well as merge: there is no tree of them."""


class InfeasibleError(ValueError):
    """A flow problem has no feasible flow.

    Attributes
    ----------
    nodes : tuple
        Nodes that demand more than the arcs into them can bring, however the rest is routed.
    demand, capacity : float
        What they demand in all, and the capacity of the arcs into them.
    """

    def __init__(self, message: str, nodes: tuple[object, ...], demand: float, capacity: float) -> None:
        super().__init__(message)
        self.nodes, self.demand, self.capacity = nodes, demand, capacity


class UnboundedError(ValueError):
    """A flow problem has flows of ever lower cost.

    Attributes
    ----------
    cycle : tuple
        Nodes around a cycle of arcs without capacity limits whose costs sum to less than zero.
    cost : float
        That sum.
    """

    def __init__(self, message: str, cycle: tuple[object, ...], cost: float) -> None:
        super().__init__(message)
        self.cycle, self.cost = cycle, cost
