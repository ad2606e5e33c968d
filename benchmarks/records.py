"""What is to be run and what was measured, as rows of a CSV file."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

from gtvmin.storage import write_atomically

__all__ = ["Job", "Record", "merge", "read_records", "write_csv", "write_records"]

RUNS = "benchmarks-runs.csv"


@dataclass(frozen=True)
class Job:
    """One solver on one instance.

    ``limit`` bounds the seconds of one run, ``memory`` the address space in GiB; ``clock`` tells all other times;
    ``small`` takes the tiny version.
    """

    instance: str
    solver: str
    gaps: tuple[float, ...] = (1e-4, 1e-6, 1e-8)
    repeats: int = 3
    limit: float = 60.0
    seed: int = 0
    memory: float | None = None
    clock: Literal["wall", "cpu"] = "wall"
    small: bool = False

    @property
    def label(self) -> str:
        """Name of the instance in tables, with the seed unless it is 0."""
        return f"{self.instance}{'-small' if self.small else ''}{f'-seed{self.seed}' if self.seed else ''}"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        values = json.loads(text)
        return cls(**{**values, "gaps": tuple(values["gaps"])})


@dataclass(frozen=True)
class Record:
    """One row of the stored measurements.

    Attributes
    ----------
    instance, solver, kind : str
        Who on what; kind as for a Contender.
    row : {"end", "answer", "trace"}
        How the process ended; an answer that was judged; what a solver's own monitor saw on the way.
    repeat : int
        Number of the run.
    seconds, setup : float
        Time in the solver and before it; for ``"end"``, ``setup`` is the time of the first use (compilation included).
    gap, objective, bound : float
        Relative gap, objective and certified lower bound.
    status, date, machine : str
        For ``"end"``.
    """

    instance: str
    solver: str
    kind: str
    row: Literal["end", "answer", "trace"]
    repeat: int = 0
    seconds: float = math.nan
    setup: float = math.nan
    gap: float = math.nan
    objective: float = math.nan
    bound: float = math.nan
    status: str = ""
    date: str = ""
    machine: str = ""


def read_records(folder: Path) -> list[Record]:
    """Stored measurements; none if there is no file."""
    path = folder / RUNS
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as stream:
        return [_record(row) for row in csv.DictReader(stream)]


def _record(row: dict[str, str]) -> Record:
    readers: dict[str, Any] = {"int": int, "float": lambda text: float(text) if text else math.nan}
    values = {f.name: readers.get(str(f.type), str)(row[f.name]) for f in fields(Record)}
    return Record(**values)


def merge(stored: Iterable[Record], new: Iterable[Record]) -> list[Record]:
    """New measurements replace those of the same instance and solver."""
    new = list(new)
    replaced = {(record.instance, record.solver) for record in new}
    kept = [record for record in stored if (record.instance, record.solver) not in replaced]
    return sorted([*kept, *new], key=lambda record: (record.instance, record.solver))  # stable: runs keep their order


def write_records(folder: Path, records: Iterable[Record]) -> Path:
    return write_csv(folder / RUNS, Record, records)


def write_csv(path: Path, kind: type[Any], rows: Iterable[Any]) -> Path:
    """Write instances of a dataclass as rows; NaN is an empty cell."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [f.name for f in fields(kind)], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _text(name, value) for name, value in asdict(row).items()})
    write_atomically(path, buffer.getvalue().encode())
    return path


def _text(name: str, value: Any) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        # differences of objectives and bounds need all digits, times do not
        return repr(value) if name in ("objective", "bound") else f"{value:.6g}"
    return str(value)
