"""Planted faults: small wrong solvers, each with the checks that must catch it and the instances on which they must.

Most solve an altered problem by the package's own solver; some alter the plain ADMM beside; a few are loops of their
own.  Each is right but for its one fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import networkx as nx
import numpy as np

import gtvmin as gtv
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.solvers.standard_form import BlockFunction
from gtvmin.verify import Instance, suite, suites
from plain_admm import admm, incidence, onto_l1_ball, quadratics, shrunk

Problem = gtv.GTVMin


@dataclass(frozen=True)
class Fault:
    """A wrong solver.

    Attributes
    ----------
    solver : callable
        As the checks take it.
    checks : tuple of str
        Those that must catch it.
    alone : bool
        Whether no other may.
    instances : tuple of Instance
        The smallest set on which it is caught.
    """

    solver: Any
    checks: tuple[str, ...]
    alone: bool
    instances: tuple[Instance, ...]

    @property
    def name(self) -> str:
        """In words."""
        return str(self.solver.__name__).replace("_", " ")

    @property
    def description(self) -> str:
        """What is wrong, in a sentence."""
        return str(self.solver.__doc__).partition("\n")[0]


FAULTS: list[Fault] = []
BY_NAME = {instance.name: instance for name in suites() for instance in suite(name)}


def caught_by(*checks: str, on: str | Instance, alone: bool = False) -> Callable[[Any], Any]:
    """Plant a solver that these checks must catch, and, if `alone`, no others."""

    def plant(solver: Any) -> Any:
        instance = BY_NAME[on] if isinstance(on, str) else on
        FAULTS.append(Fault(solver, tuple(f"check_{name}" for name in checks), alone, (instance,)))
        return solver

    return plant


def changed(problem: Problem, **changes: Any) -> Problem:
    """The problem but for some of its parts."""
    parts = {name: getattr(problem, name) for name in ("network", "losses", "penalty", "alpha", "dim")}
    network, losses = (changes.get(name, parts[name]) for name in ("network", "losses"))
    return Problem(network, losses, **{name: changes.get(name, parts[name]) for name in ("penalty", "alpha", "dim")})


def answer(problem: Problem) -> np.ndarray:
    """Parameters to a gap that leaves no doubt."""
    return problem.solve(gap=1e-10).weights.copy()


# Another problem is solved


@caught_by("certified_gap", alone=True, on="quadratic_two_nodes")
def a_half_too_many(problem: Problem) -> Any:
    """The coupling has a factor one half that the problem does not have."""
    return answer(problem.with_alpha(0.5 * problem.alpha))


@caught_by("certified_gap", on="quadratic_two_nodes")
def a_half_too_few(problem: Problem) -> Any:
    """The coupling has lost a factor one half that it needs for losses with one half."""
    return answer(problem.with_alpha(2.0 * problem.alpha))


@caught_by("certified_gap", "split_edge", on="quadratic_two_nodes")
def norm_for_squared_norm(problem: Problem) -> Any:
    """The coupling is the norm where the square of it is asked for."""
    return answer(changed(problem, penalty=gtv.Norm(2)))


@caught_by("certified_gap", on="lasso_weighted_grid")
def weights_ignored(problem: Problem) -> Any:
    """All edges have the weight one."""
    net = problem.network
    return answer(changed(problem, network=gtv.FLNetwork.from_edges(net.edges, nodes=net.nodes)))


@caught_by("certified_gap", "split_edge", "two_copies", on="lasso_star")
def edge_counted_twice(problem: Problem) -> Any:
    """The first edge is listed in both directions, and counts twice."""
    net = problem.network
    weights = net.weights * np.where(np.arange(net.n_edges) == 0, 2.0, 1.0)
    return answer(changed(problem, network=gtv.FLNetwork.from_edges(net.edges, weights=weights, nodes=net.nodes)))


@caught_by("certified_gap", on="lasso_star")
def sample_counts_ignored(problem: Problem) -> Any:
    """Sums of squared errors where means are asked for."""
    return answer(changed(problem, losses=[redeclared(loss, scale="sum") for loss in problem.losses]))


@caught_by("duplicate_rows", alone=True, on="lasso_star")
def sample_weights_ignored(problem: Problem) -> Any:
    """All data points weigh the same."""
    return answer(changed(problem, losses=[redeclared(loss, sample_weight=None) for loss in problem.losses]))


def redeclared(loss: gtv.Loss, **arguments: Any) -> gtv.Loss:
    """The loss with other arguments of its squared errors."""
    parts = [
        factor * (gtv.SquaredError(**atom.arguments() | arguments) if isinstance(atom, gtv.SquaredError) else atom)
        for factor, atom in loss.terms()
    ]
    return sum(parts[1:], parts[0]) if parts else loss


@caught_by("certified_gap", "duplicate_rows", "edgeless", on="lasso_star")
def one_row_dropped(problem: Problem) -> Any:
    """The last data point of every device is left out."""
    return answer(changed(problem, losses=[loss.take(np.arange(loss.n_samples - 1)) for loss in problem.losses]))


def one_way_street(rng: np.random.Generator) -> Problem:
    """One unit is wanted at the end of a one-way street, and may be missed at a quadratic price."""
    losses = [gtv.Linear([-demand]) + gtv.SquaredDistance(0.0) for demand in (-1.0, 1.0)]
    penalty = gtv.FlowCost(cost=0.1, capacity=0.5, back_capacity=0.0)
    return Problem(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=penalty, alpha=1.0)


@caught_by("certified_gap", on=Instance("one_way_street", "A single one-way arc.", one_way_street))
def arcs_the_wrong_way(problem: Problem) -> Any:
    """Tail and head of the edges are mixed up: one-way arcs lead the wrong way."""
    return answer(changed(problem, penalty=problem.penalty.reversed()))


# Wrong proximal operators and operators


@caught_by("certified_gap", "flows", "split_edge", on="lasso_linf")
def maximum_norm_without_its_scale(problem: Problem) -> Any:
    """The prox of the maximum norm projects onto the unit ball, whatever strength and step are."""

    def prox(penalty: gtv.Penalty, V: np.ndarray, step: np.ndarray) -> np.ndarray:
        return np.array([row - onto_l1_ball(row, 1.0) for row in V]).reshape(V.shape)

    return admm(problem, prox=prox, max_iter=200)


@caught_by("certified_gap", "flows", on="robust_edges")
def huber_prox_with_the_wrong_branch(problem: Problem) -> Any:
    """The prox of the Huber penalty asks whether v, not the prox of v, is in the quadratic part."""

    def prox(penalty: gtv.Penalty, V: np.ndarray, step: np.ndarray) -> np.ndarray:
        size, delta = np.linalg.norm(V, axis=1, keepdims=True), penalty.delta
        return np.where(size <= delta, V / (1 + step[:, None] / delta), shrunk(V, size, step[:, None]))

    return admm(problem, prox=prox, max_iter=200)


@caught_by("certified_gap", "split_edge", on="lasso_two_nodes")
def edges_without_a_sign(problem: Problem) -> Any:
    """The incidence matrix has 1 at both ends of an edge."""
    return admm(problem, D=np.abs(incidence(problem.network)), max_iter=300)


@caught_by("flows", alone=True, on="lasso_two_nodes")
def dual_of_the_opposite_sign(problem: Problem) -> Any:
    """Flows run from head to tail."""
    W, U = admm(problem)
    return W, -U


# Devices that are mixed up or forgotten


@caught_by("relabelling", "node_order", "edge_reversal", on="lasso_path")
def nodes_sorted_by_name(problem: Problem) -> Any:
    """Rows of the answer are in the order of the sorted labels."""
    nodes = problem.network.nodes
    return answer(problem)[sorted(range(len(nodes)), key=lambda i: nodes[i])]


@caught_by("relabelling", alone=True, on="lasso_two_nodes")
def names_taken_for_numbers(problem: Problem) -> Any:
    """Labels are converted to numbers."""
    for label in problem.network.nodes:
        int(str(label))
    return answer(problem)


@caught_by("node_order", alone=True, on="lasso_path")
def path_in_any_order(problem: Problem) -> Any:
    """Edges of a path are taken to join devices that follow each other in the list."""
    net = problem.network
    graph = net.to_networkx()
    path = nx.is_connected(graph) and net.n_edges == net.n_nodes - 1 and max(dict(graph.degree).values()) <= 2
    if not path:
        return answer(problem)
    in_a_row = gtv.FLNetwork.from_edges([(i, i + 1) for i in range(net.n_nodes - 1)], weights=net.weights)
    return answer(changed(problem, network=in_a_row))


@caught_by("edge_reversal", alone=True, on="lasso_two_nodes")
def pair_clipped_on_one_side(problem: Problem) -> Any:
    """Two numbers in closed form; the flow between them is clipped at its upper end only."""
    if problem.network.n_nodes != 2 or problem.network.n_edges != 1:
        return answer(problem)
    H, b = quadratics(problem)
    first, second = b[:, 0] / np.diag(H)
    flow = min((second - first) / (1 / H[0, 0] + 1 / H[1, 1]), problem.alpha * problem.network.weights[0])
    return [[first + flow / H[0, 0]], [second - flow / H[1, 1]]]


@caught_by("certified_gap", "edge_reversal", "two_copies", "edgeless", on="quadratic_disconnected")
def first_component_only(problem: Problem) -> Any:
    """Devices outside the first component stay at zero."""
    return only_on(problem, problem.network.components()[:1])


@caught_by("two_copies", alone=True, on="quadratic_two_nodes")
def largest_component_and_lone_devices(problem: Problem) -> Any:
    """Of several components with edges only the largest is solved."""
    parts = sorted(problem.network.components(), key=len, reverse=True)
    return only_on(problem, [*parts[:1], *(part for part in parts[1:] if len(part) == 1)])


def only_on(problem: Problem, components: Any) -> np.ndarray:
    known = {label for part in components for label in part}
    return answer(problem) * np.array([[label in known] for label in problem.network.nodes])


@caught_by("split_edge", alone=True, on="lasso_path")
def unlabelled_devices_left_at_zero(problem: Problem) -> Any:
    """Devices without labels are never updated."""
    labelled = np.array([[loss.n_samples > 0] for loss in problem.losses])
    return answer(problem) * labelled


@caught_by("edgeless", alone=True, on="lasso_two_nodes")
def divided_by_the_largest_degree(problem: Problem) -> Any:
    """A step length has the largest degree in its denominator."""
    degrees = dict(problem.network.to_networkx().degree)
    assert 1 / max(degrees.values()) > 0
    return answer(problem)


# Stopped too early or not at all


@caught_by("certified_gap", "claim", "split_edge", on="lasso_star")
def stale_iterate_returned(problem: Problem) -> Any:
    """The gap belongs to the last iterate, the parameters to an early one."""
    gap = problem.solve("adaptive_primal_dual", gap=1e-8).gap
    return SimpleNamespace(W=problem.solve("adaptive_primal_dual", gap=1e-8, max_iter=20).weights, gap=gap)


@caught_by("certified_gap", "claim", "split_edge", "two_copies", "edgeless", on="quadratic_two_nodes")
def stops_when_steps_are_small(problem: Problem) -> Any:
    """Short steps are taken for convergence, far from the optimum."""
    W = descend(problem, share=1e-3, enough=lambda gradient, step: float(np.linalg.norm(step * gradient)) < 1e-3)
    return SimpleNamespace(W=W, is_certified=True)


@caught_by("scaling", alone=True, on="quadratic_two_nodes")
def absolute_tolerance(problem: Problem) -> Any:
    """Stops where the gradient is small in absolute terms, whatever the unit of the objective is."""
    return descend(problem, share=0.9, enough=lambda gradient, step: float(np.linalg.norm(gradient)) < 1e-4)


@caught_by("answer", alone=True, on="quadratic_two_nodes")
def divergence_returned_as_an_answer(problem: Problem) -> Any:
    """Gradient steps that are too long, until nothing is finite any more."""
    return descend(problem, share=10.0)


@caught_by("divergence", alone=True, on="quadratic_two_nodes")
def step_for_moderate_losses(problem: Problem) -> Any:
    """The step length fits curvatures up to a thousand; beyond that the iterates grow."""
    return descend(problem, share=0.9, most=1e3)


def descend(
    problem: Problem,
    share: float,
    enough: Callable[[np.ndarray, float], bool] = lambda gradient, step: False,
    most: float = np.inf,
) -> np.ndarray:
    """Gradient descent for squared errors and the squared norm, with a share of the longest safe step."""
    D, dim = incidence(problem.network), problem.dim
    H, b = quadratics(problem)
    H = H + 2 * problem.alpha * np.kron(D.T @ (problem.network.weights[:, None] * D), np.eye(dim))
    step, w = 2 * share / min(float(np.linalg.eigvalsh(H)[-1]), most), np.zeros(b.size)
    with np.errstate(all="ignore"):
        for _ in range(2000):
            gradient = H @ w - b.ravel()
            if enough(gradient, step):
                break
            w = w - step * gradient
    return w.reshape(b.shape)


@caught_by("iteration_budget", alone=True, on="lasso_star")
def limit_ignored(problem: Problem, max_iter: int = 10**6) -> Any:
    """Takes a limit on the iterations, and as many iterations as it likes."""
    return SimpleNamespace(W=answer(problem), iterations=200)


# Untrue or unfaithful


@caught_by("claim", alone=True, on="lasso_star")
def claims_a_gap_it_does_not_reach(problem: Problem) -> Any:
    """Says that it is exact where it is merely good."""
    W = answer(problem) * (1 + 1e-4)
    return SimpleNamespace(W=W, gap=0.0)


@caught_by("reported_objective", alone=True, on="lasso_star")
def objective_of_another_iterate(problem: Problem) -> Any:
    """The objective that is reported was computed before the last step."""
    W = answer(problem)
    return SimpleNamespace(W=W, objective=problem.objective(W * (1 + 1e-4)))


@caught_by("certified_gap", on="clustering_far_from_the_origin")
def single_precision_sums(problem: Problem) -> Any:
    """Centroids are sums in single precision."""
    return answer(problem).astype(np.float32)


@caught_by("precision", alone=True, on="clustering_far_from_the_origin")
def precision_of_the_start(problem: Problem, start: Any = None) -> Any:
    """Works in the precision in which the start is given."""
    return answer(problem).astype(np.float64 if start is None else start.dtype)


@caught_by("answer", on="lasso_two_nodes")
def whole_numbers(problem: Problem) -> Any:
    """Parameters are rounded to integers, which on some problems are right."""
    return np.rint(answer(problem)).astype(int)


@caught_by("deterministic", alone=True, on="lasso_star")
def seed_ignored(problem: Problem, seed: int = 0) -> Any:
    """Takes a seed and draws without it."""
    W = answer(problem)
    return W + 1e-9 * np.random.default_rng().normal(size=W.shape)


@caught_by("warm_start", alone=True, on="lasso_star")
def start_used_as_working_memory(problem: Problem, start: Any = None) -> Any:
    """Overwrites the array that it is given as start."""
    if start is not None:
        start[:] = 0.0
    return answer(problem)


@caught_by("input_untouched", alone=True, on="lasso_star")
def input_changed_in_place(problem: Problem) -> Any:
    """Residuals are kept in the array of the labels."""
    W = answer(problem)
    problem.lowered.form.quadratic.y[:] = 0.0
    return W


# A loss that is wrong, with a right solver


class HalfConjugateBlocks(IntervalBlocks):
    """Huber functions whose conjugate has lost a half of its curvature."""

    def conjugate(self, S: np.ndarray) -> np.ndarray:
        return np.asarray(super().conjugate(S) - 0.25 * (self.curvature * S * S)[:, 0])

    fenchel_young = BlockFunction.fenchel_young


class HalfConjugate(gtv.Huber):
    """Huber loss of these."""

    __slots__ = ()
    function: ClassVar[type] = HalfConjugateBlocks


def wrong_loss(rng: np.random.Generator) -> Problem:
    losses = [HalfConjugate([[1.0]], [y], delta=10.0) for y in (0.0, 3.0)]
    return gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1)]), losses, lam=1.0)


@caught_by("reported_objective", on=Instance("wrong_loss", "A loss whose value and conjugate disagree.", wrong_loss))
def conjugate_without_its_half(problem: Problem) -> Any:
    """The solver is right, but value and conjugate of a loss disagree, and so do its bounds."""
    right = []
    for loss in problem.losses:
        parts = [c * (gtv.SquaredError(atom.X, atom.y) if atom.n_samples else atom) for c, atom in loss.terms()]
        right.append(sum(parts, 0) if parts else loss)
    W = answer(changed(problem, losses=right))
    return SimpleNamespace(W=W, objective=problem.objective(W))
