"""A solved problem as a folder of files that anyone can read and re-check."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.frames import INTERCEPT
from gtvmin.solvers.standard_form import Array
from gtvmin.storage import write_atomically
from gtvmin.tables import Table, TableError, read_table

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solution import Solution

__all__ = [
    "CERTIFICATE",
    "CONVERGENCE",
    "INTERCEPT",
    "NETWORK",
    "PARAMETERS",
    "PROBLEM",
    "Scaling",
    "Variables",
    "read_certified",
    "read_parameters",
    "read_weights",
    "write_result",
]

PARAMETERS = "parameters.csv"
ORIGINAL_UNITS = "parameters_original_units.csv"
CERTIFICATE = "certificate.json"
PROBLEM = "problem.npz"
SUMMARY = "summary.json"
NETWORK = "network.png"
CONVERGENCE = "convergence.png"
OPTIONAL = (ORIGINAL_UNITS, NETWORK, CONVERGENCE)
CLUSTER = "cluster"


@dataclass(frozen=True, eq=False)
class Scaling:
    """Means and standard deviations that turned features and target into z-scores.

    Attributes
    ----------
    mean, scale : array (n_features,)
        Of the features; ``z = (x - mean) / scale``.
    target_mean, target_scale : float
        Of the target.
    """

    mean: Array
    scale: Array
    target_mean: float
    target_scale: float

    def slopes(self, W: Array) -> Array:
        """Slopes in original units, (n_nodes, n_features), from the first n_features columns of W."""
        return self.target_scale * W[:, : len(self.scale)] / self.scale

    def level(self, W: Array) -> Array:
        """What each device predicts where all features have their mean, (n_nodes,)."""
        constant = W[:, len(self.scale)] if W.shape[1] > len(self.scale) else np.zeros(len(W))
        return np.asarray(self.target_mean + self.target_scale * constant)

    def intercept(self, W: Array) -> Array:
        """What each device predicts where all features are 0, (n_nodes,)."""
        return np.asarray(self.level(W) - self.slopes(W) @ self.mean)

    def as_json(self, features: Sequence[str], target: str) -> dict[str, Any]:
        """Means and standard deviations by column name."""
        columns = {
            name: {"mean": float(mean), "scale": float(scale)}
            for name, mean, scale in zip(features, self.mean, self.scale, strict=True)
        }
        return {
            "formula": "z = (x - mean) / scale; slope in original units = z-slope * target scale / feature scale; "
            "intercept = target mean + target scale * z-intercept - sum of slope * feature mean",
            "features": columns,
            "target": {target: {"mean": self.target_mean, "scale": self.target_scale}},
        }


@dataclass(frozen=True, eq=False)
class Variables:
    """Names of what a result is about.

    Attributes
    ----------
    target : str
        What is predicted.
    features : tuple of str
        Columns of the features, in the order of the parameters.
    intercept : bool
        Whether one more parameter, the last, is an intercept.
    coordinates : tuple of str
        Names of the network's coordinates.
    scaling : Scaling, optional
        How features and target were standardised.
    """

    target: str
    features: tuple[str, ...]
    intercept: bool
    coordinates: tuple[str, ...] = ()
    scaling: Scaling | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of a device."""
        return (*self.features, INTERCEPT) if self.intercept else self.features


def write_result(
    folder: Path, solution: Solution, variables: Variables, summary: dict[str, Any], figures: dict[str, bytes]
) -> list[Path]:
    """Write parameters, problem, certificate, summary and figures.

    Files of these names that an earlier result left are replaced, or removed where this result has no such file; others
    are left alone.

    Parameters
    ----------
    folder : Path
        Made if it does not exist.
    solution : Solution
        What to write.
    variables : Variables
        Names for the columns.
    summary : dict
        Written as JSON.
    figures : dict from file name to bytes
        Written as they are.

    Returns
    -------
    list of Path
        The files, each written as a whole or not at all.
    """
    files = {PARAMETERS: _parameter_csv(solution, variables, [(variables.parameters, solution.weights)])}
    scaling, W = variables.scaling, solution.weights
    if scaling is not None:
        levels = np.column_stack([scaling.intercept(W), scaling.level(W)])
        columns = [(variables.features, scaling.slopes(W)), ((INTERCEPT, f"{variables.target} at average"), levels)]
        files[ORIGINAL_UNITS] = _parameter_csv(solution, variables, columns)
    files[SUMMARY] = json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False).encode() + b"\n"
    files |= figures
    for name in OPTIONAL:
        if name not in files:
            (folder / name).unlink(missing_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)
    return [
        *(folder / name for name in files),
        solution.certificate.save(folder / CERTIFICATE),
        solution.problem.save(folder / PROBLEM),
    ]


