"""Who computes when, and how long messages take: the schedule of an asynchronous run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..standard_form import Array
from .participation import All, Participation
from .streams import COINS, Keys, uniforms

__all__ = ["Delay", "Diurnal", "GeometricDelay", "GrowingDelay", "Schedule", "UniformDelay"]

IntArray = NDArray[np.int64]
# Counters of a device's coins: failures of its computations, its place in the day.
FAILURE, PHASE = 0, 1


class Delay(Protocol):
    """How many events late a message is; one that is not late is there at the next event."""

    def draw(self, u: Array, event: int) -> IntArray:
        """Delays from numbers in (0, 1), for messages that are sent at an event."""
        ...


@dataclass(frozen=True)
class UniformDelay:
    """From 0 to ``most`` events, each as likely."""

    most: int

    def __post_init__(self) -> None:
        if self.most != int(self.most) or self.most < 0:
            raise ValueError(f"most must be a number of events >= 0, got {self.most!r}")

    def draw(self, u: Array, event: int) -> IntArray:
        """Equal shares of the interval."""
        return (u * (self.most + 1)).astype(np.int64)


@dataclass(frozen=True)
class GeometricDelay:
    """Without a bound: ``mean`` on average, k events with probability ``(1 - q) q^k``, q = mean / (1 + mean)."""

    mean: float

    def __post_init__(self) -> None:
        if not 0 < self.mean < np.inf:
            raise ValueError(f"mean must be a finite number of events > 0, got {self.mean!r}")

    def draw(self, u: Array, event: int) -> IntArray:
        """The distribution's quantiles."""
        late = np.log(u) / np.log(self.mean / (1.0 + self.mean))
        return np.asarray(late.astype(np.int64))


@dataclass(frozen=True)
class GrowingDelay:
    """From 0 to ``share`` times the events so far: longer and longer, while every message is outdated some time."""

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < np.inf:
            raise ValueError(f"share must be a finite number > 0, got {self.share!r}")

    def draw(self, u: Array, event: int) -> IntArray:
        """Equal shares of the interval."""
        return (u * (self.share * event + 1.0)).astype(np.int64)


@dataclass(frozen=True)
class Diurnal:
    """Devices that can be reached for a share of every day, each at its own time of day.

    Parameters
    ----------
    period : float
        Events a day.
    share : float
        Of the day that a device is there, above 0 and at most 1.
    phases : sequence of float, optional
        When the day of each device begins, as shares of a day.  Default: drawn.
    """

    period: float
    share: float
    phases: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.period < np.inf:
            raise ValueError(f"period must be a finite number of events >= 1, got {self.period!r}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, got {self.share!r}")

    def there(self, keys: Keys, event: int) -> NDArray[np.bool_]:
        """Who can be reached at an event."""
        phase = uniforms(keys, 0, COINS, PHASE) if self.phases is None else np.asarray(self.phases, dtype=float)
        if phase.shape != keys.shape or not np.isfinite(phase).all():
            raise ValueError(f"phases must be {len(keys)} finite numbers, one a device")
        return np.asarray((event / self.period - phase) % 1.0 < self.share)


