"""Attacks on certificates: parameters and flows that should make one claim more than is true.

A bound from below must not exceed the objective of any parameters, whatever they are: each attack is judged by the
best parameters known, with objectives in rational arithmetic.  ``python tests/fuzz_certify.py 1000`` runs many.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import multiprocessing
import sys
import time
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import gtvmin as gtv
from exact_objective import Enclosure, exact_objective
from fuzz_problems import EPS, TINY, Drawn, draw
from gtvmin.errors import CapabilityError
from gtvmin.gap import gap_rounding
from gtvmin.solvers.standard_form import Array

# What a plain certificate calls its rounding is an estimate: findings are errors beyond this multiple of it.
ESTIMATE = 10.0
SOLVED_EVERY, SEARCHED_EVERY = 150, 200
CHUNK = 100
# No relative error above this is forgiven, whatever its source.
NEGLIGIBLE = 1e-9
# So many times the problem's own numbers away, the last digits of linear parts are as large as these numbers: what is
# found there tells only whether the problem is bounded below.
FAR = 1.0 / EPS
RAY = 2.0**400


@dataclass(frozen=True)
class Finding:
    """A certificate that claims too much.

    Attributes
    ----------
    seed : int
        What ``attack`` was called with.
    attack : str
        Kinds of parameters and flows.
    claim : {"gap", "dual", "primal", "not a number", "error"}
        What is wrong with the certificate.
    excess : float
        By how much, in units of the rounding that it states; infinite for a rigorous one.
    text : str
        The numbers.
    """

    seed: int
    attack: str
    claim: str
    excess: float
    text: str


@dataclass(frozen=True)
class Best:
    """The best parameters known, and the objective there."""

    value: Enclosure
    W: Array


class Tally:
    """Counts over many seeds, and the largest error in units of the stated rounding."""

    def __init__(self) -> None:
        self.problems = 0
        self.attacks: collections.Counter[str] = collections.Counter()
        self.worst = 0.0

    def add(self, other: Tally) -> None:
        """Add the counts of other seeds."""
        self.problems += other.problems
        self.attacks.update(other.attacks)
        self.worst = max(self.worst, other.worst)

    def note(self, error: Fraction, rounding: float) -> None:
        """Take down how far parameters are from optimal beyond a gap's terms, over the rounding it states."""
        if error > 0:
            self.worst = max(self.worst, float(error / Fraction(rounding)))


def attack(seed: int, tally: Tally | None = None) -> Finding | None:
    """Draw a problem, attack its certificates in several ways and return the first that claims too much."""
    tally = Tally() if tally is None else tally
    drawn = draw(seed)
    if drawn is None:
        return None
    rng = np.random.default_rng((seed, 1))
    tally.problems += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _attack(seed, drawn, rng, tally)


def _attack(seed: int, drawn: Drawn, rng: np.random.Generator, tally: Tally) -> Finding | None:
    problem = drawn.problem
    if seed % 20 == 0 and not _refuses_infinities(problem, drawn, rng):
        return Finding(seed, "nan", "error", np.inf, "accepted parameters or flows that are no numbers")
    ray = RAY * rng.integers(-1, 2, drawn.W.shape[1])
    best = _least(problem, _rivals(problem, drawn, seed))
    certificates: list[tuple[str, Array, Any]] = []
    start: Any = None
    for k in range(2):
        kind, W = _parameters(drawn, rng)
        if k == 0 or start is None:
            flow, U = _flows(drawn, rng)
            if seed % SEARCHED_EVERY == 0:
                flow, U = "searched", None
            certificate, options = _certified(problem, W, U=U), {"U": U}
        else:
            flow, duals = _moved(start.duals, rng)
            certificate, options = _certified(problem, W, duals=duals), {"duals": duals}
        name = f"{drawn.style}: W {kind}, U {flow}"
        tally.attacks[f"W {kind}"] += 1
        tally.attacks[f"U {flow}"] += 1
        if isinstance(certificate, Exception):
            return Finding(seed, name, "error", np.inf, repr(certificate))
        start = certificate
        certificates.append((name, W, certificate))
        if rng.random() < 0.4:
            rigorous = _certified(problem, W, rigorous=True, **options)
            if isinstance(rigorous, CapabilityError):
                continue
            tally.attacks["rigorous"] += 1
            if isinstance(rigorous, Exception):
                return Finding(seed, f"{name}, rigorous", "error", np.inf, repr(rigorous))
            certificates.append((f"{name}, rigorous", W, rigorous))
    best = _least(problem, [W for _, W, _ in certificates], best)
    # a problem may be unbounded below by the rounding of its numbers, which exact arithmetic alone can tell
    beyond = _least(problem, [drawn.W + ray], best)
    for name, W, certificate in certificates:
        finding = _judge(
            seed, name, certificate, exact_objective(problem, W), beyond if certificate.rigorous else best, drawn, tally
        )
        if finding is not None:
            return finding
    return None


