"""The planted federated algorithms and the checks that must catch each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from planted_federated import Adapting, Averaging, Controlled, Drifting, Dynamic, Envelopes, Mixing, Proximal
from planted_network import (
    Tracking,
    dropped_alpha,
    lost_factor,
    names_for_numbers,
    positions_for_names,
    right_descent,
    without_the_square,
)


@dataclass(frozen=True)
class Fault:
    """A wrong algorithm.

    Attributes
    ----------
    name : str
        In words.
    algorithm : object
        As the checks take it.
    checks : tuple of str
        All that must catch it.
    declares : tuple of str
        Of ``equals`` and ``invariants`` what it declares.
    solves : str, optional
        Its claim, if not that of its class.
    instance : str
        Where it is caught.
    """

    name: str
    algorithm: Any
    checks: tuple[str, ...]
    declares: tuple[str, ...] = ("equals", "invariants")
    solves: str | None = None
    instance: str = "federated_squares"


RIGHT = (
    Averaging(),
    Controlled(),
    Proximal(),
    Dynamic(),
    Drifting(),
    Mixing(),
    Adapting(),
    Envelopes(),
    Tracking(),
    right_descent,
)
DIVERGES, LIMIT, ROUNDS, KEPT = "check_states", "check_limit", "check_rounds", "check_invariants"
FAULTS = (
    Fault("SCAFFOLD's correction with the wrong sign", Controlled(wrong="sign"), (DIVERGES, ROUNDS)),
    Fault(
        "SCAFFOLD's server adds the controls, not their changes",
        Controlled(wrong="adds controls"),
        (DIVERGES, ROUNDS, KEPT),
    ),
    Fault("SCAFFOLD's server never updates its control", Controlled(wrong="frozen"), (LIMIT, ROUNDS, KEPT)),
    Fault("SCAFFOLD with 1 / epochs for 1 / (eta K)", Controlled(wrong="epochs"), (ROUNDS,)),
    Fault("SCAFFOLD with a stale control of the server", Controlled(wrong="late"), (ROUNDS, KEPT)),
    Fault(
        "SCAFFOLD with a stale control, not declared to be SCAFFOLD", Controlled(wrong="late"), (KEPT,), ("invariants",)
    ),
    Fault(
        "SCAFFOLD whose controls start as gradients, its server's at zero",
        Controlled(wrong="warm controls"),
        ("check_start",),
        (),
    ),
    Fault("FedProx without the square", without_the_square, (LIMIT,)),
    Fault("FedProx with mu for mu / 2", Proximal(wrong="mu"), (LIMIT, ROUNDS)),
    Fault("FedDyn's state without its old value", Dynamic(wrong="lost term"), (LIMIT, ROUNDS, KEPT)),
    Fault("FedDC's correction with the wrong sign", Drifting(wrong="sign"), (ROUNDS,)),
    Fault("FedDC with one local step: its drifts run away", Drifting(wrong="one step"), (DIVERGES,)),
    Fault("APFL's own part never updated", Mixing(wrong="own part"), (LIMIT, ROUNDS)),
    Fault("APFL's mixture weights never updated", Adapting(wrong="mixture"), (ROUNDS,)),
    Fault("pFedMe returns the global model", Envelopes(wrong="global model"), (LIMIT, ROUNDS)),
    Fault("pFedMe with a hidden weight decay of 1e-3", Envelopes(wrong="weight decay"), (LIMIT, ROUNDS)),
    Fault("gradient tracking started at zero", Tracking("zero"), (LIMIT, ROUNDS, KEPT)),
    Fault("FedAvg with uniform weights, samples claimed", Averaging(wrong="uniform"), (LIMIT, ROUNDS)),
    Fault("FedAvg with five local steps, one claimed", Averaging(wrong="five steps"), (LIMIT, ROUNDS)),
    Fault("FedAvg with five local steps, not declared to be FedAvg", Averaging(wrong="five steps"), (LIMIT,), ()),
    Fault("FedAvg's mean over empty devices", Averaging("uniform", "empty devices"), ("check_empty_device",)),
    Fault("weights of another word than uniform are ignored", Averaging("uniform", "unknown word"), ("check_weights",)),
    Fault("a weight of zero taken for none given", Averaging(wrong="or one"), ("check_zero_weight",)),
    Fault(
        "the first device taken for the largest",
        Averaging(wrong="first and others"),
        ("check_device_order",),
        instance="federated_unequal",
    ),
    Fault("FedGD without the factor 2", lost_factor, (LIMIT,)),
    Fault("FedGD without alpha", dropped_alpha, (LIMIT,)),
    Fault("names taken for numbers", names_for_numbers, ("check_device_names",)),
    Fault("models under sorted names", positions_for_names, ("check_device_names", "check_device_order")),
    Fault("one column too many", Averaging(wrong="shape"), ("check_models",)),
    Fault("accounts of all rounds so far", Averaging(wrong="cumulative"), ("check_traffic",)),
    Fault("random numbers without a seed", Averaging(wrong="no seed"), ("check_repeatable",), (), solves="none"),
    Fault(
        "one generator that all devices draw from in turn",
        Averaging(wrong="one generator"),
        ("check_streams",),
        (),
        solves="none",
    ),
)
