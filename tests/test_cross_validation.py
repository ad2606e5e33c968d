"""Cross-validation against scikit-learn, closed forms written out here and hand values."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_score

import gtvmin as gtv
from gtvmin.cross_validation import CrossValidation, assign_folds
from gtvmin.errors import CapabilityError
from gtvmin.losses.squared_rows import QuadraticLoss


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(2, 6), st.integers(0, 99))
def test_folds_are_balanced(counts: list[int], folds: int, seed: int) -> None:
    """Of every device and of all together, folds have equally many data points, up to one."""
    if sum(counts) < folds:
        with pytest.raises(ValueError, match=f"have {sum(counts)} data points"):
            assign_folds(counts, folds, seed)
        return
    dealt = assign_folds(counts, folds, seed)
    assert [len(own) for own in dealt] == counts
    for group in (*dealt, np.concatenate(dealt)):
        sizes = np.bincount(group, minlength=folds)
        assert len(sizes) == folds
        assert sizes.max() - sizes.min() <= 1
    assert all(np.array_equal(a, b) for a, b in zip(dealt, assign_folds(counts, folds, seed), strict=True))


def test_a_device_is_shuffled() -> None:
    """Neighbouring rows, as of a time series, do not alternate between the folds in their order."""
    (own,) = assign_folds([60], 3, seed=1)
    assert not np.array_equal(own[:30] - own[0], np.resize([0, 1, 2], 30))
    assert len({tuple(assign_folds([60], 3, seed)[0]) for seed in range(5)}) == 5


def test_one_device_is_ordinary_cross_validation() -> None:
    """Ridge regression by scikit-learn, whose loss is ``||y - X w||^2 + a ||w||^2``: the error has no penalty in it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(23, 3))
    y = X @ [1.0, 0.5, -1.0] + rng.normal(size=23)
    loss = gtv.Ridge(X, y, lam=2.0, scale="sum")
    problem = gtv.GTVMin(nx.empty_graph(1), [loss], penalty=gtv.SquaredNorm(), alpha=0.0)
    result = problem.cross_validate([1.0], folds=4, seed=7)
    split = PredefinedSplit(assign_folds([23], 4, seed=7)[0])
    model = SklearnRidge(alpha=2.0, fit_intercept=False)
    scores = -cross_val_score(model, X, y, cv=split, scoring="neg_mean_squared_error")
    np.testing.assert_allclose(result.errors[:, 0], scores, rtol=1e-9)
    assert result.mean[0] == pytest.approx(scores.mean())
    assert result.std[0] == pytest.approx(scores.std(ddof=1))


def small_network(scale: Any = "mean") -> tuple[nx.Graph, list[np.ndarray], list[np.ndarray], list[gtv.Loss]]:
    """Five devices with 6, 1, 0, 9 and 3 data points of two features."""
    rng = np.random.default_rng(3)
    data = [(rng.normal(size=(m, 2)), rng.normal(size=m)) for m in (6, 1, 0, 9, 3)]
    losses = [0.5 * gtv.SquaredError(X, y, scale=scale) + gtv.Ridge(X[:0], y[:0], lam=0.1) for X, y in data]
    return nx.cycle_graph(5), [X for X, _ in data], [y for _, y in data], losses


