"""Time to a certified gap, of this package's solvers and of others: ``python -m benchmarks --help``."""

from __future__ import annotations

import sys
from pathlib import Path

# Run from the checkout, Python looks there first and finds a gtvmin without gtvmin.solvers, whose folder is solvers/:
# the installed package has to come before it.
_root = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != _root] + [str(_root)]
