"""Attacks on certificates: a short run, false certificates that a long one found, and proof that it can find some."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import gtvmin as gtv
from exact_objective import exact_objective
from fuzz_certify import Tally, attack

SEEDS = 150
FOUND = {
    "objective that cancels": 746,
    "flows that miss a linear condition by rounding, at W = 0": 868,
    "bound of parameters outside the domain": 750,
    "square of a nearly dependent matrix": 3932,
    "overflow of the objective": 854,
    "denormal duals": 1142,
    "equation without coefficients": 2281,
    "curvature that is taken for none": 8121,
    "linear parts that dwarf a device's rows": 8224,
    "a flow that is lost beside a tilt": 102300,
    "linear parts that cancel": 105218,
    "small curvature beside a large one": 106337,
    "a polyhedron that is beyond doubles": 113065,
    "constraints that contradict each other to rounding": 80895,
    "flows beyond the range of a split among rows": 50466,
    "a residual that a box would take": 632770,
    "a residual beside kinks far away": 1001473,
    "matrices without singular values": 632641,
    "a flow at the last digit of its strength": 4016429,
    "a residual that the kink of a flow's cost would take": 4092360,
}


def test_a_short_run_finds_no_false_certificate() -> None:
    tally = Tally()
    findings = [finding for seed in range(SEEDS) if (finding := attack(seed, tally)) is not None]
    assert findings == []
    assert tally.problems > 0.9 * SEEDS
    assert tally.attacks["rigorous"] > 0.05 * SEEDS


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND.keys())
def test_certificates_that_were_false_are_true(seed: int) -> None:
    assert attack(seed) is None


def test_the_attacks_find_a_bound_that_is_a_little_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certificates whose gaps are a millionth too small, and whose rounding is as stated."""
    from gtvmin import certificates

    terms = certificates.gap_terms

    def optimistic(*arguments: object) -> object:
        found = terms(*arguments)  # type: ignore[arg-type]
        return type(found)(
            (1 - 1e-6) * found.per_node, tuple((1 - 1e-6) * part for part in found.per_row), found.infeasibility
        )

    monkeypatch.setattr(certificates, "gap_terms", optimistic)
    assert sum(attack(seed) is not None for seed in range(60)) >= 3


def test_an_imbalance_that_is_small_beside_other_devices_is_none_of_rounding() -> None:
    """Unbounded below: the flow 1e-10 that the second device needs is beyond the edge's 1e-12."""
    losses = [1e6 * gtv.LeastAbsolute([[1.0], [1.0]], [0.3, 0.5], scale="sum"), gtv.Linear([1e-10])]
    problem = gtv.GTVMin(gtv.FLNetwork.from_edges([(0, 1)]), losses, penalty=gtv.Norm(1), alpha=1e-12)
    duals = (np.array([[1e-12]]), np.array([[-1e6], [1e6]]))
    assert gtv.certify(problem, [[0.4], [0.4]], duals=duals).gap == np.inf
    assert gtv.certify(problem, [[0.4], [0.4]]).gap == np.inf


def test_overflow_is_no_bound() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1)])
    losses = [1e300 * gtv.SquaredDistance([0.0]) + gtv.Linear([-1e300]), gtv.SquaredDistance([1.0])]
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(1), alpha=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        certificate = gtv.certify(problem, [[1e100], [1e100]], [[0.5]])
    assert certificate.gap == certificate.primal == np.inf
    assert certificate.dual <= 1.0


def test_equations_without_coefficients_ask_for_nothing() -> None:
    net = gtv.FLNetwork.from_edges([(0, 1)])
    loss = gtv.Affine([[0.0, 0.0], [1.0, 1.0]], [0.0, 2.0]) + gtv.NonNegative()
    problem = gtv.GTVMin(net, [loss, gtv.SquaredDistance([0.0, 0.0])], penalty=gtv.Norm(2), alpha=1.0)
    solution = problem.solve(gap=1e-8)
    assert solution.weights[0].sum() == pytest.approx(2.0)


def test_the_reference_agrees_with_values_by_hand() -> None:
    """Objectives in rational arithmetic: 3-4-5 as a norm, log 2, and a constraint that holds or not."""
    net = gtv.FLNetwork.from_edges([(0, 1, 2.0)])
    losses = [gtv.Logistic([[1.0, 0.0]], [1]) + gtv.Box(0.0, 3.0), gtv.Poisson([[0.0, 1.0]], [2.0]) + gtv.Ball(5.0)]
    problem = gtv.GTVMin(net, losses, penalty=gtv.Norm(2), alpha=0.5)
    value = exact_objective(problem, [[0.0, 0.0], [3.0, 4.0]])
    assert value is not None
    # 2 * 0.5 * 5 + log 2 + exp(4) - 8
    assert float(value[0]) == pytest.approx(np.log(2.0) + np.exp(4.0) - 3.0, rel=1e-15)
    assert 0 <= value[1] - value[0] < Fraction(1, 10**60)
    assert exact_objective(problem, [[0.0, 0.0], [3.0, 4.000001]]) is None
