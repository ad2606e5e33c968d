"""Second-order models of smooth losses: quadratic functions of each device around given parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from .linear_maps import Array
from .standard_form import BlockFunction, StandardForm

__all__ = ["LocalModels", "model_form"]


class LocalModels(BlockFunction):
    """``m_i(w) = w^T H_i w / 2 - b_i^T w`` with positive definite H_i, without constants.

    Parameters
    ----------
    H, b : arrays (n_rows, dim, dim), (n_rows, dim)
        Curvatures and linear terms.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"gradient", "prox", "quadratic"})

    def __init__(self, H: Array, b: Array) -> None:
        self.H, self.b = H, b
        self.n_rows, self.dim = b.shape

    @property
    def smoothness(self) -> Array:
        """The traces, no less than the largest eigenvalues."""
        return np.asarray(np.einsum("ijj->i", self.H))

    def value(self, W: Array) -> Array:
        """Values."""
        return np.asarray(np.einsum("ij,ij->i", 0.5 * (self.gradient(W) - self.b), W))

    def gradient(self, W: Array) -> Array:
        """``H_i w_i - b_i``."""
        from .operators import multiply_blocks

        return multiply_blocks(self.H, W, -self.b)

    def quadratic(self) -> tuple[Array, Array]:
        """H and b."""
        return self.H, self.b

    def affine_prox(self, step: Array) -> tuple[Array, Array]:
        """``(I + step_i H_i)^{-1}``, and that times ``step_i b_i``."""
        from .newton_systems import affine_steps

        matrix, offset = affine_steps(self.H, self.b, step)
        return matrix, offset

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """``(I + step_i H_i)^{-1} (v_i + step_i b_i)``."""
        from .operators import multiply_blocks

        matrix, offset = self.affine_prox(step)
        return lambda V: multiply_blocks(matrix, V, offset)


def model_form(form: StandardForm, W: Array, H: Array, gradient: Array) -> StandardForm:
    """The form with every loss replaced by its tangent at W plus the quadratic function with curvature H there."""
    from .operators import multiply_blocks

    models = LocalModels(H, multiply_blocks(H, W, -gradient))
    return StandardForm(form.n_nodes, form.dim, models, form.couplings, (), models)
