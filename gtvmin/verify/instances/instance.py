"""What an instance is: a named generator of a problem, with a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["Instance", "instance"]

Maker = Callable[[np.random.Generator], "GTVMin"]


@dataclass(frozen=True)
class Instance:
    """A problem that solvers are tried on, made anew each time from a seed.

    Attributes
    ----------
    name : str
        Unique among the instances of a suite.
    description : str
        What is special about it, in one line.
    make : callable
        ``make(rng) -> GTVMin``, where `rng` is a ``numpy.random.Generator``.
    seed : int
        Seed of the generator.
    tags : frozenset of str
        The suites it belongs to.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.verify import Instance
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.NetworkLasso(gtv.FLNetwork.from_edges([(0, 1)]), losses, lam=1.0)
    >>> mine = Instance("pair", "My own problem.", lambda rng: problem)
    >>> mine.problem().alpha
    1.0
    """

    name: str
    description: str
    make: Maker
    seed: int = 0
    tags: frozenset[str] = frozenset()

    def problem(self) -> GTVMin:
        """The problem: a new object each time, so that no solver meets what another has left behind."""
        return self.make(np.random.default_rng(self.seed))

    def with_seed(self, seed: int) -> Instance:
        """The same kind of problem from another seed."""
        return replace(self, seed=seed)

    def __repr__(self) -> str:
        return f"Instance({self.name!r}, seed={self.seed})"


def instance(*suites: str, seed: int = 0) -> Callable[[Maker], Instance]:
    """Turn a documented generator into an instance of some suites, under the generator's own name."""

    def declare(make: Maker) -> Instance:
        if not make.__doc__:
            raise ValueError(f"the generator {make.__name__} needs a docstring: its first line describes the instance")
        return Instance(make.__name__, make.__doc__.partition("\n")[0], make, seed, frozenset(suites))

    return declare
