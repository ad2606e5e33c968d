"""Predictions of the devices' models, against scikit-learn where a device is alone, and names of parameters."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

import gtvmin as gtv
from gtvmin.errors import CapabilityError, MissingLossWarning

RNG = np.random.default_rng(8)
X = RNG.normal(size=(40, 2))
NEW = RNG.normal(size=(7, 2))
SCORES = X @ [1.0, -0.5] + 0.3 * RNG.normal(size=40)


def alone(loss: gtv.Loss) -> gtv.Solution:
    """Two devices with the same loss, which coupling does not change."""
    net = gtv.FLNetwork.from_edges([("a", "b")])
    return gtv.GTVMin(net, {"a": loss, "b": loss}, penalty=gtv.SquaredNorm(), alpha=1.0).solve(gap=1e-10)


def test_squared_errors_predict_as_linear_regression() -> None:
    model = LinearRegression(fit_intercept=False).fit(X, SCORES)
    assert alone(gtv.SquaredError(X, SCORES)).predict(NEW, "b") == pytest.approx(model.predict(NEW), abs=1e-6)
    for loss in (gtv.Huber(X, SCORES, delta=1.0), gtv.LeastAbsolute(X, SCORES), gtv.Ridge(X, SCORES, lam=0.1)):
        solution = alone(loss + 0.01 * gtv.L1())
        assert np.array_equal(solution.predict(NEW, "a"), NEW @ solution["a"])


def test_logistic_losses_predict_the_probability_of_the_class_one() -> None:
    labels = (SCORES > 0).astype(int)
    model = LogisticRegression(C=1 / 40, fit_intercept=False, tol=1e-10).fit(X, labels)
    for y in (labels, 2 * labels - 1):
        solution = alone(gtv.Logistic(X, y) + gtv.Quadratic(np.eye(2)))
        assert solution.predict(NEW, "a") == pytest.approx(model.predict_proba(NEW)[:, 1], abs=1e-5)


def test_softmax_losses_predict_the_probabilities_of_all_classes() -> None:
    labels = np.digitize(SCORES, [-0.5, 0.5])
    model = LogisticRegression(C=1 / 40, fit_intercept=False, tol=1e-10).fit(X, labels)
    solution = alone(gtv.Softmax(X, labels) + gtv.Quadratic(np.eye(6)))
    assert solution.predict(NEW, "a") == pytest.approx(model.predict_proba(NEW), abs=1e-5)


def test_poisson_losses_predict_the_mean_count() -> None:
    counts = RNG.poisson(np.exp(SCORES))
    model = PoissonRegressor(alpha=1.0, fit_intercept=False, tol=1e-10).fit(X, counts)
    solution = alone(gtv.Poisson(X, counts) + gtv.Quadratic(np.eye(2)))
    assert solution.predict(NEW, "a") == pytest.approx(model.predict(NEW), rel=1e-4)


def test_a_device_without_data_predicts_as_the_others_do() -> None:
    net = gtv.FLNetwork.from_edges([("a", "b"), ("b", "new")])
    losses = {name: gtv.Logistic(X, np.sign(SCORES)) + gtv.Quadratic(np.eye(2)) for name in "ab"}
    with pytest.warns(MissingLossWarning):
        problem = gtv.GTVMin(net, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    solution = problem.solve()
    assert solution.predict(NEW, "new") == pytest.approx(1 / (1 + np.exp(-NEW @ solution["new"])))
    run = gtv.federate(problem, "fedgd", rounds=20)
    assert run.predict(NEW, "new") == pytest.approx(1 / (1 + np.exp(-NEW @ run["new"])))


def test_what_cannot_be_predicted_is_told() -> None:
    solution = alone(gtv.SquaredError(X, SCORES))
    with pytest.raises(ValueError, match=r"node 'Oslo' is not in the network, whose nodes are 'a', 'b'"):
        solution.predict(NEW, "Oslo")
    for wrong in (NEW[0], NEW[:, :1], np.ones((2, 3))):
        with pytest.raises(ValueError, match=r"X must have shape \(rows, 2\) for the model of node 'a', got"):
            solution.predict(wrong, "a")
    with pytest.raises(ValueError, match="X"):
        solution.predict([[np.nan, 1.0]], "a")
    with pytest.raises(CapabilityError, match=r"Hinge does not say what is predicted.*X @ solution\['a'\]"):
        alone(gtv.Hinge(X, np.sign(SCORES)) + gtv.Quadratic(np.eye(2))).predict(NEW, "a")
    both = gtv.SquaredError(X, SCORES) + gtv.Logistic(X, np.sign(SCORES))
    with pytest.raises(CapabilityError, match=r"no loss of one kind .* but Logistic, SquaredError"):
        alone(both).predict(NEW, "a")


FRAME = pd.DataFrame(
    {"shop": list("aabb") * 10, "price": X[:, 0], "rain": X[:, 1], "sold": SCORES, "busy": SCORES > 0}
).astype({"busy": int})


def of_frame(features: list[str], **options: Any) -> gtv.Solution:
    losses = gtv.losses_from_frame(FRAME, **{"node": "shop", "target": "sold", "features": features, **options})
    return gtv.GTVMin(gtv.FLNetwork.from_edges([("a", "b")]), losses, penalty=gtv.SquaredNorm(), alpha=1.0).solve()


def test_columns_keep_their_names() -> None:
    solution = of_frame(["rain", "price"])
    assert list(solution.to_frame().columns) == ["rain", "price", "intercept"]
    assert list(of_frame(["rain"], intercept=False).to_frame().columns) == ["rain"]
    kept = [copy.deepcopy(solution), pickle.loads(pickle.dumps(solution)), *solution.problem.path([0.1, 1.0])]
    assert all(list(one.to_frame().columns) == ["rain", "price", "intercept"] for one in kept)
    assert list(solution.to_frame(columns=["u", "v", "c"]).columns) == ["u", "v", "c"]
    plain = alone(gtv.SquaredError(X, SCORES))
    assert list(plain.to_frame().columns) == ["w0", "w1"]
    assert list(plain.to_frame(["price", "rain"]).columns) == ["price", "rain"]
    for wrong in (["price"], "pq"):
        with pytest.raises(ValueError, match="columns must be 2 names"):
            plain.to_frame(wrong)


def test_rows_of_a_table_are_predicted_by_name() -> None:
    """Columns in any order, with others beside them; of arrays in the order of the features, with ones or without."""
    solution = of_frame(["rain", "price"])
    w = solution["b"]
    expected = FRAME["rain"] * w[0] + FRAME["price"] * w[1] + w[2]
    assert solution.predict(FRAME, "b") == pytest.approx(expected.to_numpy())
    assert solution.predict(FRAME[["rain", "price"]].to_numpy(), "b") == pytest.approx(expected.to_numpy())
    with_ones = FRAME[["rain", "price"]].assign(one=1.0).to_numpy()
    assert solution.predict(with_ones, "b") == pytest.approx(expected.to_numpy())
    level = of_frame([])
    assert level.predict(FRAME[:3], "a") == pytest.approx([level["a"][0]] * 3)
    with pytest.raises(ValueError, match="'rain' is not a column of the frame"):
        solution.predict(FRAME[["price"]], "b")
    with pytest.raises(ValueError, match=r"\(rows, 3\) .* or \(rows, 2\) without the column of ones, got \(40, 1\)"):
        solution.predict(FRAME[["price"]].to_numpy(), "b")


def test_classes_of_a_table() -> None:
    """A softmax has a parameter for each feature and class: they keep their numbers, and columns are found."""
    settings = {"target": "busy", "loss": gtv.Softmax, "classes": 2}
    losses = gtv.losses_from_frame(FRAME, node="shop", features=["price"], **settings)
    ridge = {name: loss + gtv.Quadratic(np.eye(4)) for name, loss in losses.items()}
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([("a", "b")]), losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    solution = problem.with_losses(ridge).solve()
    assert list(solution.to_frame().columns) == ["w0", "w1", "w2", "w3"]
    W = solution["a"].reshape(2, 2)
    scores = np.exp(np.column_stack([FRAME["price"], np.ones(40)]) @ W)
    assert solution.predict(FRAME, "a") == pytest.approx(scores / scores.sum(axis=1, keepdims=True))
