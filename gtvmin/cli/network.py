"""The network of ``gtvmin solve``: from an edge list, or to the nearest neighbours."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from gtvmin.cli.options import Options, blame
from gtvmin.network import FLNetwork
from gtvmin.points import latitude_longitude
from gtvmin.solvers.standard_form import Array
from gtvmin.tables import Table, read_edge_table

__all__ = ["coordinate_names", "read_network", "read_places"]

INVERSE_OFFSET = 0.1
"""Weight 1 / (distance + offset): bounded where two devices share a place (Hallac et al. 2015, section 5.2)."""
EDGE_WEIGHTS: dict[str, tuple[Any, str]] = {
    "unit": (None, "1"),
    "inverse": (lambda distance: 1.0 / (distance + INVERSE_OFFSET), f"1 / (distance + {INVERSE_OFFSET:g})"),
    "gaussian": ("gaussian", "Gaussian of the distance"),
}


def coordinate_names(options: Options) -> tuple[str, ...]:
    """Names of the coordinates, latitude before longitude."""
    order = latitude_longitude(options.coordinates)
    return options.coordinates if order is None else tuple(options.coordinates[k] for k in order)


def read_places(table: Table, rows: dict[str, list[int]], options: Options) -> Array | None:
    """Coordinates of each device that has data."""
    if not options.coordinates:
        return None
    names = coordinate_names(options)
    with blame("--coordinates"):
        columns = np.column_stack([table.numbers(name) for name in names])
    for label, k in rows.items():
        moved = np.flatnonzero((columns[k] != columns[k[0]]).any(axis=1))
        if len(moved):
            first, other = table.lines[k[0]], table.lines[k[moved[0]]]
            raise click.BadParameter(
                f"{table.path}, lines {first} and {other}: node {label!r} has two positions",
                param_hint="'--coordinates'",
            )
    return columns[[k[0] for k in rows.values()]]


def read_network(
    labels: list[str], places: Array | None, options: Options, notes: list[str]
) -> tuple[FLNetwork, list[str]]:
    """The network, and its nodes without data."""
    if options.edges is None:
        return _nearest_neighbours(labels, places, options, notes), []
    with blame("--edges"):
        listed = read_edge_table(options.edges)
        ends = dict.fromkeys(end for pair in listed.pairs for end in pair)
        known = set(labels)
        unlabelled = [end for end in ends if end not in known]
        if len(unlabelled) == len(ends):
            raise ValueError(
                f"none of the labels of {options.edges}, such as {unlabelled[0]!r}, is in column {options.node!r} of "
                f"{options.data}, which has {labels[0]!r}: both files must spell them alike"
            )
        coordinates = None if unlabelled else places
        network = FLNetwork.from_edges(listed.pairs, listed.weights, [*labels, *unlabelled], coordinates=coordinates)
    if unlabelled:
        undrawn = ", and the figure does without --coordinates" if places is not None else ""
        notes.append(
            f"{_count(len(unlabelled))} of the edge list without data, such as {unlabelled[0]!r}: unlabelled "
            f"(loss Zero), learning from neighbours alone{undrawn}"
        )
    isolated = [label for label in labels if label not in ends]
    if isolated:
        notes.append(f"{_count(len(isolated))} without an edge, such as {isolated[0]!r}: learning from own data alone")
    return network, unlabelled


def _nearest_neighbours(labels: list[str], places: Array | None, options: Options, notes: list[str]) -> FLNetwork:
    k = options.knn
    if k is None or k >= len(labels):
        raise click.BadParameter(f"needs more than {k} devices, the data has {len(labels)}", param_hint="'--knn'")
    geographic = latitude_longitude(options.coordinates) is not None
    metric = options.metric or ("haversine" if geographic else "euclidean")
    weights, rule = EDGE_WEIGHTS[options.edge_weights]
    with blame("--coordinates"):
        network = FLNetwork.knn(places, k, metric=metric, weights=weights, nodes=labels)
    unit = "Euclidean distance" if metric == "euclidean" else "haversine distance in km"
    if metric == "haversine" and not geographic:
        unit += f" ({options.coordinates[0]} taken as latitude, {options.coordinates[1]} as longitude)"
    notes.append(f"edges to the {k} nearest devices by {unit}; weights: {rule}")
    return network


def _count(n: int) -> str:
    return "1 device" if n == 1 else f"{n} devices"
