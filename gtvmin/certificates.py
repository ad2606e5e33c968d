"""Certificates of suboptimality that trust no solver.

Everything is recomputed from the declared problem.  The gap ``P(W) - Dual(U)`` is the sum of one Fenchel-Young term per
device, ``L_i(w_i) + L_i^*(s_i) - <s_i, w_i>`` with ``s_i = -(D^T U)_i``, and one per edge, each at least zero: a
device can compute its own from its data and its neighbours' messages.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.dual_repair import best_dual, dual_value, span_residual, zero_flow
from gtvmin.errors import CertificateError
from gtvmin.solvers.standard_form import Array, Assessment, Point, StandardForm
from gtvmin.storage import write_atomically
from gtvmin.validation import restore_frozen

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Certificate", "GapMonitor", "certify", "load_certificate"]

FORMAT = "gtvmin certificate 1"
# The gap is relative to the objective, but to no less than this share of the objective of the zero model: where a
# perfect fit has objective 0, no gap would be small against it.
ZERO_MODEL_SHARE = 1e-4
_MADE_BY_CERTIFY = object()


@dataclass(frozen=True, eq=False, init=False)
class Certificate:
    """Proof that parameters W are within ``gap`` of optimal: ``P(W) - min P <= gap``.

    Only :func:`certify` makes one.

    Attributes
    ----------
    primal : float
        ``P(W)``.
    dual : float
        The bound ``primal - gap <= min P``.
    gap, relative_gap : float
        Suboptimality bound: the sum of all terms and of ``rounding``.  Relative to the larger of ``|primal|``,
        ``|dual|`` and 1e-4 times the objective of the zero model.  ``inf`` where no finite bound was found.
    rounding : float
        Estimate of the floating-point error in the gap; part of it, so that no gap below it is claimed.
    per_node : array (n_nodes,)
        Term of each device.
    per_edge : array (n_edges,)
        Term of each edge.
    radius : array (n_nodes,)
        ``||w_i - w_i^*|| <= radius_i`` from strong convexity, ``inf`` for a device whose loss is not strongly convex.
    infeasibility : float
        Largest violation of a device's linear conditions by the flows, relative to the flow through it.
    W, U : arrays
        What was certified, and the repaired flows that prove it.
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
    radius: Array
    infeasibility: float
    W: Array
    U: Array
    problem_hash: str
    rigorous: bool

    def __init__(self, token: object, **values: Any) -> None:
        if token is not _MADE_BY_CERTIFY:
            raise CertificateError("a certificate can only be made by gtvmin.certify(problem, W, U)")
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_frozen(self, state)

    def __str__(self) -> str:
        worst = ""
        if len(self.per_node) and np.isfinite(self.gap):
            worst = f"\n  largest term      node {int(self.per_node.argmax())} (by position): {self.per_node.max():.3e}"
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
            "primal": self.primal,
            "dual": _json_number(self.dual),
            "gap": _json_number(self.gap),
            "relative_gap": _json_number(self.relative_gap),
            "rounding": _json_number(self.rounding),
            "rigorous": self.rigorous,
            "per_node": [_json_number(v) for v in self.per_node],
            "per_edge": [_json_number(v) for v in self.per_edge],
            "W": self.W.tolist(),
            "U": self.U.tolist(),
        }
        target = Path(path)
        write_atomically(target, json.dumps(record, allow_nan=False).encode())
        return target


