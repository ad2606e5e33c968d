"""Rounds of federated algorithms over 10,000 devices, against reading the data once and a Python loop over devices.

``python -m benchmarks.federated_rounds [devices]`` prints medians of the thread's CPU time, and ratios.  Squared errors
of 20 data points and 10 features a device; FedGD on a ring with chords, four neighbours a device.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

import gtvmin as gtv
from gtvmin.federated import federated_form, make_algorithm

ROWS, FEATURES = 20, 10
REPEATS = 15
ALGORITHMS: dict[str, tuple[str, dict[str, Any]]] = {
    "FedGD": ("fedgd", {"eta": 0.01}),
    "FedAvg, one local step": ("fedavg", {"weights": "uniform", "eta": 0.05}),
    "FedAvg, five local steps": ("fedavg", {"weights": "uniform", "eta": 0.05, "local_steps": 5}),
    "FedProx, exact": ("fedprox", {"weights": "uniform", "mu": 1.0}),
    "FedProx, one gradient step": ("fedprox", {"weights": "uniform", "mu": 1.0, "eta": 0.05, "local_steps": 1}),
}


@njit
def read(numbers: np.ndarray) -> float:
    """Add up an array in eight sums, which keep up with the memory."""
    sums = np.zeros(8)
    for k in range(0, len(numbers) - 7, 8):
        for j in range(8):
            sums[j] += numbers[k + j]
    return float(sums.sum())


def problem_of(devices: int) -> gtv.GTVMin:
    """Squared errors on a ring with chords."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(devices, ROWS, FEATURES)), rng.normal(size=(devices, ROWS))
    i = np.arange(devices)
    pairs = np.concatenate([np.column_stack([i, (i + step) % devices]) for step in (1, 7)])
    network = gtv.FLNetwork.from_edges(np.unique(np.sort(pairs, axis=1), axis=0), nodes=range(devices))
    losses = [gtv.SquaredError(features, targets) for features, targets in zip(X, y, strict=True)]
    return gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=0.5)


def median_seconds(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Median CPU time of this thread, which other programs do not lengthen."""
    call()
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return float(np.median(times))


def loops(problem: gtv.GTVMin, name: str, settings: dict[str, Any]) -> Callable[[np.ndarray], np.ndarray]:
    """A round as it is written for one device after the other: models (devices, features) to models."""
    data = [(loss.X, loss.y) for loss in problem.losses]
    n, d = len(data), FEATURES
    neighbours: list[list[tuple[int, float]]] = [[] for _ in range(n)]
    for i, j, a in zip(problem.network.tail, problem.network.head, problem.network.weights, strict=True):
        neighbours[i].append((j, a))
        neighbours[j].append((i, a))

    def gradient(i: int, w: np.ndarray) -> np.ndarray:
        X, y = data[i]
        return 2.0 / len(y) * (X.T @ (X @ w - y))

    def descended(W: np.ndarray) -> np.ndarray:
        new = np.empty_like(W)
        for i in range(n):
            pull = sum((a * (W[i] - W[j]) for j, a in neighbours[i]), np.zeros(d))
            new[i] = W[i] - settings["eta"] * (gradient(i, W[i]) + 2 * problem.alpha * pull)
        return new

    def averaged(W: np.ndarray) -> np.ndarray:
        w, total, mu = W[0], np.zeros(d), settings.get("mu", 0.0)
        for i in range(n):
            v = w.copy()
            for _ in range(settings.get("local_steps", 1)):
                v -= settings["eta"] * (gradient(i, v) + mu * (v - w))
            total += v / n
        return np.tile(total, (n, 1))

    def proximal(W: np.ndarray) -> np.ndarray:
        w, total, mu = W[0], np.zeros(d), settings["mu"]
        for X, y in data:
            H, b = 2.0 / len(y) * (X.T @ X) + mu * np.eye(d), 2.0 / len(y) * (X.T @ y) + mu * w
            total += np.linalg.solve(H, b) / n
        return np.tile(total, (n, 1))

    if name == "fedgd":
        return descended
    return averaged if "eta" in settings else proximal


def main(devices: int = 10_000) -> None:
    """Print the table."""
    problem = problem_of(devices)
    form = federated_form(problem)
    assert form.data is not None
    numbers = np.append(form.data.X.ravel(), form.data.y)
    reading = median_seconds(lambda: read(numbers))
    print(f"{devices} devices, {ROWS} data points, {FEATURES} features; reading the data once: {1e3 * reading:.2f} ms")
    print(f"{'round of':28} {'ms':>8} {'x reading':>10} {'loop, ms':>10} {'x faster':>9} {'agreement':>10}")
    for title, (name, settings) in ALGORITHMS.items():
        algorithm = make_algorithm(name, **settings)
        state = algorithm.step(form, algorithm.init(form, None))
        seconds = median_seconds(lambda a=algorithm, s=state: a.step(form, s))
        written_out = loops(problem, name, settings)
        W = algorithm.point(form, state).W
        error = np.abs(written_out(W) - algorithm.point(form, algorithm.step(form, state)).W).max()
        slow = median_seconds(lambda f=written_out, V=W: f(V), repeats=1)
        print(
            f"{title:28} {1e3 * seconds:8.2f} {seconds / reading:10.2f} {1e3 * slow:10.0f} {slow / seconds:9.0f} "
            f"{error:10.0e}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
