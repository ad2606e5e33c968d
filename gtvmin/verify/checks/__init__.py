"""The checks that a solver is put through.

Each is a function ``check(solver, instance)``; its docstring names the fault that it catches.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from gtvmin.verify.checks.accuracy import (
    check_answer,
    check_certified_gap,
    check_claim,
    check_flows,
    check_precision,
    check_reported_objective,
)
from gtvmin.verify.checks.conduct import (
    check_deterministic,
    check_divergence,
    check_input_untouched,
    check_iteration_budget,
    check_warm_start,
)
from gtvmin.verify.checks.outcome import Check, CheckFailedError, CheckSkipped, Finding
from gtvmin.verify.checks.symmetry import (
    check_duplicate_rows,
    check_edge_reversal,
    check_edgeless,
    check_node_order,
    check_relabelling,
    check_scaling,
    check_split_edge,
    check_two_copies,
)

__all__ = ["CHECKS", "Check", "CheckFailedError", "CheckSkipped", "Finding"]

CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            check_answer,
            check_certified_gap,
            check_flows,
            check_claim,
            check_reported_objective,
            check_precision,
            check_input_untouched,
            check_deterministic,
            check_warm_start,
            check_iteration_budget,
            check_divergence,
            check_relabelling,
            check_node_order,
            check_edge_reversal,
            check_scaling,
            check_split_edge,
            check_duplicate_rows,
            check_two_copies,
            check_edgeless,
        )
    }
)
"""All checks by name, in the order in which they run."""
