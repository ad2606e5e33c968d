"""Strengths for the path of a convex clustering, placed where clusters merge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gtvmin.clustering.merge_range import merge_range
from gtvmin.clustering.solver import PathSolver
from gtvmin.solvers.standard_form import Array

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["merge_grid"]

# A first look over the whole range of merges takes this share of the strengths, and a larger gap.
LOOK_SHARE, LEAST_LOOKS, LOOK_GAP = 0.25, 8, 1e-4
# Strengths begin at this share of the bound on the first merge.
BELOW = 0.5
# Share of the strengths that are spread evenly over the range; the others go where clusters merge.
EVEN = 0.25
# A grid whose upper end turns out too low goes on up to this many times the bound on the last merge.
OVERSHOOT = 10.0


def merge_grid(problem: GTVMin, n_lams: int, n_components: int) -> Iterator[float]:
    r"""0, then growing strengths from below the first merge to beyond the last.

    Gaussian weights between distant groups are tiny, so that merges within groups and those of groups can be many
    decades of lam apart.  A coarse path over all of the range tells how many clusters there are where; the strengths
    then divide the sum of :math:`\log\lambda` and of :math:`-\log` of the number of clusters, each over its range, into
    equal parts.  To halve the number of clusters gets the same number of strengths at any level.
    """
    yield 0.0
    first, last = merge_range(problem)
    if last == 0:
        return
    lam, ratio = 0.0, 1.01
    for lam in _placed(*_look(problem, first, last, n_lams, n_components), n_lams - 1):
        yield lam
    while (lam := lam * ratio) <= OVERSHOOT * last:
        yield lam
        ratio *= 1.1


def _look(problem: GTVMin, first: float, last: float, n_lams: int, n_components: int) -> tuple[Array, Array]:
    """Strengths of a coarse path until all is merged, and how many clusters there are at each."""
    solver, lams, counts = PathSolver(problem, LOOK_GAP, {}), [], []
    for lam in np.geomspace(BELOW * first, last, max(LEAST_LOOKS, int(LOOK_SHARE * n_lams))).tolist():
        lams.append(lam)
        counts.append(int(solver.solve(lam).labels.max()) + 1)
        if counts[-1] == n_components:
            break
    return np.array(lams), np.array(counts)


def _placed(lams: Array, counts: Array, size: int) -> list[float]:
    """So many strengths over a coarse path's range."""
    if size < 2 or len(lams) == 1:
        return [float(lams[0])]
    level = np.log(lams)
    merged = -np.log(np.minimum.accumulate(counts))
    progress = EVEN * _over_range(level) + (1.0 - EVEN) * _over_range(merged)
    return np.exp(np.interp(np.linspace(0.0, progress[-1], size), progress, level)).tolist()  # type: ignore[no-any-return]


def _over_range(values: Array) -> Array:
    """Growing values, from 0 to 1; all 0 if they do not grow."""
    reach = values[-1] - values[0]
    return (values - values[0]) / reach if reach > 0 else np.zeros_like(values)