def _certified(problem: gtv.GTVMin, W: Array, **options: Any) -> Any:
    """The certificate, or the error that came instead."""
    try:
        return gtv.certify(problem, W, **options)
    except Exception as error:  # whatever it is, it is a finding
        return error


def _judge(
    seed: int,
    name: str,
    certificate: gtv.Certificate,
    value: Enclosure | None,
    best: Best | None,
    drawn: Drawn,
    tally: Tally,
) -> Finding | None:
    """Compare what a certificate claims with the objective of its parameters and of the best ones."""
    if np.isnan([certificate.gap, certificate.dual, certificate.rounding]).any() or certificate.gap < 0:
        return Finding(seed, name, "not a number", np.inf, f"{certificate!r}")
    if best is None:
        return None
    excesses = []
    if np.isfinite(certificate.dual):
        excesses.append(("dual", Fraction(certificate.dual) - best.value[1]))
    if value is not None and np.isfinite(certificate.gap):
        excesses.append(("gap", value[0] - best.value[1] - Fraction(certificate.gap)))
        if certificate.rigorous:
            excesses.append(("primal", value[0] - Fraction(certificate.primal)))
    for claim, excess in excesses:
        if excess <= 0:
            if claim == "gap" and not certificate.rigorous:
                tally.note(excess + Fraction(certificate.rounding), certificate.rounding)
            continue
        text = f"{claim} beyond the truth by {float(excess):.3e}: {certificate!r}, rounding {certificate.rounding:.3e}"
        if certificate.rigorous:
            return Finding(seed, name, claim, np.inf, text)
        rounding = certificate.rounding
        if not np.isfinite(certificate.gap):  # that of parameters where the objective is finite
            rounding = gap_rounding(drawn.problem.lowered.form, drawn.W, certificate.duals)
        if not np.isfinite(rounding):
            continue
        allowed = Fraction(rounding) + 64 * Fraction(TINY)
        if claim == "dual" and np.isfinite(certificate.primal):
            # the bound is a difference from the objective, which is rounded to its own digits
            allowed += Fraction(EPS) * abs(Fraction(certificate.primal))
        digits = _last_digits(drawn.problem, best.W - certificate.W)
        far = np.abs(best.W).max() > FAR * drawn.size
        if excess <= digits and (far or excess <= NEGLIGIBLE * abs(float(best.value[1]))):
            tally.attacks["last digits"] += 1
            continue
        ratio = float(min(excess / allowed, Fraction(10) ** 300))
        if ratio > ESTIMATE:
            return Finding(seed, name, claim, ratio, text)
        tally.worst = max(tally.worst, 1.0 + ratio)
    return None


def _least(problem: gtv.GTVMin, candidates: list[Array], best: Best | None = None) -> Best | None:
    for W in candidates:
        value = exact_objective(problem, W)
        if value is not None and (best is None or value[1] < best.value[1]):
            best = Best(value, W)
    return best


