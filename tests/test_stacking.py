"""Rows of all devices at once are those that each loss gives by itself, in the order of the devices and their terms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin.losses.base import Loss
from gtvmin.losses.squared_rows import QuadraticLoss
from gtvmin.losses.stacking import split_losses

DIM = 3


def atom(rng: np.random.Generator, kind: str) -> Loss:
    """A quadratic loss of DIM parameters."""
    m = int(rng.integers(0, 4))
    X, y = rng.normal(size=(m, DIM)), rng.normal(size=m)
    match kind:
        case "mean":
            return gtv.SquaredError(X, y)
        case "sum":
            return gtv.SquaredError(X, y, scale="sum")
        case "weighted":
            return gtv.SquaredError(X, y, sample_weight=rng.uniform(0.5, 2.0, m))
        case "weighted sum":
            return gtv.SquaredError(X, y, scale="sum", sample_weight=rng.uniform(0.0, 2.0, m))
        case "distance":
            return gtv.SquaredDistance(rng.normal(size=DIM))
        case "distance of all":
            return gtv.SquaredDistance(1.5)
        case "factors":
            return gtv.SquaredDistance(rng.normal(size=DIM), penalise=[1.0, 0.0, 2.0])
        case "linear":
            return gtv.Linear(rng.normal(size=DIM))
        case _:
            return gtv.Zero()


KINDS = ["mean", "sum", "weighted", "weighted sum", "distance", "distance of all", "factors", "linear", "zero"]


@pytest.mark.parametrize("kinds", [KINDS, ["mean"], ["weighted", "sum"], ["distance", "distance of all"]])
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_stacked_rows(kinds: list[str], data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    term = st.tuples(st.sampled_from(kinds), st.floats(0.5, 4.0))
    drawn = data.draw(st.lists(st.lists(term, min_size=1, max_size=3), min_size=1, max_size=5))
    devices = [[(c, atom(rng, kind)) for kind, c in terms] for terms in drawn]
    losses = [sum((c * loss for c, loss in terms[1:]), start=terms[0][0] * terms[0][1]) for terms in devices]
    quadratic, others, _ = split_losses(losses, DIM)
    assert not others
    first = 0
    for i, terms in enumerate(devices):
        for c, loss in terms:
            assert isinstance(loss, QuadraticLoss)
            X, y, weight = loss.rows(DIM)
            rows = slice(first, first + len(y))
            np.testing.assert_array_equal(quadratic.X[rows], X)
            np.testing.assert_array_equal(quadratic.y[rows], y)
            np.testing.assert_allclose(quadratic.weight[rows], c * weight, rtol=1e-15)
            first += len(y)
        tilt = sum(c * loss.c for c, loss in terms if isinstance(loss, gtv.Linear))
        np.testing.assert_allclose(quadratic.tilt[i], np.zeros(DIM) + tilt, rtol=1e-15)
        assert quadratic.counts[: i + 1].sum() == first
    assert len(quadratic.X) == first
