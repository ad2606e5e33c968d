"""Bounds on the parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gtvmin.losses.interval import IntervalBlocks, interval_arrays
from gtvmin.losses.rows import RowLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import frozen, numeric_array

__all__ = ["Box"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Box(RowLoss):
    """Indicator of ``low <= w <= high``: zero inside, infinite outside.

    Parameters
    ----------
    low, high : array_like (dim,) or float
        Bounds; one number stands for all parameters, and minus or plus infinity for no bound.

    Raises
    ------
    TypeError
        If a bound holds anything but real numbers.
    ValueError
        If a lower bound is above the upper one, the lengths differ, a value is NaN, or a bound is infinite on the
        wrong side.

    Notes
    -----
    ``solve`` returns parameters strictly inside their bounds, to the last bit.

    Examples
    --------
    >>> from gtvmin.losses import Box
    >>> Box(0.0, [1.0, float("inf")]).value([0.5, 7.0])
    0.0
    >>> Box(0.0, 1.0).value([0.5, 1.5])
    inf
    """

    low: Array | float
    high: Array | float

    function: ClassVar[type[BlockFunction]] = IntervalBlocks

    def __init__(self, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> None:
        bounds = {"low": numeric_array(low, "low"), "high": numeric_array(high, "high")}
        for name, bound, wrong in (("low", bounds["low"], np.inf), ("high", bounds["high"], -np.inf)):
            if bound.ndim > 1 or not bound.size:
                raise ValueError(f"{name} must be a vector or one number, got shape {bound.shape}")
            if np.isnan(bound).any() or (bound == wrong).any():
                raise ValueError(f"{name} holds a NaN or {wrong}: {-wrong} stands for no bound")
        if bounds["low"].ndim and bounds["high"].ndim and len(bounds["low"]) != len(bounds["high"]):
            raise ValueError(
                f"low has {len(bounds['low'])} bounds and high {len(bounds['high'])}: give one per parameter"
            )
        crossed = np.atleast_1d(bounds["low"] > bounds["high"])
        if crossed.any():
            k = int(crossed.argmax())
            pair = [float(np.broadcast_to(bound, crossed.shape)[k]) for bound in bounds.values()]
            raise ValueError(f"low must be <= high, got {pair[0]:g} > {pair[1]:g} at position {k}")
        for name, bound in bounds.items():
            object.__setattr__(self, name, frozen(bound) if bound.ndim else float(bound))

    @property
    def dim(self) -> int | None:
        """Number of bounds; None fits any."""
        return next((len(bound) for bound in (self.low, self.high) if isinstance(bound, np.ndarray)), None)

    def _used(self, dim: int) -> NDArray[np.bool_]:
        """Which coordinates have a bound."""
        return np.broadcast_to(np.isfinite(self.low) | np.isfinite(self.high), dim)

    def row_matrix(self, dim: int) -> Array:
        """One row a bounded coordinate."""
        return np.eye(dim)[self._used(dim)]

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """Walls at the bounds."""
        used = self._used(dim)
        left, right = (np.broadcast_to(bound, dim)[used] for bound in (self.low, self.high))
        return interval_arrays(len(left), low=-np.inf, high=np.inf, target=(left, right), coefficient=coefficient)

    def __repr__(self) -> str:
        low, high = (f"{b:g}" if isinstance(b, float) else f"<{len(b)} numbers>" for b in (self.low, self.high))
        return f"Box({low}, {high})"
