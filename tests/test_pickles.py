"""Results can be copied and pickled, for processes that run beside one another and for files of one's own."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import gtvmin as gtv
from gtvmin.federated import program_of
from gtvmin.federated.catalogue import entries, make_algorithm
from gtvmin.reference import solve_reference
from gtvmin.shares import device_states
from gtvmin.timings import time_solvers
from gtvmin.verify import check_solver

NET = gtv.FLNetwork.from_edges([("a", "b", 1.0), ("b", "c", 2.0), ("c", "d", 0.5)])
LOSSES = {
    name: gtv.SquaredError([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]], [y, y + 1.0, 3.0])
    for name, y in zip("abcd", (0.0, 0.5, 5.0, 6.0), strict=True)
}


@cache
def lasso() -> gtv.GTVMin:
    return gtv.NetworkLasso(NET, LOSSES, lam=0.3)


@cache
def squared() -> gtv.GTVMin:
    return gtv.GTVMin(NET, LOSSES, penalty=gtv.SquaredNorm(), alpha=0.3)


@cache
def solved() -> gtv.Solution:
    return lasso().solve()


def arcs() -> gtv.GTVMin:
    demand = {"a": -1.0, "b": 0.0, "c": 1.0, "d": 0.0}
    losses = {name: gtv.Linear([-amount]) for name, amount in demand.items()}
    return gtv.GTVMin(NET, losses, penalty=gtv.FlowCost(cost=1.0, capacity=4.0), alpha=1.0)


RESULTS: dict[str, Callable[[], Any]] = {
    "GTVMin": lasso,
    "Solution": solved,
    "Certificate": lambda: solved().certificate,
    "Certificate, rigorous": lambda: gtv.certify(lasso(), solved().weights, solved().flows, rigorous=True),
    "Structure": lambda: solved().structure(),
    "NodeShares": lambda: device_states(lasso(), solved().certificate),
    "MinCostFlow": lambda: arcs().dual(),
    "FlowSolution": lambda: arcs().dual().solve(),
    "AlphaPath": lambda: lasso().path([0.1, 1.0]),
    "CrossValidation": lambda: lasso().cross_validate([0.1, 1.0], folds=2),
    "ClusterPath": lambda: gtv.clusterpath([[0.0], [0.1], [3.0]], [0.01, 0.1, 1.0]),
    "Reference": lambda: solve_reference(lasso()),
    "Timings": lambda: time_solvers(squared(), ["linear_system"], [1e-6], repeats=1),
    "SolverReport": lambda: check_solver("linear_system", "smoke", checks=["check_answer", "check_input_untouched"]),
}


def same(one: Any, other: Any) -> bool:
    """Whether two results hold the same, read attribute by attribute."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if sparse.issparse(one):
        return same(one.toarray(), other.toarray())
    if is_dataclass(one) and not isinstance(one, type):
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return one == other or (one != one and other != other)
    return hasattr(one, "__dict__") or hasattr(one, "__slots__") or bool(one == other)


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", RESULTS)
def test_results_can_be_copied_and_pickled(kind: str, duplicate: Callable[[Any], Any]) -> None:
    result = RESULTS[kind]()
    again = duplicate(result)
    assert same(result, again)
    assert str(again) == str(result)


@pytest.mark.parametrize("name", entries())
def test_federated_runs_can_be_copied_and_pickled(name: str) -> None:
    """Everything of them, the state included, from which the algorithm makes the same next round."""
    chosen = make_algorithm(name, **entries()[name].example)
    run = gtv.federate(squared(), chosen, rounds=3, seed=1)
    for duplicate in (copy.copy, copy.deepcopy, pickled):
        again = duplicate(run)
        assert same(run, again)
        assert str(again.program) == str(run.program)
        assert again.problem.hash == run.problem.hash
        form = gtv.federated.federated_form(again.problem)
        states = [run.algorithm.step(form, state) for state in (run.state, again.state)]
        models = [run.algorithm.point(form, state).W for state in states]
        assert np.array_equal(*models)


def test_what_is_computed_from_a_problem_is_not_pickled_with_it() -> None:
    problem = gtv.NetworkLasso(NET, LOSSES, lam=0.3)
    before = len(pickle.dumps(problem))
    problem.solve()
    assert problem.hash == pickled(problem).hash
    assert len(pickle.dumps(problem)) == before


def test_the_arrays_of_a_pickled_problem_stay_read_only() -> None:
    assert not pickled(lasso()).dims.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        pickled(solved()).weights[0, 0] = 1.0


def test_a_program_is_placed_where_it_was() -> None:
    for name in ("fedprox", "pfedme", "pdsgd"):
        run = gtv.federate(squared(), name, rounds=3, **entries()[name].example)
        program = program_of(run.algorithm, squared())
        point = run.algorithm.point(gtv.federated.federated_form(squared()), run.state)
        assert np.array_equal(pickled(program).place(point), program.place(point))
