"""Run every solver on every instance, each in a fresh process, so that a crash or a timeout costs one cell only."""

from __future__ import annotations

import datetime
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from benchmarks.records import Job, Record

__all__ = ["GRACE", "machine", "pinned_environment", "run_job", "worker_command"]

ROOT = Path(__file__).resolve().parents[1]
# Beyond the limit of a run: start of the process, construction of the instance, certificates.
GRACE = 60.0
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def pinned_environment(threads: int) -> dict[str, str]:
    """The environment with that many threads for every library, and without busy waiting."""
    return {**os.environ, **dict.fromkeys(THREADS, str(threads)), "OMP_WAIT_POLICY": "passive"}


def worker_command(job: Job) -> list[str]:
    """Command that starts the worker from anywhere; `-P` keeps the current folder from hiding installed packages."""
    start = f"import sys; sys.path.append({str(ROOT)!r}); from benchmarks.worker import main; main()"
    return [sys.executable, "-P", "-c", start, job.to_json()]


def machine() -> str:
    """Processor and versions, in one line."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = (line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line)
        name = next(lines, name)
    packages = ("gtvmin", "numpy", "scipy", "numba", "cvxpy")
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, " + ", ".join(
        f"{package} {_version(package)}" for package in packages
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?"


def run_job(
    job: Job,
    kind: str,
    *,
    threads: int = 1,
    grace: float = GRACE,
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> list[Record]:
    """Measurements of one solver on one instance, whatever happens to the process.

    Parameters
    ----------
    job : Job
        What to run.
    kind : str
        The contender's kind.
    threads : int
        Threads that its libraries may use.
    grace : float
        Seconds beyond ``job.limit`` after which a process that reports nothing is ended.
    tell : callable, optional
        Called with each event of the process.

    Returns
    -------
    list of Record
        The last one is the end.
    """
    answers: list[Record] = []
    trace: list[Record] = []  # of the run to the smallest gap, which comes last
    warmup, status = float("nan"), ""
    for event in _events(job, threads, grace):
        if tell is not None:
            tell(event)
        if event["event"] == "ready":
            warmup = event["warmup"]
        elif event["event"] == "end":
            status = event["status"]
        elif event["event"] == "answer":
            row = {"instance": job.label, "solver": job.solver, "kind": kind, "repeat": event["repeat"]}
            trace = [Record(row="trace", **row, seconds=s, gap=gap) for s, gap in event["trace"]] or trace
            numbers = {name: event[name] for name in ("seconds", "setup", "gap", "objective", "bound")}
            answers.append(Record(row="answer", **row, **numbers))
    today = datetime.date.today().isoformat()
    end = Record(
        job.label,
        job.solver,
        kind,
        "end",
        setup=warmup,
        status=status,
        date=today,
        machine=f"{machine()}, {threads} thread{'s' * (threads > 1)}, {job.clock} time",
    )
    return [*trace, *answers, end]


def _events(job: Job, threads: int, grace: float) -> Iterator[dict[str, Any]]:
    """Events of the worker; the last one is always the end, made up here if the worker could not tell."""
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            worker_command(job),
            stdout=subprocess.PIPE,
            stderr=errors,
            env=pinned_environment(threads),
        )
        assert process.stdout is not None
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True).start()
        try:
            began = time.perf_counter()
            while (line := lines.get(timeout=job.limit + grace)) is not None:
                event = json.loads(line)
                yield event
                if event["event"] == "end":
                    return
                began = time.perf_counter()
            process.wait()
            yield {"event": "end", "status": _death(process.returncode, errors)}
        except queue.Empty:
            yield {"event": "end", "status": f"stopped: nothing within {time.perf_counter() - began:.0f} s"}
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _forward(stream: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except ValueError:  # closed while reading, after the end was seen
        pass
    lines.put(None)


def _death(code: int, errors: IO[bytes]) -> str:
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip().splitlines()
    if code < 0:
        return f"crashed: signal {-code}"
    return f"crashed: exit code {code}{': ' + said[-1] if said else ''}"[:200]
