"""Time to a certified gap on a network Lasso instance, beside plain NumPy and CVXPY's conic solvers.

    python benchmarks/network_lasso.py                    # the package's solvers and the plain method
    python benchmarks/network_lasso.py --conic SCS        # and a conic solver through CVXPY (minutes)

2,000 devices in ten clusters, 10,000 edges, 10 parameters, 15 data points a device, Norm(2). Each answer is judged by
the same certificate; ratios are to the plain method in the same run. Compile times are stated apart.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import gtvmin as gtv
from gtvmin.monitor import GapMonitor
from gtvmin.registry import make_solver
from gtvmin.solvers.driver import run
from gtvmin.solvers.standard_form import Point

GAPS = (1e-4, 1e-6, 1e-8)


def instance(seed: int = 0, n: int = 2000, m: int = 10_000, dim: int = 10, rows: int = 15) -> gtv.GTVMin:
    rng = np.random.default_rng(seed)
    cluster = np.sort(rng.integers(0, 10, n))
    members = [np.flatnonzero(cluster == c) for c in range(10)]
    edges: set[tuple[int, int]] = set()
    while len(edges) < m:
        i = int(rng.integers(n))
        inside = rng.random() < 0.97
        j = int(rng.choice(members[cluster[i]]) if inside else rng.integers(n))
        if i != j:
            edges.add((min(i, j), max(i, j)))
    truth = rng.normal(size=(10, dim))[cluster]
    losses = []
    for i in range(n):
        X = rng.normal(size=(rows, dim))
        losses.append(gtv.SquaredError(X, X @ truth[i] + 0.1 * rng.normal(size=rows)))
    network = gtv.FLNetwork.from_edges(np.array(sorted(edges)), nodes=range(n))
    return gtv.NetworkLasso(network, losses, lam=0.2)


class PlainPrimalDual:
    """Algorithm 1 of arXiv 2010.14159 in plain NumPy, with its step sizes; nothing of the package's solvers."""

    requires = frozenset[str]()

    def init(self, form, start):
        edges = form.edges
        Q, b = form.quadratic.quadratic()
        degree = np.bincount(np.concatenate([edges.tail, edges.head]), minlength=form.n_nodes)
        inverse = np.linalg.inv(Q + degree[:, None, None] * np.eye(form.dim))
        capacity = form.coupling.capacity[:, None]
        return [np.zeros((form.n_nodes, form.dim)), np.zeros((form.n_edges, form.dim)), degree, inverse, b, capacity]

    def step(self, form, state):
        W, U, degree, inverse, b, capacity = state
        D = form.edges.incidence
        new = np.einsum("ijk,ik->ij", inverse, degree[:, None] * W - D.T @ U + b)
        U = U + 0.5 * (D @ (2 * new - W))
        U = U / np.maximum(np.linalg.norm(U, axis=1, keepdims=True) / capacity, 1.0)
        return [new, U, degree, inverse, b, capacity]

    def point(self, form, state):
        return Point(state[0], (state[1],))


def measure(solver, form, repeats: int = 3) -> list[float]:
    """Median seconds to each certified gap, in runs of their own."""
    out = []
    for gap in GAPS:
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            result = run(solver, form, stop=GapMonitor(form, gap), max_iter=100_000)
            times.append(time.perf_counter() - began if result.history[-1].relative_gap <= gap else np.inf)
        out.append(float(np.median(times)))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conic", nargs="*", default=[], help="CVXPY solvers to run as well, such as CLARABEL SCS")
    arguments = parser.parse_args()
    problem = instance()
    form = problem.lowered.form
    began = time.perf_counter()
    for name in ("primal_dual", "adaptive_primal_dual"):
        run(make_solver(name), form, stop=GapMonitor(form, 0.5), max_iter=3)
    print(f"first use, compilation included: {time.perf_counter() - began:.2f} s")
    print(f"{'seconds to a certified gap of':32}" + "".join(f"{gap:>12.0e}" for gap in GAPS))
    plain = measure(PlainPrimalDual(), form, repeats=1)
    rows = [("plain NumPy, Algorithm 1", plain)]
    rows += [(name, measure(make_solver(name), form)) for name in ("primal_dual", "adaptive_primal_dual")]
    for name, times in rows:
        print(f"{name:32}" + "".join(f"{t:12.3f}" for t in times))
        if name != rows[0][0]:
            print(
                f"{'  times faster than plain':32}"
                + "".join(f"{p / t:12.1f}" for p, t in zip(plain, times, strict=True))
            )
    for solver in arguments.conic:
        began = time.perf_counter()
        solution = problem.solve(method="cvxpy", solver=solver, gap=1e-4)
        print(
            f"{solver}: {time.perf_counter() - began:.1f} s in all, certified relative gap {solution.relative_gap:.1e}"
        )


if __name__ == "__main__":
    main()
