"""GTV minimisation and its special cases, declared immutably."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import MissingLossWarning
from gtvmin.losses.base import Loss
from gtvmin.losses.zero import Zero
from gtvmin.lowering import Lowered, lower
from gtvmin.network import FLNetwork
from gtvmin.penalties import Norm, Penalty
from gtvmin.solvers.standard_form import Array, Duals
from gtvmin.validation import finite_array, nonnegative_number, positive_integer

if TYPE_CHECKING:
    from gtvmin.certificates import Certificate
    from gtvmin.flow import MinCostFlow
    from gtvmin.solution import Solution

__all__ = ["GTVMin", "NetworkLasso"]

Losses = Mapping[Any, Loss] | Sequence[Loss] | Callable[[Any], Loss]


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
    penalty : Penalty
        ``phi``, such as ``SquaredNorm()`` or ``Norm(2)``.
    alpha : float
        Strength of the coupling, at least 0; at 0 the devices are on their own.
    dim : int, optional
        Number of parameters of a device; needed only if every loss fits any number.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a loss names a node that the network lacks, dimensions differ between devices, or alpha is negative, NaN or
        infinite.

    Notes
    -----
    Chapter 3 of A. Jung, "Federated Learning: From Theory to Practice" (2025).  The dual is
    ``max_U - sum_i L_i^*(-(D^T U)_i) - sum_e alpha A_e phi^*(U_e / (alpha A_e))``, with U_e the flow from tail to head.

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

    def __init__(
        self,
        network: FLNetwork | Any,
        losses: Losses,
        *,
        penalty: Penalty,
        alpha: float,
        dim: int | None = None,
    ) -> None:
        net = network if isinstance(network, FLNetwork) else FLNetwork(network)
        if not isinstance(penalty, Penalty):
            raise TypeError(f"penalty must be a penalty such as Norm(2) or SquaredNorm(), got {penalty!r}")
        ordered = _losses_in_order(net, losses)
        object.__setattr__(self, "network", net)
        object.__setattr__(self, "losses", ordered)
        object.__setattr__(self, "penalty", penalty)
        object.__setattr__(self, "alpha", nonnegative_number(alpha, "alpha"))
        object.__setattr__(self, "dim", _common_dim(net, ordered, dim))

    def with_alpha(self, alpha: float) -> GTVMin:
        """The same problem with another alpha."""
        changed: GTVMin = object.__new__(GTVMin)
        for name in ("network", "losses", "penalty", "dim"):
            object.__setattr__(changed, name, getattr(self, name))
        object.__setattr__(changed, "alpha", nonnegative_number(alpha, "alpha"))
        return changed

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
        """Nodes of components in which no loss pins down some direction: the minimiser is not unique there."""
        form = self.lowered.form
        spans = np.zeros((form.n_nodes, form.dim, form.dim))
        for k in range(form.dim):
            axis = np.zeros((form.n_nodes, form.dim))
            axis[:, k] = 1.0
            spans[:, :, k] = axis - form.quadratic.complement(axis)
            for term in form.rows:
                spans[:, :, k] += term.map.adjoint(term.map.apply(axis))
        component = self.network.component_ids if form.n_edges else np.arange(form.n_nodes)
        total = np.zeros((int(component.max()) + 1, form.dim, form.dim))
        np.add.at(total, component, spans)
        free = np.linalg.eigvalsh(total)[:, 0] < 1e-9
        return tuple(self.network.nodes[i] for i in np.flatnonzero(free[component]))

    def parameters_array(self, W: Any) -> Array:
        """Parameters as an array (n_nodes, dim) in node order, from an array, a mapping, a DataFrame or a Solution."""
        nodes = self.network.nodes
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
            W = [np.atleast_1d(np.asarray(W[node])) for node in nodes]
        array = finite_array(W, "W")
        if array.shape == (len(nodes),) and self.dim == 1:
            array = array[:, None]
        if array.shape != (len(nodes), self.dim):
            raise ValueError(f"W must have shape {(len(nodes), self.dim)}, got {array.shape}")
        return array

    def flows_array(self, U: Any) -> Array:
        """Flows as an array (n_edges, dim), from an array or a mapping from (label, label) to the flow that way."""
        net = self.network
        shape = (net.n_edges, self.dim)
        if isinstance(U, Mapping):
            flows: list[Any] = []
            for tail, head in net.edges:
                if (tail, head) in U:
                    flows.append(np.atleast_1d(np.asarray(U[tail, head])))
                elif (head, tail) in U:
                    flows.append(-np.atleast_1d(np.asarray(U[head, tail], dtype=float)))
                else:
                    raise ValueError(f"U has no flow for edge ({tail!r}, {head!r})")
            U = np.array(flows).reshape(shape) if flows else np.zeros(shape)
        array = finite_array(U, "U")
        if array.shape == (net.n_edges,) and self.dim == 1:
            array = array[:, None]
        if array.shape != shape:
            raise ValueError(f"U must have shape {shape}, got {array.shape}")
        return array

    def solve(self, method: str | Any = "auto", **options: Any) -> Solution:
        """Solve and certify; see :func:`gtvmin.solving.solve`."""
        from gtvmin.solving import solve

        return solve(self, method, **options)

    def certify(self, W: Any, U: Any = None) -> Certificate:
        """Certificate of any parameters; see :func:`gtvmin.certificates.certify`."""
        from gtvmin.certificates import certify

        return certify(self, W, U)

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


def _losses_in_order(network: FLNetwork, losses: Losses) -> tuple[Loss, ...]:
    if isinstance(losses, Loss):
        raise TypeError("losses must give one loss per node: a dict {label: loss}, a list, or a function of the label")
    if isinstance(losses, Mapping):
        known = set(network.nodes)
        for label in losses:
            if label not in known:
                raise ValueError(f"losses has a loss for {label!r}, which is not a node of the network")
        missing = [node for node in network.nodes if node not in losses]
        if missing:
            warnings.warn(
                f"{len(missing)} of {network.n_nodes} nodes have no loss and get Zero(), the first is "
                f"{missing[0]!r}: declare Zero() for them if that is meant",
                MissingLossWarning,
                stacklevel=4,
            )
        ordered = [losses.get(node, Zero()) for node in network.nodes]
    elif callable(losses):
        ordered = [_call(losses, node) for node in network.nodes]
    else:
        ordered = list(losses)
        if len(ordered) != network.n_nodes:
            raise ValueError(f"losses has {len(ordered)} entries for {network.n_nodes} nodes")
    for node, loss in zip(network.nodes, ordered, strict=True):
        if not isinstance(loss, Loss):
            raise TypeError(f"the loss of node {node!r} must be a loss such as SquaredError(X, y), got {loss!r}")
    return tuple(ordered)


def _call(losses: Callable[[Any], Loss], node: Hashable) -> Loss:
    try:
        return losses(node)
    except Exception as error:
        error.add_note(f"in the loss of node {node!r}")
        raise


def _common_dim(network: FLNetwork, losses: tuple[Loss, ...], dim: int | None) -> int:
    """The one number of parameters that every device has."""
    found = None if dim is None else positive_integer(dim, "dim")
    witness = "dim"
    for node, loss in zip(network.nodes, losses, strict=True):
        if loss.dim is None:
            continue
        if found is None:
            found, witness = loss.dim, f"node {node!r}"
        elif loss.dim != found:
            raise ValueError(
                f"node {node!r} has {loss.dim} parameters and {witness} has {found}: "
                "devices that are coupled need the same number of features"
            )
    if found is None:
        raise ValueError("no loss fixes the number of parameters: give dim=")
    return found
