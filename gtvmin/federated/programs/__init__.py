"""The convex program of each algorithm's limit: one module a family, found by :mod:`gtvmin.federated.catalogue`.

A module lists ``ENTRIES`` (its algorithms by name) and ``ROWS`` (of the table in the documentation).
"""