def _last_digits(problem: gtv.GTVMin, move: Array) -> float:
    """What the last digits of the linear parts make on the way to other parameters."""
    return EPS * float((problem.lowered.form.quadratic.tilt_size * np.abs(move)).sum())


def _rivals(problem: gtv.GTVMin, drawn: Drawn, seed: int) -> list[Array]:
    """Parameters that may be better than those that are certified."""
    rivals = [drawn.W, np.zeros_like(drawn.W)]
    if seed % SOLVED_EVERY == 0:
        with contextlib.suppress(CapabilityError, ValueError, RuntimeError):
            rivals.append(problem.solve("adaptive_primal_dual", gap=1e-9, max_iter=2000).weights)
    return rivals


def _refuses_infinities(problem: gtv.GTVMin, drawn: Drawn, rng: np.random.Generator) -> bool:
    bad = float(rng.choice([np.nan, np.inf, -np.inf]))
    for which in range(2):
        pair = [drawn.W.copy(), drawn.U.copy()]
        pair[which].flat[int(rng.integers(pair[which].size))] = bad
        try:
            gtv.certify(problem, *pair)
        except ValueError:
            continue
        return False
    return True


def _parameters(drawn: Drawn, rng: np.random.Generator) -> tuple[str, Array]:
    W, size = drawn.W, drawn.size
    kind = str(rng.choice(["optimal", "near", "ulp", "zero", "random", "huge", "denormal", "one entry"]))
    if kind == "near":
        W = W + size * 10.0 ** rng.uniform(-17, 2) * rng.normal(size=W.shape)
    elif kind == "ulp":
        W = np.nextafter(W, rng.choice([-np.inf, np.inf], W.shape))
    elif kind == "zero":
        W = np.zeros_like(W)
    elif kind == "random":
        W = size * rng.normal(size=W.shape)
    elif kind == "huge":
        W = W + 10.0 ** rng.uniform(3, rng.choice([20, 150])) * rng.integers(-1, 2, W.shape)
    elif kind == "denormal":
        W = TINY * rng.integers(-100, 101, W.shape)
    elif kind == "one entry":
        W = W.copy()
        W.flat[int(rng.integers(W.size))] += size * 10.0 ** rng.uniform(-16, 8)
    return kind, W


def _flows(drawn: Drawn, rng: np.random.Generator) -> tuple[str, Array]:
    U = drawn.U
    strength = (drawn.problem.alpha * drawn.problem.network.weights)[:, None]
    kind = str(rng.choice(["optimal", "optimal", "near", "zero", "random", "boundary", "huge", "denormal", "foreign"]))
    if kind == "near":
        U = U + strength * 10.0 ** rng.uniform(-17, 1) * rng.normal(size=U.shape)
    elif kind == "zero":
        U = np.zeros_like(U)
    elif kind == "random":
        U = strength * rng.normal(size=U.shape)
    elif kind == "boundary":
        U = strength * rng.integers(-1, 2, U.shape) * rng.choice([1.0, 1.0 + EPS, 1.0 - EPS / 2.0], U.shape)
    elif kind == "huge":
        U = 10.0 ** rng.uniform(3, rng.choice([20, 150])) * rng.integers(-1, 2, U.shape)
    elif kind == "denormal":
        U = TINY * rng.integers(-100, 101, U.shape)
    elif kind == "foreign":
        U = 10.0 ** rng.uniform(-8, 8) * rng.normal(size=U.shape)
    return kind, U


def _moved(duals: tuple[Array, ...], rng: np.random.Generator) -> tuple[str, tuple[Array, ...]]:
    """Feasible duals of a certificate, moved by noise of any size or by a unit in the last place."""
    kind = str(rng.choice(["duals kept", "duals near", "duals ulp", "duals scaled"]))
    noise = 10.0 ** rng.uniform(-17, 1)
    if kind == "duals near":
        duals = tuple(d + noise * (np.abs(d).max(initial=0.0) or 1.0) * rng.normal(size=d.shape) for d in duals)
    elif kind == "duals ulp":
        duals = tuple(np.nextafter(d, rng.choice([-np.inf, np.inf], d.shape)) for d in duals)
    elif kind == "duals scaled":
        duals = tuple(d * 10.0 ** rng.uniform(-1, 6) for d in duals)
    return kind, duals


