"""The losses of a problem as arrays: stacked and fingerprinted once, for all strengths of the coupling."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from gtvmin.losses.stacking import split_losses
from gtvmin.solvers.standard_form import BlockFunction, Term

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from gtvmin.losses.base import Loss

__all__ = ["LossStack"]


class LossStack:
    """What a problem needs of its losses, whatever its alpha, penalties and edges.

    Parameters
    ----------
    losses : sequence of Loss
        One a device.
    dims : int array (n_nodes,)
        Number of parameters of each.
    """

    def __init__(self, losses: Sequence[Loss], dims: NDArray[np.int64]) -> None:
        self.losses, self.dims = losses, dims

    @cached_property
    def parts(self) -> tuple[BlockFunction, tuple[Term, ...], BlockFunction]:
        """Quadratic part, other rows, and whole losses, as :func:`~gtvmin.losses.stacking.split_losses` has them."""
        return split_losses(self.losses, int(self.dims.max()), self.dims)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the declared losses, in hexadecimal."""
        from gtvmin.storage import losses_fingerprint

        return losses_fingerprint(self.losses)
