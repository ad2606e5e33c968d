"""The benchopt benchmark: its parts fit together, on a stand-in for benchopt's base classes.

`benchopt test benchmarks/benchopt_network_lasso --skip-install` runs benchopt's own checks.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gtvmin as gtv

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "benchopt_network_lasso"


class Part:
    """Sets the parameters of a configuration as attributes, as benchopt's base classes do."""

    def __init__(self, **chosen: Any) -> None:
        for name, value in chosen.items():
            assert name in self.parameters
            setattr(self, name, value)

    def run_once(self, stop: float) -> None:
        self.run(stop)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The classes of the benchmark's files."""
    stand_in = ModuleType("benchopt")
    stand_in.BaseObjective = stand_in.BaseSolver = stand_in.BaseDataset = Part
    criteria = ModuleType("benchopt.stopping_criterion")
    criteria.SufficientProgressCriterion = SimpleNamespace
    monkeypatch.setattr(sys, "path", [*sys.path, str(FOLDER)])
    for module in (stand_in, criteria):
        monkeypatch.setitem(sys.modules, module.__name__, module)

    def load(file: Path, name: str) -> Any:
        spec = importlib.util.spec_from_file_location(f"benchopt_{file.stem}", file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, name)

    loaded = SimpleNamespace(
        objective=load(FOLDER / "objective.py", "Objective"),
        datasets={file.stem: load(file, "Dataset") for file in (FOLDER / "datasets").glob("*.py")},
        solvers={file.stem: load(file, "Solver") for file in (FOLDER / "solvers").glob("*.py")},
    )
    yield loaded
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmark_utils"]:
        del sys.modules[name]


def tiny(dataset: type[Part], objective: type[Part]) -> Part:
    filled = objective(strength=1.0)
    filled.set_data(**dataset(**{name: values[0] for name, values in dataset.test_parameters.items()}).get_data())
    return filled


CONFIGURATIONS = [
    ("gtvmin", {"method": "auto"}),
    ("plain", {"method": "PDHG"}),
    ("plain", {"method": "ADMM"}),
    ("cvxpy", {"solver": "CLARABEL"}),
]


@pytest.mark.parametrize("dataset", ["block_model", "clustering"])
def test_every_solver_reaches_the_optimum_of_the_arrays(parts: SimpleNamespace, dataset: str) -> None:
    """The arrays that solvers receive state the same problem: CVXPY's optimum of them is everybody's."""
    import cvxpy as cp

    objective = tiny(parts.datasets[dataset], parts.objective)
    given = objective.get_objective()
    W = cp.Variable(given["b"].shape)
    losses = sum(
        0.5 * cp.quad_form(w, cp.psd_wrap(Q)) - b @ w for w, Q, b in zip(W, given["Q"], given["b"], strict=True)
    )
    jumps = W[given["head"].tolist()] - W[given["tail"].tolist()]
    program = cp.Problem(cp.Minimize(losses + given["radius"] @ cp.norm(jumps, given["p"], axis=1)))
    constant = objective.evaluate_result(np.zeros(W.shape))["value"]  # no norm, no quadratic part at zero
    optimum = program.solve(solver="CLARABEL") + constant
    for name, chosen in CONFIGURATIONS:
        solver = parts.solvers[name](**chosen)
        solver.set_objective(**given)
        steps = iter(range(4000))
        solver.run((lambda steps=steps: next(steps, None) is not None) if name == "plain" else 1e-8)
        found = objective.evaluate_result(**solver.get_result())
        assert found["value"] == pytest.approx(optimum, rel=1e-6)
        assert found["certified_gap"] <= 1e-6


def test_parameters_alone_certify_nothing(parts: SimpleNamespace) -> None:
    objective = tiny(parts.datasets["block_model"], parts.objective)
    trivial = objective.get_one_result()
    assert objective.evaluate_result(trivial["W"])["certified_gap"] == np.inf
    assert objective.evaluate_result(**trivial)["certified_gap"] > 0.1
    assert isinstance(objective.problem, gtv.GTVMin)
