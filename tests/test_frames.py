"""Losses from DataFrames in long format."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import gtvmin as gtv

FRAME = pd.DataFrame(
    {
        "site": ["b", "a", "b", "a", "b"],
        "x": [1, 2, 3, 4, 5],
        "z": np.array([0.5, 0.0, -1.0, 2.0, 1.0], dtype=np.float32),
        "y": [1.0, 2.0, 0.0, 5.0, 3.0],
    },
    index=[10, 3, 3, 7, 0],  # any index, repeated labels too
)


def test_each_device_gets_its_rows() -> None:
    kept = FRAME.copy()
    losses = gtv.losses_from_frame(FRAME, node="site", target="y", features=["z", "x"], scale="sum")
    assert list(losses) == ["b", "a"]
    w = np.array([0.3, -0.2, 1.0])
    for site, loss in losses.items():
        rows = FRAME[FRAME.site == site]
        residual = rows.y - (rows.z.astype(float) * w[0] + rows.x * w[1] + w[2])
        assert loss.value(w) == pytest.approx((residual**2).sum(), rel=1e-12)
    pd.testing.assert_frame_equal(FRAME, kept)


def test_row_order_and_index_do_not_matter() -> None:
    net = gtv.FLNetwork.from_edges([("a", "b")])
    objectives = []
    for seed in range(3):
        shuffled = FRAME.sample(frac=1.0, random_state=seed).reset_index(drop=True)
        losses = gtv.losses_from_frame(shuffled, node="site", target="y", features=["x"])
        objectives.append(gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.1).solve(gap=1e-10).objective)
    assert objectives == pytest.approx([objectives[0]] * 3, rel=1e-9)


def test_other_losses_and_labels() -> None:
    frame = FRAME.assign(site=pd.Categorical([1, 2, 1, 2, 1], categories=[2, 1, 3]))
    losses = gtv.losses_from_frame(frame, node="site", target="y", features=[], loss=gtv.Ridge, lam=0.5)
    assert list(losses) == [1, 2]
    assert all(type(label) is int for label in losses)
    assert losses[2].value([1.0]) == pytest.approx(((1 - 2) ** 2 + (1 - 5) ** 2) / 2 + 0.5)


@pytest.mark.parametrize(
    ("change", "arguments", "match"),
    [
        ({}, {"target": "w"}, "'w' is not a column"),
        ({}, {"features": "x"}, r"write \['x'\]"),
        ({"x": [1, 2, np.nan, 4, 5]}, {}, "column 'x' has a nan in row 3"),
        ({"y": ["one"] * 5}, {}, "column 'y' must hold numbers"),
        ({"site": ["a", None, "b", "a", "b"]}, {}, "names no device in row 3"),
        ({}, {"features": [], "intercept": False}, "nothing to predict from"),
    ],
)
def test_errors_name_the_column_and_the_row(change: dict, arguments: dict, match: str) -> None:
    settings = {"node": "site", "target": "y", "features": ["x"], **arguments}
    with pytest.raises((ValueError, TypeError), match=match):
        gtv.losses_from_frame(FRAME.assign(**change), **settings)


def test_only_frames_are_taken() -> None:
    with pytest.raises(TypeError, match="pandas DataFrame"):
        gtv.losses_from_frame({"x": [1]}, node="site", target="y", features=["x"])
