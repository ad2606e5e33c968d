"""What the rounds of an algorithm tend to: from the affine map of a round, or by running it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.federated.operators import AffineRound, affine_round, pack, unpack
from gtvmin.solvers.federated.watch import DivergenceWatch

if TYPE_CHECKING:
    from gtvmin.solvers.standard_form import Array, Point, StandardForm

__all__ = ["Limit", "limit_of"]

LARGEST = 400
"""Numbers in a state up to which the map of a round is made: it takes as many rounds."""
MOST_ROUNDS = 6_000
EVERY = 50
STILL = 1e-13
"""Relative change of the models over so many rounds that is rounding."""
FOLLOWED = 6
"""Rounds that the map has to reproduce: another draw is another map."""
STAYED = 200
"""Rounds over which the limit has to stay where it is: draws may be rare."""
KEPT = 1e-6
"""Distance from one of an eigenvalue that belongs to a quantity which rounds keep."""
UNSTABLE = 1e-9
AFFINE = 1e-8


@dataclass(frozen=True, eq=False)
class Limit:
    """Where rounds lead.

    Attributes
    ----------
    W : array (n_nodes, dim)
        The devices' models there.
    how : str
        How it was found, in words.
    settled : bool
        Whether the models have stopped moving.
    runaway : str
        A sentence if a part of the state grows without bound, or is never at rest; else empty.
    """

    W: Array
    how: str
    settled: bool = True
    runaway: str = ""


def limit_of(algorithm: Any, form: StandardForm, start: Point | None) -> Limit:
    """The limit from a start.

    On quadratic losses the rounds of most algorithms are affine, and their limit follows exactly from A and b; that of
    other rounds is looked for by up to 6,000 of them.
    """
    state = algorithm.init(form, start)
    variables = tuple(getattr(algorithm, "variables", ()))
    with np.errstate(all="ignore"):
        if variables and is_dataclass(state) and "quadratic" in form.local.capabilities:
            moving = _moving(algorithm, form, state, variables)
            found = _affine(moving, form, state)
            limit = None if found is None else _at_rest(moving, form, state, found)
            if limit is not None:
                return limit
        return _by_rounds(algorithm, form, state, variables)


def _moving(algorithm: Any, form: StandardForm, state: Any, variables: Sequence[str]) -> Any:
    """The algorithm with those variables only that move from the start: a fixed mixture makes products of others."""
    moved, now = set(), state
    for _ in range(FOLLOWED):
        now = algorithm.step(form, now)
        moved |= {name for name in variables if not np.array_equal(getattr(now, name), getattr(state, name))}
    names = tuple(name for name in variables if name in moved)
    return SimpleNamespace(variables=names, step=algorithm.step, point=algorithm.point)


def _affine(algorithm: Any, form: StandardForm, state: Any) -> AffineRound | None:
    """The map of a round, None if rounds have none or not the same."""
    if not algorithm.variables or len(pack(algorithm, state)) > LARGEST:
        return None
    try:
        found = affine_round(algorithm, form, state)
    except (ValueError, np.linalg.LinAlgError):
        return None
    x = pack(algorithm, state)
    if not (np.isfinite(found.A).all() and np.isfinite(found.b).all()):
        return None
    for _ in range(FOLLOWED):
        state, x = algorithm.step(form, state), found.A @ x + found.b
        if not np.abs(pack(algorithm, state) - x).max(initial=0.0) <= AFFINE * (1.0 + np.abs(x).max(initial=0.0)):
            return None
    return found


def _at_rest(algorithm: Any, form: StandardForm, state: Any, found: AffineRound) -> Limit | None:
    """The fixed point of an affine map, if it attracts; None if later rounds have another map."""
    values = found.eigenvalues
    moving = values[np.abs(values - 1.0) > KEPT]
    radius = float(np.abs(moving).max(initial=0.0))
    start = pack(algorithm, state)
    x = found.fixed_point(start)
    rest = float(np.abs(found.A @ x + found.b - x).max(initial=0.0))
    runaway = ""
    if radius > 1.0 - UNSTABLE:
        runaway = f"the spectral radius of a round is {radius:.9g}: what is not at rest never comes to rest"
        runaway += _part(algorithm, state, found, values[np.abs(values) >= radius * (1.0 - 1e-12)])
    elif rest > AFFINE * (1.0 + np.abs(x).max(initial=0.0)):
        runaway = "rounds have no fixed point: a part of the state grows by as much in every round"
        runaway += _largest(algorithm, state, np.abs(found.A @ x + found.b - x))
    now = unpack(algorithm, state, x)
    W = np.asarray(algorithm.point(form, now).W, dtype=float)
    for _ in range(0 if runaway else STAYED):
        now = algorithm.step(form, now)
    if not np.abs(algorithm.point(form, now).W - W).max() <= AFFINE * (1.0 + np.abs(W).max()):
        return None
    return Limit(W, f"the affine map of a round, spectral radius {radius:.4g}", runaway=runaway)


def _part(algorithm: Any, state: Any, found: AffineRound, largest: Array) -> str:
    """The variable that moves most along the leading eigenvector."""
    values, vectors = np.linalg.eig(found.A)
    leading = int(np.argmin(np.abs(values - largest[0])))
    return _largest(algorithm, state, np.abs(vectors[:, leading]))


def _largest(algorithm: Any, state: Any, sizes: Array) -> str:
    """Name of the variable with the largest of some sizes."""
    ends = np.cumsum([np.size(getattr(state, name)) for name in algorithm.variables])
    return f"; most of it is in {algorithm.variables[int(np.searchsorted(ends, sizes.argmax(), side='right'))]!r}"


def _by_rounds(algorithm: Any, form: StandardForm, state: Any, variables: tuple[str, ...]) -> Limit:
    """The models once they are still."""
    watch, W = DivergenceWatch(variables), np.asarray(algorithm.point(form, state).W, dtype=float)
    watch(state, 0)
    for done in range(1, MOST_ROUNDS + 1):
        state = algorithm.step(form, state)
        if watch(state, done) is not None:
            name = watch.runaway
            return Limit(W, f"{done} rounds", False, f"the state's {name!r} grows without bound within {done} rounds")
        if done % EVERY:
            continue
        last, W = W, np.asarray(algorithm.point(form, state).W, dtype=float)
        if not np.isfinite(W).all():
            return Limit(last, f"{done} rounds", False, f"the models are not finite after {done} rounds")
        if np.abs(W - last).max(initial=0.0) <= STILL * (1.0 + np.abs(W).max(initial=0.0)):
            return Limit(W, f"{done} rounds")
    return Limit(W, f"{MOST_ROUNDS} rounds", settled=False)
