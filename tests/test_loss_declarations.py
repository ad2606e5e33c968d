"""Declaring losses: sums and multiples, what data they take, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import gtvmin as gtv
from loss_cases import Array, cases, vectors


# Sums and multiples
@given(cases(), cases(), st.floats(0.01, 100), st.data())
def test_losses_add_and_scale(first: Any, second: Any, factor: float, data: st.DataObject) -> None:
    a, b = first[0], second[0]
    if a.dim != b.dim:
        with pytest.raises(ValueError, match=rf"{min(a.dim, b.dim)}, {max(a.dim, b.dim)}.*cannot be added"):
            a + b
        return
    w = data.draw(vectors(a.dim))
    expected = factor * first[1].value(w) + second[1].value(w)
    for loss in (factor * a + b, b + a * factor, sum([factor * a, b]), sum([b, a * factor], gtv.Zero())):
        assert loss.value(w) == pytest.approx(expected, rel=1e-10, abs=1e-12)
        assert loss.dim == a.dim
        assert loss.n_samples == a.n_samples + b.n_samples
    assert (2 * (factor * a)).value(w) == pytest.approx(2 * factor * first[1].value(w), rel=1e-10, abs=1e-12)


def test_a_loss_that_fits_any_number_of_parameters() -> None:
    assert gtv.Zero().dim is None
    assert (gtv.Zero() + gtv.Zero()).dim is None
    assert (gtv.Zero() + gtv.SquaredError([[1.0, 2.0]], [3.0])).dim == 2
    assert gtv.Zero(4).dim == 4


@pytest.mark.parametrize("factor", [0, -1.0, np.nan, np.inf])
def test_factors_are_positive(factor: float) -> None:
    with pytest.raises(ValueError, match="factor of a loss"):
        factor * gtv.Zero()


@pytest.mark.parametrize("factor", ["2", None, 1j, True, [1.0, 2.0]])
def test_factors_are_numbers(factor: Any) -> None:
    with pytest.raises(TypeError):
        gtv.Zero() * factor


@pytest.mark.parametrize("other", [1, 2.0, "loss", None])
def test_only_losses_are_added(other: Any) -> None:
    with pytest.raises(TypeError):
        gtv.Zero() + other
    with pytest.raises(TypeError):
        other + gtv.Zero()


# What can be declared
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float16, bool])
def test_every_numeric_dtype_becomes_float64(dtype: Any) -> None:
    """C52 (nums issue #141, statsmodels issue #3919): 100 * 100 overflows int8, 50 - 100 uint8."""
    X = np.array([[100], [100]]).astype(dtype)
    y = np.array([1, 0] if dtype is bool else [50, 50]).astype(dtype)
    minimiser = 0.5
    loss = gtv.SquaredError(X, y)
    assert loss.X.dtype == loss.y.dtype == np.float64
    assert loss.gradient([minimiser])[0] == 0
    reference = gtv.SquaredError(X.astype(float), y.astype(float))
    assert loss.value([2]) == reference.value([2.0])
    assert loss.prox([3]).tolist() == reference.prox([3.0]).tolist()
    assert gtv.Ridge(X, y, lam=1, penalise=np.ones(1, dtype)).value([1]) == reference.value([1.0]) + 1


@pytest.mark.parametrize(
    "convert",
    [lambda X: X.tolist(), pd.DataFrame, sparse.csr_array, np.asfortranarray, lambda X: X[::-1][::-1]],
)
def test_other_containers(convert: Callable[[Array], Any]) -> None:
    X, y = np.array([[1.0, 2.0], [3.0, 0.0]]), np.array([1.0, 2.0])
    plain = gtv.SquaredError(X, y)
    for labels in (y, y.tolist(), pd.Series(y, index=["a", "b"]), y[:, None]):
        assert gtv.SquaredError(convert(X), labels).value([1.0, 1.0]) == plain.value([1.0, 1.0])
    mixed = pd.DataFrame({"rooms": [1, 3], "area": [2.0, 0.0]}).astype(object)
    assert gtv.SquaredError(mixed, y).value([1.0, 1.0]) == plain.value([1.0, 1.0])


@pytest.mark.parametrize("bad", [[["a"], ["b"]], [[1j], [1.0]], [[None], [1.0]], [[object()], [1.0]]])
def test_data_are_real_numbers(bad: Any) -> None:
    """C52: text, complex numbers, None and objects."""
    with pytest.raises(TypeError, match="X must hold real numbers"):
        gtv.SquaredError(bad, [0.0, 0.0])
    with pytest.raises(TypeError, match="y must hold real numbers"):
        gtv.SquaredError([[1.0], [1.0]], np.ravel(np.array(bad)))
    with pytest.raises(TypeError, match="penalise must hold real numbers"):
        gtv.Ridge([[1.0, 1.0]], [1.0], lam=1.0, penalise=np.ravel(np.array(bad)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_data_are_finite(bad: float) -> None:
    """C15 (cvxpy issue #1770): the message says where."""
    with pytest.raises(ValueError, match=r"X has a .* value at position \(1, 0\)"):
        gtv.SquaredError([[1.0, 1.0], [bad, 1.0]], [0.0, 0.0])
    with pytest.raises(ValueError, match=r"y has a .* value at position 1"):
        gtv.SquaredError([[1.0], [1.0]], [0.0, bad])
    with pytest.raises(ValueError, match="lam must be"):
        gtv.Ridge([[1.0]], [1.0], lam=bad)
    with pytest.raises(ValueError, match=r"w has a .* value"):
        gtv.SquaredError([[1.0]], [1.0]).value([bad])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones((3, 2)), np.ones(4), "one entry per row of X"),
        (np.ones((2, 2)), np.ones((2, 2)), "one entry per row of X"),
        (np.ones((2, 1)), np.ones((1, 2)), "one entry per row of X"),
        (np.ones(3), np.ones(3), r"X must have shape \(rows, features\)"),
        (np.ones((2, 2, 2)), np.ones(2), r"X must have shape \(rows, features\)"),
        (1.0, 1.0, r"X must have shape \(rows, features\)"),
        (np.ones((3, 0)), np.ones(3), "X has no columns"),
    ],
)
def test_shapes_fit(X: Any, y: Any, message: str) -> None:
    """C54 (TheAlgorithms PR #13615): nothing is broadcast."""
    with pytest.raises(ValueError, match=message):
        gtv.SquaredError(X, y)
    with pytest.raises(ValueError, match=message):
        gtv.Ridge(X, y, lam=1.0)


