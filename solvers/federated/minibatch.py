"""Which data points a device looks at in a local step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .class_points import ClassPoints
from .data_points import DataPoints
from .streams import BATCHES, Keys, random_bits, uniforms

__all__ = ["Minibatch"]

IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Minibatch:
    """``size`` data points a local step.

    Parameters
    ----------
    size : int
        Data points a step; a device with fewer takes all that it has.
    order : {"replacement", "fresh", "epochs"}
        Drawn with replacement; without, anew for each step; or without until all have been seen, then reshuffled (the
        steps of an epoch are then not independent, and their limit is biased).
    """

    size: int
    order: Literal["replacement", "fresh", "epochs"] = "replacement"

    def __post_init__(self) -> None:
        if self.size != int(self.size) or self.size < 1:
            raise ValueError(f"size must be a number of data points >= 1, got {self.size!r}")
        if self.order not in ("replacement", "fresh", "epochs"):
            raise ValueError(f"order must be 'replacement', 'fresh' or 'epochs', got {self.order!r}")

    def drawn(self, data: DataPoints | ClassPoints) -> IntArray:
        """Data points that each device evaluates in a step, (n_nodes,)."""
        return np.minimum(self.size, data.counts)

    def rows(self, data: DataPoints | ClassPoints, keys: Keys, round: int, step: int, steps: int) -> IntArray:
        """Positions (n_nodes, size) of the data points of local step number ``step`` out of ``steps`` a round.

        -1 where a device has fewer.
        """
        counts, first = data.counts, data.starts[:-1]
        slots = np.arange(self.size)
        inside = slots < self.drawn(data)[:, None]
        if self.order == "replacement":
            draws = uniforms(keys[:, None], round, BATCHES, step * self.size + slots)
            chosen = (draws * counts[:, None]).astype(np.int64)
            return np.where(inside, first[:, None] + chosen, -1)
        taken = np.maximum(self.drawn(data), 1)
        per_epoch = np.maximum(counts // taken, 1) if self.order == "epochs" else np.ones_like(counts)
        epoch, place = np.divmod(round * steps + step, per_epoch)
        shuffled = _shuffled(data, keys, epoch)
        if not len(shuffled):
            return np.full(inside.shape, -1)
        position = first[:, None] + place[:, None] * self.size + slots
        return np.where(inside, shuffled[np.where(inside, position, 0)], -1)


def _shuffled(data: DataPoints | ClassPoints, keys: Keys, epoch: IntArray) -> IntArray:
    """The table's rows with the data points of every device in a random order of the epoch."""
    counts, rows = data.counts, np.arange(len(data.y))
    owner = np.repeat(np.arange(data.n_nodes), np.diff(data.starts))
    number = rows - data.starts[owner]
    # one stream a device and epoch: the epoch's bits are the keys of its data points
    epochs = random_bits(keys, 0, BATCHES, epoch)
    priority = random_bits(epochs[owner], 1, BATCHES, number)
    data_first = number >= counts[owner]
    return np.lexsort((priority, data_first, owner)).astype(np.int64)
