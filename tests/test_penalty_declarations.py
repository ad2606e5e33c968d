"""Declaring penalties: what is refused, copies, equality."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import gtvmin.penalties
from gtvmin.penalties import (
    Consensus,
    FlowCost,
    HuberPenalty,
    Mapped,
    Norm,
    Partial,
    Penalty,
    PerEdge,
    PredictionDiscrepancy,
    SquaredNorm,
)
from penalty_cases import DIFFERENCES, PENALTIES, X


# What can be declared
@pytest.mark.parametrize(
    ("given_p", "p"), [(1, 1), (2.0, 2), ("inf", np.inf), (np.inf, np.inf), ("1", 1), (np.int64(2), 2)]
)
def test_orders(given_p: Any, p: float) -> None:
    assert Norm(given_p).p == p
    assert isinstance(Norm(given_p).p, float)
    assert Norm(given_p) == Norm(p)
    assert hash(Norm(given_p)) == hash(Norm(p))
    assert Norm() == Norm(2) != Norm(1)


@pytest.mark.parametrize("p", [0, 3, 1.5, -1, np.nan, -np.inf, True, None, "two", "3"])
def test_other_orders_are_refused(p: Any) -> None:
    with pytest.raises(ValueError, match="p must be 1, 2 or inf"):
        Norm(p)


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_penalties_are_immutable_values(penalty: Penalty) -> None:
    assert type(penalty)(**penalty.arguments()) == penalty
    assert pickle.loads(pickle.dumps(penalty)) == copy.deepcopy(penalty) == penalty
    assert hash(penalty) == hash(copy.deepcopy(penalty))
    if not isinstance(penalty, PredictionDiscrepancy) and "<" not in repr(penalty):
        assert eval(repr(penalty), {**vars(gtvmin.penalties), "inf": np.inf}) == penalty
    with pytest.raises(AttributeError):
        penalty.p = 1.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("penalty", DIFFERENCES, ids=repr)
def test_arguments_are_checked_and_left_alone(penalty: Penalty) -> None:
    z = np.array([3, -4], dtype=np.int8)
    for method in (penalty.value, penalty.prox, penalty.conjugate):
        method(z)
        for bad, error in (([1j], TypeError), (["a"], TypeError), ([None], TypeError), ([np.nan], ValueError)):
            with pytest.raises(error):
                method(bad)
        with pytest.raises(ValueError, match="must be a vector"):
            method([[1.0, 2.0]])
    assert z.tolist() == [3, -4]
    assert penalty.value(np.array([100, 100], dtype=np.int8)) == penalty.value([100.0, 100.0])
    for step in (0.0, -1.0, np.inf):
        with pytest.raises(ValueError, match="step must be"):
            penalty.prox([1.0], step)
    with pytest.raises(TypeError, match="step must be a real number"):
        penalty.prox([1.0], "1")  # type: ignore[arg-type]


# Arguments that are no numbers, and those that do not fit one another
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: HuberPenalty(0.0), ValueError, "delta must be > 0"),
    (lambda: HuberPenalty("1"), TypeError, "delta must be a real number"),
    (lambda: FlowCost(1.0, -1.0), ValueError, "capacity must be >= 0, got -1"),
    (lambda: FlowCost(1.0, [1.0, -2.0]), ValueError, "capacity must be >= 0, got -2 at position 1"),
    (lambda: FlowCost(1.0, np.inf), ValueError, "capacity has a inf value"),
    (lambda: FlowCost(1.0, 1.0, back_capacity=-1.0), ValueError, "back_capacity must be >= 0"),
    (lambda: FlowCost(1.0, 1.0, -2.0), ValueError, "cost 1 and back_cost -2 add up to less than 0"),
    (lambda: FlowCost([0.0, -1.0], 1.0), ValueError, "cost -1 and back_cost -1 at position 1"),
    (lambda: FlowCost([1.0, 1.0], [1.0, 1.0, 1.0]), ValueError, r"one entry per edge each, got cost \(2,\)"),
    (lambda: FlowCost(np.ones((2, 2)), 1.0), ValueError, "cost must be one number or one per edge"),
    (lambda: FlowCost(True, 1.0), TypeError, "cost must be a real number"),
    (lambda: FlowCost(None, 1.0), TypeError, "cost must hold real numbers"),
    (lambda: FlowCost([1.0, 2.0], 1.0).value([1.0]), ValueError, "evaluate the penalty of one edge"),
    (lambda: FlowCost({("a", "b"): 1.0}, 1.0).value([1.0]), ValueError, "need a network"),
    (lambda: PredictionDiscrepancy(), TypeError, "either test points X or matrices"),
    (lambda: PredictionDiscrepancy(X, matrices=np.eye(3)), TypeError, "either test points X or matrices"),
    (lambda: PredictionDiscrepancy(X, scale="median"), ValueError, "scale must be 'mean' or 'sum'"),
    (lambda: PredictionDiscrepancy(X[0]), ValueError, "X must have shape"),
    (lambda: PredictionDiscrepancy(np.empty((0, 3))), ValueError, "neither of them 0"),
    (lambda: PredictionDiscrepancy({("a", "b"): [[np.nan]]}), ValueError, r"X of the edge \('a', 'b'\) has a nan"),
    (lambda: PredictionDiscrepancy(matrices=X), ValueError, "must be a square matrix"),
    (lambda: PredictionDiscrepancy(matrices=[[1.0, 1.0], [0.0, 1.0]]), ValueError, "must be symmetric"),
    (
        lambda: PredictionDiscrepancy(matrices=[[1.0, 2.0], [2.0, 1.0]]),
        ValueError,
        "got the eigenvalue -1",
    ),
    (lambda: PredictionDiscrepancy(X).value([1.0]), ValueError, "z must be a vector of 3 numbers"),
    (lambda: Partial(3.0, [0]), TypeError, "penalty must be one of differences"),
    (lambda: Partial(Mapped(Norm(2), (X, X)), [0]), TypeError, "penalty must be one of differences"),
    (lambda: Partial(Norm(2), []), ValueError, "coordinates is empty"),
    (lambda: Partial(Norm(2), [-1]), ValueError, "coordinates must be >= 0, got -1"),
    (lambda: Partial(Norm(2), [1, 1]), ValueError, "coordinates repeat"),
    (lambda: Partial(Norm(2), [0.5]), TypeError, "coordinates must be integers"),
    (lambda: Partial(Norm(2), [3]).value([1.0]), ValueError, r"z must be a vector with the coordinates \(3,\)"),
    (lambda: Mapped(Partial(Norm(2), [0]), (X, X)), TypeError, "penalty must be one of plain differences"),
    (lambda: Mapped(Consensus(), (X, X)), ValueError, "not supported: take SquaredNorm"),
    (lambda: Mapped(Norm(2), (X[0], X[0])), ValueError, "equally many rows"),
    (lambda: Mapped(Norm(2), np.ones(3)), TypeError, r"must be a pair \(B, C\)"),
    (lambda: Mapped(Norm(2), (X, X[:1])), ValueError, r"equally many rows, got \(2, 3\) and \(1, 3\)"),
    (lambda: PerEdge([Norm(2)], [0, 1]), ValueError, "positions among the 1 kinds"),
    (lambda: PerEdge([Norm(2)], [0.5]), ValueError, "one integer per edge"),
    (lambda: PerEdge([Norm(2), 3.0], [0]), TypeError, "an edge's penalty must be a penalty"),
    (lambda: PerEdge([Norm(2)], [0]).value([1.0]), ValueError, "evaluate one of PerEdge.kinds"),
]


@pytest.mark.parametrize(("declare", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_declared(declare: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        declare()


def test_declared_arrays_are_copies_that_nobody_can_change() -> None:
    matrix, costs = np.eye(3), np.ones(2)
    discrepancy, flow, mapped = PredictionDiscrepancy(matrix), FlowCost(costs, 1.0), Mapped(Norm(2), (matrix, matrix))
    matrix[0, 0] = costs[0] = 7.0
    assert discrepancy.value([1.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert flow.cost.tolist() == [1.0, 1.0]
    for penalty in (discrepancy, flow, mapped):
        for again in (penalty, copy.deepcopy(penalty), pickle.loads(pickle.dumps(penalty))):
            assert again == penalty
            for value in again.arguments().values():
                for array in value if isinstance(value, tuple) else (value,):
                    if isinstance(array, np.ndarray):
                        with pytest.raises(ValueError, match="read-only"):
                            array[...] = 0.0


def test_penalties_are_equal_by_what_they_declare() -> None:
    assert FlowCost([1.0, 2.0], 1.0) == FlowCost(np.array([1.0, 2.0]), 1.0)
    assert FlowCost([1.0, 2.0], 1.0) != FlowCost([1.0, 2.5], 1.0)
    assert Partial(Norm(2), [0, 1]) != Partial(Norm(1), [0, 1])
    assert Mapped(Norm(2), (X, X)) != Mapped(Norm(2), (X, 2 * X))
    assert PredictionDiscrepancy(X) != PredictionDiscrepancy(X, scale="sum")
    assert HuberPenalty(1.0) != SquaredNorm()
    assert len({Consensus(), Consensus(), HuberPenalty(1), HuberPenalty(1.0), Partial(Norm(2), [0])}) == 3
