"""``gtvmin certify``: saved results, edited, damaged, or of other problems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import gtvmin as gtv
from cli_project import BASE, check_refusal, invoke, rows
from gtvmin.penalties import HuberPenalty

pytest_plugins = ["cli_fixtures"]
pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def fused(folder):
    """Levels 0 and 1 with alpha = 2: both devices at 1/2, objective 1/2."""
    Path("data.csv").write_text("site,y\na,0\nb,1\n")
    assert invoke(*BASE, "--alpha", "2", "--gap", "1e-9").exit_code == 0
    return folder / "gtvmin-result"


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_a_result_is_certified_again(fused):
    result = invoke("certify", fused)
    assert result.exit_code == 0, result.output
    assert "objective         0.5" in result.stdout
    assert "certified: the relative gap" in result.stdout
    assert invoke("certify", fused, "--gap", "1e-8").exit_code == 0


def test_a_rigorous_bound_can_be_asked_for(fused):
    result = invoke("certify", fused, "--rigorous")
    assert result.exit_code == 0, result.output
    assert "Certificate (theorem)" in result.stdout
    assert "rounding 0.0e+00" in result.stdout
    np.save("w.npy", [[0.5], [0.6]])
    result = invoke("certify", fused / "problem.npz", "w.npy", "--rigorous")
    assert result.exit_code == 1
    assert "gap               1.100e-01" in result.stdout


def test_a_rigorous_bound_that_cannot_be_had_says_why(folder):
    net = gtv.FLNetwork.from_edges([("a", "b")])
    problem = gtv.GTVMin(net, [gtv.SquaredDistance([1.0])] * 2, penalty=HuberPenalty(1.0), alpha=1.0)
    problem.save("problem.npz")
    np.save("w.npy", [[1.0], [1.0]])
    assert invoke("certify", "problem.npz", "w.npy").exit_code == 0
    check_refusal(invoke("certify", "problem.npz", "w.npy", "--rigorous"), ["'--rigorous'", "has no exact evaluation"])


def test_an_edited_table_is_refused_with_a_gap_that_shows_it(fused):
    a, b = (float(row["intercept"]) for row in rows(fused / "parameters.csv"))
    assert a == pytest.approx(0.5, abs=1e-6)
    change(fused / "parameters.csv", f"b,{b!r},", f"b,{b + 1e-3!r},")
    result = invoke("certify", fused)
    assert result.exit_code == 1
    # 0.25 + 0.499^2 + 2 * 0.001 - 0.5 = 0.001001
    assert "gap               1.001e-03" in result.stdout
    assert "NOT certified: the relative gap 1.998e-03 is larger than 1e-06" in result.stdout
    assert "parameters.csv differs from certificate.json, most at node 'b', parameter 1" in result.stdout
    assert invoke("certify", fused, "--gap", "0.01").exit_code == 0


def test_rows_may_be_in_any_order(fused):
    lines = (fused / "parameters.csv").read_text().splitlines()
    (fused / "parameters.csv").write_text("\n".join([lines[0], lines[2], lines[1]]))
    assert invoke("certify", fused).exit_code == 0


def test_parameters_are_stored_with_all_digits(fused):
    stored = json.loads((fused / "certificate.json").read_text())["W"]
    assert [[float(row["intercept"])] for row in rows(fused / "parameters.csv")] == stored


@pytest.mark.parametrize("name", ["parameters.csv", "certificate.json", "weights.npy", "mine.csv"])
def test_parameters_from_several_files(fused, name):
    np.save(fused / "weights.npy", [[0.5], [0.5]])
    (fused / "mine.csv").write_text("device,level\nb,0.5\na,0.5\n")
    result = invoke("certify", fused / "problem.npz", fused / name)
    assert result.exit_code == 0, result.output


def test_wrong_parameters_from_elsewhere_are_refused(fused):
    np.save(fused / "weights.npy", [[0.5], [0.6]])
    result = invoke("certify", fused / "problem.npz", fused / "weights.npy")
    assert result.exit_code == 1
    # 0.25 + 0.16 + 0.2 - 0.5
    assert "gap               1.100e-01" in result.stdout


def test_a_problem_that_was_changed_is_refused(fused, folder):
    other = gtv.load_problem(fused / "problem.npz").with_alpha(3.0)
    other.save(fused / "problem.npz")
    check_refusal(invoke("certify", fused), ["certificate.json belongs to another problem"])
    files = (fused / "problem.npz", fused / "certificate.json")
    check_refusal(invoke("certify", *files), ["certificate.json belongs to another problem"])


@pytest.mark.parametrize("kept", [0, 10, 100, -10])
def test_a_damaged_problem_is_refused(fused, kept):
    content = (fused / "problem.npz").read_bytes()
    (fused / "problem.npz").write_bytes(content[:kept])
    check_refusal(invoke("certify", fused), ["problem.npz is not a saved problem"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.csv", "node,w\na,1\n", "has no row for node 'b'"),
        ("w.csv", "node,w\na,1\nb,1\nc,1\n", "line 4: 'c' is not a node of the problem"),
        ("w.csv", "node,w\na,1\na,1\n", "line 3: node 'a' occurs in line 2 already"),
        ("w.csv", "node,w\na,1\nb,nan\n", "line 3, column 'w': 'nan' is not a finite number"),
        ("w.csv", "node\na\nb\n", "has the columns node: expected node labels and 1 parameters"),
        ("w.npy", "no array", "w.npy"),
        ("w.json", "{}", "is not a saved certificate"),
        ("w.txt", "1", "not from '.txt'"),
    ],
)
def test_unusable_parameters_are_refused(fused, name, content, message):
    Path(name).write_text(content)
    check_refusal(invoke("certify", fused / "problem.npz", name), [message])


def test_parameters_of_the_wrong_shape_are_refused(fused):
    np.save("w.npy", np.zeros((3, 1)))
    check_refusal(invoke("certify", fused / "problem.npz", "w.npy"), ["shape (2, 1)"])
