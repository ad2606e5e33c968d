"""Classifiers: losses of two classes or more that are not quadratic."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gtvmin.losses import Hinge, Logistic, Loss, Softmax, SquaredDistance, SquaredHinge, Zero
from gtvmin.penalties import Norm, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.verify.instances.graphs import Array, network_of
from gtvmin.verify.instances.instance import instance

RIDGE = 0.05 * SquaredDistance(0.0)


def two_classes(rng: np.random.Generator, n: int, rows: int, noise: float = 0.5) -> tuple[Array, Array]:
    """Features (n, rows, 2) and labels (n, rows) of -1 and 1: half of the devices by one line, half by another."""
    W = np.where(np.arange(n)[:, None] < n // 2, [2.0, 1.0], [-1.0, 2.0])
    X = rng.normal(size=(n, rows, 2))
    score = np.einsum("irk,ik->ir", X, W) + noise * rng.normal(size=(n, rows))
    return X, np.where(score > 0, 1.0, -1.0)


def logistic(X: Array, y: Array) -> list[Loss]:
    """Logistic losses with a ridge."""
    return [Logistic(features, labels) + RIDGE for features, labels in zip(X, y, strict=True)]


@instance("smoke", "classification")
def logistic_barbell(rng: np.random.Generator) -> GTVMin:
    """Logistic regression on two cliques of four devices."""
    losses = logistic(*two_classes(rng, 8, 6))
    return GTVMin(network_of(nx.barbell_graph(4, 0)), losses, penalty=Norm(2), alpha=0.05)


@instance("classification")
def logistic_smooth_path(rng: np.random.Generator) -> GTVMin:
    """Logistic regression with a squared coupling: a smooth problem."""
    losses = logistic(*two_classes(rng, 12, 6))
    return GTVMin(network_of(nx.path_graph(12)), losses, penalty=SquaredNorm(), alpha=0.1)


@instance("classification")
def logistic_unlabelled(rng: np.random.Generator) -> GTVMin:
    """Logistic regression with labels at every other device."""
    losses = [loss if i % 2 else Zero() for i, loss in enumerate(logistic(*two_classes(rng, 12, 6)))]
    return GTVMin(network_of(nx.barbell_graph(6, 0)), losses, penalty=Norm(2), alpha=0.05)


@instance("classification")
def logistic_separable(rng: np.random.Generator) -> GTVMin:
    """Data that a line separates: only the weak ridge keeps the parameters finite."""
    X, y = two_classes(rng, 8, 6, noise=0.0)
    losses = [Logistic(X[i], y[i]) + 1e-3 * SquaredDistance(0.0) for i in range(8)]
    return GTVMin(network_of(nx.cycle_graph(8)), losses, penalty=Norm(2), alpha=0.05)


@instance("classification")
def logistic_one_class(rng: np.random.Generator) -> GTVMin:
    """Devices that have seen one class only."""
    X, y = two_classes(rng, 8, 6)
    y[:4] = np.abs(y[:4])
    return GTVMin(network_of(nx.cycle_graph(8)), logistic(X, y), penalty=Norm(2), alpha=0.1)


@instance("classification")
def logistic_l1(rng: np.random.Generator) -> GTVMin:
    """The 1-norm on a grid."""
    losses = logistic(*two_classes(rng, 16, 5))
    return GTVMin(network_of(nx.grid_2d_graph(4, 4)), losses, penalty=Norm(1), alpha=0.05)


@instance("classification")
def hinge_grid(rng: np.random.Generator) -> GTVMin:
    """Support vector machines on a grid: hinge losses with a ridge."""
    X, y = two_classes(rng, 9, 5)
    losses = [Hinge(X[i], y[i]) + RIDGE for i in range(9)]
    return GTVMin(network_of(nx.grid_2d_graph(3, 3)), losses, penalty=Norm(2), alpha=0.05)


@instance("classification")
def squared_hinge_star(rng: np.random.Generator) -> GTVMin:
    """Squared hinge losses on a star."""
    X, y = two_classes(rng, 9, 5)
    losses = [SquaredHinge(X[i], y[i]) + RIDGE for i in range(9)]
    return GTVMin(network_of(nx.star_graph(8)), losses, penalty=Norm(2), alpha=0.05)


@instance("classification")
def softmax_cycle(rng: np.random.Generator) -> GTVMin:
    """Three classes and two features: six parameters a device."""
    X = rng.normal(size=(6, 8, 2))
    y = (X @ rng.normal(size=(2, 3)) + 0.5 * rng.normal(size=(6, 8, 3))).argmax(axis=2)
    losses = [Softmax(X[i], y[i], classes=3) + RIDGE for i in range(6)]
    return GTVMin(network_of(nx.cycle_graph(6)), losses, penalty=Norm(2), alpha=0.05)
