"""Which devices take part in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..standard_form import Array
from .streams import PARTICIPATION, Keys, uniforms

__all__ = ["All", "Bernoulli", "ByWeight", "Cyclic", "Participation", "UniformSample", "server_average"]


class Participation(Protocol):
    """A rule that draws the devices of a round."""

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """How many times each device takes part in a round, (n_nodes,)."""
        ...

    def expected(self, p: Array) -> Array:
        """Mean of the counts over the rounds, (n_nodes,)."""
        ...


@dataclass(frozen=True)
class All:
    """Every device, every round."""

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """Ones."""
        return np.ones(len(p))

    def expected(self, p: Array) -> Array:
        """Ones."""
        return np.ones(len(p))


@dataclass(frozen=True)
class UniformSample:
    """``size`` different devices, each set of them as likely."""

    size: int

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """One for the devices that draw the smallest numbers."""
        size = _within(self.size, len(p))
        chosen = np.zeros(len(p))
        chosen[np.argpartition(uniforms(keys, round, PARTICIPATION), size - 1)[:size]] = 1.0
        return chosen

    def expected(self, p: Array) -> Array:
        """``size / n``."""
        return np.full(len(p), _within(self.size, len(p)) / len(p))


@dataclass(frozen=True)
class ByWeight:
    """``size`` draws with replacement, device i with probability p_i: by data size if p is.

    A draw is a race: the device with the least ``-log(u_i) / p_i`` wins it.
    """

    size: int

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """How often each device was drawn."""
        with np.errstate(divide="ignore"):
            slowness = 1.0 / p
        won = [
            int(np.argmin(-np.log(uniforms(keys, round, PARTICIPATION, draw)) * slowness))
            for draw in range(_within(self.size, None))
        ]
        return np.bincount(won, minlength=len(p)).astype(float)

    def expected(self, p: Array) -> Array:
        """``size p_i``."""
        return np.asarray(_within(self.size, None) * p)


@dataclass(frozen=True)
class Cyclic:
    """``size`` devices in turn, in their order."""

    size: int

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """One for the next devices."""
        n, size = len(p), _within(self.size, len(p))
        chosen = np.zeros(n)
        chosen[(round * size + np.arange(size)) % n] = 1.0
        return chosen

    def expected(self, p: Array) -> Array:
        """``size / n``."""
        return np.full(len(p), _within(self.size, len(p)) / len(p))


@dataclass(frozen=True)
class Bernoulli:
    """Each device by itself with a probability, a number or one a device; a round may have none."""

    probability: float | tuple[float, ...]

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """One for the devices whose coin says so."""
        return (uniforms(keys, round, PARTICIPATION) < self.expected(p)).astype(float)

    def expected(self, p: Array) -> Array:
        """The probabilities."""
        q = np.broadcast_to(np.asarray(self.probability, dtype=float), p.shape)
        if not ((q > 0) & (q <= 1)).all():
            raise ValueError(f"probability must be in (0, 1], got {self.probability!r}")
        return q


def server_average(model: Array, local: Array, p: Array, counts: Array, expected: Array | None) -> Array:
    """The server's new model from the devices' ``local`` models (n_nodes, dim).

    With ``expected`` counts the update is unbiased, ``model + sum_i p_i counts_i / expected_i (local_i - model)``;
    without, the weights of those who take part are renormalised, ``sum p_i counts_i local_i / sum p_i counts_i``, whose
    mean has other effective weights than p unless p is uniform.  A round without devices leaves the model.
    """
    share = p * counts if expected is None else p * counts / np.where(expected > 0, expected, 1.0)
    if not share.any():
        return model
    if expected is None:
        share = share / share.sum()
    return np.asarray((1.0 - share.sum()) * model + np.einsum("i,ij->j", share, local))


def _within(size: int, n: int | None) -> int:
    if size != int(size) or size < 1 or (n is not None and size > n):
        raise ValueError(f"size must be a number of devices from 1 to {n or 'any'}, got {size!r}")
    return int(size)
