"""Problems as readable mathematics: plain text for terminals, LaTeX for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gtvmin.losses.base import Loss
from gtvmin.penalties.base import Penalty

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["FORMULAS", "objective_line", "problem_latex", "problem_text"]

FORMULAS: dict[str, tuple[str, str]] = {
    # losses: text and LaTeX of one device's loss at its parameters w
    "SquaredError": ("mean (y - x'w)^2", r"\tfrac{1}{m}\lVert y - Xw\rVert_2^2"),
    "Ridge": ("mean (y - x'w)^2 + lam ||w||_2^2", r"\tfrac{1}{m}\lVert y - Xw\rVert_2^2 + \lambda\lVert w\rVert_2^2"),
    "Zero": ("0", "0"),
    "Quadratic": ("w'Qw/2 + q'w + c", r"\tfrac12 w^\top Q w + q^\top w + c"),
    "SquaredDistance": ("||w - a||_2^2", r"\lVert w - a\rVert_2^2"),
    "Linear": ("c'w", r"c^\top w"),
    "L1": ("||w||_1", r"\lVert w\rVert_1"),
    "ElasticNet": ("l1 ||w||_1 + l2 ||w||_2^2", r"\ell_1\lVert w\rVert_1 + \ell_2\lVert w\rVert_2^2"),
    "Huber": ("mean huber(y - x'w)", r"\tfrac{1}{m}\sum_r h_\delta(y_r - x_r^\top w)"),
    "LeastAbsolute": ("mean |y - x'w|", r"\tfrac{1}{m}\lVert y - Xw\rVert_1"),
    "Quantile": ("mean pinball(y - x'w)", r"\tfrac{1}{m}\sum_r \rho_\tau(y_r - x_r^\top w)"),
    "Logistic": ("mean log(1 + exp(-y x'w))", r"\tfrac{1}{m}\sum_r \log(1 + e^{-y_r x_r^\top w})"),
    "Softmax": (
        "mean (logsumexp(x'W) - (x'W)_y)",
        r"\tfrac{1}{m}\sum_r \bigl(\log\sum_c e^{x_r^\top w_c} - x_r^\top w_{y_r}\bigr)",
    ),
    "Poisson": ("mean (exp(x'w) - y x'w)", r"\tfrac{1}{m}\sum_r \bigl(e^{x_r^\top w} - y_r x_r^\top w\bigr)"),
    "Hinge": ("mean max(0, 1 - y x'w)", r"\tfrac{1}{m}\sum_r \max(0, 1 - y_r x_r^\top w)"),
    "SquaredHinge": ("mean max(0, 1 - y x'w)^2", r"\tfrac{1}{m}\sum_r \max(0, 1 - y_r x_r^\top w)^2"),
    "NonNegative": ("[w >= 0]", r"\iota(w \ge 0)"),
    "Box": ("[low <= w <= high]", r"\iota(\ell \le w \le u)"),
    "Ball": ("[||w - c||_2 <= r]", r"\iota(\lVert w - c\rVert_2 \le r)"),
    "Simplex": ("[w >= 0, sum w = total]", r"\iota(w \ge 0, \mathbf{1}^\top w = t)"),
    "Affine": ("[A w = b]", r"\iota(Aw = b)"),
    "CvxpyLoss": ("a CVXPY expression of w", r"\text{CVXPY}(w)"),
    # penalties: text and LaTeX of phi at the difference z across an edge
    "SquaredNorm": ("||z||_2^2", r"\lVert z\rVert_2^2"),
    "Norm(1)": ("||z||_1", r"\lVert z\rVert_1"),
    "Norm(2)": ("||z||_2", r"\lVert z\rVert_2"),
    "Norm(inf)": ("||z||_inf", r"\lVert z\rVert_\infty"),
    "HuberPenalty": ("huber(||z||_2)", r"h_\delta(\lVert z\rVert_2)"),
    "FlowCost": (
        "capacity max(z - cost, 0) + back_capacity max(-z - back_cost, 0)",
        r"b_e (z - c_e)_+ + b'_e (-z - c'_e)_+",
    ),
    "PredictionDiscrepancy": ("mean (x'z)^2", r"\tfrac{1}{r}\lVert X_e z\rVert_2^2"),
    "Consensus": ("[z = 0]", r"\iota(z = 0)"),
}


def objective_line(problem: GTVMin) -> str:
    """The objective in one line, with the penalties written out."""
    parts = ["sum_i L_i(w_i)"]
    for c, mark in zip(problem.couplings, _marks(problem), strict=True):
        if c.network.n_edges:
            parts.append(f"{c.alpha:g} sum_(i,j) A{mark}_ij {_across_an_edge(c.penalty)}")
    return " + ".join(parts)


def _across_an_edge(penalty: Penalty) -> str:
    """The penalty's formula at ``w_j - w_i``."""
    formula = _formula(penalty)[0]
    if formula == repr(penalty):
        return f"{formula}(w_j - w_i)"
    inserted = re.sub(r"\bz\b", "w_j - w_i", re.sub(r"(?<=[-'])z\b", "(w_j - w_i)", formula))
    return f"({inserted})" if " + " in inserted else inserted


