"""``python -m benchmarks``: run instances times solvers times gaps, and write table and pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.contenders import PLAIN_BASELINES, Contender, contenders
from benchmarks.figure import write_figure
from benchmarks.instances import INSTANCES
from benchmarks.records import Job, Record, merge, read_records, write_records
from benchmarks.report import write_markdown
from benchmarks.runner import GRACE, run_job
from benchmarks.table import cells, write_cells

GAPS = (1e-4, 1e-6, 1e-8)
QUICK = ("A1", "A2", "B-moons-5k", "C-grid-1", "E")
QUICK_TOTAL = 270.0


def names(known: Sequence[str]) -> Callable[[click.Context, click.Parameter, str | None], tuple[str, ...] | None]:
    """Callback that splits a list at its commas and knows what may stand in it."""

    def split(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
        if value is None:
            return None
        chosen = tuple(name.strip() for name in value.split(",") if name.strip())
        unknown = [name for name in chosen if name not in known]
        if unknown or not chosen:
            raise click.BadParameter(f"{', '.join(unknown) or 'nothing'} is not among {', '.join(known)}")
        return chosen

    return split


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--instances", callback=names(list(INSTANCES)), help="Comma-separated; default: all.")
@click.option("--solvers", callback=names(list(contenders())), help="Comma-separated; default: all.")
@click.option("--repeats", type=click.IntRange(min=1), help="Runs of each; medians are quoted. Default: 5, quick 3.")
@click.option("--time-limit", type=click.FloatRange(min=0.1), help="Seconds of one run. Default: 120, quick 5.")
@click.option("--total", type=click.FloatRange(min=1), help="Seconds after which nothing new starts.")
@click.option("--memory", type=click.FloatRange(min=1), default=16.0, show_default=True, help="GiB a process may take.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of every library.")
@click.option(
    "--clock",
    type=click.Choice(["wall", "cpu"]),
    default="wall",
    show_default=True,
    help="Clock of the times; cpu where other programs keep the machine busy.",
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of the instances.")
@click.option("--small", is_flag=True, help="Tiny versions of the instances, to try the command out.")
@click.option("--quick", is_flag=True, help=f"{', '.join(QUICK)} only, within about 5 minutes.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("benchmark-results"),
    show_default=True,
    help="Folder of benchmarks.csv, benchmarks-runs.csv, benchmarks.md and images/. Measurements that are there stay, "
    "but for those made anew.",
)
def main(
    instances: tuple[str, ...] | None,
    solvers: tuple[str, ...] | None,
    repeats: int | None,
    time_limit: float | None,
    total: float | None,
    memory: float,
    threads: int,
    clock: Literal["wall", "cpu"],
    seed: int,
    small: bool,
    quick: bool,
    out: Path,
) -> None:
    """Time to a certified relative gap of 1e-4, 1e-6 and 1e-8.

    Every solver runs in a process of its own, with one thread unless --threads says otherwise. All answers are judged
    by gtvmin.certify, outside the time. Ctrl-C keeps what was measured.
    """
    everybody = contenders()
    chosen = [everybody[name] for name in solvers or everybody]
    problems = instances or (QUICK if quick else tuple(INSTANCES))
    deadline = time.monotonic() + (total or (QUICK_TOTAL if quick else float("inf")))
    plan = [
        (Job(name, one.name, GAPS, repeats or (3 if quick else 5), time_limit or (5.0 if quick else 120.0), seed,
             memory, clock, small), one)
        for rank in range(3)  # where the time runs out, it does for what comes last
        for name in problems
        for one in chosen
        if name[0] in one.letters
        if rank == (0 if one.name == "auto" or one.kind == "plain" else 1 if one.kind == "peer" else 2)
    ]  # fmt: skip
    try:
        run_all(plan, threads, deadline, out)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted: what was measured so far is kept")
    finally:
        for path in write_report(out, {job.label for job, _ in plan}):
            click.echo(path)


def run_all(plan: Sequence[tuple[Job, Contender]], threads: int, deadline: float, out: Path) -> None:
    """Run the jobs one after another; each one's measurements are stored at once."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(plan))
        for number, (job, contender) in enumerate(plan):
            progress.update(task, description=f"{job.instance} {job.solver}")
            if time.monotonic() > deadline:
                progress.console.print(f"the total time is over: {len(plan) - number} of {len(plan)} were not run")
                break
            # what is under way when the time runs out ends soon after
            grace = min(GRACE, max(5.0, deadline - time.monotonic()))
            records = measure(job, contender, threads, grace)
            write_records(out, merge(read_records(out), records))
            progress.advance(task)
            progress.console.print(
                f"{job.instance:14} {job.solver:22} {in_short(records, job.gaps)}", highlight=False, soft_wrap=True
            )


def measure(job: Job, contender: Contender, threads: int, grace: float) -> list[Record]:
    """What the process measured, or why there is none."""
    if not contender.is_installed:
        return [Record(job.label, job.solver, contender.kind, "end", status="not installed")]
    return run_job(job, contender.kind, threads=threads, grace=grace)


def in_short(records: Sequence[Record], gaps: Sequence[float]) -> str:
    times = [cell.seconds for cell in cells(records, gaps, ())]
    text = "  ".join(f"{level:.0e} {seconds:9.3g} s" for level, seconds in zip(gaps, times, strict=True))
    return f"{text}  {records[-1].status}" if any(row.row == "answer" for row in records) else records[-1].status


def write_report(out: Path, renewed: Collection[str]) -> list[Path]:
    """Table and Markdown of all stored measurements, pictures of those instances that were run."""
    records = read_records(out)
    table = cells(records, GAPS, PLAIN_BASELINES)
    pictures = {}
    for name in dict.fromkeys(record.instance for record in records):
        path = f"images/benchmark-{name}.png"
        if name in renewed or not (out / path).is_file():
            path = write_figure(out, name, [r for r in records if r.instance == name], GAPS)
        pictures[name] = path
    return [write_cells(out, table), write_markdown(out, table, records, pictures)]


if __name__ == "__main__":
    main()
