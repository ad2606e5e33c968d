"""Mixing matrices: those of the definitions, their properties, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import gtvmin as gtv
from federated_checks import assert_close
from federated_problems import (
    N,
    form_of,
    problem_q,
)
from gtvmin.solvers.federated.mixing import Mixing
from gtvmin.solvers.federated.random_matchings import RandomMatchings
from mixing_matrices import START, lazy, metropolis


def test_mixing_matrices_are_those_of_the_definitions() -> None:
    form = form_of(problem_q())
    assert np.allclose(Mixing.of(form, "metropolis").matrix.toarray(), metropolis(), atol=1e-15)
    assert np.allclose(Mixing.of(form, "lazy").matrix.toarray(), lazy(), atol=1e-15)
    given_one = Mixing.of(form, sparse.csr_array(metropolis()))
    assert np.allclose(given_one.matrix.toarray(), metropolis(), atol=1e-15)
    assert given_one.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(metropolis())[0], abs=1e-12)
    mixed = given_one.combine(START.W, START.W[given_one.source])
    assert_close(mixed, metropolis() @ START.W, 1e-14)
    assert_close(given_one.apply(START.W), metropolis() @ START.W, 1e-14)
    tail, head, weight = given_one.pairs
    assert np.allclose(metropolis()[tail, head], weight)


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 12), density=st.floats(0.1, 1.0), seed=st.integers(0, 999))
def test_metropolis_is_doubly_stochastic_on_any_network(n: int, density: float, seed: int) -> None:
    graph = nx.gnp_random_graph(n, density, seed=seed)
    net = gtv.FLNetwork.from_edges(list(graph.edges), nodes=range(n))
    form = form_of(gtv.GTVMin(net, [gtv.SquaredDistance([0.0])] * n, penalty=gtv.SquaredNorm(), alpha=1.0))
    M = Mixing.of(form, "metropolis").matrix.toarray()
    assert (M >= 0).all()
    assert np.array_equal(M, M.T)
    assert np.allclose(M.sum(axis=0), 1.0, atol=1e-14)
    assert np.linalg.eigvalsh(Mixing.of(form, "lazy").matrix.toarray())[0] > -1e-12
    again = Mixing.of(form, M)
    assert np.allclose(again.matrix.toarray(), M, atol=1e-15)


def test_least_eigenvalue_of_a_large_network() -> None:
    graph = nx.random_regular_graph(4, 400, seed=1)
    net = gtv.FLNetwork.from_edges(list(graph.edges), nodes=range(400))
    form = form_of(gtv.GTVMin(net, [gtv.SquaredDistance([0.0])] * 400, penalty=gtv.SquaredNorm(), alpha=1.0))
    mixing = Mixing.of(form, "metropolis")
    assert mixing.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(mixing.matrix.toarray())[0], abs=1e-9)
    assert (Mixing.of(form, mixing.matrix).matrix != mixing.matrix).nnz == 0
    alone = Mixing.of(form, sparse.eye_array(400))  # nobody talks
    assert len(alone.source) == 0
    assert_close(alone.apply(np.ones((400, 1))), np.ones((400, 1)), 1e-15)
    largest = np.linalg.eigvalsh(nx.laplacian_matrix(graph).toarray())[-1]
    assert 1.0 / largest == pytest.approx(RandomMatchings().on(form).strength, rel=0.02)
    assert RandomMatchings().on(form).least_eigenvalue > -1e-12


def bad(change: Callable[[np.ndarray], None]) -> np.ndarray:
    M = metropolis().copy()
    change(M)
    return M


def unsymmetric(M: np.ndarray) -> None:
    M[0, 1] += 0.1


def negative(M: np.ndarray) -> None:
    M[0, 1] = M[1, 0] = -0.1


def leaky(M: np.ndarray) -> None:
    M[3, 3] -= 0.1


def strangers(M: np.ndarray) -> None:
    M[0, 2] = M[2, 0] = 0.1
    M[0, 0] -= 0.1
    M[2, 2] -= 0.1


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (bad(unsymmetric), r"symmetric, but has .* at \((0, 1|1, 0)\)"),
        (bad(negative), r"no negative entries, but has -0.1 at \((0, 1|1, 0)\)"),
        (bad(leaky), r"doubly stochastic, but row 3 adds up to 0.9"),
        (bad(strangers), r"weight 0.1 between the devices at 0 and 2, which are no neighbours"),
        (np.eye(3), "8 by 8"),
        (np.full((N, N), np.nan), "finite"),
        ("max-degree", "'metropolis', 'lazy' or a matrix"),
    ],
)
def test_matrices_that_are_no_mixing_matrices(matrix: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixing.of(form_of(problem_q()), matrix)
