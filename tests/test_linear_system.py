"""The linear system of quadratic couplings: multigrid and conjugate gradients against SciPy's sparse solver."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import spsolve

import gtvmin as gtv
from gtvmin.solvers.aggregation import Graph, Hierarchy, build_hierarchy
from gtvmin.solvers.linear_system import LinearSystem
from gtvmin.solvers.multigrid import BlockLevels, multigrid_cycle

Array = NDArray[np.float64]
SIDE, DIM = 24, 2


def grid_edges(side: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    index = np.arange(side * side).reshape(side, side)
    tail = np.concatenate([index[:, :-1].ravel(), index[:-1].ravel()])
    return tail, np.concatenate([index[:, 1:].ravel(), index[1:].ravel()])


def grid_problem(
    alpha: float, labelled: float, spread: float = 0.0, scales: tuple[float, ...] = (1.0, 1.0)
) -> gtv.GTVMin:
    """A grid on which some devices have data, one row or five, in columns of given scales."""
    rng = np.random.default_rng(3)
    tail, head = grid_edges(SIDE)
    weights = 10.0 ** rng.uniform(-spread, spread, len(tail))
    network = gtv.FLNetwork.from_edges(np.column_stack([tail, head]), weights=weights, nodes=range(SIDE**2))
    losses: list[gtv.Loss] = []
    for i in range(SIDE**2):
        rows = 0 if rng.random() > labelled and i else int(rng.choice([1, 5]))
        X = rng.normal(size=(rows, DIM)) * np.array(scales)
        losses.append(gtv.SquaredError(X, X @ np.array([1.0, -2.0]) + rng.normal(size=rows)) if rows else gtv.Zero())
    return gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=alpha, dim=DIM)


def truth(problem: gtv.GTVMin) -> Array:
    """By SciPy's sparse LU of the matrix, built from the declared data."""
    blocks, b = [], np.zeros((problem.network.n_nodes, DIM))
    for i, loss in enumerate(problem.losses):
        block = np.zeros((DIM, DIM))
        if loss.n_samples:
            block = 2 * loss.X.T @ loss.X / loss.n_samples
            b[i] = 2 * loss.X.T @ loss.y / loss.n_samples
        blocks.append(block)
    coupling = sparse.kron(2 * problem.alpha * problem.network.laplacian(), sparse.eye_array(DIM))
    return np.asarray(spsolve((sparse.block_diag(blocks) + coupling).tocsc(), b.ravel()).reshape(b.shape))


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("labelled", [1.0, 0.2])
def test_iterations_agree_with_a_sparse_factor(alpha: float, labelled: float) -> None:
    problem = grid_problem(alpha, labelled)
    solution = problem.solve("linear_system", strategy="cg", gap=1e-10)
    assert solution.is_certified
    assert solution.iterations <= 40
    assert np.allclose(solution.weights, truth(problem), rtol=0, atol=1e-6)


def test_columns_in_different_units_and_weights_of_all_sizes() -> None:
    """The blocks of the devices keep units apart, and groups of devices follow the strong edges."""
    units = grid_problem(10.0, 0.5, scales=(1.0, 1e4))
    found = units.solve("linear_system", strategy="cg", gap=1e-6)
    assert found.is_certified
    assert np.allclose(found.weights, truth(units), rtol=0, atol=1e-6)
    weights = grid_problem(1.0, 1.0, spread=6.0)
    solution = weights.solve("linear_system", strategy="cg", gap=1e-10)
    assert solution.is_certified
    assert np.allclose(solution.weights, truth(weights), rtol=0, atol=1e-5)


