"""Reference solutions: the problem and, written independently of it, the dual as CVXPY problems."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.errors import CapabilityError
from gtvmin.solvers.linear_maps import EdgeDifference, LinearMap
from gtvmin.solvers.standard_form import Array, Duals, Point, StandardForm

if TYPE_CHECKING:
    import cvxpy as cp

    from gtvmin.problem import GTVMin

__all__ = ["ReferenceModel", "ReferenceResult", "solve_reference", "to_cvxpy", "to_cvxpy_dual"]

# Clarabel's steps are cheap once it converges, so it goes on until it stalls, as it does with second-order cones at a
# relative gap of 1e-11 or less; it then calls its answer inaccurate.  First-order methods pay for every digit.
TOLERANCES: dict[str, dict[str, float]] = {
    "CLARABEL": {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-9},
    "OSQP": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 200_000},
    "SCS": {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 200_000},
}


@dataclass(frozen=True, eq=False)
class ReferenceResult:
    """What a CVXPY solver returned; nothing in it is certified.

    Attributes
    ----------
    W : array (n_nodes, dim)
        Parameters.
    U : array (n_edges, dim)
        Flows from tail to head on the declared edges; zero where alpha is zero.
    duals : tuple of arrays
        All dual variables, one array per term of the standard form.
    status : str
        CVXPY's status: ``"optimal"``, ``"optimal_inaccurate"`` if the solver stalled before it met its tolerances, or
        ``"user_limit"`` if it ran out of iterations.
    value : float
        The objective that the solver reports.
    compile_seconds, solve_seconds : float
        Time to bring the problem into the solver's form, and time in the solver.
    """

    W: Array
    U: Array
    duals: Duals
    status: str
    value: float
    compile_seconds: float
    solve_seconds: float


def to_cvxpy(problem: GTVMin) -> cp.Problem:
    """GTV minimisation as a CVXPY problem, to solve or to extend.

    Parameters
    ----------
    problem : GTVMin
        The declared problem.

    Returns
    -------
    cvxpy.Problem
        ``minimise sum_i L_i(w_i) + alpha sum_e A_e phi(z_e)`` over the variables ``W`` (n_nodes, dim), rows in node
        order, and ``Z`` (n_edges, dim), which the first constraint ties to ``D W``. With alpha = 0, or without edges,
        Z and this constraint are left out.

    Notes
    -----
    CVXPY's Lagrangian adds ``<y, Z - D W>``: the constraint's ``dual_value`` y is minus the flow matrix U of this
    package, whose optimality conditions are ``-(D^T U)_i`` in the subdifferential of ``L_i`` at ``w_i`` and ``U_e`` in
    that of ``alpha A_e phi`` at ``z_e``. The data go in as they are; :func:`solve_reference` scales them first.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.reference import to_cvxpy
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> model = to_cvxpy(problem)
    >>> round(float(model.solve(solver="CLARABEL")), 4)
    2.0
    >>> model.var_dict["W"].value.round(4).tolist()
    [[1.0], [2.0]]
    >>> (-model.constraints[0].dual_value).round(4).tolist()
    [[1.0]]
    """
    return _primal(problem.lowered.form, unit=1.0, factor=1.0)


def to_cvxpy_dual(problem: GTVMin) -> cp.Problem:
    """The dual of GTV minimisation as a CVXPY problem.

    Parameters
    ----------
    problem : GTVMin
        The declared problem.

    Returns
    -------
    cvxpy.Problem
        ``maximise -sum_i L_i^*(-(D^T U)_i) - sum_e alpha A_e phi^*(U_e / (alpha A_e))`` over the flows ``U``
        (n_edges, dim) from tail to head, and over whatever variables the conjugates are written with (a dual value
        for each data row). With alpha = 0, or without edges, U is zero and left out.

    Notes
    -----
    Fenchel duality: R. T. Rockafellar, "Convex Analysis" (1970), section 31. The optimal value is that of
    :func:`to_cvxpy`; no part of the two models is shared but the incidence matrix.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.reference import to_cvxpy_dual
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> round(float(to_cvxpy_dual(problem).solve(solver="CLARABEL")), 4)
    2.0
    """
    import cvxpy as cp

    form = problem.lowered.form
    net: Any = 0
    value: Any = 0
    conditions: list[Any] = []
    for k, term in enumerate(form.terms):
        if not term.map.n_rows:
            continue
        U = cp.Variable((term.map.n_rows, term.map.width), name=_name("U", k))
        conjugate, domain = term.function.conjugate_to_cvxpy(U)
        value += conjugate
        conditions += domain
        net += _transposed(term.map, U)
    zero = cp.Constant(np.zeros((form.n_nodes, form.dim)))
    of_devices, device_conditions = form.quadratic.conjugate_to_cvxpy(zero - net)
    return cp.Problem(cp.Maximize(-of_devices - value), device_conditions + conditions)


class ReferenceModel:
    """CVXPY model of a problem in which alpha is a parameter: compiled once, it is solved for many alphas.

    Parameters
    ----------
    problem : GTVMin
        The problem; its own alpha does not matter.

    Notes
    -----
    Disciplined parametrized programming: A. Agrawal, B. Amos, S. Barratt, S. Boyd, S. Diamond, J. Z. Kolter,
    "Differentiable Convex Optimization Layers" (2019), arXiv 1910.12430, Section 4.1.
    """

    def __init__(self, problem: GTVMin) -> None:
        import cvxpy as cp

        lowered = problem.with_alpha(1.0).lowered
        form = lowered.solver_form
        self.alpha = cp.Parameter(nonneg=True, name="alpha")
        # further families of edges have strengths of their own
        scaled = {k for k, edges in enumerate(lowered.edges) if (edges < problem.network.n_edges).all()}
        self.model = _primal(form, *_normalisation(form), self.alpha, frozenset(scaled))
        self.is_general = lowered.contraction is None and self.model.is_dpp()

    def at(self, alpha: float) -> cp.Problem | None:
        """The model with this alpha; None if it is another problem there."""
        if not self.is_general or not 0.0 < alpha < np.inf:
            return None
        self.alpha.value = alpha
        return self.model


def solve_reference(
    problem: GTVMin, solver: str = "CLARABEL", *, model: ReferenceModel | None = None, **options: Any
) -> ReferenceResult:
    """Solve a problem by one of CVXPY's solvers to high accuracy.

    Parameters
    ----------
    problem : GTVMin
        The declared problem.
    solver : str
        Name of an installed CVXPY solver: Clarabel, an interior-point method, is the most accurate and takes every
        problem; SCS takes every problem; OSQP takes all but the 2-norm of several parameters.
    model : ReferenceModel, optional
        Of the same problem with any alpha, to save compiling it again.
    **options
        The solver's own options, over the tight tolerances that Clarabel, OSQP and SCS get by default.

    Returns
    -------
    ReferenceResult
        Parameters and flows, not certified: give them to :func:`gtvmin.certify`.

    Raises
    ------
    ValueError
        If no solver of that name is installed.
    CapabilityError
        If the solver cannot express the problem; the message lists those that can.
    RuntimeError
        If the solver fails, or finds the problem infeasible or unbounded.

    Notes
    -----
    Tolerances of solvers are absolute at heart, so parameters and objective are measured in units of the problem
    first: the mean loss of the zero model, and the size of parameters at which a loss grows by as much. The units are
    powers of two, so that scaling rounds nothing.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> from gtvmin.reference import solve_reference
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1.0)
    >>> result = solve_reference(problem)
    >>> result.W.round(6).tolist(), result.U.round(6).tolist()
    ([[1.0], [2.0]], [[1.0]])
    """
    import cvxpy as cp

    name = solver.upper()
    if name not in cp.installed_solvers():
        raise ValueError(f"solver {solver!r} is not installed; CVXPY finds {', '.join(cp.installed_solvers())}")
    settings = {**TOLERANCES.get(name, {}), **options}
    verbose = bool(settings.pop("verbose", False))
    lowered = problem.lowered
    form = lowered.solver_form
    unit, factor = _normalisation(form)
    program = None if model is None else model.at(problem.alpha)
    if program is None:
        program = _primal(form, unit, factor)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of inaccurate answers, above all: the status and a certificate tell more
        start = time.perf_counter()
        try:
            data, chain, inverse = program.get_problem_data(name, solver_opts=dict(settings))
        except cp.SolverError as error:
            fitting = ", ".join(_fitting(program))
            raise CapabilityError(
                f"{name} cannot express this problem; installed solvers that can: {fitting}"
            ) from error
        compiled = time.perf_counter()
        try:
            try:
                raw = chain.solve_via_data(program, data, warm_start=False, verbose=verbose, solver_opts=settings)
                program.unpack_results(raw, chain, inverse)
            except cp.SolverError:
                if options:
                    raise
                # now and then a solver breaks down in pursuit of the last digits: its own tolerances are a fair answer
                raw = chain.solve_via_data(program, data, warm_start=False, verbose=verbose, solver_opts={})
                program.unpack_results(raw, chain, inverse)
            solved = time.perf_counter()
        except cp.SolverError as error:
            raise RuntimeError(f"{name} failed: {error}") from error
    W = program.var_dict["W"].value
    if W is None:
        raise RuntimeError(f"{name} returned no parameters: status {program.status!r}")
    multipliers = iter(program.constraints)
    duals = tuple(
        -np.asarray(next(multipliers).dual_value) / (unit * factor) if term.map.n_rows else zero
        for term, zero in zip(form.terms, form.zero_duals(), strict=True)
    )
    point = lowered.expand(Point(np.asarray(unit * W), duals))
    return ReferenceResult(
        W=point.W,
        U=lowered.raise_flows(point.U or ()),
        duals=point.U or (),
        status=str(program.status),
        value=float(program.value) / factor,
        compile_seconds=compiled - start,
        solve_seconds=solved - compiled,
    )


def _primal(
    form: StandardForm, unit: float, factor: float, strength: Any = 1.0, scaled: frozenset[int] = frozenset()
) -> cp.Problem:
    """The primal over ``W / unit``, times ``factor``: its duals are those of the problem times ``unit * factor``.

    Terms whose numbers are in ``scaled`` are multiplied by ``strength``.
    """
    import cvxpy as cp

    W = cp.Variable((form.n_nodes, form.dim), name="W")
    objective = form.quadratic.to_cvxpy(W, unit, factor)
    ties = []
    for k, term in enumerate(form.terms):
        if not term.map.n_rows:
            continue
        Z = cp.Variable((term.map.n_rows, term.map.width), name=_name("Z", k))
        value = term.function.to_cvxpy(Z, unit, factor)
        objective += strength * value if k in scaled else value
        # the order of the two sides decides the sign of the duals, and linters swap the sides of Z == K W
        ties.append(Z - _applied(term.map, W) == 0)
    return cp.Problem(cp.Minimize(objective), ties)


def _name(letter: str, k: int) -> str:
    """The variable of the first term has the letter alone."""
    return letter if k == 0 else f"{letter}{k}"


def _applied(map: LinearMap, W: Any) -> Any:
    """``K W`` for a CVXPY expression."""
    import cvxpy as cp

    if isinstance(map, EdgeDifference):
        return map.incidence @ W
    return cp.reshape(map.matrix() @ cp.vec(W, order="C"), (map.n_rows, map.width), order="C")


def _transposed(map: LinearMap, U: Any) -> Any:
    """``K^T U`` for a CVXPY expression."""
    import cvxpy as cp

    if isinstance(map, EdgeDifference):
        return map.incidence.T @ U
    return cp.reshape(map.matrix().T @ cp.vec(U, order="C"), (map.n_nodes, map.dim), order="C")


def _normalisation(form: StandardForm) -> tuple[float, float]:
    """Unit of the parameters and factor of the objective: powers of two that bring both near one."""
    zero_model = form.quadratic.value(np.zeros((form.n_nodes, form.dim)))
    smoothness = form.quadratic.smoothness
    used = np.isfinite(zero_model) & np.isfinite(smoothness) & (zero_model > 0) & (smoothness > 0)
    if not used.any():
        return 1.0, 1.0
    value = zero_model[used].mean()
    unit = np.sqrt(2.0 * value / smoothness[used].mean())
    return float(2.0 ** np.round(np.log2(unit))), float(2.0 ** -np.round(np.log2(value)))


def _fitting(model: cp.Problem) -> list[str]:
    """Names of the installed solvers that can express a model."""
    import cvxpy as cp

    fits = []
    for name in cp.installed_solvers():
        try:
            model.get_problem_data(name)
        except cp.SolverError:
            continue
        fits.append(name)
    return fits
