"""What the rounds of a federated algorithm cost: messages and bytes each way, gradients, proximal maps."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, StandardForm

__all__ = ["Traffic", "edge_traffic", "server_traffic"]

BYTES = 8
"""Bytes of a number on the wire."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Costs per device, each an array (n_nodes,), of a round or of several together.

    Attributes
    ----------
    sent, received : arrays
        Numbers (of 8 bytes) that the device sends ("up" where there is a server) and receives.
    messages_sent, messages_received : arrays
        Messages that hold them.
    gradients : array
        Evaluations of the gradient of the device's loss, those of a minibatch counted as one.
    points : array
        Data points looked at for them.
    proxes : array
        Evaluations of the proximal map of the device's loss.
    """

    sent: Array
    received: Array
    messages_sent: Array
    messages_received: Array
    gradients: Array
    points: Array
    proxes: Array

    @classmethod
    def none(cls, n_nodes: int) -> Traffic:
        """Nothing yet."""
        return cls(*(np.zeros(n_nodes) for _ in fields(cls)))

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Traffic)))

    @property
    def bytes_up(self) -> float:
        """Bytes that all devices sent."""
        return float(BYTES * self.sent.sum())

    @property
    def bytes_down(self) -> float:
        """Bytes that all devices received."""
        return float(BYTES * self.received.sum())


def server_traffic(
    form: StandardForm,
    active: Array,
    *,
    up: int = 1,
    down: int = 1,
    gradients: ArrayLike = 0.0,
    points: ArrayLike = 0.0,
    proxes: ArrayLike = 0.0,
) -> Traffic:
    """A round in which the active devices receive ``down`` vectors and send ``up`` of them, in one message each way.

    ``active`` (n_nodes,) is zero for a device that takes no part.  A device that was drawn more than once computes and
    sends once.  Gradients, data points and proximal maps are those of an active device.
    """
    on = (active > 0).astype(float)
    sent, received = on * (up * form.dim), on * (down * form.dim)
    costs = (np.asarray(on * np.asarray(part, dtype=float)) for part in (gradients, points, proxes))
    return Traffic(sent, received, on * (up > 0), on * (down > 0), *costs)


def edge_traffic(
    form: StandardForm,
    source: NDArray[np.int64],
    target: NDArray[np.int64],
    *,
    vectors: int = 1,
    gradients: ArrayLike = 0.0,
    points: ArrayLike = 0.0,
    proxes: ArrayLike = 0.0,
) -> Traffic:
    """A round in which ``vectors`` of them are sent over each directed edge ``source[k] -> target[k]``."""
    n = form.n_nodes
    out, into = (np.bincount(end, minlength=n).astype(float) for end in (source, target))
    size = float(vectors * form.dim)
    costs = (np.array(np.broadcast_to(np.asarray(part, dtype=float), (n,))) for part in (gradients, points, proxes))
    return Traffic(size * out, size * into, out, into, *costs)
