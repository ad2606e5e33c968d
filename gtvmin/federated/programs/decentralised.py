"""Algorithms of devices that talk to their neighbours only, by mixing matrices, matchings, or edges' copies."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gtvmin.display import objective_line
from gtvmin.federated.forms import federated_form
from gtvmin.federated.local_maps import setup_of, step_surrogate
from gtvmin.federated.mixed import MOST_PARAMETERS, after_mixing
from gtvmin.federated.program import Entry, Program, Row, agreed, common_dim, consensus, itself, no_program
from gtvmin.losses import Quadratic
from gtvmin.network import FLNetwork
from gtvmin.penalties import Consensus, SquaredNorm
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.dgd import DecentralisedGD
from gtvmin.solvers.federated.edge_admm import EdgeADMM
from gtvmin.solvers.federated.extra import Extra
from gtvmin.solvers.federated.gradient_tracking import GradientTracking
from gtvmin.solvers.federated.matcha import Matcha
from gtvmin.solvers.federated.mixing import Mixing, coupled_pairs
from gtvmin.solvers.federated.mocha import Mocha
from gtvmin.solvers.federated.pd_sgd import PDSGD
from gtvmin.solvers.federated.random_matchings import RandomMatchings
from gtvmin.solvers.federated.step_sizes import StepSizeWarning
from gtvmin.solvers.standard_form import Array

__all__ = ["ENTRIES", "ROWS"]

SEVERAL = "several local steps are biased, and so is a constant rate; for quadratic losses see the surrogate"
HOVERING = "a constant rate: the parameters hover about the solution, which is no consensus"
FADING = "a fading rate: the limit is exact, and reached as 1/t"
NOT_DECLARED = (
    "its program is declared for quadratic, logistic and Huber losses only, and up to "
    f"{MOST_PARAMETERS} parameters of all devices together"
)


def pulled_together(problem: GTVMin, pairs: tuple[Any, Any, Array], alpha: float, **claims: Any) -> Program:
    """GTV minimisation with other edges: tails, heads and weights."""
    nodes = problem.network.nodes
    edges = [(nodes[t], nodes[h], float(w)) for t, h, w in zip(*pairs, strict=True)]
    network = FLNetwork.from_edges(edges, nodes=nodes)
    program = GTVMin(
        network,
        dict(zip(nodes, problem.losses, strict=True)),
        penalty=SquaredNorm(),
        alpha=alpha,
        dim=common_dim(problem),
    )
    return itself(program, **claims)


def initial(algorithm: Any, problem: GTVMin) -> Any:
    """The initial state, without its warnings, which a run gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        return algorithm.init(federated_form(problem), None)


def dgd(algorithm: DecentralisedGD, problem: GTVMin) -> Program:
    """GTV minimisation with ``alpha A_ij = M_ij / (2 eta)``; adapt-then-combine couples by ``(M^-1 - I) / (2 eta)``."""
    state = initial(algorithm, problem)
    mixing, eta = state.neighbours, state.eta
    if algorithm.order == "combine-then-adapt":
        return pulled_together(problem, mixing.pairs, 0.5 / eta)
    return after_mixing(mixing, problem.losses, common_dim(problem), 1.0 / eta) or no_program(NOT_DECLARED)


def agreement(algorithm: Any, problem: GTVMin) -> Program:
    """Consensus of all devices with equal weights, over the edges of the mixing matrix."""
    form, nodes = federated_form(problem), problem.network.nodes
    drawn = isinstance(algorithm.mixing, RandomMatchings)
    tail, head = coupled_pairs(form) if drawn else Mixing.of(form, algorithm.mixing).pairs[:2]
    network = FLNetwork.from_edges([(nodes[t], nodes[h]) for t, h in zip(tail, head, strict=True)], nodes=nodes)
    losses = dict(zip(nodes, problem.losses, strict=True))
    program = GTVMin(network, losses, penalty=Consensus(), alpha=1.0, dim=common_dim(problem))
    place = partial(agreed, p=np.full(len(nodes), 1.0 / len(nodes)))
    return Program(program, place, True, formula="minimise sum_i L_i(w) over one model w of all devices")


def pd_sgd(algorithm: PDSGD, problem: GTVMin) -> Program:
    """One local step is decentralised gradient descent; more are reported on consensus."""
    setup = setup_of(algorithm, problem)
    one = (setup.steps == 1).all() and np.ptp(setup.eta) == 0 and algorithm.batch is None
    found = after_mixing(setup.mixing, problem.losses, common_dim(problem), 1.0 / setup.eta[0]) if one else None
    return found or consensus(problem, np.full(len(problem.losses), 1.0), exact=False, note=SEVERAL)


