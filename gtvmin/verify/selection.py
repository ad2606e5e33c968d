"""Which checks a suite has, and the face that its checks give to what they test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from gtvmin.verify.checks import CHECKS, Check
from gtvmin.verify.federated.limit_checks import (
    check_device_names,
    check_device_order,
    check_empty_device,
    check_limit,
    check_models,
    check_start,
    check_states,
    check_weights,
    check_zero_weight,
)
from gtvmin.verify.federated.reading import algorithm_under_test
from gtvmin.verify.federated.round_checks import (
    check_invariants,
    check_repeatable,
    check_rounds,
    check_streams,
    check_traffic,
)
from gtvmin.verify.under_test import solver_under_test

if TYPE_CHECKING:
    from gtvmin.verify.instances import Instance

__all__ = ["ALL_CHECKS", "FEDERATED_CHECKS", "UnderTest", "checks_of", "under_test"]

FEDERATED = "federated"
"""Tag of the instances on which federated algorithms are tested."""

FEDERATED_CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            check_models,
            check_states,
            check_limit,
            check_start,
            check_weights,
            check_zero_weight,
            check_empty_device,
            check_device_names,
            check_device_order,
            check_rounds,
            check_invariants,
            check_traffic,
            check_repeatable,
            check_streams,
        )
    }
)
"""The checks of the suite ``federated`` by name, in the order in which they run."""

ALL_CHECKS: Mapping[str, Check] = MappingProxyType({**CHECKS, **FEDERATED_CHECKS})
"""Those of solvers and of federated algorithms; their names differ."""


class UnderTest(Protocol):
    """What a report needs to know of what is tested."""

    @property
    def name(self) -> str:
        """For reports."""
        ...

    @property
    def relative_gap(self) -> float:
        """What it is judged by."""
        ...

    @property
    def expected_failures(self) -> Mapping[str, str]:
        """Its own known failures."""
        ...


def is_federated(instances: Iterable[Instance]) -> bool:
    """Whether instances are for federated algorithms.

    Raises
    ------
    ValueError
        If only some of them are.
    """
    kinds = {FEDERATED in instance.tags for instance in instances}
    if len(kinds) > 1:
        raise ValueError(
            f"instances with the tag {FEDERATED!r} are for federated algorithms, the others for solvers: test them "
            "apart"
        )
    return kinds == {True}


def checks_of(instances: Sequence[Instance]) -> Mapping[str, Check]:
    """The checks that run on instances."""
    return FEDERATED_CHECKS if is_federated(instances) else CHECKS


def under_test(solver: Any, instances: Sequence[Instance], relative_gap: float | None, name: str | None) -> UnderTest:
    """A solver or federated algorithm as the checks on some instances take it.

    Without ``relative_gap`` solvers are asked for 1e-6 and limits of algorithms are judged by 1e-10.
    """
    if is_federated(instances):
        return algorithm_under_test(solver, relative_gap=relative_gap, name=name)
    return solver_under_test(solver, relative_gap=1e-6 if relative_gap is None else relative_gap, name=name)
