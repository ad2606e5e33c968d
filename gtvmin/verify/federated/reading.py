"""Reading what a user has: from an algorithm of any kind to an :class:`AlgorithmUnderTest`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from gtvmin.federated.catalogue import algorithm_names, entries, make_algorithm, name_of
from gtvmin.solvers.federated.form import Weights
from gtvmin.verify.federated.claims import read_claim
from gtvmin.verify.federated.under_test import PROTOCOL, AlgorithmUnderTest
from gtvmin.verify.under_test import load_object

__all__ = ["algorithm_under_test"]

TIGHT = 1e-10
"""Relative gap that separates the limit of every fault that moves it from the right one."""
INVARIANTS = {
    "scaffold": ("c = mean c_i",),
    "feddyn": ("h = mean g",),
    "proxskip": ("mean h = 0",),
    "gradienttracking": ("mean Y = mean gradient",),
}
"""What rounds of the package's algorithms keep, by their names."""


def algorithm_under_test(
    algorithm: Any,
    *,
    solves: str | None = None,
    weights: Weights | None = None,
    equals: Any = None,
    invariants: Sequence[str] | None = None,
    relative_gap: float | None = None,
    name: str | None = None,
) -> AlgorithmUnderTest:
    """Bring a federated algorithm of any kind into the form that the checks of the suite ``federated`` take.

    Parameters
    ----------
    algorithm : callable, object, class or str
        A function ``problem -> W`` of the devices' models (n_nodes, dim), or of the server's model (dim,), with perhaps
        keyword arguments ``weights`` (numbers (n_nodes,) that add up to one), ``rounds``, ``start`` (n_nodes, dim) and
        ``seed``; an object with ``init``, ``step`` and
        ``point`` as :class:`gtvmin.solvers.federated.algorithm.Algorithm` has them, whose rounds can then be looked at;
        a class of such objects; the name of an algorithm of the package; or ``"module:object"`` for one of these.
    solves : str, optional
        Which program its limit solves, in the words of :func:`~gtvmin.verify.federated.claims.read_claim`.  Default: an
        attribute of that name, else what the algorithm declares by a method ``program(problem)``.
    weights : {"uniform", "samples"} or array_like, optional
        Weights of the devices, unless a check asks for others.  Default: an attribute of that name, else uniform.
    equals : object or callable, optional
        The algorithm whose rounds it should have, one after the other; or a function of the weights that makes it.
        Default: an attribute of that name.
    invariants : sequence of str, optional
        What every round keeps, such as ``"c = mean c_i"``, ``"sum h = 0"`` or ``"mean Y = mean gradient"``, where a
        name is that of a state's array, ``gradient`` the gradients at the models, and a mean has the devices' weights.
        Default: an attribute of that name.
    relative_gap : float, optional
        Certified relative gap by which a limit is judged.  Default 1e-10.
    name : str, optional
        For reports.

    Raises
    ------
    TypeError
        If it is none of these, or its program is nowhere declared.
    ValueError
        For unknown names and words.

    Examples
    --------
    >>> from gtvmin.verify import algorithm_under_test
    >>> algorithm_under_test("scaffold").invariants
    ('c = mean c_i',)
    """
    if isinstance(algorithm, AlgorithmUnderTest):
        return algorithm
    label = name or (algorithm if isinstance(algorithm, str) else _name(algorithm))
    if isinstance(algorithm, str):
        if algorithm in algorithm_names():
            algorithm = make_algorithm(algorithm, **entries()[algorithm].example)
        elif ":" in algorithm:
            algorithm = load_object(algorithm)
        else:
            raise ValueError(
                f"algorithm {algorithm!r} is neither one of the package ({', '.join(algorithm_names())}) nor of the "
                "form module:object"
            )
    if isinstance(algorithm, AlgorithmUnderTest):
        return algorithm
    if isinstance(algorithm, type):
        algorithm = _instance(algorithm)
    if not callable(algorithm) and not all(hasattr(algorithm, part) for part in PROTOCOL):
        raise TypeError(
            f"a federated algorithm is a function of a problem or an object with {', '.join(PROTOCOL)}; "
            f"got {algorithm!r}"
        )
    words = solves if solves is not None else getattr(algorithm, "solves", None)
    if words is None and name_of(algorithm) not in entries() and not hasattr(algorithm, "program"):
        raise TypeError(
            f"{label} does not say which program it solves: give it an attribute solves, such as 'consensus', "
            "'star mu=0.5' or 'none', or a method program(problem)"
        )
    stated = weights if weights is not None else getattr(algorithm, "weights", None)
    if invariants is None:
        invariants = getattr(algorithm, "invariants", INVARIANTS.get(name_of(algorithm), ()))
    return AlgorithmUnderTest(
        name=label,
        algorithm=algorithm,
        solves=None if words is None else read_claim(words),
        weights="uniform" if stated is None else stated,
        equals=equals if equals is not None else getattr(algorithm, "equals", None),
        invariants=invariants,
        relative_gap=TIGHT if relative_gap is None else relative_gap,
    )


def _instance(kind: type) -> Any:
    """An object of a class, with uniform weights if it needs them."""
    needed = [key for key, value in inspect.signature(kind).parameters.items() if value.default is value.empty]
    if set(needed) - {"weights"}:
        raise TypeError(f"{kind.__name__} needs {', '.join(needed)}: give an object of it instead of the class")
    return kind(**dict.fromkeys(needed, "uniform"))


def _name(algorithm: Any) -> str:
    return getattr(algorithm, "__name__", None) or type(algorithm).__name__
