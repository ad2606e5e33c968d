"""``gtvmin bench``: time the solvers on a problem of the user's."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gtvmin.cli.options import FILE, Number, Options, column_names
from gtvmin.cli.solve import check_method, fill_in, solve

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.timings import Timing

__all__ = ["bench"]

DECLARING = ("example", *Options.__dataclass_fields__)


def numbers(value: str | tuple[float, ...]) -> tuple[float, ...]:
    """Positive numbers separated by commas."""
    if isinstance(value, tuple):
        return value
    number = Number(min=0, min_open=True)
    return tuple(number.convert(part, None, None) for part in column_names(value))


@click.command(short_help="Time the solvers on a problem.")
@click.argument("stored", type=FILE, required=False, metavar="[PROBLEM]")
@click.option("--methods", type=column_names, metavar="NAMES", help="Solvers. Default: auto and all that fit.")
@click.option("--gaps", type=numbers, default="1e-4,1e-6,1e-8", show_default=True, help="Relative gaps to certify.")
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Runs; medians are shown.")
@click.option(
    "--time-limit",
    type=Number(min=0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Most time of one run.",
)
@click.option("--csv", "table", type=click.Path(dir_okay=False, path_type=Path), help="Write the table to this file.")
@click.pass_context
def bench(ctx: click.Context, /, **options: Any) -> None:
    """Time the solvers on a problem: a problem.npz, or what `gtvmin solve` takes.

    \b
    gtvmin bench --example sacramento
    gtvmin bench gtvmin-result/problem.npz --methods auto,primal_dual,cvxpy --csv times.csv

    Times are medians of whole runs with their certificates, after a first one that compiles. For fair comparisons set
    OMP_NUM_THREADS=1 and NUMBA_NUM_THREADS=1.

    Exit code: 0 if a solver certified the smallest gap, 1 if none did, 2 for unusable input.
    """  # noqa: D301 - click wants the control character itself
    methods, target = options["methods"], options["table"]
    if target is not None and not target.absolute().parent.is_dir():
        raise click.BadParameter(f"the folder {target.absolute().parent} does not exist", param_hint="'--csv'")
    problem = _problem(ctx, options)
    timings = _timings(problem, methods or _fitting(), options, named=methods is not None)
    _print(timings)
    if target is not None:
        _write(timings, target)
    smallest = min(options["gaps"])
    ctx.exit(0 if any(one.gap == smallest and one.seconds is not None for one in timings) else 1)


# the options that declare a problem are those of `gtvmin solve`
bench.params += [parameter for parameter in solve.params if parameter.name in DECLARING]


def _problem(ctx: click.Context, options: dict[str, Any]) -> GTVMin:
    stored = options["stored"]
    if stored is None:
        from gtvmin.cli.problem import declare

        declared = {**options, "method": "auto", "colour_by": None}
        fill_in(ctx, declared)
        return declare(Options(**{name: declared[name] for name in Options.__dataclass_fields__})).problem
    given = next((n for n in DECLARING if ctx.get_parameter_source(n) is click.core.ParameterSource.COMMANDLINE), None)
    if given is not None:
        raise click.UsageError(f"{stored} is a whole problem: leave out --{given.replace('_', '-')} or the file")
    from gtvmin.storage import load_problem

    try:
        return load_problem(stored)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error


def _fitting() -> tuple[str, ...]:
    from gtvmin.registry import solver_names

    return ("auto", *solver_names())


def _timings(problem: GTVMin, methods: Sequence[str], options: dict[str, Any], named: bool) -> list[Timing]:
    from gtvmin.cli.output import console
    from gtvmin.timings import time_solvers

    for method in methods:
        check_method(method, "'--methods'")
    screen = console(stderr=True)
    limits = {"repeats": options["repeats"], "time_limit": options["time_limit"]}
    if screen.is_terminal:
        with screen.status("timing") as status:
            timings = time_solvers(problem, methods, options["gaps"], **limits, tell=status.update)
    else:
        timings = time_solvers(problem, methods, options["gaps"], **limits)
    left_out = [method for method in methods if method not in {one.method for one in timings}]
    if named and left_out:
        raise click.BadParameter(f"{', '.join(left_out)} does not fit this problem", param_hint="'--methods'")
    return timings


def _print(timings: Sequence[Timing]) -> None:
    """One row a method, one column a gap; the fastest time of each column has a star."""
    from rich.table import Table

    from gtvmin.cli.output import console

    gaps = sorted({one.gap for one in timings}, reverse=True)
    found = {(one.method, one.gap): one for one in timings}
    best = {gap: min((o.seconds for o in timings if o.gap == gap and o.seconds is not None), default=0) for gap in gaps}
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("seconds to a certified gap of")
    for gap in gaps:
        table.add_column(f"{gap:.0e}", justify="right")
    table.add_column("first use", justify="right")
    missed = []
    for method in dict.fromkeys(one.method for one in timings):
        row = []
        for gap in gaps:
            one = found.get((method, gap))
            if one is not None and one.seconds is not None:
                row.append(f"{one.seconds:.3g}{' *' if one.seconds == best[gap] else '  '}")
                continue
            row.append("-  ")
            if one is not None:
                missed.append(f"{method} reached {one.reached:.1e}: {one.status}")
        table.add_row(method, *row, f"{next(o.first_use for o in timings if o.method == method):.3g}")
    screen = console()
    screen.print(table)
    screen.print("* fastest; medians of whole runs, certificates included")
    for line in missed:
        screen.print(line, soft_wrap=True)


def _write(timings: Sequence[Timing], path: Path) -> None:
    from gtvmin.storage import write_atomically
    from gtvmin.timings import Timing

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(f.name for f in fields(Timing))
    for one in timings:
        writer.writerow("" if value is None else value for value in vars(one).values())
    write_atomically(path, buffer.getvalue().encode())
    click.echo(f"written: {path}")
