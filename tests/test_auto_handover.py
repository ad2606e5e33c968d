"""``method="auto"`` hands what Newton steps do not finish to the adaptive primal-dual method."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gtvmin as gtv
from gtvmin import solving
from gtvmin.errors import ConvergenceWarning

pytestmark = pytest.mark.filterwarnings("ignore::gtvmin.errors.NotAttainedWarning")


def separable() -> gtv.GTVMin:
    """A device whose loss has its infimum, zero, at infinity, and one whose least loss is log 2, at zero."""
    losses = [gtv.Logistic([[1.0]], [1]), gtv.Logistic([[1.0], [1.0]], [1, -1])]
    return gtv.GTVMin(gtv.FLNetwork.from_edges([], nodes=range(2)), losses, penalty=gtv.Norm(2), alpha=0.0)


def test_what_newton_steps_do_not_finish_is_certified() -> None:
    solution = separable().solve()
    assert solution.is_certified
    assert 0 <= solution.objective - math.log(2) <= solution.certificate.gap
    assert solution.iterations < 1000


def test_the_run_goes_on_where_its_accounts_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "NEWTON_ITERATIONS", 7)
    seen: list[int] = []
    solution = separable().solve(progress=lambda record: seen.append(record.iteration))
    assert solution.method == "adaptive_primal_dual"
    assert solution.is_certified
    assert seen == [record.iteration for record in solution.history]
    assert (np.diff(seen) > 0).all()
    assert 7 in seen
    assert 8 in seen
    assert seen[-1] == solution.iterations
    assert (np.diff([record.seconds for record in solution.history]) >= 0).all()


def test_limits_hold_for_both_runs_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solving, "NEWTON_ITERATIONS", 7)
    with pytest.warns(ConvergenceWarning):
        assert separable().solve(max_iter=20).iterations == 20
    with pytest.warns(ConvergenceWarning):
        short = separable().solve(max_iter=5)
    assert short.method != "adaptive_primal_dual"
    assert short.iterations == 5
    stopped = separable()
    with pytest.warns(ConvergenceWarning):
        assert stopped.solve(progress=lambda record: record.iteration > 7).status is gtv.Status.STOPPED
