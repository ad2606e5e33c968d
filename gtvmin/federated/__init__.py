"""Federated algorithms with the convex programs that their limits solve."""

from __future__ import annotations

from gtvmin.federated.catalogue import algorithm_names, make_algorithm, program_of, surrogate_of
from gtvmin.federated.forms import federated_form
from gtvmin.federated.running import federate
from gtvmin.federated.solution import FederatedSolution

__all__ = [
    "FederatedSolution",
    "algorithm_names",
    "federate",
    "federated_form",
    "make_algorithm",
    "program_of",
    "surrogate_of",
]
