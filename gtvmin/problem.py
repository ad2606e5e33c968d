"""GTV minimisation and its special cases, declared immutably."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.couplings import Coupling, Penalties, coupling_strength, on_nodes
from gtvmin.declaration import Losses, losses_in_order, parameter_counts, penalties_of_attribute
from gtvmin.frames import FrameLosses
from gtvmin.labelled import flows_array, parameters_array
from gtvmin.loss_stack import LossStack
from gtvmin.losses.base import Loss
from gtvmin.lowering import Lowered, lower
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm, Penalty
from gtvmin.solvers.standard_form import Array, Duals
from gtvmin.uniqueness import undetermined_nodes
from gtvmin.validation import frozen, nonnegative_number, restore_frozen

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.cross_validation import CrossValidation
    from gtvmin.flow import MinCostFlow
    from gtvmin.paths import AlphaPath
    from gtvmin.solution import Solution

__all__ = ["GTVMin", "NetworkLasso"]


@dataclass(frozen=True, eq=False, init=False)
class GTVMin:
    r"""Generalised total variation minimisation over a network of devices.

    .. math::
        \min_{w_1, \dots, w_n} \; \sum_i L_i(w_i) + \alpha \sum_{e = (i, j)} A_e \, \phi(w_j - w_i)

    Parameters
    ----------
    network : FLNetwork
        Devices and weighted edges ``A_e > 0``; anything that ``FLNetwork(...)`` takes is converted.
    losses : mapping, sequence or callable
        The loss of each device: a dict from node label to loss (nodes left out get :class:`~gtvmin.losses.Zero`, with a
        warning), a list in node order, or a function of the node label.
    penalty : Penalty, mapping, callable or str
        ``phi``, such as ``SquaredNorm()`` or ``Norm(2)``; or one for each edge: by pair of labels, as a function of the
        labels of tail and head, or, if the network is given as a networkx graph, as an edge attribute of this name.
    alpha : float
        Strength of the coupling, at least 0; at 0 the devices are on their own, at ``inf`` those that are coupled
        agree (:class:`~gtvmin.penalties.Consensus`).
    dim : int or mapping from label to int, optional
        Number of parameters of a device; needed only if every loss fits any number.  A mapping, or losses of different
        dimensions, declare devices with different numbers of parameters.

    Attributes
    ----------
    network : FLNetwork
        ``nodes`` are the labels, in the order of all arrays; edge e goes from node ``tail[e]`` to ``head[e]``
        (positions) with the weight ``weights[e]``.
    losses : tuple of Loss
        In node order; each has ``value(w)``, ``prox(v, step)`` and, if it is smooth, ``gradient(w)``.
    penalty, alpha, dim
        As declared; ``dim`` is the number of columns of arrays of parameters.
    parameter_names : tuple of str or None
        What the parameters are, if the losses are those of :func:`gtvmin.losses_from_frame`; no file keeps it.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a loss names a node that the network lacks, a penalty does not fit an edge (such as one that couples
        different numbers of parameters), or alpha is negative or NaN.

    Notes
    -----
    Chapter 3 of A. Jung, "Federated Learning: From Theory to Practice" (2025).  The dual is
    ``max_U - sum_i L_i^*(-(D^T U)_i) - sum_e alpha A_e phi^*(U_e / (alpha A_e))``, with U_e the flow from tail to head.

    Every loss belongs to one device: a data term that mixes them, such as ``||y - A w||^2`` with a matrix A that is not
    (block) diagonal, is not of this form and cannot be declared.

    Where numbers of parameters differ, arrays of parameters have as many columns as the largest, ``dim``, and zeros
    beyond each device's own.  :meth:`couple` adds further families of edges; arrays of flows have one row per edge of
    all families, those of ``network`` first.

    Examples
    --------
    >>> import networkx as nx
    >>> import gtvmin as gtv
    >>> net = gtv.FLNetwork(nx.path_graph(2))
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> solution = problem.solve()
    >>> solution.weights.round(4).tolist()
    [[1.0], [2.0]]
    """

    network: FLNetwork
    losses: tuple[Loss, ...] = field(repr=False)
    penalty: Penalty
    alpha: float
    dim: int
    dims: NDArray[np.int64] = field(repr=False)
    further: tuple[Coupling, ...] = field(repr=False)
    parameter_names: tuple[str, ...] | None = field(repr=False)
    loss_stack: LossStack = field(repr=False)

    def __init__(
        self,
        network: FLNetwork | Any,
        losses: Losses,
        *,
        penalty: Penalties,
        alpha: float,
        dim: int | Mapping[Any, int] | None = None,
    ) -> None:
        net = network if isinstance(network, FLNetwork) else FLNetwork(network)
        ordered = losses_in_order(net, losses)
        dims = parameter_counts(net, ordered, dim)
        coupling = Coupling.declare(net, penalties_of_attribute(penalty, network), alpha, dims)
        object.__setattr__(self, "network", net)
        object.__setattr__(self, "losses", ordered)
        object.__setattr__(self, "penalty", coupling.penalty)
        object.__setattr__(self, "alpha", coupling.alpha)
        object.__setattr__(self, "dim", int(dims.max()))
        object.__setattr__(self, "dims", frozen(dims))
        object.__setattr__(self, "further", ())
        object.__setattr__(self, "parameter_names", losses.parameters if isinstance(losses, FrameLosses) else None)
        object.__setattr__(self, "loss_stack", LossStack(ordered, dims))

    def with_alpha(self, alpha: float) -> GTVMin:
        """The same problem with another alpha (of its first family of edges)."""
        return self._with(alpha=replace(self.couplings[0], alpha=coupling_strength(alpha, "alpha")).checked().alpha)

    def couple(self, network: FLNetwork | Any, penalty: Penalties, alpha: float) -> GTVMin:
        """The same problem with one more family of edges, whose penalties add to those there are.

        Parameters
        ----------
        network : FLNetwork
            The further edges, between nodes of this problem (it need not have all of them); a pair may be an edge of
            several families.
        penalty, alpha
            As for the class.

        Returns
        -------
        GTVMin
            A new problem.  ``solution.flow(a, b, family=1)`` is a flow on its second family.

        Raises
        ------
        TypeError, ValueError
            As for the class, and for a node that this problem lacks.

        Examples
        --------
        >>> import gtvmin as gtv
        >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 1.0, 5.0)]
        >>> friends = gtv.FLNetwork.from_edges([(0, 1, 0.5), (1, 2, 0.5)])
        >>> near = gtv.FLNetwork.from_edges([(0, 1, 0.25), (0, 2, 0.25)])
        >>> problem = gtv.GTVMin(friends, losses, penalty=gtv.Norm(1), alpha=1.0)
        >>> round(problem.couple(near, penalty=gtv.SquaredNorm(), alpha=1.0).solve().objective, 4)
        4.3214
        """
        net = network if isinstance(network, FLNetwork) else FLNetwork(network)
        declared = penalties_of_attribute(penalty, network)
        coupling = Coupling.declare(on_nodes(net, self.network), declared, alpha, self.dims)
        return self._with(further=(*self.further, coupling))

    def with_losses(self, losses: Losses) -> GTVMin:
        """The same problem with other losses of as many parameters."""
        ordered = losses_in_order(self.network, losses)
        parameter_counts(self.network, ordered, self.dims.tolist())
        names = losses.parameters if isinstance(losses, FrameLosses) else self.parameter_names
        return self._with(losses=ordered, loss_stack=LossStack(ordered, self.dims), parameter_names=names)

    def _with(self, **changes: Any) -> GTVMin:
        changed: GTVMin = object.__new__(GTVMin)
        for part in fields(self):
            object.__setattr__(changed, part.name, changes.get(part.name, getattr(self, part.name)))
        return changed

    def __getstate__(self) -> dict[str, Any]:
        # What is computed from the declaration, once, is computed again: it holds factors that cannot be pickled.
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "loss_stack"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_frozen(self, state)
        object.__setattr__(self, "loss_stack", LossStack(self.losses, self.dims))

    @property
    def couplings(self) -> tuple[Coupling, ...]:
        """All families of edges."""
        return (Coupling(self.network, self.penalty, self.alpha), *self.further)

    @cached_property
    def edges(self) -> tuple[tuple[Hashable, Hashable], ...]:
        """Labels (tail, head) of the edges of all families, in the order of the rows of flows."""
        return tuple(pair for coupling in self.couplings for pair in coupling.network.edges)

    @cached_property
    def flow_dims(self) -> NDArray[np.int64]:
        """Number of entries of the flow of every edge, (n_edges,)."""
        return frozen(np.concatenate([coupling.flow_dims(self.dims) for coupling in self.couplings]))

    @property
    def flow_shape(self) -> tuple[int, int]:
        """Shape of arrays of flows: edges of all families, and entries of the longest flow."""
        dims = self.flow_dims
        return len(dims), int(dims.max(initial=1)) if len(dims) else self.dim

    def __str__(self) -> str:
        from gtvmin.display import problem_text

        return problem_text(self)

    def _repr_latex_(self) -> str:
        """The problem as mathematics, for notebooks."""
        from gtvmin.display import problem_latex

        return problem_latex(self)

    @cached_property
    def lowered(self) -> Lowered:
        """The problem as arrays, computed once."""
        return lower(self)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the declared arrays, labels and settings, in hexadecimal."""
        from gtvmin.storage import fingerprint

        return fingerprint(self)

    def objective(self, W: Any) -> float:
        """``P(W)`` for parameters (n_nodes, dim), or a mapping from node label to parameters."""
        return self.lowered.form.objective(self.parameters_array(W))

    def undetermined(self) -> tuple[Hashable, ...]:
        """Nodes with a direction that neither a loss nor, through couplings, another device's pins down.

        The minimiser is not unique there.
        """
        free = undetermined_nodes(self.lowered)
        return tuple(self.network.nodes[i] for i in np.flatnonzero(free))

    def parameters_array(self, W: Any) -> Array:
        """Parameters as an array (n_nodes, dim) in node order; see :func:`gtvmin.labelled.parameters_array`."""
        return parameters_array(self, W)

    def flows_array(self, U: Any) -> Array:
        """Flows as an array (n_edges, dim) over the edges of all families; see :func:`gtvmin.labelled.flows_array`."""
        return flows_array(self, U)

    def solve(self, method: str | Any = "auto", **options: Any) -> Solution:
        """Solve and certify; see :func:`gtvmin.solving.solve`."""
        from gtvmin.solving import solve

        return solve(self, method, **options)

    def path(self, alphas: Any, method: str | Any = "auto", **options: Any) -> AlphaPath:
        """Solve for several strengths of the coupling; see :func:`gtvmin.paths.solve_path`."""
        from gtvmin.paths import solve_path

        return solve_path(self, alphas, method, **options)

    def alpha_max(self) -> float:
        """Smallest alpha at which all devices of a component agree; see :func:`gtvmin.paths.alpha_max`."""
        from gtvmin.paths import alpha_max

        return alpha_max(self)

    def cross_validate(self, alphas: Any, folds: int = 5, *, seed: int = 0, **options: Any) -> CrossValidation:
        """Prediction error for several alphas; see :func:`gtvmin.cross_validation.cross_validate`."""
        from gtvmin.cross_validation import cross_validate

        return cross_validate(self, alphas, folds, seed=seed, **options)

    def certify(self, W: Any, U: Any = None, *, rigorous: bool = False) -> Certificate:
        """Certificate of any parameters; see :func:`gtvmin.certificates.certify`."""
        from gtvmin.certificates import certify

        return certify(self, W, U, rigorous=rigorous)

    def dual(self) -> MinCostFlow:
        """The dual as a vector minimum-cost flow problem; see :class:`gtvmin.flow.MinCostFlow`."""
        from gtvmin.flow import MinCostFlow

        return MinCostFlow(self)

    def recover_duals(self, W: Array) -> Duals:
        """Duals that prove the parameters W as good as they are; see :func:`gtvmin.solving.recover_duals`."""
        from gtvmin.solving import recover_duals

        return recover_duals(self, W)

    def to_cvxpy(self) -> Any:
        """A ``cvxpy.Problem``, to solve or to extend; see :func:`gtvmin.reference.to_cvxpy`."""
        from gtvmin.reference import to_cvxpy

        return to_cvxpy(self)

    def save(self, path: str | Path) -> Path:
        """Write the problem to an ``.npz`` file without pickled objects; see :func:`gtvmin.storage.save_problem`."""
        from gtvmin.storage import save_problem

        return save_problem(self, path)


def NetworkLasso(  # noqa: N802 - reads as the problem's name
    network: FLNetwork | Any, losses: Losses, *, lam: float, p: float = 2, dim: int | None = None
) -> GTVMin:
    """Network Lasso: ``min sum_i L_i(w_i) + lam * sum_e A_e ||w_head - w_tail||_p``.

    Parameters
    ----------
    network, losses, dim
        As for :class:`GTVMin`.
    lam : float
        Strength of the coupling (the papers' lambda; alpha of the general problem).
    p : {2, 1, inf}
        The norm.

    Notes
    -----
    D. Hallac, J. Leskovec, S. Boyd, "Network Lasso" (2015), DOI 10.1145/2783258.2783313, equation (1); A. Jung,
    arXiv 2010.14159.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = {node: gtv.SquaredError([[1.0]], [y]) for node, y in (("a", 0.0), ("b", 3.0))}
    >>> gtv.NetworkLasso(gtv.FLNetwork.from_edges([("a", "b")]), losses, lam=0.5).alpha
    0.5
    """
    return GTVMin(network, losses, penalty=Norm(p), alpha=nonnegative_number(lam, "lam"), dim=dim)
