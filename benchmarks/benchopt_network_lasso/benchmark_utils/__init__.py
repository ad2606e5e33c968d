"""Instances and plain methods of the checkout that this benchmark lies in."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from benchmarks.instances import make_instance
from benchmarks.plain import Method, PlainADMM, PlainPrimalDual

__all__ = ["Method", "PlainADMM", "PlainPrimalDual", "make_instance"]
