"""Any convex expression of CVXPY as a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gtvmin.losses.cone_program import ConeProgram
from gtvmin.losses.rows import SelectionLoss
from gtvmin.solvers.standard_form import Array, BlockFunction
from gtvmin.validation import positive_integer

__all__ = ["CvxpyBlocks", "CvxpyLoss"]

EPS = float(np.finfo(float).eps)
# The solver meets constraints to this share of the parameters' size: points as far outside count as inside.
FEASIBILITY = 1e-8
# Step of the prox that stands for a subgradient where CVXPY knows none.
SUBGRADIENT_STEP = 1e-3


class CvxpyBlocks(BlockFunction):
    """``coefficient_i * f_i(w_i)`` with f_i of a :class:`CvxpyLoss`, one solve of a cone program at a time.

    Parameters
    ----------
    losses : object array (n_rows,)
        The losses.
    coefficient : array (n_rows,)
        Positive.
    """

    capabilities: ClassVar[frozenset[str]] = frozenset({"prox", "conjugate"})

    def __init__(self, losses: NDArray[Any], coefficient: Array) -> None:
        self.losses: list[CvxpyLoss] = list(losses)
        self.coefficient = coefficient
        self.n_rows, self.dim = len(self.losses), self.losses[0].size
        self.restricted = any(loss.restricted for loss in self.losses)

    def _rows(self, evaluate: Callable[[CvxpyLoss, Array], Any], rows: Array) -> Array:
        return np.array([evaluate(loss, row) for loss, row in zip(self.losses, rows, strict=True)], dtype=float)

    def value(self, W: Array) -> Array:
        """Values of the expressions."""
        return self.coefficient * self._rows(CvxpyLoss.evaluate, W)

    def project_primal(self, W: Array) -> Array:
        """Nearest points of the domains; points inside, up to the solver's tolerance, stay as they are."""

        def inside(loss: CvxpyLoss, w: Array) -> Array:
            return w if np.isfinite(loss.evaluate(w)) else loss.program.domain.prox(w, 1.0)

        return self._rows(inside, W)

    def subgradient(self, W: Array) -> Array:
        """Those of CVXPY, or where it has none the slope of the Moreau envelope."""
        return self.coefficient[:, None] * self._rows(CvxpyLoss.slope, W)

    def conjugate(self, S: Array) -> Array:
        """``c f^*(s / c)``, an upper estimate."""
        scaled = S / self.coefficient[:, None]
        return self.coefficient * self._rows(lambda loss, s: loss.program.conjugate(s), scaled)

    def rounding(self, W: Array, S: Array) -> Array:
        """That of the sum, and what the tolerance on constraints may hide."""
        tolerance = FEASIBILITY * (1.0 + np.abs(W).max(axis=1)) * np.linalg.norm(S, axis=1)
        value = self.value(W)
        size = np.where(np.isfinite(value), np.abs(value), 0.0) + np.abs(W * S).sum(axis=1)
        restricted = np.array([loss.restricted for loss in self.losses])
        return np.asarray(8.0 * (self.dim + 4) * EPS * size + np.where(restricted, tolerance, 0.0))

    def prox_operator(self, step: Array) -> Callable[[Array], Array]:
        """One cone program a row."""
        steps = step * self.coefficient
        maps = [loss.program.prox_operator(float(t)) for loss, t in zip(self.losses, steps, strict=True)]
        return lambda V: np.array([prox(v) for prox, v in zip(maps, V, strict=True)])

    def complement(self, V: Array) -> Array:
        """Components along which the functions are affine."""

        def along(loss: CvxpyLoss, v: Array) -> Array:
            basis, _ = loss.program.flat
            return np.asarray(basis @ (basis.T @ v))

        return self._rows(along, V)

    def project_dual(self, S: Array) -> Array:
        """Along affine directions, the slope there."""

        def onto(loss: CvxpyLoss, s: Array) -> Array:
            basis, slopes = loss.program.flat
            return np.asarray(s - basis @ (basis.T @ s - slopes))

        scale = self.coefficient[:, None]
        return scale * self._rows(onto, S / scale)

    def project_domain(self, S: Array) -> Array:
        """Rows whose conjugate is finite stay as they are; others move along their ray, or to the nearest point."""

        def inside(loss: CvxpyLoss, s: Array) -> Array:
            if np.isfinite(loss.program.conjugate(s)):
                return s
            gauge = loss.program.gauge(s)
            # an interior-point method finds a value to more digits than the point where a kink has it
            return s / gauge if np.isfinite(gauge) else loss.program.nearest_slope(s)

        scale = self.coefficient[:, None]
        return self.project_dual(scale * self._rows(inside, S / scale))

    def dual_gauge(self, S: Array) -> Array:
        """Gauges of the domains, at most one where the conjugate is finite to the solver's accuracy."""

        def gauge(loss: CvxpyLoss, s: Array) -> float:
            found = loss.program.gauge(s)
            return min(found, 1.0) if found > 1.0 and np.isfinite(loss.program.conjugate(s)) else found

        return self._rows(gauge, S / self.coefficient[:, None])

    def dual_metric(self, S: Array, floor: float) -> Callable[[Array], Array]:
        """Projection onto the span of the domain."""
        return lambda Z: Z - self.complement(Z)

    def to_cvxpy(self, W: Any, unit: float = 1.0, factor: float = 1.0) -> Any:
        """The expressions of new variables that equal the rows."""
        import cvxpy as cp

        total: Any = 0.0
        for r, loss in enumerate(self.losses):
            w = cp.Variable(self.dim)
            expression, constraints = _declare(loss.build, w)
            total += factor * float(self.coefficient[r]) * expression
            total += cp.transforms.indicator([w == unit * W[r], *constraints])
        return total

    def conjugate_to_cvxpy(self, S: Any) -> tuple[Any, list[Any]]:
        """Support functions of the epigraphs, at ``(s, -1)``."""
        import cvxpy as cp

        total: Any = 0.0
        for r, loss in enumerate(self.losses):
            point = cp.Variable(self.dim + 1)
            expression, constraints = _declare(loss.build, point[:-1])
            epigraph = cp.suppfunc(point, [expression <= point[-1], *constraints])
            c = float(self.coefficient[r])
            total += c * epigraph(cp.hstack([S[r] / c, -1.0]))
        return total, []


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
    not a theorem.

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
        expression, constraints = _declare(build, w)
        _check(expression, constraints, w)
        values = {"build": build, "size": int(w.size), "variable": w, "expression": expression}
        for name, value in {**values, "constraints": tuple(constraints)}.items():
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
        if gradient is not None and np.isfinite(gradient.toarray()).all():
            return np.asarray(gradient.toarray()).ravel()
        step = SUBGRADIENT_STEP
        return np.asarray((w - self.program.prox(w, step)) / step)

    def row_arrays(self, dim: int, coefficient: float) -> dict[str, Array]:
        """The loss itself and its coefficient."""
        holder: NDArray[Any] = np.empty(1, dtype=object)
        holder[0] = self
        return {"losses": holder, "coefficient": np.array([coefficient])}

    def __repr__(self) -> str:
        return f"CvxpyLoss({self.expression})"


def _declare(build: Callable[[Any], Any], w: Any) -> tuple[Any, list[Any]]:
    """Expression and constraints of ``build`` at w."""
    built = build(w)
    expression, constraints = built if isinstance(built, tuple) else (built, [])
    return expression, list(constraints)


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
            f"build must return a function of w alone, but {expression} depends on {foreign[0]}: minimise over other "
            "variables by cvxpy.partial_optimize, and put numbers for parameters"
        )
    if not any(v.id == w.id for part in parts for v in part.variables()):
        raise ValueError(f"build must return a function of w, but {expression} does not depend on it")
