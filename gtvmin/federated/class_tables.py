"""From losses with classes to one table of data points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gtvmin.losses import Softmax, Zero
from gtvmin.losses.base import Loss, Sum
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.squared_error import row_weights
from gtvmin.losses.stacking import split_losses
from gtvmin.solvers.federated.class_points import ClassPoints

__all__ = ["class_points"]


def class_points(losses: Sequence[Loss], dim: int) -> ClassPoints | None:
    """Softmax losses, of as many classes, with separable quadratic functions; None if there is another kind.

    >>> from gtvmin.losses import Softmax
    >>> class_points([Softmax([[1.0], [2.0]], [0, 1])], dim=2).counts.tolist()
    [2]
    """
    parts: list[tuple[Softmax, float]] = []
    sizes, remainders = [], []
    for loss in losses:
        rest: list[tuple[float, Loss]] = []
        size = 0
        for coefficient, atom in loss.terms():
            if isinstance(atom, Softmax):
                parts.append((atom, coefficient))
                size += atom.n_samples
            elif atom.n_samples:
                return None
            else:
                rest.append((coefficient, atom))
        sizes.append(size)
        remainders.append(Sum(rest) if rest else Zero())
    if not parts or len({(atom.X.shape[1], atom.classes) for atom, _ in parts}) > 1:
        return None
    quadratic, rows, _ = split_losses(remainders, dim)
    if rows or not isinstance(quadratic, QuadraticBlocks) or (np.count_nonzero(quadratic.X, axis=1) > 1).any():
        return None
    diagonal, tilt = np.zeros_like(quadratic.tilt), quadratic.tilt.copy()
    omega = 2.0 * quadratic.weight[:, None] * quadratic.X
    np.add.at(diagonal, quadratic.owner, omega * quadratic.X)
    np.add.at(tilt, quadratic.owner, -omega * quadratic.y[:, None])
    weights = [c * row_weights(atom.n_samples, atom.scale, atom.sample_weight) for atom, c in parts]
    return ClassPoints(
        X=np.ascontiguousarray(np.concatenate([atom.X for atom, _ in parts])),
        y=np.concatenate([atom.y for atom, _ in parts]).astype(np.int64),
        weight=np.concatenate(weights),
        starts=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        diagonal=diagonal,
        tilt=tilt,
    )
