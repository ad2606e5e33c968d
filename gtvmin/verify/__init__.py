"""Verification of solvers: instances, certified baselines, checks and their report.

Names are loaded when first used, so that the pytest plugin costs nothing where it is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOME = {
    "BaselineWarning": "gtvmin.verify.baselines",
    "Instance": "gtvmin.verify.instances",
    "assert_certified": "gtvmin.verify.assertion",
    "baseline": "gtvmin.verify.baselines",
    "cache_folder": "gtvmin.verify.baselines",
    "suite": "gtvmin.verify.instances",
    "suites": "gtvmin.verify.instances",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from gtvmin.verify.instances import Instance as Instance
    from gtvmin.verify.instances import suite as suite
    from gtvmin.verify.instances import suites as suites


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'gtvmin.verify' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
