"""What local gradient steps do to quadratic losses, as convex functions: the surrogates of biased algorithms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from gtvmin.federated.forms import federated_form
from gtvmin.losses import Quadratic
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Array

__all__ = ["setup_of", "step_surrogate"]


def setup_of(algorithm: Any, problem: GTVMin) -> Any:
    """The constants that an algorithm derives from a problem, without its warnings, which a run gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        return algorithm.init(federated_form(problem), None).setup


def step_surrogate(Q: Array, b: Array, eta: float, steps: int, mu: float = 0.0) -> Quadratic:
    """The function G with ``y_K = w - grad G(w)`` after K steps ``y -= eta (Q y - b + mu (y - w))`` from ``y = w``.

    ``grad G(w) = S w - r`` with S a polynomial in Q, so symmetric; without mu it is ``I - (I - eta Q)^K``.  A server
    that averages the y_K minimises ``sum_i p_i G_i``.

    Raises
    ------
    ValueError
        If G is not convex, for steps beyond their bound.
    """
    identity = np.eye(len(b))
    shrink, M, r = identity - eta * (Q + mu * identity), identity, np.zeros(len(b))
    for _ in range(steps):
        M, r = shrink @ M + eta * mu * identity, shrink @ r + eta * b
    S = identity - M
    return Quadratic(0.5 * (S + S.T), -r)
