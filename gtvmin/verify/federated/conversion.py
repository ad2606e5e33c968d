"""What algorithms take, return, refuse and warn of."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import CapabilityError, GtvminWarning
from gtvmin.federated.catalogue import entries
from gtvmin.solvers.federated.step_sizes import StepSizeWarning

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array

__all__ = ["models_of", "options_of", "quiet", "refusals", "settings_of"]

OPTIONS = ("weights", "rounds", "start", "seed")
"""Keyword arguments of a function that the checks know; it takes those that its signature names."""


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings of steps that may be too long and of runs that fall short: that is judged here."""
    with warnings.catch_warnings():
        for category in (GtvminWarning, StepSizeWarning):
            warnings.simplefilter("ignore", category)
        yield


@contextmanager
def refusals(algorithm: Any) -> Iterator[None]:
    """Settings that do not fit a problem, of which the package's algorithms say so by a ValueError, are no fault."""
    try:
        yield
    except ValueError as error:
        if type(algorithm) not in {entry.algorithm for entry in entries().values()}:
            raise
        raise CapabilityError(str(error)) from error


def models_of(problem: GTVMin, returned: Any) -> Array:
    """Models of the devices from what is returned; the server's model is everybody's."""
    for attribute in ("weights", "W"):
        if hasattr(returned, attribute):
            returned = getattr(returned, attribute)
            break
    if isinstance(returned, np.ndarray) and returned.shape == (problem.dim,):
        return np.tile(np.asarray(returned, dtype=float), (problem.network.n_nodes, 1))
    if isinstance(returned, np.ndarray) and returned.dtype.kind == "f" and not np.isfinite(returned).all():
        return returned
    return problem.parameters_array(returned)


def settings_of(algorithm: Any) -> frozenset[str]:
    """The fields of an algorithm object that can be replaced."""
    named = {field.name for field in fields(algorithm)} if is_dataclass(algorithm) else set()
    return frozenset(named & {"weights", "seed"})


def options_of(algorithm: Callable[..., Any]) -> frozenset[str]:
    """The keyword arguments of a function."""
    try:
        named = set(inspect.signature(algorithm).parameters)
    except (ValueError, TypeError):  # compiled functions may not tell
        return frozenset()
    return frozenset(named & set(OPTIONS))
