"""``gtvmin solve``: its options, and the way from them to the files of a result."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gtvmin.cli.options import FILE, GAP, Number, Options, column_names

if TYPE_CHECKING:
    from gtvmin.cli.problem import Study
    from gtvmin.solution import Solution

__all__ = ["EXAMPLES", "check_method", "fill_in", "solve"]

# What --example NAME stands for; the model's options may be given besides.
#
# sacramento: network, weights and ridge loss of Hallac, Leskovec, Boyd (2015), section 5.2, with kilometres instead of
# miles.  alpha has the least five-fold cross-validated error of 0.5, 0.7, 1, 1.5, 2, 3, each fold in turn being devices
# without data: 0.30 of the variance of the price stays unexplained, against 0.40 with one linear model of beds, baths
# and sqft for all houses.  With beds and baths in the devices' models it is 0.31, so they are left out.
EXAMPLES: dict[str, tuple[str, dict[str, Any]]] = {
    "sacramento": (
        "932 house sales: what does a square foot cost where?",
        {
            "target": "price",
            "features": ("sqft",),
            "coordinates": ("latitude", "longitude"),
            "knn": 5,
            "edge_weights": "inverse",
            "standardise": True,
            "ridge": 0.1,
            "alpha": 1.5,
            "describe": "city",
            "colour_by": "sqft",
        },
    )
}
COLUMNS: dict[str, Any] = {"type": column_names, "default": (), "metavar": "COLUMNS"}
BROUGHT_BY_EXAMPLE = ("data", "target", "node", "edges", "knn", "coordinates")


@click.command(short_help="Solve a problem from CSV files.")
@click.option("--example", type=click.Choice(sorted(EXAMPLES)), help="Solve an example that comes with the package.")
@click.option("--data", type=FILE, help="CSV file with a header line, one data point a row.")
@click.option("--target", metavar="COLUMN", help="Column to predict.")
@click.option(
    "--features",
    type=column_names,
    default=(),
    metavar="COLUMNS",
    help="Columns to predict it from. None: a level per device.",
)
@click.option("--node", metavar="COLUMN", help="Column with the device of each row. None: each row is its own device.")
@click.option("--edges", type=FILE, help="CSV file: two columns of device labels, optional weights.")
@click.option("--knn", type=click.IntRange(min=1), metavar="K", help="Join each device to its K nearest (no --edges).")
@click.option(
    "--coordinates",
    type=column_names,
    default=(),
    metavar="COLUMNS",
    help="Columns of positions, for --knn and the figure.",
)
@click.option(
    "--metric",
    type=click.Choice(["haversine", "euclidean"]),
    help="Distance for --knn. Default: haversine (km) for columns named latitude and longitude, else euclidean.",
)
@click.option(
    "--edge-weights",
    type=click.Choice(["unit", "inverse", "gaussian"]),
    default="unit",
    show_default=True,
    help="Weights for --knn: 1, 1 / (distance + 0.1), or a Gaussian of the distance.",
)
@click.option("--intercept/--no-intercept", default=True, show_default=True, help="Add a constant to each model.")
@click.option(
    "--standardise/--no-standardise",
    default=False,
    show_default=True,
    help="Turn features and target into z-scores over all rows, so that alpha and --ridge treat columns of different "
    "units alike; parameters are then written in original units too. Off: the units of the file.",
)
@click.option(
    "--loss",
    type=click.Choice(["squared_error", "ridge"]),
    help="Loss of a device: mean squared error over its rows, with ridge plus LAMBDA times the squared length of its "
    "slopes. Default: ridge if --ridge is given, else squared_error.",
)
@click.option("--ridge", type=Number(min=0), metavar="LAMBDA", help="Strength of ridge; the intercept is left free.")
@click.option(
    "--penalty",
    type=click.Choice(["l2", "l1", "linf", "squared"]),
    default="l2",
    show_default=True,
    help="Of the difference of neighbours' parameters: a norm (makes clusters) or the squared l2 norm (smooths).",
)
@click.option("--alpha", type=Number(min=0), metavar="NUMBER", help="Strength of the coupling; 0: no coupling.")
@click.option("--gap", type=GAP, default=1e-6, show_default=True, help="Relative gap to certify.")
@click.option("--method", default="auto", show_default=True, help="Solver; `gtvmin list` shows them.")
@click.option("--max-iter", type=click.IntRange(min=1), default=200_000, show_default=True, help="Most iterations.")
@click.option("--time-limit", type=Number(min=0, min_open=True), metavar="SECONDS", help="Most time.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("gtvmin-result"),
    show_default=True,
    help="Folder for the result. Files of an earlier result in it are replaced, others are left alone.",
)
@click.option("--colour-by", metavar="PARAMETER", help="Feature, or 'intercept', that colours the figure.")
@click.option("--describe", metavar="COLUMN", help="Column of text that describes the devices in the printed tables.")
@click.option("--no-progress", is_flag=True, help="No progress bar (it is shown on terminals only).")
@click.option("--quiet", is_flag=True, help="Print errors only.")
@click.pass_context
def solve(ctx: click.Context, /, **options: Any) -> None:
    """Solve a problem from CSV files and write parameters, certificate and figures.

    A device is a node of the network: all rows that --node gives it, or one row. Nodes of --edges without rows have no
    loss and learn from their neighbours alone.

    Exit code: 0 if the answer is certified to the relative gap that was asked for, 1 if not, 2 for unusable input.
    """
    fill_in(ctx, options)
    from gtvmin.cli.problem import declare

    study = declare(Options(**{name: options[name] for name in Options.__dataclass_fields__}))
    if options["colour_by"] not in (None, *study.variables.parameters):
        names = ", ".join(study.variables.parameters)
        raise click.BadParameter(f"{options['colour_by']!r} is not one of {names}", param_hint="'--colour-by'")
    check_method(options["method"], "'--method'")
    _make_folder(options["out"])  # before the work is done, not after
    solution = _solve(study, options)
    _write_and_print(study, solution, options)
    ctx.exit(0 if solution.is_certified else 1)


def fill_in(ctx: click.Context, options: dict[str, Any]) -> None:
    """Complete the options: by the example, and by defaults that depend on other options."""
    given = {name for name in options if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE}
    if options["example"] is not None:
        from gtvmin.datasets import sacramento_csv

        clash = next((name for name in BROUGHT_BY_EXAMPLE if name in given), None)
        if clash is not None:
            raise click.UsageError(f"--example brings its own data and network: leave out --{clash} or --example")
        stands_for = dict(EXAMPLES[options["example"]][1])
        if "features" in given:
            del stands_for["colour_by"]
        if options["loss"] == "squared_error":
            del stands_for["ridge"]
        options |= {name: value for name, value in stands_for.items() if name not in given}
        options["data"] = ctx.with_resource(sacramento_csv())
    for name, fix in (
        ("data", "--data FILE, or try --example sacramento"),
        ("target", "--target COLUMN, the column to predict"),
        ("alpha", "--alpha NUMBER, the strength of the coupling, such as --alpha 1"),
    ):
        if options[name] is None:
            raise click.UsageError(f"missing {fix}")
    if options["loss"] is None:
        options["loss"] = "squared_error" if options["ridge"] is None else "ridge"
    if "edge_weights" in given and options["edges"] is not None:
        raise click.UsageError("--edge-weights is for --knn: put weights into the third column of the edge list")
    if options["method"] == "cvxpy":
        limit = next((name for name in ("max_iter", "time_limit") if name in given), None)
        if limit is not None:
            raise click.UsageError(f"--{limit.replace('_', '-')} does not apply to --method cvxpy: leave it out")


def check_method(method: str, option: str) -> None:
    """Complain about the option if no solver has that name."""
    from gtvmin.registry import make_solver

    try:
        if method not in ("auto", "cvxpy"):
            make_solver(method)
    except (ValueError, TypeError) as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.BadParameter(f"{folder} cannot be made: {error.strerror}", param_hint="'--out'") from error
    if not os.access(folder, os.W_OK):
        raise click.BadParameter(f"{folder} cannot be written to", param_hint="'--out'")


def _solve(study: Study, options: dict[str, Any]) -> Solution:
    import warnings

    from gtvmin.cli.output import gap_bar
    from gtvmin.errors import CapabilityError, GtvminWarning

    shown = not (options["quiet"] or options["no_progress"])
    with warnings.catch_warnings(), gap_bar(options["gap"], shown) as progress:
        warnings.simplefilter("ignore", GtvminWarning)  # what they say is printed below the result
        try:
            return study.problem.solve(
                options["method"],
                gap=options["gap"],
                max_iter=options["max_iter"],
                time_limit=options["time_limit"],
                progress=progress,
            )
        except CapabilityError as error:
            raise click.BadParameter(str(error), param_hint="'--method'") from error


def _write_and_print(study: Study, solution: Solution, options: dict[str, Any]) -> None:
    from gtvmin.cli.files import draw_figures, summarise
    from gtvmin.cli.output import print_solution
    from gtvmin.results import write_result

    folder, tolerance = options["out"], options["gap"]
    settings = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    try:
        figures = draw_figures(study, solution, options["colour_by"], tolerance)
    except ImportError as error:
        figures = {}
        study.notes.append(f"no figures without matplotlib: {error}")
    summary = summarise(study, solution, settings, tolerance)
    try:
        files = write_result(folder, solution, study.variables, summary, figures)
    except OSError as error:
        raise click.BadParameter(f"{folder} cannot be written to: {error}", param_hint="'--out'") from error
    if not options["quiet"]:
        print_solution(study, solution, tolerance, files)
