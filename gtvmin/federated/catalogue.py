"""Federated algorithms by name, with the programs of their limits."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from gtvmin.federated import programs
from gtvmin.federated.program import Entry, Program, Row

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["algorithm_names", "entries", "make_algorithm", "name_of", "program_of", "rows", "surrogate_of"]


@cache
def _modules() -> tuple[Any, ...]:
    names = sorted(module.name for module in iter_modules(programs.__path__))
    return tuple(import_module(f"{programs.__name__}.{name}") for name in names)


def entries() -> dict[str, Entry]:
    """All algorithms by name."""
    return {name: entry for module in _modules() for name, entry in module.ENTRIES.items()}


def rows() -> tuple[Row, ...]:
    """Rows of the table of algorithms and programs."""
    return tuple(row for module in _modules() for row in module.ROWS)


def algorithm_names() -> tuple[str, ...]:
    """Names that :func:`gtvmin.federated.federate` takes.

    Examples
    --------
    >>> from gtvmin.federated import algorithm_names
    >>> "fedavg" in algorithm_names()
    True
    """
    return tuple(sorted(entries()))


def make_algorithm(name: str, **settings: Any) -> Any:
    """Algorithm of that name with the given settings.

    Raises
    ------
    ValueError
        If there is none of that name; the message lists those there are.
    TypeError
        If it lacks one of the settings, or needs one that is not given.
    """
    known = entries()
    if name not in known:
        close = get_close_matches(_plain(name), known, n=1)
        hint = f"did you mean {close[0]!r}? The names are" if close else "choose one of"
        raise ValueError(f"algorithm {name!r} is unknown: {hint} {', '.join(sorted(known))}")
    parameters = signature(known[name].algorithm).parameters
    unknown = next((setting for setting in settings if setting not in parameters), None)
    if unknown is not None:
        raise TypeError(f"{unknown!r} is no setting of {name!r}, which has {', '.join(parameters) or 'none'}")
    missing = [key for key, value in parameters.items() if value.default is value.empty and key not in settings]
    if missing:
        words = ": 'uniform', 'samples' or one number a device" if "weights" in missing else ""
        raise TypeError(f"{name!r} needs {', '.join(f'{key}=' for key in missing)}{words}")
    rule = settings.get("participation")
    if rule is not None and not hasattr(rule, "counts"):
        raise TypeError(
            "participation must be a rule of gtvmin.solvers.federated.participation such as Bernoulli(0.5), "
            f"got {rule!r}"
        )
    return known[name].algorithm(**settings)


def _plain(name: str) -> str:
    """A name as papers write it, in the catalogue's letters."""
    return "".join(letter for letter in str(name).lower() if letter.isalnum())


def name_of(algorithm: Any) -> str:
    """Name of an algorithm's class in the catalogue, or the class's own."""
    return next((name for name, e in entries().items() if e.algorithm is type(algorithm)), type(algorithm).__name__)


def program_of(algorithm: Any, problem: GTVMin) -> Program:
    """The convex program that the limit of an algorithm on a problem solves, or is judged by.

    An algorithm from elsewhere says it by a method ``program(problem)``.

    Raises
    ------
    TypeError
        If the algorithm is not in the catalogue and has no such method.
    """
    entry = entries().get(name_of(algorithm))
    if entry is not None:
        return entry.program(algorithm, problem)
    if not hasattr(algorithm, "program"):
        raise TypeError(f"{algorithm!r} declares no program: give it a method program(problem) -> Program")
    declared: Program = algorithm.program(problem)
    return declared


def surrogate_of(algorithm: Any, problem: GTVMin) -> Program:
    """The program in closed form that a biased limit solves exactly, for quadratic losses.

    Raises
    ------
    ValueError
        If the losses are not quadratic, or the algorithm has no surrogate.
    """
    entry = entries().get(name_of(algorithm))
    if entry is None or entry.surrogate is None:
        raise ValueError(f"{name_of(algorithm)!r} has no surrogate in closed form")
    if "quadratic" not in problem.lowered.form.local.capabilities:
        raise ValueError(f"the surrogate of {name_of(algorithm)!r} is known for quadratic losses only")
    return entry.surrogate(algorithm, problem)
