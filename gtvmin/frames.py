"""Losses from a table in long format: one row a data point, one column that names the device."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from gtvmin.losses.base import Loss
from gtvmin.losses.squared_error import SquaredError
from gtvmin.solvers.standard_form import Array

__all__ = ["INTERCEPT", "FrameLosses", "losses_from_frame", "numbers_of"]

INTERCEPT = "intercept"


class FrameLosses(dict[Any, Loss]):
    """Losses by device, and the names of their models' parameters."""

    parameters: tuple[str, ...] = ()


def losses_from_frame(
    frame: Any,
    *,
    node: Hashable,
    target: Hashable,
    features: Sequence[Hashable],
    intercept: bool = True,
    loss: Callable[..., Loss] = SquaredError,
    **settings: Any,
) -> FrameLosses:
    """One loss per device from a pandas DataFrame in long format.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row a data point, in any order and with any index.  Not changed.
    node : column label
        Column that names the device of each row.
    target : column label
        Column to predict.
    features : sequence of column labels
        Columns to predict it from; may be empty, which leaves the intercept.
    intercept : bool
        Whether to append a column of ones to the features.
    loss : callable
        ``loss(X, y, **settings)``, such as ``gtv.SquaredError`` (the default), ``gtv.Ridge`` or ``gtv.Logistic``.
    **settings
        Passed to ``loss``.

    Returns
    -------
    dict
        Device label to loss, in order of first appearance.  A problem that is declared with it knows the names of the
        columns: ``solution.to_frame()`` shows them, ``solution.predict(frame, node)`` finds them.

    Raises
    ------
    ValueError
        If a column is missing or repeated, a cell is NaN, infinite or no number (the row and column are named), or
        there is nothing to predict from.
    TypeError
        If ``frame`` is no DataFrame.

    Examples
    --------
    >>> import pandas as pd
    >>> import gtvmin as gtv
    >>> frame = pd.DataFrame({"shop": ["a", "a", "b"], "price": [1.0, 2.0, 1.5], "sold": [3.0, 5.0, 4.5]})
    >>> losses = gtv.losses_from_frame(frame, node="shop", target="sold", features=["price"])
    >>> losses["a"].value([2.0, 1.0])
    0.0
    """
    if not hasattr(frame, "columns") or not hasattr(frame, "groupby"):
        raise TypeError(f"frame must be a pandas DataFrame, got {type(frame).__name__}")
    if isinstance(features, (str, bytes)):
        raise TypeError(f"features must be a list of columns, got the text {features!r}: write [{features!r}]")
    columns = list(features)
    for name in (node, target, *columns):
        _require_column(frame, name)
    if not columns and not intercept:
        raise ValueError("features is empty and intercept is off: there is nothing to predict from")
    X = np.column_stack([numbers_of(frame, name) for name in columns] or [np.empty((len(frame), 0))])
    if intercept:
        X = np.column_stack([X, np.ones(len(frame))])
    y = numbers_of(frame, target)
    missing = frame[node].isna().to_numpy()
    if missing.any():
        raise ValueError(f"column {node!r} names no device in row {_plain(frame.index[int(missing.argmax())])!r}")
    positions = frame.groupby(node, sort=False, observed=True).indices
    order = frame[node].drop_duplicates()
    losses = FrameLosses()
    losses.parameters = (*map(str, columns), *([INTERCEPT] if intercept else []))
    for label in order:
        rows = np.sort(positions[label])
        losses[_plain(label)] = loss(X[rows], y[rows], **settings)
    return losses


def _plain(label: Any) -> Any:
    """A NumPy scalar as a Python one."""
    return label.item() if isinstance(label, np.generic) else label


def _require_column(frame: Any, name: Hashable) -> None:
    found = int((frame.columns == name).sum())
    if found != 1:
        problem = "is not a column" if not found else f"names {found} columns"
        raise ValueError(f"{name!r} {problem} of the frame, which has {list(frame.columns)}")


def numbers_of(frame: Any, name: Hashable) -> Array:
    """A column as finite floats."""
    _require_column(frame, name)
    column = frame[name]
    try:
        values = np.asarray(column.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} must hold numbers: {error}") from error
    bad = ~np.isfinite(values)
    if bad.any():
        row = _plain(frame.index[int(bad.argmax())])
        raise ValueError(f"column {name!r} has a {values[bad][0]} in row {row!r}: remove or impute it")
    return values
