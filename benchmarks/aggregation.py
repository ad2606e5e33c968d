"""Contextual aggregation, FOLB, FedProx and FedAvg on devices that differ: training loss against rounds.

``python -m benchmarks.aggregation [FOLDER]`` writes ``aggregation.csv`` and ``.png``.

The comparison of H. T. Nguyen, H. V. Poor, M. Chiang, "Contextual Model Aggregation for Fast and Robust Federated
Learning in Edge Computing" (2022), arXiv 2203.12738, on the synthetic(1, 1) data of the FedProx paper: ten of 30
devices a round, 20 local steps with rate 0.01, here with exact gradients of the local data.  The
paper's beta is one over the rate, 100; 5 is one over the rate of all local steps together.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.heterogeneity import training_loss
from benchmarks.pictures import clean, save_small
from benchmarks.rows import write_rows
from gtvmin.datasets import make_synthetic
from gtvmin.federated import federated_form, make_algorithm
from gtvmin.federated.running import _server_problem
from gtvmin.solvers.federated.participation import UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning

RATE, STEPS = 0.01, 20
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedAvg": ("fedavg", {"aggregation": "renormalised"}),
    "FedProx, mu = 1": ("fedprox", {"mu": 1.0, "aggregation": "renormalised"}),
    "FOLB": ("folb", {}),
    "contextual, beta = 100": ("contextual", {"beta": 1.0 / RATE}),
    "contextual, K2 = 0, beta = 100": ("contextual", {"further": 0, "beta": 1.0 / RATE}),
    "contextual, beta = 5": ("contextual", {"beta": 1.0 / (STEPS * RATE)}),
    "contextual, K2 = 0, beta = 5": ("contextual", {"further": 0, "beta": 1.0 / (STEPS * RATE)}),
    "expected bound, beta = 5": ("contextual", {"beta": 1.0 / (STEPS * RATE), "bound": "expected"}),
}
COLOURS = ("#000000", "#8d99a6", "#e0a030", "#1764ab", "#9ecae1", "#8a5a9e", "#d1495b", "#4f8a5b")
ROUNDS, ACTIVE, SEED = 100, 10, 4
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "reproductions"
Row = dict[str, object]


def measure(
    rounds: int = ROUNDS, steps: int = STEPS, devices: int = 30, active: int = ACTIVE, features: int = 60
) -> list[Row]:
    """One row a method and round."""
    data = make_synthetic(1.0, 1.0, devices=devices, features=features, seed=SEED)
    form, loss = federated_form(_server_problem(data.losses())), training_loss(data)
    rows: list[Row] = []
    for method, (name, settings) in METHODS.items():
        shared = {"weights": "samples", "local_steps": steps, "eta": RATE, "participation": UniformSample(active)}
        algorithm = make_algorithm(name, **shared, **settings)
        state = algorithm.init(form, None)
        for k in range(rounds + 1):
            rows.append({"method": method, "round": k, "loss": loss(state.model)})
            state = algorithm.step(form, state)
    return rows


def curve(rows: Sequence[Row], method: str) -> np.ndarray:
    """Losses of a method."""
    return np.array([row["loss"] for row in rows if row["method"] == method], dtype=float)


def draw(rows: Sequence[Row], path: Path) -> Path:
    """One line a method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for method, colour in zip(METHODS, COLOURS, strict=True):
        axes.plot(curve(rows, method), color=colour, lw=1.3, label=method)
    axes.set_xlabel("communication rounds")
    axes.set_ylabel("training loss")
    axes.set_ylim(0.0, 4.0)
    clean(axes)
    axes.legend(frameon=False, fontsize=8)
    return save_small(figure, path)


def main(folder: Path = FOLDER) -> None:
    """Measure, write, draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)  # beta = 1 / rate, as in the paper, may be below its bound
        rows = measure()
    print(write_rows(folder / "aggregation.csv", rows))
    print(draw(rows, folder / "aggregation.png"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
