"""Certificates of suboptimality that trust no solver.

Everything is recomputed from the declared problem.  The gap ``P(W) - Dual(U)`` is the sum of one Fenchel-Young term per
device, ``L_i(w_i) + L_i^*(s_i) - <s_i, w_i>`` with ``s_i = -(D^T U)_i``, and one per edge, each at least zero: a
device can compute its own from its data and its neighbours' messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.domain import domain_violation
from gtvmin.dual_repair import best_dual, complete_duals, split_among_rows
from gtvmin.errors import CertificateError
from gtvmin.gap import gap_rounding, gap_terms, lower_bound, objective_floor, objective_rounding, relative_gap
from gtvmin.linear_conditions import span_residual
from gtvmin.rigorous import rigorous_bound
from gtvmin.solvers.standard_form import Array, Duals, Point
from gtvmin.storage import write_atomically
from gtvmin.validation import restore_frozen

if TYPE_CHECKING:
    from gtvmin.lowering import Lowered
    from gtvmin.problem import GTVMin

__all__ = ["Certificate", "certify", "load_certificate"]

FORMAT = "gtvmin certificate 1"
_MADE_BY_CERTIFY = object()


@dataclass(frozen=True, eq=False, init=False)
class Certificate:
    """Proof that parameters W are within ``gap`` of optimal: ``P(W) - min P <= gap``.

    Only :func:`certify` makes one.

    Attributes
    ----------
    primal : float
        ``P(W)``; ``inf`` for parameters outside the domain of a loss.
    dual : float
        A bound from below, ``dual <= min P``: ``primal - gap``, less the rounding of the objective.
    gap, relative_gap : float
        Suboptimality bound: the sum of all terms and of ``rounding``.  Relative to the larger of ``|primal|``,
        ``|dual|`` and 1e-10 times the objective of the zero model.  ``inf`` where no finite bound was found.
    rounding : float
        Estimate of the floating-point error in the gap; part of it, so that no gap below it is claimed.  Zero in a
        rigorous certificate, which needs none.
    per_node : array (n_nodes,)
        Term of each device.
    per_edge : array (n_edges,)
        Term of each edge; those of all families, in the order of the problem's ``edges``.
    radius : array (n_nodes,)
        ``||w_i - w_i^*|| <= radius_i`` from strong convexity, ``inf`` for a device whose loss is not strongly convex.
    dual_radius : array (n_edges,)
        ``||u_e - u_e^*|| <= dual_radius_e`` for the flows U, from the smoothness of the penalty, whose conjugate is
        then strongly convex; ``inf`` for norms and other penalties with kinks.
    infeasibility : float
        Largest violation of a device's linear conditions by the flows, relative to the flow through it; a rigorous
        bound is evaluated at flows without any.
    violation : array (n_nodes,)
        How far each device's parameters are outside the domain of its loss: zero for parameters that obey all
        constraints to the rounding of their own digits.  Such rounding is no violation, and is part of ``rounding``
        by the size of the constraint's dual variable.
    W, U : arrays
        What was certified, and the repaired flows that prove it.
    duals : tuple of arrays
        All repaired dual variables: those of the couplings, then those of the losses' data points.
    problem : GTVMin
        What it is about.
    problem_hash : str
        SHA-256 of the declared problem.
    rigorous : bool
        Whether the bound covers floating-point error as a theorem, not an estimate.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    rounding: float
    per_node: Array
    per_edge: Array
    dual_radius: Array
    infeasibility: float
    violation: Array
    W: Array
    U: Array
    duals: Duals
    problem: GTVMin
    rigorous: bool

    @cached_property
    def radius(self) -> Array:
        """``||w_i - w_i^*|| <= radius_i`` from strong convexity, whose constants are eigenvalues: on demand."""
        mu = self.problem.lowered.form.local.strong_convexity
        return _read_only(np.where(mu > 0, np.sqrt(2.0 * self.gap / np.where(mu > 0, mu, 1.0)), np.inf))

    @property
    def problem_hash(self) -> str:
        """SHA-256 of the declared problem."""
        return self.problem.hash  # the problem computes it once, when it is first asked for

    def __init__(self, token: object, **values: Any) -> None:
        if token is not _MADE_BY_CERTIFY:
            raise CertificateError("a certificate can only be made by gtvmin.certify(problem, W, U)")
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = _read_only(value)
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_frozen(self, state)

    def __str__(self) -> str:
        worst = ""
        if len(self.per_node) and np.isfinite(self.gap):
            node = self.problem.network.nodes[int(self.per_node.argmax())]
            worst = f"\n  largest term      node {node!r}: {self.per_node.max():.3e}"
        if self.violation.any():
            node = self.problem.network.nodes[int(self.violation.argmax())]
            worst = f"\n  outside domain    node {node!r}: by {self.violation.max():.3e}"
        finite = np.isfinite(self.radius)
        radius = (
            f"largest {self.radius[finite].max():.3e} over {finite.sum()} of {len(finite)} devices"
            if finite.any()
            else "none"
        )
        bound = "theorem" if self.rigorous else "with an estimate of rounding"
        return (
            f"Certificate ({bound})\n"
            f"  objective         {self.primal:.12g}\n"
            f"  lower bound       {self.dual:.12g}\n"
            f"  gap               {self.gap:.3e}  (relative {self.relative_gap:.3e}, rounding {self.rounding:.1e})\n"
            f"  from devices      {self.per_node.sum():.3e}\n"
            f"  from edges        {self.per_edge.sum():.3e}{worst}\n"
            f"  parameter radius  {radius}\n"
            f"  problem           sha256 {self.problem_hash[:16]}..."
        )

    def __repr__(self) -> str:
        return f"<Certificate objective={self.primal:.9g} gap={self.gap:.3e} relative_gap={self.relative_gap:.3e}>"

    def holds(self, relative_gap: float = 1e-6) -> bool:
        """Whether the relative gap is at most the given one."""
        return self.relative_gap <= relative_gap

    def save(self, path: str | Path) -> Path:
        """Write W, U and the findings to a JSON file, so that anyone can re-check it with :func:`load_certificate`."""
        record = {
            "format": FORMAT,
            "problem_hash": self.problem_hash,
            "primal": _json_number(self.primal),
            "dual": _json_number(self.dual),
            "gap": _json_number(self.gap),
            "relative_gap": _json_number(self.relative_gap),
            "rounding": _json_number(self.rounding),
            "rigorous": self.rigorous,
            "per_node": [_json_number(v) for v in self.per_node],
            "per_edge": [_json_number(v) for v in self.per_edge],
            "W": self.W.tolist(),
            "U": self.U.tolist(),
            "duals": [dual.tolist() for dual in self.duals],
        }
        target = Path(path)
        write_atomically(target, json.dumps(record, allow_nan=False).encode())
        return target


