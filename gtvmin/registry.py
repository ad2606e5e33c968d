"""Solvers by name: those of the package, and those that installed packages offer by entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from typing import Any

__all__ = ["make_solver", "solver_names"]

ENTRY_POINT_GROUP = "gtvmin.solvers"

BUILT_IN = {
    "adaptive_primal_dual": "gtvmin.solvers.adaptive_primal_dual:AdaptivePrimalDual",
    "admm": "gtvmin.solvers.admm:ADMM",
    "block_coordinate": "gtvmin.solvers.block_coordinate:BlockCoordinate",
    "dual_proximal_gradient": "gtvmin.solvers.dual_proximal_gradient:DualProximalGradient",
    "linear_system": "gtvmin.solvers.linear_system:LinearSystem",
    "newton_multipliers": "gtvmin.solvers.newton_multipliers:NewtonMultipliers",
    "primal_dual": "gtvmin.solvers.primal_dual:PrimalDual",
    "proximal_newton": "gtvmin.solvers.proximal_newton:ProximalNewton",
    "proximal_gradient": "gtvmin.solvers.proximal_gradient:ProximalGradient",
    "total_variation": "gtvmin.solvers.total_variation:TotalVariation",
}

FEDERATED = {
    "edgeadmm": "gtvmin.solvers.federated.edge_admm:EdgeADMM",
    "fedgd": "gtvmin.solvers.federated.fed_gd:FedGD",
    "fedrelax": "gtvmin.solvers.federated.fed_relax:FedRelax",
}
"""Federated algorithms whose limit is GTV minimisation itself, so that they solve a problem as it was declared."""


def solver_names() -> tuple[str, ...]:
    """Names that ``problem.solve(method=...)`` takes, besides ``"auto"``, ``"cvxpy"`` and those of :data:`FEDERATED`.

    Examples
    --------
    >>> from gtvmin.registry import solver_names
    >>> "primal_dual" in solver_names()
    True
    """
    offered = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return tuple(sorted(offered | set(BUILT_IN)))


def make_solver(name: str, **settings: Any) -> Any:
    """Solver of that name with the given settings.

    Raises
    ------
    ValueError
        If there is no solver of that name; the message lists those there are.
    TypeError
        If the solver lacks one of the settings.
    """
    if name in BUILT_IN or name in FEDERATED:
        module, attribute = {**BUILT_IN, **FEDERATED}[name].split(":")
        factory: Callable[..., Any] = getattr(import_module(module), attribute)
    else:
        offered = {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
        if name not in offered:
            raise ValueError(
                f"method {name!r} is unknown: choose 'auto', 'cvxpy' or one of {', '.join(solver_names())}; federated "
                f"algorithms are {', '.join(FEDERATED)}, those with other limits run by gtvmin.federate"
            )
        factory = offered[name].load()
    known = signature(factory).parameters
    unknown = [setting for setting in settings if setting not in known]
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
        raise TypeError(
            f"{unknown[0]!r} is neither an option of solve() (gap, max_iter, time_limit, start, progress) nor a "
            f"setting of {name!r} ({', '.join(known) or 'it has none'})"
            + (": CVXPY's solvers need method='cvxpy'" if unknown[0] == "solver" else "")
        )
    return factory(**settings)
