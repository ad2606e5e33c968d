"""Losses that are sums of squares, with their formulas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import gtvmin as gtv

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Squares:
    """``sum_r omega_r (x_r^T w - y_r)^2``, evaluated in extended precision: what the losses below should be."""

    X: Array
    y: Array
    omega: Array

    @classmethod
    def of(cls, dim: int, *parts: tuple[Any, Any, Any]) -> Squares:
        """From groups of rows, targets and weights; a weight may be one number for its group."""
        blocks = [(np.reshape(X, (-1, dim)), np.ravel(y)) for X, y, _ in parts]
        weights = [np.broadcast_to(part[2], len(y)) for part, (_, y) in zip(parts, blocks, strict=True)]
        X = np.concatenate([np.empty((0, dim)), *(block[0] for block in blocks)])
        y = np.concatenate([np.empty(0), *(block[1] for block in blocks)])
        omega = np.concatenate([np.empty(0), *weights])
        return cls(*(np.asarray(a, dtype=np.longdouble) for a in (X, y, omega)))

    def value(self, w: Array) -> float:
        return float(self.omega @ (self.X @ w - self.y) ** 2)

    def gradient(self, w: Array) -> Array:
        return np.asarray(2 * self.X.T @ (self.omega * (self.X @ w - self.y)))

    def hessian(self) -> Array:
        return np.asarray(2 * self.X.T @ (self.omega[:, None] * self.X), dtype=float)

    def magnitude(self, w: Array) -> float:
        """Size of the terms whose sum is the gradient: the unit of its rounding errors."""
        terms = self.omega[:, None] * np.abs(self.X) * (np.abs(self.X) @ np.abs(w) + np.abs(self.y))[:, None]
        return float(2 * terms.sum())

    def to_cvxpy(self, w: Any) -> Any:
        root = np.sqrt(self.omega)
        return cp.sum_squares(np.asarray(root[:, None] * self.X, float) @ w - np.asarray(root * self.y, float))


Case = tuple[gtv.Loss, Squares]


def mean(X: Array, y: Array, unit: float) -> Case:
    return gtv.SquaredError(X, y), Squares.of(X.shape[1], (X, y, 1 / max(len(y), 1)))


def summed(X: Array, y: Array, unit: float) -> Case:
    return gtv.SquaredError(X, y, scale="sum"), Squares.of(X.shape[1], (X, y, 1.0))


def half(X: Array, y: Array, unit: float) -> Case:
    return 0.5 * gtv.SquaredError(X, y, scale="sum"), Squares.of(X.shape[1], (X, y, 0.5))


def ridge(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], 0.5 * unit**2
    identity = (np.eye(dim), np.zeros(dim), lam)
    return gtv.Ridge(X, y, lam=lam), Squares.of(dim, (X, y, 1 / max(len(y), 1)), identity)


def ridge_with_intercept(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], 0.5 * unit**2
    c = np.arange(dim, dtype=float)
    loss = gtv.Ridge(X, y, lam=lam, penalise=c, scale="sum")
    return loss, Squares.of(dim, (X, y, 1.0), (np.eye(dim), np.zeros(dim), lam * c))


def zero(X: Array, y: Array, unit: float) -> Case:
    return gtv.Zero(X.shape[1]), Squares.of(X.shape[1])


def scaled_sum(X: Array, y: Array, unit: float) -> Case:
    dim, lam = X.shape[1], unit**2
    loss = 3 * gtv.SquaredError(X, y) + 0.25 * gtv.Ridge(X[:1], y[:1], lam=lam, scale="sum") + gtv.Zero()
    parts = [(X, y, 3 / max(len(y), 1)), (X[:1], y[:1], 0.25), (np.eye(dim), np.zeros(dim), 0.25 * lam)]
    return loss, Squares.of(dim, *parts)


KINDS = [mean, summed, half, ridge, ridge_with_intercept, zero, scaled_sum]


@st.composite
def cases(draw: st.DrawFn, spread: int = 0) -> tuple[gtv.Loss, Squares, float, float]:
    """A loss, what it should be, and the units of its parameters and of its value.

    Data are whole numbers times a unit, so that their rank is beyond doubt, and often deficient.
    """
    dim, m = draw(st.integers(1, 3)), draw(st.integers(0, 5))
    x_unit = 10.0 ** draw(st.integers(-spread, spread))
    y_unit = 10.0 ** draw(st.integers(-spread, spread))
    X = draw(arrays(float, (m, dim), elements=st.integers(-4, 4)))
    y = draw(arrays(float, m, elements=st.integers(-9, 9)))
    loss, truth = draw(st.sampled_from(KINDS))(x_unit * X, y_unit * y, x_unit)
    return loss, truth, y_unit / x_unit, y_unit**2


def vectors(shape: int | tuple[int, int]) -> st.SearchStrategy[Array]:
    return arrays(float, shape, elements=st.integers(-10_000, 10_000).map(lambda k: k / 1000))
