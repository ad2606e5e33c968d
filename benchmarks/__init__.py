"""Time to a certified gap, of this package's solvers and of others: ``python -m benchmarks --help``."""
