"""The example of the network Lasso experiment: orders of magnitude, and how the error depends on lambda and p_out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gtvmin.datasets import make_sbm

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "nlasso_experiment.py"


@pytest.fixture(scope="module")
def experiment() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nlasso_experiment", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_only_the_network_tells_the_clusters_apart(experiment: ModuleType) -> None:
    """Network Lasso about 1e-6 at devices with and without labels, models without a network about 4."""
    sbm = make_sbm(seed=0)
    _, labelled, unlabelled = experiment.network_lasso(sbm)
    assert 1e-8 < labelled < 1e-5
    assert 1e-8 < unlabelled < 1e-5
    others = experiment.without_a_network(sbm)
    assert 2.0 < others["least squares of all labels"][0] < 6.0
    assert 2.0 < others["decision tree of all labels"][1] < 8.0
    assert others["least squares at each labelled device"][0] < 1e-20
    assert np.isnan(others["least squares at each labelled device"][1])


def test_the_error_grows_with_lambda_squared_and_clusters_are_lost_in_dense_cuts(experiment: ModuleType) -> None:
    small, large = (experiment.network_lasso(make_sbm(lam=lam, seed=1))[0] for lam in (1e-3, 1e-2))
    assert large / small == pytest.approx(100, rel=0.05)
    assert experiment.network_lasso(make_sbm(p_out=0.1, seed=1))[0] > 1.0