def problem_text(problem: GTVMin) -> str:
    """The problem in a few lines of plain text."""
    families = list(zip(problem.couplings, _marks(problem), strict=True))
    coupled = (f"{c.alpha:g} sum_(i,j) A{mark}_ij phi{mark}(w_j - w_i)" for c, mark in families)
    edges = " and ".join(str(c.network.n_edges) for c in problem.couplings)
    lines = [
        f"minimise sum_i L_i(w_i) + {' + '.join(coupled)}",
        f"  over w_i in R^{_dims(problem)} for {problem.network.n_nodes} devices, coupled by {edges} edges",
    ]
    for kind, (devices, samples) in _kinds(problem.losses).items():
        rows = f", {samples} data points" if samples else ""
        lines.append(f"  L_i(w) = {_sum_of(kind, 0)}  ({_count(devices, 'device')}{rows})")
    lines += [f"  phi{mark}(z) = {_formula(c.penalty)[0]}" for c, mark in families]
    return "\n".join(lines)


def problem_latex(problem: GTVMin) -> str:
    """The problem as LaTeX for notebooks, in display mode."""
    families = list(zip(problem.couplings, _marks(problem), strict=True))
    lines = [
        rf"\min_{{w_i \in \mathbb{{R}}^{{{_dims(problem)}}}}}\; & \sum_{{i=1}}^{{{problem.network.n_nodes}}} L_i(w_i)"
    ]
    for c, mark in families:
        alpha = r"\infty" if c.alpha == float("inf") else f"{c.alpha:g}"
        lines[0] += rf" + {alpha} \sum_{{(i,j)}} A{mark}_{{ij}}\, \phi{mark}(w_j - w_i)"
    for kind, (devices, _) in _kinds(problem.losses).items():
        lines.append(rf"& L_i(w) = {_sum_of(kind, 1)} \quad \text{{({_count(devices, 'device')})}}")
    for c, mark in families:
        lines.append(rf"& \phi{mark}(z) = {_formula(c.penalty)[1]}")
    return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"


def _marks(problem: GTVMin) -> list[str]:
    """Primes that tell the families of edges apart."""
    return ["'" * k for k in range(len(problem.couplings))]


def _dims(problem: GTVMin) -> str:
    """Number of parameters of a device, or the range of these numbers."""
    least = int(problem.dims.min())
    return str(problem.dim) if least == problem.dim else f"{least}..{problem.dim}"


Kind = tuple[tuple[float | None, str, str], ...]
"""Coefficient (None where devices differ), class name and scale of each term of a loss."""

MOST_KINDS = 6


def _kinds(losses: Iterable[Loss]) -> dict[Kind, tuple[int, int]]:
    """Number of devices and of data points for each kind of loss, in order of first appearance."""
    exact = _count_kinds(losses, lambda coefficient: coefficient)
    return exact if len(exact) <= MOST_KINDS else _count_kinds(losses, lambda coefficient: None)


def _count_kinds(losses: Iterable[Loss], shown: Any) -> dict[Kind, tuple[int, int]]:
    counts: dict[Kind, tuple[int, int]] = {}
    for loss in losses:
        kind = tuple((shown(c), type(term).__name__, _scale(term)) for c, term in loss.declared_terms())
        devices, samples = counts.get(kind, (0, 0))
        counts[kind] = (devices + 1, samples + loss.n_samples)
    return counts


def _scale(term: Loss) -> str:
    """Whether the loss is a mean or a sum over its data points."""
    return str(term.arguments().get("scale", "mean"))


def _sum_of(kind: Kind, language: int) -> str:
    parts = []
    for coefficient, name, scale in kind:
        formula = FORMULAS[name][language] if name in FORMULAS else name
        if scale == "sum":
            formula = formula.replace("mean", "sum").replace(r"\tfrac{1}{m}", "")
        grouped = (f"({formula})", rf"\bigl({formula}\bigr)")[language] if "+" in formula else formula
        if coefficient is None:
            parts.append(("c_i ", "c_i ")[language] + grouped)
        else:
            parts.append(formula if coefficient == 1.0 else f"{coefficient:g} {grouped}")
    return " + ".join(parts)


def _formula(penalty: Penalty) -> tuple[str, str]:
    name = type(penalty).__name__
    p = getattr(penalty, "p", None)
    key = name if p is None else f"{name}({p:g})"
    return FORMULAS.get(key, (repr(penalty), rf"\text{{{penalty!r}}}"))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
