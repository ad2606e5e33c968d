"""Reading points in space: one row of finite numbers for each node."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gtvmin.edges import FloatArray, is_data_frame, node_labels
from gtvmin.validation import numeric_array

__all__ = ["column_names", "latitude_longitude", "read_coordinates", "read_names", "read_points"]


def read_points(points: Any, nodes: Iterable[Any] | None, argument: str) -> tuple[tuple[Hashable, ...], FloatArray]:
    """Labels (a DataFrame's index or 0..n-1, if `nodes` is None) and finite numbers (n_points, n_features)."""
    columns: list[Any] | None = None
    if is_data_frame(points):
        columns = list(points.columns)
        for column, dtype in zip(columns, points.dtypes, strict=True):
            if dtype.kind not in "iufb":
                raise TypeError(f"{argument}: column {column!r} has dtype {dtype}, not numbers: convert or drop it")
        nodes = points.index if nodes is None else nodes
        points = points.to_numpy(dtype=np.float64, na_value=np.nan)
    if isinstance(points, np.ma.MaskedArray):
        raise TypeError(f"{argument} is a masked array: remove or impute the masked rows")
    array = numeric_array(points, argument)
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"{argument} must have shape (n_points, n_features), got {array.shape}")
    labels = node_labels(range(len(array)) if nodes is None else nodes)
    if len(labels) != len(array):
        raise ValueError(f"nodes has {len(labels)} labels for {len(array)} rows of {argument}")
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        row, column = (int(index) for index in bad[0])
        name = column if columns is None else columns[column]
        raise ValueError(
            f"{argument}: row {labels[row]!r} has {array[row, column]} in column {name!r}: remove or impute it"
        )
    return labels, array


def read_coordinates(coordinates: Any, nodes: tuple[Hashable, ...]) -> FloatArray:
    """Position of each node; a mapping or DataFrame is read by label, an array in the order of `nodes`."""
    if is_data_frame(coordinates):
        labels, rows = read_points(coordinates, None, "coordinates")
        coordinates = dict(zip(labels, rows, strict=True))
    if isinstance(coordinates, Mapping):
        absent = next((label for label in nodes if label not in coordinates), None)
        if absent is not None:
            raise ValueError(f"coordinates lacks node {absent!r}: give every node a position")
        coordinates = [coordinates[label] for label in nodes]
    return read_points(coordinates, nodes, "coordinates")[1]


def column_names(points: Any) -> tuple[str, ...] | None:
    """The columns of a DataFrame, if all of them are text."""
    names = tuple(points.columns) if is_data_frame(points) else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def read_names(names: Sequence[str] | None, coordinates: Any, count: int) -> tuple[str, ...] | None:
    """Names of the coordinates, by default those of a DataFrame's columns; one for each of them."""
    if names is None:
        return column_names(coordinates)
    found = tuple(names)
    if isinstance(names, str) or len(found) != count or not all(isinstance(name, str) for name in found):
        raise ValueError(f"coordinate_names must be {count} texts, one for each coordinate, got {names!r}")
    return found


def latitude_longitude(names: Sequence[str]) -> tuple[int, int] | None:
    """Places of latitude and longitude among two coordinate names, or None if they are not such names.

    Examples
    --------
    >>> from gtvmin.points import latitude_longitude
    >>> latitude_longitude(["Lon", "Lat"]), latitude_longitude(["x", "y"])
    ((1, 0), None)
    """
    plain = [name.strip().lower() for name in names]
    if len(plain) != 2:
        return None
    for latitude, longitude in ((0, 1), (1, 0)):
        if plain[latitude] in {"lat", "latitude"} and plain[longitude] in {"lon", "lng", "long", "longitude"}:
            return latitude, longitude
    return None
