"""Model-agnostic FedRelax: linear models against the certified program, other models against their own optimality."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

import gtvmin as gtv
from federated_problems import DIM, NAMES, N, data, network
from gtvmin.federated.model_agnostic import relax_models

POINTS = np.random.default_rng(4).normal(size=(7, DIM))
DATA = {name: (X, y) for name, (X, y, _) in zip(NAMES, data(), strict=True)}
ALPHA = 0.5


class LeastSquares:
    """Weighted least squares, without scikit-learn's checks of every call."""

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> None:
        root = np.sqrt(sample_weight)
        self.coef_ = np.linalg.lstsq(root[:, None] * X, root * y, rcond=None)[0]

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X @ self.coef_


def linear_models() -> dict[str, LeastSquares]:
    return {name: LeastSquares() for name in NAMES}


@pytest.mark.parametrize("order", ["jacobi", "gauss-seidel"])
def test_linear_models_solve_the_declared_program(order: str) -> None:
    run = relax_models(network(), DATA, linear_models(), POINTS, alpha=ALPHA, rounds=250, order=order)
    problem = gtv.GTVMin(
        network(),
        {name: gtv.SquaredError(X, y) for name, (X, y) in DATA.items()},
        penalty=gtv.PredictionDiscrepancy(POINTS),
        alpha=ALPHA,
    )
    W = np.array([run.models[name].coef_ for name in NAMES])
    certificate = gtv.certify(problem, W)
    assert certificate.relative_gap < 1e-9
    assert np.abs(W - problem.solve(gap=1e-12).weights).max() < 1e-8
    assert run.objectives[-1] == pytest.approx(problem.objective(W), rel=1e-10)
    assert run.changes[-1] < 1e-8 < run.changes[0]
    assert run.bytes_sent == 250 * 2 * 10 * 7 * 8


def test_regressors_of_scikit_learn_fit() -> None:
    theirs = {name: LinearRegression(fit_intercept=False) for name in NAMES}
    runs = [relax_models(network(), DATA, m, POINTS, alpha=ALPHA, rounds=3) for m in (theirs, linear_models())]
    assert np.allclose(runs[0].predictions, runs[1].predictions, atol=1e-10)


def test_a_lost_factor_would_move_the_limit() -> None:
    """With alpha halved, as when an edge is counted once instead of at both ends, the weights are others."""
    runs = [relax_models(network(), DATA, linear_models(), POINTS, alpha=a, rounds=150) for a in (ALPHA, ALPHA / 2)]
    assert np.abs(runs[0].predictions - runs[1].predictions).max() > 1e-2


def test_models_of_different_kinds_descend_together() -> None:
    """Models that minimise a convex objective never raise the sum of all."""
    kinds = [LinearRegression(), LinearRegression(fit_intercept=False)]
    models = {name: kinds[k % 2].__class__(fit_intercept=bool(k % 2)) for k, name in enumerate(NAMES)}
    run = relax_models(network(), DATA, models, POINTS, alpha=ALPHA, rounds=20)
    assert (np.diff(run.objectives) <= 1e-12 * run.objectives[0]).all()
    trees = {name: DecisionTreeRegressor(max_depth=2, random_state=0) for name in NAMES}
    mixed = {**trees, "a": KernelRidge(kernel="rbf"), "b": Ridge()}
    run = relax_models(network(), DATA, mixed, POINTS, alpha=ALPHA, rounds=10)
    assert np.isfinite(run.predictions).all()
    assert isinstance(run.models["c"], DecisionTreeRegressor)


def test_a_device_without_data_follows_its_neighbours() -> None:
    """A chain with one empty device: its predictions are the weighted mean of the neighbours'."""
    net = gtv.FLNetwork.from_edges([("a", "b", 1.0), ("b", "c", 3.0)])
    run = relax_models(
        net,
        {name: DATA[name] for name in "ac"},
        {n: LeastSquares() for n in "abc"},
        POINTS,
        alpha=1.0,
        rounds=200,
    )
    assert run.predictions[1] == pytest.approx(0.25 * run.predictions[0] + 0.75 * run.predictions[2], abs=1e-8)


def test_stronger_coupling_brings_predictions_together() -> None:
    spread = []
    for alpha in (0.0, 1.0, 100.0):
        run = relax_models(network(), DATA, linear_models(), POINTS, alpha=alpha, rounds=100)
        spread.append(run.predictions.std(axis=0).mean())
    assert spread[0] > spread[1] > spread[2]
    assert len(run.predictions) == N


def test_misuse_is_named() -> None:
    net = gtv.FLNetwork.from_edges([("a", "b")])
    models = {name: LinearRegression() for name in "ab"}
    arguments = {"alpha": 1.0, "rounds": 2}
    with pytest.raises(ValueError, match="none for node 'b'"):
        relax_models(net, DATA, {"a": models["a"]}, POINTS, **arguments)
    with pytest.raises(ValueError, match="data of node 'a' must be"):
        relax_models(net, {**DATA, "a": ([[1.0]], [1.0])}, models, POINTS, **arguments)
    with pytest.raises(ValueError, match="neither data nor neighbours"):
        relax_models(net, {"a": DATA["a"]}, models, POINTS, alpha=0.0, rounds=2)
    with pytest.raises(ValueError, match="order must be"):
        relax_models(net, DATA, models, POINTS, order="random", **arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="test_points"):
        relax_models(net, DATA, models, POINTS[0], **arguments)
