"""How tight certificates are during a run: the gap over the true suboptimality of the same parameters.

``docs/tightness.md`` has the worst ratio of every loss and penalty; it is written with ``GTVMIN_WRITE_DOCS=1``. A plain
run measures some pairs again, and checks that the table is complete.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from gtvmin.dual_repair import best_dual, complete_duals
from gtvmin.monitor import GapMonitor
from gtvmin.registry import make_solver
from gtvmin.solvers.driver import run
from gtvmin.solvers.standard_form import Assessment, Point
from test_language import LOSSES, PENALTIES, instance

TABLE = Path(__file__).parents[1] / "docs" / "tightness.md"
MOST = 10.0
# Added to the suboptimality, relative to the optimum, or to the objective of zero parameters: what is below is not told
# apart.
RESOLUTION = 1e-9
EPS = float(np.finfo(float).eps)
SAMPLE = [
    ("SquaredError", "Norm(2)"),
    ("SquaredError, 2 rows", "Norm(1)"),
    ("Logistic", "Norm(2)"),
    ("L1", "Norm(inf)"),
    ("Poisson", "SquaredNorm"),
    ("Box", "FlowCost"),
    ("Hinge", "Norm(2)"),
]
everything = bool(os.environ.get("GTVMIN_WRITE_DOCS"))
PAIRS = [(loss, penalty) for loss in LOSSES for penalty in PENALTIES if loss != "CvxpyLoss"] if everything else SAMPLE
worst: dict[tuple[str, str], float] = {}


def worst_ratio(loss: str, penalty: str) -> float:
    """Largest ratio over the assessments of a run, each with the best bound that its flows give or any before it."""
    form = instance(loss, penalty, seed=0).lowered.solver_form
    monitor = GapMonitor(form, 1e-11)
    stages: list[tuple[float, float]] = []
    best = [None]

    def watch(point: Point, iteration: int) -> Assessment:
        assessment = monitor(point, iteration)
        inside = monitor.domain.project(point.W)
        best[0], _ = best_dual(form, complete_duals(form, inside, point.U or ()), best[0])
        stages.append((monitor.primal, best[0][0]))
        return assessment

    result = run(make_solver("adaptive_primal_dual"), form, stop=watch, max_iter=20_000)
    optimum = result.history[-1].primal - 0.5 * result.history[-1].gap
    zero_model = form.objective(monitor.domain.project(np.zeros((form.n_nodes, form.dim))))
    size = max(RESOLUTION * abs(optimum), EPS * abs(zero_model))
    return max(
        (primal - dual) / (max(primal - optimum, 0.0) + size) for primal, dual in stages[min(2, len(stages) - 1) :]
    )


@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
def test_the_gap_is_of_the_order_of_the_suboptimality(loss: str, penalty: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        worst[loss, penalty] = worst_ratio(loss, penalty)
    assert worst[loss, penalty] <= MOST or everything


HEAD = """# How tight certificates are

Worst ratio of the certified gap to the true suboptimality (plus 1e-9 of the optimum) of the same parameters over a run
of `adaptive_primal_dual`, on the instances of [the language table](language.md), repairing the duals at every
assessment; written by a run of `tests/test_tightness.py`. One is exact. Ratios above 10 are in bold. During a run the
solver's own stopping test repairs less often, so that its gap can lag behind these.

"""


def test_the_table_in_the_docs_is_complete() -> None:
    if everything:
        losses = [loss for loss in LOSSES if loss != "CvxpyLoss"]
        lines = ["| loss | " + " | ".join(PENALTIES) + " |", "|---" * (len(PENALTIES) + 1) + "|"]
        for loss in losses:
            ratios = (worst[loss, penalty] for penalty in PENALTIES)
            cells = (f"{ratio:.1f}" if ratio <= MOST else f"**{ratio:.0f}**" for ratio in ratios)
            lines.append(f"| {loss} | " + " | ".join(cells) + " |")
        TABLE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    table = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    heading, *body = ([part.strip() for part in line.strip("|").split("|")] for line in table)
    assert heading == ["loss", *PENALTIES]
    assert [row[0] for row in body] == [loss for loss in LOSSES if loss != "CvxpyLoss"]
    assert all(all(row) for row in body)
