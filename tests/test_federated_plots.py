"""Pictures of several runs: what their axes and legends say."""

from __future__ import annotations

import numpy as np
import pytest

import gtvmin as gtv
from federated_problems import problem_q
from gtvmin.federated.plots import plot_federated

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
from matplotlib.figure import Figure


def test_costs_are_those_of_the_history() -> None:
    """FedAvg sends and receives a model of three numbers at eight devices, so 384 bytes a round."""
    run = gtv.federate(problem_q(), "fedavg", rounds=10, check_every=1, weights="uniform")
    for x, each in (("rounds", 1), ("bytes", 2 * 8 * 3 * 8), ("gradients", 8)):
        axes = plot_federated({"a": run}, x=x, ax=Figure().add_subplot())
        line = axes.lines[0]
        assert line.get_xdata() == pytest.approx(each * np.arange(1, 11))
        assert line.get_ydata() == pytest.approx([record.relative_gap for record in run.history[-10:]])
        assert x[:-1] in axes.get_xlabel()


def test_twelve_runs_differ_and_runs_without_the_cost_say_so() -> None:
    run = gtv.federate(problem_q(), "fedprox", rounds=5, weights="uniform", mu=1.0)
    axes = plot_federated([run] * 12, x="gradients", ax=Figure().add_subplot())
    assert len({line.get_color() for line in axes.lines}) == 12
    assert axes.get_legend().get_texts()[0].get_text() == "fedprox: none"
