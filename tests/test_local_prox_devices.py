"""Proximal maps of losses: stacks of devices, and rows of every kind, number and size."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import gtvmin as gtv
from gtvmin.errors import CapabilityError
from gtvmin.losses.interval import IntervalBlocks
from gtvmin.losses.local import LocalBlocks
from gtvmin.losses.logistic import LogisticBlocks
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.stacking import stack_losses
from gtvmin.solvers.linear_maps import NodeRows
from gtvmin.solvers.standard_form import BlockFunction, Term
from local_prox_cases import LABELS, RNG, TIGHT, X, Y


# Stacks
def mixed_losses(n: int, rng: np.random.Generator) -> list[gtv.Loss]:
    """Losses of every kind, with 20 rows of 5 features each."""
    losses = []
    for i in range(n):
        A = rng.normal(size=(20, 5))
        y = A @ rng.normal(size=5) + rng.normal(size=20)
        c = np.where(y > 0, 1.0, -1.0)
        losses.append(
            [
                lambda A=A, y=y, c=c: gtv.LeastAbsolute(A, y),
                lambda A=A, y=y, c=c: gtv.Logistic(A, c) + 0.1 * gtv.L1(),
                lambda A=A, y=y, c=c: gtv.SquaredError(A, y) + gtv.NonNegative(),
                lambda A=A, y=y, c=c: gtv.Hinge(A, c),
                lambda A=A, y=y, c=c: gtv.Huber(A, y),
                lambda A=A, y=y, c=c: gtv.L1(),
                lambda A=A, y=y, c=c: gtv.SquaredError(A, y),
                lambda A=A, y=y, c=c: gtv.Zero(),
                lambda A=A, y=y, c=c: gtv.Poisson(0.2 * A, np.round(np.abs(y))) + gtv.Ball(1.0),
                lambda A=A, y=y, c=c: gtv.Simplex() + gtv.Quantile(A, y, tau=0.3),
            ][i % 10]()
        )
    return losses


def test_a_stack_treats_each_device_by_itself() -> None:
    rng = np.random.default_rng(2)
    losses = mixed_losses(2000, rng)
    block = stack_losses(losses, 5)
    V, step = rng.normal(size=(2000, 5)), 10.0 ** rng.uniform(-2, 2, size=2000)
    W = block.prox(V, step)
    S = (V - W) / step[:, None]
    values = block.conjugate(S)
    assert np.isfinite(values).all()
    for i in range(0, 2000, 67):
        np.testing.assert_allclose(losses[i].prox(V[i], step[i]), W[i], rtol=0, atol=1e-13)
        assert losses[i].conjugate(S[i]) == pytest.approx(values[i], rel=1e-11, abs=1e-11)
    gaps = block.fenchel_young(W, S)
    assert gaps.shape == (2000,)
    assert gaps.max() < 1e-11
    np.testing.assert_array_equal(V, V.copy())


def test_capabilities() -> None:
    kinked = stack_losses([gtv.LeastAbsolute(X, Y)], 3)
    assert kinked.capabilities == {"prox", "conjugate"}
    assert stack_losses([gtv.Logistic(X, LABELS)], 3).capabilities == {"prox", "conjugate", "gradient"}
    with pytest.raises(CapabilityError, match=r"L1\(\).*not smooth"):
        (gtv.SquaredError(X, Y) + gtv.L1()).gradient(np.ones(3))


# Corners
def test_losses_without_rows_or_with_zero_rows() -> None:
    v = np.array([1.0, -2.0, 3.0])
    empty = gtv.LeastAbsolute(np.empty((0, 3)), [])
    np.testing.assert_array_equal(empty.prox(v), v)
    assert empty.conjugate(np.zeros(3)) == 0
    assert empty.conjugate(v) == np.inf
    dead = gtv.LeastAbsolute(np.zeros((2, 3)), [1.0, -3.0])
    np.testing.assert_array_equal(dead.prox(v, 5.0), v)
    assert dead.conjugate(np.zeros(3)) == pytest.approx(-2.0)
    mixed = gtv.Logistic(np.zeros((1, 3)), [1], scale="sum") + gtv.Softmax(np.zeros((1, 1)), [0], classes=3) + gtv.L1()
    np.testing.assert_allclose(mixed.prox(v, 1.0), [0.0, -1.0, 2.0], atol=1e-15)


def test_repeated_and_dependent_rows_change_nothing() -> None:
    v = np.array([0.5, 0.5, 0.5])
    once = gtv.LeastAbsolute(X, Y).prox(v, 2.0)
    np.testing.assert_allclose(gtv.LeastAbsolute(np.tile(X, (4, 1)), np.tile(Y, 4)).prox(v, 2.0), once, atol=1e-14)
    walls = gtv.Affine(np.tile([[1.0, 2.0, 3.0]], (5, 1)), np.ones(5))
    expected = v + np.array([1.0, 2.0, 3.0]) * (1 - v @ [1.0, 2.0, 3.0]) / 14
    np.testing.assert_allclose(walls.prox(v), expected, atol=1e-15)


def test_contradictory_constraints_are_an_error() -> None:
    nowhere = gtv.Box(0.0, 1.0) + gtv.Affine([[1.0, 1.0, 1.0]], [4.0])
    for act in (nowhere.prox, nowhere.conjugate):
        with pytest.raises(ValueError, match="no parameters obey all constraints"):
            act(np.array([1.0, 2.0, 3.0]))
    with pytest.raises(ValueError, match="position 1"):
        stack_losses([gtv.L1(), nowhere], 3).prox(np.zeros((2, 3)), np.ones(2))


def test_large_devices() -> None:
    """More rows than parameters, and more of them at a kink than there are parameters."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(400, 12))
    y = np.round(A @ rng.normal(size=12))
    loss, v, step = gtv.Huber(A, y, delta=1e-3), rng.normal(size=12), 1e4
    w = loss.prox(v, step)
    residual = 2e-3 * np.clip((A @ w - y) / 1e-3, -1, 1) @ A / 400
    np.testing.assert_allclose(w + step * residual, v, atol=1e-9)


