"""The loss of a device without labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gtvmin.losses.squared_rows import QuadraticLoss, Rows
from gtvmin.validation import positive_integer

__all__ = ["Zero"]


@dataclass(frozen=True)
class Zero(QuadraticLoss):
    """The loss that is zero everywhere: a device without labels, which learns from its neighbours alone.

    Parameters
    ----------
    size : int, optional
        Number of parameters; by default that of the other devices.

    Notes
    -----
    Its conjugate is the indicator of ``{0}``: what flows into the device flows out again.

    Examples
    --------
    >>> from gtvmin.losses import Zero
    >>> Zero().value([3.0])
    0.0
    """

    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None:
            object.__setattr__(self, "size", positive_integer(self.size, "size"))

    @property
    def dim(self) -> int | None:
        """Number of parameters; None fits any."""
        return self.size

    def rows(self, dim: int) -> Rows:
        """No rows."""
        return np.empty((0, dim)), np.empty(0), np.empty(0)
