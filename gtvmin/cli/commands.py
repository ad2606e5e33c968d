"""The command ``gtvmin`` and its subcommands, one a module.

Commands import what they need when they run, so that ``gtvmin --help`` answers at once.
"""

from __future__ import annotations

import click

from gtvmin import __version__
from gtvmin.cli.bench import bench
from gtvmin.cli.certify import certify
from gtvmin.cli.list_parts import list_parts
from gtvmin.cli.solve import solve
from gtvmin.cli.verify import verify

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", prog_name="gtvmin", message="%(prog)s %(version)s")
def main() -> None:
    """Learn a model per device over a network, with proof of how good it is.

    Each device fits a linear model to its own rows, and neighbours are drawn together by a penalty on the difference of
    their parameters. Every answer comes with a certificate: a bound on its distance to the optimum that anyone can
    re-check.

    \b
    gtvmin solve --example sacramento
    gtvmin solve --data data.csv --target y --features a,b --node site --edges edges.csv --alpha 1
    gtvmin certify gtvmin-result
    gtvmin verify my_module:my_solver
    gtvmin bench --example sacramento
    """  # noqa: D301 - click wants the control character itself


for command in (solve, certify, verify, bench, list_parts):
    main.add_command(command)