def test_settings_are_checked() -> None:
    X, y = [[1.0, 2.0]], [1.0]
    with pytest.raises(ValueError, match=r"scale must be 'mean' or 'sum', got 'half'"):
        gtv.SquaredError(X, y, scale="half")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="lam must be a finite number >= 0"):
        gtv.Ridge(X, y, lam=-1.0)
    with pytest.raises(TypeError, match="lam must be a real number"):
        gtv.Ridge(X, y, lam="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"penalise must be >= 0, got -3 at position 1"):
        gtv.Ridge(X, y, lam=1.0, penalise=[1.0, -3.0])
    with pytest.raises(ValueError, match=r"penalise must have one factor per column of X \(2\)"):
        gtv.Ridge(X, y, lam=1.0, penalise=[1.0])
    with pytest.raises(ValueError, match="size must be >= 1"):
        gtv.Zero(0)
    with pytest.raises(TypeError, match="size must be an integer"):
        gtv.Zero(2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["value", "gradient", "prox", "conjugate"])
def test_points_have_the_right_shape(method: str) -> None:
    evaluate = getattr(gtv.SquaredError([[1.0, 2.0]], [1.0]), method)
    for bad in ([1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0):
        with pytest.raises(ValueError, match="vector of 2 parameters"):
            evaluate(bad)


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf])
def test_steps_are_positive(step: float) -> None:
    with pytest.raises(ValueError, match="step must be"):
        gtv.SquaredError([[1.0]], [1.0]).prox([0.0], step)


def test_declared_data_belong_to_the_loss() -> None:
    """Inputs are copied and never changed; what the loss holds cannot be."""
    X, y, c = np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([1.0, -1.0]), np.array([1.0, 0.0])
    copies = X.copy(), y.copy(), c.copy()
    plain, ridge = gtv.SquaredError(X, y), gtv.Ridge(X, y, lam=0.5, penalise=c)
    w = np.array([1.0, 1.0])
    for loss in (plain, ridge, 2 * plain + ridge):
        for method in (loss.value, loss.gradient, loss.prox, loss.conjugate):
            method(w)
    for given_array, copy in zip((X, y, c), copies, strict=True):
        np.testing.assert_array_equal(given_array, copy)
        assert given_array.flags.writeable
    assert w.tolist() == [1.0, 1.0]
    before = plain.value(w), ridge.value(w)
    X[:], y[:], c[:] = 9.0, 9.0, 9.0
    assert (plain.value(w), ridge.value(w)) == before
    for array in (plain.X, plain.y, ridge.data.X, ridge.penalise):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5.0
    with pytest.raises(AttributeError):
        plain.scale = "sum"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        ridge.lam = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    "loss",
    [
        gtv.SquaredError([[1.0, 2.0]], [3.0], scale="sum"),
        gtv.Ridge([[1.0, 2.0]], [3.0], lam=0.5, penalise=[0.0, 2.0]),
        gtv.Zero(2),
    ],
)
def test_arguments_declare_the_same_loss(loss: gtv.Loss) -> None:
    again = type(loss)(**loss.arguments())
    assert repr(again) == repr(loss)
    w = [0.5, -2.0]
    assert again.value(w) == loss.value(w)
    assert again.gradient(w).tolist() == loss.gradient(w).tolist()
    assert repr(3 * loss + loss) == f"3 * {loss!r} + {loss!r}"
