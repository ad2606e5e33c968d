"""What came of the checks: one row for each solver, instance and check."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gtvmin.verify.judgement import Judgement

__all__ = ["CheckResult", "Outcome", "SolverReport"]

Outcome = Literal["passed", "failed", "skipped", "xfailed", "xpassed"]
"""``xfailed``: failed as expected; ``xpassed``: passed although a failure was expected, which counts as a failure."""


@dataclass(frozen=True)
class CheckResult:
    """One check of one solver on one instance.

    Attributes
    ----------
    solver, instance, check : str
        Names.
    outcome : {"passed", "failed", "skipped", "xfailed", "xpassed"}
        How it ended; an unexpected pass is a failure as well.
    reason : str
        Of a failure or a skip; for an expected failure, why it is expected and how it failed.
    relative_gap : float or None
        Certified relative gap of the answer that the check looked at.
    seconds : float
        Time of the check, runs of the solver included.
    history : tuple
        The solver's own record of that run, as :attr:`gtvmin.Solution.history` has it; empty if it keeps none.
    judgement : Judgement or None
        Of a failure, the answer against the baseline: which devices and edges are wrong.
    """

    solver: str
    instance: str
    check: str
    outcome: Outcome
    reason: str = ""
    relative_gap: float | None = None
    seconds: float = 0.0
    history: tuple[Any, ...] = field(default=(), repr=False)
    judgement: Judgement | None = field(default=None, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the row is no failure."""
        return self.outcome in ("passed", "skipped", "xfailed")

    @property
    def log10_gap(self) -> float | None:
        """Decimal logarithm of the relative gap; None without one, minus infinity for zero."""
        if self.relative_gap is None or math.isnan(self.relative_gap):
            return None
        return math.log10(self.relative_gap) if self.relative_gap > 0 else -math.inf

    @property
    def key(self) -> str:
        """``check[instance]``, as expected failures are named."""
        return f"{self.check}[{self.instance}]"


@dataclass(frozen=True)
class SolverReport:
    """All rows of a solver.

    Attributes
    ----------
    solver, suite : str
        Names.
    relative_gap : float
        What the solver was asked for, and judged by.
    results : tuple of CheckResult
        In the order in which the checks ran.
    """

    solver: str
    suite: str
    relative_gap: float
    results: tuple[CheckResult, ...]

    @property
    def failures(self) -> tuple[CheckResult, ...]:
        """Rows that failed, or passed although they should not."""
        return tuple(row for row in self.results if not row.ok)

    @property
    def all_skipped(self) -> bool:
        """Whether nothing was checked at all."""
        return all(row.outcome == "skipped" for row in self.results)

    @property
    def ok(self) -> bool:
        """Whether no row failed, and something was checked."""
        return not self.failures and not self.all_skipped

    def counts(self) -> dict[str, int]:
        """Number of rows by outcome."""
        return dict(Counter(row.outcome for row in self.results))

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, without histories and judgements; needs pandas."""
        import pandas as pd

        columns = [part.name for part in fields(CheckResult) if part.name not in ("history", "judgement")]
        rows = [{**{name: getattr(row, name) for name in columns}, "log10_gap": row.log10_gap} for row in self.results]
        return pd.DataFrame(rows, columns=[*columns, "log10_gap"])

    def __str__(self) -> str:
        counted = ", ".join(f"{number} {outcome}" for outcome, number in self.counts().items()) or "no checks"
        verdict = "ok" if self.ok else "all skipped: nothing was checked" if self.all_skipped else "FAILED"
        lines = [f"{self.solver} on {self.suite}, relative gap {self.relative_gap:g}: {counted}: {verdict}"]
        lines += [f"  {row.outcome}: {row.key}: {row.reason.partition(chr(10))[0]}" for row in self.failures]
        return "\n".join(lines)
