"""Is the solver right?  On every instance of a suite, and in every way that the checks know."""

import pytest
from my_solver import admm

import gtvmin as gtv
from gtvmin.verify import assert_certified, parametrize_with_problems, parametrize_with_solvers, suite


@parametrize_with_problems("network_lasso")
def test_optimum_is_certified(problem):
    if problem.penalty != gtv.Norm(2):
        pytest.skip("the solver is for the 2-norm")
    assert_certified(problem, admm(problem), relative_gap=1e-6)


@parametrize_with_solvers(admm, suite=[instance for instance in suite("smoke") if instance.name.startswith("lasso")])
def test_checks(solver, instance, check):
    check(solver, instance)
