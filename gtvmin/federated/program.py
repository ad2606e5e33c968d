"""The convex program that the limit of an algorithm solves, as a declared problem."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from gtvmin.display import objective_line
from gtvmin.errors import CapabilityError
from gtvmin.losses import Loss, Zero
from gtvmin.network import FLNetwork
from gtvmin.penalties import Consensus, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.solvers.standard_form import Array, Point

__all__ = [
    "Entry",
    "Program",
    "Row",
    "agreed",
    "common_dim",
    "complete_graph",
    "consensus",
    "itself",
    "no_program",
    "own_models",
    "scaled",
    "star",
]


@dataclass(frozen=True, eq=False)
class Program:
    """A declared problem, and where an algorithm's models stand in it.

    Attributes
    ----------
    problem : GTVMin, optional
        None if the limit solves no convex program.
    place : callable
        ``Point -> parameters of the problem``, from the devices' models.  It can be pickled: a function of a module, or
        a :func:`functools.partial` of one.
    exact : bool
        Whether the limit minimises the problem; if not, it is what the certified gap is reported on.
    note : str
        When, or why not.
    formula : str
        The problem in one line, which printing the program shows.
    """

    problem: GTVMin | None
    place: Callable[[Point], Array] = field(repr=False)
    exact: bool
    note: str = ""
    formula: str = ""

    def __str__(self) -> str:
        if self.problem is None:
            return f"no convex program: {self.note}"
        formula = self.formula or f"minimise {objective_line(self.problem)}"
        if self.exact:
            return formula + (f" ({self.note})" if self.note else "")
        return f"{formula} (the limit need not solve it: {self.note})"


@dataclass(frozen=True)
class Entry:
    """An algorithm in the catalogue.

    Attributes
    ----------
    algorithm : type
        The class.
    program : callable
        ``(algorithm, problem) -> Program``.
    surrogate : callable, optional
        ``(algorithm, problem) -> Program``: for quadratic losses, the program in closed form that a biased limit
        solves.
    example : mapping
        Settings that it cannot do without, for tests of all algorithms.
    """

    algorithm: Callable[..., Any]
    program: Callable[[Any, GTVMin], Program]
    surrogate: Callable[[Any, GTVMin], Program] | None = None
    example: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """A row of the table "which program does an algorithm solve?".

    Attributes
    ----------
    title : str
        The algorithm and its settings in words.
    algorithm : object
        An instance, to be run on the example of the tests.
    limit : str
        What it tends to.
    declared : str
        The program in words.
    rounds : int
        How many rounds the measured gap is after.
    surrogate : bool
        Whether the gap is on the surrogate.
    """

    title: str
    algorithm: Any
    limit: str
    declared: str
    rounds: int = 1000
    surrogate: bool = False


def own_models(point: Point) -> Array:
    """Each device's model, as it is."""
    return point.W


def agreed(point: Point, *, p: Array) -> Array:
    """The mean of the models with weights p, which need not add up to one, at every device."""
    return np.tile(mean(point.W, p / p.sum()), (len(point.W), 1))


def mean(W: Array, p: Array) -> Array:
    """``sum_i p_i w_i``, without changing rows that agree."""
    return np.asarray(W[0] + np.einsum("i,ij->j", p, W - W[0]))


def common_dim(problem: GTVMin) -> int:
    """Number of parameters of every device; a CapabilityError if they differ, where models are averaged."""
    other = np.flatnonzero(problem.dims != problem.dims[0])
    if len(other):
        i, nodes, dims = int(other[0]), problem.network.nodes, problem.dims
        raise CapabilityError(
            f"models are averaged, and device {nodes[i]!r} has {dims[i]} parameters where {nodes[0]!r} has {dims[0]}: "
            "'fedgd' and 'fedrelax' take different numbers, with penalty=Partial(...)"
        )
    return problem.dim


