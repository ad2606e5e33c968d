"""Random small problems whose minimiser is known, with numbers of every size.

A minimiser W, flows U that belong to it and losses are drawn first; linear losses then make them optimal.  With dyadic
numbers that holds exactly.  Otherwise a squared distance from the minimiser keeps the problem bounded below, and W is a
minimiser to rounding; or nothing is added, and W is any point.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import gtvmin as gtv
from gtvmin.penalties import Consensus, FlowCost, HuberPenalty, Partial
from gtvmin.solvers.standard_form import Array

STYLES = ("dyadic", "strong", "free")
LOSSES = (
    *("SquaredError", "Ridge", "SquaredDistance", "Quadratic", "Zero", "Zero", "L1", "ElasticNet", "Huber"),
    *("LeastAbsolute", "Quantile", "Hinge", "SquaredHinge", "Logistic", "Poisson", "Box", "NonNegative", "Ball"),
    *("Simplex", "Affine"),
)
PENALTIES = ("squared", "l1", "l2", "linf", "huber", "flow", "partial", "consensus")
TINY = 5e-324
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Drawn:
    """A problem, parameters and flows that are optimal (to rounding, or not at all), and how it was drawn."""

    problem: gtv.GTVMin
    W: Array
    U: Array
    style: str
    size: float


class Numbers:
    """Random numbers of one kind: small integers times powers of two, or normal ones of a size."""

    def __init__(self, rng: np.random.Generator, dyadic: bool, spread: int) -> None:
        self.rng, self.dyadic, self.spread = rng, dyadic, spread

    def size(self, reach: float = 8.0) -> float:
        """A scale, a power of two if dyadic, up to ``10^reach``."""
        exponent = self.rng.uniform(-reach, reach) if self.spread else self.rng.uniform(-0.5, 0.5)
        return float(2.0 ** round(exponent * 3.32)) if self.dyadic else float(10.0**exponent)

    def array(self, *shape: int) -> Array:
        """Numbers of order one."""
        if self.dyadic:
            return self.rng.integers(-3, 4, shape).astype(float)
        return self.rng.normal(size=shape)

    def within(self, *shape: int) -> Array:
        """Numbers in [-1, 1], the ends included."""
        if self.dyadic or self.rng.random() < 0.3:
            return self.rng.integers(-2, 3, shape) / 2.0
        return self.rng.uniform(-1.0, 1.0, shape)


def draw(seed: int) -> Drawn | None:
    """One problem; None where the numbers drawn are not those of a valid declaration."""
    rng = np.random.default_rng(seed)
    style = STYLES[int(rng.choice(3, p=[0.45, 0.4, 0.15]))]
    numbers = Numbers(rng, style == "dyadic", int(rng.random() < 0.6))
    n, dim = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    size = numbers.size()
    pairs = [(int(rng.integers(0, j)), j) for j in range(1, n)]
    pairs += [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.2 and (i, j) not in pairs]
    weights = [numbers.size(3.0) if rng.random() < 0.9 else numbers.size(14.0) for _ in pairs]
    net = gtv.FLNetwork.from_edges([(i, j, w) for (i, j), w in zip(pairs, weights, strict=True)], nodes=range(n))
    alpha = numbers.size(12.0)
    kind = PENALTIES[int(rng.integers(len(PENALTIES)))]
    W = size * numbers.array(n, dim)
    for i, j in pairs:
        if rng.random() < 0.4 or kind == "consensus":
            W[j] = W[i]
    if kind == "consensus":
        W[:] = W[0]
    if style == "dyadic" and kind in ("l2", "huber"):
        W[:, 1:] = W[0, 1:]
    if rng.random() < 0.2:
        W[:, int(rng.integers(dim))] = 0.0
    penalty, flow = _penalty(kind, numbers, size, dim)
    strength = alpha * net.weights
    U = np.array([a * flow(W[j] - W[i]) for a, i, j in zip(strength, net.tail, net.head, strict=True)])
    s = np.zeros((n, dim))
    np.add.at(s, net.tail, U)
    np.subtract.at(s, net.head, U)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            losses = [_losses(numbers, W[i], s[i], style, size) for i in range(n)]
            problem = gtv.GTVMin(net, losses, penalty=penalty, alpha=alpha, dim=dim)
    except (ValueError, ArithmeticError):
        return None
    return Drawn(problem, W, U, style, size)


def _penalty(kind: str, numbers: Numbers, size: float, dim: int) -> tuple[gtv.Penalty, Any]:
    """A penalty, and a function that gives a subgradient."""
    rng = numbers.rng
    if kind == "squared":
        return gtv.SquaredNorm(), lambda z: 2.0 * z
    if kind == "l1":
        return gtv.Norm(1), lambda z: np.where(z == 0, numbers.within(len(z)), np.sign(z))
    if kind == "linf":
        return gtv.Norm(np.inf), lambda z: _of_largest(z) if z.any() else numbers.within(len(z)) / len(z)
    if kind == "l2":
        return gtv.Norm(2), lambda z: z / np.linalg.norm(z) if z.any() else _in_ball(numbers, len(z))
    if kind == "huber":
        delta = size * numbers.size(1.0)
        return HuberPenalty(delta), lambda z: z / max(delta, float(np.linalg.norm(z)))
    if kind == "consensus":
        return Consensus(), lambda z: numbers.size(3.0) * numbers.array(len(z))
    if kind == "flow":
        cost, capacity = size * abs(float(numbers.array(1)[0])), numbers.size(2.0)
        one_way = bool(rng.random() < 0.4)
        penalty = FlowCost(cost, capacity, back_capacity=0.0 if one_way else None)
        back = 0.0 if one_way else 1.0

        def flow(z: Array) -> Array:
            inner = np.where(z > cost, 1.0, np.where(z < -cost, -back, 0.0))
            share = np.abs(numbers.within(len(z)))
            inner = np.where((z == cost) & (cost > 0), share, np.where((z == -cost) & (cost > 0), -back * share, inner))
            return np.asarray(capacity * inner)

        return penalty, flow
    kept = sorted(rng.choice(dim, size=int(rng.integers(1, dim + 1)), replace=False).tolist())
    inner, flow_inner = _penalty(("squared", "l1", "linf")[int(rng.integers(3))], numbers, size, len(kept))

    def on_coordinates(z: Array) -> Array:
        out = np.zeros(len(z))
        out[kept] = flow_inner(z[kept])
        return out

    return Partial(inner, kept), on_coordinates


def _of_largest(z: Array) -> Array:
    out = np.zeros(len(z))
    k = int(np.abs(z).argmax())
    out[k] = np.sign(z[k])
    return out


def _in_ball(numbers: Numbers, dim: int) -> Array:
    v = numbers.within(dim)
    length = float(np.linalg.norm(v))
    return v / 2.0 if numbers.dyadic else v / max(length, 1.0)


def _losses(numbers: Numbers, w: Array, s: Array, style: str, size: float) -> gtv.Loss:
    """Losses of one device and, save for the free style, what makes w optimal where the rest of the network pulls s."""
    rng = numbers.rng
    total: gtv.Loss | None = None
    gradient, exact = np.zeros(len(w)), [Fraction(0)] * len(w)
    for _ in range(int(rng.integers(1, 3))):
        loss, slope = _loss(LOSSES[int(rng.integers(len(LOSSES)))], numbers, w, size)
        factor = numbers.size(6.0) if numbers.spread and rng.random() < 0.5 else 1.0
        if factor != 1.0 and not isinstance(loss, gtv.ElasticNet):
            loss, slope = factor * loss, factor * slope
        total = loss if total is None else total + loss
        gradient = gradient + slope
        exact = [a + Fraction(b) for a, b in zip(exact, slope.tolist(), strict=True)]
    assert total is not None
    if style == "free":
        return total + gtv.Linear(s) if rng.random() < 0.1 else total
    c = s - gradient
    if c.any():
        total = total + gtv.Linear(c)
    sums = all(Fraction(a) - b == Fraction(d) for a, b, d in zip(s.tolist(), exact, c.tolist(), strict=True))
    if style == "strong" or not sums:
        strength = max(float(np.abs(c).max()), TINY * 2**60) * numbers.size(2.0) / max(size, 1e-300)
        total = total + strength * gtv.SquaredDistance(w)
    return total


def _rows(numbers: Numbers, w: Array) -> Array:
    """Data points, at times repeated, nearly dependent, tiny or denormal."""
    rng, dim = numbers.rng, len(w)
    X = numbers.size() * numbers.array(int(rng.integers(1, 4)), dim)
    trick = rng.random()
    if len(X) > 1 and trick < 0.1:
        X[1] = X[0]
    elif len(X) > 1 and trick < 0.2 and not numbers.dyadic:
        X[1] = X[0] * (1.0 + 10.0 ** rng.uniform(-16, -6, dim))
    elif trick < 0.25 and not numbers.dyadic:
        X[0, 0] = TINY * rng.integers(1, 1000)
    elif trick < 0.35 and not numbers.dyadic:
        X *= 10.0 ** rng.uniform(-8, 8, dim)
    return X


def _loss(name: str, numbers: Numbers, w: Array, size: float) -> tuple[gtv.Loss, Array]:
    """A loss and a subgradient of it at w."""
    rng, dim = numbers.rng, len(w)
    none = np.zeros(dim)
    if name == "Zero":
        return gtv.Zero(dim), none
    if name == "SquaredDistance":
        a = w + size * numbers.array(dim)
        return gtv.SquaredDistance(a), 2.0 * (w - a)
    if name == "Quadratic":
        B = numbers.array(int(rng.integers(1, dim + 1)), dim)
        Q = numbers.size() * (B.T @ B)
        q = numbers.array(dim)
        return gtv.Quadratic(Q, q), Q @ w + q
    if name in ("L1", "ElasticNet"):
        c = np.abs(numbers.array(dim)) * numbers.size(3.0)
        slope = c * np.where(w == 0, numbers.within(dim), np.sign(w))
        if name == "L1":
            return gtv.L1(c), slope
        return gtv.ElasticNet(l1=2.0, l2=0.5, penalise=c), 2.0 * slope + c * w
    if name in ("Box", "NonNegative", "Ball", "Simplex", "Affine"):
        return _constraint(name, numbers, w, size)
    X = _rows(numbers, w)
    m = len(X)
    scale = "sum" if numbers.dyadic and m == 3 else ("mean", "sum")[int(rng.integers(2))]
    weight = np.full(m, 1.0 / m if scale == "mean" else 1.0)
    options: dict[str, Any] = {"scale": scale}
    t = X @ w
    if name in ("Hinge", "SquaredHinge", "Logistic"):
        if numbers.dyadic and name == "Logistic":
            X[:, w != 0] = 0.0
            t = X @ w
        elif name != "Logistic" and t.any() and rng.random() < 0.4 and not numbers.dyadic:
            X /= np.where(t != 0, np.abs(t), 1.0)[:, None]  # near or at the kink
            t = X @ w
        y = rng.choice([-1.0, 1.0], m)
        y[0] = 1.0
        if m > 1:
            y[1] = -1.0
        short = np.maximum(1.0 - y * t, 0.0)
        with np.errstate(over="ignore"):
            slopes = {"Hinge": -(short > 0).astype(float), "SquaredHinge": -2.0 * short}
            slope = slopes[name] if name in slopes else -1.0 / (1.0 + np.exp(y * t))
        return getattr(gtv, name)(X, y, **options), X.T @ (weight * slope * y)
    if name == "Poisson":
        if numbers.dyadic:
            X[:, w != 0] = 0.0
        else:
            X *= rng.uniform(0.0, 20.0) / max(float(np.abs(t).max()), 1e-300)
        y = np.abs(numbers.array(m))
        return gtv.Poisson(X, y, **options), X.T @ (weight * (np.exp(np.minimum(X @ w, 700.0)) - y))
    spread = float(np.abs(t).max()) or size
    y = t + (0.0 if rng.random() < 0.3 else spread * numbers.size(2.0)) * numbers.array(m)
    r = t - y
    if name in ("SquaredError", "Ridge"):
        slope = X.T @ (weight * 2.0 * r)
        if name == "Ridge":
            lam = numbers.size()
            return gtv.Ridge(X, y, lam=lam, **options), slope + 2.0 * lam * w
        if rng.random() < 0.2:
            options["sample_weight"] = np.full(m, 2.0)
            slope = slope * (1.0 if scale == "mean" else 2.0)
        return gtv.SquaredError(X, y, **options), slope
    if name == "LeastAbsolute":
        return gtv.LeastAbsolute(X, y, **options), X.T @ (weight * np.sign(r))
    if name == "Quantile":
        tau = 0.25 if numbers.dyadic else float(rng.uniform(0.05, 0.95))
        return gtv.Quantile(X, y, tau=tau, **options), X.T @ (
            weight * np.where(r > 0, 1.0 - tau, np.where(r < 0, -tau, 0.0))
        )
    delta = spread * numbers.size(2.0)
    return gtv.Huber(X, y, delta=delta, **options), X.T @ (weight * 2.0 * np.clip(r, -delta, delta))


def _constraint(name: str, numbers: Numbers, w: Array, size: float) -> tuple[gtv.Loss, Array]:
    """An indicator of a set that w is in, mostly on its boundary, and an outward normal."""
    rng, dim = numbers.rng, len(w)
    push = numbers.size(2.0)
    if name == "Box":
        low, high = w - size * np.abs(numbers.array(dim)), w + size * np.abs(numbers.array(dim))
        return gtv.Box(low, high), push * ((w == high) * 1.0 - (w == low) * 1.0)
    if name == "NonNegative":
        if (w < 0).any():
            return gtv.Box(w, np.inf), -push * np.abs(numbers.array(dim))
        return gtv.NonNegative(), -push * (w == 0)
    if name == "Ball":
        axis = np.zeros(dim)
        axis[int(rng.integers(dim))] = size
        slack = 0.0 if numbers.dyadic else 4.0 * EPS * (size + float(np.linalg.norm(w)))
        return gtv.Ball(size + slack, w - axis), push * axis / size
    if name == "Simplex" and (w >= 0).all() and w.any() and numbers.dyadic:
        return gtv.Simplex(float(w.sum())), np.full(dim, push) - push * (w == 0)
    A = numbers.array(int(rng.integers(1, 3)), dim) if numbers.dyadic else np.eye(dim)[[int(rng.integers(dim))]]
    return gtv.Affine(A, A @ w), push * A.sum(axis=0)
