"""The catalogue of instances, by suite."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from gtvmin.verify.instances import (
    classification,
    clustering,
    federated,
    federated_programs,
    flow,
    hard,
    network_lasso,
    quadratic,
    real,
    robust,
)
from gtvmin.verify.instances.instance import Instance

__all__ = ["Instance", "suite", "suites"]

FAMILIES = (
    quadratic,
    network_lasso,
    clustering,
    classification,
    robust,
    flow,
    federated_programs,
    federated,
    real,
    hard,
)

SUITES: Mapping[str, str] = MappingProxyType(
    {
        "smoke": "Small ones of every kind, in seconds.",
        "quadratic": "Quadratic losses, squared norm: linear systems.",
        "network_lasso": "Squared errors, norm: neighbours fuse.",
        "convex_clustering": "One point a device, norm.",
        "classification": "Logistic, hinge, squared hinge and softmax losses.",
        "flow": "Linear losses: the dual is a minimum-cost flow.",
        "federated_programs": "What federated algorithms solve: consensus, stars, personal models.",
        "hard": "Where methods slow down, stall or lose digits.",
        "federated": "Devices of different sizes: for federated algorithms, with checks of their own.",
    }
)


def suites() -> dict[str, str]:
    """Names of the suites and what they hold.

    Examples
    --------
    >>> from gtvmin.verify import suites
    >>> suites()["smoke"]
    'Small ones of every kind, in seconds.'
    """
    return dict(SUITES)


@cache
def suite(name: str) -> tuple[Instance, ...]:
    """Instances of a suite.

    Parameters
    ----------
    name : str
        One of :func:`suites`.

    Raises
    ------
    ValueError
        If there is no suite of that name; the message lists those there are.

    Examples
    --------
    >>> from gtvmin.verify import suite
    >>> [instance.name for instance in suite("quadratic")][:2]
    ['quadratic_two_nodes', 'quadratic_path']
    """
    if name not in SUITES:
        raise ValueError(f"suite {name!r} is unknown: choose one of {', '.join(SUITES)}")
    found = [thing for family in FAMILIES for thing in vars(family).values() if isinstance(thing, Instance)]
    return tuple(thing for thing in found if name in thing.tags)
