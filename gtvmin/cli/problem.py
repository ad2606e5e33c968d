"""From the options of ``gtvmin solve`` to a declared problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import click
import numpy as np

from gtvmin.cli.network import coordinate_names, read_network, read_places
from gtvmin.cli.options import Options, blame
from gtvmin.losses import Loss, Ridge, SquaredError, Zero
from gtvmin.penalties import Norm, Penalty, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.results import Scaling, Variables
from gtvmin.solvers.standard_form import Array
from gtvmin.tables import Table, read_table

__all__ = ["Study", "declare"]

WIDE_RANGE = 30.0
"""Ratio of the features' sizes from which standardising is advised."""

PENALTIES: dict[str, tuple[Callable[[], Penalty], str]] = {
    "l2": (lambda: Norm(2), "||w_i - w_j||_2"),
    "l1": (lambda: Norm(1), "||w_i - w_j||_1"),
    "linf": (lambda: Norm(np.inf), "||w_i - w_j||_inf"),
    "squared": (SquaredNorm, "||w_i - w_j||_2^2"),
}


@dataclass(frozen=True, eq=False)
class Study:
    """A declared problem, the names of its parts, and what a person should know about it.

    Attributes
    ----------
    problem : GTVMin
        The problem.
    variables : Variables
        Names of target, parameters and coordinates.
    spread : array (n_features,)
        Standard deviation of each feature over all rows, in the units of the problem.
    n_rows : int
        Number of data points.
    unlabelled : tuple of str
        Devices without data.
    formula : str
        What is minimised.
    descriptions : dict, optional
        Text that says what a device is.
    notes : list of str
        Decisions that were taken from the data.
    """

    problem: GTVMin
    variables: Variables
    spread: Array
    n_rows: int
    unlabelled: tuple[str, ...]
    formula: str
    descriptions: dict[str, str] | None = None
    notes: list[str] = field(default_factory=list)


def declare(options: Options) -> Study:
    """Read the files and declare the problem.

    Raises
    ------
    click.UsageError
        If options contradict each other or a file cannot be used.
    """
    _check(options)
    with blame("--data"):
        table = read_table(options.data)
    rows = _rows_of_devices(table, options.node)
    notes: list[str] = []
    X, y, scaling = _features_and_target(table, options, notes)
    places = read_places(table, rows, options)
    network, unlabelled = read_network(list(rows), places, options, notes)
    losses = {label: _loss(X[k], y[k], options) for label, k in rows.items()}
    losses |= dict.fromkeys(unlabelled, Zero())
    penalty, jump = PENALTIES[options.penalty]
    with blame("--alpha"):
        problem = GTVMin(network, losses, penalty=penalty(), alpha=options.alpha)
    names = coordinate_names(options) if network.coordinates is not None else ()
    descriptions = None
    if options.describe is not None:
        with blame("--describe"):
            text = table.text(options.describe)
        descriptions = {label: text[k[0]] for label, k in rows.items()}
    return Study(
        problem=problem,
        variables=Variables(options.target, options.features, options.intercept, names, scaling),
        spread=X[:, : len(options.features)].std(axis=0),
        n_rows=len(y),
        unlabelled=tuple(unlabelled),
        formula=f"sum_i {_loss_formula(options)} + {options.alpha:g} * sum_(i,j) A_ij {jump}",
        descriptions=descriptions,
        notes=notes,
    )


def _check(options: Options) -> None:
    if (options.edges is None) == (options.knn is None):
        raise click.UsageError("give the network by exactly one of --edges FILE and --knn K")
    if options.edges is not None and options.node is None:
        raise click.UsageError(
            "--edges needs --node COLUMN: the column of --data that holds the labels of the edge list"
        )
    if options.knn is not None and not options.coordinates:
        raise click.UsageError("--knn needs --coordinates COLUMNS, such as --coordinates latitude,longitude")
    if options.edges is not None and options.metric is not None:
        raise click.UsageError("--metric is for --knn: an edge list needs no distances")
    if options.loss == "ridge" and options.ridge is None:
        raise click.UsageError("--loss ridge needs --ridge LAMBDA, such as --ridge 0.1")
    if options.loss == "squared_error" and options.ridge is not None:
        raise click.UsageError("--ridge is for --loss ridge: leave out one of them")
    if not options.features and not options.intercept:
        raise click.UsageError("a model needs --features COLUMNS, or an intercept")
    for name in ("intercept", "node", "cluster"):
        if name in options.features:
            raise click.BadParameter(f"{name!r} is a name of the output: rename the column", param_hint="'--features'")
    for hint, columns in (("--features", options.features), ("--coordinates", options.coordinates)):
        twice = next((name for k, name in enumerate(columns) if name in columns[:k]), None)
        if twice is not None:
            raise click.BadParameter(f"{twice!r} is listed twice", param_hint=f"'{hint}'")
    if options.target in options.features:
        raise click.BadParameter(f"{options.target!r} is the target as well", param_hint="'--features'")


def _rows_of_devices(table: Table, node: str | None) -> dict[str, list[int]]:
    """Rows of each device by label; without a column of labels each row is a device, numbered from 1."""
    if node is None:
        return {str(k + 1): [k] for k in range(len(table.rows))}
    with blame("--node"):
        labels = table.text(node)
    rows: dict[str, list[int]] = {}
    for k, label in enumerate(labels):
        rows.setdefault(label, []).append(k)
    return rows


def _features_and_target(table: Table, options: Options, notes: list[str]) -> tuple[Array, Array, Scaling | None]:
    """Features (rows, dim), the intercept's ones last, and target (rows,); as z-scores if asked."""
    with blame("--features"):
        columns = [table.numbers(name) for name in options.features]
    with blame("--target"):
        y = table.numbers(options.target)
    X = np.column_stack(columns) if columns else np.empty((len(y), 0))
    scaling = None
    if options.standardise:
        scaling = _scaling(X, y, options)
        X, y = (X - scaling.mean) / scaling.scale, (y - scaling.target_mean) / scaling.target_scale
    if options.intercept:
        X = np.column_stack([X, np.ones(len(y))])
    size = np.sqrt(np.square(X).mean(axis=0))
    if size.max() > WIDE_RANGE * size[size > 0].min(initial=np.inf):
        notes.append(
            f"the sizes of the features (an intercept has 1) differ by a factor of more than {WIDE_RANGE:g}: one alpha "
            "cannot suit them all, consider --standardise"
        )
    return X, y, scaling


def _scaling(X: Array, y: Array, options: Options) -> Scaling:
    scales = (*X.std(axis=0), y.std())
    for name, scale in zip((*options.features, options.target), scales, strict=True):
        if not scale > 0:
            hint = "'--target'" if name == options.target else "'--features'"
            raise click.BadParameter(f"column {name!r} is constant and cannot be standardised", param_hint=hint)
    return Scaling(X.mean(axis=0), X.std(axis=0), float(y.mean()), float(y.std()))


def _loss(X: Array, y: Array, options: Options) -> Loss:
    if options.ridge is None:
        return SquaredError(X, y)
    penalise = np.ones(X.shape[1])
    if options.intercept:
        penalise[-1] = 0.0
    return Ridge(X, y, lam=options.ridge, penalise=penalise)


def _loss_formula(options: Options) -> str:
    squared = "mean_r (y_r - <x_r, w_i>)^2"
    if options.ridge is None:
        return squared
    return f"[{squared} + {options.ridge:g} * ||w_i||_2^2{' without the intercept' if options.intercept else ''}]"