def _parameter_csv(solution: Solution, variables: Variables, columns: Sequence[tuple[Sequence[str], Array]]) -> bytes:
    """One row a device: label, coordinates, numbers with all their digits, cluster."""
    net = solution.problem.network
    names = [name for group, _ in columns for name in group]
    values = np.column_stack([block for _, block in columns])
    places = np.empty((net.n_nodes, 0)) if net.coordinates is None else net.coordinates
    # a coordinate may be a feature as well: its name then says which is which
    places_names = [f"{name} (coordinate)" if name in names else name for name in variables.coordinates]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["node", *places_names, *names, CLUSTER])
    clusters = solution.clusters()
    for node, place, row in zip(net.nodes, places.tolist(), values.tolist(), strict=True):
        writer.writerow([str(node), *map(repr, place), *map(repr, row), clusters[node]])
    return buffer.getvalue().encode()


def read_parameters(path: str | Path, problem: GTVMin) -> Array:
    """Parameters of every device from a CSV file, in the order of the problem's nodes.

    Parameters
    ----------
    path : str or Path
        First column: node labels.  Parameters: the last columns, as many as the problem has parameters, a column
        ``cluster`` at the end not counted.
    problem : GTVMin
        Whose nodes they are.

    Raises
    ------
    TableError
        If a node is missing, unknown or occurs twice, or a cell is not a number.
    """
    table = read_table(path)
    header = table.header[:-1] if table.header[-1] == CLUSTER else table.header
    if len(header) <= problem.dim:
        raise TableError(
            f"{path} has the columns {', '.join(table.header)}: expected node labels and {problem.dim} parameters"
        )
    values = np.column_stack([table.numbers(name) for name in header[-problem.dim :]])
    return values[_row_of_each_node(table, problem)]


def _row_of_each_node(table: Table, problem: GTVMin) -> list[int]:
    labels = [str(node).strip() for node in problem.network.nodes]
    known = set(labels)
    if len(known) < len(labels):
        raise TableError("two node labels read the same as text: give the parameters as a .npy file in node order")
    rows: dict[str, int] = {}
    for k, (label, line) in enumerate(zip(table.text(table.header[0]), table.lines, strict=True)):
        if label not in known:
            raise TableError(f"{table.path}, line {line}: {label!r} is not a node of the problem")
        if label in rows:
            raise TableError(
                f"{table.path}, line {line}: node {label!r} occurs in line {table.lines[rows[label]]} already"
            )
        rows[label] = k
    missing = next((label for label in labels if label not in rows), None)
    if missing is not None:
        raise TableError(f"{table.path} has no row for node {missing!r}")
    return [rows[label] for label in labels]


def read_weights(path: str | Path, problem: GTVMin) -> tuple[Array, Array | None]:
    """Parameters from a ``.csv``, ``.npy`` or certificate ``.json`` file, and the flows of a certificate.

    Raises
    ------
    ValueError
        If the file is none of these, or does not fit the problem.
    """
    file = Path(path)
    if file.suffix == ".csv":
        return read_parameters(file, problem), None
    if file.suffix == ".npy":
        try:
            return problem.parameters_array(np.load(file, allow_pickle=False)), None
        except (ValueError, TypeError, EOFError) as error:
            raise ValueError(f"{file}: {error}") from error
    if file.suffix == ".json":
        return read_certified(file, problem)
    raise ValueError(f"{file}: parameters are read from .csv, .npy or a certificate .json, not from {file.suffix!r}")


def read_certified(path: Path, problem: GTVMin) -> tuple[Array, Array]:
    """Parameters and flows of a saved certificate; what it claims about them is not read.

    Raises
    ------
    ValueError
        If the file is not a certificate of this problem.
    """
    try:
        record = json.loads(path.read_bytes())
        owner, W, U = record["problem_hash"], record["W"], record["U"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not a saved certificate: {error!r}") from error
    if owner != problem.hash:
        raise ValueError(
            f"{path} belongs to another problem: its sha256 is {str(owner)[:16]}..., not {problem.hash[:16]}..."
        )
    try:
        flows = np.asarray(U, dtype=float).reshape(problem.flow_shape)
        return problem.parameters_array(np.asarray(W, dtype=float)), problem.flows_array(flows)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error
