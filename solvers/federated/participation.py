"""Which devices take part in a round.

A server's unbiased update ``w + sum_i s_i d_i`` has weights ``s_i = p_i counts_i / expected_i`` with mean p_i, and
those of one round may be much larger.  A rule's amplification is a number c >= 1 with which

    E ||sum_i s_i d_i||^2 <= c r sum_i p_i <d_i, u>     for all d_i with ||d_i||^2 <= r <d_i, u>,

as the differences d_i of the local moves from two models that differ by u satisfy for a number r.  The update then
brings the two models together in mean square if ``c r < 2``.  The largest possible ``sum_i s_i`` is such a number, by
the convexity of the square; so is ``1 + max_i p_i E(s_i / p_i - 1)^2`` for independent s_i, whose mean has
``||sum_i p_i d_i||^2 <= sum_i p_i ||d_i||^2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..standard_form import Array
from .form import per_device
from .streams import PARTICIPATION, Keys, uniforms

__all__ = [
    "All",
    "Bernoulli",
    "ByWeight",
    "Cyclic",
    "Participation",
    "UniformSample",
    "amplification",
    "expected_and_amplification",
    "server_average",
]


class Participation(Protocol):
    """A rule that draws the devices of a round."""

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """How many times each device takes part in a round, (n_nodes,)."""
        ...

    def expected(self, p: Array) -> Array:
        """Mean of the counts over the rounds, (n_nodes,)."""
        ...


def amplification(rule: Participation, p: Array) -> float:
    """How much larger than p the weights of unbiased updates act in mean square, at least 1.

    A rule may have a method ``amplification(p)``.  Of another one it is known only that its weights add up to at most
    ``sum_i p_i / expected_i``, if no device is counted twice.
    """
    own = getattr(rule, "amplification", None)
    return max(1.0, float(own(p) if own is not None else _shares(p, rule.expected(p)).sum()))


def expected_and_amplification(rule: Participation, p: Array, *, unbiased: bool) -> tuple[Array | None, float]:
    """Expected counts and amplification of unbiased updates; None and 1 for renormalised weights, which add up to 1."""
    return (rule.expected(p), amplification(rule, p)) if unbiased else (None, 1.0)


def _shares(p: Array, expected: Array) -> Array:
    """Weight of each device in a round in which it takes part once."""
    return np.asarray(p / np.where(expected > 0, expected, 1.0))


@dataclass(frozen=True)
class All:
    """Every device, every round."""

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """Ones."""
        return np.ones(len(p))

    def expected(self, p: Array) -> Array:
        """Ones."""
        return np.ones(len(p))

    def amplification(self, p: Array) -> float:
        """No device weighs more than p."""
        return 1.0


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

    def amplification(self, p: Array) -> float:
        """``1 + max_i p_i (n / size) (n - size) / (n - 1)``, or the largest sum of ``size`` weights if it is less."""
        n, size = len(p), _within(self.size, len(p))
        spread = n / size * (n - size) / max(n - 1, 1)
        return float(min(1.0 + p.max() * spread, _largest_sum(p, size)))


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

    def amplification(self, p: Array) -> float:
        """The weights ``counts_i / size`` always add up to one."""
        return 1.0


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

    def amplification(self, p: Array) -> float:
        """The largest sum of ``size`` weights; nothing is random."""
        return _largest_sum(p, _within(self.size, len(p)))


@dataclass(frozen=True)
class Bernoulli:
    """Each device by itself with a probability, a number or one a device; a round may have none."""

    probability: float | tuple[float, ...]

    def counts(self, keys: Keys, p: Array, round: int) -> Array:
        """One for the devices whose coin says so."""
        return (uniforms(keys, round, PARTICIPATION) < self.expected(p)).astype(float)

    def expected(self, p: Array) -> Array:
        """The probabilities."""
        q = per_device("probability", self.probability, len(p))
        if not ((q > 0) & (q <= 1)).all():
            raise ValueError(f"probability must be in (0, 1], got {self.probability!r}")
        return q

    def amplification(self, p: Array) -> float:
        """``1 + max_i p_i (1 - q_i) / q_i``."""
        q = self.expected(p)
        return float(1.0 + (p * (1.0 - q) / q).max())


def server_average(model: Array, local: Array, p: Array, counts: Array, expected: Array | None) -> Array:
    """The server's new model from the devices' ``local`` models (n_nodes, dim).

    With ``expected`` counts the update is unbiased, ``model + sum_i p_i counts_i / expected_i (local_i - model)``;
    without, the weights of those who take part are renormalised, ``sum p_i counts_i local_i / sum p_i counts_i``, whose
    mean has other effective weights than p unless p is uniform.  A round without devices leaves the model.
    """
    share = p * counts if expected is None else counts * _shares(p, expected)
    if not share.any():
        return model
    if expected is None:
        share = share / share.sum()
    return np.asarray((1.0 - share.sum()) * model + np.einsum("i,ij->j", share, local))


def _largest_sum(p: Array, size: int) -> float:
    """Largest weight ``sum_i p_i n / size`` of ``size`` different devices together."""
    return float(np.sort(p)[-size:].sum() * len(p) / size)


def _within(size: int, n: int | None) -> int:
    if size != int(size) or size < 1 or (n is not None and size > n):
        raise ValueError(f"size must be a number of devices from 1 to {n or 'any'}, got {size!r}")
    return int(size)
