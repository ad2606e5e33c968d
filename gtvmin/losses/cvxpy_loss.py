"""Any convex expression of CVXPY as a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.cone_program import ConeProgram
from gtvmin.losses.cvxpy_blocks import FEASIBILITY, CvxpyBlocks
from gtvmin.losses.rows import SelectionLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import positive_integer

__all__ = ["CvxpyLoss"]

# Step of the prox that stands for a subgradient where CVXPY knows none.
SUBGRADIENT_STEP = 1e-3


@dataclass(frozen=True, eq=False, repr=False, init=False)
class CvxpyLoss(SelectionLoss):
    """A loss that CVXPY expresses: ``build(w)`` at the device's parameters w.

    Parameters
    ----------
    build : callable
        Takes a CVXPY expression of shape (dim,) and returns a scalar convex expression, or a pair of an expression and
        a list of constraints.  It is called at once, and again for every CVXPY model.
    dim : int
        Number of parameters.

    Raises
    ------
    TypeError
        If ``build`` is no function, or returns no expression of CVXPY.
    ValueError
        If the expression is not convex by CVXPY's rules, no real scalar, does not depend on w, or has other variables
        or parameters; if a constraint is not convex; or if no parameters obey all constraints.

    Notes
    -----
    Values are those of the expression; constraints count as met within 1e-8 of the parameters' size.  Prox and
    conjugate come from Clarabel, an interior-point solver, on the cone program to which CVXPY brings the expression
    once: about a tenth of a millisecond for each device and iteration, much slower than the package's own losses.

    The conjugate in a certificate is the bound of the solver's dual point, with the residual of its equations charged
    at the size of the primal point: an upper estimate to the solver's accuracy (about 1e-9 of the parts of the loss),
    not a theorem.  Nothing exact is known about an expression, so that ``certify(..., rigorous=True)`` refuses it.

    The function cannot be written to a file.  Its part of a problem's hash is that of the cone program's numbers, which
    other versions of CVXPY may arrange differently.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from gtvmin.losses import CvxpyLoss
    >>> loss = CvxpyLoss(lambda w: cp.norm(w, 1.5), dim=2)
    >>> round(loss.value([3.0, 0.0]), 9)
    3.0
    """

    build: Callable[[Any], Any]
    size: int
    variable: Any
    expression: Any
    constraints: tuple[Any, ...]
    program: ConeProgram

    function: ClassVar[type[BlockFunction]] = CvxpyBlocks
    storable: ClassVar[bool] = False

    def __init__(self, build: Callable[[Any], Any], dim: int) -> None:
        import cvxpy as cp

        if not callable(build):
            raise TypeError(f"build must be a function that takes a CVXPY variable, got {build!r}")
        w = cp.Variable(positive_integer(dim, "dim"), name="w")
        object.__setattr__(self, "build", build)
        expression, constraints = self.declare(w)
        _check(expression, constraints, w)
        values = {"size": int(w.size), "variable": w, "expression": expression, "constraints": tuple(constraints)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "program", ConeProgram.of(expression, constraints, w))
        try:
            self.program.domain.prox(np.zeros(w.size), 1.0)
        except ValueError as error:
            raise ValueError(f"no parameters obey all constraints of {self!r}: {error}") from error

    @property
    def dim(self) -> int:
        """Number of parameters."""
        return self.size

    def declare(self, w: Any) -> tuple[Any, list[Any]]:
        """Expression and constraints of ``build`` at a CVXPY expression w."""
        built = self.build(w)
        expression, constraints = built if isinstance(built, tuple) else (built, [])
        return expression, list(constraints)

    @property
    def restricted(self) -> bool:
        """Whether the loss is infinite somewhere."""
        return bool(self.constraints) or any(limit.variables() for limit in self.expression.domain)

    def arguments(self) -> dict[str, Any]:
        """Fingerprint of the cone program: the function itself is code."""
        return {"cone_program": self.program.fingerprint, "dim": self.size}

    def evaluate(self, w: Array) -> float:
        """Value of the expression, ``inf`` outside its domain or where a constraint is violated."""
        self.variable.value = w
        tolerance = FEASIBILITY * (1.0 + float(np.abs(w).max()))
        if any(np.max(constraint.violation()) > tolerance for constraint in self.constraints):
            return np.inf
        with np.errstate(all="ignore"):
            value = float(np.asarray(self.expression.value).item())
        return np.inf if np.isnan(value) else value

    def slope(self, w: Array) -> Array:
        """A subgradient at w, or near it where CVXPY has none."""
        self.variable.value = w
        with np.errstate(all="ignore"):
            gradient = self.expression.grad.get(self.variable)
        if gradient is not None:
            dense = np.ravel(gradient.toarray() if hasattr(gradient, "toarray") else gradient).astype(float)
            if np.isfinite(dense).all():
                return np.asarray(dense)
        step = SUBGRADIENT_STEP
        return np.asarray((w - self.program.prox(w, step)) / step)

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """The loss itself and its coefficient."""
        holder: NDArray[Any] = np.empty(1, dtype=object)
        holder[0] = self
        return {"losses": holder, "coefficient": np.array([coefficient])}

    def __repr__(self) -> str:
        return f"CvxpyLoss({self.expression})"


def _check(expression: Any, constraints: list[Any], w: Any) -> None:
    """Refuse what is no convex function of w alone."""
    import cvxpy as cp

    if not isinstance(expression, cp.Expression):
        raise TypeError(f"build must return an expression of CVXPY, or one and constraints, got {expression!r}")
    if not (expression.is_scalar() and expression.is_real()):
        raise ValueError(f"build must return one real number, got {expression} of shape {expression.shape}")
    if not expression.is_convex():
        raise ValueError(
            f"build must return a convex expression: CVXPY's rules call {expression} {expression.curvature.lower()}"
        )
    for constraint in constraints:
        if not (isinstance(constraint, cp.Constraint) and constraint.is_dcp()):
            raise ValueError(f"build must return convex constraints, got {constraint}")
    parts = [expression, *constraints]
    foreign = [v for part in parts for v in (*part.variables(), *part.parameters()) if v.id != w.id]
    if foreign:
        raise ValueError(
            f"build must return a function of w alone, but {expression} depends on {foreign[0]}: it may have no other "
            "variables, and numbers in place of parameters"
        )
    if not any(v.id == w.id for part in parts for v in part.variables()):
        raise ValueError(f"build must return a function of w, but {expression} does not depend on it")
