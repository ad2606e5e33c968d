"""Extrapolation of an iteration that has become nearly linear.

Reduced rank extrapolation: M. Mesina, "Convergence acceleration for the iterative solution of the equations
X = AX + f", Computer Methods in Applied Mechanics and Engineering 10 (1977), 165-173, DOI
10.1016/0045-7825(77)90004-4; A. Sidi, "Vector Extrapolation Methods with Applications" (SIAM, 2017), DOI
10.1137/1.9781611974966.  On a linear iteration it is GMRES, restarted.  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .standard_form import Array, Duals, StandardForm

__all__ = ["Trail"]

# Numbers that all rows of a trail may be, 8 bytes each.
ROOM = 50_000_000
# Differences that are combinations of others are known by what is left of them, about.
RIDGE = 1e-8
# How much longer the step from a combination may be, in squares.
LONGER = 16.0
STRETCH = 512
# Products below this have lost digits.
LEAST = np.finfo(float).tiny / np.finfo(float).eps


class Trail:
    """The last iterates V of a fixed point iteration, and parameters W that are their images.

    After some steps the next one starts from the combination of the last iterates, with coefficients of sum one, under
    which the changes of W are least.  W is what a linear system makes of V, and much smaller.  If the step from there
    changes W by much more than the one before, it is undone.

    Parameters
    ----------
    form : StandardForm
        The problem.
    depth : int
        Number of iterates to combine; fewer if these take too much memory.
    active : bool
        Whether to extrapolate at all.
    """

    def __init__(self, form: StandardForm, depth: int, active: bool = True) -> None:
        size = max(1, sum(term.map.n_rows * term.map.width for term in form.terms))
        self.active, self.depth = active, max(2, min(depth if active else 2, ROOM // size))
        self._V = [np.empty((self.depth + 2, term.map.n_rows, term.map.width)) for term in form.terms]
        self._W: list[Array] = []
        self._count, self._before = 0, np.inf

    def restart(self, V: Duals) -> None:
        """Start from V, and forget what was before."""
        for kept, part in zip(self._V, V, strict=True):
            kept[0] = part
        self._W, self._count, self._before = [], 0, np.inf

    @property
    def last(self) -> Duals:
        """The last V."""
        return tuple(kept[self._count] for kept in self._V)

    @property
    def following(self) -> Duals:
        """Where the next V belongs."""
        return tuple(kept[self._count + 1] for kept in self._V)

    def append(self, W: Array) -> bool:
        """The next V is there, with W the parameters that it came from; whether it was replaced by another one."""
        self._count += 1
        self._W.append(W)
        if self._count == 2 and self._before < np.inf:
            before, self._before = self._before, np.inf
            if np.square(W - self._W[0]).sum() > LONGER * before:
                self._start(np.eye(self.depth)[-1])
                return True
        if self._count < self.depth + 1:
            return False
        if not self.active:
            self._start(np.eye(self.depth)[-1])
            return False
        changes = np.stack([(new - old).ravel() for old, new in zip(self._W, self._W[1:], strict=False)])
        gram = changes @ changes.T
        self._start(_least_combination(gram))
        self._before = float(gram[-1, -1])
        return True

    def _start(self, coefficients: Array) -> None:
        """Start from a combination of the last iterates."""
        for kept in self._V:
            _combine(coefficients, kept[2:].reshape(self.depth, -1), kept[0].reshape(-1))
        self._W, self._count = [], 0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _combine(coefficients: Array, rows: Array, out: Array) -> None:
    """The combination of rows, a stretch at a time that fits into a cache."""
    for first in range(0, len(out), STRETCH):
        last = min(first + STRETCH, len(out))
        for j in range(first, last):
            out[j] = coefficients[0] * rows[0, j]
        for k in range(1, len(coefficients)):
            for j in range(first, last):
                out[j] += coefficients[k] * rows[k, j]


def _least_combination(gram: Array) -> Array:
    """Coefficients of sum one for the shortest combination of vectors with these inner products."""
    trace = float(np.trace(gram))
    last: Array = np.eye(len(gram))[-1]
    if not LEAST < trace < np.inf:
        return last
    found = np.linalg.solve(gram / trace + RIDGE * np.eye(len(gram)), np.ones(len(gram)))
    total = float(found.sum())
    usable = bool(np.isfinite(found).all()) and total > 0
    return np.asarray(found / total) if usable else last