@dataclass(frozen=True)
class Schedule:
    """Events in whose turn devices compute, with messages that are late, lost, or for a device that is not there.

    The default is synchronous: everybody computes at every event, and is heard at the next.

    Parameters
    ----------
    active : Participation
        Who begins a computation at an event if it can: a rule of :mod:`~gtvmin.solvers.federated.participation`, such
        as ``Bernoulli(0.5)``, ``Cyclic(1)`` or, for devices of different speed, ``Bernoulli((1.0, 0.1, ...))``.
    delay : int or Delay
        How late messages are: the same number of events for all, :class:`UniformDelay` with a bound (partially
        asynchronous), or :class:`GeometricDelay` or :class:`GrowingDelay` without (totally asynchronous).
    loss : float
        Probability that a message never arrives, at least 0 and below 1.
    duration : int or sequence of int
        Events that a computation takes, at least 1, one number a device for stragglers.  It uses what the device had
        when it began, and is sent when it is done.
    failure : float
        Probability that a computation is given up when it should be done, at least 0 and below 1.
    availability : Diurnal, optional
        When devices are there.  A device that is not neither begins nor sends; what it is doing waits.  Messages to it
        wait.
    joins, leaves : sequence of int, optional
        Event at which each device comes, and at which it is gone for good; a negative number for never leaving.  What
        others have of a device that is not there yet is its starting point, of one that has gone what it sent last.
    own_delay : int
        Moves of a device follow from its own parameters of so many events ago (of gradients that are late, or read
        while others write).  With 0 they are always its newest, as the theory of asynchronous iterations asks for.
    """

    active: Participation = field(default_factory=All)
    delay: int | Delay = 0
    loss: float = 0.0
    duration: int | Sequence[int] = 1
    failure: float = 0.0
    availability: Diurnal | None = None
    joins: Sequence[int] | None = None
    leaves: Sequence[int] | None = None
    own_delay: int = 0

    def __post_init__(self) -> None:
        for name in ("loss", "failure"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be a probability >= 0 and below 1, got {getattr(self, name)!r}")
        for name, method, example in (
            ("active", "counts", "Bernoulli(0.5)"),
            ("availability", "there", "Diurnal(24, 0.6)"),
        ):
            rule = getattr(self, name)
            if rule is not None and not hasattr(rule, method):
                raise TypeError(f"{name} must be a rule such as {example}, got {rule!r}")
        if isinstance(self.delay, int | np.integer | float):
            if self.delay != int(self.delay) or self.delay < 0:
                raise ValueError(
                    f"delay must be a number of events >= 0 or a rule such as UniformDelay, got {self.delay!r}"
                )
            object.__setattr__(self, "delay", int(self.delay))
        if self.own_delay != int(self.own_delay) or self.own_delay < 0:
            raise ValueError(f"own_delay must be a number of events >= 0, got {self.own_delay!r}")
        if (np.asarray(self.duration) < 1).any():
            raise ValueError(f"duration must be a number of events >= 1 or one a device, got {self.duration!r}")

    def present(self, keys: Keys, event: int) -> NDArray[np.bool_]:
        """Who is there at an event."""
        there = np.ones(len(keys), dtype=bool)
        if self.joins is not None:
            there &= event >= events_per_device("joins", self.joins, len(keys))
        if self.leaves is not None:
            last = events_per_device("leaves", self.leaves, len(keys))
            there &= (event < last) | (last < 0)
        return there if self.availability is None else there & self.availability.there(keys, event)

    def begins(self, keys: Keys, event: int) -> NDArray[np.bool_]:
        """Who would begin a computation at an event."""
        return self.active.counts(keys, np.full(len(keys), 1.0 / len(keys)), event) > 0

    def fails(self, keys: Keys, event: int) -> NDArray[np.bool_]:
        """Whose computation would be given up at an event."""
        return np.asarray(uniforms(keys, event, COINS, FAILURE) < self.failure)

    def delays(self, messages: Keys, event: int) -> tuple[NDArray[np.bool_], IntArray]:
        """Which messages of an event arrive, and how late, for the keys of the edges that they would go over."""
        arrives = uniforms(messages, event, COINS, 0) >= self.loss
        if isinstance(self.delay, int):
            return arrives, np.full(len(messages), self.delay)
        return arrives, self.delay.draw(uniforms(messages, event, COINS, 1), event)


def events_per_device(name: str, numbers: int | Sequence[int], n: int) -> IntArray:
    """Numbers of events, one a device."""
    found = np.asarray(numbers)
    if found.shape not in ((), (n,)) or (found != found.astype(np.int64)).any():
        raise ValueError(f"{name} must be a whole number of events or {n} of them, one a device, got {numbers!r}")
    return np.array(np.broadcast_to(found, (n,)), dtype=np.int64)