def certify(problem: GTVMin, W: Any, U: Any = None) -> Certificate:
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

    Returns
    -------
    Certificate
        With ``P(W) - min P <= gap``; ``gap`` is infinite if no finite bound was found.

    Raises
    ------
    ValueError
        If W or U has the wrong shape, misses a node, or holds NaN or infinity.

    Notes
    -----
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
    flows = problem.recover_flows(parameters) if U is None else problem.flows_array(U)
    lowered = problem.lowered
    form = lowered.form
    (_, repaired), _ = best_dual(form, lowered.lower_flows(flows))
    inside, off, throughput = span_residual(form, repaired)
    differences = form.difference(parameters)
    per_node = form.local.fenchel_young(parameters, inside)
    edges = form.coupling.fenchel_young(differences, repaired)
    rounding = (
        float(form.local.rounding(parameters, inside).sum())
        + float(form.coupling.rounding(differences, repaired).sum())
        # what is left of the linear conditions shifts the bound by <off_i, w_i* - w_i>
        + float(off.sum() * np.linalg.norm(parameters, axis=1).max(initial=0.0))
    )
    if not np.isfinite(dual_value(form, repaired)):
        per_node = np.where(off > 0, np.inf, per_node)
    gap = float(per_node.sum() + edges.sum()) + rounding
    primal = form.objective(parameters)
    per_edge = np.zeros(lowered.n_edges)
    per_edge[lowered.edges] = edges
    mu = form.local.strong_convexity
    radius = np.where(mu > 0, np.sqrt(2.0 * gap / np.where(mu > 0, mu, 1.0)), np.inf)
    return Certificate(
        _MADE_BY_CERTIFY,
        primal=primal,
        dual=primal - gap,
        gap=gap,
        relative_gap=relative_gap(gap, primal, objective_floor(form)),
        rounding=rounding,
        per_node=per_node,
        per_edge=per_edge,
        radius=radius,
        infeasibility=float((off / np.where(throughput > 0, throughput, 1.0)).max(initial=0.0)),
        W=parameters,
        U=lowered.raise_flows(repaired),
        problem_hash=problem.hash,
        rigorous=False,
    )


def objective_floor(form: StandardForm) -> float:
    """Least size that a gap is compared with; see :class:`Certificate`."""
    zero_model = abs(form.objective(np.zeros((form.n_nodes, form.dim))))
    return ZERO_MODEL_SHARE * zero_model if np.isfinite(zero_model) else 0.0


def relative_gap(gap: float, primal: float, floor: float) -> float:
    """The gap over the size of the objective; see :class:`Certificate`."""
    size = max(abs(primal), abs(primal - gap) if np.isfinite(gap) else 0.0, floor)
    if size == 0:
        return 0.0 if gap == 0 else np.inf
    return gap / size


class GapMonitor:
    """Stopping test on the certified relative gap: keeps the best parameters and the best feasible flows seen.

    Repairing flows can cost as much as many iterations; it is done only while its share of the run stays bounded.

    Parameters
    ----------
    form : StandardForm
        The problem's arrays.
    tolerance : float
        Relative gap to reach.
    """

    def __init__(self, form: StandardForm, tolerance: float) -> None:
        self.form, self.tolerance = form, tolerance
        self.primal, self.W = np.inf, np.zeros((form.n_nodes, form.dim))
        self.dual, self.U = zero_flow(form)
        self.floor = objective_floor(form)
        self.repair_cost = 0

    def __call__(self, point: Point, iteration: int) -> Assessment:
        """Assess a point."""
        primal = self.form.objective(point.W)
        if primal < self.primal or not np.isfinite(self.primal):
            self.primal, self.W = primal, point.W.copy()
        if point.U is not None and self.repair_cost <= iteration:
            (dual, U), cost = best_dual(self.form, point.U)
            self.repair_cost += cost if cost > 1 else 0
            if dual > self.dual:
                self.dual, self.U = dual, U
        gap = max(self.primal - self.dual, 0.0)
        relative = relative_gap(gap, self.primal, self.floor)
        best = Point(self.W, self.U)
        return Assessment(best, self.primal, self.dual, gap, relative, relative <= self.tolerance)


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
        claimed_hash, W, U, claimed = record["problem_hash"], record["W"], record["U"], record["gap"]
        fits = record["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise CertificateError(f"{path} is not a saved certificate: {error}") from error
    if not fits:
        raise CertificateError(f"{path} has the format {record['format']!r}, expected {FORMAT!r}")
    if claimed_hash != problem.hash:
        raise CertificateError(f"{path} certifies the problem {str(claimed_hash)[:16]}..., not {problem.hash[:16]}...")
    shape = (problem.network.n_edges, problem.dim)
    certificate = certify(problem, W, np.reshape(U, shape) if not np.size(U) else U)
    if claimed is not None and certificate.gap > float(claimed) + 2.0 * certificate.rounding:
        raise CertificateError(f"{path} claims a gap of {claimed:.3e}, but only {certificate.gap:.3e} can be proved")
    return certificate


def _json_number(value: float) -> float | None:
    """JSON has no infinity: null stands for it."""
    return float(value) if np.isfinite(value) else None
