"""What a loss is: a convex function of one device's parameters, declared once and never changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.errors import CapabilityError
from gtvmin.validation import finite_array, positive_number, restore_frozen

if TYPE_CHECKING:
    from gtvmin.solvers.standard_form import Array, BlockFunction

__all__ = ["Loss", "Sum"]

ROW_ARGUMENTS = ("X", "y", "sample_weight")
"""Arguments with one entry per data point."""


class Loss(ABC):
    """A convex function of one device's parameter vector.

    Losses add and scale: ``SquaredError(X, y) + 0.1 * Ridge(...)`` is a loss.  The evaluations below are for one
    device; a problem stacks the losses of all its devices and evaluates them without a loop.
    """

    __slots__ = ()
    storable: ClassVar[bool] = True
    """Whether its arguments are data, which a file can hold."""

    @property
    @abstractmethod
    def dim(self) -> int | None:
        """Number of parameters; None if the loss fits any number."""

    @property
    def n_samples(self) -> int:
        """Number of data points behind the loss."""
        return 0

    def arguments(self) -> dict[str, Any]:
        """Arguments that declare the same loss again, for files and fingerprints."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The loss as a sum of ``coefficient * atom``."""
        return ((1.0, self),)

    def declared_terms(self) -> tuple[tuple[float, Loss], ...]:
        """The loss as it was added up by the user: composites in one piece."""
        return ((1.0, self),)

    def take(self, rows: ArrayLike) -> Loss:
        """The same loss of some of its data points; a loss without data points is left as it is.

        Parameters
        ----------
        rows : array_like of int (k,)
            Positions of the data points, from 0 to ``n_samples - 1``; those of a sum are counted through its terms.

        Raises
        ------
        CapabilityError
            If the loss has data points that are not arguments ``X``, ``y`` and ``sample_weight``.
        """
        if not self.n_samples:
            return self
        chosen = np.asarray(rows, dtype=np.int64)
        declared = self.arguments()
        if not {"X", "y"} <= declared.keys():
            raise CapabilityError(f"{self!r} cannot be split by data points: it has to define take(rows)")
        weight = declared.get("sample_weight")
        if weight is not None and not weight[chosen].any():
            chosen = chosen[:0]  # points that do not count are none
        for name in ROW_ARGUMENTS:
            if declared.get(name) is not None:
                declared[name] = declared[name][chosen]
        return type(self)(**declared)

    def data_terms(self) -> tuple[tuple[float, Loss], ...]:
        """The part that measures errors on data points, as a sum of ``coefficient * atom``: no regularisers."""
        return ((1.0, self),) if self.n_samples else ()

    def __add__(self, other: object) -> Loss:
        if isinstance(other, Loss):
            return Sum(self.declared_terms() + other.declared_terms())
        return NotImplemented

    def __radd__(self, other: object) -> Loss:
        # sum(losses) starts from the integer 0
        if isinstance(other, (int, float)) and other == 0:
            return self
        return NotImplemented

    def __mul__(self, factor: float) -> Loss:
        scale = positive_number(factor, "the factor of a loss")
        return Sum(tuple((scale * c, term) for c, term in self.declared_terms()))

    __rmul__ = __mul__

    def __setstate__(self, state: dict[str, Any]) -> None:
        restore_frozen(self, state)

    def _block(self, w: ArrayLike) -> tuple[BlockFunction, Array]:
        from gtvmin.losses.stacking import stack_losses

        row = np.atleast_1d(finite_array(w, "w"))
        if row.ndim != 1 or (self.dim is not None and row.size != self.dim):
            raise ValueError(f"w must be a vector of {self.dim or 'some'} parameters, got shape {row.shape}")
        return stack_losses([self], row.size), row[None, :]

    def value(self, w: ArrayLike) -> float:
        """Value at ``w`` (dim,)."""
        block, row = self._block(w)
        return float(block.value(row)[0])

    def gradient(self, w: ArrayLike) -> Array:
        """Gradient at ``w`` (dim,); a :class:`~gtvmin.errors.CapabilityError` if the loss is not smooth."""
        block, row = self._block(w)
        if "gradient" not in block.capabilities:
            raise CapabilityError(f"{self!r} has no gradient: it is not smooth")
        return np.asarray(block.gradient(row)[0])

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """``argmin_w loss(w) + ||w - v||^2 / (2 step)``, shape (dim,), to rounding.

        With a :class:`CvxpyLoss` it is as accurate as that loss's solver.  A ValueError tells if the loss is infinite
        everywhere, because its constraints contradict each other.
        """
        block, row = self._block(v)
        return np.asarray(block.prox(row, np.array([positive_number(step, "step")]))[0])

    def conjugate(self, s: ArrayLike) -> float:
        """``sup_w <s, w> - loss(w)``, ``inf`` outside its domain; an upper estimate, to rounding."""
        block, row = self._block(s)
        return float(block.conjugate(row)[0])

    def to_cvxpy(self, w: Any) -> Any:
        """CVXPY expression of the loss at a CVXPY expression ``w`` of shape (dim,)."""
        import cvxpy as cp

        from gtvmin.losses.stacking import stack_losses

        row = cp.reshape(w, (1, w.size), order="C")
        return stack_losses([self], int(w.size)).to_cvxpy(row)


class Sum(Loss):
    """A weighted sum of losses, made by ``+`` and ``*``."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[tuple[float, Loss]]) -> None:
        dims = {atom.dim for _, atom in terms if atom.dim is not None}
        if len(dims) > 1:
            raise ValueError(f"losses of {sorted(dims)} parameters cannot be added: their dimensions differ")
        self._terms = tuple(terms)

    @property
    def dim(self) -> int | None:
        """Number of parameters; None if every term fits any number."""
        return next((atom.dim for _, atom in self._terms if atom.dim is not None), None)

    @property
    def n_samples(self) -> int:
        """Data points of all terms."""
        return sum(atom.n_samples for _, atom in self._terms)

    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The atoms of all terms."""
        return tuple((c * inner, atom) for c, term in self._terms for inner, atom in term.terms())

    def declared_terms(self) -> tuple[tuple[float, Loss], ...]:
        """The terms as declared."""
        return self._terms

    def take(self, rows: ArrayLike) -> Loss:
        """Some of the data points, counted through the terms in their order."""
        chosen = np.asarray(rows, dtype=np.int64)
        if chosen.size and not (chosen.min() >= 0 and chosen.max() < self.n_samples):
            raise IndexError(f"rows must be positions from 0 to {self.n_samples - 1}, got {rows!r}")
        taken, first = [], 0
        for coefficient, atom in self._terms:
            inside = chosen[(chosen >= first) & (chosen < first + atom.n_samples)]
            taken.append((coefficient, atom.take(inside - first)))
            first += atom.n_samples
        return Sum(taken)

    def data_terms(self) -> tuple[tuple[float, Loss], ...]:
        """Those of the terms."""
        return tuple((c * inner, part) for c, atom in self._terms for inner, part in atom.data_terms())

    def __reduce__(self) -> tuple[Any, ...]:
        return Sum, (self._terms,)

    def __repr__(self) -> str:
        return " + ".join(repr(atom) if c == 1.0 else f"{c:g} * {atom!r}" for c, atom in self._terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self._terms == other._terms

    def __hash__(self) -> int:
        return hash(self._terms)