@pytest.mark.parametrize("scale", ["mean", "sum"])
def test_the_definition(scale: Any) -> None:
    """Normal equations, trained on the other folds and judged on this one, written out."""
    graph, Xs, ys, losses = small_network(scale)
    alphas = [0.1, 1.0]
    problem = gtv.GTVMin(graph, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
    result = problem.cross_validate(alphas, folds=3, seed=2, gap=1e-12)
    dealt = assign_folds([len(y) for y in ys], 3, seed=2)
    L = nx.laplacian_matrix(graph).toarray()
    for fold in range(3):
        for k, alpha in enumerate(alphas):
            K, b = np.kron(2 * alpha * L, np.eye(2)) + 0.2 * np.eye(10), np.zeros(10)
            for i, (X, y, own) in enumerate(zip(Xs, ys, dealt, strict=True)):
                used = own != fold
                if used.any():
                    share = 1.0 / used.sum() if scale == "mean" else 1.0
                    K[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] += share * X[used].T @ X[used]
                    b[2 * i : 2 * i + 2] += share * X[used].T @ y[used]
            W = np.linalg.solve(K, b).reshape(5, 2)
            errors = [
                0.5 * (X[own == fold] @ w - y[own == fold]) ** 2 for X, y, own, w in zip(Xs, ys, dealt, W, strict=True)
            ]
            assert result.errors[fold, k] == pytest.approx(np.concatenate(errors).mean(), rel=1e-9)
    assert (result.relative_gaps <= 1e-12).all()


def test_logistic_losses() -> None:
    """The error of a logistic loss is the log loss of the held-out points."""
    rng = np.random.default_rng(1)
    data = [(rng.normal(size=(8, 2)), rng.permuted([0, 1] * 4)) for _ in range(3)]
    losses = [gtv.Logistic(X, y) + gtv.Ridge(X[:0], y[:0], lam=0.2) for X, y in data]
    problem = gtv.GTVMin(nx.path_graph(3), losses, penalty=gtv.Norm(2), alpha=1.0)
    result = problem.cross_validate([0.05], folds=2, seed=0, gap=1e-9)
    dealt = assign_folds([8, 8, 8], 2, seed=0)
    training = [
        gtv.Logistic(X[own != 0], y[own != 0]) + gtv.Ridge(X[:0], y[:0], lam=0.2)
        for (X, y), own in zip(data, dealt, strict=True)
    ]
    trained = gtv.GTVMin(nx.path_graph(3), training, penalty=gtv.Norm(2), alpha=0.05)
    W = trained.solve("cvxpy").weights
    truth = np.concatenate([y[own == 0] for (_, y), own in zip(data, dealt, strict=True)])
    scores = np.concatenate([X[own == 0] @ w for (X, _), own, w in zip(data, dealt, W, strict=True)])
    assert result.errors[0, 0] == pytest.approx(log_loss(truth, 1 / (1 + np.exp(-scores))), rel=1e-4)


def test_weighted_points() -> None:
    """A weight of two is a point counted twice; a point of weight zero has no part."""
    loss = gtv.SquaredError([[1.0]] * 4, [0.0, 1.0, 2.0, 9.0], sample_weight=[2.0, 1.0, 1.0, 0.0])
    problem = gtv.GTVMin(nx.empty_graph(1), [loss], penalty=gtv.Norm(2), alpha=0.0)
    own = assign_folds([4], 2, seed=0)[0]
    result = problem.cross_validate([0.0], folds=2, seed=0)
    y, weight = np.array([0.0, 1.0, 2.0, 9.0]), np.array([2.0, 1.0, 1.0, 0.0])
    for fold in range(2):
        train, test = own != fold, own == fold
        w = (weight * y)[train].sum() / weight[train].sum()
        error = (weight * (y - w) ** 2)[test].sum() / weight[test].sum()
        assert result.errors[fold, 0] == pytest.approx(error, rel=1e-9)


def test_clusters_are_found_out() -> None:
    """Two clusters of devices with few points each: neither models of their own nor one for all predict best."""
    rng = np.random.default_rng(0)
    graph = nx.disjoint_union(nx.complete_graph(8), nx.complete_graph(8))
    graph.add_edge(0, 8)
    losses = []
    for i in graph.nodes:
        X = rng.normal(size=(4, 2))
        losses.append(gtv.SquaredError(X, X @ ([2.0, 0.0] if i < 8 else [-2.0, 1.0]) + 0.5 * rng.normal(size=4)))
    problem = gtv.GTVMin(graph, losses, penalty=gtv.Norm(2), alpha=1.0)
    alphas = [1e-3, 0.3, 100.0]
    result = problem.cross_validate(alphas, folds=4, seed=0)
    assert result.best_alpha == 0.3
    assert result.mean[1] < 0.5 * result.mean[[0, 2]].min()
    again = problem.cross_validate(alphas, folds=4, seed=0)
    np.testing.assert_array_equal(again.errors, result.errors)
    assert not np.array_equal(problem.cross_validate(alphas, folds=4, seed=1).errors, result.errors)
    table = result.to_frame()
    assert table.index.tolist() == alphas
    assert table["mean"].tolist() == result.mean.tolist()
    assert table.loc[0.3, "fold3"] == result.errors[3, 1]
    assert "best 0.3" in repr(result)


def test_rule_of_one_standard_error() -> None:
    """Means 3, 1, 1.5, 1.6 and a standard error of 0.55 at the least: 1.5 is within it and 1.6 is not."""
    spread = 0.55 * np.array([-1.0, 1.0])
    errors = np.array([3.0, 1.0, 1.5, 1.6]) + spread[:, None] * np.array([0.1, 1.0, 0.1, 0.1])
    result = CrossValidation(np.array([0.1, 1.0, 5.0, 9.0]), errors, np.zeros((2, 4)))
    assert result.standard_error[1] == pytest.approx(0.55)
    assert result.best_alpha == 1.0
    assert result.one_standard_error_alpha == 5.0
    tied = CrossValidation(np.array([2.0, 4.0, 3.0]), np.ones((2, 3)), np.zeros((2, 3)))
    assert tied.best_alpha == tied.one_standard_error_alpha == 4.0


def test_a_single_point_is_predicted_by_the_neighbours() -> None:
    """Three devices of one point each, y = 1, 1, 4, fully coupled: each is predicted by the mean of the other two."""
    losses = [gtv.SquaredError([[1.0]], [y]) for y in (1.0, 1.0, 4.0)]
    problem = gtv.GTVMin(nx.complete_graph(3), losses, penalty=gtv.Norm(1), alpha=1.0)
    result = problem.cross_validate([50.0], folds=3, gap=1e-10)
    assert sorted(result.errors[:, 0]) == pytest.approx([2.25, 2.25, 9.0], abs=1e-4)


def test_taking_rows() -> None:
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    part = gtv.Ridge(X, y, lam=0.5, penalise=[1, 0], scale="sum", sample_weight=[1, 2, 3, 4]).take([3, 1])
    expected = gtv.Ridge(X[[3, 1]], y[[3, 1]], lam=0.5, penalise=[1, 0], scale="sum", sample_weight=[4, 2])
    assert part.value([0.3, -1.0]) == expected.value([0.3, -1.0])
    both = 2 * gtv.SquaredError(X, y) + gtv.Ridge(X, -y, lam=1.0)
    w = [0.5, -0.25]
    taken = both.take([1, 4, 7])  # the second of the first term, the first and the last of the second
    expected = 2 * gtv.SquaredError(X[[1]], y[[1]]) + gtv.Ridge(X[[0, 3]], -y[[0, 3]], lam=1.0)
    assert taken.value(w) == pytest.approx(expected.value(w), rel=1e-14)
    assert [type(atom) for _, atom in both.data_terms()] == [gtv.SquaredError, gtv.SquaredError]
    assert gtv.Zero(2).take([]).n_samples == 0
    assert gtv.SquaredError(X, y, sample_weight=[0, 0, 1, 1]).take([0, 1]).n_samples == 0
    for loss in (both, gtv.SquaredError(X, y)):
        with pytest.raises(IndexError):
            loss.take([8])


class Closed(QuadraticLoss):
    """A loss with data points that are no arguments."""

    dim = 1
    n_samples = 3

    def arguments(self) -> dict[str, Any]:
        return {}

    def rows(self, dim: int) -> Any:
        return np.ones((3, 1)), np.zeros(3), np.ones(3)


def test_wrong_arguments() -> None:
    problem = gtv.GTVMin(nx.path_graph(2), [gtv.Zero(1)] * 2, penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(ValueError, match="0 data points"):
        problem.cross_validate([1.0])
    with pytest.raises(ValueError, match="folds must be at least 2"):
        problem.cross_validate([1.0], folds=1)
    with pytest.raises(TypeError, match="folds must be an integer"):
        problem.cross_validate([1.0], folds=2.5)  # type: ignore[arg-type]
    closed = gtv.GTVMin(nx.empty_graph(1), [Closed()], penalty=gtv.Norm(2), alpha=1.0)
    with pytest.raises(CapabilityError, match="has to define take"):
        closed.cross_validate([1.0], folds=2)


def test_other_losses_must_fit_the_problem() -> None:
    problem = gtv.GTVMin(nx.path_graph(2), [gtv.SquaredError([[1.0]], [1.0])] * 2, penalty=gtv.Norm(2), alpha=1.0)
    other = problem.with_losses([gtv.SquaredError([[2.0]], [1.0]), gtv.Zero()])
    assert other.alpha == 1.0
    assert other.objective([[0.5], [0.5]]) == 0.0
    with pytest.raises(ValueError, match="node 1 has 2 parameters"):
        problem.with_losses([gtv.Zero(1), gtv.SquaredError([[2.0, 1.0]], [1.0])])
