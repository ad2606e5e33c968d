"""Data of a device, and settings of CVXPY, for tests of proximal maps."""

from __future__ import annotations

import numpy as np

TIGHT = {"solver": "CLARABEL", "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + RNG.normal(size=7)
LABELS = np.where(Y + RNG.normal(size=7) > 0, 1.0, -1.0)
