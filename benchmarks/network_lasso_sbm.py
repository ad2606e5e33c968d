"""The experiment of the network Lasso paper: errors over lambda and p_out, against models without a network.

``python -m benchmarks.network_lasso_sbm [FOLDER]`` writes ``network_lasso_sbm.csv`` and ``.png``.

Y. Sarcheshmehpour, M. Leinonen, A. Jung, "Federated Learning from Big Data Over Networks" (2021), arXiv 2010.14159: two
clusters of devices with parameters (2, 2) and (-2, 2), five data points each, labels at a fifth of the devices.  The
authors' repository (github.com/sahelyiyi/FederatedLearning) gives errors of one least-squares model and of one decision
tree of depth 2 for all devices, which are here, too, with least squares at each device that has labels.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.pictures import clean, save_small
from benchmarks.rows import write_rows
from gtvmin.datasets import SBM, make_sbm

SIZE, LABELLED = 100, 0.2
SHADES = ("#9ecae1", "#4a98c9", "#1764ab", "#08306b")
LAMBDAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
P_OUT = (1e-3, 1e-2, 3e-2, 1e-1)
NOISES = (0.0, 0.5)
SEEDS = (0, 1, 2)
GAP = 1e-8
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "images" / "reproductions"
Row = dict[str, object]


def errors(data: SBM, predictions: np.ndarray) -> Row:
    """Mean squared errors against the labels without their noise, at devices with labels and at the others."""
    truth = np.einsum("ird,id->ir", data.features, data.true_weights)
    each = ((predictions - truth) ** 2).mean(axis=1)
    seen = np.isin(np.arange(len(each)), data.labelled)
    return {"labelled": float(each[seen].mean()), "unlabelled": float(each[~seen].mean())}


def network_lasso(data: SBM) -> tuple[np.ndarray, float]:
    """Predictions, and the certified relative gap."""
    solution = data.problem().solve(gap=GAP)
    return np.einsum("ird,id->ir", data.features, solution.weights), solution.certificate.relative_gap


def without_network(data: SBM) -> Iterator[tuple[str, np.ndarray]]:
    """Predictions of one model for all devices, and of one for each; NaN where a device has no labels."""
    from sklearn.tree import DecisionTreeRegressor

    X, y, seen = data.features, data.labels, data.labelled
    rows, dim = X[seen].reshape(-1, X.shape[2]), X.shape[2]
    w = np.linalg.lstsq(rows, y[seen].ravel())[0]
    yield "least squares, one model", X @ w
    tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(rows, y[seen].ravel())
    yield "decision tree, one model", tree.predict(X.reshape(-1, dim)).reshape(y.shape)
    alone = np.full(y.shape, np.nan)
    for i in seen:
        alone[i] = X[i] @ np.linalg.lstsq(X[i], y[i])[0]
    yield "least squares at each device", alone


def measure(
    size: int = SIZE,
    lambdas: Sequence[float] = LAMBDAS,
    p_out: Sequence[float] = P_OUT,
    noises: Sequence[float] = NOISES,
    seeds: Sequence[int] = SEEDS,
) -> list[Row]:
    """One row a method, noise, p_out, lambda and seed."""
    rows: list[Row] = []
    for noise in noises:
        for probability in p_out:
            for seed in seeds:
                data = make_sbm(
                    sizes=(size, size),
                    p_out=probability,
                    n_labelled=round(2 * size * LABELLED),
                    noise=noise,
                    seed=seed,
                )
                case = {"noise": noise, "p_out": probability, "seed": seed}
                for lam in lambdas:
                    found, gap = network_lasso(replace(data, lam=lam))
                    rows.append({"method": "network Lasso", **case, "lambda": lam, **errors(data, found), "gap": gap})
                for method, found in without_network(data):
                    rows.append({"method": method, **case, "lambda": "", **errors(data, found), "gap": ""})
    return rows


def mean_of(rows: Sequence[Row], method: str, column: str, **where: float) -> float:
    """Mean over the seeds."""
    chosen = [r[column] for r in rows if r["method"] == method and all(r[k] == v for k, v in where.items())]
    return float(np.mean(np.array(chosen, dtype=float)))


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Errors over lambda, one line a p_out, at devices without labels; and at devices with noisy labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    noises = sorted({float(str(r["noise"])) for r in rows})
    probabilities = sorted({float(str(r["p_out"])) for r in rows})
    lambdas = sorted({float(str(r["lambda"])) for r in rows if r["lambda"] != ""})
    panels = (
        (left, noises[0], "unlabelled", ("least squares, one model", "decision tree, one model")),
        (right, noises[-1], "labelled", ("least squares at each device", "least squares, one model")),
    )
    for axes, noise, column, others in panels:
        for p, shade in zip(probabilities, range(len(probabilities)), strict=True):
            line = [mean_of(rows, "network Lasso", column, noise=noise, p_out=p, **{"lambda": lam}) for lam in lambdas]
            axes.loglog(lambdas, line, "o-", ms=3, lw=1.5, color=SHADES[shade], label=f"p_out = {p:g}")
        for method, style in zip(others, ("--", ":"), strict=True):
            level = mean_of(rows, method, column, noise=noise)
            axes.axhline(level, ls=style, color="#d1495b", lw=1.3, label=method)
        axes.set_xlabel("lambda")
        axes.set_title(f"devices {'with' if column == 'labelled' else 'without'} labels, noise {noise:g}", fontsize=10)
        clean(axes)
        axes.legend(frameon=False, fontsize=7)
    left.set_ylabel("mean squared error")
    return save_small(figure, path)


def main(folder: Path = FOLDER) -> None:
    """Measure, write, draw."""
    rows = measure()
    print(write_rows(folder / "network_lasso_sbm.csv", rows))
    print(draw(rows, folder / "network_lasso_sbm.png"))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
