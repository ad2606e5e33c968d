"""Peers by way of CVXPY, each run at a ladder of its own tolerances; and ortools' PDLP on the quadratic program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

import gtvmin as gtv
from benchmarks.answers import Answer, Array, DoesNotFit, Measure, Proof, now
from gtvmin.errors import CapabilityError
from gtvmin.reference import solve_reference

__all__ = ["LADDER", "OPTIONS", "conic", "pdlp"]

LADDER = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)

# The options that ask for a tolerance, and bound the time where the solver can.
OPTIONS: dict[str, Callable[[float, float], dict[str, Any]]] = {
    "CLARABEL": lambda eps, limit: {"tol_gap_abs": eps, "tol_gap_rel": eps, "tol_feas": eps, "time_limit": limit},
    "SCS": lambda eps, limit: {"eps_abs": eps, "eps_rel": eps, "max_iters": 10**7, "time_limit_secs": limit},
    "OSQP": lambda eps, limit: {"eps_abs": eps, "eps_rel": eps, "max_iter": 10**7, "time_limit": limit},
    "QOCO": lambda eps, limit: {"abstol": eps, "reltol": eps},
    "PIQP": lambda eps, limit: {
        **dict.fromkeys(("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"), eps)
    },
    "ECOS": lambda eps, limit: {"abstol": eps, "reltol": eps, "feastol": eps},
}


def conic(solver: str) -> Measure:
    """One of CVXPY's solvers; the time to compile the model is its setup."""

    def measure(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
        if lams is not None:
            raise DoesNotFit("a conic solver starts every strength of a path anew")
        failure: Exception | None = None
        answered = False
        for tolerance in LADDER:
            began = now()
            try:
                found = solve_reference(problem, solver, **OPTIONS[solver](tolerance, limit))
            except CapabilityError as error:
                raise DoesNotFit(f"CVXPY cannot give the problem to {solver}") from error
            except (RuntimeError, ValueError, ArithmeticError) as error:
                failure = error
                continue
            answered = True
            # both parts are told by the wall's clock; on another one they have the same shares
            share = (now() - began) / (found.compile_seconds + found.solve_seconds)
            seconds, setup = min(share, 1.0) * found.solve_seconds, min(share, 1.0) * found.compile_seconds
            yield Answer(seconds, setup, (Proof(problem, found.W, found.duals),))
            if found.solve_seconds > limit:
                return
        if failure is not None and not answered:
            raise failure

    return measure


def pdlp(problem: gtv.GTVMin, lams: Array | None, gaps: tuple[float, ...], limit: float) -> Iterator[Answer]:
    """PDLP by ortools, on the quadratic program that CVXPY makes for OSQP, if its quadratic part is diagonal."""
    import cvxpy as cp

    if lams is not None:
        raise DoesNotFit("PDLP starts every strength of a path anew")
    began = now()
    model = problem.to_cvxpy()
    try:
        data, chain, inverse = model.get_problem_data("OSQP")
    except cp.SolverError as error:
        raise DoesNotFit("the problem is no quadratic program") from error
    P = sparse.csc_matrix(data["P"])
    if (P - sparse.diags(P.diagonal())).count_nonzero():
        raise DoesNotFit("PDLP takes diagonal quadratic parts only")
    setup = now() - began
    for tolerance in LADDER:
        began = now()
        x, y, value = run_pdlp(data, P, tolerance, limit)
        seconds = now() - began
        info = SimpleNamespace(status_val=1, obj_val=value, run_time=seconds, iter=0)
        model.unpack_results(SimpleNamespace(x=x, y=y, info=info), chain, inverse)
        W, U = model.var_dict["W"].value, -model.constraints[0].dual_value
        yield Answer(seconds, setup, (Proof(problem, W, (U,)),))
        if seconds > limit:
            return


def run_pdlp(data: dict[str, Any], P: Any, tolerance: float, limit: float) -> tuple[Array, Array, float]:
    """Solution and multipliers in the signs of OSQP, ``P x + q + A' y = 0``."""
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp as library

    A = sparse.vstack([data["A"], data["F"]]).tocsc()
    program = library.QuadraticProgram()
    program.resize_and_initialize(A.shape[1], A.shape[0])
    program.objective_vector = data["q"]
    program.set_objective_matrix_diagonal(P.diagonal())
    program.constraint_matrix = A
    program.constraint_lower_bounds = np.concatenate([data["b"], np.full(len(data["G"]), -np.inf)])
    program.constraint_upper_bounds = np.concatenate([data["b"], data["G"]])
    program.variable_lower_bounds = np.full(A.shape[1], -np.inf)
    program.variable_upper_bounds = np.full(A.shape[1], np.inf)
    parameters = solvers_pb2.PrimalDualHybridGradientParams()
    criteria = parameters.termination_criteria
    criteria.simple_optimality_criteria.eps_optimal_absolute = tolerance
    criteria.simple_optimality_criteria.eps_optimal_relative = tolerance
    criteria.time_sec_limit = limit
    result = library.primal_dual_hybrid_gradient(program, parameters)
    x = np.asarray(result.primal_solution)
    value = float(data["q"] @ x + 0.5 * x @ (P @ x))
    return x, -np.asarray(result.dual_solution), value
