"""What a federated algorithm sees of a problem: the standard form, its devices' identities, and their data points."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..standard_form import Array, StandardForm
from .class_points import ClassPoints
from .data_points import DataPoints

__all__ = [
    "FederatedForm",
    "Weights",
    "aggregation_weights",
    "device_ids",
    "device_name",
    "per_device",
    "sample_counts",
]

Weights = str | Sequence[float] | Array
"""``"uniform"``, ``"samples"``, or one number >= 0 a device."""


@dataclass(frozen=True, eq=False)
class FederatedForm(StandardForm):
    """A standard form whose devices have names and data points.

    Attributes
    ----------
    ids : uint64 array (n_nodes,)
        Identity of each device, from its label and not from its position: its random draws follow it.
    samples : int array (n_nodes,)
        Number of data points of each device.
    data : DataPoints or ClassPoints, optional
        The data points, if all losses are sums over them that one of these tables knows.
    labels : sequence
        What the user calls the devices, for messages.
    """

    ids: NDArray[np.uint64]
    samples: NDArray[np.int64]
    data: DataPoints | ClassPoints | None
    labels: Sequence[Hashable]

    @property
    def capabilities(self) -> frozenset[str]:
        """Those of the form, and ``data``."""
        return super().capabilities | ({"data"} if self.data is not None else frozenset())


def aggregation_weights(form: StandardForm, weights: Weights) -> Array:
    """Weights p of the devices, which add up to one.

    Raises
    ------
    ValueError
        If the word is another, ``"samples"`` is asked for and the form does not count them or they are all zero, or
        the numbers are not finite, at least zero, one a device, and one of them positive.
    """
    if isinstance(weights, str):
        if weights == "uniform":
            return np.full(form.n_nodes, 1.0 / form.n_nodes)
        if weights != "samples":
            raise ValueError(f"weights must be 'uniform', 'samples' or one number a device, got {weights!r}")
        counts = sample_counts(form).astype(float)
        if not counts.any():
            raise ValueError("weights='samples' needs data points, and no device has any: use weights='uniform'")
        return np.asarray(counts / counts.sum())
    if isinstance(weights, Mapping):
        raise TypeError(
            "weights must be numbers in the order of the devices, got a dict: [weights[name] for name in losses]"
        )
    p = np.array(weights, dtype=float)
    if p.shape != (form.n_nodes,) or not np.isfinite(p).all() or (p < 0).any() or not p.any():
        raise ValueError(f"weights must be {form.n_nodes} finite numbers >= 0, one a device and not all zero")
    return np.asarray(p / p.sum())


def per_device(name: str, given: ArrayLike, n: int) -> Array:
    """A setting that is a number, or one a device, as an array (n,); a ValueError for another shape."""
    numbers = np.asarray(given, dtype=float)
    if numbers.shape not in ((), (n,)):
        raise ValueError(f"{name} must be a number or {n} of them, one a device, got {given!r}")
    return np.array(np.broadcast_to(numbers, (n,)))


def sample_counts(form: StandardForm) -> NDArray[np.int64]:
    """Data points of each device."""
    if not isinstance(form, FederatedForm):
        raise ValueError(
            "this form does not count its devices' data points: make it by gtvmin.federated.federated_form"
        )
    return form.samples


def device_ids(form: StandardForm) -> NDArray[np.uint64]:
    """Identities of the devices; their positions where the form does not know them."""
    return form.ids if isinstance(form, FederatedForm) else np.arange(form.n_nodes, dtype=np.uint64)


def device_name(form: StandardForm, i: int) -> str:
    """A device in a message: by its label, or by its position where the form does not know its label."""
    return f"device {form.labels[i]!r}" if isinstance(form, FederatedForm) else f"the device at position {i}"
