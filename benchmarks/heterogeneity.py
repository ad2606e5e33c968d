"""FedAvg and FedProx on devices that differ, with stragglers: the synthetic data of the FedProx paper.

``python -m benchmarks.heterogeneity [FOLDER]`` writes ``heterogeneity.csv`` and ``.png``.

T. Li et al., "Federated Optimization in Heterogeneous Networks" (2020), Section 5: ten of 30 devices a round,
stochastic gradients of ten data points with rate 0.01, 20 epochs a round.  Stragglers have time for 1 to 20 epochs
only: FedAvg drops them, FedProx takes what they have.  Models are averaged by the numbers of data points of the devices
that take part, as in the authors' code.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.pictures import clean, save_small
from benchmarks.rows import write_rows
from gtvmin.datasets import Synthetic, make_synthetic
from gtvmin.federated import federated_form
from gtvmin.federated.running import _server_problem
from gtvmin.solvers.federated.fed_prox import FedProx
from gtvmin.solvers.federated.participation import Participation, UniformSample
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.federated.streams import Keys, uniforms

SETS: dict[str, tuple[float, float, bool]] = {
    "iid": (0.0, 0.0, True),
    "(0, 0)": (0.0, 0.0, False),
    "(0.5, 0.5)": (0.5, 0.5, False),
    "(1, 1)": (1.0, 1.0, False),
}
STRAGGLERS = (0.0, 0.9)
METHODS = ("FedAvg, stragglers dropped", "FedProx, mu = 0", "FedProx, mu = 1")
STYLES = dict(zip(METHODS, (("#22303c", ":"), ("#2a7f9e", "-"), ("#d1495b", "-")), strict=True))
ROUNDS, EPOCHS, ETA, BATCH, DEVICES, ACTIVE, SEED = 30, 20, 0.01, 10, 30, 10, 4
SPEED, WORK = 1001, 1002  # purposes of the draws, beside those of the algorithms
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "reproductions"
Row = dict[str, object]


@dataclass(frozen=True)
class Punctual:
    """The devices of a rule that are no stragglers of the round."""

    rule: Participation
    stragglers: float

    def counts(self, keys: Keys, p: np.ndarray, round: int) -> np.ndarray:
        return np.where(late(keys, round, self.stragglers), 0.0, self.rule.counts(keys, p, round))

    def expected(self, p: np.ndarray) -> np.ndarray:
        return (1.0 - self.stragglers) * self.rule.expected(p)


def late(keys: Keys, round: int, stragglers: float) -> np.ndarray:
    """Whether each device is a straggler of the round."""
    return uniforms(keys, round, SPEED) < stragglers


def training_loss(data: Synthetic) -> Callable[[np.ndarray], float]:
    """Mean loss of a model over all data points."""
    losses = data.losses()
    share = data.rows / data.rows.sum()
    return lambda model: float(sum(s * losses[i].value(model) for i, s in enumerate(share)))


def rounds_of(
    data: Synthetic, method: str, stragglers: float, rounds: int, epochs: int, active: int
) -> Iterator[float]:
    """Training loss before the first round and after each."""
    drop = method == METHODS[0]
    chosen: Participation = UniformSample(active)
    algorithm = FedProx(
        weights="samples",
        mu=1.0 if method == METHODS[2] else 0.0,  # without a proximal term it is FedAvg
        local_steps=[1] * len(data.rows),
        eta=ETA,
        batch=BATCH,
        participation=Punctual(chosen, stragglers) if drop else chosen,
        aggregation="renormalised",
    )
    form, loss = federated_form(_server_problem(data.losses())), training_loss(data)
    state = algorithm.init(form, None)
    yield loss(state.model)
    for k in range(rounds):
        keys = state.setup.keys
        some = 1 + (uniforms(keys, k, WORK) * epochs).astype(np.int64)
        done = np.where(late(keys, k, stragglers), some, epochs)
        steps = np.maximum(done * data.rows // BATCH, 1)
        state = algorithm.step(form, replace(state, setup=replace(state.setup, steps=steps)))
        yield loss(state.model)


def measure(
    sets: Sequence[str] = tuple(SETS),
    stragglers: Sequence[float] = STRAGGLERS,
    rounds: int = ROUNDS,
    epochs: int = EPOCHS,
    devices: int = DEVICES,
    active: int = ACTIVE,
    features: int = 60,
) -> list[Row]:
    """One row a data set, share of stragglers, method and round; stragglers on the last data set only."""
    rows: list[Row] = []
    for name in sets:
        alpha, beta, iid = SETS[name]
        data = make_synthetic(alpha, beta, iid=iid, devices=devices, features=features, seed=SEED)
        for share in stragglers if name == sets[-1] else stragglers[:1]:
            for method in METHODS if share else METHODS[1:]:
                curve = rounds_of(data, method, share, rounds, epochs, active)
                rows += [
                    {"data": name, "stragglers": share, "method": method, "round": k, "loss": loss}
                    for k, loss in enumerate(curve)
                ]
    return rows


def curve(rows: Sequence[Row], data: str, stragglers: float, method: str) -> np.ndarray:
    """Losses of a run."""
    key = {"data": data, "stragglers": stragglers, "method": method}
    return np.array([row["loss"] for row in rows if all(row[k] == v for k, v in key.items())], dtype=float)


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Data sets above, shares of stragglers below."""
    from matplotlib.figure import Figure

    cases = list(dict.fromkeys((str(row["data"]), float(str(row["stragglers"]))) for row in rows))
    figure = Figure(figsize=(9.0, 4.6), layout="constrained")
    grid = figure.subplots(2, (len(cases) + 2) // 2, squeeze=False, sharex=True)
    for axes, (data, share) in zip(grid.flat, cases, strict=False):
        for method in METHODS:
            losses = curve(rows, data, share, method)
            if len(losses):
                colour, style = STYLES[method]
                axes.plot(losses, ls=style, color=colour, lw=1.3, label=method)
        axes.set_title(f"{data}, {share:.0%} stragglers", fontsize=9)
        axes.set_ylim(0.0, 3.8)
        clean(axes)
    for axes in grid.flat[len(cases) :]:
        axes.axis("off")
    grid[-1, -1].legend(*grid.flat[len(cases) - 1].get_legend_handles_labels(), frameon=False, loc="center")
    figure.supxlabel("communication rounds", fontsize=10)
    figure.supylabel("training loss", fontsize=10)
    return save_small(figure, path)


def main(folder: Path = FOLDER) -> None:
    """Measure, write, draw."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)  # the paper's rate, for steps of ten data points
        rows = measure()
    print(write_rows(folder / "heterogeneity.csv", rows))
    print(draw(rows, folder / "heterogeneity.png"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
