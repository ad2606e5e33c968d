"""Limits of affine rounds without long runs, and planted faults: modules of algorithms with one line changed."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

import numpy as np

import gtvmin as gtv
from federated_problems import N, form_of, minimiser
from gtvmin.federated.operators import affine_round, pack, unpack
from gtvmin.solvers.federated.form import aggregation_weights


def planted(module: ModuleType, *changes: tuple[str, str]) -> Any:
    """The module with pieces of its source replaced; each has to be there once."""
    source = inspect.getsource(module)
    for old, new in changes:
        assert source.count(old) == 1, f"{module.__name__} has {source.count(old)} times {old!r}"
        source = source.replace(old, new)
    name = f"{module.__name__}_with_a_fault"
    faulty = ModuleType(name)
    faulty.__package__ = module.__package__
    sys.modules[name] = faulty  # dataclasses look their module up
    try:
        exec(compile(source, f"{name}.py", "exec"), faulty.__dict__)
    finally:
        del sys.modules[name]
    return faulty


def weights_of(problem: gtv.GTVMin, word: Any) -> np.ndarray:
    """Aggregation weights."""
    return aggregation_weights(form_of(problem), word)


def affine_limit(algorithm: Any, problem: gtv.GTVMin, *, invariants: int = 0, state: Any = None) -> Any:
    """The state that rounds tend to on quadratic losses; an AssertionError if they do not converge."""
    form = form_of(problem)
    state = algorithm.init(form, None) if state is None else state
    found = affine_round(algorithm, form, state)
    kept = int((np.abs(found.eigenvalues - 1.0) < 1e-8).sum())
    assert kept == invariants, f"{kept} quantities are kept, not {invariants}"
    assert found.spectral_radius(invariants) < 1 - 1e-9
    return unpack(algorithm, state, found.fixed_point(pack(algorithm, state)))


def assert_close(found: np.ndarray, expected: np.ndarray, tolerance: float = 1e-8) -> None:
    """Within an absolute tolerance, everywhere."""
    error = np.abs(np.asarray(found) - expected).max()
    assert error < tolerance, f"off by {error:.2e}"


def assert_consensus(found: np.ndarray, problem: gtv.GTVMin, word: Any) -> None:
    """The minimiser of ``sum_i p_i L_i``, by Newton's method."""
    assert_close(found, minimiser(problem, weights_of(problem, word)))


def assert_certified(problem: gtv.GTVMin, algorithm: Any, rounds: int) -> None:
    """The models of a run are certified on the algorithm's declared program."""
    run = gtv.federate(problem, algorithm, rounds=rounds, check_every=rounds)
    assert run.status is gtv.Status.COMPLETED
    assert run.program.exact
    assert run.relative_gap < 1e-10
    assert run.weights.shape[0] == N
