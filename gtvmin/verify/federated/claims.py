"""Which convex program an algorithm claims to solve, in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gtvmin.federated.catalogue import entries, name_of, program_of, surrogate_of
from gtvmin.federated.program import Program, consensus, itself, no_program, star
from gtvmin.federated.programs.personal import alone
from gtvmin.solvers.federated.participation import All
from gtvmin.validation import positive_number

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin
    from gtvmin.solvers.standard_form import Array

__all__ = ["Claim", "declared_program", "read_claim", "same_models"]

STAR = re.compile(r"(?P<personal>personal )?star mu=(?P<mu>\S+)")
WORDS = ("consensus", "gtvmin", "alone", "none")


@dataclass(frozen=True)
class Claim:
    """A program in words.

    Attributes
    ----------
    kind : {"consensus", "star", "gtvmin", "alone", "none"}
        The program.
    mu : float
        Strength of a star.
    personal : bool
        Whether the models are those of a star's devices, not that of its centre.
    """

    kind: str
    mu: float = 0.0
    personal: bool = False

    def program(self, problem: GTVMin, p: Array) -> Program:
        """The program for devices with weights p."""
        if self.kind == "consensus":
            return consensus(problem, p)
        if self.kind == "star":
            return star(problem, p, self.mu, personal=self.personal)
        if self.kind == "alone":
            return alone(problem)
        if self.kind == "gtvmin":
            return itself(problem)
        return no_program("the algorithm claims to solve no program")

    @property
    def weighted(self) -> bool:
        """Whether weights of the devices are part of the program."""
        return self.kind in ("consensus", "star")

    def __str__(self) -> str:
        return f"{'personal ' if self.personal else ''}star mu={self.mu:g}" if self.kind == "star" else self.kind


def read_claim(text: str) -> Claim:
    """A claim from its words.

    Parameters
    ----------
    text : str
        ``"consensus"``: all devices have the minimiser of ``sum_i p_i L_i``; ``"star mu=0.5"``: all have the w of
        ``min_{w, v} sum_i p_i (L_i(v_i) + (mu/2) ||v_i - w||^2)``; ``"personal star mu=0.5"``: each has its v_i;
        ``"gtvmin"``: the problem as it is declared; ``"alone"``: each device has a minimiser of its own loss;
        ``"none"``.

    Raises
    ------
    ValueError
        For other words, and a mu that is not a positive number.

    Examples
    --------
    >>> from gtvmin.verify.federated.claims import read_claim
    >>> read_claim("star mu=0.5").mu
    0.5
    """
    if text in WORDS:
        return Claim(text)
    found = STAR.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"solves must be 'star mu=...', 'personal star mu=...' or one of {WORDS}, got {text!r}")
    try:
        mu = positive_number(float(found["mu"]), "mu")
    except ValueError as error:
        raise ValueError(f"solves={text!r} needs a positive number for mu") from error
    return Claim("star", mu, found["personal"] is not None)


def declared_program(algorithm: Any, problem: GTVMin) -> Program:
    """The program that an algorithm of the package, or one with a method ``program(problem)``, declares.

    A biased limit on quadratic losses is that of its surrogate.

    Raises
    ------
    TypeError
        If it declares none.
    """
    program = program_of(algorithm, problem)
    entry = entries().get(name_of(algorithm))
    quadratic = "quadratic" in problem.lowered.form.local.capabilities
    if program.exact or entry is None or entry.surrogate is None or not quadratic:
        return program
    try:
        return surrogate_of(algorithm, problem) if settles(algorithm) else program
    except ValueError:  # of settings without a surrogate
        return program


def settles(algorithm: Any) -> bool:
    """Whether all devices and data points take part in every round."""
    return getattr(algorithm, "batch", None) is None and isinstance(getattr(algorithm, "participation", All()), All)


def same_models(W: Array, tolerance: float) -> bool:
    """Whether all devices have the same model."""
    return bool(np.abs(W - W[0]).max(initial=0.0) <= tolerance * (1.0 + np.abs(W).max(initial=0.0)))
