"""``gtvmin solve`` with input that it cannot use: exit code 2, and what is wrong where."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_project import BASE, KNN, check_refusal, invoke, without

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.usefixtures("no_figures")

USAGE = [
    (without("--alpha"), ["missing --alpha NUMBER"]),
    (without("--target"), ["missing --target COLUMN"]),
    (without("--data"), ["missing --data FILE", "--example sacramento"]),
    (without("--edges"), ["exactly one of --edges FILE and --knn K"]),
    (without("--node"), ["--edges needs --node COLUMN"]),
    ((*BASE, "--knn", "1"), ["exactly one of --edges FILE and --knn K"]),
    ((*without("--edges"), "--knn", "1"), ["--knn needs --coordinates"]),
    ((*without("--edges"), "--knn", "2", "--coordinates", "x,y"), ["'--knn'", "needs more than 2 devices"]),
    ((*BASE, "--metric", "euclidean"), ["--metric is for --knn"]),
    ((*BASE, "--edge-weights", "unit"), ["--edge-weights is for --knn"]),
    ((*BASE, "--alpha", "nan"), ["'--alpha'", "not a finite number"]),
    ((*BASE, "--alpha", "-1"), ["'--alpha'", "x>=0"]),
    ((*BASE, "--gap", "0"), ["'--gap'", "x>0"]),
    ((*BASE, "--loss", "ridge"), ["--loss ridge needs --ridge LAMBDA"]),
    ((*BASE, "--loss", "squared_error", "--ridge", "1"), ["--ridge is for --loss ridge"]),
    ((*BASE, "--no-intercept"), ["--features COLUMNS, or an intercept"]),
    ((*BASE, "--features", "x,,x"), ["'--features'", "not a list of names"]),
    ((*BASE, "--features", "x,x"), ["'--features'", "'x' is listed twice"]),
    ((*BASE, "--features", "y"), ["'--features'", "'y' is the target as well"]),
    ((*BASE, "--features", "cluster"), ["'--features'", "rename the column"]),
    ((*BASE, "--features", "z"), ["'--features'", "no column 'z'", "site, y, x"]),
    ((*BASE, "--features", "site"), ["'--features'", "data.csv, line 2, column 'site'", "'a' is not a finite number"]),
    ((*without("--target"), "--target", "z"), ["'--target'", "no column 'z'"]),
    ((*without("--node"), "--node", "z"), ["'--node'", "no column 'z'"]),
    ((*BASE, "--describe", "z"), ["'--describe'", "no column 'z'"]),
    ((*BASE, "--colour-by", "z"), ["'--colour-by'", "'z' is not one of intercept"]),
    ((*BASE, "--method", "magic"), ["'--method'", "'magic' is unknown", "adaptive_primal_dual"]),
    ((*BASE, "--method", "cvxpy", "--max-iter", "3"), ["--max-iter does not apply to --method cvxpy"]),
    ((*BASE, "--out", "data.csv"), ["'--out'", "is a file"]),
    ((*BASE, "--out", "data.csv/below"), ["'--out'", "cannot be made"]),
    ((*without("--data"), "--data", "none.csv"), ["'--data'", "does not exist"]),
    ((*BASE, "--example", "sacramento"), ["leave out --data or --example"]),
    (("solve", "--example", "sacramento", "--knn", "3"), ["leave out --knn or --example"]),
    (("certify", "data.csv"), ["give the parameters after the problem"]),
    (("certify", "data.csv", "edges.csv"), ["data.csv is not a saved problem"]),
    (("certify", "."), ["is not a result of gtvmin solve: it has no problem.npz"]),
    (("certify", ".", "edges.csv"), ["give either a folder, or"]),
]


@pytest.mark.parametrize(("arguments", "messages"), USAGE, ids=lambda value: " ".join(value[-2:]))
def test_unusable_options_are_named(folder, arguments, messages):
    check_refusal(invoke(*arguments), messages)
    assert not Path("gtvmin-result").exists()


def test_a_method_that_does_not_fit_is_named_with_those_that_do(folder):
    check_refusal(invoke(*BASE, "--method", "linear_system"), ["'--method'", "needs", "adaptive_primal_dual"])


DATA_FILES = [
    ("site,y\na,1\nb,\n", ["'--target'", "data.csv, line 3, column 'y': the cell is empty"]),
    ("site,y\na,1\nb,nan\n", ["line 3, column 'y': 'nan' is not a finite number"]),
    ("site,y\na,-inf\nb,1\n", ["line 2, column 'y': '-inf' is not a finite number"]),
    ('site,y\na,"1,5"\nb,1\n', ["line 2, column 'y': '1,5' is not a finite number"]),
    ("site,y\n,1\nb,2\n", ["'--node'", "line 2, column 'site': the cell is empty"]),
    ("site,y\na,1,7\nb,2\n", ["'--data'", "line 2: it has 3 cells, the header has 2"]),
    ('site,y\n"a\nb",1\nb\n', ["line 4: it has 1 cells"]),
    ('site,y\n"a,1\nb,2\n', ["'--data'", "line 3: a quoted cell does not end"]),
    ("site,y\n", ["column names and no rows"]),
    ("", ["is empty"]),
    ("site,,y\na,1,1\n", ["line 1: column 2 has no name"]),
    ("y,site,y\n1,a,1\n", ["line 1: two columns are named 'y'"]),
    ("site,y\nA,1\nB,2\n", ["'--edges'", "none of the labels of edges.csv, such as 'a'", "which has 'A'"]),
    (b"site,y\na,\xff\n", ["is not UTF-8 text (byte 9)"]),
]


@pytest.mark.parametrize(("content", "messages"), DATA_FILES)
def test_unusable_data_is_located(folder, content, messages):
    Path("data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    check_refusal(invoke(*BASE), messages)


EDGE_FILES = [
    ("from,to\na,a\n", ["edges.csv, line 2: edge ('a', 'a') starts and ends at the same node"]),
    ("from,to\na,b\n\nb,a\n", ["line 4: edge ('b', 'a') is in line 2 already"]),
    ("from,to,weight\na,b,0\n", ["line 2, column 'weight': the weight 0 is not > 0"]),
    ("from,to,w\na,b,-1\n", ["line 2, column 'w': the weight -1 is not > 0"]),
    ("from,to,w\na,b,\n", ["line 2, column 'w': the cell is empty"]),
    ("from,to\na,\n", ["line 2, column 'to': the cell is empty"]),
    ("0,1,2\n1,2,3\n", ["line 1: '0,1,2' may be an edge or column names", "the line 'source,target,weight' above"]),
    ("a,b\nb,c\n", ["line 1: 'a,b' may be an edge or column names", "the line 'source,target' above", "in its place"]),
    ("0,1\n1,2\n0,2\n", ["line 1: '0,1' may be an edge or column names"]),
    ("a,b,0\nb,c,1\n", ["line 1, column 'weight': the weight 0 is not > 0"]),
    ("a,b,1\nb,a,1\n", ["line 2: edge ('b', 'a') is in line 1 already"]),
    ("from\na\n", ["has 1 columns, expected two"]),
    ("from,weight\na,1\n", ["has one column besides the weight"]),
    ("from,to,weight,colour\na,b,1,red\n", ["has 4 columns"]),
]


@pytest.mark.parametrize(("content", "messages"), EDGE_FILES)
def test_unusable_edges_are_located(folder, content, messages):
    Path("edges.csv").write_text(content)
    check_refusal(invoke(*BASE), ["'--edges'", *messages])


def test_constant_columns_cannot_be_standardised(folder):
    Path("data.csv").write_text("site,y,x\na,1,4\nb,2,4\n")
    check_refusal(invoke(*BASE, "--features", "x", "--standardise"), ["'--features'", "column 'x' is constant"])
    Path("data.csv").write_text("site,y,x\na,1,4\nb,1,5\n")
    check_refusal(invoke(*BASE, "--features", "x", "--standardise"), ["'--target'", "column 'y' is constant"])


def test_a_device_has_one_position(folder):
    Path("data.csv").write_text("name,p,q,y\nA,0,0,1\nB,1,1,1\nA,0,0.5,1\n")
    messages = ["'--coordinates'", "data.csv, lines 2 and 4: node 'A' has two positions"]
    check_refusal(invoke(*KNN, "--coordinates", "p,q"), messages)


def test_coordinates_outside_the_globe_are_refused(folder):
    Path("data.csv").write_text("name,lat,lon,y\nA,0,0,1\nB,91,1,1\n")
    check_refusal(invoke(*KNN, "--coordinates", "lat,lon"), ["'--coordinates'", "'B' has latitude 91"])