def test_reordered_devices_have_the_same_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gtvmin.solvers.system_solvers.FAR_NUMBERS", 0)
    monkeypatch.setattr("gtvmin.solvers.system_solvers.FAR_SHARE", 0.0)
    problem = grid_problem(1.0, 0.5)
    solution = problem.solve("linear_system", strategy="cg", gap=1e-10)
    assert np.allclose(solution.weights, truth(problem), rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore::gtvmin.errors.NotUniqueWarning")
@pytest.mark.parametrize("strategy", ["direct", "cg"])
def test_components_without_labels_do_not_run_away(strategy: str) -> None:
    """Two paths, one without any labels, and a device on its own."""
    edges = [(i, i + 1) for i in range(39)] + [(i, i + 1) for i in range(40, 79)]
    losses: list[gtv.Loss] = [gtv.Zero()] * 81
    losses[0], losses[39] = (gtv.SquaredError([[1.0]], [y]) for y in (0.0, 3.0))
    network = gtv.FLNetwork.from_edges(edges, nodes=range(81))
    problem = gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=100.0, dim=1)
    solution = problem.solve("linear_system", strategy=strategy, gap=1e-10)
    assert solution.is_certified
    # by hand: the flow f is the same over all edges, 2 w_0 = f, 2 (3 - w_39) = f and 200 (w_{i+1} - w_i) = f
    flow = 3.0 / (1.0 + 39.0 / 200.0)
    assert solution.weights[:40, 0] == pytest.approx(flow * (0.5 + np.arange(40) / 200.0), rel=1e-9)
    assert np.abs(solution.weights[40:]).max() < 1.0


def test_flows_obey_the_balance_to_rounding_where_neighbours_agree() -> None:
    """From the differences of parameters a digit of theirs would be lost for every power of ten of alpha."""
    form = grid_problem(1e6, 0.2).lowered.form
    solver = LinearSystem(strategy="cg")
    state = solver.step(form, solver.init(form, None))
    balance = form.quadratic.gradient(state.W) + form.adjoint(state.U)
    assert np.linalg.norm(balance) < 1e-14 * np.linalg.norm(state.U[0])


@pytest.mark.parametrize("spread", [0.0, 8.0])
def test_coarse_graphs_are_galerkin_products(spread: float) -> None:
    """``P^T L P`` for the piecewise constant P, level by level, down to one node a component."""
    rng = np.random.default_rng(5)
    tail, head = grid_edges(12)
    kept = rng.random(len(tail)) < 0.6
    tail, head = tail[kept], head[kept]
    levels = build_hierarchy(Graph.of_edges(tail, head, 10.0 ** rng.uniform(-spread, spread, len(tail)), 144))
    for level in range(len(levels.at) - 1):
        first, last = levels.at[level : level + 2]
        here = laplacian(levels, level)
        if level == len(levels.at) - 2:
            assert here.nnz == 0
            break
        following = laplacian(levels, level + 1)
        joined = np.flatnonzero(levels.parent[first:last] >= 0)
        groups = levels.parent[first:last][joined] - last
        P = sparse.csr_array((np.ones(len(joined)), (joined, groups)), shape=(here.shape[0], following.shape[0]))
        assert following.shape[0] <= len(joined) / 2
        assert abs(P.T @ here @ P - following).max() <= 1e-12 * abs(here).max()


def laplacian(levels: Hierarchy, level: int) -> sparse.csr_array:
    first, last = levels.at[level : level + 2]
    pointer = levels.start[first : last + 1]
    edges = slice(pointer[0], pointer[-1])
    table = (levels.weight[edges], levels.neighbour[edges] - first, pointer - pointer[0])
    adjacency = sparse.csr_array(table, shape=(last - first, last - first))
    adjacency.eliminate_zeros()
    return (sparse.diags_array(np.asarray(adjacency.sum(axis=1)).ravel()) - adjacency).tocsr()


def test_a_cycle_reduces_any_error_whatever_the_coupling() -> None:
    """In the energy norm, by the factor that the theory of two grids promises for groups of four on a grid."""
    rng = np.random.default_rng(6)
    tail, head = grid_edges(32)
    Q = np.einsum("ijk,ilk->ijl", *(2 * [rng.normal(size=(1024, DIM, 3))])) * (rng.random(1024) < 0.3)[:, None, None]
    for alpha in (1e-2, 1.0, 1e4):
        levels = BlockLevels(build_hierarchy(Graph.of_edges(tail, head, np.full(len(tail), alpha), 1024)), Q)
        cycle, X = multigrid_cycle(levels), rng.normal(size=(1024, DIM))
        B, move = np.empty_like(X), np.empty_like(X)
        for _ in range(10):
            levels.product(X, B)
            before = float((X * B).sum())
            cycle(B, move)
            X = X - move
            levels.product(X, B)
            assert float((X * B).sum()) < 0.7**2 * before


