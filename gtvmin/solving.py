"""Pick a solver, run it until a certificate holds, and return both."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.attainment import unattained_nodes
from gtvmin.certificates import Certificate, certify
from gtvmin.domain import Domain
from gtvmin.errors import CapabilityError, ConvergenceWarning, NotAttainedWarning, NotUniqueWarning
from gtvmin.losses.quadratic import QuadraticBlocks
from gtvmin.lowering import Lowered
from gtvmin.monitor import GapMonitor, Improve
from gtvmin.registry import make_solver, solver_names
from gtvmin.solution import Solution
from gtvmin.solvers.driver import Record, Result, Status, missing_capabilities, run
from gtvmin.solvers.standard_form import Array, Assessment, Duals, Point, StandardForm
from gtvmin.validation import nonnegative_number, positive_integer

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["choose_method", "recover_duals", "solve"]

# Convex clustering of two moons with 5,000 points takes admm 0.06 s of CPU time to 1e-6, adaptive_primal_dual 0.15 s.
LARGE = 1000
# Newton steps of problems that suit them are 16 to 155; those that need more are done by other steps in less time.
NEWTON = ("newton_multipliers", "proximal_newton")
NEWTON_ITERATIONS = 500
# Exact arithmetic takes about a second for so many parameters, duals and entries of rows, or 20 times as many products
# in the elimination of devices' matrices.
EXACT_NUMBERS, EXACT_PRODUCTS = 20_000, 20
RECOVERY_ITERATIONS = 20_000
# Flows for a given W are searched until the bound stops rising by this share of the remaining gap.
RECOVERY_STALL = 0.02


def choose_method(form: StandardForm) -> str:
    """Name of the solver that ``method="auto"`` takes.

    Quadratic losses with a quadratic penalty, or uncoupled, are one linear system.  Those of one parameter with a norm
    are solved exactly by maximum flows.  Large clusterings of neighbours in the plane go to ADMM with one factor.
    Losses of data points that are smooth, but not quadratic, take Newton steps.  Anything else goes to the adaptive
    primal-dual method.
    """
    if {"local.quadratic", "couplings.quadratic"} <= form.capabilities:
        return "linear_system"
    if {"scalar", "local.quadratic", "coupling.norm"} <= form.capabilities:
        H, b = form.quadratic.quadratic()
        if not ((H[:, 0, 0] == 0) & (b[:, 0] != 0)).any():
            return "total_variation"
    if form.n_nodes >= LARGE and _one_thin_factor(form):
        return "admm"
    smooth = {"local.gradient", "rows.second_derivative"} <= form.capabilities and bool(form.rows)
    # squared, Huber and logistic losses, 2,000 devices, to 1e-6: 0.15 s of CPU time, newton_multipliers 1.0 s,
    # adaptive_primal_dual 2.7 s; 20,000 devices: 3.9 s, the others more than 18 s
    if smooth and "coupling.norm" in form.capabilities:
        return "proximal_newton"
    if smooth and "coupling.prox_derivative" in form.capabilities:
        return "newton_multipliers"
    return "adaptive_primal_dual"


def _one_thin_factor(form: StandardForm) -> bool:
    """Squared distances at all devices and a Euclidean norm on a graph whose factors stay sparse."""
    if form.rows or not {"local.quadratic", "coupling.norm"} <= form.capabilities:
        return False
    from gtvmin.solvers.laplacian_factor import thin_pattern
    from gtvmin.solvers.quadratic_systems import isotropic_curvature

    norm = form.coupling.norm
    euclidean = norm is not None and norm[1] == 2.0
    # on a grid of 120 x 120 devices, half of them unlabelled, d 2, admm takes 3.9 s of CPU time to 1e-6,
    # adaptive_primal_dual 1.1 s
    curvature = isotropic_curvature(form)
    labelled = curvature is not None and bool((curvature > 0).all())
    return euclidean and labelled and thin_pattern(form.edges) is not None


def solve(
    problem: GTVMin,
    method: str | Any = "auto",
    *,
    gap: float = 1e-6,
    max_iter: int = 200_000,
    time_limit: float | None = None,
    start: Any = None,
    progress: Callable[..., object] | None = None,
    **settings: Any,
) -> Solution:
    """Solve a problem to a certified relative gap.

    Parameters
    ----------
    problem : GTVMin
        What to solve.
    method : str or Solver
        ``"auto"``, ``"cvxpy"``, a name of :func:`gtvmin.registry.solver_names`, or a solver object.
    gap : float
        Certified relative gap at which to stop.
    max_iter : int
        Limit on the iterations.
    time_limit : float, optional
        Limit in seconds.
    start : Solution or array_like (n_nodes, dim), optional
        Where to start.
    progress : callable, optional
        Called at each assessment with a :class:`~gtvmin.solvers.driver.Record`, and if it takes two arguments also with
        the best parameters so far (n_nodes, dim).  If it returns a true value or raises StopIteration, the run ends and
        these are the solution, with the status ``STOPPED``.
    **settings
        Settings of the solver; for ``"cvxpy"``: ``solver="CLARABEL" | "OSQP" | "SCS"`` and that solver's options.

    Returns
    -------
    Solution
        The best parameters found.  If the gap was not reached, the status says why and a
        :class:`~gtvmin.errors.ConvergenceWarning` is issued.  If nothing but the estimate of the certificate's own
        rounding is larger than the gap asked for, a rigorous certificate, which needs none, is made of small problems.

    Raises
    ------
    CapabilityError
        If the solver needs something that a loss or the penalty lacks.
    ValueError, TypeError
        For arguments out of range.

    Examples
    --------
    >>> import gtvmin as gtv
    >>> losses = [0.5 * gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0)]
    >>> problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.SquaredNorm(), alpha=0.5)
    >>> solution = gtv.solve(problem)
    >>> solution.weights.round(6).tolist(), solution.is_certified
    ([[1.0], [2.0]], True)
    """
    tolerance = nonnegative_number(gap, "gap")
    positive_integer(max_iter, "max_iter")
    if time_limit is not None:
        nonnegative_number(time_limit, "time_limit")
    began = time.perf_counter()
    undetermined = problem.undetermined()
    if undetermined:
        warnings.warn(
            f"{len(undetermined)} devices, the first is {undetermined[0]!r}, are in components whose losses leave some "
            "direction free: their parameters are not unique",
            NotUniqueWarning,
            stacklevel=3,
        )
    if method == "cvxpy":
        name, point, status, iterations, history = _reference(problem, tolerance, settings)
    else:
        name, result = _iterate(problem, method, tolerance, max_iter, time_limit, start, progress, settings)
        point, status, iterations, history = result.point, result.status, result.iterations, result.history
    certificate = certify(problem, point.W, duals=() if point.U is None else point.U)
    if time_limit is None or time.perf_counter() - began < time_limit:
        certificate = _despite_rounding(certificate, tolerance)
    _warn_if_unattained(problem, certificate.W, certificate.duals)
    if certificate.holds(tolerance):
        status = Status.CERTIFIED
    elif status is Status.CERTIFIED:
        status = Status.FINISHED
    if status is not Status.CERTIFIED:
        warnings.warn(
            f"not converged: the certified relative gap is {certificate.relative_gap:.2e} after {iterations} "
            f"iterations of {name}, the tolerance is {tolerance:.2e} ({status.value})",
            ConvergenceWarning,
            stacklevel=3,
        )
    seconds = time.perf_counter() - began
    return Solution(problem, certificate, status, name, iterations, seconds, history, undetermined)


def _despite_rounding(certificate: Certificate, tolerance: float) -> Certificate:
    """The certificate, or a rigorous one that holds where only the estimate of its rounding was in the way."""
    gap, rounding = certificate.gap, certificate.rounding
    form = certificate.problem.lowered.form
    numbers = form.n_nodes * form.dim + sum(term.map.n_rows * term.map.width for term in form.terms)
    if isinstance(form.quadratic, QuadraticBlocks):
        X, counts = form.quadratic.X, form.quadratic.counts
        numbers += X.size + int((counts > 0).sum()) * form.dim**3 // EXACT_PRODUCTS
    if certificate.holds(tolerance) or not np.isfinite(gap) or numbers > EXACT_NUMBERS:
        return certificate
    if certificate.relative_gap * (gap - rounding) > tolerance * gap:
        return certificate
    try:
        rigorous = certify(certificate.problem, certificate.W, duals=certificate.duals, rigorous=True)
    except CapabilityError:
        return certificate
    return rigorous if rigorous.holds(tolerance) else certificate


def _warn_if_unattained(problem: GTVMin, W: Array, duals: Duals) -> None:
    unattained = np.flatnonzero(unattained_nodes(problem.lowered.form, W, duals))
    if len(unattained):
        warnings.warn(
            f"the losses of {len(unattained)} devices, the first is {problem.network.nodes[unattained[0]]!r}, fall for "
            "ever as their parameters grow, as logistic losses do on data that a hyperplane separates: the infimum is "
            "not attained, and the parameters are as large as the gap asks for; add a regulariser, such as ElasticNet",
            NotAttainedWarning,
            stacklevel=4,
        )


def _iterate(
    problem: GTVMin,
    method: str | Any,
    tolerance: float,
    max_iter: int,
    time_limit: float | None,
    start: Any,
    progress: Callable[..., object] | None,
    settings: dict[str, Any],
) -> tuple[str, Result]:
    lowered = problem.lowered
    form = lowered.solver_form
    name = choose_method(form) if method == "auto" else method
    solver = make_solver(name, **settings) if isinstance(name, str) else name
    label = name if isinstance(name, str) else type(solver).__name__
    missing = missing_capabilities(solver, form)
    if missing:
        fitting = [other for other in solver_names() if not missing_capabilities(make_solver(other), form)]
        raise CapabilityError(
            f"method {label!r} needs {', '.join(missing)}, which these losses and penalty {problem.penalty!r} do not "
            f"offer: use one of {', '.join(fitting) or 'cvxpy'}"
        )
    first = None
    if start is not None:
        certificate = getattr(start, "certificate", None)
        duals = None if certificate is None else certificate.duals
        first = lowered.shrink(Point(problem.parameters_array(start), duals))
    monitor = GapMonitor(form, tolerance, _candidates(form))
    report = None if progress is None else _reporter(progress, monitor, lowered)
    fallback = method == "auto" and name in NEWTON and max_iter > NEWTON_ITERATIONS
    limit = NEWTON_ITERATIONS if fallback else max_iter
    result = run(solver, form, stop=monitor, start=first, max_iter=limit, time_limit=time_limit, progress=report)
    if fallback and result.status in (Status.ITERATION_LIMIT, Status.FINISHED, Status.DIVERGED):
        label = "adaptive_primal_dual"
        result = _continue(result, make_solver(label), form, monitor, first, max_iter, time_limit, report)
    return label, replace(result, point=lowered.expand(result.point))


def _continue(
    before: Result,
    solver: Any,
    form: StandardForm,
    monitor: GapMonitor,
    start: Point | None,
    max_iter: int,
    time_limit: float | None,
    report: Callable[[Record], object] | None,
) -> Result:
    """Another solver's run from the same start, with what is left of the limits, as the end of a run.

    It does not start from where the first one was stuck, but no point and no duals that were found are lost.
    """

    def later(record: Record) -> Record:
        return replace(record, iteration=before.iterations + record.iteration, seconds=before.seconds + record.seconds)

    result = run(
        solver,
        form,
        stop=monitor,
        start=start,
        max_iter=max_iter - before.iterations,
        time_limit=None if time_limit is None else time_limit - before.seconds,
        progress=None if report is None else lambda record: report(later(record)),
    )
    return Result(
        result.point,
        result.status,
        before.iterations + result.iterations,
        before.seconds + result.seconds,
        before.history + tuple(later(record) for record in result.history),
    )


def _reporter(progress: Callable[..., object], monitor: GapMonitor, lowered: Lowered) -> Callable[[Record], object]:
    """Give the best parameters too to a progress function that takes them."""
    try:
        signature(progress).bind(None, None)
    except (TypeError, ValueError):  # it takes one argument, or, being compiled, does not say
        return progress
    return lambda record: progress(record, lowered.expand(monitor.best).W.copy())


def _candidates(form: StandardForm) -> Improve | None:
    """What proposes better points while a solver runs, if there is something for this kind of form."""
    if form.couplings[0].function.norm is None:
        return None
    from gtvmin.solvers.cluster_candidates import ClusterCandidates

    return ClusterCandidates.of(form)


def _reference(
    problem: GTVMin, tolerance: float, settings: dict[str, Any]
) -> tuple[str, Point, Status, int, tuple[Record, ...]]:
    from gtvmin.reference import solve_reference

    result = solve_reference(problem, **settings)
    name = f"cvxpy:{settings.get('solver', 'CLARABEL')}"
    form = problem.lowered.form
    # interior points miss an optimum of zero by a little, and no gap is small against that
    zero, W = np.zeros_like(result.W), Domain(form).project(result.W)
    W = zero if form.objective(zero) < form.objective(W) else W
    return name, Point(W, result.duals), Status.FINISHED, 1, ()


def recover_duals(problem: GTVMin, W: Array) -> Duals:
    """Duals that prove parameters as good as they are, found from the parameters alone.

    Runs the primal-dual method from W and keeps the duals with the highest bound, until the bound on the
    suboptimality of W stalls.

    Parameters
    ----------
    problem : GTVMin
        The problem.
    W : array (n_nodes, dim)
        Parameters.

    Returns
    -------
    tuple of arrays
        One per term of the standard form; zeros where W has no finite objective, which no bound could be close to.
    """
    lowered = problem.lowered
    objective, form = lowered.form.objective(W), lowered.solver_form
    if not np.isfinite(objective):
        return lowered.form.zero_duals()
    monitor, start = _BoundMonitor(form, objective), lowered.shrink(Point(W))
    result = run(make_solver(choose_method(form)), form, stop=monitor, start=start, max_iter=RECOVERY_ITERATIONS)
    found = lowered.expand(result.point).U
    return lowered.form.zero_duals() if found is None else found


class _BoundMonitor:
    """Stops when doubling the work no longer shrinks the gap between a given objective and the bound."""

    def __init__(self, form: StandardForm, primal: float) -> None:
        self.inner = GapMonitor(form, 0.0)
        self.primal = primal
        self.last_gap, self.next_look = np.inf, 100

    def __call__(self, point: Point, iteration: int) -> Assessment:
        assessment = self.inner(point, iteration)
        if iteration < self.next_look:
            return assessment
        gap = self.primal - self.inner.dual
        stalled = gap <= 0 or self.last_gap - gap <= RECOVERY_STALL * gap
        self.last_gap, self.next_look = gap, 2 * iteration
        return replace(assessment, converged=stalled)
