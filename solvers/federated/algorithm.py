"""What a federated algorithm is: a solver whose step is one communication round, with what the round costs."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, TypeVar

from ..standard_form import Point, StandardForm
from .ledger import Traffic

__all__ = ["Algorithm", "global_model"]

State = TypeVar("State")


class Algorithm(Protocol[State]):
    """A frozen dataclass of settings; a :class:`~gtvmin.solvers.driver.Solver` with accounts.

    A state is a frozen dataclass as well: a step makes a new one, and never writes into the arrays of the old one.
    A state of an algorithm with a server has the server's model (dim,) as ``model``; a state of one that draws numbers
    has the number of rounds done as ``round``.

    Algorithms on a network whose devices can work with stale messages have ``update(form, state, W, heard)`` too: the
    new parameters of every device from its own, W (n_nodes, dim), and what it heard over the directed edges of
    ``state.neighbours`` (2 n_edges, dim); with ``heard = W[state.neighbours.source]`` it is the step.
    """

    requires: ClassVar[frozenset[str]]
    """Capabilities that the form must have: ``local.gradient``, ``local.prox``, ``couplings.quadratic``, ``data``."""
    variables: ClassVar[tuple[str, ...]]
    """The arrays of the state that a round maps to new ones, for :mod:`gtvmin.federated.operators` and watches."""

    def init(self, form: StandardForm, start: Point | None) -> State:
        """State before the first round."""
        ...

    def step(self, form: StandardForm, state: State) -> State:
        """One round, at all devices at once."""
        ...

    def point(self, form: StandardForm, state: State) -> Point:
        """The model that each device would use now."""
        ...

    def traffic(self, form: StandardForm, state: State) -> Traffic:
        """What the round that made this state cost."""
        ...


def global_model(state: Any) -> Any:
    """The server's model, None without a server."""
    return getattr(state, "model", None)