def certify(
    problem: GTVMin, W: Any, U: Any = None, *, rigorous: bool = False, duals: Duals | None = None
) -> Certificate:
    """Bound the suboptimality of any parameters.

    Parameters
    ----------
    problem : GTVMin
        The declared problem.
    W : array_like (n_nodes, dim), mapping, DataFrame or Solution
        The parameters, from anywhere.
    U : array_like (n_edges, dim) or mapping, optional
        Flows from tail to head, from anywhere: they are repaired first, so that they need not be feasible.  Without
        them, good flows are searched for (which takes longer).
    rigorous : bool
        Whether the bound has to cover floating-point errors as a theorem: duals are made feasible exactly and all is
        evaluated by exact arithmetic, see :mod:`gtvmin.rigorous`.  Slower: about a second for 10,000 edges.
    duals : tuple of arrays, optional
        All dual variables, as :attr:`Certificate.duals` has them, instead of U.

    Returns
    -------
    Certificate
        With ``P(W) - min P <= gap``; ``gap`` is infinite if no finite bound was found.

    Raises
    ------
    ValueError
        If W or U has the wrong shape, misses a node, or holds NaN or infinity.
    CapabilityError
        If a rigorous bound is asked for and a loss or penalty has no exact evaluation; the message names it.

    Notes
    -----
    A rigorous ``gap`` is a theorem about the declared numbers, and so are ``primal`` (at least ``P(W)``), ``dual`` (at
    most ``min P``), ``per_node`` and ``per_edge``; ``radius`` also rests on constants of strong convexity computed in
    double precision.  ``U`` is then rounded from the exact flows.  Constraints on parameters are judged without any
    tolerance, see :func:`gtvmin.rigorous.rigorous_bound`.

    Weak duality and Fenchel-Young: R. T. Rockafellar, "Convex Analysis" (1970), Theorem 31.1.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> certificate = gtv.certify(problem, [[1.1], [1.9]], [[1.0]])
    >>> round(certificate.gap, 9)
    0.01
    """
    parameters = problem.parameters_array(W)
    lowered = problem.lowered
    form = lowered.form
    if duals is None:
        duals = problem.recover_duals(parameters) if U is None else lowered.lower_flows(problem.flows_array(U))
    completed = complete_duals(form, parameters, duals)
    best, _ = best_dual(form, completed)
    if (split := split_among_rows(form, duals)) is not None:
        best, _ = best_dual(form, split, known=best)
    if lowered.contraction is not None:  # flows between devices in consensus follow from the others
        refilled = lowered.expand(lowered.shrink(Point(parameters, completed))).U or completed
        best, _ = best_dual(form, refilled, known=best)
    _, repaired = best
    if rigorous:
        return _rigorous(problem, parameters, repaired)
    net = span_residual(form, repaired)
    terms, rounding = gap_terms(form, parameters, repaired, net), gap_rounding(form, parameters, repaired, net)
    per_node, per_edge = terms.per_node, np.zeros(lowered.n_edges)
    for k, (term, shares) in enumerate(zip(form.terms, terms.per_row, strict=True)):
        if k < len(lowered.edges):
            per_edge[lowered.edges[k]] += shares
        else:
            per_node = per_node + np.bincount(term.map.ends[0], shares, form.n_nodes)
    gap = terms.total + rounding
    primal = form.objective(parameters)
    if np.isnan(primal):  # numbers beyond the range of doubles
        primal = np.inf
    return Certificate(
        _MADE_BY_CERTIFY,
        primal=primal,
        dual=(
            primal - gap - objective_rounding(form, parameters)
            if np.isfinite(gap)
            else lower_bound(form, parameters, repaired)
        ),
        gap=gap,
        relative_gap=relative_gap(gap, primal, objective_floor(form, parameters, abs(primal))),
        rounding=rounding,
        per_node=per_node,
        per_edge=per_edge,
        dual_radius=_dual_radius(lowered, gap),
        infeasibility=terms.infeasibility,
        violation=domain_violation(form, parameters),
        W=parameters,
        U=lowered.raise_flows(repaired),
        duals=tuple(_read_only(dual) for dual in repaired),
        problem=problem,
        rigorous=False,
    )


