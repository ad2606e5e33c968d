"""Time and memory against the number of edges, up to five million.

``python -m benchmarks.scaling [--largest 5e6] [--solve]`` measures each size in a process of its own: declaring,
lowering and iterations of the adaptive primal-dual method, all as CPU time of one thread, the largest memory of the
process, and a copy of as many bytes as an iteration must move.  It prints the exponents of powers of the number of
edges that fit best.  ``--solve`` also solves the largest to a certified relative gap of 1e-4.

Devices lie on a square; each is coupled with its five nearest neighbours and some of theirs, so that a node has ten
edges, and half of them have a label in two dimensions: their distance from one of four centres, and noise.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

import gtvmin as gtv

SIZES = (1e4, 1e5, 1e6, 5e6)
ITERATIONS = 20


def problem_of(edges: int) -> gtv.GTVMin:
    """About that many edges, a fifth as many devices, two parameters each."""
    rng, n = np.random.default_rng(0), edges // 5
    side = int(np.sqrt(n))
    n = side * side
    row, column = np.divmod(np.arange(n), side)
    steps = ((0, 1), (1, 0), (1, 1), (1, -1), (0, 2))
    pairs = []
    for down, right in steps:
        kept = (row + down < side) & (column + right < side) & (column + right >= 0)
        pairs.append(np.column_stack([np.arange(n)[kept], ((row + down) * side + column + right)[kept]]))
    network = gtv.FLNetwork.from_edges(np.concatenate(pairs), nodes=range(n))
    centre = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [3.0, 3.0]])[2 * (2 * row // side) + 2 * column // side]
    points = centre + rng.normal(size=(n, 2))
    labelled = rng.random(n) < 0.5
    zero = gtv.Zero(2)
    losses = [0.5 * gtv.SquaredDistance(x) if known else zero for x, known in zip(points, labelled, strict=True)]
    return gtv.NetworkLasso(network, losses, lam=0.5)


def copy_seconds(edges: int, nodes: int, dim: int = 2) -> float:
    """CPU seconds to copy what an iteration reads and writes: W twice, U, the ends of the edges and steps."""
    numbers = 2 * nodes * dim + edges * (dim + 3)
    source, target = np.ones(numbers), np.zeros(numbers)
    times = []
    for _ in range(7):
        began = time.thread_time()
        np.copyto(target, source)
        times.append(time.thread_time() - began)
    return float(np.median(times))


def measure(edges: int, solve: bool) -> dict[str, float]:
    """One size, in this process."""
    from gtvmin.registry import make_solver

    times = {}
    began = time.process_time()
    problem = problem_of(edges)
    times["declare"] = time.process_time() - began
    began = time.process_time()
    form = problem.lowered.form
    times["lower"] = time.process_time() - began
    solver = make_solver("adaptive_primal_dual")
    state = solver.step(form, solver.init(form, None))
    began = time.thread_time()
    for _ in range(ITERATIONS):
        state = solver.step(form, state)
    times["iteration"] = (time.thread_time() - began) / ITERATIONS
    times["copy"] = copy_seconds(form.n_edges, form.n_nodes)
    times["edges"], times["nodes"] = float(form.n_edges), float(form.n_nodes)
    if solve:
        began, wall = time.process_time(), time.perf_counter()
        solution = problem.solve("adaptive_primal_dual", gap=1e-4)
        times["solve"], times["solve_wall"] = time.process_time() - began, time.perf_counter() - wall
        times["iterations"], times["relative_gap"] = float(solution.iterations), solution.relative_gap
    times["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return times


def main() -> None:
    """Measure all sizes and print a table and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=float, default=SIZES[-1])
    parser.add_argument("--solve", action="store_true", help="solve the largest as well")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(int(chosen.one), chosen.solve)))
        return
    sizes = [size for size in SIZES if size <= chosen.largest]
    rows = []
    print("     edges   declare     lower  iteration  copy of its bytes  ratio   memory")
    for size in sizes:
        command = [sys.executable, "-m", "benchmarks.scaling", "--one", str(size)]
        command += ["--solve"] if chosen.solve and size == sizes[-1] else []
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        rows.append(row)
        print(
            f"{row['edges']:10,.0f} {row['declare']:7.2f} s {row['lower']:7.2f} s {1e3 * row['iteration']:7.2f} ms"
            f" {1e3 * row['copy']:15.2f} ms {row['iteration'] / row['copy']:6.1f} {row['gigabytes']:5.2f} GB",
            flush=True,
        )
    for name in ("declare", "lower", "iteration", "gigabytes"):
        slope = np.polyfit(np.log([row["edges"] for row in rows]), np.log([row[name] for row in rows]), 1)[0]
        print(f"{name}: proportional to edges^{slope:.2f}")
    if chosen.solve:
        print(
            f"solved to {rows[-1]['relative_gap']:.1e} in {rows[-1]['iterations']:.0f} iterations, "
            f"{rows[-1]['solve']:.1f} s of CPU time ({rows[-1]['solve_wall']:.1f} s by the clock)"
        )


if __name__ == "__main__":
    main()
