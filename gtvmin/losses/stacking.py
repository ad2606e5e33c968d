"""Losses of all devices as one block function."""

from __future__ import annotations

from collections.abc import Sequence

from gtvmin.losses.base import Loss
from gtvmin.losses.quadratic import QuadraticBlocks, QuadraticLoss
from gtvmin.solvers.standard_form import BlockFunction

__all__ = ["stack_losses"]


def stack_losses(losses: Sequence[Loss], dim: int) -> BlockFunction:
    """Stack one loss per device into a block function with rows of length ``dim``.

    Sums of quadratic losses are one quadratic loss: their rows are put together.
    """
    quadratic: list[list[tuple[float, QuadraticLoss]]] = []
    for position, loss in enumerate(losses):
        terms = []
        for coefficient, atom in loss.terms():
            if not isinstance(atom, QuadraticLoss):
                raise TypeError(f"the loss of device {position}, {atom!r}, cannot be stacked")
            terms.append((coefficient, atom))
        quadratic.append(terms)
    return QuadraticBlocks.stack(quadratic, dim)
