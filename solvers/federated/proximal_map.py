"""A proximal map that an algorithm's state can hold, and that can be copied and pickled with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..standard_form import Array, BlockFunction

__all__ = ["ProximalMap"]


@dataclass(frozen=True, eq=False)
class ProximalMap:
    """``V -> argmin_W f(W) + sum_i ||w_i - v_i||^2 / (2 step_i)`` for fixed steps.

    What the function factors is made at the first call, and not pickled.

    Parameters
    ----------
    function : BlockFunction
        The function f.
    step : array (n_blocks,)
        Steps.
    """

    function: BlockFunction
    step: Array

    @cached_property
    def _operator(self) -> Callable[[Array], Array]:
        return self.function.prox_operator(self.step)

    def __call__(self, V: Array) -> Array:
        """The map at V (n_blocks, width)."""
        return self._operator(V)

    def __getstate__(self) -> dict[str, Any]:
        return {"function": self.function, "step": self.step}
