"""Data and settings of the tests of losses on rows."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
INF = float("inf")
TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
DIM = 3
RNG = np.random.default_rng(5)
X = RNG.standard_normal((7, DIM))
