"""Algorithms of a server whose devices keep a state that takes out the drift of local steps: exact consensus."""

from __future__ import annotations

from typing import Any

from gtvmin.federated.forms import federated_form
from gtvmin.federated.program import Entry, Program, Row, consensus, no_program
from gtvmin.losses import L1, Loss, Zero
from gtvmin.problem import GTVMin
from gtvmin.solvers.federated.fed_dc import FedDC
from gtvmin.solvers.federated.fed_dr import FedDR
from gtvmin.solvers.federated.fed_dyn import FedDyn
from gtvmin.solvers.federated.fed_split import FedSplit
from gtvmin.solvers.federated.form import aggregation_weights
from gtvmin.solvers.federated.prox_skip import ProxSkip
from gtvmin.solvers.federated.scaffold import Scaffold

__all__ = ["ENTRIES", "ROWS"]

NOISE = "random data points: the models hover about the limit"
LIMIT = "`argmin sum p_i L_i`"


def controlled(algorithm: Any, problem: GTVMin) -> Program:
    """Consensus with the weights of the controls, whatever the number of local steps and whoever takes part."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    noisy = getattr(algorithm, "batch", None) is not None
    return consensus(problem, p, exact=not noisy, note=NOISE if noisy else "")


def fed_dr(algorithm: FedDR, problem: GTVMin) -> Program:
    """Consensus, with the regulariser shared out among the devices."""
    r = algorithm.regulariser
    if r is None:
        return controlled(algorithm, problem)
    if not isinstance(r, Loss):
        return no_program("the regulariser is not declared as a loss")
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    losses = [float(share) * (loss + r) if share > 0 else Zero() for loss, share in zip(problem.losses, p, strict=True)]
    formula = "minimise r(w) + sum_i p_i L_i(w) over one model w of all devices"
    return consensus(problem, p, losses=losses, formula=formula)


def fed_dc(algorithm: FedDC, problem: GTVMin) -> Program:
    """Consensus, if the drifts do not run away."""
    p = aggregation_weights(federated_form(problem), algorithm.weights)
    return consensus(problem, p, note="if the drifts settle, inside the stability region")


ENTRIES = {
    "scaffold": Entry(Scaffold, controlled, example={"weights": "uniform"}),
    "feddyn": Entry(FedDyn, controlled, example={"weights": "uniform"}),
    "feddr": Entry(FedDR, fed_dr, example={"weights": "uniform"}),
    "fedsplit": Entry(FedSplit, controlled, example={"weights": "uniform"}),
    "feddc": Entry(FedDC, fed_dc, example={"weights": "uniform", "alpha": 1.0}),
    "proxskip": Entry(ProxSkip, controlled, example={"weights": "uniform"}),
}
ROWS = (
    Row("SCAFFOLD, option I", Scaffold("uniform", local_steps=5, option="I"), LIMIT, "consensus"),
    Row("SCAFFOLD, option II", Scaffold("uniform", local_steps=5), LIMIT, "consensus"),
    Row("FedDyn", FedDyn("uniform"), LIMIT, "consensus"),
    Row("FedDyn, one gradient step", FedDyn("uniform", local_steps=1), LIMIT, "consensus"),
    Row("FedDR", FedDR("uniform", relaxation=1.5), LIMIT, "consensus", rounds=500),
    Row(
        "FedDR with a regulariser r",
        FedDR("uniform", relaxation=1.5, regulariser=0.3 * L1()),
        "`argmin r + sum p_i L_i`",
        "consensus, with r",
        rounds=500,
    ),
    Row("FedSplit", FedSplit("uniform"), LIMIT, "consensus", rounds=300),
    Row("FedDC, inside its stability region", FedDC("uniform", alpha=1.0), LIMIT, "consensus", rounds=300),
    Row("FedDC, the authors' code", FedDC("uniform", alpha=1.0, variant="official"), LIMIT, "consensus", rounds=300),
    Row("ProxSkip", ProxSkip("uniform"), LIMIT, "consensus", rounds=300),
)
