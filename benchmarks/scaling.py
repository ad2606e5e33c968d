"""Time and memory against the number of edges, up to five million.

``python -m benchmarks.scaling [--largest 5e6] [--solve] [--out docs/scaling.md]`` takes each size in its own process:
declaring, lowering and iterations of the adaptive primal-dual method as CPU time of one thread, an iteration by the
clock in one thread and in all, in turns, a copy of as many bytes as an iteration must move, and the largest memory of
the process.  It prints the exponents of powers of the number of edges that fit best.  ``--solve`` also solves each size
as ``problem.solve(gap=1e-4)`` does.  ``--out`` puts the table between the two marks of that page.

Devices lie on a square; each is coupled with its five nearest neighbours and some of theirs, so that a node has ten
edges, and half of them have a label in two dimensions: their distance from one of four centres, and noise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np

import gtvmin as gtv
from benchmarks.report import BEGIN, END
from gtvmin.storage import write_atomically

SIZES = (1e4, 1e5, 1e6, 5e6)
ITERATIONS = 20
GAP = 1e-4
Row = dict[str, float]


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


def iterations(problem: gtv.GTVMin) -> Row:
    """Seconds of an iteration: CPU time in one thread, and the best by the clock in one thread and in all, in turns."""
    from gtvmin.registry import make_solver

    solver, form = make_solver("adaptive_primal_dual"), problem.lowered.form
    state = solver.init(form, None)
    sweep, all_threads = state.sweep, state.pull
    one_thread = all_threads[:1].copy()  # the other parts are zero
    cpu, alone, together = [], [], []
    for _ in range(1 + ITERATIONS):
        began, wall = time.thread_time(), time.perf_counter()
        sweep.advance(state.iterate, one_thread, solver.relaxation)
        cpu.append(time.thread_time() - began)
        alone.append(time.perf_counter() - wall)
        all_threads[0], all_threads[1:] = one_thread[0], 0.0
        wall = time.perf_counter()
        sweep.advance(state.iterate, all_threads, solver.relaxation)
        together.append(time.perf_counter() - wall)
        one_thread[0] = all_threads.sum(axis=0)
    return {
        "iteration": float(np.median(cpu[1:])),
        "one": min(alone[1:]),
        "all": min(together[1:]),
        "threads": float(len(all_threads)),
        "copy": copy_seconds(form.n_edges, form.n_nodes),
        "edges": float(form.n_edges),
        "nodes": float(form.n_nodes),
    }


def measure(edges: int, solve: bool) -> Row:
    """One size, in this process."""
    began = time.process_time()
    problem = problem_of(edges)
    times = {"declare": time.process_time() - began}
    began = time.process_time()
    _ = problem.lowered
    times["lower"] = time.process_time() - began
    times |= iterations(problem)
    times["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if solve:
        began, wall = time.process_time(), time.perf_counter()
        solution = problem.solve(gap=GAP)
        times["solve"], times["solve_wall"] = time.process_time() - began, time.perf_counter() - wall
        times["iterations"], times["relative_gap"] = float(solution.iterations), solution.relative_gap
        times["solve_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return times


def table(rows: list[Row]) -> str:
    """The measurements in Markdown."""
    most = int(max(row["threads"] for row in rows))
    lines = [
        "| edges | devices | declare s | lower s | iteration ms | copy of its bytes ms | ratio |"
        f" clock ms, 1 and {most} threads | GB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        threads = (
            f"{1e3 * row['one']:.2f}, {1e3 * row['all']:.2f}" if row["threads"] > 1 else f"{1e3 * row['one']:.2f}, –"
        )
        lines.append(
            f"| {row['edges']:,.0f} | {row['nodes']:,.0f} | {row['declare']:.2f} | {row['lower']:.2f} |"
            f" {1e3 * row['iteration']:.2f} | {1e3 * row['copy']:.2f} | {row['iteration'] / row['copy']:.1f} |"
            f" {threads} | {row['gigabytes']:.2f} |"
        )
    if len(rows) > 1:
        slopes = (
            f"{name} {np.polyfit(*(np.log([row[key] for row in rows]) for key in ('edges', field)), 1)[0]:.2f}"
            for name, field in (
                ("declaring", "declare"),
                ("lowering", "lower"),
                ("an iteration", "iteration"),
                ("memory", "gigabytes"),
            )
        )
        lines += ["", f"Exponents of the power of the number of edges that fits best: {', '.join(slopes)}."]
    solved = [row for row in rows if "solve" in row]
    if solved:
        lines += [
            "",
            f"| edges | iterations to {GAP:.0e} | certified gap | CPU s | clock s | GB |",
            "|---|---|---|---|---|---|",
        ]
    lines += [
        f"| {row['edges']:,.0f} | {row['iterations']:.0f} | {row['relative_gap']:.1e} | {row['solve']:.1f} |"
        f" {row['solve_wall']:.1f} | {row['solve_gigabytes']:.2f} |"
        for row in solved
    ]
    return "\n".join(lines) + "\n"


def write(path: Path, measured: str) -> None:
    """Put text between the two marks of a page; what is around it stays."""
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} has no lines {BEGIN} and {END}, between which the table would stand")
    write_atomically(path, f"{before}{BEGIN}\n\n{measured}\n{END}{after}".encode())


def main() -> None:
    """Measure all sizes and print the table and the exponents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=float, default=SIZES[-1])
    parser.add_argument("--solve", action="store_true", help="solve each size as well")
    parser.add_argument("--out", type=Path, help="page whose table is replaced")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(int(chosen.one), chosen.solve)))
        return
    rows, loads = [], []
    for size in (size for size in SIZES if size <= chosen.largest):
        command = [sys.executable, "-m", "benchmarks.scaling", "--one", str(size)]
        command += ["--solve"] if chosen.solve else []
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        rows.append(json.loads(found.stdout.splitlines()[-1]))
        loads.append(os.getloadavg()[0])
        print(table(rows[-1:]), flush=True)
    made = (
        f"Measured {date.today()}, {os.cpu_count()} cores, load average {min(loads):.1f} to {max(loads):.1f}, "
        f"Python {sys.version.split()[0]}, gtvmin {gtv.__version__}, numpy {np.__version__}.\n"
    )
    measured = f"{table(rows)}\n{made}"
    print(measured)
    if chosen.out:
        write(chosen.out, measured)


if __name__ == "__main__":
    main()