def pd_sgd_surrogate(algorithm: PDSGD, problem: GTVMin) -> Program:
    """The functions whose gradients are what the local steps do, with the coupling of an average after them."""
    setup = setup_of(algorithm, problem)
    Q, b = federated_form(problem).local.quadratic()
    steps = zip(Q, b, setup.eta.tolist(), setup.steps.tolist(), strict=True)
    losses = [step_surrogate(*device) for device in steps]
    return after_mixing(setup.mixing, losses, common_dim(problem), 1.0) or no_program(NOT_DECLARED)


def matcha(algorithm: Matcha, problem: GTVMin) -> Program:
    """In the mean, that of decentralised gradient descent with the expected matrix; with a fading rate, consensus."""
    setup = setup_of(algorithm, problem)
    drawn, edges = setup.matchings, setup.matchings.edges
    if algorithm.half_life is not None:
        return consensus(problem, np.full(len(problem.losses), 1.0), exact=False, note=FADING)
    sure = (drawn.probability == 1).all()
    if algorithm.order == "combine-then-adapt":
        weight = drawn.strength * drawn.probability[drawn.matching]
        claims = {"exact": bool(sure), "note": "" if sure else HOVERING}
        return pulled_together(problem, (edges.tail, edges.head, weight), 0.5 / setup.eta, **claims)
    mixing = Mixing.of(federated_form(problem), drawn.expected)
    mixing.require_semidefinite()
    found = after_mixing(mixing, problem.losses, common_dim(problem), 1.0 / setup.eta, exact=bool(sure), note=HOVERING)
    return found or no_program(NOT_DECLARED)


def mocha(algorithm: Mocha, problem: GTVMin) -> Program:
    """The problem itself, with the ridge in its losses."""
    ridge = Quadratic(algorithm.ridge * np.eye(common_dim(problem)))
    losses = {node: loss + ridge for node, loss in zip(problem.network.nodes, problem.losses, strict=True)}
    program = GTVMin(problem.network, losses, penalty=problem.penalty, alpha=problem.alpha, dim=problem.dim)
    formula = f"minimise {objective_line(program)}, with {0.5 * algorithm.ridge:g} ||w_i||_2^2 in every L_i"
    return replace(itself(program), formula=formula)


def edge_admm(algorithm: EdgeADMM, problem: GTVMin) -> Program:
    """The problem itself, whatever rho is."""
    return itself(problem)


ENTRIES = {
    "dgd": Entry(DecentralisedGD, dgd),
    "gradienttracking": Entry(GradientTracking, agreement),
    "extra": Entry(Extra, agreement),
    "pdsgd": Entry(PDSGD, pd_sgd, pd_sgd_surrogate),
    "matcha": Entry(Matcha, matcha),
    "edgeadmm": Entry(EdgeADMM, edge_admm),
    "mocha": Entry(Mocha, mocha, example={"ridge": 0.5}),
}
MEAN = "`argmin sum L_i`"
ROWS = (
    Row("Decentralised gradient descent", DecentralisedGD(), "GTVMin with `alpha A_ij = M_ij / (2 eta)`", "itself"),
    Row(
        "Decentralised gradient descent, adapt-then-combine",
        DecentralisedGD("lazy", order="adapt-then-combine"),
        "`argmin sum L_i + <W, (M^-1 - I) W> / (2 eta)`, convex for M >= 0",
        "one device with the parameters of all",
    ),
    Row("Gradient tracking", GradientTracking(), MEAN, "consensus", rounds=1500),
    Row(
        "Gradient tracking, adapt-then-combine",
        GradientTracking(order="adapt-then-combine"),
        MEAN,
        "consensus",
        rounds=1500,
    ),
    Row(
        "Gradient tracking over random matchings (MATCHA)",
        GradientTracking(RandomMatchings(0.5), eta=0.05),
        MEAN,
        "consensus",
        rounds=3000,
    ),
    Row("EXTRA", Extra(), MEAN, "consensus"),
    Row(
        "PD-SGD, K local steps",
        PDSGD(local_steps=5, eta=0.1),
        "biased; for quadratic losses a convex surrogate in closed form",
        "the surrogate",
        surrogate=True,
    ),
    Row(
        "MATCHA, constant rate",
        Matcha(eta=0.05),
        "for quadratic losses the mean solves GTVMin with `alpha A_e = a pi_e / (2 eta)`, with a Lyapunov covariance",
        "itself, in the mean",
    ),
    Row("ADMM over edges (network Lasso)", EdgeADMM(), "GTVMin", "itself"),
    Row(
        "MOCHA, squared coupling",
        Mocha(0.5),
        "GTVMin with a ridge",
        "itself, with `ridge/2 w^2` in every loss",
    ),
)
