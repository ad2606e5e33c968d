"""Changes of a problem that leave its answer, and the way back to the original devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.losses import Loss, Zero
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm, SquaredNorm
from gtvmin.problem import GTVMin

if TYPE_CHECKING:
    from gtvmin.solvers.standard_form import Array

__all__ = [
    "NotApplicableError",
    "Transformed",
    "duplicated_rows",
    "relabelled",
    "reordered",
    "scaled",
    "split_edge",
    "two_copies",
    "without_edges",
]


class NotApplicableError(ValueError):
    """A problem cannot be changed in this way; the message says why."""


@dataclass(frozen=True, eq=False)
class Transformed:
    """A changed problem, from its parameters those of the original one, and what its objective is a multiple of."""

    problem: GTVMin
    back: Callable[[Array], Array]
    unit: float = 1.0


def relabelled(problem: GTVMin) -> Transformed:
    """The same devices in the same order under other names, whose alphabetical order is the reverse one."""
    n = problem.network.n_nodes
    names = [f"device {n - i:06d}" for i in range(n)]
    return Transformed(_declare(problem, names, _ends(problem)), lambda W: W)


def reordered(problem: GTVMin, order: Sequence[int]) -> Transformed:
    """The devices in another order, in which edges may run the other way; position k holds device ``order[k]``."""
    if not _alike(problem):
        raise NotApplicableError("the penalty depends on the edge or on its direction")
    net = problem.network
    names = [net.nodes[i] for i in order]
    losses = [problem.losses[i] for i in order]
    position = np.argsort(order)
    ends = [(position[i], position[j]) for i, j in _ends(problem)]
    return Transformed(_declare(problem, names, ends, losses=losses), lambda W: np.asarray(W[position]))


def scaled(problem: GTVMin, factor: float) -> Transformed:
    """Losses and alpha times a factor: the objective in another unit."""
    losses = [factor * loss for loss in problem.losses]
    changed = _declare(problem, problem.network.nodes, _ends(problem), losses=losses, alpha=factor * problem.alpha)
    return Transformed(changed, lambda W: W, factor)


def split_edge(problem: GTVMin) -> Transformed:
    """Half of the heaviest edge's weight as a detour over a new device without labels.

    Two norms in a row, ``A ||w_i - w|| + A ||w - w_j||``, are at best ``A ||w_i - w_j||``; two squared norms halve.
    """
    net = problem.network
    if not isinstance(problem.penalty, (Norm, SquaredNorm)):
        raise NotApplicableError(f"a detour has no simple weight for the penalty {problem.penalty!r}")
    if not net.n_edges or problem.alpha == 0:
        raise NotApplicableError("no edge is there to be split")
    e, middle = int(net.weights.argmax()), net.n_nodes
    half = 0.5 * net.weights[e]
    detour = half if isinstance(problem.penalty, Norm) else 2.0 * half
    weights = net.weights.copy()
    weights[e] = half
    changed = _declare(
        problem,
        range(net.n_nodes + 1),
        [*_ends(problem), (int(net.tail[e]), middle), (middle, int(net.head[e]))],
        weights=[*weights, detour, detour],
        losses=[*problem.losses, Zero(problem.dim)],
    )
    return Transformed(changed, lambda W: W[:-1])


def duplicated_rows(problem: GTVMin) -> Transformed:
    """Every data point twice at half of its weight, the first one of a device three times at a third of it."""
    if not any(loss.n_samples for loss in problem.losses):
        raise NotApplicableError("no loss has data points")
    losses = [_twice(loss) for loss in problem.losses]
    return Transformed(_declare(problem, problem.network.nodes, _ends(problem), losses=losses), lambda W: W)


def two_copies(problem: GTVMin) -> Transformed:
    """The problem beside itself, without an edge between the copies; back comes the second one."""
    if not problem.penalty.is_uniform:
        raise NotApplicableError("the penalty depends on the edge")
    n, ends = problem.network.n_nodes, _ends(problem)
    changed = _declare(
        problem,
        range(2 * n),
        [*ends, *((i + n, j + n) for i, j in ends)],
        weights=np.tile(problem.network.weights, 2),
        losses=[*problem.losses, *problem.losses],
    )
    return Transformed(changed, lambda W: W[n:], 2.0)


def without_edges(problem: GTVMin) -> Transformed:
    """Every device on its own: another problem, with an answer of its own."""
    if not problem.penalty.is_uniform:
        raise NotApplicableError("the penalty has parameters for each edge")
    form = problem.lowered.form
    alone = form.quadratic.conjugate(np.zeros((form.n_nodes, form.dim)))
    if not np.isfinite(alone).all():
        raise NotApplicableError("without edges the objective is unbounded below")
    return Transformed(_declare(problem, problem.network.nodes, [], weights=[]), lambda W: W)


def _ends(problem: GTVMin) -> list[tuple[int, int]]:
    if problem.further:
        raise NotApplicableError("the problem has several families of edges")
    if (problem.dims != problem.dim).any():
        raise NotApplicableError("devices have different numbers of parameters")
    net = problem.network
    return list(zip(net.tail.tolist(), net.head.tolist(), strict=True))


def _alike(problem: GTVMin) -> bool:
    """Whether the penalty is the same on all edges and in both directions."""
    return problem.penalty.is_uniform and problem.penalty.reversed() == problem.penalty


def _declare(
    problem: GTVMin,
    nodes: Sequence[Any],
    ends: Sequence[tuple[Any, Any]],
    *,
    weights: Any = None,
    losses: Sequence[Loss] | None = None,
    alpha: float | None = None,
) -> GTVMin:
    """A problem like the given one, but for what is named; ends are positions in `nodes`."""
    net = FLNetwork.from_edges(
        [(nodes[i], nodes[j]) for i, j in ends],
        weights=problem.network.weights if weights is None else weights,
        nodes=nodes,
    )
    return GTVMin(
        net,
        list(problem.losses if losses is None else losses),
        penalty=problem.penalty,
        alpha=problem.alpha if alpha is None else alpha,
        dim=problem.dim,
    )


def _twice(loss: Loss) -> Loss:
    parts = [_times(factor, _atom_twice(atom)) for factor, atom in loss.declared_terms()]
    return sum(parts[1:], parts[0])


def _times(factor: float, loss: Loss) -> Loss:
    return loss if factor == 1 else factor * loss


def _atom_twice(atom: Loss) -> Loss:
    if not atom.n_samples:
        return atom
    declared = atom.arguments()
    if not {"X", "y", "scale", "sample_weight"} <= declared.keys():
        raise NotApplicableError(f"the data points of {atom!r} are not arguments X, y and sample_weight")
    given = declared["sample_weight"]
    weight = np.ones(atom.n_samples) if given is None else given
    rows = np.concatenate([np.arange(atom.n_samples), np.arange(atom.n_samples), [0]])
    copies = np.where(rows == 0, 3, 2)
    return type(atom)(
        **declared | {"X": declared["X"][rows], "y": declared["y"][rows], "sample_weight": weight[rows] / copies}
    )
