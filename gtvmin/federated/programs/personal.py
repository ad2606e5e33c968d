"""Algorithms that end with a model of its own for every device."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from gtvmin.errors import ConvergenceWarning
from gtvmin.federated.forms import federated_form
from gtvmin.federated.local_maps import setup_of, step_surrogate
from gtvmin.federated.program import Entry, Program, Row, agreed, common_dim, consensus, own_models, star
from gtvmin.federated.programs.averaging import RANDOM, SEVERAL, SURROGATE, fed_avg, one_step
from gtvmin.federated.programs.averaging import surrogate as averaging_surrogate
from gtvmin.losses import SquaredDistance
from gtvmin.network import FLNetwork
from gtvmin.penalties import SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.apfl import APFL
from gtvmin.solvers.federated.ditto import Ditto
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.l2gd import L2GD
from gtvmin.solvers.federated.p_fed_me import PFedMe
from gtvmin.solvers.federated.participation import All
from gtvmin.solvers.standard_form import Array, Point

__all__ = ["ENTRIES", "ROWS"]

ACCURACY = 1e-13


def alone(
    problem: GTVMin, *, near: Array | None = None, lam: float = 0.0, exact: bool = True, note: str = ""
) -> Program:
    """``min L_i(v_i) + (lam/2) ||v_i - near||^2`` for every device by itself."""
    nodes = problem.network.nodes
    losses = list(problem.losses)
    if near is not None:
        losses = [loss + 0.5 * lam * SquaredDistance(near) for loss in losses]
    network = FLNetwork.from_edges([], nodes=nodes)
    program = GTVMin(
        network, dict(zip(nodes, losses, strict=True)), penalty=SquaredNorm(), alpha=0.0, dim=common_dim(problem)
    )
    pull = "" if near is None else f" + {0.5 * lam:g} ||v - w||_2^2"
    where = "" if near is None else ", with w the limit of the global model"
    return Program(program, own_models, exact, note, f"minimise L_i(v){pull} for each device i by itself{where}")


def limit_of(program: Program) -> Array:
    """The model that a consensus program asks for."""
    if program.problem is None:
        raise ValueError(program.note)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(program.problem.solve(gap=ACCURACY).weights[0])


def ditto(algorithm: Ditto, problem: GTVMin) -> Program:
    """Proximal maps at the limit of the global model, known for one local step and for quadratic losses."""
    program = fed_avg(algorithm.averaging, problem)
    several = one_step(setup_of(algorithm, problem)) is None
    quadratic = "quadratic" in problem.lowered.form.local.capabilities
    if several and quadratic and isinstance(algorithm.participation, All):
        program = averaging_surrogate(algorithm.averaging, problem)
    exact, note = program.exact, program.note
    if program.problem is not None and program.problem.undetermined():
        exact, note = False, "the global model has many limits, of which this is near to one"
    return alone(problem, near=limit_of(program), lam=algorithm.lam, exact=exact, note=note)


def p_fed_me(algorithm: PFedMe, problem: GTVMin) -> Program:
    """The star, for one local round; more are reported on it."""
    q = one_step(setup_of(algorithm, problem))
    if q is None:
        p = aggregation_weights(federated_form(problem), algorithm.weights)
        return star(problem, p, algorithm.lam, personal=True, exact=False, note=SEVERAL)
    random = not isinstance(algorithm.participation, All)
    return star(problem, q, algorithm.lam, personal=True, exact=not random, note=RANDOM if random else "")


def p_fed_me_surrogate(algorithm: PFedMe, problem: GTVMin) -> Program:
    """FedAvg's surrogate of the envelopes; the server's model follows from each personal one and its gradient."""
    setup, lam, local = setup_of(algorithm, problem), algorithm.lam, problem.lowered.form.local
    Q, b = local.quadratic()
    losses = []
    for i, share in enumerate(setup.p):
        shrink = lam * np.linalg.inv(Q[i] + lam * np.eye(problem.dim))
        envelope = shrink @ Q[i]
        losses.append(
            share * step_surrogate(0.5 * (envelope + envelope.T), shrink @ b[i], setup.eta[i], int(setup.steps[i]))
        )
    program = consensus(problem, setup.p, losses=losses, formula=SURROGATE)
    return replace(program, place=partial(_sent_models, problem=problem, p=setup.p, lam=lam))


def _sent_models(point: Point, *, problem: GTVMin, p: Array, lam: float) -> Array:
    """The server's model at every device, from the personal ones, which are proximal maps of it."""
    sent = point.W + problem.lowered.form.local.gradient(point.W) / lam
    return agreed(Point(sent), p=p)


def apfl(algorithm: APFL, problem: GTVMin) -> Program:
    """Each device's own minimiser, for weights in (0, 1] and one step; FedAvg's program if all of them stay zero."""
    mixture = np.asarray(algorithm.mixture, dtype=float)
    if algorithm.eta_mixture is not None:
        return alone(problem, exact=False, note="adaptive weights: exact unless a weight ends at zero")
    if not mixture.any():
        return fed_avg(algorithm.averaging, problem)
    if not mixture.all():
        return alone(problem, exact=False, note="a device whose mixture weight is zero follows the global model")
    if one_step(setup_of(algorithm, problem)) is None:
        return alone(problem, exact=False, note="the global part drifts during several local steps, and is set back")
    random = not isinstance(algorithm.participation, All)
    return alone(problem, exact=not random, note=RANDOM if random else "")


def l2gd(algorithm: L2GD, problem: GTVMin) -> Program:
    """The star, in the mean over the coins."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    note = "a constant rate: the models hover about the solution"
    return star(problem, p, algorithm.lam, personal=True, exact=False, note=note)


ENTRIES = {
    "apfl": Entry(APFL, apfl, example={"weights": "uniform"}),
    "ditto": Entry(Ditto, ditto, example={"weights": "uniform", "lam": 1.0}),
    "l2gd": Entry(L2GD, l2gd, example={"weights": "uniform", "lam": 1.0}),
    "pfedme": Entry(PFedMe, p_fed_me, p_fed_me_surrogate, {"weights": "uniform", "lam": 1.0}),
}
STAR = "star with a Zero centre, `alpha A_i = p_i lam / 2`"
ROWS = (
    Row(
        "Ditto",
        Ditto("uniform", 1.0),
        "`prox` of each loss at FedAvg's limit",
        "devices alone, `L_i + lam/2 (v - w)^2`",
    ),
    Row("pFedMe, one local round", PFedMe("uniform", 1.0), "`argmin_w sum p_i min_v L_i(v) + lam/2 (v - w)^2`", STAR),
    Row(
        "pFedMe, R local rounds",
        PFedMe("uniform", 1.0, local_rounds=5),
        "biased; for quadratic losses a convex surrogate in closed form",
        "the surrogate",
        surrogate=True,
    ),
    Row(
        "APFL, fixed mixture, one local step",
        APFL("uniform", 0.75),
        "each device's own minimiser, whatever the mixture",
        "devices alone",
        rounds=5000,
    ),
    Row(
        "L2GD, constant rate",
        L2GD("uniform", 1.0),
        "for quadratic losses the mean solves pFedMe's program, with a Lyapunov covariance",
        f"{STAR}, in the mean",
    ),
)