def test_inverses_of_blocks_and_pseudo_inverses_without_neighbours() -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(50, 2, 4))  # two rows for four parameters: only neighbours make blocks regular
    tail, head = np.arange(0, 40), np.arange(1, 41)
    levels = BlockLevels(build_hierarchy(Graph.of_edges(tail, head, np.full(40, 1e-3), 50)), np.swapaxes(X, 1, 2) @ X)
    coupled = levels.graphs.degrees > 0
    assert 0 < coupled.sum() < len(coupled)
    alone, inverses = levels.blocks(~coupled), levels.inverses(coupled | True)
    np.testing.assert_allclose(alone @ inverses[~coupled] @ alone, alone, atol=1e-12)
    np.testing.assert_allclose(inverses[coupled], np.linalg.inv(levels.blocks(coupled)), rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(inverses[coupled], np.swapaxes(inverses[coupled], 1, 2))


@pytest.mark.parametrize("spread", [0.0, 8.0])
def test_plain_smoothing_where_neighbours_outweigh_losses(spread: float) -> None:
    """Blocks that are about multiples of the identity need no inverses, and cycles reduce errors as fast."""
    rng = np.random.default_rng(8)
    tail, head = grid_edges(32)
    Q = (
        np.einsum("ijk,ilk->ijl", *(2 * [rng.normal(size=(1024, DIM, 3))]))
        * np.exp(spread * rng.random(1024))[:, None, None]
    )
    levels = BlockLevels(build_hierarchy(Graph.of_edges(tail, head, np.full(len(tail), 300.0), 1024)), Q)
    plain, degrees = levels.plain, levels.graphs.degrees
    assert plain[:1024].all() if spread == 0 else 0 < plain[:1024].sum() < 1024
    assert not plain[degrees == 0].any()
    for block, degree in zip(levels.blocks(plain), degrees[plain], strict=True):
        assert np.linalg.norm(block / degree - np.eye(DIM), ord=2) <= 0.1
    cycle, X = multigrid_cycle(levels), rng.normal(size=(1024, DIM))
    B, move = np.empty_like(X), np.empty_like(X)
    for _ in range(10):
        levels.product(X, B)
        before = float((X * B).sum())
        cycle(B, move)
        X = X - move
        levels.product(X, B)
        assert float((X * B).sum()) < 0.7**2 * before


@pytest.mark.parametrize("rows", [2, 3])
def test_products_with_few_rows(rows: int) -> None:
    """Through the rows where there are fewer than half as many as parameters, and the solution stays what it is."""
    rng = np.random.default_rng(9)
    X, y = rng.normal(size=(100, rows, 5)), rng.normal(size=(100, rows))
    weight = rng.uniform(0.5, 2.0, rows)
    losses = [gtv.SquaredError(X[i], y[i], sample_weight=weight) for i in range(100)]
    tail, head = grid_edges(10)
    network = gtv.FLNetwork.from_edges(np.column_stack([tail, head]), nodes=range(100))
    problem = gtv.GTVMin(network, losses, penalty=gtv.SquaredNorm(), alpha=0.7)
    quadratic = problem.lowered.form.quadratic
    Q, b = quadratic.quadratic()
    few = quadratic.few_rows()
    laplacian = 1.4 * network.laplacian()
    matrix = sparse.block_diag(list(Q)) + sparse.kron(laplacian, np.eye(5))
    if rows == 2:
        np.testing.assert_allclose(np.swapaxes(few, 1, 2) @ few, Q, atol=1e-13)
        levels = BlockLevels(
            build_hierarchy(Graph.of_edges(tail, head, np.full(len(tail), 1.4), 100), levels=1), Q, few
        )
        V, out = rng.normal(size=(100, 5)), np.empty((100, 5))
        levels.product(V, out)
        np.testing.assert_allclose(out.ravel(), matrix @ V.ravel(), atol=1e-12)
    else:
        assert few is None
    solution = problem.solve(LinearSystem("cg"), gap=1e-10)
    np.testing.assert_allclose(solution.weights.ravel(), spsolve(matrix.tocsc(), b.ravel()), atol=1e-9)
    assert (
        problem.with_losses([*losses[:-1], gtv.SquaredError(X[0, :1], y[0, :1])]).lowered.form.quadratic.few_rows()
        is None
    )
