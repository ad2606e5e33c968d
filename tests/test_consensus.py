"""Devices in consensus: a constraint, or an infinite alpha."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from coupling_problems import (
    FEATURES,
    FLOW,
    LABELS,
    LOSSES,
    NET,
    NODES,
    PAIRS,
    PENALTIES,
    TALL,
    TIGHT,
    Array,
    optimum,
    problem_of,
    rng,
    solved,
)
from gtvmin.errors import NotUniqueWarning
from gtvmin.penalties import Penalty


def test_consensus_is_weighted_least_squares() -> None:
    """All devices of a component share the minimiser of ``sum (1/m_i) ||y_i - X_i w||^2``, to the bit."""
    weights = [4.0, 2.0, 1.0, 3.0, 0.5, 1.0]
    losses = [
        c * gtv.SquaredError(X[:m], y[:m])
        for c, X, y, m in zip(weights, FEATURES, LABELS, (4, 2, 1, 3, 4, 2), strict=True)
    ]
    rows = np.concatenate(
        [np.sqrt(c / len(x)) * x for c, loss in zip(weights, losses, strict=True) for x in [loss.terms()[0][1].X]]
    )
    labels = np.concatenate(
        [np.sqrt(c / len(x)) * x for c, loss in zip(weights, losses, strict=True) for x in [loss.terms()[0][1].y]]
    )
    expected = np.linalg.lstsq(rows, labels)[0]
    for penalty, alpha in (
        (gtv.Consensus(), 1.0),
        (gtv.Norm(2), np.inf),
        (gtv.SquaredNorm(), np.inf),
        (gtv.HuberPenalty(1.0), np.inf),
    ):
        problem = gtv.GTVMin(NET, losses, penalty=penalty, alpha=alpha)
        for method in ("auto", "primal_dual", "adaptive_primal_dual", "linear_system", "cvxpy"):
            solution = solved(problem, method, gap=1e-9)
            assert (solution.weights == solution.weights[0]).all()
            tolerance = 1e-9 if method in ("auto", "linear_system") else 1e-6
            np.testing.assert_allclose(solution.weights[0], expected, rtol=tolerance)
            assert solution.certificate.relative_gap < tolerance
            # flows balance the gradients: -(D^T U)_i is the gradient of L_i
            net_flow = -NET.incidence().T @ solution.flows
            gradients = [loss.gradient(expected) for loss in losses]
            np.testing.assert_allclose(net_flow, gradients, atol=1e-5)


def test_consensus_is_the_limit_of_strong_coupling() -> None:
    """The distance of the solution decreases like 1 / alpha."""
    limit = solved(problem_of("full_rank", gtv.Consensus()), gap=1e-10).weights
    errors = []
    for alpha in (1e2, 1e4, 1e6):
        strong = solved(problem_of("full_rank", gtv.SquaredNorm(), alpha), "linear_system", gap=1e-9).weights
        errors.append(float(np.abs(strong - limit).max()))
    assert errors[0] > 50 * errors[1] > 2500 * errors[2] > 0
    # a norm reaches it exactly
    exact = solved(problem_of("full_rank", gtv.Norm(2), 1e3), gap=1e-10).weights
    np.testing.assert_allclose(exact, limit, atol=1e-5)


@pytest.mark.parametrize("kind", LOSSES)
def test_the_certificate_of_a_consensus_is_as_tight_as_that_of_the_pooled_problem(kind: str) -> None:
    """At any common w the gap is ``F(w) - min F`` with F the sum of the losses, for flows from the gradients."""
    problem = problem_of(kind, gtv.Consensus())
    w = np.array([0.3, -0.2, 0.1])
    pooled = sum(problem.losses[1:], problem.losses[0])
    best = optimum({"pool": gtv.SquaredError(*stacked(problem.losses), scale="sum")}, [])
    suboptimality = pooled.value(w) - len_of_pool(problem.losses) * best[0]
    certificate = gtv.certify(problem, np.tile(w, (6, 1)))
    assert certificate.gap == pytest.approx(suboptimality, rel=1e-6)
    # whatever flows come in, those inside the group are found from the gradients
    noisy = gtv.certify(problem, np.tile(w, (6, 1)), rng.standard_normal((6, 3)))
    assert noisy.gap == pytest.approx(suboptimality, rel=1e-6)
    assert not certificate.per_edge.any()


def stacked(losses: tuple[gtv.Loss, ...]) -> tuple[Array, Array]:
    """Rows and labels of all squared errors in units in which their plain sum of squares is the sum of the losses."""
    atoms = [loss for loss in losses if isinstance(loss, gtv.SquaredError)]
    X = np.concatenate([loss.X / np.sqrt(len(loss.y)) for loss in atoms])
    return X, np.concatenate([loss.y / np.sqrt(len(loss.y)) for loss in atoms])


def len_of_pool(losses: tuple[gtv.Loss, ...]) -> int:
    """The model of ``optimum`` divides by the number of rows."""
    return len(stacked(losses)[1])


def test_parameters_that_disagree_are_infinitely_bad() -> None:
    problem = problem_of("full_rank", gtv.Consensus())
    W = np.zeros((6, 3))
    W[0, 0] = 1e-100
    certificate = gtv.certify(problem, W)
    assert certificate.primal == certificate.gap == certificate.relative_gap == np.inf
    assert certificate.violation[0] == 1e-100


def test_groups_in_consensus_with_other_edges_between_and_within() -> None:
    """Two groups of three devices, a norm between them, and a norm inside one, which vanishes."""
    inside = [("a", "b", 1.0), ("b", "c", 1.0), ("d", "e", 1.0), ("f", "d", 2.0)]
    between = [("a", "d", 0.5), ("c", "f", 0.25), ("a", "c", 9.0)]
    losses = {node: LOSSES["rank_deficient"](i) for i, node in enumerate(NODES)}
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges(inside, nodes=NODES), losses, penalty=gtv.Consensus(), alpha=1.0)
    problem = problem.couple(gtv.FLNetwork.from_edges(between), gtv.Norm(2), 0.2)
    best, w = optimum(losses, [(inside, gtv.Consensus(), 1.0), (between, gtv.Norm(2), 0.2)])
    for method in ("auto", "primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-9)
        assert solution.objective == pytest.approx(best, rel=1e-7)
        assert (solution.weights[:3] == solution.weights[0]).all()
        assert (solution.weights[3:] == solution.weights[3]).all()
        np.testing.assert_allclose(solution.weights, [w[node] for node in NODES], atol=1e-4)
    assert problem.lowered.solver_form.n_nodes == 2
    assert len(problem.lowered.solver_form.couplings[0].map.ends[0]) == 2
    again = problem.solve(start=solution, gap=1e-9)
    assert again.iterations <= 1


def test_a_consensus_can_hold_constrained_and_other_losses() -> None:
    losses = [
        gtv.SquaredError(X, y) + gtv.NonNegative() + 0.1 * gtv.L1() for X, y in zip(FEATURES, LABELS, strict=True)
    ]
    problem = gtv.GTVMin(NET, losses, penalty=gtv.Consensus(), alpha=1.0)
    w = cp.Variable(3)
    value = sum(cp.sum_squares(X @ w - y) / 4 for X, y in zip(FEATURES, LABELS, strict=True)) + 0.6 * cp.norm(w, 1)
    best = cp.Problem(cp.Minimize(value), [w >= 0]).solve(**TIGHT)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert (solution.weights == solution.weights[0]).all()


def test_partial_consensus_agrees_to_the_bit() -> None:
    """Shared coordinates are the pooled fit's, personal ones each device's own given those: a block least squares."""
    problem = problem_of("full_rank", gtv.Partial(gtv.Consensus(), [1, 2]))
    columns = np.zeros((24, 2 + 6))
    for i, X in enumerate(FEATURES):
        columns[4 * i : 4 * i + 4, :2], columns[4 * i : 4 * i + 4, 2 + i] = X[:, 1:], X[:, 0]
    expected = np.linalg.lstsq(columns, LABELS.ravel())[0]
    for method in ("primal_dual", "adaptive_primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-10)
        assert (solution.weights[:, 1:] == solution.weights[0, 1:]).all()
        np.testing.assert_allclose(solution.weights[0, 1:], expected[:2], atol=1e-4)
        np.testing.assert_allclose(solution.weights[:, 0], expected[2:], atol=1e-4)


@pytest.mark.parametrize("penalty", [FLOW, PENALTIES["matrix"], gtv.Mapped(gtv.Norm(2), TALL)], ids=repr)
def test_penalties_that_become_no_consensus_need_a_finite_alpha(penalty: Penalty) -> None:
    with pytest.raises(ValueError, match="alpha must be finite"):
        problem_of("full_rank", penalty, np.inf)
    with pytest.raises(ValueError, match="alpha must be finite"):
        problem_of("full_rank", penalty, 1.0).with_alpha(np.inf)


def test_an_infinite_alpha_is_consensus_for_part_of_the_coordinates_and_edges_too() -> None:
    partial = problem_of("full_rank", gtv.Partial(gtv.Norm(2), [1, 2]), np.inf)
    same = problem_of("full_rank", gtv.Partial(gtv.Consensus(), [1, 2]))
    assert solved(partial, gap=1e-9).objective == pytest.approx(solved(same, gap=1e-9).objective, rel=1e-8)
    kinds = {pair: gtv.Norm(2) if k % 2 else gtv.HuberPenalty(1.0) for k, pair in enumerate(PAIRS)}
    every = solved(problem_of("full_rank", kinds, np.inf))
    assert (every.weights == every.weights[0]).all()


def test_a_group_in_consensus_without_enough_data_is_undetermined() -> None:
    losses = {node: gtv.SquaredError(FEATURES[i, :1], LABELS[i, :1]) for i, node in enumerate("ab")}
    net = gtv.FLNetwork.from_edges([("a", "b")])
    assert gtv.GTVMin(net, losses, penalty=gtv.Consensus(), alpha=1.0).undetermined() == ("a", "b")
    with pytest.warns(NotUniqueWarning, match="2 devices"):
        assert gtv.GTVMin(net, losses, penalty=gtv.Consensus(), alpha=1.0).solve().is_certified


def test_a_consensus_of_logistic_losses_is_the_pooled_fit() -> None:
    """Their quadratic parts are zero: all that flows between devices is what their data points ask for."""
    signs = np.where(LABELS > 0, 1.0, -1.0)
    losses = [gtv.Logistic(X, y) for X, y in zip(FEATURES, signs, strict=True)]
    problem = gtv.GTVMin(NET, losses, penalty=gtv.Consensus(), alpha=1.0)
    pooled = gtv.Logistic(FEATURES.reshape(24, 3), signs.ravel(), scale="sum")
    w = cp.Variable(3)
    best = cp.Problem(cp.Minimize(cp.sum(cp.logistic(-cp.multiply(pooled.y, pooled.X @ w))) / 4)).solve(**TIGHT)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert (solution.weights == solution.weights[0]).all()
    moved = gtv.certify(problem, solution.weights + 0.01)
    assert moved.gap == pytest.approx(moved.primal - best, rel=1e-2)