class _Strange(BlockFunction):
    capabilities = frozenset({"prox"})

    def __init__(self) -> None:
        self.n_rows, self.dim = 1, 1


def test_a_function_without_formula_needs_a_cone_program() -> None:
    quadratic = QuadraticBlocks.stack([[]], 1)
    block = LocalBlocks(quadratic, (Term(NodeRows(np.zeros(1, dtype=int), np.ones((1, 1)), 1), _Strange()),))
    with pytest.raises(TypeError, match="_Strange"):
        block.prox(np.zeros((1, 1)), np.ones(1))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
def test_losses_that_only_cvxpy_knows() -> None:
    loss = gtv.CvxpyLoss(lambda w: cp.norm(w, 1.5), 3) + gtv.SquaredError(X, Y) + 0.1 * gtv.L1()
    v, step = np.array([1.0, -1.0, 2.0]), 0.5
    w = cp.Variable(3)
    cost = cp.norm(w, 1.5) + cp.sum_squares(X @ w - Y) / 7 + 0.1 * cp.norm1(w) + cp.sum_squares(w - v) / (2 * step)
    cp.Problem(cp.Minimize(cost)).solve(**TIGHT)
    found = loss.prox(v, step)
    np.testing.assert_allclose(found, w.value, atol=1e-5)
    s = (v - found) / step
    assert loss.conjugate(s) == pytest.approx(s @ found - loss.value(found), abs=1e-7)
    # beside others in a stack
    block = stack_losses([gtv.L1(), loss], 3)
    both = block.prox(np.array([v, v]), np.array([1.0, step]))
    np.testing.assert_array_equal(both[0], [0.0, 0.0, 1.0])
    np.testing.assert_allclose(both[1], found, atol=1e-9)
    assert block.fenchel_young(both, np.array([[1.0, -1.0, 1.0], s])).max() < 1e-7


def test_rows_given_as_arrays() -> None:
    """A stack from its parts: one device of absolute values and logistic functions, two of squares alone."""
    A = RNG.normal(size=(6, 2))
    quadratic = QuadraticBlocks(A, A[:, 0], np.ones(6), np.array([0, 3, 3]), np.zeros((3, 2)), np.zeros(3))
    inner = IntervalBlocks(-np.ones(2), np.ones(2), np.array([0.5, -0.5]), np.array([0.5, -0.5]), np.zeros(2))
    rows = (
        Term(NodeRows(np.zeros(2, dtype=int), A[:2], 3), inner),
        Term(NodeRows(np.zeros(2, dtype=int), A[2:4], 3), LogisticBlocks(np.ones(2))),
    )
    V, step = RNG.normal(size=(3, 2)), np.array([0.5, 1.0, 2.0])
    W = LocalBlocks(quadratic, rows).prox(V, step)
    w = cp.Variable(2)
    cost = cp.norm1(A[:2] @ w - np.array([0.5, -0.5])) + cp.sum(cp.logistic(-A[2:4] @ w)) + cp.sum_squares(w - V[0])
    cp.Problem(cp.Minimize(cost)).solve(**TIGHT)
    np.testing.assert_allclose(W[0], w.value, atol=1e-7)
    np.testing.assert_array_equal(W[1:], quadratic.prox(V, step)[1:])
