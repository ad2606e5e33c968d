"""Known failures of the package's own methods, row by row and with their reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["KNOWN_FAILURES"]

FIXED_STEPS = (
    "its steps are those of the paper, fixed for losses of curvature one: in other units it takes far too long"
)

KNOWN_FAILURES: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "primal_dual": {
            f"check_scaling[{instance}]": FIXED_STEPS
            for instance in (
                "lasso_weighted_grid",
                "lasso_star",
                "lasso_rank_deficient",
                "lasso_duplicate_rows",
                "lasso_disconnected",
                "lasso_l1",
                "clustering_blobs",
                "clustering_large_units",
                "logistic_barbell",
                "robust_outliers",
                "robust_edges",
            )
        }
    }
)
"""By name of the method; :func:`gtvmin.verify.check_solver` expects them."""
