"""The suite of federated programs: right algorithms pass on it, and faults of the field are caught."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import gtvmin as gtv
from federated_faults import RIGHT, WRONG
from gtvmin.verify import check_solver, suite

BY_NAME = {instance.name: instance for instance in suite("federated_programs")}
CHECKS = ["check_answer", "check_certified_gap"]


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Baselines are made anew, and none of a wrong problem is left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GTVMIN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def test_the_solver_of_the_package_raises_no_alarm() -> None:
    report = check_solver("auto", "federated_programs", checks=CHECKS)
    assert report.ok, str(report)


@pytest.mark.parametrize("solver", RIGHT, ids=lambda solver: solver.__name__)
def test_right_algorithms_raise_no_alarm(solver: Callable[[gtv.GTVMin], object]) -> None:
    report = check_solver(lambda problem: solver(problem), [BY_NAME[RIGHT[solver]]], checks=CHECKS)
    assert report.ok, str(report)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("solver", WRONG, ids=lambda solver: solver.__name__)
def test_faults_of_the_field_are_caught(solver: Callable[[gtv.GTVMin], object]) -> None:
    report = check_solver(solver, [BY_NAME[WRONG[solver]]], checks=CHECKS)
    assert {row.check for row in report.failures} == {"check_certified_gap"}, str(report)


def test_every_program_catches_something() -> None:
    """Or is one that right algorithms are tried on; the complete graph and the ring are the others' counterparts."""
    assert set(BY_NAME) - set(WRONG.values()) == {"prox_complete_graph", "network_ring"}
