"""Certified baselines: the best parameters and bound that the package finds, kept on disk by the problem's hash."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from gtvmin.certificates import Certificate, certify, load_certificate
from gtvmin.errors import CertificateError, GtvminWarning
from gtvmin.gap import objective_floor, relative_gap

if TYPE_CHECKING:
    from gtvmin.problem import GTVMin

__all__ = ["BaselineWarning", "baseline", "cache_folder"]

TARGET = 1e-9
"""Relative gap that a baseline aims at."""
ACCEPTED = 1e-7
"""Relative gap up to which a stored one is taken as it is."""
METHODS = ("auto", "adaptive_primal_dual", "cvxpy")
TIME_LIMIT = 120.0

# Of this process, by hash.
_known: dict[str, Certificate] = {}


class BaselineWarning(GtvminWarning):
    """A stored baseline could not be used, or none can be stored."""


def cache_folder() -> Path:
    """Folder of the stored baselines: ``GTVMIN_CACHE`` if that is set, else one in the platform's cache folder."""
    chosen = os.environ.get("GTVMIN_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "gtvmin"


def baseline(problem: GTVMin) -> Certificate:
    """Certificate of the best parameters that are known, and with the best bound.

    It is made when first asked for, to a relative gap of 1e-9 or the best that can be reached, and stored as JSON under
    the problem's SHA-256.  Whatever is loaded is certified anew from its parameters and dual variables; a file that is
    damaged, belongs to another problem or claims too much is replaced, with a warning.

    Parameters
    ----------
    problem : GTVMin
        The problem.

    Returns
    -------
    Certificate
        With ``dual <= min P <= primal``; its gap is infinite if no bound was found.

    Warns
    -----
    BaselineWarning
        If a stored file could not be used, or the folder cannot be written to.

    Examples
    --------
    >>> from gtvmin.verify import suite
    >>> from gtvmin.verify.baselines import baseline
    >>> problem = suite("smoke")[0].problem()
    >>> round(baseline(problem).dual, 6)
    1.5
    """
    if problem.hash not in _known:
        path = cache_folder() / "baselines" / f"{problem.hash}.json"
        found = _load(path, problem)
        if found is None:
            found = _make(problem)
            _store(found, path)
        _known[problem.hash] = found
    return _known[problem.hash]


def _load(path: Path, problem: GTVMin) -> Certificate | None:
    try:
        found = load_certificate(path, problem)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (CertificateError, ValueError, OSError) as error:
        warnings.warn(f"the stored baseline {path} is ignored and made anew: {error}", BaselineWarning, stacklevel=3)
        return None
    return found if _strict_gap(found, problem) <= ACCEPTED else None


def _store(found: Certificate, path: Path) -> None:
    try:
        found.save(path)
    except OSError as error:
        warnings.warn(
            f"the baseline cannot be stored, set GTVMIN_CACHE to another folder: {error}", BaselineWarning, stacklevel=3
        )


def _make(problem: GTVMin) -> Certificate:
    best: Certificate | None = None
    for method in METHODS:
        options = {} if method == "cvxpy" else {"time_limit": TIME_LIMIT}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of runs that fell short: the certificates tell
            try:
                found = problem.solve(method, gap=TARGET, **options).certificate
            except Exception:  # a method that fails leaves the others
                if method == METHODS[-1] and best is None:
                    raise
                continue
        best = found if best is None else _better(problem, best, found)
        if _strict_gap(best, problem) <= TARGET:
            break
    assert best is not None
    return best


def _better(problem: GTVMin, first: Certificate, second: Certificate) -> Certificate:
    """Of all pairs of the parameters of one and the duals of the other, that with the least gap."""
    pairs = [first, second]
    pairs += [certify(problem, a.W, duals=b.duals) for a, b in ((first, second), (second, first))]
    return min(pairs, key=lambda certificate: certificate.gap)


def _strict_gap(found: Certificate, problem: GTVMin) -> float:
    """Gap relative to the objective, or to a share of the zero model's: never to the size of the parameters."""
    return relative_gap(found.gap, found.primal, objective_floor(problem.lowered.form))
