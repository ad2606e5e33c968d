"""The command line: hand values and CVXPY for what it computes, and an answer for whatever goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from cli_project import BASE, DATA, KNN, invoke, rows, without
from gtvmin.datasets import load_sacramento
from gtvmin.solvers.driver import Record

ALL_FILES = {"parameters.csv", "certificate.json", "problem.npz", "summary.json", "network.png", "convergence.png"}


pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.usefixtures("no_figures")


def summary(path="gtvmin-result"):
    return json.loads((Path(path) / "summary.json").read_text())


# ------------------------------------------------------------------------------------------------ what is computed
def test_two_devices_by_hand(folder, figures):
    result = invoke(*BASE)
    assert result.exit_code == 0, result.output
    # objective 0.5^2 + 0.5^2 + 1 * 2
    assert summary()["objective"] == pytest.approx(2.5, rel=1e-6)
    assert summary()["certified"] is True
    assert [row["node"] for row in rows("gtvmin-result/parameters.csv")] == ["a", "b"]
    levels = [float(row["intercept"]) for row in rows("gtvmin-result/parameters.csv")]
    np.testing.assert_allclose(levels, [0.5, 2.5], atol=1e-3)
    assert {path.name for path in Path("gtvmin-result").iterdir()} == ALL_FILES
    for text in ("devices", "2 (2 data points", "relative gap", "certified", "files in gtvmin-result"):
        assert text in result.stdout


def test_rows_of_a_device_are_averaged(folder):
    Path("data.csv").write_text("site,y\na,-1\na,1\nb,3\nb,3\nb,3\n")
    assert invoke(*BASE).exit_code == 0
    # mean squared errors: w_a = 0.5 and w_b = 2.5 as before, the rows of a add their variance 1
    assert summary()["objective"] == pytest.approx(3.5, rel=1e-6)
    assert (summary()["rows"], summary()["devices"]) == (5, 2)


def test_weights_of_edges_count(folder):
    Path("edges.csv").write_text("from,to,weight\nb,a,0.5\n")
    assert invoke(*BASE).exit_code == 0
    # w_a = 0.25, w_b = 2.75: 0.125 + 0.5 * 2.5
    assert summary()["objective"] == pytest.approx(1.375, rel=1e-6)


@pytest.mark.parametrize(
    ("penalty", "objective"),
    # the squared norm: stationary at w_a = 1, w_b = 2
    [("l1", 2.5), ("l2", 2.5), ("linf", 2.5), ("squared", 3.0)],
)
def test_penalties(folder, penalty, objective):
    assert invoke(*BASE, "--penalty", penalty).exit_code == 0
    assert summary()["objective"] == pytest.approx(objective, rel=1e-6)


@pytest.mark.parametrize("method", ["cvxpy", "primal_dual", "adaptive_primal_dual"])
def test_methods(folder, method):
    assert invoke(*BASE, "--method", method).exit_code == 0
    assert summary()["objective"] == pytest.approx(2.5, rel=1e-6)
    assert method in summary()["method"]


def write_regression(rng):
    """Five sites with a few rows of two features of different units; edges with weights."""
    table = [(f"s{i % 5}", *rng.normal([3.0, 200.0], [1.0, 50.0])) for i in range(17)]
    table = [(site, a, b, 2.0 * a - 0.1 * b + (site > "s2") * 9 + rng.normal()) for site, a, b in table]
    pairs = [("s0", "s1", 1.0), ("s1", "s2", 0.5), ("s3", "s4", 2.0), ("s2", "s3", 0.1), ("s0", "s4", 0.3)]
    with Path("data.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("site", "a", "b", "y"), *table])
    with Path("edges.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([("from", "to", "weight"), *pairs])
    return table, pairs


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("ridge", [None, 0.3])
def test_regressions_agree_with_cvxpy(folder, standardise, intercept, ridge):
    table, pairs = write_regression(np.random.default_rng(7))
    options = ["--features", "a,b", "--standardise" if standardise else "--no-standardise"]
    options += ["--intercept" if intercept else "--no-intercept", *(["--ridge", ridge] if ridge else [])]
    result = invoke(*BASE, *options)
    assert result.exit_code == 0, result.output

    numbers = np.array([row[1:] for row in table])
    if standardise:
        numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    sites = [row[0] for row in table]
    names = sorted(set(sites))
    W = cp.Variable((5, 3 if intercept else 2))
    total = 0
    for i, name in enumerate(names):
        mine = np.array([site == name for site in sites])
        predicted = numbers[mine, :2] @ W[i, :2] + (W[i, 2] if intercept else 0)
        total += cp.sum_squares(predicted - numbers[mine, 2]) / mine.sum()
        total += (ridge or 0.0) * cp.sum_squares(W[i, :2])
    for u, v, weight in pairs:
        total += weight * cp.norm(W[names.index(u)] - W[names.index(v)], 2)
    optimum = cp.Problem(cp.Minimize(total)).solve(solver="CLARABEL")
    assert summary()["objective"] == pytest.approx(optimum, rel=3e-6)
    assert summary()["parameters"] == ["a", "b", "intercept"][: 3 if intercept else 2]


def test_standardised_parameters_are_written_in_original_units_too(folder):
    table, _ = write_regression(np.random.default_rng(3))
    assert invoke(*BASE, "--features", "a,b", "--standardise").exit_code == 0
    numbers = np.array([row[1:] for row in table])
    mean, scale = numbers.mean(axis=0), numbers.std(axis=0)
    standard = {row["node"]: row for row in rows("gtvmin-result/parameters.csv")}
    original = {row["node"]: row for row in rows("gtvmin-result/parameters_original_units.csv")}
    for site, a, b, _ in table:
        z, w = standard[site], original[site]
        by_z = (
            float(z["a"]) * (a - mean[0]) / scale[0] + float(z["b"]) * (b - mean[1]) / scale[1] + float(z["intercept"])
        )
        assert float(w["a"]) * a + float(w["b"]) * b + float(w["intercept"]) == pytest.approx(mean[2] + scale[2] * by_z)
        at_average = float(w["a"]) * mean[0] + float(w["b"]) * mean[1] + float(w["intercept"])
        assert float(w["y at average"]) == pytest.approx(at_average)
    scaling = summary()["scaling"]
    assert scaling["features"]["b"] == pytest.approx({"mean": mean[1], "scale": scale[1]})
    assert scaling["target"]["y"] == pytest.approx({"mean": mean[2], "scale": scale[2]})


def test_devices_without_data_learn_from_their_neighbours_and_are_named(folder):
    Path("edges.csv").write_text("from,to\nu,a\na,b\n")
    Path("data.csv").write_text(DATA + "alone,7,0\n")
    result = invoke(*BASE)
    assert result.exit_code == 0, result.output
    levels = {row["node"]: float(row["intercept"]) for row in rows("gtvmin-result/parameters.csv")}
    assert levels["u"] == pytest.approx(levels["a"], abs=1e-4)
    assert levels["alone"] == pytest.approx(7.0, abs=1e-3)
    assert "1 device of the edge list without data, such as 'u': unlabelled" in result.stdout
    assert "1 device without an edge, such as 'alone'" in result.stdout
    assert summary()["unlabelled"] == ["u"]


def test_parameters_that_no_data_pins_down_are_named(folder):
    Path("edges.csv").write_text("from,to\na,b\nu,v\n")
    result = invoke(*BASE)
    assert result.exit_code == 0, result.output
    assert "parameters of 2 devices, such as 'u', are not unique" in result.stdout
    assert summary()["not_unique"] == ["u", "v"]


def test_labels_are_text(folder):
    Path("data.csv").write_text('\ufeffsite;y\n01;0\n1;3\n" c, d ";3\n', encoding="utf-8")
    Path("edges.csv").write_text('from,to\n1,01\n1,"c, d"\n')
    assert invoke(*BASE).exit_code == 0
    assert [row["node"] for row in rows("gtvmin-result/parameters.csv")] == ["01", "1", "c, d"]
    assert gtv.load_problem("gtvmin-result/problem.npz").network.edges == (("01", "1"), ("1", "c, d"))


# Near the pole a degree of longitude is short: by degrees A-C and B-D are nearest, on the globe A-B and C-D
POLAR = "name,{0},{1},y\nA,80,0,1\nB,80,10,2\nC,82.5,0,3\nD,82.4,10,4\n"
ON_THE_GLOBE, BY_DEGREES = {("A", "B"), ("C", "D")}, {("A", "C"), ("B", "D")}


@pytest.mark.parametrize(
    ("names", "asked", "options", "edges", "said"),
    [
        (("lat", "lon"), "lat,lon", (), ON_THE_GLOBE, "haversine"),
        (("Latitude", "Longitude"), "Longitude,Latitude", (), ON_THE_GLOBE, "haversine"),
        (("p", "q"), "p,q", (), BY_DEGREES, "Euclidean"),
        (("lat", "lon"), "lat,lon", ("--metric", "euclidean"), BY_DEGREES, "Euclidean"),
        (("p", "q"), "p,q", ("--metric", "haversine"), ON_THE_GLOBE, "p taken as latitude, q as longitude"),
    ],
)
def test_nearest_neighbours(folder, names, asked, options, edges, said):
    Path("data.csv").write_text(POLAR.format(*names))
    result = invoke(*KNN, "--coordinates", asked, *options)
    assert result.exit_code == 0, result.output
    problem = gtv.load_problem("gtvmin-result/problem.npz")
    assert set(problem.network.edges) == edges
    assert said in result.stdout
    first = rows("gtvmin-result/parameters.csv")[1]
    assert (first[names[0]], first[names[1]]) == ("80.0", "10.0")


def test_weights_of_nearest_neighbours(folder):
    Path("data.csv").write_text("name,p,q,y\nA,0,0,1\nB,3,4,2\n")
    for rule, weight in (("unit", 1.0), ("inverse", 1 / 5.1), ("gaussian", np.exp(-0.5))):
        assert invoke(*KNN, "--coordinates", "p,q", "--edge-weights", rule).exit_code == 0
        assert gtv.load_problem("gtvmin-result/problem.npz").network.weights == pytest.approx([weight])


def test_without_node_each_row_is_a_device(folder):
    Path("data.csv").write_text("p,q,y\n0,0,1\n0,0,1\n9,9,2\n")
    result = invoke(
        "solve", "--data", "data.csv", "--target", "y", "--knn", "1", "--coordinates", "p,q", "--alpha", "1"
    )
    assert result.exit_code == 0, result.output
    assert [row["node"] for row in rows("gtvmin-result/parameters.csv")] == ["1", "2", "3"]


# ---------------------------------------------------------------------------------------------------------- example
def neighbours(points, k):
    """Edges and lengths in km of the union k-nearest-neighbour graph, by brute force."""
    latitude, longitude = np.radians(points).T
    haversine = np.sin((latitude[:, None] - latitude) / 2) ** 2
    haversine += np.cos(latitude)[:, None] * np.cos(latitude) * np.sin((longitude[:, None] - longitude) / 2) ** 2
    distance = 2 * 6371.0088 * np.arcsin(np.sqrt(haversine))
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1, kind="stable")[:, :k]
    pairs = {(min(i, j), max(i, j)) for i in range(len(points)) for j in nearest[i].tolist()}
    tail, head = np.array(sorted(pairs)).T
    return tail, head, distance[tail, head]


def test_the_sacramento_example(folder, figures):
    result = invoke("solve", "--example", "sacramento")
    assert result.exit_code == 0, result.output
    found = summary()
    assert found["certified"] is True
    assert found["relative_gap"] <= 1e-6
    assert found["seconds"] < 60
    assert {path.name for path in Path("gtvmin-result").iterdir()} == {*ALL_FILES, "parameters_original_units.csv"}

    houses = load_sacramento()
    z, price = ((v - v.mean()) / v.std() for v in (houses.sqft, houses.price))
    tail, head, km = neighbours(np.column_stack([houses.latitude, houses.longitude]), 5)
    assert (found["devices"], found["edges"]) == (932, len(tail))
    W = cp.Variable((932, 2))
    loss = cp.sum_squares(cp.multiply(z, W[:, 0]) + W[:, 1] - price) + 0.1 * cp.sum_squares(W[:, 0])
    coupling = (1 / (km + 0.1)) @ cp.norm(W[tail] - W[head], 2, axis=1)
    optimum = cp.Problem(cp.Minimize(loss + 1.5 * coupling)).solve(solver="CLARABEL")
    assert found["objective"] == pytest.approx(optimum, rel=2e-6)

    table = rows("gtvmin-result/parameters_original_units.csv")
    slopes = np.array([float(row["sqft"]) for row in table])
    assert slopes.min() > 0  # a larger house is nowhere cheaper
    np.testing.assert_allclose(slopes, W.value[:, 0] * houses.price.std() / houses.sqft.std(), atol=2.0)
    assert "ELK_GROVE" in result.stdout
    checked = invoke("certify", "gtvmin-result")
    assert checked.exit_code == 0, checked.output


def test_options_of_an_example_can_be_changed(folder):
    result = invoke("solve", "--example", "sacramento", "--features", "beds", "--loss", "squared_error", "--alpha", "9")
    assert result.exit_code == 0, result.output
    assert summary()["parameters"] == ["beds", "intercept"]
    assert (summary()["settings"]["alpha"], summary()["settings"]["ridge"]) == (9.0, None)


# ------------------------------------------------------------------------------------------------------------ files
def test_other_files_of_the_folder_are_left_alone(folder, figures):
    out = folder / "gtvmin-result"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    for name in ("parameters.csv", "parameters_original_units.csv"):
        (out / name).write_text("old")
    assert invoke(*BASE).exit_code == 0
    # what belongs to the earlier result only is gone
    assert {path.name for path in out.iterdir()} == ALL_FILES | {"notes.txt"}
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_files_have_the_permissions_of_any_new_file(folder):
    assert invoke(*BASE).exit_code == 0
    expected = stat.S_IMODE(Path("data.csv").stat().st_mode)
    assert {stat.S_IMODE(path.stat().st_mode) for path in Path("gtvmin-result").iterdir()} == {expected}


def test_a_coordinate_may_be_a_feature(folder):
    Path("data.csv").write_text(POLAR.format("lat", "lon"))
    assert invoke(*KNN, "--coordinates", "lat,lon", "--features", "lat", "--standardise").exit_code == 0
    assert list(rows("gtvmin-result/parameters.csv")[0]) == [
        "node",
        "lat (coordinate)",
        "lon",
        "lat",
        "intercept",
        "cluster",
    ]
    assert invoke("certify", "gtvmin-result").exit_code == 0


def test_without_matplotlib_there_are_no_figures_but_a_result(folder, figures, monkeypatch):
    assert invoke(*BASE).exit_code == 0
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = invoke(*BASE)
    assert result.exit_code == 0, result.output
    assert 'pip install "gtvmin[plot]"' in result.stdout
    assert {path.name for path in Path("gtvmin-result").iterdir()} == ALL_FILES - {"network.png", "convergence.png"}


def test_colours_can_be_chosen(folder, figures):
    assert invoke(*BASE, "--features", "x", "--colour-by", "x").exit_code == 0
    by_slope = Path("gtvmin-result/network.png").read_bytes()
    assert invoke(*BASE, "--features", "x", "--colour-by", "intercept").exit_code == 0
    assert by_slope != Path("gtvmin-result/network.png").read_bytes()


def test_names_with_dollars_and_foreign_letters_are_drawn(folder, figures):
    Path("data.csv").write_text("site,$y$,x^2 in $_{$\n$a$,1,2\n東京,2,5\n$^{,3,4\n", encoding="utf-8")
    Path("edges.csv").write_text("from,to\n$a$,東京\n東京,$^{\n", encoding="utf-8")
    target = ("--target", "$y$", "--features", "x^2 in $_{$")
    result = invoke(*without("--target"), *target, "--standardise")
    assert result.exit_code == 0, result.output


# ---------------------------------------------------------------------------------------------------- not certified
def test_exit_code_1_when_not_certified(folder, figures):
    result = invoke(*BASE, "--max-iter", "1", "--method", "primal_dual")
    assert result.exit_code == 1
    assert "NOT certified" in result.stdout
    assert "iteration limit" in result.stdout
    assert summary()["certified"] is False
    assert {path.name for path in Path("gtvmin-result").iterdir()} == ALL_FILES
    assert invoke("certify", "gtvmin-result").exit_code == 1


def test_quiet_prints_nothing(folder):
    result = invoke(*BASE, "--quiet")
    assert (result.exit_code, result.output) == (0, "")


# --------------------------------------------------------------------------------------------------------- progress
def bar_text(monkeypatch, shown=True):
    from rich.console import Console

    from gtvmin.cli import output

    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(output, "console", lambda *, stderr=False: terminal)
    with output.gap_bar(1e-6, shown) as report:
        if report is not None:
            for iteration, gap in ((1, 1.0), (40, 1e-3)):
                report(Record(iteration, 0.1, 1.0, 0.0, gap, gap))
    return screen.getvalue()


def test_the_bar_shows_the_gap_on_a_terminal(monkeypatch):
    assert "certified gap 1.0e-03, iteration 40" in bar_text(monkeypatch)


def test_no_bar_when_not_wanted(monkeypatch):
    assert bar_text(monkeypatch, shown=False) == ""


def test_no_bar_where_there_is_no_terminal(folder):
    assert invoke(*BASE).stderr == ""


# ----------------------------------------------------------------------------------------------------- other things
def test_list_names_what_there_is():
    result = invoke("list")
    assert result.exit_code == 0, result.output
    for name in (
        "auto",
        "cvxpy",
        "adaptive_primal_dual",
        "linear_system",
        "fedavg",
        "Ridge",
        "SquaredNorm",
        "sacramento",
    ):
        assert name in result.stdout


def test_version_and_help():
    assert invoke("--version").stdout == f"gtvmin {gtv.__version__}\n"
    assert "certify" in invoke("--help").stdout
    for command in ("solve", "certify", "list"):
        assert invoke(command, "-h").exit_code == 0


def test_help_imports_nothing_slow():
    script = "import sys, gtvmin.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert {"numpy", "scipy", "networkx", "rich", "matplotlib", "cvxpy", "numba"} & set(done.stdout.split()) == set()


def test_python_m_gtvmin():
    done = subprocess.run([sys.executable, "-m", "gtvmin", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"gtvmin {gtv.__version__}\n"
