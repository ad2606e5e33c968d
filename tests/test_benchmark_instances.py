"""The instances of the benchmarks: what they state is what they are, and a seed gives the same one again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gtvmin as gtv

# behind the installed packages: the checkout's own gtvmin lacks gtvmin.solvers
sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.instances import INSTANCES, image, make_instance

# nodes, parameters, edges of the tiny versions where the generator fixes them
SIZES = {
    "A1": (40, 2, None),
    "A2": (60, 3, None),
    "A3-mixed": (60, 3, None),
    "B-moons-20k": (100, 2, None),
    "B-blobs-20k": (100, 3, None),
    "C-grid-100": (64, 3, 2 * 8 * 7),
    "C-knn-1": (60, 3, None),
    "D": (144, 1, 2 * 12 * 11),
    "E": (60, 3, None),
    "path-blobs-5k": (60, 2, None),
}


@pytest.mark.parametrize("name", INSTANCES)
def test_tiny_instances_are_the_same_for_the_same_seed(name: str) -> None:
    first, again, other = (make_instance(name, seed, small=True) for seed in (0, 0, 1))
    assert first.hash == again.hash != other.hash
    if name in SIZES:
        nodes, dim, edges = SIZES[name]
        assert (first.network.n_nodes, first.dim) == (nodes, dim)
        assert edges in (None, first.network.n_edges)


def test_instances_have_the_sizes_that_they_state() -> None:
    a1, a2 = make_instance("A1"), make_instance("A2")
    assert (a1.network.n_nodes, a1.dim, a1.alpha) == (300, 2, 1e-3)
    # 2 * binom(150, 2) / 2 + 150^2 / 1000 edges in expectation, 75 is the standard deviation
    assert abs(a1.network.n_edges - 11_197.5) < 5 * 75
    assert sum(not isinstance(loss, gtv.Zero) for loss in a1.losses) == 30
    assert (a2.network.n_nodes, a2.dim) == (2000, 10)
    assert abs(a2.network.n_edges - 10_000) < 5 * 100
    assert make_instance("A2u").undetermined() == ()
    assert image(side=30).network.n_edges == 2 * 30 * 29


def test_an_unknown_instance_is_named() -> None:
    with pytest.raises(ValueError, match="'Z9' is unknown: choose of A1"):
        make_instance("Z9")
