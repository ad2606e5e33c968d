"""``gtvmin verify``: put a solver through the checks, from the command line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gtvmin.cli.options import GAP, blame

if TYPE_CHECKING:
    from gtvmin.verify.results import CheckResult, SolverReport

__all__ = ["verify"]

OUTCOMES = ("passed", "failed", "skipped", "xfailed", "xpassed")
OUTPUT = click.Path(dir_okay=False, path_type=Path)


def expected_failure(value: str | tuple[str, str]) -> tuple[str, str]:
    """``CHECK=REASON`` as a pair."""
    if isinstance(value, tuple):
        return value
    name, separator, reason = value.partition("=")
    if not separator or not name.strip() or not reason.strip():
        raise click.BadParameter(f"{value!r} is not of the form check_name=reason or check_name[instance]=reason")
    return name.strip(), reason.strip()


@click.command(short_help="Put a solver through the checks.")
@click.argument("solvers", metavar="MODULE:OBJECT|METHOD...", nargs=-1, required=True)
@click.option("--suite", default="smoke", show_default=True, metavar="NAME", help="Suite of instances.")
@click.option("--instance", "names", multiple=True, metavar="NAME", help="Instance of the suite; default all.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Check to run; default all.")
@click.option("--gap", type=GAP, help="Relative gap to certify.  [default: 1e-6, on the suite federated 1e-10]")
@click.option(
    "--expected-failure",
    "expected",
    type=expected_failure,
    multiple=True,
    metavar="CHECK=REASON",
    help="Known failure, check_name or check_name[instance], with its reason. One that passes is a failure.",
)
@click.option("--report", type=OUTPUT, metavar="FILE", help="Write an HTML report.")
@click.option("--junit", type=OUTPUT, metavar="FILE", help="Write JUnit XML for CI services.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def verify(
    ctx: click.Context,
    solvers: tuple[str, ...],
    suite: str,
    names: tuple[str, ...],
    checks: tuple[str, ...],
    gap: float | None,
    expected: tuple[tuple[str, str], ...],
    report: Path | None,
    junit: Path | None,
    quiet: bool,
) -> None:
    """Put solvers through the checks on a suite of instances with certified optima.

    \b
    gtvmin verify my_package.admm:solve --suite network_lasso --junit checks.xml
    gtvmin verify adaptive_primal_dual --instance lasso_path --check check_scaling --check check_flows
    gtvmin verify my_package.fed_x:FedX --suite federated

    A solver is a function of a problem that returns parameters W or (W, U), an object with the driver protocol, or the
    name of a method; on the suite federated it is a federated algorithm, which says which program its limit solves.
    Modules of the current folder are found. --instance and --check may be repeated; a name that there is not lists
    those there are.

    Exit code: 0 if no check failed and not all were skipped, 1 if not, 2 for unusable input.
    """  # noqa: D301 - click wants the control character itself
    _check_files(report, junit)
    reports = _run(solvers, suite, names or None, checks or None, gap, dict(expected), quiet)
    if not quiet:
        for one in reports:
            _print(one)
    files = []
    if junit is not None:
        from gtvmin.verify.junit import write_junit

        files.append(write_junit(reports, junit))
    if report is not None:
        from gtvmin.verify.report import write_report

        files.append(write_report(reports, report))
    if files and not quiet:
        click.echo(f"written: {', '.join(map(str, files))}")
    ctx.exit(0 if all(one.ok for one in reports) else 1)


def _check_files(report: Path | None, junit: Path | None) -> None:
    """Before the work is done, not after."""
    for option, file in (("--report", report), ("--junit", junit)):
        if file is not None and not file.absolute().parent.is_dir():
            raise click.BadParameter(f"the folder {file.absolute().parent} does not exist", param_hint=f"'{option}'")


def _run(
    solvers: Sequence[str],
    suite: str,
    names: Sequence[str] | None,
    checks: Sequence[str] | None,
    gap: float | None,
    expected: dict[str, str],
    quiet: bool,
) -> tuple[SolverReport, ...]:
    from gtvmin.verify.runner import (
        check_solver,
        chosen_checks,
        chosen_instances,
        named_instances,
        validated_expectations,
    )
    from gtvmin.verify.selection import under_test

    with blame("--suite"):
        _, offered = named_instances(suite)
    with blame("--instance"):
        instances = chosen_instances(names, suite, offered)
    with blame("--check"):
        chosen = chosen_checks(checks, instances)
    with blame("--expected-failure"):
        validated_expectations(expected)
    with blame("MODULE:OBJECT"):
        tested = [under_test(solver, instances, gap, None) for solver in solvers]
    seen: list[CheckResult] = []
    with _bar(len(tested) * len(instances) * len(chosen), not quiet) as advance:

        def progress(row: CheckResult) -> None:
            seen.append(row)
            if advance is not None:
                advance(row)

        try:
            return tuple(
                check_solver(one, suite, instances=names, checks=checks, expected_failures=expected, progress=progress)
                for one in tested
            )
        except KeyboardInterrupt:
            failures = [row for row in seen if not row.ok]
            for row in failures:
                click.echo(f"{row.outcome}: {row.key}: {row.reason.partition(chr(10))[0]}", err=True)
            click.echo(f"interrupted after {len(seen)} checks, {len(failures)} of them failed", err=True)
            raise


@contextmanager
def _bar(total: int, shown: bool) -> Iterator[Callable[[CheckResult], None] | None]:
    """A bar that counts the checks, on terminals."""
    from gtvmin.cli.output import console

    screen = console(stderr=True)
    if not shown or not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as progress:
        task = progress.add_task("checking", total=total)
        failed = 0

        def advance(row: CheckResult) -> None:
            nonlocal failed
            failed += not row.ok
            text = f"{row.instance}{f', {failed} failed' if failed else ''}"
            progress.update(task, advance=1, description=text)

        yield advance


def _print(report: SolverReport) -> None:
    """Outcomes by check, then each failure with its reason."""
    from rich.table import Table

    from gtvmin.cli.output import console

    screen = console()
    counts: dict[str, Counter[str]] = {}
    for row in report.results:
        counts.setdefault(row.check, Counter())[row.outcome] += 1
    shown = [outcome for outcome in OUTCOMES if any(count[outcome] for count in counts.values())]
    table: Any = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(report.solver)
    for outcome in shown:
        table.add_column(outcome, justify="right")
    for check, count in counts.items():
        table.add_row(check, *(str(count[outcome] or "") for outcome in shown))
    screen.print(table)
    explained = set()
    for row in report.failures:
        reason = row.reason.partition("\n")[0] if row.check in explained else row.reason
        explained.add(row.check)
        screen.print(f"{row.outcome}: {row.key}: {reason}", soft_wrap=True)
    screen.print(str(report).partition("\n")[0], soft_wrap=True)
