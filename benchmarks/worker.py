"""One solver on one instance, in a process of its own: writes what happens as JSON lines, each as soon as it is known.

Started by :mod:`benchmarks.runner`, which has pinned the threads in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from typing import IO, Any

from benchmarks.records import Job

__all__ = ["main", "work"]


def main() -> None:
    """Read the job from the command line; events go to the true standard output, prints of solvers to the error one."""
    events = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    job = Job.from_json(sys.argv[1])
    limit_memory(job.memory)
    warnings.simplefilter("ignore")
    work(job, emitter(events))


def emitter(stream: IO[str]) -> Callable[..., None]:
    """Function that writes an event as one line."""

    def emit(event: str, **values: Any) -> None:
        stream.write(json.dumps({"event": event, **values}) + "\n")
        stream.flush()

    return emit


def limit_memory(gibibytes: float | None) -> None:
    """Bound the address space, where the system has such a bound."""
    if gibibytes is None or sys.platform in ("win32", "darwin"):
        return
    import resource

    size = int(gibibytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def work(job: Job, emit: Callable[..., None]) -> None:
    """Warm up on the tiny version, then run the repetitions; every answer is an event, and so is how it ended."""
    try:
        from benchmarks.answers import DoesNotFit, judge, now, use_clock
        from benchmarks.contenders import contenders
        from benchmarks.instances import INSTANCES, make_instance

        contender, lams = contenders()[job.solver], INSTANCES[job.instance].lams
    except Exception as error:
        emit("end", status=failure(error))
        return
    use_clock(job.clock)

    def strengths(problem: Any, every: int = 1) -> Any:
        return None if lams is None else lams(problem)[::every]

    try:
        tiny, began = make_instance(job.instance, job.seed, small=True), now()
        first = next(iter(contender.measure(tiny, strengths(tiny, every=25), job.gaps[:1], job.limit)), None)
        warmup = now() - began
        if first is not None:
            judge(first)
        problem = tiny if job.small else make_instance(job.instance, job.seed)
        emit("ready", warmup=warmup, nodes=problem.network.n_nodes, edges=problem.network.n_edges)
        began = time.perf_counter()
        for repeat in range(job.repeats):
            emit("run", repeat=repeat)
            for answer in contender.measure(problem, strengths(problem), job.gaps, job.limit):
                gap, objective, bound = judge(answer)
                emit(
                    "answer",
                    repeat=repeat,
                    seconds=answer.seconds,
                    setup=answer.setup,
                    gap=gap,
                    objective=objective,
                    bound=bound,
                    trace=thinned(answer.trace) if repeat == 0 else (),
                )
                if gap <= min(job.gaps):
                    break
            if time.perf_counter() - began > job.limit:
                break
        emit("end", status="finished")
    except DoesNotFit as reason:
        emit("end", status=f"does not fit: {reason}")
    except Exception as error:
        emit("end", status=failure(error))


def failure(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    text = str(error).strip().partition("\n")[0]
    return f"failed: {type(error).__name__}: {text}"[:200]


def thinned(trace: tuple[tuple[float, float], ...]) -> list[tuple[float, float]]:
    """Those points of a curve that halve the gap, and the last."""
    kept: list[tuple[float, float]] = []
    for point in trace:
        if not kept or point[1] <= 0.5 * kept[-1][1]:
            kept.append(point)
    return kept
