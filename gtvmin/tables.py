"""CSV files as columns of text and numbers, with errors that say where in the file the trouble is."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["EdgeTable", "Table", "TableError", "read_edge_table", "read_table"]

SEPARATORS = ",;\t"


class TableError(ValueError):
    """A CSV file cannot be used; the message gives file, line and column."""


@dataclass(frozen=True, eq=False)
class Table:
    """Cells of a CSV file, spaces around them removed.

    Attributes
    ----------
    path : Path
        The file.
    header : tuple of str
        Column names, all different.
    rows : tuple of tuple of str
        Cells; every row is as long as the header.
    lines : tuple of int
        Line of the file at which each row ends, the first line being 1.
    """

    path: Path
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    lines: tuple[int, ...]

    def text(self, column: str) -> list[str]:
        """Cells of a column.

        Raises
        ------
        TableError
            If there is no such column, or a cell is empty.
        """
        place = self._place(column)
        for row, line in zip(self.rows, self.lines, strict=True):
            if not row[place]:
                raise TableError(
                    f"{self.path}, line {line}, column {column!r}: the cell is empty: fill it or drop the row"
                )
        return [row[place] for row in self.rows]

    def numbers(self, column: str) -> NDArray[np.float64]:
        """Cells of a column as numbers.

        Raises
        ------
        TableError
            If there is no such column, or a cell is empty, no number, NaN or infinite.
        """
        place = self._place(column)
        values = np.empty(len(self.rows))
        for k, (row, line) in enumerate(zip(self.rows, self.lines, strict=True)):
            values[k] = self._number(row[place], line, column)
        return values

    def _place(self, column: str) -> int:
        if column not in self.header:
            raise TableError(f"{self.path} has no column {column!r}; its columns are {', '.join(self.header)}")
        return self.header.index(column)

    def _number(self, cell: str, line: int, column: str) -> float:
        try:
            value = float(cell)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            shown = f"{cell!r} is not a finite number" if cell else "the cell is empty"
            raise TableError(f"{self.path}, line {line}, column {column!r}: {shown}: correct it or drop the row")
        return value


def read_table(path: str | Path) -> Table:
    r"""Read a CSV file with a header line, UTF-8, separated by commas (or else by semicolons or tabs).

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Table
        Its cells; lines without any text are left out.

    Raises
    ------
    TableError
        If the file is not UTF-8 text, is empty, or has a row that is longer or shorter than the header, or a column
        name that is missing or occurs twice.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from gtvmin.tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "prices.csv"
    ...     _ = path.write_text("town,price\nOulu,2\nTurku,3\n")
    ...     table = read_table(path)
    >>> table.text("town"), table.numbers("price").tolist()
    (['Oulu', 'Turku'], [2.0, 3.0])
    """
    file, rows, lines = _read_rows(path)
    return _table(file, rows[0], rows[1:], lines[1:])


def _read_rows(path: str | Path) -> tuple[Path, list[tuple[str, ...]], list[int]]:
    """The lines of a file that have text, at least one, and where they end."""
    file = Path(path)
    try:
        # utf-8-sig: spreadsheets put a byte order mark before the first column's name
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise TableError(f"{file} is not UTF-8 text (byte {error.start}): save it as CSV in UTF-8") from None
    first = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text), delimiter=max(SEPARATORS, key=first.count), strict=True)
    rows: list[tuple[str, ...]] = []
    lines: list[int] = []
    try:
        for cells in reader:
            row = tuple(cell.strip() for cell in cells)
            if any(row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise TableError(f"{file}, line {reader.line_num}: a quoted cell does not end as it should ({error})") from None
    if not rows:
        raise TableError(f"{file} is empty: it needs a line of column names")
    return file, rows, lines


def _table(file: Path, header: tuple[str, ...], rows: Sequence[tuple[str, ...]], lines: Sequence[int]) -> Table:
    _check_header(file, header)
    for row, line in zip(rows, lines, strict=True):
        if len(row) != len(header):
            raise TableError(f"{file}, line {line}: it has {len(row)} cells, the header has {len(header)}")
    if not rows:
        raise TableError(f"{file} has column names and no rows")
    return Table(file, header, tuple(rows), tuple(lines))


def _check_header(file: Path, header: Sequence[str]) -> None:
    for k, name in enumerate(header):
        if not name:
            raise TableError(f"{file}, line 1: column {k + 1} has no name")
        if name in header[:k]:
            raise TableError(f"{file}, line 1: two columns are named {name!r}: rename one")


@dataclass(frozen=True, eq=False)
class EdgeTable:
    """Edges as pairs of node labels in text, and their weights, or None where the file has none."""

    pairs: tuple[tuple[str, str], ...]
    weights: NDArray[np.float64] | None


EDGE_COLUMNS = ("source", "target", "weight")


def read_edge_table(path: str | Path) -> EdgeTable:
    """Read a list of edges: two columns of node labels and at most one of weights.

    Parameters
    ----------
    path : str or Path
        CSV file.  The weights are in the column named ``weight``, or else in the third.  The line of column names may
        be missing where the first line can be nothing but an edge: its third cell is a number > 0, or both of its two
        are labels of later lines, and they are not the 0, 1, 2 that pandas calls columns without names.

    Raises
    ------
    TableError
        As for :func:`read_table`, if there are more or fewer columns, an edge starts and ends at the same node or is
        listed twice, a weight is not a number > 0, or the first line may be an edge or column names.
    """
    file, rows, lines = _read_rows(path)
    if _is_edge(file, rows):
        table = _table(file, EDGE_COLUMNS[: len(rows[0])], rows, lines)
    else:
        table = _table(file, rows[0], rows[1:], lines[1:])
    header = table.header
    if len(header) not in (2, 3):
        raise TableError(
            f"{table.path} has {len(header)} columns, expected two of node labels and at most one of weights"
        )
    weight = header.index("weight") if "weight" in header else 2
    ends = [k for k in range(len(header)) if k != weight]
    if len(ends) != 2:
        raise TableError(f"{table.path} has one column besides the weight, expected two of node labels")
    source, target = (table.text(header[k]) for k in ends)
    pairs = tuple(zip(source, target, strict=True))
    _check_pairs(table, pairs)
    if len(header) == 2:
        return EdgeTable(pairs, None)
    weights = table.numbers(header[weight])
    for value, line in zip(weights, table.lines, strict=True):
        if value <= 0:
            raise TableError(
                f"{table.path}, line {line}, column {header[weight]!r}: the weight {value:g} is not > 0: leave out "
                "an edge that couples nothing"
            )
    return EdgeTable(pairs, weights)


def _is_edge(file: Path, rows: Sequence[tuple[str, ...]]) -> bool:
    """Whether the first line is an edge; a TableError if it may be one or not."""
    first = rows[0]
    if len(first) not in (2, 3) or "weight" in first or (len(first) == 3 and not _is_number(first[2])):
        return False
    labels = {cell for row in rows[1:] for cell in row[:2]}
    known = [cell in labels for cell in first[:2]]
    unnamed = first == ("0", "1", "2")[: len(first)]
    if not unnamed and (len(first) == 3 or all(known)):
        return True
    if any(known) or any(map(_is_number, first)):
        named = ",".join(EDGE_COLUMNS[: len(first)])
        raise TableError(
            f"{file}, line 1: {','.join(first)!r} may be an edge or column names: write the line {named!r} above if it "
            "is an edge, or in its place if it is not"
        )
    return False


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, as a weight would be, and not the name of a column."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _check_pairs(table: Table, pairs: Sequence[tuple[str, str]]) -> None:
    seen: dict[frozenset[str], int] = {}
    for (u, v), line in zip(pairs, table.lines, strict=True):
        if u == v:
            raise TableError(
                f"{table.path}, line {line}: edge ({u!r}, {v!r}) starts and ends at the same node: drop it"
            )
        first = seen.setdefault(frozenset((u, v)), line)
        if first != line:
            raise TableError(
                f"{table.path}, line {line}: edge ({u!r}, {v!r}) is in line {first} already: list it once, with "
                "the sum of the weights"
            )
