"""Devices whose parameters are not unique, compared with the null space of all that losses and couplings see."""

import warnings

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gtvmin as gtv
from gtvmin import uniqueness
from gtvmin.errors import DisconnectedWarning

DIM = 3
ROW = st.sampled_from([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)])
DEVICE = st.tuples(st.lists(ROW, max_size=3), st.sampled_from(["squares", "absolute"]))


def null_nodes(problem: gtv.GTVMin, rows: list[np.ndarray]) -> set[int]:
    """Nodes that a null vector of all rows and all differences moves, by singular values of one dense matrix."""
    n = problem.network.n_nodes
    D = np.kron(problem.network.incidence().toarray(), np.eye(DIM))
    K = np.vstack([D, *(np.kron(np.eye(n)[[i]], X) for i, X in enumerate(rows)), np.zeros((1, n * DIM))])
    _, sigma, right = np.linalg.svd(K)
    null = right[np.count_nonzero(sigma > 1e-9) :]
    return set(np.flatnonzero(np.abs(null).reshape(-1, n, DIM).max(axis=(0, 2), initial=0.0) > 1e-9))


@pytest.mark.parametrize("few", [0, 1, uniqueness.FEW])
@given(devices=st.lists(DEVICE, min_size=1, max_size=9), data=st.data())
def test_undetermined_devices(few: int, devices: list, data: st.DataObject) -> None:
    n = len(devices)
    pairs = [(i, j) for i in range(n) for j in range(i)]
    graph = nx.empty_graph(n)
    graph.add_edges_from(data.draw(st.lists(st.sampled_from(pairs), max_size=8)) if pairs else [])
    rows = [np.array(own).reshape(-1, DIM) for own, _ in devices]
    kinds = {"squares": gtv.SquaredError, "absolute": gtv.LeastAbsolute}
    losses = [kinds[kind](X, np.ones(len(X))) for X, (_, kind) in zip(rows, devices, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniqueness, "FEW", few)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DisconnectedWarning)
            problem = gtv.GTVMin(graph, losses, penalty=gtv.SquaredNorm(), alpha=1.0)
        assert set(problem.undetermined()) == null_nodes(problem, rows)
