"""Divergence, seen in any part of an algorithm's state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..driver import Status
from ..standard_form import Array

__all__ = ["DivergenceWatch"]

# Moves of a stable iteration do not outgrow the first ones by this factor, those of an unstable one do within rounds.
GROWTH = 1e4
FURTHER_GROWTH = 10.0
FIRST_MOVES = 10
# A state at its fixed point moves by its rounding only.
NOISE = 1e-9


class DivergenceWatch:
    """Looks at all variables of a state: control variates can run away long before the model does.

    A variable diverges if it is not finite, or if it moves in a round by 10,000 times the largest of its first ten
    moves and by more than a billionth of its size, and later by ten times the largest of the ten moves from that one
    on: once may be a device of another scale that takes part for the first time.

    Parameters
    ----------
    variables : sequence of str
        Names of the state's arrays.
    """

    def __init__(self, variables: Sequence[str]) -> None:
        self.variables = tuple(variables)
        self.last: dict[str, Array] = {}
        self.first_move = dict.fromkeys(self.variables, 0.0)
        self.moves = dict.fromkeys(self.variables, 0)
        self.jumped = dict.fromkeys(self.variables, False)
        self.runaway: str | None = None

    def __call__(self, state: Any, iteration: int) -> Status | None:
        """``Status.DIVERGED`` once a variable runs away; its name is then ``runaway``."""
        for name in self.variables:
            value = np.asarray(getattr(state, name), dtype=float)
            if not np.isfinite(value).all() or (name in self.last and self._outgrows(name, value)):
                self.runaway = name
                return Status.DIVERGED
            self.last[name] = value
        return None

    def _outgrows(self, name: str, value: Array) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            move, size = float(np.linalg.norm(value - self.last[name])), float(np.linalg.norm(value))
        if move <= NOISE * size:
            return False
        if self.moves[name] < FIRST_MOVES:
            self.moves[name] += 1
            self.first_move[name] = max(self.first_move[name], move)
        if move <= (FURTHER_GROWTH if self.jumped[name] else GROWTH) * self.first_move[name]:
            return False
        if self.jumped[name] or not np.isfinite(move):
            return True
        self.jumped[name] = True
        self.moves[name], self.first_move[name] = 1, move
        return False
