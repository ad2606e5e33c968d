"""What a penalty is: a convex function of the difference of two neighbours' parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import finite_array, positive_number

__all__ = ["Penalty"]


class Penalty(ABC):
    """A convex function ``phi(z)`` of the difference ``z = w_head - w_tail`` across an edge.

    The evaluations below are for one edge of weight one and alpha one.
    """

    __slots__ = ()

    @abstractmethod
    def stack(self, strengths: Array, dim: int) -> BlockFunction:
        """``strengths_e * phi`` for every edge e, as a block function with rows of length ``dim``."""

    def arguments(self) -> dict[str, Any]:
        """Arguments that declare the same penalty again, for files and fingerprints."""
        return {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]

    def _block(self, z: ArrayLike, name: str) -> tuple[BlockFunction, Array]:
        row = np.atleast_1d(finite_array(z, name))
        if row.ndim != 1:
            raise ValueError(f"{name} must be a vector, got shape {row.shape}")
        return self.stack(np.ones(1), row.size), row[None, :]

    def value(self, z: ArrayLike) -> float:
        """``phi(z)``."""
        block, row = self._block(z, "z")
        return float(block.value(row)[0])

    def prox(self, v: ArrayLike, step: float = 1.0) -> Array:
        """``argmin_z phi(z) + ||z - v||^2 / (2 step)``."""
        block, row = self._block(v, "v")
        return np.asarray(block.prox(row, np.array([positive_number(step, "step")]))[0])

    def conjugate(self, u: ArrayLike) -> float:
        """``sup_z <u, z> - phi(z)``, ``inf`` outside its domain."""
        block, row = self._block(u, "u")
        return float(block.conjugate(row)[0])
