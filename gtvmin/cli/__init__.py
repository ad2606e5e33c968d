"""The command line: ``gtvmin solve``, ``certify``, ``verify``, ``bench`` and ``list``."""

from gtvmin.cli.commands import main

__all__ = ["main"]
