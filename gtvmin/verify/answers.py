"""What solvers return, read into one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.solvers.standard_form import Array, Duals

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Answer", "read_answer"]


@dataclass(frozen=True, eq=False)
class Answer:
    """Parameters from a solver and what it says of them; None for what it does not say.

    Attributes
    ----------
    W : array (n_nodes, dim)
        Parameters in node order, as float64.
    U : array (n_edges, dim) or None
        Flows.
    duals : tuple of arrays or None
        All dual variables, of a Solution or a Certificate.
    objective, gap, relative_gap : float or None
        Its own figures.
    certified : bool or None
        Whether it says that it has reached the gap that was asked for.
    iterations : int or None
        Steps taken.
    history : tuple
        Assessments on the way, as :attr:`gtvmin.Solution.history` has them.
    dtype : numpy.dtype
        Of the parameters as they were returned.
    """

    W: Array
    U: Array | None
    duals: Duals | None
    objective: float | None
    gap: float | None
    relative_gap: float | None
    certified: bool | None
    iterations: int | None
    history: tuple[Any, ...]
    dtype: np.dtype[Any]

    @property
    def has_claim(self) -> bool:
        """Whether it says how good it is."""
        return self.gap is not None or self.relative_gap is not None or bool(self.certified)


def read_answer(problem: GTVMin, returned: Any) -> Answer:
    """Read what a solver returned.

    Parameters
    ----------
    problem : GTVMin
        What was solved.
    returned : object
        Parameters W as an array (n_nodes, dim), a mapping from node label or a DataFrame; a tuple ``(W, U)`` with
        flows U as an array (n_edges, dim) or a mapping from pairs of labels; a Solution or a Certificate; or any object
        with the parameters as attribute ``weights`` or ``W``, and perhaps ``flows`` or ``U``, ``objective``, ``gap``,
        ``relative_gap``, ``is_certified``, ``iterations`` and ``history``.

    Raises
    ------
    ValueError, TypeError
        If the parameters or flows have the wrong shape, miss a node or edge, or are no finite real numbers.
    """
    W, U = returned, None
    says: Any = None
    if isinstance(returned, tuple):
        if len(returned) != 2:
            raise ValueError(f"a solver returns W or (W, U), got a tuple of {len(returned)}")
        W, U = returned
    elif not _is_parameters(returned):
        says = returned
        W = _first(returned, "weights", "W")
        U = _first(returned, "flows", "U")
        if W is None:
            raise TypeError(
                "a solver returns parameters (an array, a mapping, a DataFrame), (W, U), a Solution, or an object with "
                f"the attribute W or weights; got {type(returned).__name__}"
            )
    certificate = getattr(says, "certificate", says)
    duals = certificate.duals if getattr(certificate, "problem_hash", None) == problem.hash else None
    iterations = getattr(says, "iterations", None)
    certified = getattr(says, "is_certified", None)
    return Answer(
        W=problem.parameters_array(W),
        U=None if U is None else problem.flows_array(U),
        duals=duals,
        objective=_number(_first(says, "objective", "primal")),
        gap=_number(getattr(says, "gap", None)),
        relative_gap=_number(getattr(says, "relative_gap", None)),
        certified=None if certified is None else bool(certified),
        iterations=None if iterations is None else int(iterations),
        history=tuple(getattr(says, "history", ())),
        dtype=_dtype(W),
    )


def _is_parameters(thing: Any) -> bool:
    """An array, a nested list, a mapping or a DataFrame: an array has attributes of its own, and a table columns."""
    return isinstance(thing, (np.ndarray, list, Mapping)) or hasattr(thing, "iloc") or hasattr(thing, "__array__")


def _first(thing: Any, *names: str) -> Any:
    return next((getattr(thing, name) for name in names if hasattr(thing, name)), None)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _dtype(W: Any) -> np.dtype[Any]:
    if hasattr(W, "iloc"):
        W = W.to_numpy()
    parts = list(W.values()) if isinstance(W, Mapping) else [W]
    return np.result_type(*(np.asarray(part).dtype for part in parts))
