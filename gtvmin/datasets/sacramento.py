"""House sales in the Sacramento area, May 2008. Attribution and licence: SACRAMENTO.md beside this file."""

from __future__ import annotations

import csv
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gtvmin.validation import frozen

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Sacramento", "load_sacramento", "sacramento_csv"]

_CSV = files(__package__) / "sacramento.csv"
_TEXT = frozenset({"city", "zip", "type"})


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Sacramento:
    """The house sales, a read-only array of shape ``(n_rows,)`` per column; made by `load_sacramento`.

    Attributes
    ----------
    city : ndarray of str
        City in capitals with underscores, such as ``"RANCHO_CORDOVA"``; 37 of them.
    zip : ndarray of str
        ZIP code with a leading ``z``, such as ``"z95838"``; 68 of them.
    beds, baths : ndarray of float64
        Number of bedrooms and of bathrooms (half bathrooms count 0.5).
    sqft : ndarray of float64
        Living area in square feet.
    type : ndarray of str
        ``"Residential"``, ``"Condo"`` or ``"Multi_Family"``.
    price : ndarray of float64
        Sale price in US dollars.
    latitude, longitude : ndarray of float64
        Position in degrees.
    """

    city: NDArray[np.str_]
    zip: NDArray[np.str_]
    beds: NDArray[np.float64]
    baths: NDArray[np.float64]
    sqft: NDArray[np.float64]
    type: NDArray[np.str_]
    price: NDArray[np.float64]
    latitude: NDArray[np.float64]
    longitude: NDArray[np.float64]

    @property
    def n_rows(self) -> int:
        """Number of sales."""
        return len(self.price)

    def to_frame(self) -> pd.DataFrame:
        """Copy the table into a `pandas.DataFrame`, one column per attribute.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Sacramento.to_frame() needs pandas; install it with: pip install pandas") from error
        return pd.DataFrame({field.name: getattr(self, field.name) for field in fields(self)})

    def __repr__(self) -> str:
        columns = ", ".join(field.name for field in fields(self))
        return f"Sacramento({self.n_rows} rows: {columns})"


def load_sacramento() -> Sacramento:
    """Load 932 house sales of the Sacramento area, reported over five days in May 2008.

    Nearby houses sell at similar prices per square foot, which makes these sales a common example of the
    network Lasso [2]_: one node per house, edges to the nearest houses, a price regression at each node.

    The table is the data frame ``Sacramento`` of the R package modeldata [1]_ (MIT licence). It drops 53 of
    the 985 original rows and fills in missing and wrong entries, so none is missing. Two rows occur twice,
    and the 932 houses have 922 distinct positions: distances of zero occur.

    Returns
    -------
    Sacramento
        The columns city, zip, beds, baths, sqft, type, price, latitude and longitude.

    References
    ----------
    .. [1] M. Kuhn, modeldata: Data Sets Useful for Modeling Examples, R package,
       https://modeldata.tidymodels.org/reference/Sacramento.html
    .. [2] D. Hallac, J. Leskovec, S. Boyd, Network Lasso: Clustering and Optimization in Large Graphs,
       KDD 2015, https://doi.org/10.1145/2783258.2783313

    Examples
    --------
    >>> from gtvmin.datasets import load_sacramento
    >>> houses = load_sacramento()
    >>> houses
    Sacramento(932 rows: city, zip, beds, baths, sqft, type, price, latitude, longitude)
    >>> float(houses.price.max())
    884790.0
    """
    with _CSV.open(encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    columns: dict[str, NDArray[Any]] = {}
    for name, values in zip(header, zip(*rows, strict=True), strict=True):
        columns[name] = frozen(np.array(values, dtype=np.str_ if name in _TEXT else np.float64))
    return Sacramento(**columns)


def sacramento_csv() -> AbstractContextManager[Path]:
    """Give the path of the table's CSV file, for the command line or another program.

    Returns
    -------
    context manager of Path
        The path is valid inside the ``with`` block (a zipped installation unpacks the file for that time).

    Examples
    --------
    >>> from gtvmin.datasets import sacramento_csv
    >>> with sacramento_csv() as path, path.open(encoding="utf-8") as stream:
    ...     print(stream.readline().strip())
    city,zip,beds,baths,sqft,type,price,latitude,longitude
    """
    return as_file(_CSV)
