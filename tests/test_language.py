"""Every loss with every penalty by every solver: the worst certified relative gap over small instances.

The table in ``docs/language.md`` is written by a run of these tests with ``GTVMIN_WRITE_DOCS=1``; a plain run checks
that it has a row for every loss and a column for every penalty, and no empty cell.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gtvmin as gtv
import gtvmin.losses
import gtvmin.penalties
from gtvmin.errors import ConvergenceWarning, NotUniqueWarning
from gtvmin.registry import make_solver, solver_names
from gtvmin.solvers.driver import missing_capabilities

TABLE = Path(__file__).parents[1] / "docs" / "language.md"
DIM = 4
EDGES = [(0, 1, 1.0), (1, 2, 0.5), (0, 2, 2.0), (2, 3, 1.0), (3, 4, 1.0), (4, 5, 3.0)]
GAP = 1e-6
BUDGET = 60_000

Draw = np.random.Generator


def rows(rng: Draw, m: int = 6, dim: int = DIM) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(m, dim))
    return X, X @ rng.normal(size=dim) + 0.5 * rng.normal(size=m)


def signs(rng: Draw) -> tuple[np.ndarray, np.ndarray]:
    X, y = rows(rng, 9)
    return X, np.where(y + rng.normal(size=9) > 0, 1, -1)


def anchored(loss: gtv.Loss, rng: Draw) -> gtv.Loss:
    """Constraints, linear and unregularised losses get something that makes the minimum exist."""
    return loss + 0.5 * gtv.SquaredDistance(rng.normal(size=DIM))


LOSSES: dict[str, Callable[[Draw], gtv.Loss]] = {
    "Zero": lambda rng: gtv.Zero(),
    "Quadratic": lambda rng: gtv.Quadratic(np.cov(rng.normal(size=(DIM, 8))), rng.normal(size=DIM)),
    "SquaredDistance": lambda rng: gtv.SquaredDistance(rng.normal(size=DIM)),
    "SquaredError": lambda rng: gtv.SquaredError(*rows(rng)),
    "SquaredError, 2 rows": lambda rng: gtv.SquaredError(*rows(rng, 2)),
    "Ridge": lambda rng: gtv.Ridge(*rows(rng, 3), lam=0.1, penalise=[1, 1, 1, 0]),
    "Linear": lambda rng: anchored(gtv.Linear(rng.normal(size=DIM)), rng),
    "L1": lambda rng: gtv.SquaredError(*rows(rng)) + 0.2 * gtv.L1(),
    "ElasticNet": lambda rng: gtv.SquaredError(*rows(rng)) + gtv.ElasticNet(0.1, 0.1),
    "Huber": lambda rng: gtv.Huber(*rows(rng), delta=0.3),
    "LeastAbsolute": lambda rng: gtv.LeastAbsolute(*rows(rng)),
    "Quantile": lambda rng: gtv.Quantile(*rows(rng), tau=0.8),
    "Logistic": lambda rng: anchored(0.5 * gtv.Logistic(*signs(rng)), rng),
    "Softmax": lambda rng: anchored(gtv.Softmax(rng.normal(size=(8, 2)), np.arange(8) % 2), rng),
    "Poisson": lambda rng: anchored(gtv.Poisson(0.5 * rng.normal(size=(8, DIM)), rng.poisson(2.0, size=8)), rng),
    "Hinge": lambda rng: anchored(gtv.Hinge(*signs(rng)), rng),
    "SquaredHinge": lambda rng: anchored(gtv.SquaredHinge(*signs(rng)), rng),
    "NonNegative": lambda rng: gtv.SquaredError(*rows(rng)) + gtv.NonNegative(),
    "Box": lambda rng: gtv.SquaredError(*rows(rng)) + gtv.Box(-0.3, 0.4),
    "Ball": lambda rng: gtv.SquaredError(*rows(rng)) + gtv.Ball(0.7),
    "Simplex": lambda rng: gtv.SquaredError(*rows(rng)) + gtv.Simplex(),
    "Affine": lambda rng: gtv.SquaredError(*rows(rng, 2)) + gtv.Affine([[1.0, 1.0, 0.0, 0.0]], [0.5]),
    "CvxpyLoss": lambda rng: cvxpy_loss(rng.normal(size=DIM)),
}


def cvxpy_loss(a: np.ndarray) -> gtv.Loss:
    import cvxpy as cp

    return gtv.CvxpyLoss(lambda w: cp.sum_squares(w - a) + cp.norm(w, 2), DIM)


PENALTIES: dict[str, gtv.Penalty] = {
    "SquaredNorm": gtv.SquaredNorm(),
    "Norm(1)": gtv.Norm(1),
    "Norm(2)": gtv.Norm(2),
    "Norm(inf)": gtv.Norm(np.inf),
    "HuberPenalty": gtv.HuberPenalty(0.5),
    "FlowCost": gtv.FlowCost(cost=0.1, capacity=1.0, back_cost=0.2, back_capacity=0.5),
    "PredictionDiscrepancy": gtv.PredictionDiscrepancy(np.random.default_rng(1).normal(size=(3, DIM))),
    "Partial": gtv.Partial(gtv.Norm(2), [0, 2]),
    "Consensus": gtv.Consensus(),
}

# Combinations that do not reach the gap within the budget, each with its reason.
KNOWN: dict[tuple[str, str, str], str] = {}
SOLVERS = (*solver_names(), "cvxpy")
results: dict[tuple[str, str, str], float | str] = {}


def instance(loss: str, penalty: str, seed: int) -> gtv.GTVMin:
    rng = np.random.default_rng([seed, list(LOSSES).index(loss)])
    losses = [LOSSES[loss](rng) for _ in range(6)]
    losses[3] = gtv.Zero()
    if loss == "Zero":
        losses[0] = losses[5] = gtv.SquaredError(*rows(rng))
    return gtv.GTVMin(gtv.FLNetwork.from_edges(EDGES), losses, penalty=PENALTIES[penalty], alpha=0.2, dim=DIM)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_pair_is_certified_and_solvers_agree(loss: str, penalty: str) -> None:
    problem = instance(loss, penalty, seed=0)
    objectives = {}
    for solver in SOLVERS:
        if solver != "cvxpy" and (missing := missing_capabilities(make_solver(solver), problem.lowered.form)):
            results[loss, penalty, solver] = "needs " + ", ".join(missing)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the plain method may take longer than the budget
            warnings.simplefilter("ignore", NotUniqueWarning)
            solution = problem.solve(solver, gap=GAP, **({} if solver == "cvxpy" else {"max_iter": BUDGET}))
        results[loss, penalty, solver] = solution.relative_gap
        objectives[solver] = solution.objective
        if (loss, penalty, solver) not in KNOWN and solver != "primal_dual":
            assert solution.is_certified, f"{solver}: {solution!r}"
    best = min(objectives.values())
    for solver, objective in objectives.items():
        gap = float(results[loss, penalty, solver])
        assert objective - best <= max(gap, GAP) * max(abs(objective), abs(best)) * 1.01 + 1e-9, solver


def test_every_loss_and_penalty_is_here() -> None:
    """Forgetting to try a new class with all others fails."""
    for module, base, tried in ((gtvmin.losses, gtv.Loss, LOSSES), (gtvmin.penalties, gtv.Penalty, PENALTIES)):
        classes = {
            name
            for name, member in vars(module).items()
            if inspect.isclass(member) and issubclass(member, base) and not inspect.isabstract(member)
        }
        shown = {name.split("(")[0].split(",")[0] for name in tried}
        # Mapped and PerEdge couple other penalties, which are here
        assert classes - {"Mapped", "PerEdge"} <= shown


def cell(loss: str, penalty: str) -> str:
    parts = []
    for solver in SOLVERS:
        found = results[loss, penalty, solver]
        if isinstance(found, float):
            note = "" if found <= GAP else " (" + KNOWN.get((loss, penalty, solver), "budget spent") + ")"
            parts.append(f"{SHORT.get(solver, solver)} {found:.0e}{note}")
    return "<br>".join(parts)


SHORT = {"adaptive_primal_dual": "APD", "primal_dual": "PD", "linear_system": "LS", "cvxpy": "Clarabel"}

HEAD = """# Losses x penalties x solvers

Certified relative gap reached on a small network of six devices, one without labels, with a tolerance of 1e-6 and at
most 60,000 iterations; written by a run of `tests/test_language.py`. APD: `adaptive_primal_dual`, PD: `primal_dual`
with the paper's fixed steps, LS: `linear_system`, Clarabel: `method="cvxpy"`. A solver that is not named in a cell does
not fit the pair: `linear_system` needs quadratic losses and penalties.

"""


def test_the_table_in_the_docs_is_complete() -> None:
    """Written with GTVMIN_WRITE_DOCS=1; checked for its rows and columns otherwise."""
    if os.environ.get("GTVMIN_WRITE_DOCS"):
        lines = ["| loss | " + " | ".join(PENALTIES) + " |", "|---" * (len(PENALTIES) + 1) + "|"]
        lines += [f"| {loss} | " + " | ".join(cell(loss, penalty) for penalty in PENALTIES) + " |" for loss in LOSSES]
        TABLE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    table = [line for line in TABLE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    heading, *body = ([part.strip() for part in line.strip("|").split("|")] for line in table)
    assert heading == ["loss", *PENALTIES]
    assert [row[0] for row in body] == list(LOSSES)
    assert all(all(row) for row in body)
