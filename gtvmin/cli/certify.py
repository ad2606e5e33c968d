"""The command ``gtvmin certify``: compute the certificate of a saved result anew."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gtvmin.cli.options import FILE, GAP

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array

__all__ = ["certify"]


@click.command(short_help="Re-check a saved result.")
@click.argument("source", type=click.Path(exists=True, path_type=Path), metavar="RESULT|PROBLEM")
@click.argument("weights", type=FILE, required=False)
@click.option("--gap", type=GAP, default=1e-6, show_default=True, help="Relative gap to certify.")
@click.option("--rigorous", is_flag=True, help="Exact arithmetic: a bound that covers floating-point errors.")
@click.pass_context
def certify(ctx: click.Context, source: Path, weights: Path | None, gap: float, rigorous: bool) -> None:
    """Re-check a result: a folder of `gtvmin solve`, or a problem.npz and parameters for it.

    \b
    gtvmin certify gtvmin-result
    gtvmin certify gtvmin-result --rigorous
    gtvmin certify problem.npz weights.npy

    Everything is computed anew from the declared problem. Of a folder, the parameters are those of parameters.csv and
    the flows, which prove them, those of certificate.json. WEIGHTS may be a .csv (node labels first), a .npy (rows in
    the order of the nodes) or a certificate .json; without flows, good ones are searched for.

    Exit code: 0 if the parameters are certified to the relative gap, 1 if not, 2 for unusable input.
    """  # noqa: D301 - click wants the control character itself
    from gtvmin.certificates import certify as make_certificate
    from gtvmin.errors import CapabilityError

    if source.is_dir() and weights is not None:
        raise click.UsageError("give either a folder, or a problem.npz and its parameters")
    problem, W, U, stored = _read_result(source) if source.is_dir() else _read_pair(source, weights)
    try:
        certificate = make_certificate(problem, W, U, rigorous=rigorous)
    except CapabilityError as error:
        raise click.BadParameter(str(error), param_hint="'--rigorous'") from error
    click.echo(str(certificate))
    if stored is not None and (stored != W).any():
        i, k = divmod(int(abs(stored - W).argmax()), problem.dim)
        place = f"node {problem.network.nodes[i]!r}, parameter {k + 1}"
        values = f"{float(W[i, k])!r} instead of {float(stored[i, k])!r}"
        click.echo(f"parameters.csv differs from certificate.json, most at {place}: {values}")
    if certificate.holds(gap):
        click.echo(f"certified: the relative gap {certificate.relative_gap:.3e} is at most {gap:g}")
    else:
        click.echo(f"NOT certified: the relative gap {certificate.relative_gap:.3e} is larger than {gap:g}")
        ctx.exit(1)


def _read_result(folder: Path) -> tuple[GTVMin, Array, Array, Array]:
    """Problem, parameters of the table, flows and parameters of the certificate."""
    from gtvmin.results import CERTIFICATE, PARAMETERS, PROBLEM, read_certified, read_parameters
    from gtvmin.storage import load_problem

    for name in (PROBLEM, CERTIFICATE, PARAMETERS):
        if not (folder / name).is_file():
            raise click.UsageError(f"{folder} is not a result of gtvmin solve: it has no {name}")
    try:
        problem = load_problem(folder / PROBLEM)
        stored, U = read_certified(folder / CERTIFICATE, problem)
        return problem, read_parameters(folder / PARAMETERS, problem), U, stored
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error


def _read_pair(file: Path, weights: Path | None) -> tuple[GTVMin, Array, Array | None, None]:
    """Problem, parameters, and their flows if the file holds them."""
    from gtvmin.results import read_weights
    from gtvmin.storage import load_problem

    if weights is None:
        raise click.UsageError("give the parameters after the problem: a .csv, .npy or certificate .json")
    try:
        problem = load_problem(file)
        return problem, *read_weights(weights, problem), None
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