def _rigorous(problem: GTVMin, W: Array, duals: Duals) -> Certificate:
    form = problem.lowered.form
    bound = rigorous_bound(problem, W, problem.lowered.raise_flows(duals), duals)
    return Certificate(
        _MADE_BY_CERTIFY,
        primal=bound.primal[1],
        dual=bound.dual,
        gap=bound.gap,
        relative_gap=relative_gap(bound.gap, bound.primal[1], objective_floor(form, W)),
        rounding=0.0,
        per_node=bound.per_node,
        per_edge=bound.per_edge,
        dual_radius=_dual_radius(problem.lowered, bound.gap),
        infeasibility=gap_terms(form, W, duals).infeasibility,
        violation=domain_violation(form, W),
        W=W,
        U=bound.U,
        duals=tuple(_read_only(dual) for dual in duals),
        problem=problem,
        rigorous=True,
    )


def _dual_radius(lowered: Lowered, gap: float) -> Array:
    """``sqrt(2 L_e gap)``: the dual is ``1/L_e``-strongly concave in the flow of an edge with an L_e-smooth penalty."""
    radius = np.full(lowered.n_edges, np.inf)
    if not np.isfinite(gap):
        return radius
    for edges, term in zip(lowered.edges, lowered.form.couplings, strict=True):
        smoothness = term.function.smoothness
        finite = np.isfinite(smoothness)
        radius[edges] = np.where(finite, np.sqrt(2.0 * max(gap, 0.0) * np.where(finite, smoothness, 0.0)), np.inf)
    return radius


def load_certificate(path: str | Path, problem: GTVMin) -> Certificate:
    """Read a saved certificate and prove it anew from its W and U; nothing else in the file is believed.

    Parameters
    ----------
    path : str or Path
        A file that :meth:`Certificate.save` wrote.
    problem : GTVMin
        The problem it claims to be about.

    Raises
    ------
    CertificateError
        If the file is not such a record, belongs to another problem, or claims a smaller gap than can be proved.
    """
    try:
        record = json.loads(Path(path).read_bytes())
        claimed_hash, W, claimed = record["problem_hash"], record["W"], record["gap"]
        duals = tuple(np.array(dual, dtype=float) for dual in record["duals"])
        fits, rigorous = record["format"] == FORMAT, bool(record["rigorous"])
    except (ValueError, KeyError, TypeError) as error:
        raise CertificateError(f"{path} is not a saved certificate: {error}") from error
    if not fits:
        raise CertificateError(f"{path} has the format {record['format']!r}, expected {FORMAT!r}")
    if claimed_hash != problem.hash:
        raise CertificateError(f"{path} certifies the problem {str(claimed_hash)[:16]}..., not {problem.hash[:16]}...")
    expected = problem.lowered.form.zero_duals()
    if [dual.size for dual in duals] != [dual.size for dual in expected] or not all(
        np.isfinite(d).all() for d in duals
    ):
        raise CertificateError(f"{path} holds duals of the wrong shape, or NaN or infinity")
    shaped = tuple(dual.reshape(like.shape) for dual, like in zip(duals, expected, strict=True))
    certificate = certify(problem, W, duals=shaped, rigorous=rigorous)
    rounding = gap_rounding(problem.lowered.form, certificate.W, certificate.duals)
    if claimed is not None and certificate.gap > float(claimed) + 2.0 * rounding:
        raise CertificateError(f"{path} claims a gap of {claimed:.3e}, but only {certificate.gap:.3e} can be proved")
    return certificate


def _read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _json_number(value: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None
