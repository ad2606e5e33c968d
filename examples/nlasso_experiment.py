"""The network Lasso experiment of Sarcheshmehpour, Leinonen, Jung (ICASSP 2021), arXiv 2010.14159.

Two clusters of 150 devices on a stochastic block model share a linear model each, y = x^T w with w = (2, 2) or (-2, 2);
30 of the 300 devices have five labelled data points, the others none.  Mean squared errors over the strength lam of the
total variation and the probability p_out of an edge between the clusters, against models without a network: least
squares at each labelled device, and least squares and a decision tree for the labels of all devices together.

    python examples/nlasso_experiment.py [number of draws]

Needs scikit-learn.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from gtvmin.datasets import SBM, make_sbm
from gtvmin.errors import GtvminWarning

LAMS = (1e-4, 1e-3, 1e-2, 1e-1)
P_OUTS = (0.0, 1e-3, 5e-3, 1e-2, 5e-2, 1e-1)


def prediction_error(sbm: SBM, predictions: np.ndarray, labelled: bool) -> float:
    """Mean squared error of predictions (n, rows) at the devices with or without labels."""
    seen = np.isin(np.arange(len(sbm.clusters)), sbm.labelled)
    return float(np.mean((predictions - sbm.labels)[seen == labelled] ** 2))


def network_lasso(sbm: SBM) -> tuple[float, float, float]:
    """Certified solution: squared distance of the parameters from the true ones, errors with and without labels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GtvminWarning)  # without a label in a component the solution is not unique
        W = sbm.problem().solve(gap=1e-6).weights
    predictions = np.einsum("ird,id->ir", sbm.features, W)
    distance = float(((W - sbm.true_weights) ** 2).sum(axis=1).mean())
    return distance, prediction_error(sbm, predictions, True), prediction_error(sbm, predictions, False)


def without_a_network(sbm: SBM) -> dict[str, tuple[float, float]]:
    """Errors of predictions with and without labels."""
    n, rows, dim = sbm.features.shape
    X, y = sbm.features[sbm.labelled].reshape(-1, dim), sbm.labels[sbm.labelled].ravel()
    everywhere = sbm.features.reshape(-1, dim)
    own = np.full((n, rows), np.nan)
    for i in sbm.labelled:
        own[i] = sbm.features[i] @ np.linalg.lstsq(sbm.features[i], sbm.labels[i], rcond=None)[0]
    tree = DecisionTreeRegressor(max_depth=2, random_state=0).fit(X, y)
    found = {
        "least squares at each labelled device": own,
        "least squares of all labels": (everywhere @ np.linalg.lstsq(X, y, rcond=None)[0]).reshape(n, rows),
        "decision tree of all labels": tree.predict(everywhere).reshape(n, rows),
    }
    return {k: (prediction_error(sbm, v, True), prediction_error(sbm, v, False)) for k, v in found.items()}


def main(draws: int = 3) -> None:
    """Print the tables."""
    print(f"Squared distance of the network Lasso's parameters from the true ones, mean of {draws} draws")
    print("lam \\ p_out " + "".join(f"{p:>10g}" for p in P_OUTS))
    for lam in LAMS:
        cells = [
            np.mean([network_lasso(make_sbm(lam=lam, p_out=p_out, seed=seed))[0] for seed in range(draws)])
            for p_out in P_OUTS
        ]
        print(f"{lam:11g} " + "".join(f"{cell:10.2e}" for cell in cells))
    print("\nMean squared errors of predictions at devices with and without labels, lam = 1e-3, p_out = 1e-3")
    sbms = [make_sbm(seed=seed) for seed in range(draws)]
    rows = {"network Lasso": np.mean([network_lasso(sbm)[1:] for sbm in sbms], axis=0)}
    for name in without_a_network(sbms[0]):
        rows[name] = np.mean([without_a_network(sbm)[name] for sbm in sbms], axis=0)
    for name, (labelled, unlabelled) in rows.items():
        print(f"{name:40} {labelled:10.2e} {unlabelled:10.2e}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
