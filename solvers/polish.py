"""Exact parameters once it is known which neighbours agree: Newton's method on the contracted network Lasso.

Devices whose parameters nearly agree are put together.  Between the groups the penalty is smooth, and the reduced
problem is solved to rounding.  If the groups are those of the solution, so are the parameters; whether they are, the
polish cannot know, and whoever uses it must judge what comes out.  Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .linear_maps import Array
from .norm_network import NormNetwork
from .small_factors import backward, factorise, forward

__all__ = ["combine", "inner", "polish"]

IntArray = NDArray[np.int64]

STEPS = 30
# The linear systems of Newton's method are solved to this share of the gradient, or its own share if that is smaller.
FORCING = 0.1
ARMIJO = 1e-4
HALVINGS = 20
RIDGE = 1e-9
ROUNDING = 4.0 * float(np.finfo(float).eps)
# Once a step promises less than this share of the objective, the gradient is rounding.
NEGLIGIBLE = ROUNDING**1.5


def polish(network: NormNetwork, W: Array, limit: int) -> tuple[Array, int]:
    """Newton's method from parameters at which no two neighbours agree; also the number of products with the Hessian.

    The steps come from conjugate gradients with the Hessian's blocks as preconditioner, and are halved until the
    objective falls.  It stops after about ``limit`` products.
    """
    out = W.copy()
    products = _newton(out, network.H, network.b, network.tail, network.head, network.capacity, limit)
    return out, int(products)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _objective(W: Array, H: Array, b: Array, tail: IntArray, head: IntArray, capacity: Array) -> tuple[float, float]:
    """The objective, and the sum of the sizes of its parts."""
    dim = W.shape[1]
    total, size = 0.0, 0.0
    for i in range(len(W)):
        for j in range(dim):
            row = 0.0
            for k in range(dim):
                row += H[i, j, k] * W[i, k]
            part = (0.5 * row - b[i, j]) * W[i, j]
            total += part
            size += abs(part)
    for e in range(len(tail)):
        square = 0.0
        for k in range(dim):
            square += (W[head[e], k] - W[tail[e], k]) ** 2
        total += capacity[e] * np.sqrt(square)
        size += capacity[e] * np.sqrt(square)
    return total, size


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _differentiate(
    W: Array, H: Array, b: Array, tail: IntArray, head: IntArray, capacity: Array, g: Array, N: Array, bend: Array,
    blocks: Array,
) -> bool:  # fmt: skip
    """Gradient, unit differences N, curvatures ``cap / ||difference||`` and diagonal blocks; False at a kink."""
    dim = W.shape[1]
    for i in range(len(W)):
        for j in range(dim):
            g[i, j] = -b[i, j]
            for k in range(dim):
                g[i, j] += H[i, j, k] * W[i, k]
                blocks[i, j, k] = H[i, j, k]
    for e in range(len(tail)):
        t, h = tail[e], head[e]
        square = 0.0
        for k in range(dim):
            N[e, k] = W[h, k] - W[t, k]
            square += N[e, k] ** 2
        length = np.sqrt(square)
        if length == 0.0:
            return False
        bend[e] = capacity[e] / length
        for k in range(dim):
            N[e, k] /= length
            g[h, k] += capacity[e] * N[e, k]
            g[t, k] -= capacity[e] * N[e, k]
        for j in range(dim):
            for k in range(dim):
                part = -bend[e] * N[e, j] * N[e, k]
                if j == k:
                    part += bend[e]
                blocks[t, j, k] += part
                blocks[h, j, k] += part
    return True


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _product(V: Array, H: Array, tail: IntArray, head: IntArray, N: Array, bend: Array, out: Array) -> None:
    """The Hessian times V."""
    dim = V.shape[1]
    for i in range(len(V)):
        for j in range(dim):
            total = 0.0
            for k in range(dim):
                total += H[i, j, k] * V[i, k]
            out[i, j] = total
    for e in range(len(tail)):
        t, h = tail[e], head[e]
        along = 0.0
        for k in range(dim):
            along += N[e, k] * (V[h, k] - V[t, k])
        for k in range(dim):
            part = bend[e] * (V[h, k] - V[t, k] - along * N[e, k])
            out[h, k] += part
            out[t, k] -= part


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def inner(A: Array, B: Array) -> float:
    """Inner product."""
    total = 0.0
    for i in range(len(A)):
        for k in range(A.shape[1]):
            total += A[i, k] * B[i, k]
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def combine(a: float, X: Array, b: float, Y: Array, out: Array) -> None:
    """``out <- a X + b Y``; out may be one of them."""
    for i in range(len(X)):
        for k in range(X.shape[1]):
            out[i, k] = a * X[i, k] + b * Y[i, k]


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _factorise_blocks(blocks: Array) -> None:
    dim = blocks.shape[1]
    for i in range(len(blocks)):
        mean = 0.0
        for k in range(dim):
            mean += blocks[i, k, k] / dim
        for k in range(dim):
            blocks[i, k, k] += RIDGE * mean
        factorise(blocks[i], dim)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _precondition(blocks: Array, R: Array, Z: Array) -> None:
    dim = R.shape[1]
    for i in range(len(R)):
        for k in range(dim):
            Z[i, k] = R[i, k]
        if blocks[i, 0, 0] > 0.0:
            forward(blocks[i], Z[i], dim)
            backward(blocks[i], Z[i], dim)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _newton(W: Array, H: Array, b: Array, tail: IntArray, head: IntArray, capacity: Array, limit: int) -> int:
    """Minimise in place; returns the number of products with the Hessian."""
    n, dim = W.shape
    g, X, R, Z = np.zeros((n, dim)), np.zeros((n, dim)), np.zeros((n, dim)), np.zeros((n, dim))
    P, image, trial = np.zeros((n, dim)), np.zeros((n, dim)), np.zeros((n, dim))
    N, bend, blocks = np.zeros((len(tail), dim)), np.zeros(len(tail)), np.zeros((n, dim, dim))
    products, first = 0, 0.0
    value, size = _objective(W, H, b, tail, head, capacity)
    for step in range(STEPS):
        if products >= limit or not _differentiate(W, H, b, tail, head, capacity, g, N, bend, blocks):
            break
        _factorise_blocks(blocks)
        combine(0.0, g, -1.0, g, R)
        _precondition(blocks, R, Z)
        combine(0.0, Z, 1.0, Z, P)
        combine(0.0, Z, 0.0, Z, X)
        rz = inner(R, Z)
        if step == 0:
            first = rz
        if rz <= NEGLIGIBLE * size or first == 0.0:
            break
        goal = rz * min(FORCING, rz / first) ** 2
        while rz > goal and products < limit:
            _product(P, H, tail, head, N, bend, image)
            products += 1
            curvature = inner(P, image)
            if curvature <= 0.0:
                break
            combine(1.0, X, rz / curvature, P, X)
            combine(1.0, R, -rz / curvature, image, R)
            _precondition(blocks, R, Z)
            new = inner(R, Z)
            combine(1.0, Z, new / rz, P, P)
            rz = new
        slope = inner(g, X)
        length, found = 1.0, False
        for _ in range(HALVINGS):
            combine(1.0, W, length, X, trial)
            new_value, size = _objective(trial, H, b, tail, head, capacity)
            if new_value <= value + ARMIJO * length * slope + ROUNDING * size:
                found = True
                break
            length *= 0.5
        if not found or slope >= 0.0:
            break
        combine(0.0, W, 1.0, trial, W)
        value = new_value
    return products
