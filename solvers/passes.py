"""Compiled passes of a primal-dual step over devices and edges, in several threads where that pays.

A thread has a fixed range of devices and of edges, and adds what its edges pull into an array of its own, so that a
run with the same number of threads gives the same bits.  Importing this module imports numba.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise

import numpy as np
from numba import config, njit
from numpy.typing import NDArray

from .linear_maps import Array, EdgeDifference

__all__ = ["move_devices", "move_in_balls", "move_in_boxes", "thread_count"]

Ends = NDArray[np.uint32]
Moved = Callable[[Array, Array, Array, float], None]

# A hair less than one: a projection that rounding leaves outside of a ball would have to be repaired.
INSIDE = 1.0 - 4.0 * float(np.finfo(float).eps)
# Sums of squares and products may be added up in the order that suits the processor, always the same; infinities and
# NaN stay what they are.
REORDERED = {"reassoc", "contract"}
# Newton's method for the nearest point of a ball ends when it is outside by this share of the radius.
NEWTON_STEPS, CLOSE = 50, 1e-14
# Starting a thread for a pass takes 0.05 ms, in which a pass moves about 20,000 numbers.
NUMBERS_PER_THREAD = 250_000
# Every thread has an array of all devices' pulls.
MOST_THREADS = 8
# Loops over so few parameters run faster when their number is known to the compiler, and no faster beyond.
UNROLLED = 4


def thread_count(edges: int, dim: int) -> int:
    """Threads for a pass over that many edges: ``NUMBA_NUM_THREADS``, one a core by default, for enough work."""
    return max(1, min(int(config.NUMBA_NUM_THREADS), MOST_THREADS, edges * dim // NUMBERS_PER_THREAD))


def move_devices(tau: Array, matrix: Array, offset: Array, weights: Array) -> Callable[[Array, Array, float], Array]:
    """``(W, pull, relaxation) -> 2 prox - W`` where the proximal maps at ``v`` are ``matrix v + offset``.

    They are applied to ``v = w - tau * weights * pull``.  W moves in place by a multiple of ``prox - W``; the pull
    (threads, n_nodes, dim) is a sum of parts, which are set to zero.  What is returned lasts until the next call.
    """
    ahead = np.empty_like(offset)

    def move(W: Array, pull: Array, relaxation: float) -> Array:
        unroll = _unroll(W)
        if len(pull) == 1:
            _move_devices(W, ahead, pull, 0, tau, weights, matrix, offset, relaxation, unroll)
            return ahead
        _run(
            partial(
                _move_devices,
                W[a:b],
                ahead[a:b],
                pull,
                a,
                tau[a:b],
                weights,
                matrix[a:b],
                offset[a:b],
                relaxation,
                unroll,
            )
            for a, b in _ranges(len(W), len(pull))
        )
        return ahead

    return move


def move_in_balls(map: EdgeDifference, sigma: Array, radius: Array) -> Moved:
    """``(U, ahead, pull, relaxation)``: steps of the edges' duals into Euclidean balls; their pull is added.

    Each parameter has its step ``sigma`` (dim,), and points are nearest in the metric of the steps.
    """
    if (sigma == sigma[0]).all():
        return _edge_pass(_move_in_balls, map, float(sigma[0]), radius)
    return _edge_pass(_move_in_metric_balls, map, sigma, radius)


def move_in_boxes(map: EdgeDifference, sigma: Array, radius: Array) -> Moved:
    """As :func:`move_in_balls`, into boxes."""
    return _edge_pass(_move_in_boxes, map, sigma, radius)


def _edge_pass(kernel: Callable[..., None], map: EdgeDifference, sigma: float | Array, radius: Array) -> Moved:
    # numbers without a sign spare the test for indices from the end
    tail, head = (end.astype(np.uint32) for end in map.ends)

    def move(U: Array, ahead: Array, pull: Array, relaxation: float) -> None:
        unroll = _unroll(U)
        if len(pull) == 1:
            kernel(U, ahead, pull[0], tail, head, sigma, radius, relaxation, unroll)
            return
        _run(
            partial(kernel, U[a:b], ahead, part, tail[a:b], head[a:b], sigma, radius[a:b], relaxation, unroll)
            for (a, b), part in zip(_ranges(len(U), len(pull)), pull, strict=True)
        )

    return move


def _unroll(rows: Array) -> tuple[int, ...]:
    """As many entries as loops over parameters have steps, none if the compiler need not know."""
    dim = rows.shape[1]
    return (0,) * dim if dim <= UNROLLED else ()


def _ranges(count: int, parts: int) -> list[tuple[int, int]]:
    ends = [count * part // parts for part in range(parts + 1)]
    return list(pairwise(ends))


def _run(tasks: Iterable[Callable[[], None]]) -> None:
    """Run tasks at once, the first one in this thread."""
    first, *rest = tasks
    others = [_pool().submit(task) for task in rest]
    first()
    for other in others:
        other.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST_THREADS - 1, thread_name_prefix="gtvmin")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has no threads of its parent


@njit(cache=True, error_model="numpy", nogil=True, fastmath=REORDERED)  # type: ignore[untyped-decorator]
def _move_devices(
    W: Array, ahead: Array, pull: Array, first: int, tau: Array, weights: Array, M: Array, offset: Array,
    relaxation: float, unroll: tuple[int, ...],
) -> None:  # fmt: skip
    threads, dim = len(pull), W.shape[1]
    if len(unroll) > 0:
        dim = len(unroll)
    at = np.empty(dim)
    for i in range(len(W)):
        for k in range(dim):
            total = 0.0
            for t in range(threads):
                total += pull[t, first + i, k]
                pull[t, first + i, k] = 0.0
            at[k] = W[i, k] - tau[i] * weights[k] * total
        for j in range(dim):
            total = offset[i, j]
            for k in range(dim):
                total += M[i, j, k] * at[k]
            move = total - W[i, j]
            ahead[i, j] = total + move
            W[i, j] += relaxation * move


@njit(cache=True, error_model="numpy", nogil=True, fastmath=REORDERED)  # type: ignore[untyped-decorator]
def _move_in_balls(
    U: Array, ahead: Array, pull: Array, tail: Ends, head: Ends, sigma: float, radius: Array, relaxation: float,
    unroll: tuple[int, ...],
) -> None:  # fmt: skip
    dim = U.shape[1]
    if len(unroll) > 0:
        dim = len(unroll)
    at = np.empty(dim)
    for e in range(len(U)):
        i, j = tail[e], head[e]
        total = 0.0
        for k in range(dim):
            at[k] = U[e, k] + sigma * (ahead[j, k] - ahead[i, k])
            total += at[k] * at[k]
        # without a branch, which no processor could foresee; the quotient is infinite at zero
        factor = min(1.0, INSIDE * radius[e] / np.sqrt(total))
        for k in range(dim):
            new = U[e, k] + relaxation * (factor * at[k] - U[e, k])
            U[e, k] = new
            pull[j, k] += new
            pull[i, k] -= new


@njit(cache=True, error_model="numpy", nogil=True)  # type: ignore[untyped-decorator]
def _move_in_metric_balls(
    U: Array, ahead: Array, pull: Array, tail: Ends, head: Ends, sigma: Array, radius: Array, relaxation: float,
    unroll: tuple[int, ...],
) -> None:  # fmt: skip
    dim = U.shape[1]
    at = np.empty(dim)
    for e in range(len(U)):
        i, j = tail[e], head[e]
        for k in range(dim):
            at[k] = U[e, k] + sigma[k] * (ahead[j, k] - ahead[i, k])
        _nearest_in_ball(at, sigma, INSIDE * radius[e])
        for k in range(dim):
            new = U[e, k] + relaxation * (at[k] - U[e, k])
            U[e, k] = new
            pull[j, k] += new
            pull[i, k] -= new


@njit(cache=True, error_model="numpy", nogil=True)  # type: ignore[untyped-decorator]
def _nearest_in_ball(v: Array, sigma: Array, radius: float) -> None:
    """Move v to ``v_k / (1 + sigma_k mu)`` with the least mu >= 0 that puts it into the ball.

    Newton's method for ``1 / radius - 1 / ||.||``, which is convex in mu, rises to the root from the left; what
    rounding leaves outside is scaled.
    """
    mu = 0.0
    for _ in range(NEWTON_STEPS):
        square, slope = 0.0, 0.0
        for k in range(len(v)):
            part = v[k] / (1.0 + sigma[k] * mu)
            square += part * part
            slope += part * part * sigma[k] / (1.0 + sigma[k] * mu)
        size = np.sqrt(square)
        if not size > radius * (1.0 + CLOSE):
            break
        mu += (size / radius - 1.0) * square / slope
    factor = 1.0
    if mu > 0.0 or size > radius:
        factor = min(1.0, radius / size)
    for k in range(len(v)):
        v[k] *= factor / (1.0 + sigma[k] * mu)


@njit(cache=True, error_model="numpy", nogil=True, fastmath=REORDERED)  # type: ignore[untyped-decorator]
def _move_in_boxes(
    U: Array, ahead: Array, pull: Array, tail: Ends, head: Ends, sigma: Array, radius: Array, relaxation: float,
    unroll: tuple[int, ...],
) -> None:  # fmt: skip
    dim = U.shape[1]
    if len(unroll) > 0:
        dim = len(unroll)
    for e in range(len(U)):
        i, j = tail[e], head[e]
        for k in range(dim):
            at = U[e, k] + sigma[k] * (ahead[j, k] - ahead[i, k])
            new = U[e, k] + relaxation * (min(max(at, -radius[e]), radius[e]) - U[e, k])
            U[e, k] = new
            pull[j, k] += new
            pull[i, k] -= new
