"""Likelihoods of one data point in decimal arithmetic of 60 digits: what the package's losses should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, setcontext

DIGITS = 60


def exact(*values: float) -> list[Decimal]:
    setcontext(Context(prec=DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN))
    return [Decimal(float(value)) for value in values]


def relative_entropy(q: Decimal, m: Decimal) -> Decimal:
    """``q log(q / m) - q + m``."""
    return (q * (q / m).ln() if q > 0 else Decimal(0)) - q + m


@dataclass(frozen=True)
class LogisticRow:
    """``omega log(1 + exp(-t))``."""

    omega: float

    def value(self, t: Sequence[float]) -> float:
        omega, t0 = exact(self.omega, t[0])
        return float(omega * (1 + (-t0).exp()).ln())

    def newton(self, t: Sequence[float], v: Sequence[float], step: float) -> list[float]:
        """Newton's step for the prox: the distance to it, but for terms of second order."""
        omega, t0, v0, tau = exact(self.omega, t[0], v[0], step)
        q = 1 / (1 + t0.exp())
        return [float((v0 + tau * omega * q - t0) / (1 + tau * omega * q * (1 - q)))]

    def fenchel_young(self, t: Sequence[float], p: Sequence[float]) -> float:
        omega, t0, p0 = exact(self.omega, t[0], p[0])
        q = -p0 / omega
        model = relative_entropy(q, 1 / (1 + t0.exp())) + relative_entropy(1 - q, 1 / (1 + (-t0).exp()))
        return float(omega * model)


@dataclass(frozen=True)
class PoissonRow:
    """``omega (exp(t) - y t)``."""

    omega: float
    y: float

    def value(self, t: Sequence[float]) -> float:
        omega, y, t0 = exact(self.omega, self.y, t[0])
        return float(omega * (t0.exp() - y * t0))

    def newton(self, t: Sequence[float], v: Sequence[float], step: float) -> list[float]:
        omega, y, t0, v0, tau = exact(self.omega, self.y, t[0], v[0], step)
        mean = t0.exp()
        return [float((v0 + tau * omega * (y - mean) - t0) / (1 + tau * omega * mean))]

    def fenchel_young(self, t: Sequence[float], p: Sequence[float]) -> float:
        omega, y, t0, p0 = exact(self.omega, self.y, t[0], p[0])
        return float(omega * relative_entropy(p0 / omega + y, t0.exp()))


@dataclass(frozen=True)
class SoftmaxRow:
    """``omega (log sum exp(s) - s_label)``."""

    omega: float
    label: int

    def value(self, s: Sequence[float]) -> float:
        omega, *scores = exact(self.omega, *s)
        return float(omega * (sum((x - scores[self.label]).exp() for x in scores)).ln())  # type: ignore[union-attr]

    @staticmethod
    def probabilities(scores: Sequence[Decimal]) -> list[Decimal]:
        powers = [(x - max(scores)).exp() for x in scores]
        return [power / sum(powers) for power in powers]

    def newton(self, s: Sequence[float], v: Sequence[float], step: float) -> list[float]:
        """``(I + a (diag(q) - q q^T))^-1 (v + a (e_label - q) - s)`` by the formula of Sherman and Morrison."""
        omega, tau, *scores = exact(self.omega, step, *s)
        a, q = tau * omega, self.probabilities(scores)
        target = [x + (a if k == self.label else 0) - a * q[k] for k, x in enumerate(exact(*v))]
        diagonal = [1 + a * x for x in q]
        plain = [(x - y) / d for x, y, d in zip(target, scores, diagonal, strict=True)]
        along = sum(x * y for x, y in zip(q, plain, strict=True))
        shrink = sum(x / d for x, d in zip(q, diagonal, strict=True))  # 1 - a sum q^2 / (1 + a q), without cancellation
        return [float(x + a * y / d * along / shrink) for x, y, d in zip(plain, q, diagonal, strict=True)]

    def fenchel_young(self, s: Sequence[float], p: Sequence[float]) -> float:
        """Of the dual moved to the hyperplane on which its entries sum to zero."""
        omega, *parts = exact(self.omega, *p)
        scores, mean = exact(*s), sum(parts) / len(parts)
        q = [(x - mean) / omega + (1 if k == self.label else 0) for k, x in enumerate(parts)]
        terms = zip(q, self.probabilities(scores), strict=True)
        return float(omega * sum(relative_entropy(max(x, Decimal(0)), m) for x, m in terms))
