"""The command ``gtvmin list``: solvers, federated algorithms, losses, penalties and examples, a line each."""

from __future__ import annotations

from typing import Any

import click

from gtvmin.cli.solve import EXAMPLES

__all__ = ["list_parts"]


@click.command(name="list")
def list_parts() -> None:
    """Show solvers, federated algorithms, losses, penalties and examples."""
    import gtvmin.losses
    import gtvmin.penalties
    from gtvmin.cli.output import print_lists
    from gtvmin.federated.catalogue import entries
    from gtvmin.losses import Loss
    from gtvmin.penalties import Penalty
    from gtvmin.registry import make_solver, solver_names

    def first_line(thing: Any) -> str:
        return (thing.__doc__ or "").strip().partition("\n")[0].replace("``", "")

    def kinds(module: Any, base: type[Any]) -> dict[str, str]:
        members = [(name, getattr(module, name)) for name in module.__all__]
        return {n: first_line(c) for n, c in members if isinstance(c, type) and issubclass(c, base) and c is not base}

    print_lists(
        {
            "solvers (--method)": {
                "auto": "The one of these that fits the problem best.",
                **{name: first_line(type(make_solver(name))) for name in solver_names()},
                "cvxpy": "Reference solution by CVXPY with Clarabel.",
            },
            "federated algorithms (gtvmin.federate)": {
                name: first_line(entry.algorithm) for name, entry in sorted(entries().items())
            },
            "losses (--loss squared_error, ridge; all of them in Python)": kinds(gtvmin.losses, Loss),
            "penalties (--penalty l2, l1, linf: Norm; squared: SquaredNorm)": kinds(gtvmin.penalties, Penalty),
            "examples (--example)": {name: text for name, (text, _) in EXAMPLES.items()},
        }
    )
