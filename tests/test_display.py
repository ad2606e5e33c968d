"""Problems print as mathematics: snapshots of text and LaTeX, and that every class has its formula."""

from __future__ import annotations

import inspect

import numpy as np

import gtvmin as gtv
import gtvmin.losses
import gtvmin.penalties
from gtvmin.display import FORMULAS

rng = np.random.default_rng(0)


def problem(penalty: gtv.Penalty) -> gtv.GTVMin:
    X, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    losses = {
        "a": gtv.SquaredError(X, y),
        "b": gtv.SquaredError(X, y),
        "c": 0.5 * gtv.SquaredError(X, y, scale="sum") + gtv.Ridge(X, y, lam=0.1),
        "d": gtv.Zero(),
    }
    return gtv.GTVMin(
        gtv.FLNetwork.from_edges([("a", "b"), ("b", "c"), ("c", "d")]), losses, penalty=penalty, alpha=0.25
    )


def test_text() -> None:
    assert str(problem(gtv.Norm(2))) == (
        "minimise sum_i L_i(w_i) + 0.25 sum_(i,j) A_ij phi(w_j - w_i)\n"
        "  over w_i in R^2 for 4 devices, coupled by 3 edges\n"
        "  L_i(w) = mean (y - x'w)^2  (2 devices, 8 data points)\n"
        "  L_i(w) = 0.5 sum (y - x'w)^2 + mean (y - x'w)^2 + lam ||w||_2^2  (1 device, 8 data points)\n"
        "  L_i(w) = 0  (1 device)\n"
        "  phi(z) = ||z||_2"
    )


def test_latex() -> None:
    latex = problem(gtv.SquaredNorm())._repr_latex_()
    assert latex.startswith(
        "$$\\begin{aligned}\n\\min_{w_i \\in \\mathbb{R}^{2}}\\; & \\sum_{i=1}^{4} L_i(w_i) + 0.25 "
    )
    assert latex.endswith("& \\phi(z) = \\lVert z\\rVert_2^2\n\\end{aligned}$$")
    assert latex.count("{") == latex.count("}")


def test_many_kinds_are_put_together() -> None:
    X, y = rng.normal(size=(4, 2)), rng.normal(size=4)
    losses = [(1.0 + i) * gtv.SquaredError(X, y) for i in range(10)]
    network = gtv.FLNetwork.from_edges([(i, i + 1) for i in range(9)])
    text = str(gtv.GTVMin(network, losses, penalty=gtv.Norm(1), alpha=1.0))
    assert "L_i(w) = c_i mean (y - x'w)^2  (10 devices, 40 data points)" in text


def test_every_loss_has_a_formula() -> None:
    names = [
        name
        for name, member in vars(gtvmin.losses).items()
        if inspect.isclass(member) and issubclass(member, gtv.Loss) and member is not gtv.Loss
    ]
    assert len(names) >= 3
    assert not [name for name in names if name not in FORMULAS]
