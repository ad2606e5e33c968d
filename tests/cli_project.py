"""A folder with tables for ``gtvmin solve``, and what it wrote."""

from __future__ import annotations

import csv
from pathlib import Path

from click.testing import CliRunner

from gtvmin.cli import main

# Levels 0 and 3 of a and b, coupled by alpha |w_b - w_a|: w_a = alpha/2, w_b = 3 - alpha/2 for the loss (y - w)^2
DATA = "site,y,x\na,0,1\nb,3,2\n"
EDGES = "from,to\na,b\n"


def invoke(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


BASE = ("solve", "--data", "data.csv", "--node", "site", "--target", "y", "--edges", "edges.csv", "--alpha", "1")


def rows(path):
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


KNN = ("solve", "--data", "data.csv", "--node", "name", "--target", "y", "--knn", "1", "--alpha", "1")


def without(option):
    """The base command without an option and its value."""
    place = BASE.index(option)
    return BASE[:place] + BASE[place + 2 :]


def check_refusal(result, messages):
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    text = " ".join(result.stderr.split())
    for message in messages:
        assert message in text
    assert "Traceback" not in text
