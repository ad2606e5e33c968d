from __future__ import annotations

from typing import Any

from benchmark_utils import make_instance
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Network Lasso on stochastic block models; what the instances are, benchmarks/instances.py tells."""

    name = "block model"
    parameters = {"instance": ["A1", "A2", "A3"], "small": [False], "seed": [0]}
    test_parameters = {"instance": ["A2"], "small": [True], "seed": [0]}

    def get_data(self) -> dict[str, Any]:
        return {"problem": make_instance(self.instance, self.seed, small=self.small)}