def itself(problem: GTVMin, *, exact: bool = True, note: str = "") -> Program:
    """GTV minimisation as it was declared."""
    return Program(problem, own_models, exact, note)


def no_program(reason: str) -> Program:
    """The limit solves no convex program."""
    return Program(None, own_models, False, reason)


def scaled(problem: GTVMin, p: Array) -> dict[Hashable, Loss]:
    """Losses ``p_i L_i`` by label; a device without weight has none."""
    return {
        node: float(share) * loss if share > 0 else Zero()
        for node, loss, share in zip(problem.network.nodes, problem.losses, p, strict=True)
    }


def consensus(
    problem: GTVMin,
    p: Array,
    *,
    losses: Iterable[Loss] | None = None,
    exact: bool = True,
    note: str = "",
    formula: str = "minimise sum_i p_i L_i(w) over one model w of all devices",
) -> Program:
    """``min_w sum_i p_i L_i(w)``: all devices in consensus, declared as a constraint.

    ``losses`` replaces the ``p_i L_i``, with a formula of their own.  The place of models that differ is their mean
    with weights p.
    """
    nodes = problem.network.nodes
    declared = scaled(problem, p) if losses is None else dict(zip(nodes, losses, strict=True))
    network = FLNetwork.from_edges([(nodes[0], node) for node in nodes[1:]], nodes=nodes)
    program = GTVMin(network, declared, penalty=Consensus(), alpha=1.0, dim=common_dim(problem))
    return Program(program, partial(agreed, p=p), exact, note, formula)


def star(
    problem: GTVMin, p: Array, mu: float, *, personal: bool = False, exact: bool = True, note: str = ""
) -> Program:
    """``min_{w, v} sum_i p_i (L_i(v_i) + (mu/2) ||v_i - w||^2)``: a star whose centre, the server, has no loss.

    Models that are ``personal`` are the v_i, and the centre's place is their mean with weights p, the best one for
    them.  Else the mean is taken first, and the v_i are the best ones for it.
    """
    nodes = problem.network.nodes
    centre = "server"
    while centre in nodes:
        centre += "'"
    arms = [(centre, node, share) for node, share in zip(nodes, p, strict=True) if share > 0]
    network = FLNetwork.from_edges(arms, nodes=[*nodes, centre])
    losses = {**scaled(problem, p), centre: Zero()}
    program = GTVMin(network, losses, penalty=SquaredNorm(), alpha=0.5 * mu, dim=common_dim(problem))
    place = partial(_with_centre, p=p) if personal else partial(_around_mean, problem=problem, p=p, mu=mu)
    formula = f"minimise sum_i p_i (L_i(v_i) + {0.5 * mu:g} ||v_i - w||_2^2) over the devices' v_i and the server's w"
    return Program(program, place, exact, note, formula)


def _with_centre(point: Point, *, p: Array) -> Array:
    return np.vstack([point.W, mean(point.W, p)])


def _around_mean(point: Point, *, problem: GTVMin, p: Array, mu: float) -> Array:
    prox = problem.lowered.form.local.prox_operator(np.full(len(p), 1.0 / mu))
    best = prox(agreed(point, p=p))
    return np.vstack([best, mean(best, p)])


def complete_graph(problem: GTVMin, p: Array, mu: float) -> Program:
    """The star without its centre: every pair of devices is coupled, with weight ``p_i p_j``."""
    nodes = problem.network.nodes
    pairs = [(a, b, p[i] * p[j]) for i, a in enumerate(nodes) for j, b in enumerate(nodes) if i < j and p[i] * p[j] > 0]
    network = FLNetwork.from_edges(pairs, nodes=nodes)
    program = GTVMin(network, scaled(problem, p), penalty=SquaredNorm(), alpha=0.5 * mu, dim=common_dim(problem))
    formula = f"minimise sum_i p_i L_i(w_i) + {0.5 * mu:g} sum_(i<j) p_i p_j ||w_i - w_j||_2^2"
    return Program(program, own_models, True, formula=formula)
