"""Losses that fall for ever: they are told, and certified where their parameters are large enough."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import linprog

import gtvmin as gtv
from gtvmin.attainment import unattained_nodes
from gtvmin.errors import NotAttainedWarning
from gtvmin.solvers.common_minima import common_minima, excess

SEPARABLE = gtv.Logistic([[1.0, 0.0], [0.5, 1.0]], [1, 1])
MIXED = gtv.Logistic([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [1, -1, 1, -1])  # least at zero: log 2


def two_pairs(first: gtv.Loss, second: gtv.Loss, alpha: float = 0.5) -> gtv.GTVMin:
    """Devices 0 and 1 have the first loss, 2 and 3 the second; the pairs are not coupled to each other."""
    network = gtv.FLNetwork.from_edges([(0, 1), (2, 3)])
    return gtv.GTVMin(network, [first, first, second, second], penalty=gtv.Norm(2), alpha=alpha)


def test_a_separable_component_is_certified_and_told() -> None:
    with pytest.warns(NotAttainedWarning, match=r"2 devices, the first is 0, .*hyperplane separates.*ElasticNet"):
        solution = two_pairs(SEPARABLE, MIXED).solve(gap=1e-9)
    assert solution.is_certified
    assert 0 <= solution.objective - 2 * math.log(2) <= solution.gap + 1e-12
    assert solution.iterations < 60


def test_an_infimum_of_zero_is_certified() -> None:
    with pytest.warns(NotAttainedWarning, match="4 devices"):
        solution = two_pairs(SEPARABLE, SEPARABLE).solve()
    assert solution.is_certified
    assert solution.objective < 1e-13


@pytest.mark.parametrize(
    "loss",
    [
        gtv.SquaredHinge([[1.0, 0.0], [0.5, 1.0]], [1, 1]),  # zero from parameters of a finite size on
        SEPARABLE + 0.01 * gtv.ElasticNet(0.0, 1.0),
        gtv.Huber([[1.0, 0.0]], [2.0], delta=1.0),
        gtv.SquaredError([[1.0, 0.0]], [2.0]),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning")
def test_an_infimum_that_is_attained_is_not_told_to_be_none(loss: gtv.Loss) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotAttainedWarning)
        assert two_pairs(loss, MIXED).solve().is_certified


@pytest.mark.parametrize(
    ("loss", "method"),
    [
        (0.1 * gtv.Huber([[1.0]], [5.0], delta=1.0), "auto"),
        (0.3 * gtv.Hinge([[1.0]], [1]), "auto"),
        (0.01 * gtv.Poisson([[1.0]], [5]), "auto"),
        (30.0 * gtv.Logistic([[1.0]], [1]) + 3e-5 * gtv.SquaredDistance([0.0]), "adaptive_primal_dual"),
    ],
    ids=["Huber", "Hinge", "Poisson", "ridge"],
)
def test_a_run_that_ends_on_the_way_to_a_minimum_does_not_tell_that_there_is_none(loss: gtv.Loss, method: str) -> None:
    """Since the other component's objective is large, the gap is reached with parameters short of the minimum."""
    far = gtv.SquaredError([[1.0], [1.0]], [1000.0, -1000.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotAttainedWarning)
        assert two_pairs(loss, far).solve(method).is_certified


@pytest.mark.parametrize("short", [0.2, 0.5, 0.5 + 1e-10, 0.7])
def test_parameters_short_of_a_minimum_do_not_tell_that_there_is_none(short: float) -> None:
    form = two_pairs(gtv.Huber([[1.0]], [5.0], delta=1.0), gtv.LeastAbsolute([[1.0]], [3.0])).lowered.form
    assert not unattained_nodes(form, short * np.array([[5.0], [5.0], [3.0], [3.0]]), form.zero_duals()).any()


@pytest.mark.parametrize("seed", range(20))
def test_what_is_settled_a_linear_program_separates(seed: int) -> None:
    """One component of three devices with four data points each in the plane: about half of them are separable."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(3, 2, 2)), rng.choice([-1.0, 1.0], size=(3, 2))
    losses = [gtv.Logistic(X[i], y[i]) for i in range(3)]
    form = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1), (1, 2)]), losses, penalty=gtv.Norm(2), alpha=1.0).lowered.form
    rows = (y[:, :, None] * X).reshape(-1, 2)
    # the largest margin that a direction of maximum norm one has
    program = linprog([0, 0, -1], A_ub=np.column_stack([-rows, np.ones(6)]), b_ub=np.zeros(6), bounds=[(-1, 1)] * 3)
    margin = -program.fun
    W, settled = common_minima(form)
    assert settled.tolist() == [margin > 1e-9] * 3
    if margin > 1e-9:
        assert excess(form, W).sum() < 1e-16
        assert np.ptp(W, axis=0).max() == 0
        duals = form.zero_duals()
        assert unattained_nodes(form, W, duals).all()
    else:
        assert not W.any()


def test_excess_is_what_losses_have_above_their_infima() -> None:
    losses = [gtv.SquaredError([[2.0]], [4.0]), gtv.Poisson([[1.0]], [0]), gtv.Linear([1.0]), gtv.Huber([[1.0]], [5.0])]
    form = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1), (2, 3)]), losses, penalty=gtv.Norm(2), alpha=1.0).lowered.form
    above = excess(form, np.array([[1.0], [-3.0], [0.0], [5.0]]))
    np.testing.assert_allclose(above, [4.0, math.exp(-3.0), math.inf, 0.0], atol=1e-14)
