"""Options of the command line: the values they take, and those that declare a problem."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

__all__ = ["FILE", "GAP", "Number", "Options", "blame", "column_names"]

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


def column_names(value: str | tuple[str, ...]) -> tuple[str, ...]:
    """Names separated by commas, without the spaces around them; one that holds a comma stands in double quotes."""
    if isinstance(value, tuple):  # a default
        return value
    names = tuple(name.strip() for name in next(csv.reader([value]), []))
    if not names or not all(names):
        raise click.BadParameter(f"{value!r} is not a list of names such as a,b,c")
    return names


class Number(click.FloatRange):
    """A finite number in a range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, if it is finite and in the range."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", param, ctx)
        return number


GAP = Number(min=0, min_open=True)


@dataclass(frozen=True)
class Options:
    """The options that declare a problem, as given on the command line."""

    data: Path
    target: str
    features: tuple[str, ...]
    node: str | None
    edges: Path | None
    knn: int | None
    coordinates: tuple[str, ...]
    metric: str | None
    edge_weights: str
    intercept: bool
    standardise: bool
    loss: str
    ridge: float | None
    penalty: str
    alpha: float
    describe: str | None


@contextmanager
def blame(option: str) -> Iterator[None]:
    """Turn an error about a file or an argument into one about the option it came from."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise click.BadParameter(str(error), param_hint=f"'{option}'") from error