def attack_many(seeds: range) -> tuple[Tally, list[Finding]]:
    """Counts and findings of some seeds."""
    tally = Tally()
    found = [finding for seed in seeds if (finding := attack(seed, tally)) is not None]
    return tally, found


def main(arguments: list[str] | None = None) -> int:
    """Run many seeds with progress; write what was found, also when interrupted."""
    parser = argparse.ArgumentParser(description="Attack certificates and count the false ones.")
    parser.add_argument("problems", type=int, nargs="?", default=10_000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after that time")
    parser.add_argument("--report", help="Markdown file to write")
    chosen = parser.parse_args(arguments)
    tally, findings, began, last = Tally(), [], time.monotonic(), chosen.first - 1
    end = chosen.first + chosen.problems
    chunks = [range(first, min(first + CHUNK, end)) for first in range(chosen.first, end, CHUNK)]
    with multiprocessing.Pool(chosen.processes) as pool, contextlib.suppress(KeyboardInterrupt):
        for seeds, (counts, found) in zip(chunks, pool.imap(attack_many, chunks), strict=True):
            tally.add(counts)
            findings += found
            last = seeds[-1]
            for finding in found:
                print(f"seed {finding.seed}  {finding.attack}\n    {finding.text}", flush=True)
            seconds = time.monotonic() - began
            print(f"{last + 1 - chosen.first:,} seeds, {len(findings)} findings, {seconds:.0f} s", flush=True)
            if seconds > chosen.seconds:
                break
    text = report(tally, findings, chosen.first, last)
    print(text)
    if chosen.report:
        with open(chosen.report, "w", encoding="utf-8") as file:
            file.write(text)
    return 1 if findings else 0


def report(tally: Tally, findings: list[Finding], first: int, last: int) -> str:
    """The counts as Markdown."""
    parts = {part: {k[2:]: n for k, n in tally.attacks.items() if k[:2] == part} for part in ("W ", "U ")}
    attacks = sum(parts["W "].values())
    counts = {part: ", ".join(f"{k} {n:,}" for k, n in sorted(kinds.items())) for part, kinds in parts.items()}
    return f"""# Attacks on certificates

`nox -s fuzz -- 100000` draws that many small problems (2 to 5 devices with 1 to 3 parameters each, every loss and
penalty of the catalogue that has a formula, numbers from denormals to 1e150), attacks the certificates of each with
parameters and flows that should make them claim too much, and writes this page.  A certificate is false if its lower
bound exceeds the objective of any parameters known, or if parameters are further from optimal than its gap says;
objectives are computed in rational arithmetic, by code that shares nothing with the package.  Problems are drawn
with their minimiser, so that most bounds are compared with the optimum itself.

A rigorous certificate must never be false, by any amount.  A plain one states an estimate of its rounding, which is
part of its gap: it counts as false where the error exceeds {ESTIMATE:g} times that.  Whether the problem is bounded
below at all may depend on the last digits of linear parts that balance: that is asked of rigorous certificates only.
What these digits make on the way to the best parameters known is no error of a plain one if it is below {NEGLIGIBLE:g}
of the objective, or if these are {FAR:.0e} times the problem's own numbers away, but counted below.

| | |
|---|---|
| seeds | {first:,} to {last:,} |
| problems | {tally.problems:,} |
| plain certificates attacked | {attacks:,} |
| rigorous certificates attacked | {tally.attacks["rigorous"]:,} |
| false certificates | {len(findings):,} |
| plain ones that the last digits of balancing linear parts could turn | {tally.attacks["last digits"]:,} |
| largest error of a plain certificate, over the rounding that it states | {tally.worst:.2g} |

Parameters: {counts["W "]}.

Flows and other duals: {counts["U "]}.
"""


if __name__ == "__main__":
    sys.exit(main())
