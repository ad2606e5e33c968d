from __future__ import annotations

from typing import Any

from benchmark_utils import make_instance
from benchopt import BaseDataset


class Dataset(BaseDataset):
    """Convex clustering of points, with Gaussian weights between nearest neighbours."""

    name = "convex clustering"
    parameters = {"instance": ["B-moons-5k", "B-blobs-5k", "B-moons-20k", "B-blobs-20k"], "small": [False], "seed": [0]}
    test_parameters = {"instance": ["B-blobs-5k"], "small": [True], "seed": [0]}

    def get_data(self) -> dict[str, Any]:
        return {"problem": make_instance(self.instance, self.seed, small=self.small)}
