"""Losses of all devices as one block function."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.base import Loss
from gtvmin.losses.cone_program import ConeProgram
from gtvmin.losses.local import LocalBlocks
from gtvmin.losses.padding import pad_quadratics, pad_rows
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.losses.row_systems import known
from gtvmin.losses.rows import RowLoss, stack_rows
from gtvmin.losses.squared_rows import QuadraticLoss
from gtvmin.solvers.standard_form import BlockFunction, Term

IntArray = NDArray[np.int64]

__all__ = ["split_losses", "stack_losses"]


def stack_losses(losses: Sequence[Loss], dim: int) -> BlockFunction:
    """The whole losses of all devices as one block function with rows of length ``dim``."""
    return split_losses(losses, dim)[2]


def split_losses(
    losses: Sequence[Loss], dim: int, dims: IntArray | None = None
) -> tuple[BlockFunction, tuple[Term, ...], BlockFunction]:
    """Stack one loss per device, rows of length ``dim``.

    Devices may have fewer parameters, ``dims`` of them: the others are held at zero.

    Returns
    -------
    quadratic : BlockFunction
        The sum of the quadratic atoms of each device: their least-squares rows are put together.
    rows : tuple of Term
        The other atoms, one term per kind.
    local : BlockFunction
        The whole losses.
    """
    quadratic: list[list[tuple[float, QuadraticLoss]]] = [[] for _ in losses]
    others: list[tuple[int, float, RowLoss]] = []
    for device, loss in enumerate(losses):
        for coefficient, atom in loss.terms():
            if isinstance(atom, QuadraticLoss):
                quadratic[device].append((coefficient, atom))
            elif isinstance(atom, RowLoss):
                others.append((device, coefficient, atom))
            else:
                raise TypeError(f"{atom!r}, the loss of the device at position {device}, has no rows to stack")
    if dims is None or (dims == dim).all():
        blocks, rows = QuadraticBlocks.stack(quadratic, dim), stack_rows(others, len(losses), dim)
    else:
        blocks, rows = QuadraticBlocks.stack(pad_quadratics(quadratic, dims, dim), dim), pad_rows(others, dims, dim)
    opaque = {device for device, _, atom in others if not known(atom.function)}
    programs = {
        device: partial(_whole_program, losses[device], dim if dims is None else int(dims[device])) for device in opaque
    }
    return blocks, rows, LocalBlocks(blocks, rows, programs) if rows else blocks


def _whole_program(loss: Loss, dim: int) -> ConeProgram:
    """A loss of ``dim`` parameters as a cone program."""
    import cvxpy as cp

    w = cp.Variable(dim)
    return ConeProgram.of(loss.to_cvxpy(w), [], w)
