"""Edge lists in CSV files, with and without a line of column names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gtvmin.tables import TableError, read_edge_table

TRIANGLE = (("a", "b"), ("b", "c"), ("c", "a"))


@pytest.mark.parametrize(
    ("text", "pairs", "weights"),
    [
        ("from,to,w\na,b,1\nb,c,2.5\n", TRIANGLE[:2], [1.0, 2.5]),
        ("a,b,1\nb,c,2.5\n", TRIANGLE[:2], [1.0, 2.5]),
        ("\ufeffa;b;1\nb;c;2.5\n", TRIANGLE[:2], [1.0, 2.5]),
        ("a,b,1\n", TRIANGLE[:1], [1.0]),
        ("1,2,1\n2,3,0.5\n", (("1", "2"), ("2", "3")), [1.0, 0.5]),  # no column may be named twice, an edge may be
        ("weight,from,to\n1,a,b\n", TRIANGLE[:1], [1.0]),
        ("u,v,w\nu,v,1\n", (("u", "v"),), [1.0]),  # a weight would be a number
        ("from,to\na,b\nb,c\n", TRIANGLE[:2], None),
        ("a,b\nb,c\nc,a\n", TRIANGLE, None),
        ("1,2\n2,3\n3,1\n", (("1", "2"), ("2", "3"), ("3", "1")), None),
    ],
)
def test_the_line_of_names_may_be_missing_where_it_cannot_be_one(
    tmp_path: Path, text: str, pairs: tuple[tuple[str, str], ...], weights: list[float] | None
) -> None:
    file = tmp_path / "edges.csv"
    file.write_text(text, encoding="utf-8")
    table = read_edge_table(file)
    assert table.pairs == pairs
    assert (None if table.weights is None else table.weights.tolist()) == weights


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n0,1,1\n1,2,1\n",  # columns without names, as pandas writes them, or an edge
        "0,1\n0,1\n1,2\n",
        "a,b\nb,c\n",  # the first edge would be lost
        "2020,2021\na,b\n",
    ],
)
def test_where_it_may_be_one_the_message_says_what_to_write(tmp_path: Path, text: str) -> None:
    file = tmp_path / "edges.csv"
    file.write_text(text)
    names = "source,target,weight" if text.count(",", 0, text.index("\n")) == 2 else "source,target"
    with pytest.raises(TableError, match=rf"line 1: .* may be an edge or column names: write the line '{names}' above"):
        read_edge_table(file)
