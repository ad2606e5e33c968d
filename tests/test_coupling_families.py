"""Several families of edges in one problem."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import gtvmin as gtv
from coupling_problems import EDGES, LOSSES, NODES, PENALTIES, optimum, problem_of, scalars, solved


def c03() -> gtv.GTVMin:
    near = gtv.FLNetwork.from_edges([(0, 2, 0.25), (1, 0, 0.25)])
    problem = gtv.GTVMin(
        gtv.FLNetwork.from_edges([(0, 1, 0.5), (1, 2, 0.5)]), scalars(0, 1, 5), penalty=gtv.Norm(1), alpha=1.0
    )
    return problem.couple(near, gtv.SquaredNorm(), 1.0)


def test_c03_families_of_edges_add() -> None:
    """C03, snapvx issue #19: a pair that is in both families has both penalties."""
    problem = c03()
    for method in ("primal_dual", "adaptive_primal_dual", "cvxpy"):
        solution = solved(problem, method, gap=1e-10)
        np.testing.assert_allclose(solution.weights[:, 0], [9 / 7, 9 / 7, 24 / 7], atol=1e-5)
        assert solution.objective == pytest.approx(4.321428571, abs=1e-8)
    assert problem.edges == ((0, 1), (1, 2), (0, 2), (0, 1))
    assert solution.flows.shape == (4, 1)
    assert solution.certificate.per_edge.shape == (4,)
    # the squared family's flows are 2 alpha A_e z_e
    assert solution.flow(2, 0, family=1)[0] == pytest.approx(0.5 * (9 / 7 - 24 / 7), abs=1e-5)
    assert solution.flow(1, 0, family=1)[0] == pytest.approx(0.0, abs=1e-5)
    assert solution.flow(1, 2)[0] == pytest.approx(0.5, abs=1e-9)
    with pytest.raises(ValueError, match="family must be between 0 and 1"):
        solution.flow(0, 1, family=2)
    with pytest.raises(ValueError, match="not an edge"):
        solution.flow(1, 2, family=1)


def test_flows_of_families_can_be_given_by_pairs() -> None:
    problem = c03()
    solution = solved(problem, gap=1e-9)
    by_pair = [
        {(1, 0): solution.flow(1, 0), (1, 2): solution.flow(1, 2)},
        {(2, 0): solution.flow(2, 0, family=1), (0, 1): solution.flow(0, 1, family=1)},
    ]
    np.testing.assert_array_equal(problem.flows_array(by_pair), solution.flows)
    with pytest.raises(ValueError, match="1 families of edges, the problem has 2"):
        problem.flows_array(by_pair[0])
    with pytest.raises(ValueError, match=r"no flow for edge \(0, 2\)"):
        problem.flows_array([by_pair[0], {(0, 1): 1.0}])


def test_families_with_the_same_penalty_are_edges_of_the_added_weight() -> None:
    """C24, networkx issue #598: parallel edges with the same penalty add; y = (0, 10), weights 1 and 3."""
    one, three = (gtv.FLNetwork.from_edges([(0, 1, weight)]) for weight in (1.0, 3.0))
    for penalty, objective, W in (
        (gtv.Norm(1), 24.0, (4.0, 6.0)),
        (gtv.SquaredNorm(), 200 / 8.5, (40 / 8.5, 45 / 8.5)),
    ):
        problem = gtv.GTVMin(one, scalars(0, 10), penalty=penalty, alpha=1.0).couple(three, penalty, 1.0)
        solution = solved(problem, gap=1e-10)
        if isinstance(penalty, gtv.Norm):
            assert solution.objective == pytest.approx(objective, rel=1e-8)
            np.testing.assert_allclose(solution.weights[:, 0], W, atol=1e-4)
        single = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1, 4.0)]), scalars(0, 10), penalty=penalty, alpha=1.0)
        assert solution.objective == pytest.approx(solved(single, gap=1e-10).objective, rel=1e-8)


@pytest.mark.parametrize("kind", LOSSES)
def test_three_families_agree_with_the_model(kind: str) -> None:
    more = [("f", "a", 1.5), ("b", "e", 0.5), ("a", "b", 0.7)]
    chain = [("d", "c", 1.0), ("c", "f", 2.0)]
    problem = problem_of(kind, gtv.Norm(2), 0.1)
    problem = problem.couple(gtv.FLNetwork.from_edges(more), PENALTIES["partial"], 0.5)
    problem = problem.couple(nx.Graph([("d", "c"), ("c", "f")]), gtv.HuberPenalty(0.2), 0.4)
    losses = dict(zip(NODES, problem.losses, strict=True))
    families = [
        (EDGES, gtv.Norm(2), 0.1),
        (more, PENALTIES["partial"], 0.5),
        ([(t, h, 1.0) for t, h, _ in chain], gtv.HuberPenalty(0.2), 0.4),
    ]
    best, _ = optimum(losses, families)
    for method in ("auto", "cvxpy"):
        solution = solved(problem, method, gap=1e-6)
        assert solution.objective == pytest.approx(best, rel=2e-6)
        assert solution.flows.shape == (11, 3)
    weaker = problem.with_alpha(0.02)
    assert [c.alpha for c in weaker.couplings] == [0.02, 0.5, 0.4]
    assert problem.alpha == 0.1


def test_a_family_reaches_nodes_of_the_problem_only() -> None:
    with pytest.raises(ValueError, match="node 'x', which is not a node of the problem"):
        problem_of("full_rank", gtv.Norm(2)).couple(nx.Graph([("a", "x")]), gtv.Norm(2), 1.0)
